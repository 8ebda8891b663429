//! What a component file says of itself: imports, exports, and the tools that made it.

use std::collections::{BTreeMap, BTreeSet};

use wasmparser::{Encoding, KnownCustom, Parser, Payload};

/// What the bytes say of themselves.
#[derive(Debug, Default)]
pub(super) struct Anatomy {
    pub(super) component: bool,
    pub(super) imports: Vec<String>,
    pub(super) exports: Vec<String>,
    /// `language`, `processed-by`, `sdk` of the producers sections, over all modules inside.
    pub(super) producers: BTreeMap<String, BTreeSet<String>>,
}

impl Anatomy {
    /// True where it imports all that the world `standard` adds: then its kit does, whatever its tools use.
    pub(super) fn is_standard(&self) -> bool {
        ["wasi:config/store@0.2.0-draft", "wasi:logging/logging@0.1.0-draft"]
            .iter()
            .all(|name| self.imports.iter().any(|import| import == name))
    }
}

/// Reads `bytes`.
///
/// # Errors
/// No WebAssembly.
pub(super) fn anatomy(bytes: &[u8]) -> wasmparser::Result<Anatomy> {
    let mut found = Anatomy::default();
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { encoding, .. } => {
                if depth == 0 {
                    found.component = encoding == Encoding::Component;
                }
                depth += 1;
            }
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    found.imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    found.exports.push(export?.name.name.to_owned());
                }
            }
            Payload::CustomSection(section) => {
                if let KnownCustom::Producers(fields) = section.as_known() {
                    for field in fields {
                        let field = field?;
                        let values = found.producers.entry(field.name.to_owned()).or_default();
                        for value in field.values {
                            let value = value?;
                            values.insert(format!("{} {}", value.name, value.version).trim().to_owned());
                        }
                    }
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// What builds an interpreter and a program for it into one component. Its own languages are the interpreter's:
/// what built it says more.
const INTERPRETERS: [(&str, &str); 3] =
    [("ComponentizeJS", "JavaScript"), ("componentize-py", "Python"), ("component-init-transform", "Python")];

/// The first of `marks` that a tool left in the file.
fn left<'a>(anatomy: &Anatomy, marks: &[(&'a str, &'a str)]) -> Option<(&'a str, &'a str)> {
    let has = |mark: &str| anatomy.producers.values().flatten().any(|value| value.starts_with(mark));
    marks.iter().find(|(mark, _)| has(mark)).copied()
}

/// The tool that put an interpreter into the file, if one did.
pub(super) fn interpreter(anatomy: &Anatomy) -> Option<&'static str> {
    left(anatomy, &INTERPRETERS).map(|(mark, _)| mark)
}

/// The source language: as the producers section has it, else by the tools that left their names.
/// (Rust's own entry goes when symbols are stripped; its bindings' stays.)
pub(super) fn language(anatomy: &Anatomy) -> String {
    const BINDINGS: [(&str, &str); 4] = [
        ("wit-bindgen-go", "Go"),
        ("Go", "Go"),
        ("wit-bindgen-rust", "Rust"),
        // Last: the SDKs of other languages use it, too.
        ("wit-bindgen-c", "C"),
    ];
    let by = |marks: &[(&str, &str)]| {
        let (mark, language) = left(anatomy, marks)?;
        Some(format!("{language} (by {mark})"))
    };
    let named = || Some(anatomy.producers.get("language")?.iter().cloned().collect::<Vec<_>>().join(", "));
    by(&INTERPRETERS).or_else(named).or_else(|| by(&BINDINGS)).unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_anatomy_of_a_component_is_read() {
        let bytes = wat::parse_str(
            r#"(component
                 (import "wasi:cli/environment@0.2.0" (instance))
                 (core module (@producers (language "Rust" "1.95") (processed-by "rustc" "1.95")))
                 (component $inner (import "hidden" (func)))
                 (export "run" (component $inner)))"#,
        )
        .unwrap();
        let found = anatomy(&bytes).unwrap();
        assert!(found.component);
        assert_eq!(found.imports, ["wasi:cli/environment@0.2.0"]);
        assert_eq!(found.exports, ["run"]);
        assert_eq!(found.producers["language"].iter().collect::<Vec<_>>(), ["Rust 1.95"]);
        assert_eq!(language(&found), "Rust 1.95");
        let stripped = Anatomy {
            producers: BTreeMap::from([(
                "processed-by".into(),
                BTreeSet::from(["wit-bindgen-rust 0.61.1".into()]),
            )]),
            ..Anatomy::default()
        };
        assert_eq!(language(&stripped), "Rust (by wit-bindgen-rust)");
        assert_eq!(language(&Anatomy::default()), "unknown");
    }

    #[test]
    fn a_core_module_and_noise_are_told_apart() {
        assert!(!anatomy(&wat::parse_str("(module)").unwrap()).unwrap().component);
        assert!(anatomy(b"no wasm at all").is_err());
    }
}
