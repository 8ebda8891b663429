//! Python's clients, each in a virtual environment of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::sh;

/// Where environments lie: `target/tools/NAME`.
pub(crate) fn folder(name: &str) -> PathBuf {
    sh::root().join("target/tools").join(name)
}

/// Makes the environment `name` with exactly the packages of the file `requirements`, or finds that it has them.
pub(crate) fn install(name: &str, requirements: &Path) -> Result<()> {
    let wanted = fs::read_to_string(requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let folder = folder(name);
    // Written last, so it tells what is there whole.
    let done = folder.join("installed.txt");
    if fs::read_to_string(&done).is_ok_and(|there| there == wanted) {
        return Ok(());
    }
    make(&folder)?;
    let mut pip = Command::new(folder.join("bin/pip"));
    // The file names every package, those that others need too.
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--requirement"]);
    sh::run(&format!("Python's packages for {name}"), pip.arg(requirements))?;
    fs::write(&done, wanted).with_context(|| format!("cannot write {}", done.display()))
}

/// Makes an empty environment.
fn make(folder: &Path) -> Result<()> {
    let venv = || {
        let mut command = Command::new("python3");
        command.args(["-m", "venv", "--clear"]).arg(folder);
        command
    };
    if sh::output_of(&mut venv()).is_none() {
        bail!("python3 cannot make a virtual environment: run `cargo xtask test`, or install python3-venv");
    }
    Ok(())
}

/// Installs Python's `venv` where it is missing. Not for several threads at once: apt has one lock.
pub(crate) fn ensure_venv() -> Result<()> {
    let works =
        |module: &str| sh::output_of(Command::new("python3").args(["-c", &format!("import {module}")]));
    // Debian's python3 has `venv` without what it needs: `ensurepip` is the part that is missing.
    if works("venv, ensurepip").is_some() {
        return Ok(());
    }
    sh::apt(&["python3-venv"]).unwrap_or_else(|| {
        bail!("python3 with venv is missing, and this system has no apt-get: install it by hand")
    })
}
