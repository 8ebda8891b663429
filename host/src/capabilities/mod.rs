//! What a guest can reach: one file per capability, wired in `link.rs`.
//!
//! Each file says, for what it holds: the *grant* that opens it, its *effect class* (derived, read, wait,
//! idempotent or unsafe effect, harmless, denied), and what it *records* in the run's journal.

mod answers;
mod call;
mod clock;
mod denied;
mod effects;
mod env;
mod files;
mod http;
mod link;
mod nobody;
mod poll;
mod questions;
mod random;
mod reflect;
mod result;
mod run;
mod secrets;
mod sockets;
mod state;
mod stdio;
mod table;
mod unknown;

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;

pub use bindings::layby::plugin::{call as wit_call, types as wit_types};

pub use answers::describe as describe_answer;
pub use clock::Began;
pub use files::{Granted, describe_change, is_secret, is_written};
pub use http::{Flights, describe as describe_exchange, is_plain_path};
pub use link::{Exports, Linked, Prepared, Unfit};
pub use nobody::Nobody;
pub use result::{NotMcp, call_tool_result, completion, get_prompt_result, is_silent, read_resource_result};
pub use run::{call, list};
pub use state::{State, journal_key};
pub use unknown::{Deed, HOSTS_OWN, Unknown};

use crate::{
    config::Limits,
    journal::{Journal, Mismatch},
    store::{Answer, QuestionKind},
};

/// The generated bindings of `wit/plugin.wit`.
#[allow(missing_docs)]
pub mod bindings {
    wasmtime::component::bindgen!({
        path: "../wit",
        world: "plugin",
        imports: { default: async | trappable },
        exports: { default: async },
    });

    /// The optional interface `prompts`.
    pub mod prompts {
        wasmtime::component::bindgen!({
            path: "../wit",
            world: "plugin-prompts",
            imports: { default: async | trappable },
            exports: { default: async },
            with: {
                "layby:plugin/types": super::layby::plugin::types,
                "layby:plugin/call": super::layby::plugin::call,
            },
        });
    }

    /// The optional interface `resources`.
    pub mod resources {
        wasmtime::component::bindgen!({
            path: "../wit",
            world: "plugin-resources",
            imports: { default: async | trappable },
            exports: { default: async },
            with: {
                "layby:plugin/types": super::layby::plugin::types,
                "layby:plugin/call": super::layby::plugin::call,
            },
        });
    }

    /// The optional interface `completions`.
    pub mod completions {
        wasmtime::component::bindgen!({
            path: "../wit",
            world: "plugin-completions",
            imports: { default: async | trappable },
            exports: { default: async },
            with: {
                "layby:plugin/types": super::layby::plugin::types,
                "layby:plugin/call": super::layby::plugin::call,
            },
        });
    }
}

/// The host's side of `layby:plugin/call`: what a run's driver (or an inert stand-in while
/// `list-tools` runs) answers to its guest. Called on the guest's own future: must not block a thread.
pub trait Caller: Send + Sync + 'static {
    /// `report-progress`, already checked to be finite and increasing, and within the rate limit.
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<String>);
    /// `check-cancelled`.
    fn cancelled(&self) -> bool;
    /// `supports`: client capability and policy.
    fn supports(&self, kind: QuestionKind) -> bool;
    /// `request-input`, already checked for form, number and size. `again`: the run had asked this when it was
    /// last seen, and had no answer.
    fn request_input(
        &self,
        requests: Vec<Asked>,
        again: bool,
    ) -> BoxFuture<'_, Result<Vec<Answer>, wit_call::InputError>>;
    /// Puts a question of the host's own, whose key is under [`HOSTS_OWN`] and names it: asked again after a crash, it
    /// gets the answer that there was.
    ///
    /// # Errors
    /// `unsupported` where the caller cannot be asked.
    fn ask_for_host(&self, _question: Asked) -> BoxFuture<'_, Result<Answer, wit_call::InputError>> {
        Box::pin(std::future::ready(Err(wit_call::InputError::Unsupported)))
    }
    /// The guest sleeps, with so long to go. Nothing else is under way: its instance may be ended meanwhile, and
    /// the run resumed when the time has come.
    fn sleeps(&self, left: Duration);
    /// It has woken.
    fn woke(&self);
    /// Returns once all that the run has recorded is committed, where the run is a task: before an effect.
    ///
    /// # Errors
    /// The run is being stopped: no effect may begin any more.
    fn commit(&self) -> BoxFuture<'_, Result<(), Stopping>>;
    /// All that the run has recorded is to be committed soon, where the run is a task: with the next effect, if that comes
    /// first.
    fn commit_soon(&self) {}
    /// What policy grants the plugin now, where that is known at once. Whatever a run does live must be granted by what it
    /// began with and by this.
    fn granted(&self) -> Option<Arc<Granted>>;
    /// The same where it must be found out first.
    ///
    /// # Errors
    /// Nobody can say now.
    fn find_granted(&self) -> BoxFuture<'_, Result<Arc<Granted>, String>> {
        Box::pin(std::future::ready(Ok(self.granted().unwrap_or_default())))
    }
    /// Asked just before an effect leaves: false where another process may soon go on with the run, or does already.
    fn may_send(&self) -> bool {
        true
    }
    /// `changed`.
    fn changed(&self, what: wit_call::Change);
    /// A line of the log.
    fn log(&self, audience: Audience, level: wit_call::LogLevel, message: &str);
}

