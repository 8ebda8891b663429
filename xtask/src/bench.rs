//! The benchmark: what a call, a promotion, a poll, a start and an idle host cost, beside what the
//! same machine does without the host, in one run.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{node, plugins, sh};

mod data;
mod durable;
mod languages;
mod process;
mod rows;
mod start;
mod table;

use process::{Cores, Programs};
use table::Table;

/// Guests that the rows call.
const GUESTS: [&str; 4] = ["echo", "echo-minimal", "probe", "plain"];

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Short measurements, once each: to see that everything works. The figures are rough.
    #[arg(long)]
    quick: bool,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
    /// Only these groups of rows; may be given often.
    #[arg(long, value_enum, value_name = "GROUP")]
    only: Vec<Group>,
    /// End with an error where a target is missed.
    #[arg(long)]
    check: bool,
    /// The core for servers.
    #[arg(long, default_value_t = 0)]
    server_core: usize,
    /// The core for the driver.
    #[arg(long, default_value_t = 1)]
    driver_core: usize,
    /// Measure this binary of the host instead of building one.
    #[arg(long, value_name = "FILE")]
    layby: Option<PathBuf>,
    /// Use this binary of `xtask/peers` instead of building one.
    #[arg(long, value_name = "FILE")]
    peers: Option<PathBuf>,
}

/// A group of rows.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Group {
    /// Calls that are answered at once.
    Inline,
    /// Calls that become tasks, and the disk under them.
    Promote,
    /// Polls of tasks, idle and while plugins spin.
    Poll,
    /// From start to ready.
    Start,
    /// Resident memory.
    Memory,
    /// What recording costs an inline call.
    Journal,
    /// From an answer to what a parked task does next.
    Resume,
    /// A host with 100,000 parked tasks.
    Parked,
    /// 10,000 tasks that go on at once: by the time, and after a crash.
    AtOnce,
    /// Calls that become tasks and end, on both databases.
    Settle,
    /// The same tool in every guest language, and many plugins of a large runtime.
    Languages,
}

/// How long and how often to measure.
#[derive(Clone, Copy)]
struct Effort {
    /// Of one measurement.
    seconds: f64,
    /// How often each is taken; the median counts.
    rounds: usize,
    /// Where there is something to count, only one in so many.
    share: u32,
}

pub(crate) fn run(args: Args) -> Result<()> {
    let effort = if args.quick {
        Effort { seconds: 0.5, rounds: 1, share: 20 }
    } else {
        Effort { seconds: 2.0, rounds: 3, share: 1 }
    };
    let cores = Cores::new(args.server_core, args.driver_core);
    let given =
        |file: &PathBuf| fs::canonicalize(file).with_context(|| format!("no file {}", file.display()));
    let layby = args.layby.as_ref().map_or_else(build_host, given)?;
    plugins::build(&GUESTS)?;
    let folder = sh::root().join("target/bench");
    // What an earlier run left; this run leaves its own, for whoever wants to read the hosts' logs.
    match fs::remove_dir_all(&folder) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => bail!("cannot empty {}: {e}", folder.display()),
        _ => fs::create_dir_all(&folder)?,
    }
    // Below `target` and not in the system's folder for temporary files, which may be in memory.
    let folder = fs::canonicalize(&folder)?;
    let peers = args.peers.as_ref().map_or_else(build_peers, given)?;
    let programs = Programs { layby, peers, cores, folder };
    let mut table = Table::default();
    let wanted = |group| args.only.is_empty() || args.only.contains(&group);
    if wanted(Group::Inline) {
        rows::inline(&programs, effort, &mut table)?;
    }
    if wanted(Group::Promote) {
        rows::promote(&programs, effort, &mut table)?;
    }
    if wanted(Group::Poll) {
        rows::poll(&programs, effort, &mut table)?;
    }
    if wanted(Group::Start) {
        start::rows(&programs, effort, &mut table)?;
    }
    if wanted(Group::Memory) {
        rows::memory(&programs, &mut table)?;
    }
    for (group, rows) in durable::GROUPS {
        if wanted(group) {
            rows(&programs, effort, &mut table)?;
        }
    }
    if languages::wanted(&args.only) {
        plugins::run(plugins::Args::all())?;
        languages::rows(&programs, effort, &mut table)?;
        languages::large(&programs, &mut table)?;
    }
    table.print(args.json, &programs.cores.note())?;
    let missed = table.missed();
    if args.check {
        ensure!(missed == 0, "{missed} targets were missed");
    }
    Ok(())
}

/// Builds the host as it is shipped.
fn build_host() -> Result<PathBuf> {
    let mut build = node::cargo();
    build.args(["build", "--release", "--locked", "--package", "layby"]).current_dir(sh::root());
    // This program prints its table on standard output; cargo writes to standard error.
    sh::run("the host, optimised", &mut build)?;
    binary("target/release/layby")
}

/// Builds what the host is compared with, and the driver.
fn build_peers() -> Result<PathBuf> {
    let mut build: Command = node::cargo();
    build.args(["build", "--quiet", "--release", "--locked", "--manifest-path"]);
    build.arg(sh::root().join("xtask/peers/Cargo.toml"));
    build.arg("--target-dir").arg(sh::root().join("target/peers"));
    sh::run("the peers", &mut build)?;
    binary("target/peers/release/peers")
}

fn binary(path: &str) -> Result<PathBuf> {
    let file: &Path = &sh::root().join(path);
    fs::canonicalize(file).with_context(|| format!("{} was not built", file.display()))
}
