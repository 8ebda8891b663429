//! The OCI registry that tests publish to, from Debian's packages. It is unpacked and not installed: its package would start
//! a server for the whole network, for which tests have no use.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, bail, ensure};

use crate::{python, sh};

/// Debian's name of the package, and of its program.
const NAME: &str = "docker-registry";

/// Makes sure that tests find it, in the PATH or in `target/tools`.
pub(crate) fn install() -> Result<()> {
    let works = |program: &std::path::Path| sh::output_of(Command::new(program).arg("--version")).is_some();
    let folder = python::folder(NAME);
    let program = folder.join("usr/bin").join(NAME);
    if works(NAME.as_ref()) || works(&program) {
        return Ok(());
    }
    if sh::output_of(Command::new("apt-get").arg("--version")).is_none() {
        bail!("{NAME} is missing, and this system has no apt-get: install it");
    }
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut download = Command::new("apt-get");
    download.args(["download", "--quiet=2", NAME]).current_dir(&folder);
    // Without a list of packages it knows none.
    if sh::output_of(&mut download).is_none() {
        sh::run("apt-get update", Command::new("apt-get").args(["update", "--quiet=2"]))?;
        sh::run(&format!("the package {NAME}"), &mut download)?;
    }
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "deb") {
            let mut unpack = Command::new("dpkg-deb");
            sh::run(&format!("unpacking {NAME}"), unpack.arg("--extract").arg(&path).arg(&folder))?;
        }
    }
    ensure!(works(&program), "{} does not run", program.display());
    Ok(())
}
