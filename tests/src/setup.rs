//! What a host is started with: its folders, files and settings.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

use serde_json::json;
use tempfile::TempDir;

use crate::{Host, command, guests, host::gone, rows::Database, warm};

/// What a host is to be started with. Everything lies in one temporary folder.
pub struct Setup {
    folder: Arc<TempDir>,
    config: String,
    /// Variables of each process.
    pub(crate) env: Vec<(String, String)>,
    args: Vec<String>,
    cold: bool,
    /// Compiled code in place of the shared one.
    pub(crate) cache: Option<PathBuf>,
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
                None => warm::copy(&warm::WARM, &self.data()),
                Some(cache) if cache.join("keys").exists() => warm::copy(cache, &self.data()),
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
