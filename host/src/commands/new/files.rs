//! What a project consists of: a language's template and kit, the WIT, and the policy.

use std::{borrow::Cow, collections::BTreeMap};

use super::{Lang, name};

/// What `source` finds, as `build.rs` put it here.
const EMBEDDED: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/scaffold.rs"));

/// What a language's project has of its kit.
struct Kit {
    /// The part of `plugins/sdk` that is copied: a folder, or one file.
    from: &'static str,
    /// Where it goes in the project.
    to: &'static str,
    /// A text in a file that must be another one there.
    edit: Option<(&'static str, &'static str, &'static str)>,
    /// Its linker makes a core module, which an adapter turns into a component.
    adapter: bool,
}

impl Lang {
    fn kit(self) -> Kit {
        let kit = |from, to| Kit { from, to, edit: None, adapter: false };
        match self {
            Self::Rust => Kit {
                // The WIT is beside the kit there.
                edit: Some(("layby-plugin/src/bindings.rs", "../../../wit", "../wit")),
                ..kit("rust/", "layby-plugin/")
            },
            Self::Python => kit("python/layby/", "layby/"),
            Self::Typescript => kit("typescript/", "layby/"),
            Self::Go => Kit { adapter: true, ..kit("go/", "layby/") },
            Self::C => Kit { adapter: true, ..kit("c/layby.h", "layby.h") },
        }
    }
}

/// The files of a new project by their path in it.
pub(super) type Files = BTreeMap<String, Cow<'static, [u8]>>;

/// The files of the project `name`, or nothing where this binary has no template of the language.
pub(super) fn files(lang: Lang, name: &str) -> Option<Files> {
    let mut files = Files::new();
    let template = format!("template/{}/", lang.name());
    for (path, bytes) in under(&template) {
        let path = fill(path.strip_suffix(".tmpl").unwrap_or(&path), name);
        let bytes = match std::str::from_utf8(&bytes) {
            Ok(text) => Cow::Owned(fill(text, name).into_bytes()),
            Err(_) => bytes,
        };
        files.insert(path, bytes);
    }
    if files.is_empty() {
        return None;
    }
    let kit = lang.kit();
    for (path, bytes) in under(&format!("kit/{}", kit.from)) {
        let to = format!("{}{path}", kit.to);
        let bytes = match kit.edit {
            Some((file, old, new)) if file == to => {
                Cow::Owned(String::from_utf8_lossy(&bytes).replace(old, new).into_bytes())
            }
            _ => bytes,
        };
        files.insert(to, bytes);
    }
    files.extend(under("wit/").into_iter().map(|(path, bytes)| (format!("wit/{path}"), bytes)));
    files.insert(format!("{name}.toml"), Cow::Owned(fill(policy(), name).into_bytes()));
    if kit.adapter {
        use wasi_preview1_component_adapter_provider::{
            WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as ADAPTER,
        };
        files.insert(format!("{NAME}.reactor.wasm"), Cow::Borrowed(ADAPTER));
    }
    Some(files)
}

/// The policy file of every new plugin, with its placeholders.
fn policy() -> &'static str {
    include_str!("../../../templates/policy.toml.tmpl")
}

/// Embedded files whose name begins with `prefix`, without it.
fn under(prefix: &str) -> Vec<(String, Cow<'static, [u8]>)> {
    let all = |name: &str, bytes| Some((name.strip_prefix(prefix)?.to_owned(), bytes));
    #[cfg(feature = "test-hooks")]
    if let Some(found) = elsewhere() {
        return found.into_iter().filter_map(|(name, bytes)| all(&name, Cow::Owned(bytes))).collect();
    }
    EMBEDDED.iter().filter_map(|(name, bytes)| all(name, Cow::Borrowed(*bytes))).collect()
}

/// The files of a clone that is not built: `LAYBY_TEST_NEW` is its folder `host`. So a template can be written
/// without a compiler for the host.
#[cfg(feature = "test-hooks")]
fn elsewhere() -> Option<Vec<(String, Vec<u8>)>> {
    let found = super::source::find(std::path::Path::new(&std::env::var_os("LAYBY_TEST_NEW")?)).ok()?;
    let read = |(name, path)| Some((name, std::fs::read(path).ok()?));
    found.files.into_iter().map(read).collect()
}

fn fill(text: &str, name: &str) -> String {
    text.replace("{{name}}", name)
        .replace("{{name_snake}}", &name::snake(name))
        .replace("{{name_pascal}}", &name::pascal(name))
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
