//! The processes of the benchmark: pinned, and stopped whatever happens.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::data::Data;

/// How long a host may take until it serves: 20 plugins are compiled on one core.
const READY_WITHIN: Duration = Duration::from_secs(120);

/// How long a host may take to end once asked; its configuration gives it one second.
const ENDS_WITHIN: Duration = Duration::from_secs(15);

/// How often `/ready` is asked: well below what the rows tell apart.
const ASK: Duration = Duration::from_millis(1);

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
        for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("LAYBY_")) {
            command.env_remove(name);
        }
        let server = Server::start(command, &data.log())?;
        server.all_serve(data.count()).with_context(|| server.log_text())?;
        Ok(server)
    }

    /// Runs the driver; returns what it prints.
    pub(super) fn drive(&self, args: &[&str]) -> Result<Value> {
        json_of(self.cores.on_driver(&self.peers).arg("drive").args(args))
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

/// A server that is stopped when dropped.
pub(super) struct Server {
    child: Child,
    pub(super) url: String,
    log: PathBuf,
}

impl Server {
    /// Returns once it has printed its URL.
    fn start(mut command: Command, log: &Path) -> Result<Self> {
        let errors = fs::OpenOptions::new().create(true).append(true).open(log)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
        let out = child.stdout.take().context("a server without output")?;
        let mut server = Self { child, url: String::new(), log: log.to_owned() };
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        match line.split_whitespace().find(|word| word.starts_with("http://")) {
            Some(url) => server.url = url.to_owned(),
            None => bail!("{command:?} printed no URL, but {line:?}\n{}", server.log_text()),
        }
        Ok(server)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn log_text(&self) -> String {
        format!("its log is {}:\n{}", self.log.display(), fs::read_to_string(&self.log).unwrap_or_default())
    }

    /// Waits until `count` plugins serve.
    fn all_serve(&self, count: usize) -> Result<()> {
        let give_up = Instant::now() + READY_WITHIN;
        loop {
            let (status, ready) = self.get("/ready")?;
            let number = |key: &str| ready["plugins"][key].as_u64();
            ensure!(number("refused").unwrap_or(0) == 0, "the host refused a plugin: {ready}");
            if status == 200 && number("serving") == u64::try_from(count).ok() {
                return Ok(());
            }
            ensure!(Instant::now() < give_up, "not ready after {READY_WITHIN:?}: {status} {ready}");
            thread::sleep(ASK);
        }
    }

    fn get(&self, path: &str) -> Result<(u16, Value)> {
        let address = self.url.trim_start_matches("http://").split('/').next().unwrap_or_default();
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(READY_WITHIN))?;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("not an HTTP answer")?;
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).context("no status")?;
        Ok((status, serde_json::from_str(body).with_context(|| format!("{path}: {answer:?}"))?))
    }

    /// Resident memory, in bytes.
    pub(super) fn resident(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib * 1024)
    }

    /// Asks it to end, and waits for that.
    fn end(&mut self) -> Result<()> {
        let asked = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status()?;
        ensure!(asked.success(), "cannot ask the server to end");
        let give_up = Instant::now() + ENDS_WITHIN;
        while self.child.try_wait()?.is_none() {
            ensure!(Instant::now() < give_up, "the server has not ended after {ENDS_WITHIN:?}");
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(e) = self.end() {
            eprintln!("xtask: {e:#}; killing it");
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
