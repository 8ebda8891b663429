//! Guests in C: a folder of sources each, with the kit's one header, made components by `wasm-tools`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use super::{Built, output_of, wasm_tools};
use crate::{sh, tools::Environment};

/// Debian's packages: the compiler, its linker, what it calls where an instruction is missing, and a C library; then
/// what tests and a scaffold's Makefile need.
const PACKAGES: [&str; 7] =
    ["clang-19", "lld-19", "libclang-rt-19-dev-wasm32", "wasi-libc", "gcc", "libc6-dev", "make"];
const COMPILER: &str = "clang-19";
/// For this machine, with the sanitizers' libraries. Debian's clang has those in a package of 100 MB more.
const TEST_COMPILER: &str = "cc";
const LINKER: &str = "wasm-ld-19";
const WASI_LIBC: &str = "/usr/lib/wasm32-wasi/libc.a";

/// What the compiler and the linker are told; the template's Makefile says the same.
const FLAGS: [&str; 11] = [
    "--target=wasm32-wasi",
    "-mexec-model=reactor",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-O2",
    // Debugging information only says what language it was: it is not kept.
    "-g1",
    "-Wl,--strip-debug",
    // A stack that is too small for printf ends the instance, instead of writing over its data.
    "-Wl,--stack-first",
    "-Wl,-z,stack-size=262144",
];

/// What the tests are compiled with, for this machine.
const TEST_FLAGS: [&str; 8] = [
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-O1",
    "-g",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
];

/// A plugin's own tests: no part of the plugin.
const TEST_FILE: &str = "test.c";

/// Builds the plugins `names` of `plugins/c`.
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
    let mut made_of = files(&plugins_dir().join(name), &["c", "h"])?;
    made_of.extend(files(&kit_dir(), &["h"])?);
    made_of.extend(files(&sh::root().join("wit"), &["wit"])?);
    // This file, for the flags, and another adapter.
    made_of.extend([adapter.to_owned(), sh::root().join("xtask/src/plugins/c.rs")]);
    if sh::is_newer(&component, &made_of) {
        return Ok(Built { name: name.to_owned(), component });
    }
    let mut compile = program(COMPILER, environment)?;
    compile.args(FLAGS).arg("-I").arg(kit_dir()).arg("-o").arg(&core).args(sources(name)?);
    sh::run(&format!("c/{name}"), &mut compile)?;
    wasm_tools::component(&format!("c/{name}"), &core, &component)?;
    Ok(Built { name: name.to_owned(), component })
}

/// The unit tests of plugins and their kit, outside the sandbox and under sanitizers: programs, each of which ends
/// at what it does not expect. `filter` is a part of a program's name.
pub(super) fn test(filter: Option<&str>) -> Result<()> {
    let environment = environment()?;
    fs::create_dir_all(build_dir()).with_context(|| format!("cannot make {}", build_dir().display()))?;
    let mut programs = Vec::new();
    for file in files(&kit_dir().join("tests"), &["c"])? {
        programs.push((format!("kit-{}", name_of(&file)), vec![file]));
    }
    for file in files(&plugins_dir(), &["c"])?.into_iter().filter(|file| file.ends_with(TEST_FILE)) {
        let name = file.parent().map(name_of).unwrap_or_default();
        let mut sources = sources(&name)?;
        sources.push(file);
        programs.push((name, sources));
    }
    for (name, sources) in programs {
        if filter.is_some_and(|filter| !name.contains(filter)) {
            continue;
        }
        let test = build_dir().join(format!("{name}.test"));
        let mut compile = program(TEST_COMPILER, &environment)?;
        compile.args(TEST_FLAGS).arg("-I").arg(kit_dir()).args(sources).arg("-lm").arg("-o").arg(&test);
        sh::run(&format!("c/{name}: its tests"), &mut compile)?;
        sh::run(&format!("the tests of c/{name}"), &mut Command::new(&test))?;
    }
    Ok(())
}

/// What makes clang and `wasm-tools` work: their folders. Debian puts the former where all programs are.
pub(super) fn environment() -> Result<Environment> {
    if !has_all() {
        install()?;
    }
    Ok(Environment { path: vec![wasm_tools::folder()?], variables: Vec::new() })
}

fn program(name: &str, environment: &Environment) -> Result<Command> {
    let mut command = Command::new(name);
    environment.apply(&mut command)?;
    Ok(command)
}

fn has_all() -> bool {
    let works = |name| output_of(Command::new(name).arg("--version").stderr(Stdio::null())).is_some();
    [COMPILER, LINKER, TEST_COMPILER, "make"].into_iter().all(works)
        && Path::new(WASI_LIBC).exists()
        && has_builtins()
}

/// The library that the compiler links against without being asked to.
fn has_builtins() -> bool {
    let mut ask = Command::new(COMPILER);
    ask.args(["--target=wasm32-wasi", "--print-libgcc-file-name"]);
    output_of(&mut ask).is_some_and(|path| Path::new(&path).exists())
}

fn install() -> Result<()> {
    let by_hand = format!(
        "there is no clang for WebAssembly, or no make or {TEST_COMPILER} for this machine: it needs root and Debian 12 \
         (apt-get install {}), or, by hand, the programs {COMPILER} and {LINKER} with WASI's C library as {WASI_LIBC}",
        PACKAGES.join(" ")
    );
    eprintln!("xtask: installing Debian's clang for WebAssembly");
    let Some(installed) = sh::apt(&PACKAGES) else { bail!("{by_hand}; this system has no apt-get") };
    installed.with_context(|| by_hand.clone())?;
    ensure!(has_all(), "Debian's packages are installed, and yet {by_hand}");
    Ok(())
}

/// A plugin's files to compile.
fn sources(name: &str) -> Result<Vec<PathBuf>> {
    let mut sources = files(&plugins_dir().join(name), &["c"])?;
    sources.retain(|file| !file.ends_with(TEST_FILE));
    ensure!(!sources.is_empty(), "{} has no file in C", plugins_dir().join(name).display());
    Ok(sources)
}

/// All files below `folder` with one of these extensions, sorted.
fn files(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry.with_context(|| format!("cannot list {}", folder.display()))?.path();
        if path.is_dir() {
            found.extend(files(&path, extensions)?);
        } else if path.extension().is_some_and(|e| extensions.iter().any(|wanted| e == *wanted)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn plugins_dir() -> PathBuf {
    sh::root().join("plugins/c")
}

fn kit_dir() -> PathBuf {
    sh::root().join("plugins/sdk/c")
}

fn build_dir() -> PathBuf {
    sh::root().join("target/guest-build-c")
}
