//! Guests in TypeScript: the npm workspace `plugins`, with the kit in it.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use anyhow::{Context, Result};

use super::Built;
use crate::{node::Node, sh, tools::Environment};

/// Builds the plugins `names` of `plugins/typescript`.
pub(super) fn build(names: &[String]) -> Result<Vec<Built>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let node = Node::find()?;
    node.install(&workspace())?;
    let kit = newest(&[kit(), sh::root().join("wit"), workspace().join("package-lock.json")])?;
    let mut built = Vec::new();
    for name in names {
        let folder = plugin(name);
        let component = sh::root().join("target/guest-build-typescript").join(format!("{name}.wasm"));
        // As with make: a component that is newer than all that it is made of is the one.
        let made = fs::metadata(&component).and_then(|m| m.modified()).ok();
        if made.is_none_or(|made| made < kit) || made < Some(newest(std::slice::from_ref(&folder))?) {
            let mut script = Command::new(node.program());
            script.arg(kit_script()).arg(format!("{name}.ts")).arg("--out").arg(&component);
            script.arg("--wit").arg(sh::root().join("wit")).current_dir(&folder);
            sh::run(&format!("typescript/{name}"), &mut script)?;
        }
        built.push(Built { name: name.clone(), component });
    }
    Ok(built)
}

/// The unit tests of plugins and their kit, outside the sandbox, after a check of all types.
pub(super) fn test(filter: Option<&str>) -> Result<()> {
    let node = Node::find()?;
    node.install(&workspace())?;
    let mut folders = vec![kit()];
    folders.extend(super::Language::Typescript.plugins()?.iter().map(|name| plugin(name)));
    for folder in folders {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut check = Command::new(node.program());
        check.arg(workspace().join("node_modules/typescript/bin/tsc")).current_dir(&folder);
        sh::run(&format!("types of {name}"), &mut check)?;
        let mut test = Command::new(node.program());
        test.arg("--test");
        if let Some(filter) = filter {
            test.arg(format!("--test-name-pattern={filter}"));
        }
        test.arg("**/*.test.ts").current_dir(&folder);
        sh::run(&format!("tests of {name}"), &mut test)?;
    }
    Ok(())
}

/// What makes the language's ordinary tools work; installs them where they are missing.
pub(super) fn environment() -> Result<Environment> {
    let node = Node::find()?;
    let Some(programs) = node.npm_programs() else { return Ok(Environment::default()) };
    // The wheel's own scripts for npm look for it where it is not.
    let shims = sh::root().join("target/tools/npm");
    fs::create_dir_all(&shims)?;
    let word = |path: &Path| sh::quoted(&path.to_string_lossy());
    for name in ["npm", "npx"] {
        let program = programs.join(format!("{name}-cli.js"));
        let script = format!("#!/bin/sh\nexec {} {} \"$@\"\n", word(node.program()), word(&program));
        write_program(&shims.join(name), &script)?;
    }
    let folder = node.program().parent().map(Path::to_owned);
    Ok(Environment { path: std::iter::once(shims).chain(folder).collect(), variables: Vec::new() })
}

/// The folder of `package-lock.json` and `node_modules`.
fn workspace() -> PathBuf {
    sh::root().join("plugins")
}

fn kit() -> PathBuf {
    workspace().join("sdk/typescript")
}

fn kit_script() -> PathBuf {
    kit().join("build.mjs")
}

fn plugin(name: &str) -> PathBuf {
    workspace().join("typescript").join(name)
}

/// When the youngest of these files, and of all in these folders, was written.
fn newest(paths: &[PathBuf]) -> Result<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    for path in paths {
        let told = || format!("cannot read {}", path.display());
        let metadata = fs::metadata(path).with_context(told)?;
        newest = newest.max(metadata.modified().with_context(told)?);
        if metadata.is_dir() && path.file_name().is_none_or(|name| name != "node_modules") {
            let entries = fs::read_dir(path).with_context(told)?;
            let inside = entries.map(|entry| entry.map(|entry| entry.path()));
            let inside = inside.collect::<std::io::Result<Vec<_>>>().with_context(told)?;
            newest = newest.max(self::newest(&inside)?);
        }
    }
    Ok(newest)
}

#[cfg(unix)]
fn write_program(path: &Path, text: &str) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

#[cfg(not(unix))]
fn write_program(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
