//! The fuzz targets in `fuzz/`, by libFuzzer and the stable compiler.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{node::cargo, sh};

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this one of the folders in fuzz/seeds.
    target: Option<String>,
    /// How long each target looks, after its seeds.
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u32,
    /// Compile the host optimised: minutes more, and then five times as many inputs in a second.
    #[arg(long)]
    optimized: bool,
}

/// What libFuzzer needs of the compiler, as cargo-fuzz has it, without a sanitizer: there is no unsafe code in what is
/// fuzzed, and sanitizers need another compiler.
const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";
/// The program with the targets of the whole host, and its crates that are compiled with coverage.
const HOST: &str = "fuzz-host";
const COVERED: [&str; 2] = ["layby", "fuzz_host"];
/// Inputs are at most so long, in bytes: most of what there is to find is in short ones.
const LONGEST: u32 = 4096;
/// An input that takes longer, in seconds, or needs more memory, in MiB, is a finding.
const SLOW: u32 = 10;
const MEMORY: u32 = 1024;

/// Builds all targets, and runs those that are asked for. What is found is kept under `target/fuzz`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let all = folders("fuzz/seeds")?;
    let wanted: Vec<&String> =
        all.iter().filter(|name| args.target.as_ref().is_none_or(|t| t == *name)).collect();
    if wanted.is_empty() {
        bail!("there is no such fuzz target; there are {}", all.join(", "));
    }
    let folder = sh::root().join("target/fuzz");
    let pure = folders("fuzz/fuzz_targets")?;
    let programs = build(&folder)?;
    let mut host = None;
    for name in wanted {
        let program = if pure.contains(name) {
            programs.join(name)
        } else {
            // Once for all of them.
            let built = host.take().map_or_else(|| build_host(&folder, args.optimized), Ok)?;
            host.insert(built).clone()
        };
        look(name, &program, &folder, args.seconds)?;
    }
    Ok(())
}

/// What is in this folder of the workspace, without extensions.
fn folders(folder: &str) -> Result<Vec<String>> {
    let folder = sh::root().join(folder);
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// Builds those of the workspace `fuzz`; the folder of the programs.
fn build(folder: &Path) -> Result<PathBuf> {
    if sh::output_of(Command::new("c++").arg("--version")).is_none() {
        sh::apt(&["g++"]).context("libFuzzer needs a C++ compiler: install one as `c++`")??;
    }
    let version = sh::output_of(Command::new("rustc").arg("-vV")).context("rustc does not run")?;
    let machine = version.lines().find_map(|line| line.strip_prefix("host: "));
    let machine = machine.context("rustc does not say what it compiles for")?;
    let mut build = cargo();
    // With a target, what only the build runs is built without coverage.
    build.args(["build", "--release", "--bins", "--locked", "--target", machine, "--target-dir"]).arg(folder);
    build.current_dir(sh::root().join("fuzz")).env("RUSTFLAGS", format!("-Ccodegen-units=1 {COVERAGE}"));
    sh::run("fuzz targets", &mut build)?;
    Ok(folder.join(machine).join("release"))
}

/// Builds those of the whole host, beside the tests: with the same features, so that only the host itself is compiled
/// for them. Flags for all crates would compile wasmtime anew; a wrapper has them for some.
fn build_host(folder: &Path, optimized: bool) -> Result<PathBuf> {
    let library = library(folder)?;
    let library = library.parent().context("libFuzzer is in a folder")?;
    let covered: Vec<String> = COVERED.iter().map(|name| format!("*\" --crate-name {name} \"*")).collect();
    let text = format!(
        "#!/bin/sh\ncase \" $* \" in\n{}) set -- \"$@\" {COVERAGE} -Copt-level={} ;;\nesac\n\
         case \" $* \" in\n*\" --crate-name fuzz_host \"*) set -- \"$@\" -L {} -lstatic=fuzzer -lstdc++ ;;\nesac\n\
         exec \"$@\"\n",
        covered.join("|"),
        u8::from(optimized),
        sh::quoted(&format!("native={}", library.display())),
    );
    // Cargo compiles anew for another wrapper, and knows one by its path.
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let wrapper = folder.join(format!("rustc-{:016x}", hasher.finish()));
    fs::write(&wrapper, text).with_context(|| wrapper.display().to_string())?;
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755))?;
    let mut build = cargo();
    build.args([
        "build",
        "--workspace",
        "--bin",
        HOST,
        "--locked",
        "--features",
        "layby-fuzz-host/libfuzzer",
    ]);
    build.current_dir(sh::root()).env("RUSTC_WORKSPACE_WRAPPER", &wrapper);
    sh::run("fuzz targets of the whole host", &mut build)?;
    Ok(sh::root().join("target/debug").join(HOST))
}

/// libFuzzer, as its crate has compiled it for the other targets.
fn library(folder: &Path) -> Result<PathBuf> {
    let mut found = None;
    for machine in fs::read_dir(folder)?.flatten() {
        let Ok(built) = fs::read_dir(machine.path().join("release/build")) else { continue };
        for library in built.flatten().map(|made| made.path().join("out/libfuzzer.a")) {
            let Ok(changed) = fs::metadata(&library).and_then(|meta| meta.modified()) else { continue };
            found = found.max(Some((changed, library)));
        }
    }
    Ok(found.context("libFuzzer was not built")?.1)
}

fn look(name: &str, program: &Path, folder: &Path, seconds: u32) -> Result<()> {
    let [corpus, found, temporary] = ["corpus", "found", "tmp"].map(|kind| folder.join(kind).join(name));
    // libFuzzer ends without a word to what it runs, which leaves its files.
    let _ = fs::remove_dir_all(&temporary);
    for made in [&corpus, &found, &temporary] {
        fs::create_dir_all(made).with_context(|| made.display().to_string())?;
    }
    let mut fuzz = Command::new(program);
    fuzz.env("LAYBY_FUZZ", name).env("TMPDIR", &temporary);
    let words = sh::root().join("fuzz/words").join(name);
    if words.exists() {
        fuzz.arg(format!("-dict={}", words.display()));
    }
    fuzz.arg(&corpus).arg(sh::root().join("fuzz/seeds").join(name));
    fuzz.arg(format!("-max_total_time={seconds}")).arg(format!("-artifact_prefix={}/", found.display()));
    fuzz.arg(format!("-max_len={LONGEST}")).arg(format!("-timeout={SLOW}"));
    fuzz.arg(format!("-rss_limit_mb={MEMORY}")).args(["-print_final_stats=1", "-verbosity=0"]);
    // It says more than anybody wants to know while all is well.
    let said = folder.join(format!("{name}.log"));
    let log = fs::File::create(&said).with_context(|| said.display().to_string())?;
    fuzz.stdout(log.try_clone()?).stderr(log);
    let done = sh::run(&format!("fuzz target {name}, {seconds} s"), &mut fuzz);
    let text = fs::read_to_string(&said).with_context(|| said.display().to_string())?;
    if let Err(error) = done {
        bail!(
            "{name}: an input breaks it; it is in {}. Once that is mended, put it into fuzz/seeds/{name}\n{text}\n{error:#}",
            found.display()
        );
    }
    let count = text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units: "));
    eprintln!("xtask: fuzz target {name}: {} inputs", count.unwrap_or("?").trim());
    Ok(())
}
