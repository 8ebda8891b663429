//! What may be built in: licences, crates that are banned, and where crates come from, by `cargo-deny`.

use std::{path::PathBuf, process::Command};

use anyhow::{Context as _, Result, ensure};

use crate::{node::cargo, python, sh};

/// Each with a lock file of its own.
const WORKSPACES: [&str; 4] = ["", "plugins", "fuzz", "xtask/peers"];

/// What is checked without the network, each with a file of rules that refuse what is here: a check that cannot fail
/// shows nothing.
const CHECKS: [&str; 3] = ["licenses", "bans", "sources"];

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Compare with RustSec's advisories instead, which are fetched from where RustSec keeps them
    #[arg(long)]
    advisories: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let tool = install()?;
    if args.advisories {
        return WORKSPACES.into_iter().try_for_each(|workspace| {
            let mut check = tool.check(workspace, "deny.toml");
            sh::run(&format!("advisories for {}", name(workspace)), check.arg("advisories"))
        });
    }
    for check in CHECKS {
        tool.must_refuse(check)?;
    }
    for workspace in WORKSPACES {
        let mut check = tool.check(workspace, "deny.toml");
        sh::run(&format!("what {} is built of", name(workspace)), check.args(CHECKS))?;
    }
    Ok(())
}

fn name(workspace: &str) -> &str {
    if workspace.is_empty() { "the host" } else { workspace }
}

/// The program.
struct Tool(PathBuf);

/// Installs it: a built one, by its hash, because building it takes longer than all checks of a change.
fn install() -> Result<Tool> {
    python::ensure_venv()?;
    python::install("deny", &sh::root().join("xtask/src/deny/tool.txt"))?;
    Ok(Tool(python::folder("deny").join("bin/cargo-deny")))
}

impl Tool {
    /// A check of a workspace by a file of rules; what is checked is to be added.
    fn check(&self, workspace: &str, rules: &str) -> Command {
        let mut command = Command::new(&self.0);
        command.args(["--locked", "--all-features", "--manifest-path"]);
        command.arg(sh::root().join(workspace).join("Cargo.toml"));
        command.arg("--config").arg(sh::root().join(rules)).arg("check").current_dir(sh::root());
        // It asks cargo what there is: the one that started this.
        command.env("CARGO", cargo().get_program());
        command
    }

    /// Shows that `check` fails where it should.
    fn must_refuse(&self, check: &str) -> Result<()> {
        let mut command = self.check("", &format!("xtask/src/deny/{check}.toml"));
        let output = command.arg(check).output().context("cargo-deny cannot be started")?;
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        // It also fails where it cannot read the rules.
        let refused = !output.status.success() && said.contains(&format!("{check} FAILED"));
        let last = said.lines().rev().take(5).collect::<Vec<_>>().join("\n");
        ensure!(refused, "the check of {check} refuses nothing, not even all there is:\n{last}");
        Ok(())
    }
}
