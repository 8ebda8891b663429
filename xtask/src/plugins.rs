//! Building what runs inside the sandbox.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::sh;

mod compiler;

use compiler::Compiler;

/// Guests that only tests and the benchmark use: they go to `target/guests`, so that
/// `target/plugins` can be served as it is.
const TEST_GUESTS: [&str; 4] = ["chameleon", "echo", "echo-minimal", "probe"];

/// Guests without the standard library: built apart from the others, or cargo would give them the
/// features of their shared dependencies that need it.
const NO_STD: [&str; 1] = ["echo-minimal"];

/// Folders that the policy files grant, beside `target/plugins`; there is nothing to grant in a
/// folder that does not exist.
const GRANTED: [&str; 3] = ["library", "library-index", "tidy"];

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these, by the names of their folders in `plugins/rust`.
    names: Vec<String>,
}

impl Args {
    /// All of them.
    pub(crate) fn all() -> Self {
        Self { names: Vec::new() }
    }
}

/// Where `cargo xtask plugins` puts the plugins that can be served.
pub(crate) fn plugins_dir() -> PathBuf {
    sh::root().join("target/plugins")
}

/// Where it puts those for tests and the benchmark.
pub(crate) fn guests_dir() -> PathBuf {
    sh::root().join("target/guests")
}

/// Builds these alone.
pub(crate) fn build(names: &[&str]) -> Result<()> {
    run(Args { names: names.iter().map(|name| (*name).to_owned()).collect() })
}

pub(crate) fn run(args: Args) -> Result<()> {
    let all = guests()?;
    for name in &args.names {
        ensure!(all.contains(name), "there is no plugin `{name}`; there are {}", all.join(", "));
    }
    let wanted: Vec<_> =
        all.into_iter().filter(|name| args.names.is_empty() || args.names.contains(name)).collect();
    let compiler = Compiler::find()?;
    let (no_std, std): (Vec<_>, Vec<_>) = wanted.iter().partition(|name| NO_STD.contains(&name.as_str()));
    for (what, packages) in [("plugins", std), ("plugins without std", no_std)] {
        if !packages.is_empty() {
            let mut build = compiler.cargo_build();
            packages.iter().for_each(|name| {
                build.args(["--package", name]);
            });
            sh::run(what, &mut build)?;
        }
    }
    for name in &wanted {
        install(name, &compiler.output_dir())?;
    }
    if args.names.is_empty() {
        forget(&plugins_dir(), &wanted)?;
        forget(&guests_dir(), &wanted)?;
    }
    for folder in GRANTED {
        fs::create_dir_all(sh::root().join("target").join(folder))?;
    }
    Ok(())
}

/// The names of all guests: the folders of `plugins/rust`.
fn guests() -> Result<Vec<String>> {
    let folder = sh::root().join("plugins/rust");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").exists() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn install(name: &str, built: &Path) -> Result<()> {
    let to = if TEST_GUESTS.contains(&name) { guests_dir() } else { plugins_dir() };
    fs::create_dir_all(&to)?;
    let component = built.join(format!("{}.wasm", name.replace('-', "_")));
    copy(&component, &to.join(format!("{name}.wasm")))?;
    let policy = sh::root().join("plugins/rust").join(name).join(format!("{name}.toml"));
    if policy.exists() {
        copy(&policy, &to.join(format!("{name}.toml")))?;
    }
    Ok(())
}

/// Copies a file whose contents differ, by an atomic rename: a host may be watching the folder.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let new = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if fs::read(to).is_ok_and(|old| old == new) {
        return Ok(());
    }
    let temporary = to.with_extension("tmp");
    fs::write(&temporary, &new).with_context(|| format!("cannot write {}", temporary.display()))?;
    fs::rename(&temporary, to).with_context(|| format!("cannot write {}", to.display()))
}

/// Removes what a guest that is no more has left.
fn forget(folder: &Path, names: &[String]) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let ours = path.extension().is_some_and(|e| e == "wasm" || e == "toml");
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if ours && !names.iter().any(|name| *name == stem) {
            fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
    }
    Ok(())
}

/// What a command prints, trimmed; nothing where it fails.
fn output_of(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
