//! The operator's policy for one plugin: `NAME.toml` beside `NAME.wasm`.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::base::{ByteSize, Digest, Millis, quoted};

/// The effective policy of a plugin: its file over `layby.toml` over the defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// Pin: another digest is refused.
    pub sha256: Option<Digest>,
    /// Put before each tool name.
    pub prefix: String,
    /// Bounds on a run.
    pub limits: Limits,
    /// How calls are held, promoted and kept, for every tool.
    pub call: CallPolicy,
    /// The same per tool (by the plugin's own name, without prefix), already merged over `call`.
    pub tools: BTreeMap<String, CallPolicy>,
    /// What the plugin may reach.
    pub grants: Grants,
}

impl Policy {
    /// The call settings of the plugin's tool `own_name`.
    pub fn call_of(&self, own_name: &str) -> &CallPolicy {
        self.tools.get(own_name).unwrap_or(&self.call)
    }
}

/// Bounds on a run, per run unless said otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Limits {
    /// Instructions, counted by wasmtime's fuel: about 10 s of one core.
    pub fuel: u64,
    /// All linear memories together.
    pub memory: ByteSize,
    /// Wall clock, waits for input not counted.
    pub active_time: Millis,
    /// A result, as JSON.
    pub output: ByteSize,
    /// The arguments, as JSON.
    pub arguments: ByteSize,
    /// Questions in a run. At most 16 at once, each of at most 64 KiB.
    pub questions: u32,
    /// Progress reports kept per second.
    pub progress: u32,
    /// Standard error kept in the log.
    pub stderr: ByteSize,
    /// The journal, with all answers that it keeps; past it the run is pinned.
    pub journal: ByteSize,
    /// Requests by HTTP. 1,000 is a long list fetched page by page.
    pub http_requests: u32,
    /// A request's body: it is gathered whole before it is sent.
    pub http_request_body: ByteSize,
    /// An answer's body: it is gathered whole before the plugin sees it, and kept in the journal.
    pub http_response_body: ByteSize,
    /// The headers of a request, and those of an answer: what servers commonly allow, and cookies.
    pub http_headers: ByteSize,
    /// All bodies of a run together, both ways, and the headers that it makes: they pass through the host's own
    /// memory.
    pub http_bytes: ByteSize,
    /// One exchange, from look-up to the end of the answer; never longer than the active time that is left.
    pub http_time: Millis,
    /// Exchanges of a run at once; further ones wait.
    pub http_concurrency: u32,
    /// Handles that a run holds at once: timers, streams, requests, and whatever else the host keeps something of for
    /// it. A timer counts as two. Large event loops have some hundreds.
    pub handles: u32,
    /// Files, folders and listings of folders that a run has open at once. With 64 active runs it stays
    /// below the 65,536 descriptors that a process commonly has, connections included.
    pub open_files: u32,
    /// What a run may write to files, in all; no file is written or made longer beyond it either.
    pub file_bytes: ByteSize,
    /// Active runs of this plugin at once.
    pub concurrency: u32,
    /// Waiting runs of this plugin at once that keep their instance.
    pub parked: u32,
}

impl Limits {
    /// Questions that one `request-input` may put.
    pub const QUESTIONS_AT_ONCE: usize = 16;
    /// A secret: the longest tokens in use have some thousand bytes.
    pub const SECRET_SIZE: ByteSize = ByteSize::kib(16);
    /// A file whose content is compared before a run changes what it has read: reading and hashing so much takes about a
    /// millisecond. Larger ones are compared by size and time.
    pub const COMPARED: ByteSize = ByteSize::mib(1);
    /// One question, with its schema, as JSON.
    pub const QUESTION_SIZE: ByteSize = ByteSize::kib(64);
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            fuel: 20_000_000_000,
            memory: ByteSize::mib(256),
            active_time: Millis::from_secs(600),
            output: ByteSize::mib(4),
            arguments: ByteSize::mib(1),
            questions: 100,
            progress: 10,
            stderr: ByteSize::mib(1),
            journal: ByteSize::mib(16),
            http_requests: 1000,
            http_request_body: ByteSize::mib(4),
            http_response_body: ByteSize::mib(4),
            http_headers: ByteSize::kib(64),
            http_bytes: ByteSize::mib(64),
            http_time: Millis::from_secs(30),
            http_concurrency: 8,
            handles: 8192,
            open_files: 256,
            file_bytes: ByteSize::mib(1024),
            concurrency: 8,
            parked: 10_000,
        }
    }
}