/// The run is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopping;

/// Who may see a line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The operator, and the caller's client where it asked: what the plugin said by `log`.
    Client,
    /// The operator alone. Standard streams and `wasi:logging` may have paths and backtraces, which a
    /// client never sees.
    Operator,
}

/// One checked question, as it goes to the caller.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The plugin's key.
    pub key: String,
    /// Kind.
    pub kind: QuestionKind,
    /// MCP request: `{"method": …, "params": …}`.
    pub request: serde_json::Value,
}

/// All that one instance starts with.
pub struct Setup {
    /// Bounds.
    pub limits: Limits,
    /// What it may reach, with file grants already opened and checked (see `files::Opened`).
    pub grants: Arc<Granted>,
    /// The host's side.
    pub caller: Arc<dyn Caller>,
    /// Seed of everything random.
    pub seed: [u8; 32],
    /// What the run has done so far, and where it is recorded. Its key is [`journal_key`] of the seed.
    pub journal: Journal,
    /// When it began.
    pub began: Began,
    /// The exchanges by HTTP that its instance has under way.
    pub flights: Flights,
    /// Fuel between two yields.
    pub fuel_slice: u64,
    /// Always holds the bytes of all linear memories that the instance has now.
    pub meter: Arc<std::sync::atomic::AtomicU64>,
}

impl Setup {
    /// Of a run that begins now, and yields every `fuel_slice` units of fuel.
    pub fn fresh(
        limits: Limits,
        grants: Arc<Granted>,
        caller: Arc<dyn Caller>,
        seed: [u8; 32],
        fuel_slice: u64,
    ) -> Self {
        let journal = Journal::record(journal_key(seed), limits.journal.as_usize());
        let (began, flights) = (Began::now(), Flights::default());
        Self { limits, grants, caller, seed, journal, began, flights, fuel_slice, meter: Arc::default() }
    }
}

/// What an instance is made for.
#[derive(Clone, Debug)]
pub enum Request {
    /// `call-tool`, by the plugin's own name.
    Tool {
        /// The plugin's own name for it.
        name: String,
        /// The arguments, as JSON.
        arguments: String,
    },
    /// `get-prompt`, by the plugin's own name.
    Prompt {
        /// The plugin's own name for it.
        name: String,
        /// Pairs of name and value.
        arguments: Vec<(String, String)>,
    },
    /// `read-resource`.
    Resource {
        /// Its URI.
        uri: String,
    },
    /// `complete`.
    Completion {
        /// What is completed.
        reference: wit_types::CompletionReference,
        /// The argument's name.
        argument: String,
        /// What stands there so far.
        value: String,
        /// The arguments that are settled already.
        context: Vec<(String, String)>,
    },
}

/// A guest's own answer to a [`Request`], of the same case.
#[derive(Clone, Debug)]
pub enum Response {
    /// A tool's.
    Tool(Result<wit_types::ToolResult, wit_types::ToolError>),
    /// A prompt's.
    Prompt(Result<wit_types::PromptResult, wit_types::RequestError>),
    /// A resource's contents.
    Resource(Result<Vec<wit_types::EmbeddedResource>, wit_types::RequestError>),
    /// A completion's.
    Completion(Result<wit_types::Completion, wit_types::RequestError>),
}

/// Everything that a plugin says it has; empty where it does not export the interface.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// `list-tools`.
    pub tools: Vec<wit_types::Tool>,
    /// `list-prompts`.
    pub prompts: Vec<wit_types::Prompt>,
    /// `list-resources`.
    pub resources: Vec<wit_types::ResourceInfo>,
    /// `list-templates`.
    pub templates: Vec<wit_types::ResourceTemplate>,
}

/// Why an instance ended without the guest's own answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Abort {
    /// A limit was hit: which, its value, and what would need less.
    Limit {
        /// Key in the policy: `fuel`, `memory`, `active-time`, `output`, `questions`, …
        name: &'static str,
        /// Its value, for people.
        value: String,
        /// What would need less.
        advice: String,
    },
    /// The guest trapped; the text is for the log, its first line fit for a caller.
    Trap(String),
    /// Something wrong on our side (pool full, …), or anything that went wrong before all of the journal was
    /// replayed: says nothing about the run.
    Host(String),
    /// It does not what its journal has: it cannot be resumed by this component.
    Mismatch(Mismatch),
    /// What it has read of a folder is not there any more as it was, and its content was not kept.
    FileChanged {
        /// The path, as the guest has it.
        path: String,
    },
    /// It was interrupted in an effect that must not happen twice: what became of it is not known, and nobody says that
    /// it is to go on.
    Unknown(Unknown),
}

/// What one instance used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    /// Fuel.
    pub fuel: u64,
    /// Largest sum of linear memories, in bytes.
    pub memory: u64,
    /// Time from start to end.
    pub elapsed: Duration,
}

#[cfg(test)]
mod standard_tests;
#[cfg(test)]
mod tests;
