//! What the documents promise, against the source.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The host's source without its tests: path and text.
fn sources(folder: &Path, all: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "tests" {
                sources(&path, all);
            }
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            let text = fs::read_to_string(&path).unwrap();
            // Unit tests stand at the end of a file.
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned();
            all.push((path, code));
        }
    }
}

/// Where a code is made: the first string after it is the code.
const MAKERS: [&str; 14] = [
    "Fault::invalid(",
    "Fault::internal(",
    "Fault::new(",
    "tool_error(",
    "Problem::new(",
    "Self::new(\"",
    "Failure::usage(",
    "Failure::refused(",
    "Failure::unreachable(",
    "Failure::new(",
    "Self::usage(",
    "const CODE: &str = ",
    "=> \"limit_",
    "=> \"store_",
];

fn is_code(text: &str) -> bool {
    text.len() > 3 && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// The codes that this source makes.
fn made(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for maker in MAKERS {
        for (at, _) in code.match_indices(maker) {
            let from = at + maker.find('"').unwrap_or(maker.len());
            let near = &code[from..code.ceil_char_boundary((from + 160).min(code.len()))];
            let mut parts = near.split('"').skip(1);
            if let Some(literal) = parts.next().filter(|text| is_code(text)) {
                found.insert(literal.to_owned());
            }
        }
    }
    found
}

#[test]
fn every_error_code_is_documented_and_every_documented_code_exists() {
    let docs = fs::read_to_string(root().join("docs/errors.md")).unwrap();
    let mut documented = BTreeSet::new();
    for line in docs.lines().filter(|line| line.starts_with("- `")) {
        let names = line.split("`: ").next().unwrap_or_default();
        documented.extend(names.split('`').filter(|name| is_code(name)).map(str::to_owned));
    }
    let mut all = Vec::new();
    sources(&root().join("host/src"), &mut all);
    let mut missing: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (path, code) in &all {
        for name in made(code) {
            if !documented.contains(&name) {
                missing.insert(name, path.clone());
            }
        }
    }
    let unused: Vec<&String> = documented
        .iter()
        .filter(|name| !all.iter().any(|(_, code)| code.contains(&format!("\"{name}\""))))
        .collect();
    assert!(missing.is_empty(), "docs/errors.md lacks these codes: {missing:#?}");
    assert!(unused.is_empty(), "docs/errors.md has codes that the host does not: {unused:?}");
    assert!(documented.len() > 50, "{documented:?}");
}

/// Every option of the configuration stands in its document.
#[test]
fn every_key_is_documented() {
    let docs = fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let mut all = Vec::new();
    sources(&root().join("host/src/config"), &mut all);
    for (path, code) in all {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !matches!(name.as_str(), "host.rs" | "policy.rs" | "catalog.rs" | "dev.rs") {
            continue;
        }
        for line in code.lines().filter(|line| line.starts_with("    pub ") && !line.contains('(')) {
            let Some((key, _)) = line.trim().trim_start_matches("pub ").split_once(':') else { continue };
            if key.starts_with("const ") {
                continue;
            }
            let key = key.replace('_', "-");
            assert!(docs.contains(&key), "docs/configuration.md does not name `{key}` of {name}");
        }
    }
}

#[test]
fn every_test_that_security_names_is_there() {
    let text = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all");
    let named: Vec<&str> =
        text.split('`').filter(|word| word.contains("::") && !word.contains(' ')).collect();
    assert!(named.len() > 25, "{named:?}");
    let lacks = |path: &&&str| {
        let (place, test) = path.rsplit_once("::").unwrap();
        let file = tests.join(place.replace("::", "/"));
        let files = [file.with_extension("rs"), file.join("mod.rs")];
        let source: String = files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
        !source.contains(&format!("fn {test}("))
    };
    let lacking: Vec<_> = named.iter().filter(lacks).collect();
    assert!(lacking.is_empty(), "docs/security.md names tests that are not there: {lacking:?}");
}
