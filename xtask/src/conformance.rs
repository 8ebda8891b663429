//! The official conformance suite against the real host. Its own exit code judges only some of its scenarios, so
//! every check that it wrote down is counted here.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    node::{self, Node},
    plugins,
    server::Server,
    sh,
};

mod checks;
mod report;
mod suite;

use report::Report;
use suite::Suite;

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this scenario, with every check and what it says.
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// Only this revision of the protocol.
    #[arg(long, value_parser = REVISIONS.map(|r| r.name))]
    revision: Option<String>,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

/// What the suite must show at one revision of the protocol. The suite's version is pinned: other numbers mean that
/// something was not run.
struct Revision {
    name: &'static str,
    /// Scenarios that the revision requires.
    scored: usize,
    /// Further ones that the suite runs with them.
    unscored: usize,
    /// Checks that must be made, and not fail.
    least: usize,
    /// Those among them of the tasks extension.
    least_tasks: usize,
    /// Whether a warning is a failure.
    strict: bool,
    /// Scenarios that may fail, and why.
    excused: &'static [(&'static str, &'static str)],
}

const REVISIONS: [Revision; 2] = [
    Revision {
        name: "2026-07-28",
        scored: 37,
        unscored: 13,
        least: 197,
        least_tasks: 44,
        strict: true,
        excused: &[],
    },
    Revision {
        name: "2025-11-25",
        scored: 30,
        unscored: 3,
        least: 83,
        least_tasks: 0,
        strict: false,
        excused: &[(
            "server-sse-polling",
            "streams are not taken up again: a result is in the task, not in a replay",
        )],
    },
];

/// The fixtures that the scenarios call by name.
const PLUGIN: &str = "conformance";

/// What it may take with everything installed and built; past that it is told.
const BUDGET: Duration = Duration::from_secs(90);

pub(crate) fn run(args: Args) -> Result<()> {
    let node = Node::find()?;
    let packages = node::clients().join("conformance");
    node.install(&packages)?;
    let layby = node::build_host()?;
    plugins::build(&[PLUGIN])?;

    let start = Instant::now();
    let folder = fresh_folder()?;
    let server = serve(&layby, &folder)?;
    let suite = Suite::new(node.program(), &packages, &server.url, &folder);
    let wanted = |name: &str| args.revision.as_deref().is_none_or(|wanted| wanted == name);
    let mut report = Report::default();
    for revision in REVISIONS.iter().filter(|r| wanted(r.name)) {
        match &args.scenario {
            None => report.add(revision, suite.all(revision)?),
            Some(name) => {
                if let Some(outcome) = suite.one(revision, name)? {
                    report.add_one(revision, outcome);
                }
            }
        }
    }
    drop(server);
    ensure!(!report.is_empty(), "no revision has this scenario; `cargo xtask conformance` shows all of them");
    report.print(args.json)?;
    let took = start.elapsed();
    let over = if took > BUDGET { ", over its budget" } else { "" };
    eprintln!("xtask: conformance: {:.1} s, budget {} s{over}", took.as_secs_f64(), BUDGET.as_secs());
    if report.shortfalls() > 0 {
        bail!(
            "the suite is not passed: {} shortfalls; the host's log is in {}",
            report.shortfalls(),
            folder.display()
        );
    }
    Ok(())
}

/// `target/conformance`, empty. It is left afterwards: its files tell why something failed.
fn fresh_folder() -> Result<PathBuf> {
    let folder = sh::root().join("target/conformance");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    let to = folder.join("plugins");
    fs::create_dir_all(&to)?;
    for extension in ["wasm", "toml"] {
        let file = format!("{PLUGIN}.{extension}");
        let from = plugins::plugins_dir().join(&file);
        fs::copy(&from, to.join(&file)).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    // Scenarios leave calls behind that sleep for a minute: they are not worth waiting for.
    fs::write(folder.join("layby.toml"), "[serve]\ndrain = \"1s\"\n")?;
    folder.canonicalize().context("the folder was just made")
}

fn serve(layby: &Path, folder: &Path) -> Result<Server> {
    let mut command = Command::new(layby);
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(folder.join("layby.toml"));
    command.arg("--plugins").arg(folder.join("plugins")).arg("--data").arg(folder.join("data"));
    Server::host(command, &folder.join("host.log"), 1)
}
