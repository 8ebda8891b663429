//! Puts what `layby new` writes into the binary: templates, kits and the WIT.

#![allow(clippy::expect_used, clippy::print_stdout)] // A build stops here, with the reason.

use std::{env, fmt::Write as _, fs, path::PathBuf};

#[path = "src/commands/new/source.rs"]
mod source;

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let found = source::find(&here).expect("the repository has templates, kits and the WIT");
    let mut table = String::from("&[\n");
    for (name, path) in &found.files {
        let path = path.to_str().expect("a path in UTF-8");
        println!("cargo::rerun-if-changed={path}");
        writeln!(table, "    ({name:?}, include_bytes!({path:?})),").expect("a string takes all");
    }
    table.push_str("]\n");
    // Cargo watches a folder with everything in it, and tools work in those of which parts are skipped.
    for folder in &found.whole {
        println!("cargo::rerun-if-changed={}", folder.display());
    }
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    fs::write(out.join("scaffold.rs"), table).expect("the build's folder can be written");
}
