//! A real `layby serve`, in folders of its own.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, LazyLock, mpsc},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Client, command, eventually, guests, rows::Database, wait::BOUND};

/// What a host is to be started with. Everything lies in one temporary folder.
pub struct Setup {
    folder: Arc<TempDir>,
    config: String,
    env: Vec<(String, String)>,
    args: Vec<String>,
    cold: bool,
    cache: Option<PathBuf>,
    port: u16,
}

impl Default for Setup {
    fn default() -> Self {
        Self::new()
    }
}

impl Setup {
    /// No plugins, no configuration.
    ///
    /// # Panics
    /// Without a temporary folder.
    pub fn new() -> Self {
        let folder = Arc::new(TempDir::with_prefix("layby-test-").expect("a temporary folder"));
        for name in ["plugins", "files"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        Self {
            folder,
            config: String::new(),
            env: Vec::new(),
            args: Vec::new(),
            cold: false,
            cache: None,
            port: 0,
        }
    }

    /// A host that serves `probe` with this policy, and may ask everything.
    pub fn probe(policy: &str) -> Self {
        let asks = "[grants]\nask = [\"form\", \"url https://example.com/\", \"sampling\", \"roots\"]\n";
        let has_grants = policy.contains("[grants]");
        Self::new().plugin("probe", &if has_grants { policy.to_owned() } else { format!("{policy}\n{asks}") })
    }

    /// Adds a built component with a policy; an empty one means no file.
    pub fn plugin(self, name: &str, policy: &str) -> Self {
        let bytes = guests::component(name);
        self.file(name, &bytes, policy)
    }

    /// Adds a component by its bytes.
    pub fn file(self, name: &str, bytes: &[u8], policy: &str) -> Self {
        put(&self.plugins(), name, bytes, policy);
        self
    }

    /// The text of `layby.toml`.
    pub fn config(mut self, text: &str) -> Self {
        self.config.push_str(text);
        self.config.push('\n');
        self
    }

    /// A variable for the host.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// One more argument for `serve`.
    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.into());
        self
    }

    /// On this PostgreSQL database.
    pub fn store(self, url: &str) -> Self {
        self.arg("--store").arg(url)
    }

    /// The database's URL, where it is no file in the data folder.
    pub fn url(&self) -> Option<&str> {
        let at = self.args.iter().position(|arg| arg == "--store")?;
        self.args.get(at + 1).map(String::as_str)
    }

    /// The database.
    pub fn database(&self) -> Database {
        match self.url() {
            Some(url) => Database::Postgres(url.to_owned()),
            None => Database::Sqlite(self.data().join("layby.db")),
        }
    }

    /// On this port of 127.0.0.1.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Without the shared cache of compiled code.
    pub fn cold(mut self) -> Self {
        self.cold = true;
        self
    }

    /// With the compiled code of `folder`, if there is any, in place of the shared cache; [`Host::keep_cache`]
    /// puts it there.
    pub fn cache(mut self, folder: &Path) -> Self {
        self.cache = Some(folder.to_owned());
        self
    }

    /// The temporary folder.
    pub fn root(&self) -> &Path {
        self.folder.path()
    }

    /// The folder of plugins.
    pub fn plugins(&self) -> PathBuf {
        self.root().join("plugins")
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.root().join("data")
    }

    /// A folder to grant.
    pub fn files(&self) -> PathBuf {
        self.root().join("files")
    }

    /// A grant of [`Setup::files`] as `/files`, for a policy's `grants.files`.
    pub fn grant(&self, write: bool) -> String {
        format!("{{ host = {}, guest = \"/files\", write = {write} }}", json!(self.files()))
    }

    /// Starts a process that may end at any moment, with more variables for it alone; none where it was killed before
    /// it was ready.
    ///
    /// # Panics
    /// If it ends in another way, or is not ready in time.
    pub async fn mortal(self: &Arc<Self>, env: &[(&str, &str)]) -> Option<Host> {
        let mut host = Host::begin(self.clone(), env);
        if host.url.is_empty() {
            assert!(host.ended().await.is_none(), "it ended by itself; log:\n{}", host.log());
            return None;
        }
        let ready = host.settled();
        let settled = tokio::select! {
            () = ready => true,
            () = gone(host.pid()) => false,
        };
        settled.then_some(host)
    }

    /// The command line, ready to start.
    ///
    /// # Panics
    /// If the configuration cannot be written.
    pub fn command(&self) -> Command {
        if !self.cold && !self.data().join("compiled").exists() {
            match &self.cache {
                None => copy_cache(&WARM, &self.data()),
                Some(cache) if cache.join("keys").exists() => copy_cache(cache, &self.data()),
                Some(_) => {}
            }
        }
        fs::write(self.root().join("layby.toml"), &self.config).expect("the configuration can be written");
        let mut command = Command::new(guests::layby());
        command.args(["serve", "--config", "layby.toml", "--listen", &format!("127.0.0.1:{}", self.port)]);
        command.arg("--plugins").arg(self.plugins()).arg("--data").arg(self.data());
        command.args(&self.args).current_dir(self.root()).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("LAYBY_") {
                command.env_remove(name);
            }
        }
        command.envs(self.env.iter().map(|(k, v)| (k, v)));
        command
    }

    /// Starts, and waits until every plugin is served or refused.
    pub async fn start(self) -> Host {
        let host = Host::spawn(Arc::new(self));
        host.settled().await;
        host
    }

    /// Starts what is expected to end at once; returns its exit code and standard error.
    ///
    /// # Panics
    /// If it goes on.
    pub async fn start_failing(&self) -> command::Done {
        let mut command = tokio::process::Command::from(self.command());
        command.kill_on_drop(true);
        command::run(command).await
    }
}

