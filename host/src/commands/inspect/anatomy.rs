//! What a component file says of itself: imports, exports, and the tools that made it.

use std::collections::{BTreeMap, BTreeSet};

use wasmparser::{CustomSectionReader, Encoding, KnownCustom, Name, Parser, Payload};

/// What the bytes say of themselves.
#[derive(Debug, Default)]
pub(super) struct Anatomy {
    pub(super) component: bool,
    pub(super) imports: Vec<String>,
    pub(super) exports: Vec<String>,
    /// `language`, `processed-by`, `sdk` of the producers sections, over all modules inside but adapters.
    pub(super) producers: Producers,
}

impl Anatomy {
    /// True where it imports all that the world `standard` adds: then its kit does, whatever its tools use.
    pub(super) fn is_standard(&self) -> bool {
        ["wasi:config/store@0.2.0-draft", "wasi:logging/logging@0.1.0-draft"]
            .iter()
            .all(|name| self.imports.iter().any(|import| import == name))
    }
}

type Producers = BTreeMap<String, BTreeSet<String>>;

/// A module or component within the file, while it is read.
#[derive(Default)]
struct Part {
    producers: Producers,
    adapter: bool,
}

/// What begins the name of an adapter from WASI's preview 1 (or another), as wit-component gives it.
const ADAPTER: &str = "wit-component:adapter:";
/// Functions of WASI's preview 1. A program imports some of them; only an adapter exports them.
const PREVIEW1: [&str; 8] = [
    "clock_time_get",
    "environ_get",
    "fd_close",
    "fd_fdstat_get",
    "fd_read",
    "fd_write",
    "proc_exit",
    "random_get",
];

/// Reads `bytes`.
///
/// # Errors
/// No WebAssembly.
pub(super) fn anatomy(bytes: &[u8]) -> wasmparser::Result<Anatomy> {
    let mut found = Anatomy::default();
    let mut open: Vec<Part> = Vec::new();
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { encoding, .. } => {
                if open.is_empty() {
                    found.component = encoding == Encoding::Component;
                }
                open.push(Part::default());
            }
            Payload::End(_) => {
                // What made the adapter is nothing of the program's.
                for (field, values) in
                    open.pop().filter(|part| !part.adapter).into_iter().flat_map(|p| p.producers)
                {
                    found.producers.entry(field).or_default().extend(values);
                }
            }
            Payload::ComponentImportSection(section) if open.len() == 1 => {
                for import in section {
                    found.imports.push(import?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if open.len() == 1 => {
                for export in section {
                    found.exports.push(export?.name.name.to_owned());
                }
            }
            Payload::ExportSection(section) => {
                for export in section {
                    let is = PREVIEW1.contains(&export?.name);
                    open.last_mut().into_iter().for_each(|part| part.adapter |= is);
                }
            }
            Payload::CustomSection(section) => {
                if let Some(part) = open.last_mut() {
                    part.custom(&section)?;
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

impl Part {
    fn custom(&mut self, section: &CustomSectionReader<'_>) -> wasmparser::Result<()> {
        match section.as_known() {
            KnownCustom::Producers(fields) => {
                for field in fields {
                    let field = field?;
                    let values = self.producers.entry(field.name.to_owned()).or_default();
                    for value in field.values {
                        let value = value?;
                        values.insert(format!("{} {}", value.name, value.version).trim().to_owned());
                    }
                }
            }
            KnownCustom::Name(names) => {
                // A name that cannot be read is none.
                for name in names.into_iter().map_while(Result::ok) {
                    if let Name::Module { name, .. } = name {
                        self.adapter |= name.starts_with(ADAPTER);
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
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
    fn an_adapters_language_is_not_the_programs() {
        let rust = r#"(@producers (language "Rust" "") (processed-by "rustc" "1.97"))"#;
        for adapter in [
            format!("(core module $wit-component:adapter:wasi_snapshot_preview1 {rust})"),
            format!("(core module {rust} (func (export \"fd_write\")))"),
        ] {
            let read = |program: &str| {
                anatomy(&wat::parse_str(format!("(component (core module {program}) {adapter})")).unwrap())
                    .unwrap()
            };
            let c = read(r#"(@producers (language "C11" "") (processed-by "clang" "14"))"#);
            assert_eq!(language(&c), "C11");
            assert_eq!(c.producers["processed-by"].iter().collect::<Vec<_>>(), ["clang 14"]);
            assert_eq!(language(&read("")), "unknown");
            let bound = read(r#"(@producers (processed-by "wit-bindgen-c" "0.60"))"#);
            assert_eq!(language(&bound), "C (by wit-bindgen-c)");
        }
    }

    #[test]
    fn a_core_module_and_noise_are_told_apart() {
        assert!(!anatomy(&wat::parse_str("(module)").unwrap()).unwrap().component);
        assert!(anatomy(b"no wasm at all").is_err());
    }
}
