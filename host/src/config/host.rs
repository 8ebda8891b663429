//! Options of the host process: `layby.toml`, `LAYBY_*`, command line (later wins).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{AuthConfig, CallPolicy, CallerLimits, CatalogConfig, Limits};
use crate::base::{ByteSize, Millis};

/// The whole configuration of a host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Config {
    /// The file that this was read from, if any: no grant may reach it.
    #[serde(skip)]
    pub file: Option<PathBuf>,
    /// New bytes under an old policy text keep the grants. For development: whoever can replace a
    /// component then gets all that the operator granted to another one.
    pub trust_replacements: bool,
    /// A client that cannot do tasks gets a handle as a normal result, and its model follows it with three
    /// tools of the host's own. Off by default: they stand in every client's list.
    pub bridge_tools: bool,
    /// Where and how to serve.
    pub serve: ServeConfig,
    /// Who may call.
    pub auth: AuthConfig,
    /// Bounds on one caller.
    pub callers: CallerLimits,
    /// Bounds on the host as a whole.
    pub host: HostLimits,
    /// The database.
    pub store: StoreConfig,
    /// Loading plugins.
    pub catalog: CatalogConfig,
    /// Defaults for every plugin's limits; a policy file overrides them.
    pub limits: Limits,
    /// Defaults for every tool's call settings; a policy file overrides them.
    pub call: CallPolicy,
}

/// Where and how to serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct ServeConfig {
    /// Address and port to listen on. Loopback by default: nobody is authenticated by default.
    pub listen: String,
    /// Folder of `NAME.wasm` and `NAME.toml`.
    pub plugins: PathBuf,
    /// Folder of the database, compiled code and keys.
    pub data: PathBuf,
    /// Allow an address other than loopback without authentication. Anybody who can reach it can call every tool.
    pub allow_unauthenticated: bool,
    /// More `Host` names to accept than the address listened on and `localhost`.
    pub allowed_hosts: Vec<String>,
    /// More `Origin` values to accept than those of this host itself.
    pub allowed_origins: Vec<String>,
    /// Largest request body. 4 MiB holds the largest arguments and a few answers.
    pub max_body: ByteSize,
    /// How long a client may take to send its headers. 10 s: a slow link, not a slow attacker.
    pub header_timeout: Millis,
    /// How long the body of a request may take. 30 s: 4 MiB over a slow link.
    pub body_timeout: Millis,
    /// Open connections at once. 4,096 fits under the usual 65,536 descriptors with room for files.
    pub max_connections: u32,
    /// How long a client may take no byte of what is sent to it. 30 s: a phone in a tunnel.
    pub write_timeout: Millis,
    /// Open `subscriptions/listen` streams at once.
    pub max_subscriptions: u32,
    /// The same of one principal: half, so that one caller leaves room for others.
    pub max_subscriptions_each: u32,
    /// Open sessions of older clients at once. Each keeps a task and small queues: 512 are some tens of MiB.
    pub max_sessions: u32,
    /// How long a session may be idle. 30 m is a lunch break; a client that comes later begins a new one.
    pub session_idle: Millis,
    /// Items of one page of a list. 1,000, so that most lists come whole: some clients read the first page only.
    pub page_size: u32,
    /// What clients may tell their model about this server, in `server/discover` and `initialize`; empty for none.
    pub instructions: String,
    /// File of the certificate, with those between it and the root, in PEM, for HTTPS; empty for plain HTTP.
    pub tls_certificate: PathBuf,
    /// File of its private key, in PEM.
    pub tls_key: PathBuf,
    /// How long SIGTERM waits for calls in flight. 10 s is less than the 30 s that supervisors allow.
    pub drain: Millis,
}

impl ServeConfig {
    /// Most bytes of `instructions`: they go into a model's context in every conversation.
    pub const INSTRUCTIONS: usize = 16 << 10;
    /// How often it is looked whether the files of TLS have changed.
    pub const LOOK: Millis = Millis::from_secs(1);
    /// Largest of these files: a chain has a few certificates of some KiB.
    pub const TLS_FILE: ByteSize = ByteSize::kib(256);
    /// How long a client may take to agree on TLS: several round trips on the slowest line.
    pub const HANDSHAKE: Millis = Millis::from_secs(10);

