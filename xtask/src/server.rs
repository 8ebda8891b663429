//! A server as a child process, stopped whatever happens.

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

/// How long a host may take until it serves: 20 plugins with Python's runtime are compiled on one core, some 10 s each.
const READY_WITHIN: Duration = Duration::from_secs(600);

/// How long a host may take to end once asked; the benchmark's configuration gives it one second.
const ENDS_WITHIN: Duration = Duration::from_secs(15);

/// How often `/ready` is asked: well below what the benchmark's rows tell apart.
const ASK: Duration = Duration::from_millis(1);

/// A server that is stopped when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    log: PathBuf,
}

impl Server {
    /// A host, with nothing of our own environment's configuration; returns once `plugins` serve.
    pub(crate) fn host(mut command: Command, log: &Path, plugins: usize) -> Result<Self> {
        for (name, _) in std::env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("LAYBY_")) {
            command.env_remove(name);
        }
        let server = Self::start(command, log)?;
        server.all_serve(plugins).with_context(|| server.log_text())?;
        Ok(server)
    }

    /// Returns once it has printed its URL.
    pub(crate) fn start(mut command: Command, log: &Path) -> Result<Self> {
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

    pub(crate) fn pid(&self) -> u32 {
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
    pub(crate) fn resident(&self) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
        let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib * 1024)
    }

    /// Kills it, as a crash does.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to end, and waits for that.
    fn end(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
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