/// How a tool's calls are held, promoted and kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct CallPolicy {
    /// How long a call may hold its response open before it is promoted.
    pub deadline: Millis,
    /// The same for a client without tasks; below the common client time-out of 60 s.
    pub hold: Millis,
    /// How long a cancelled run may take to stop by itself.
    pub grace: Millis,
    /// How long a waiting run keeps its instance (durable runs).
    pub linger: Millis,
    /// How long a client may stay away: part of every TTL.
    pub absence: Millis,
    /// How long a question waits for its answer.
    pub input_deadline: Millis,
    /// The same for a question that is pushed to a client of an older revision, whose request stays open.
    pub push_wait: Millis,
    /// What happens then.
    pub on_input_timeout: OnInputTimeout,
    /// What a question before promotion becomes.
    pub early_input: EarlyInput,
    /// A client without tasks is refused at once.
    pub requires_tasks: bool,
    /// Answers sent before anything was asked count, for the first round.
    pub pre_answers: bool,
    /// The calling model itself may answer (bridge tools).
    pub model_may_answer: bool,
    /// Name of an argument that carries the idempotency key; empty for none.
    pub idempotency_argument: String,
}

impl Default for CallPolicy {
    fn default() -> Self {
        Self {
            deadline: Millis::from_secs(3),
            hold: Millis::from_secs(50),
            grace: Millis::from_secs(2),
            linger: Millis::from_secs(5),
            absence: Millis::from_secs(24 * 3600),
            input_deadline: Millis::from_secs(24 * 3600),
            push_wait: Millis::from_secs(300),
            on_input_timeout: OnInputTimeout::Fail,
            early_input: EarlyInput::Task,
            requires_tasks: false,
            pre_answers: false,
            model_may_answer: false,
            idempotency_argument: String::new(),
        }
    }
}

/// What happens when no answer comes in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnInputTimeout {
    /// The task fails, with the reason.
    #[default]
    Fail,
    /// The plugin gets `timed-out` and goes on.
    Resume,
}

/// What a question before promotion becomes, for a client with tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EarlyInput {
    /// A task that is `input_required`.
    #[default]
    Task,
    /// An `InputRequiredResult` (multi round-trip request).
    Mrtr,
}

/// What a plugin may reach. Nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Grants {
    /// Kinds of question: `form`, `sampling`, `roots`, `url PREFIX`.
    pub ask: Vec<String>,
    /// Outgoing HTTP.
    pub http: Vec<HttpGrant>,
    /// Environment variables.
    pub env: BTreeMap<String, EnvValue>,
    /// Folders.
    pub files: Vec<FileGrant>,
    /// Values of `wasi:config/store`.
    pub config: BTreeMap<String, String>,
}

/// One rule for outgoing requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct HttpGrant {
    /// `METHOD URL-PATTERN`.
    pub allow: String,
    /// Re-sent after a crash.
    #[serde(default)]
    pub idempotent: bool,
    /// Addresses beside those of the public internet that the host's name may have: `10.1.2.3` or `10.1.0.0/16`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
}

/// The value of an environment variable.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum EnvValue {
    /// The value itself.
    Plain(String),
    /// The name of a variable of the host; the guest sees a placeholder.
    Secret {
        /// The host's variable.
        secret: String,
    },
    /// A file of the host's that holds the value, read anew at each use; the guest sees a placeholder.
    SecretFile {
        /// Its path; relative to the policy file's folder.
        #[serde(rename = "secret-file")]
        secret_file: PathBuf,
    },
}

impl EnvValue {
    /// True where the guest sees a placeholder.
    pub const fn is_secret(&self) -> bool {
        !matches!(self, Self::Plain(_))
    }
}

impl<'de> Deserialize<'de> for EnvValue {
    /// By hand, because serde's own error for untagged values names neither key nor type.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        struct Table {
            secret: Option<String>,
            secret_file: Option<PathBuf>,
        }
        struct Visit;
        impl<'de> de::Visitor<'de> for Visit {
            type Value = EnvValue;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a string, { secret = \"NAME\" } with a variable of the host, or { secret-file = \"PATH\" }")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<EnvValue, E> {
                Ok(EnvValue::Plain(text.to_owned()))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<EnvValue, A::Error> {
                match Table::deserialize(de::value::MapAccessDeserializer::new(map))? {
                    Table { secret: Some(secret), secret_file: None } => Ok(EnvValue::Secret { secret }),
                    Table { secret: None, secret_file: Some(secret_file) } => {
                        Ok(EnvValue::SecretFile { secret_file })
                    }
                    _ => {
                        Err(de::Error::custom("either `secret` or `secret-file` must be there, and not both"))
                    }
                }
            }
        }
        d.deserialize_any(Visit)
    }
}

/// One folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FileGrant {
    /// Path on the host; relative to the policy file's folder.
    pub host: PathBuf,
    /// Path that the guest sees; absolute.
    pub guest: String,
    /// May the guest change it?
    #[serde(default)]
    pub write: bool,
}

impl FileGrant {
    /// As a policy has it.
    pub fn line(&self) -> String {
        let (host, guest) = (quoted(&self.host.to_string_lossy()), quoted(&self.guest));
        format!("{{ host = {host}, guest = {guest}, write = {} }}", self.write)
    }
}