    /// True where this server speaks HTTPS.
    pub fn has_tls(&self) -> bool {
        !self.tls_certificate.as_os_str().is_empty()
    }
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:7331".into(),
            plugins: "plugins".into(),
            data: "data".into(),
            allow_unauthenticated: false,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            max_body: ByteSize::mib(4),
            header_timeout: Millis::from_secs(60),
            body_timeout: Millis::from_secs(30),
            max_connections: 4096,
            write_timeout: Millis::from_secs(30),
            max_subscriptions: 256,
            max_subscriptions_each: 128,
            max_sessions: 512,
            session_idle: Millis::from_secs(30 * 60),
            page_size: 1000,
            instructions: String::new(),
            tls_certificate: PathBuf::new(),
            tls_key: PathBuf::new(),
            drain: Millis::from_secs(10),
        }
    }
}

/// Bounds on the host as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct HostLimits {
    /// Active runs at once; further calls queue, and are promoted when their deadline passes. A quarter, where that is one
    /// or more, is left to runs that go on after a wait, and a quarter to new calls; the same of `memory`.
    pub concurrency: u32,
    /// Sum of the memory limits of active runs. Instances that wait for input may keep half as much again.
    pub memory: ByteSize,
    /// Admissions that may queue for a slot; past it a call gets `host_busy`.
    pub queue: u32,
    /// Requests that start a run, in a second, of all callers. 100,000: more than a large machine answers; less keeps
    /// what stands behind the tools from being overrun.
    pub calls: u32,
    /// Requests about tasks, in a second, of all callers: the same.
    pub polls: u32,
    /// All other requests, in a second, of all callers: the same.
    pub requests: u32,
    /// Live (not ended) tasks at once.
    pub live_tasks: u32,
    /// Waiting runs at once that keep their instance, over all plugins: 1,000 of them must fit the address space
    /// and the memory.
    pub waiting: u32,
    /// Percent of `waiting`, of the memory that instances which wait may keep, and of a plugin's `limits.parked`, past
    /// which runs park before their `linger`, those first that wait longest. 80: the next questions find room at once,
    /// and a machine's quick answers mostly still find the instance.
    pub park_above: u32,
    /// Live runs that have asked by multi round-trip requests, of all hosts on the store. A tenth of the live
    /// tasks: nobody promised to come back to them, so they leave room for tasks.
    pub mrtr_waiting: u32,
    /// The same of one principal: half, so that one caller leaves room for others.
    pub mrtr_waiting_each: u32,
    /// Threads of the guests' own runtime; 0 means one per core.
    pub guest_threads: u32,
    /// Free space below which no call is promoted any more, so that running tasks can still end.
    pub min_free_space: ByteSize,
    /// Fuel between two yields of a guest: about 1 ms of work, the longest a guest holds a thread.
    pub fuel_slice: u64,
}

impl HostLimits {
    /// Most threads of the guests' own runtime: more than the largest machine has cores, and few enough for their stacks.
    pub const GUEST_THREADS: u32 = 1024;
    /// Most of `concurrency` and `waiting` together: each instance has 16 GiB of the 128 TiB of addresses that a process has,
    /// and half of them are left to all else.
    pub const INSTANCES: u32 = 4096;
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            concurrency: 64,
            memory: ByteSize(8 << 30),
            queue: 1024,
            calls: 100_000,
            polls: 100_000,
            requests: 100_000,
            live_tasks: 100_000,
            waiting: 1000,
            park_above: 80,
            mrtr_waiting: 10_000,
            mrtr_waiting_each: 5000,
            guest_threads: 0,
            min_free_space: ByteSize::mib(64),
            fuel_slice: 1_000_000,
        }
    }
}

