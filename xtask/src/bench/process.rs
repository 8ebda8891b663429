//! The processes of the benchmark: pinned, and stopped whatever happens.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::data::Data;
use crate::server::Server;

/// Which cores there are, for whom.
pub(super) struct Cores {
    /// Server and driver; none where the machine has no two cores to pin to.
    pinned: Option<(usize, usize)>,
}

impl Cores {
    pub(super) fn new(server: usize, driver: usize) -> Self {
        let works = |core: usize| {
            let mut command = Command::new("taskset");
            command.args(["-c", &core.to_string(), "true"]).stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        };
        let pinned = (server != driver && works(server) && works(driver)).then_some((server, driver));
        Self { pinned }
    }

    /// What a reader of the figures must know.
    pub(super) fn note(&self) -> String {
        match self.pinned {
            Some((server, driver)) => format!("servers on core {server}, driver on core {driver}"),
            None => {
                "NOT PINNED (no taskset, or fewer than two cores): servers and driver share cores".to_owned()
            }
        }
    }

    fn on_server(&self, program: &Path) -> Command {
        pinned(self.pinned.map(|cores| cores.0), program)
    }

    fn on_driver(&self, program: &Path) -> Command {
        pinned(self.pinned.map(|cores| cores.1), program)
    }
}

/// `taskset` becomes the program, under the same process id.
fn pinned(core: Option<usize>, program: &Path) -> Command {
    let Some(core) = core else { return Command::new(program) };
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string()]).arg(program);
    command
}

/// What the rows start.
pub(super) struct Programs {
    pub(super) layby: PathBuf,
    pub(super) peers: PathBuf,
    pub(super) cores: Cores,
    /// An empty folder for all that the run writes.
    pub(super) folder: PathBuf,
}

impl Programs {
    /// Starts a peer's server.
    pub(super) fn peer(&self, name: &str) -> Result<Server> {
        let mut command = self.cores.on_server(&self.peers);
        command.arg(name);
        Server::start(command, &self.folder.join(format!("{name}.log")))
    }

    /// Starts the host on `data`; returns once every plugin is served.
    pub(super) fn host(&self, data: &Data) -> Result<Server> {
        let mut command = self.cores.on_server(&self.layby);
        command.args(["serve", "--listen", "127.0.0.1:0", "--plugins"]).arg(data.plugins());
        command.arg("--data").arg(data.store()).arg("--config").arg(data.config());
        if let Some(url) = data.database() {
            command.args(["--store", url]);
        }
        Server::host(command, &data.log(), data.count())
    }

    /// Runs the driver; returns what it prints.
    pub(super) fn drive(&self, args: &[&str]) -> Result<Value> {
        json_of(self.cores.on_driver(&self.peers).arg("drive").args(args))
    }

    /// Makes copies of a task in the host's file, once it is `when`.
    pub(super) fn seed(&self, data: &Data, task: &str, when: &str, count: u32) -> Result<()> {
        let mut command = self.cores.on_driver(&self.peers);
        command.arg("seed").arg("--database").arg(data.file());
        command.args(["--task", task, "--when", when, "--count", &count.to_string()]);
        json_of(&mut command).map(drop)
    }

    /// The disk's own rates, on the servers' core.
    pub(super) fn disk(&self, seconds: f64, group: u32) -> Result<Value> {
        let folder = self.folder.join("disk");
        // The database of the round before: a growing file would be another measurement.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).context("a folder for the disk's database")?;
        let mut command = self.cores.on_server(&self.peers);
        command.args(["disk", "--seconds", &seconds.to_string(), "--group", &group.to_string(), "--folder"]);
        json_of(command.arg(folder))
    }
}

fn json_of(command: &mut Command) -> Result<Value> {
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}:\n{error}", output.status);
    serde_json::from_slice(&output.stdout).with_context(|| format!("{command:?} printed no JSON"))
}
