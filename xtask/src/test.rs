//! Everything that a test needs, and all tests.

use std::{
    env,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Result, bail};

use crate::{
    clients, guides,
    node::cargo,
    plugins::{self, Language},
    postgres::Postgres,
    registry, sh,
};

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only tests whose name contains this.
    filter: Option<String>,
}

/// The features that tests, linters and the host under test are built with: the same for all, so
/// that nothing is compiled twice.
pub(crate) const FEATURES: [&str; 2] = ["--features", "layby/test-hooks"];

/// Tests at once. Most of a test is waiting for a host in another process, so more than the cores.
const THREADS: &str = "4";

/// What a stage may take on two cores: from a clean clone, and with everything built. Past the first
/// it is told; a stage is never stopped, since a slow machine is no failure.
struct Stage {
    name: &'static str,
    clean: Duration,
    warm: Duration,
    run: fn(&Args) -> Result<()>,
}

const fn minutes(n: u64) -> Duration {
    Duration::from_secs(n * 60)
}

const STAGES: [Stage; 6] = [
    Stage { name: "plugins", clean: minutes(10), warm: minutes(1), run: build_plugins },
    Stage { name: "clients", clean: minutes(5), warm: minutes(1), run: install_clients },
    Stage { name: "build", clean: minutes(30), warm: minutes(5), run: build },
    Stage { name: "tests", clean: minutes(11), warm: minutes(7), run: test },
    Stage { name: "sdk tests", clean: minutes(4), warm: minutes(1), run: test_plugins },
    Stage { name: "guides", clean: minutes(15), warm: minutes(5), run: run_guides },
];

pub(crate) fn run(args: Args) -> Result<()> {
    let mut table = String::new();
    for stage in STAGES {
        let start = Instant::now();
        (stage.run)(&args)?;
        let took = start.elapsed();
        let over = if took > stage.clean { "   over its budget" } else { "" };
        table.push_str(&format!(
            "{:<10} {:>7.1} s   budget {:>5} s clean, {:>4} s warm{over}\n",
            stage.name,
            took.as_secs_f64(),
            stage.clean.as_secs(),
            stage.warm.as_secs(),
        ));
    }
    eprint!("\nxtask: all tests passed\n{table}");
    Ok(())
}

fn build_plugins(_args: &Args) -> Result<()> {
    plugins::run(plugins::Args::all())
}

fn install_clients(_args: &Args) -> Result<()> {
    clients::install().map(drop)
}

/// The host's binary comes with this: black-box tests start it, and cargo would not build it for them.
fn build(_args: &Args) -> Result<()> {
    let mut build = cargo();
    build.args(["build", "--workspace", "--all-targets"]).args(FEATURES).current_dir(sh::root());
    sh::run("the host and its tests", &mut build)
}

/// What tests start besides the host, as Debian's packages: each by the command that shows that it is there. `openssl` makes
/// certificates, `minisign` signatures of plugins.
const PROGRAMS: [(&str, &str); 2] = [("openssl", "version"), ("minisign", "-v")];

/// Installs those that are missing.
fn programs() -> Result<()> {
    let there = |(name, word): &(&str, &str)| sh::output_of(Command::new(name).arg(word)).is_some();
    let missing: Vec<&str> = PROGRAMS.iter().filter(|one| !there(one)).map(|(name, _)| *name).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let by_hand = || bail!("{} missing, and this system has no apt-get: install it", missing.join(" and "));
    sh::apt(&missing).unwrap_or_else(by_hand)
}

fn test(args: &Args) -> Result<()> {
    programs()?;
    registry::install()?;
    let mut test = cargo();
    // No doc tests: each is a program to link, and the examples are tested as tests.
    test.args(["test", "--workspace", "--all-targets", "--no-fail-fast"]).args(FEATURES);
    test.args(args.filter.as_deref()).current_dir(sh::root());
    // Found once, and installed by the stage before.
    test.env("LAYBY_TESTS_NODE", clients::install()?.program());
    let postgres = Postgres::for_tests()?;
    if let Some(server) = &postgres {
        server.apply(&mut test);
    }
    if env::var_os("RUST_TEST_THREADS").is_none() {
        test.env("RUST_TEST_THREADS", THREADS);
    }
    sh::run("all tests", &mut test)
}

/// The unit tests of plugins and kits of every language, outside the sandbox.
fn test_plugins(args: &Args) -> Result<()> {
    Language::ALL.into_iter().try_for_each(|language| language.test(args.filter.as_deref()))
}

/// Every block of the guides; not where only some tests are wanted.
fn run_guides(args: &Args) -> Result<()> {
    if args.filter.is_some() { Ok(()) } else { guides::run(&guides::Args::all()) }
}
