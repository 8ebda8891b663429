//! Guests in Rust: the workspace `plugins`.

use std::process::Command;

use anyhow::{Result, ensure};

use super::{Built, compiler::Compiler};
use crate::{node::cargo, sh, tools::Environment};

/// Guests without the standard library: built apart from the others, or cargo would give them the
/// features of their shared dependencies that need it.
const NO_STD: [&str; 2] = ["contract", "echo-minimal"];

/// Builds the plugins `names` of `plugins/rust`.
pub(super) fn build(names: &[String]) -> Result<Vec<Built>> {
    let compiler = Compiler::find()?;
    let (no_std, std): (Vec<_>, Vec<_>) = names.iter().partition(|name| NO_STD.contains(&name.as_str()));
    for (what, packages) in [("plugins in Rust", std), ("plugins without std", no_std)] {
        if !packages.is_empty() {
            let mut build = compiler.cargo_build();
            packages.iter().for_each(|name| {
                build.args(["--package", name]);
            });
            sh::run(what, &mut build)?;
        }
    }
    let component = |name: &String| compiler.output_dir().join(format!("{}.wasm", name.replace('-', "_")));
    Ok(names.iter().map(|name| Built { name: name.clone(), component: component(name) }).collect())
}

/// The unit tests of plugins and their kit, outside the sandbox.
pub(super) fn test(filter: Option<&str>) -> Result<()> {
    let manifest = sh::root().join("plugins/Cargo.toml");
    ensure!(manifest.exists(), "{} is missing", manifest.display());
    let mut test: Command = cargo();
    test.args(["test", "--locked", "--workspace", "--lib", "--manifest-path"]).arg(manifest);
    // Without the standard library there is no test harness.
    test.args(NO_STD.iter().flat_map(|name| ["--exclude", name]));
    test.arg("--target-dir").arg(sh::root().join("target/sdk-tests")).args(filter);
    sh::run("the tests of the plugins in Rust", &mut test)
}

/// What makes a plain `cargo build --release --target wasm32-wasip2` work.
pub(super) fn environment() -> Result<Environment> {
    Compiler::find()?.environment()
}