/// Writes a plugin: the policy first, each by an atomic rename.
///
/// # Panics
/// If a file cannot be written.
pub fn put(plugins: &Path, name: &str, bytes: &[u8], policy: &str) {
    if !policy.is_empty() {
        replace(&plugins.join(format!("{name}.toml")), policy.as_bytes());
    }
    replace(&plugins.join(format!("{name}.wasm")), bytes);
}

/// Writes a file beside `path`, and renames it.
///
/// # Panics
/// If it cannot be written.
pub fn replace(path: &Path, bytes: &[u8]) {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    fs::write(&temporary, bytes).expect("a file can be written");
    fs::rename(&temporary, path).expect("a file can be renamed");
}

/// A data folder with the compiled code of all guests: a test copies it and compiles nothing.
static WARM: LazyLock<PathBuf> = LazyLock::new(|| {
    let warm = guests::target().join("tmp/warm");
    let mut setup = Setup::new().cold();
    for name in ["probe", "chameleon", "echo", "conformance", "tidy", "library"] {
        put(&setup.plugins(), name, &guests::component(name), "");
    }
    setup = setup.config("[catalog]\ncompile-jobs = 2");
    if warm.join("keys").exists() {
        copy_cache(&warm, &setup.data());
    }
    let data = setup.data();
    let host = Host::spawn(Arc::new(setup));
    let ready = format!("{}/ready", host.base());
    // A thread, because whoever comes first is inside a runtime already.
    let waited = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(all_settled(&ready, 6, SETTLED));
    });
    waited.join().expect("the guests compile");
    let kept = keep_cache(&data, &warm);
    drop(host);
    kept
});

/// Copies compiled code to `folder`; the folder that has it now.
fn keep_cache(data: &Path, folder: &Path) -> PathBuf {
    let fresh = folder.with_extension(std::process::id().to_string());
    copy_cache(data, &fresh);
    // Another test process may do the same at this moment: either's cache is good.
    let _ = fs::remove_dir_all(folder);
    match fs::rename(&fresh, folder) {
        Ok(()) => folder.to_owned(),
        Err(_) => fresh,
    }
}

/// Copies compiled code and its key, and nothing else of a data folder.
fn copy_cache(from: &Path, to: &Path) {
    use std::os::unix::fs::DirBuilderExt as _;
    let make =
        |path: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(path).expect("a folder");
    for folder in ["compiled", "keys"] {
        make(&to.join(folder));
        for entry in fs::read_dir(from.join(folder)).expect("the cache can be listed") {
            let path = entry.expect("the cache can be listed").path();
            let name = path.file_name().expect("a file has a name");
            if folder == "compiled" || name == "compile.key" {
                fs::copy(&path, to.join(folder).join(name)).expect("the cache can be copied");
            }
        }
    }
}

/// Longest wait until all plugins are served or refused, where their compiled code is at hand or small.
const SETTLED: Duration = Duration::from_secs(60);
/// The same where a language's runtime may have to be compiled first, on a machine that is busy with other tests.
const SETTLED_WITH_RUNTIMES: Duration = Duration::from_secs(600);

async fn all_settled(ready: &str, plugins: u64, bound: Duration) {
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
    url: String,
    setup: Arc<Setup>,
    log: PathBuf,
}

impl Host {
    /// Starts a process, and waits for the line with its URL.
    fn spawn(setup: Arc<Setup>) -> Self {
        let host = Self::begin(setup, &[]);
        assert!(!host.url.is_empty(), "no URL; log:\n{}", host.log());
        host
    }

    /// The same, with more variables; without a URL where there came none.
    fn begin(setup: Arc<Setup>, env: &[(&str, &str)]) -> Self {
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
        keep_cache(&self.setup.data(), folder);
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
async fn gone(pid: u32) {
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
