//! Lists what `layby new` writes, so that it is inside the binary: templates, kits and the WIT.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // A build stops here, with the reason.

use std::{
    env,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// Where the files come from, and the first part of their names in the binary.
const SOURCES: [(&str, &str); 3] = [("templates", "template"), ("../plugins/sdk", "kit"), ("../wit", "wit")];

/// Folders that tools leave behind.
const LEFT: [&str; 3] = ["node_modules", "target", "__pycache__"];

/// What a project has no use for: what tools leave behind, hidden folders, and a kit's own tests.
fn skipped(name: &str, folder: bool, template: bool) -> bool {
    let test = |mark: &[&str]| !template && mark.iter().any(|m| name.contains(m));
    if folder {
        name.starts_with('.') || LEFT.contains(&name) || (!template && ["test", "tests"].contains(&name))
    } else {
        (!template && (name.starts_with('.') || name.starts_with("test_")))
            || test(&["_test.", ".test."])
            || name.ends_with(".pyc")
    }
}

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let mut files = Vec::new();
    for (folder, name) in SOURCES {
        walk(&here.join(folder), name, &mut files);
    }
    files.sort();
    let mut table = String::from("&[\n");
    for (name, path) in &files {
        println!("cargo::rerun-if-changed={}", path.display());
        writeln!(table, "    ({name:?}, include_bytes!({:?})),", path.to_str().expect("a path in UTF-8"))
            .expect("a string takes all");
    }
    table.push_str("]\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("scaffold.rs"), table).expect("the build's folder can be written");
    println!("cargo::rerun-if-changed=build.rs");
}

/// Adds all files under `folder`; tells whether nothing was skipped. Cargo watches a folder with
/// everything in it, so only one without skipped parts is given to it: tools work in those.
fn walk(folder: &Path, name: &str, files: &mut Vec<(String, PathBuf)>) -> bool {
    let mut clean = true;
    let template = name.starts_with("template");
    for entry in fs::read_dir(folder).expect("the folder is in the repository") {
        let path = entry.expect("the folder can be listed").path();
        let own = path.file_name().and_then(|n| n.to_str()).expect("a name in UTF-8");
        let inner = format!("{name}/{own}");
        if skipped(own, path.is_dir(), template) {
            clean = false;
        } else if path.is_dir() {
            clean &= walk(&path, &inner, files);
        } else {
            files.push((inner, path));
        }
    }
    if clean {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    clean
}
