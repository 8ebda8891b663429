//! A real `layby serve`, in folders of its own.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use serde_json::Value;

pub use crate::setup::{Setup, put, replace};
use crate::{Client, command, eventually, wait::BOUND, warm};

/// Longest wait until all plugins are served or refused, where their compiled code is at hand or small.
pub(crate) const SETTLED: Duration = Duration::from_secs(60);
/// The same where a language's runtime may have to be compiled first, on a machine that is busy with other tests.
const SETTLED_WITH_RUNTIMES: Duration = Duration::from_secs(600);

pub(crate) async fn all_settled(ready: &str, plugins: u64, bound: Duration) {
    let http = crate::client::http();
    let mut last = Value::Null;
    let start = Instant::now();
    loop {
        if let Ok(response) = http.get(ready).send().await
            && let Ok(body) = response.json::<Value>().await
        {
            let count = |what: &str| body["plugins"][what].as_u64().unwrap_or_default();
            if count("serving") + count("refused") >= plugins && count("compiling") == 0 {
                return;
            }
            last = body;
        }
        assert!(start.elapsed() < bound, "not every plugin was served or refused within {bound:?}: {last}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A running host. It is killed when dropped.
pub struct Host {
    child: Child,
    pub(crate) url: String,
    setup: Arc<Setup>,
    log: PathBuf,
}

impl Host {
    /// Starts a process, and waits for the line with its URL.
    pub(crate) fn spawn(setup: Arc<Setup>) -> Self {
        let host = Self::begin(setup, &[]);
        assert!(!host.url.is_empty(), "no URL; log:\n{}", host.log());
        host
    }

    /// The same, with more variables; without a URL where there came none.
    pub(crate) fn begin(setup: Arc<Setup>, env: &[(&str, &str)]) -> Self {
        let number = fs::read_dir(setup.root()).map_or(0, Iterator::count);
        let log = setup.root().join(format!("log-{number}"));
        let mut command = setup.command();
        command.envs(env.iter().copied());
        let err = fs::File::create(&log).expect("the log can be made");
        let mut child = command.stdout(Stdio::piped()).stderr(err).spawn().expect("the host starts");
        let out = child.stdout.take().expect("standard output is a pipe");
        let mut host = Self { child, url: String::new(), setup, log };
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut line = String::new();
            let _ = out.read_line(&mut line);
            let _ = sender.send(line);
            // Whatever else it prints, it must not meet a closed pipe.
            let _ = out.read_to_end(&mut Vec::new());
        });
        let line = lines.recv_timeout(BOUND).unwrap_or_default();
        let url = line.split_whitespace().find(|word| word.starts_with("http://"));
        host.url = url.unwrap_or_default().to_owned();
        host
    }

    /// The MCP endpoint.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The server without a path.
    pub fn base(&self) -> &str {
        self.url.strip_suffix("/mcp").unwrap_or(&self.url)
    }

    /// The port.
    ///
    /// # Panics
    /// If the URL has none.
    pub fn port(&self) -> u16 {
        self.base().rsplit(':').next().and_then(|p| p.parse().ok()).expect("the URL has a port")
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it was started with.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Standard error so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// A client that can do all that tests need: tasks, forms, URLs, sampling, roots.
    pub fn client(&self) -> Client {
        Client::new(&self.url, crate::client::everything())
    }

    /// A client that declares exactly `capabilities`.
    pub fn client_with(&self, capabilities: Value) -> Client {
        Client::new(&self.url, capabilities)
    }

    /// Waits until every component in the folder is served or refused.
    pub async fn settled(&self) {
        let entries = fs::read_dir(self.setup.plugins()).expect("the folder can be listed");
        let is_component = |e: &fs::DirEntry| e.path().extension().is_some_and(|e| e == "wasm");
        let count = entries.flatten().filter(is_component).count();
        let bound = if self.setup.cache.is_some() { SETTLED_WITH_RUNTIMES } else { SETTLED };
        all_settled(&format!("{}/ready", self.base()), count as u64, bound).await;
    }

    /// Keeps the compiled code of its plugins for [`Setup::cache`], in place of what is in `folder`.
    pub fn keep_cache(&self, folder: &Path) {
        warm::keep(&self.setup.data(), folder);
    }

    /// Puts a plugin into the folder of the running host.
    pub fn put(&self, name: &str, bytes: &[u8], policy: &str) {
        put(&self.setup.plugins(), name, bytes, policy);
    }

    /// Another process on the same folders.
    pub async fn beside(&self) -> Self {
        let host = Self::spawn(self.setup.clone());
        host.settled().await;
        host
    }

    /// `kill -9`, and gone.
    ///
    /// # Panics
    /// If the process cannot be killed.
    pub fn kill(&mut self) {
        self.child.kill().expect("a process can be killed");
        self.child.wait().expect("a process can be waited for");
    }

    /// The same folders, after the process has ended.
    pub async fn restart(mut self) -> Self {
        if self.child.try_wait().expect("a process can be asked").is_none() {
            self.kill();
        }
        self.beside().await
    }

    /// The same, with no wait for its plugins.
    ///
    /// # Panics
    /// If it does not start.
    pub fn restart_at_once(mut self) -> Self {
        self.kill();
        Self::spawn(self.setup.clone())
    }

    /// The same without the variable `name` of the first start.
    pub async fn restart_without(mut self, name: &str) -> Self {
        let setup = Arc::get_mut(&mut self.setup).expect("nobody else starts it");
        setup.env.retain(|(n, _)| n != name);
        self.restart().await
    }

    /// The same with another value of it.
    pub async fn restart_with(mut self, name: &str, value: &str) -> Self {
        let setup = Arc::get_mut(&mut self.setup).expect("nobody else starts it");
        setup.env.retain(|(n, _)| n != name);
        setup.env.push((name.into(), value.into()));
        self.restart().await
    }

    /// Sends a signal by name, such as `TERM`.
    ///
    /// # Panics
    /// If there is no `kill`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status().expect("there is kill");
        assert!(sent.success(), "the signal {name} was not sent");
    }

    /// Stops the process where it is, but not while it writes to a file that others write to too: it would lock them out
    /// until it goes on.
    ///
    /// # Panics
    /// If it never lets go of the file.
    pub async fn pause(&self) {
        let database = self.setup.database();
        for _ in 0..200 {
            self.signal("STOP");
            if database.takes_writes().await {
                return;
            }
            self.signal("CONT");
            tokio::time::sleep(Duration::from_millis(7)).await;
        }
        panic!("the host writes without a pause");
    }

    /// Waits for the end of the process; its exit code.
    pub async fn ended(&mut self) -> Option<i32> {
        let child = &mut self.child;
        let mut ask = || child.try_wait().expect("a process can be asked");
        let start = Instant::now();
        loop {
            if let Some(status) = ask() {
                return status.code();
            }
            assert!(start.elapsed() < BOUND, "the host did not end");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The signal that ended the process; none while it lives, or where it ended by itself.
    ///
    /// # Panics
    /// If the process cannot be asked.
    pub fn killed_by(&mut self) -> Option<i32> {
        let status = self.child.try_wait().expect("a process can be asked")?;
        std::os::unix::process::ExitStatusExt::signal(&status)
    }

    /// Runs a `layby` command on the data folder, with `--json`; its output.
    pub async fn command(&self, args: &[&str]) -> command::Done {
        let mut all: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        let data = self.setup.data().display().to_string();
        all.extend(["--data".to_owned(), data, "--json".to_owned()]);
        if let Some(url) = self.setup.url() {
            all.extend(["--store".to_owned(), url.to_owned()]);
        }
        command::run(command::layby(self.setup.root(), &all)).await
    }

    /// What a command on this host's data prints for people.
    pub async fn command_text(&self, args: &[&str]) -> String {
        let data = self.setup.data().display().to_string();
        let all = args.iter().copied().chain(["--data", data.as_str()]);
        let done = command::run(command::layby(self.setup.root(), all)).await;
        done.out + &done.err
    }

    /// What `layby plugins` says of one plugin.
    pub async fn plugin(&self, name: &str) -> Value {
        let done = self.command(&["plugins"]).await;
        let all = done.json();
        let found = all["plugins"].as_array().and_then(|a| a.iter().find(|p| p["name"] == name));
        found.cloned().unwrap_or(Value::Null)
    }

    /// Waits until `layby plugins` shows a refusal of this plugin with this code; the plugin.
    pub async fn refusal(&self, name: &str, code: &str) -> Value {
        let what = format!("the refusal {code} of {name}; log:\n{}", self.log());
        eventually(&what, || async {
            let plugin = self.plugin(name).await;
            (plugin["refusal"]["code"] == code).then_some(plugin)
        })
        .await
    }

    /// All tasks in the database.
    pub async fn tasks(&self) -> Vec<Value> {
        let done = self.command(&["tasks", "list", "--limit", "1000"]).await;
        let list = done.json();
        list["tasks"].as_array().unwrap_or_else(|| panic!("no tasks in {done:?}")).clone()
    }
}

/// Waits until this process has ended; its parent may not have asked for its status yet.
pub(crate) async fn gone(pid: u32) {
    let stat = format!("/proc/{pid}/stat");
    // The state comes after the name, which is in brackets.
    while fs::read_to_string(&stat)
        .is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // It may have ended; either way nothing is left behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("-- the host's log:\n{}", self.log());
        }
    }
}