/// The database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct StoreConfig {
    /// `postgres://USER@HOST/DATABASE` for a PostgreSQL server that hosts on many machines share; empty for
    /// `layby.db` in the data folder. Leave the password to `PGPASSWORD` or `~/.pgpass`.
    pub url: String,
    /// File of the key under which the environment and configuration of plugins are sealed in the database: 32 random
    /// bytes that only this user can read, the same for all hosts on it. Several keys one after another: the first one seals,
    /// all open. Empty for `keys/seal.key` in the data folder, made where it is missing.
    pub seal_key: PathBuf,
    /// How long a statement waits for another process's lock.
    pub busy_timeout: Millis,
    /// How long PostgreSQL may take for one statement. 10 s: less than a lease, and more than a busy server
    /// takes for the largest batch.
    pub statement_timeout: Millis,
    /// Connections for reads; writes share one.
    pub readers: u32,
    /// Pages that each SQLite connection for reads keeps in memory. 8 MiB: the ids of 250,000 tasks and the rows of the
    /// 5,000 that are polled, so that a poll reads no file.
    pub page_cache: ByteSize,
    /// Writes that one commit may carry; past it a second commit follows.
    pub max_batch: u32,
    /// Writes that may wait for the writer; past it a caller waits too.
    pub queue: u32,
    /// How long a lease lives without a heartbeat.
    pub lease: Millis,
    /// How long after a lease's end others wait before they take over: its holder's time to notice.
    pub takeover: Millis,
    /// How long tombstones stay.
    pub tombstones: Millis,
}

impl StoreConfig {
    /// Keys in a file of `seal-key`: the one that seals, and those that it was before.
    pub const SEAL_KEYS: usize = 8;
    /// Bytes of guests' data that one statement carries; a batch of large results takes several.
    pub const STATEMENT_SIZE: ByteSize = ByteSize::mib(16);
    /// Live tasks that the writer remembers, so that their next change need not read them first: more than
    /// can run and wait in one process (`host.concurrency`, `host.waiting`).
    pub const KNOWN_TASKS: usize = 4096;
    /// Write-ahead log kept on disk after a burst: enough for steady work without growing anew.
    pub const WAL_KEPT: ByteSize = ByteSize::mib(64);
    /// Tasks that one commit of a sweep takes: some milliseconds, so that callers' writes come between.
    pub const SWEEP_STEP: u32 = 500;
    /// Components that may be revoked at once: each host reads them all each second.
    pub const REVOKED: usize = 1000;
    /// Longest reason of one, in characters: it stands in logs and tables.
    pub const REVOKED_REASON: usize = 500;
    /// How long PostgreSQL waits for a row that another process is changing: its commits take milliseconds.
    pub const ROW_LOCK: Millis = Millis::from_secs(1);
    /// How long after a lost connection to a server the next try waits.
    pub const RECONNECT: Millis = Millis(250);
    /// How long a component stays in the database though nothing names it: its row comes before the plugin's.
    pub const FORGET_COMPONENT: Millis = Millis::from_secs(3600);
    /// How long a replica that is not heard of keeps the names of its plugins from others: longer than a restart of its
    /// machine, shorter than whoever replaces it wants to wait.
    pub const NAMES_HELD: Millis = Millis::from_secs(3600);
    /// How long it is remembered what such a replica had granted to which component.
    pub const FORGET_REPLICA: Millis = Millis::from_secs(30 * 24 * 3600);
    /// How long the lease of a dead process is remembered.
    pub const FORGET_PROCESS: Millis = Millis::from_secs(3600);
    /// How long the last commit of a silent writer is remembered; only its own next read asks for it.
    pub const FORGET_WRITER: Millis = Millis::from_secs(24 * 3600);
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            url: String::new(),
            seal_key: PathBuf::new(),
            busy_timeout: Millis::from_secs(5),
            statement_timeout: Millis::from_secs(10),
            readers: 4,
            page_cache: ByteSize::mib(8),
            max_batch: 256,
            queue: 4096,
            lease: Millis::from_secs(15),
            takeover: Millis::from_secs(5),
            tombstones: Millis::from_secs(30 * 24 * 3600),
        }
    }
}
