//! The fuzz targets in `fuzz/`, by libFuzzer and the stable compiler.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};

use crate::{node::cargo, sh};

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this one of the files in fuzz/fuzz_targets.
    target: Option<String>,
    /// How long each target looks, after its seeds.
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u32,
}

/// What libFuzzer needs of the compiler, as cargo-fuzz has it, without a sanitizer: there is no unsafe code in what is
/// fuzzed, and sanitizers need another compiler.
const FLAGS: &str = "--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";
/// Inputs are at most so long, in bytes: most of what there is to find is in short ones.
const LONGEST: u32 = 4096;
/// An input that takes longer, in seconds, or needs more memory, in MiB, is a finding.
const SLOW: u32 = 10;
const MEMORY: u32 = 1024;

/// Builds all targets, and runs those that are asked for. What is found is kept under `target/fuzz`.
pub(crate) fn run(args: &Args) -> Result<()> {
    let all = targets()?;
    let wanted: Vec<&String> =
        all.iter().filter(|name| args.target.as_ref().is_none_or(|t| t == *name)).collect();
    if wanted.is_empty() {
        bail!("there is no such fuzz target; there are {}", all.join(", "));
    }
    let folder = sh::root().join("target/fuzz");
    let programs = build(&folder)?;
    for name in wanted {
        look(name, &programs, &folder, args.seconds)?;
    }
    Ok(())
}

/// The names of all targets.
fn targets() -> Result<Vec<String>> {
    let folder = sh::root().join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// Builds all; the folder of the programs.
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
    build.current_dir(sh::root().join("fuzz")).env("RUSTFLAGS", FLAGS);
    sh::run("fuzz targets", &mut build)?;
    Ok(folder.join(machine).join("release"))
}

fn look(name: &str, programs: &Path, folder: &Path, seconds: u32) -> Result<()> {
    let (corpus, found) = (folder.join("corpus").join(name), folder.join("found").join(name));
    for made in [&corpus, &found] {
        fs::create_dir_all(made).with_context(|| made.display().to_string())?;
    }
    let mut fuzz = Command::new(programs.join(name));
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
