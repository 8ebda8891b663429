//! A compiler for `wasm32-wasip2`: rustup's where it has the target, and otherwise Debian's, which
//! carries the source of the standard library.

use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use super::output_of;
use crate::{sh, tools::Environment};

const TARGET: &str = "wasm32-wasip2";

/// Debian's packages: a compiler of the `-web` line, which follows upstream's releases, its
/// standard library's source, the linker, and the C library that the standard library stands on.
const PACKAGES: [&str; 5] = ["rustc-web", "cargo-web", "rust-web-src", "rust-web-llvm", "wasi-libc"];
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_WASI_LIBC: &str = "/usr/lib/wasm32-wasi/libc.a";

/// What turns the workspace `plugins` into components.
pub(super) enum Compiler {
    /// rustup's, with its own standard library for the target.
    Rustup,
    /// Debian's, driven by rustup's cargo, with the standard library built from source.
    Debian {
        /// rustup's folder of linkers.
        linkers: PathBuf,
    },
}

impl Compiler {
    /// Finds a compiler; where there is none, installs one.
    pub(super) fn find() -> Result<Self> {
        let sysroot = output_of(Command::new("rustc").args(["--print", "sysroot"]))
            .map(PathBuf::from)
            .context("there is no rustc: install Rust with rustup")?;
        if sysroot.join("lib/rustlib").join(TARGET).exists() || add_target(&sysroot) {
            return Ok(Self::Rustup);
        }
        if !debian_has_all() {
            install()?;
        }
        let host = output_of(Command::new("rustc").args(["--print", "host-tuple"]))
            .context("cannot ask rustc for the host's name")?;
        let linkers = sysroot.join("lib/rustlib").join(host).join("bin");
        let linker = linkers.join("wasm-component-ld");
        ensure!(linker.exists(), "{} is missing: reinstall Rust with rustup", linker.display());
        Ok(Self::Debian { linkers })
    }

    /// `cargo build` of the workspace `plugins`, without its packages.
    pub(super) fn cargo_build(&self) -> Command {
        // The cargo that runs this chore. Its other variables are of no use to another workspace.
        let mut cargo = crate::node::cargo();
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_")
                || text.starts_with("CARGO_MANIFEST_")
                || text.ends_with("RUSTFLAGS")
            {
                cargo.env_remove(&name);
            }
        }
        let manifest = sh::root().join("plugins/Cargo.toml");
        cargo.args(["build", "--quiet", "--release", "--locked", "--target", TARGET]);
        cargo.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(self.target_dir());
        // A path that cannot be joined is one that cannot be searched either.
        let _ = self.for_guests().apply(&mut cargo);
        cargo
    }

    /// What makes a plain `cargo build --release --target wasm32-wasip2` work, and `cargo test` as ever: where
    /// the compiler for the target is another one, a `cargo` that goes to it for that target alone.
    pub(super) fn environment(&self) -> Result<Environment> {
        let environment = self.for_guests();
        if environment.variables.is_empty() {
            return Ok(environment);
        }
        let mut script = format!("#!/bin/sh\ncase \" $* \" in *' {TARGET} '*|*'={TARGET} '*)\n");
        let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
        for (name, value) in &environment.variables {
            script.push_str(&format!("export {name}={}\n", quoted(&value.to_string_lossy())));
        }
        for folder in &environment.path {
            script.push_str(&format!("PATH={}:$PATH\n", quoted(&folder.to_string_lossy())));
        }
        let cargo = crate::node::cargo();
        script
            .push_str(&format!(";;\nesac\nexec {} \"$@\"\n", quoted(&cargo.get_program().to_string_lossy())));
        let folder = sh::root().join("target/tools/rust");
        fs::create_dir_all(&folder)?;
        let folder = folder.canonicalize()?;
        let program = folder.join("cargo");
        if fs::read_to_string(&program).is_ok_and(|old| old == script) {
            return Ok(Environment { path: vec![folder], ..Environment::default() });
        }
        // By a renaming: another chore may be running the old one.
        let new = folder.join("cargo.new");
        fs::write(&new, script)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
        fs::rename(new, program)?;
        Ok(Environment { path: vec![folder], ..Environment::default() })
    }

    /// What cargo needs in its environment to build for the target with this compiler.
    fn for_guests(&self) -> Environment {
        let Self::Debian { linkers } = self else { return Environment::default() };
        let linker = linkers.join("wasm-component-ld");
        // Encoded, since a path may have a space.
        let flags = ["-L", "native=/usr/lib/wasm32-wasi", "-C", &format!("linker={}", linker.display())];
        let variables = [
            // The standard library's source is an unstable thing to build, for this compiler too.
            ("RUSTC_BOOTSTRAP", "1".into()),
            ("CARGO_UNSTABLE_BUILD_STD", "std,panic_abort".into()),
            ("RUSTC", DEBIAN_RUSTC.into()),
            ("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}").into()),
        ];
        Environment {
            path: vec![linkers.join("gcc-ld")],
            variables: variables.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }

    /// Where the components come out, named as crates are.
    pub(super) fn output_dir(&self) -> PathBuf {
        self.target_dir().join(TARGET).join("release")
    }

    /// A folder for each, for they are different compilers.
    fn target_dir(&self) -> PathBuf {
        sh::root().join("target").join(match self {
            Self::Rustup => "guest-build",
            Self::Debian { .. } => "guest-build-debian",
        })
    }
}

/// Asks rustup for the target. Where its server is out of reach that fails at once, and is not
/// tried again for this toolchain.
fn add_target(sysroot: &Path) -> bool {
    let memory = sh::root().join("target/guest-build-target-unavailable");
    let toolchain = sysroot.display().to_string();
    if fs::read_to_string(&memory).is_ok_and(|tried| tried == toolchain) {
        return false;
    }
    let mut rustup = Command::new("rustup");
    rustup.args(["target", "add", TARGET]).stdout(Stdio::null()).stderr(Stdio::null());
    let added = rustup.status().is_ok_and(|status| status.success());
    if !added {
        // Only a note to save time: without it the next run asks again.
        let _ = fs::create_dir_all(sh::root().join("target")).and_then(|()| fs::write(&memory, toolchain));
    }
    added
}

fn debian_has_all() -> bool {
    let source = output_of(Command::new(DEBIAN_RUSTC).args(["--print", "sysroot"]))
        .map(|sysroot| Path::new(&sysroot).join("lib/rustlib/src/rust/library/std/Cargo.toml"));
    source.is_some_and(|source| source.exists()) && Path::new(DEBIAN_WASI_LIBC).exists()
}

fn install() -> Result<()> {
    let advice = format!("`rustup target add {TARGET}` failed, and this is the other way to a compiler");
    eprintln!("xtask: installing Debian's compiler for {TARGET}: rustup has none here");
    let Some(installed) = sh::apt(&PACKAGES) else {
        bail!("there is no compiler for {TARGET}: {advice}, but this system has no apt-get");
    };
    installed.with_context(|| {
        format!("{advice}; it needs root and Debian 12: apt-get install {}", PACKAGES.join(" "))
    })?;
    ensure!(debian_has_all(), "Debian's packages are installed, but {DEBIAN_RUSTC} has no source of std");
    Ok(())
}
