//! What a guest can reach: one file per capability, wired in `link.rs`.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;

pub use bindings::layby::plugin::{call as wit_call, types as wit_types};

use crate::{
    config::{Grants, Limits},
    engine::Engine,
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
    /// `request-input`, already checked for form, number and size.
    fn request_input(&self, requests: Vec<Asked>)
    -> BoxFuture<'_, Result<Vec<Answer>, wit_call::InputError>>;
    /// `changed`.
    fn changed(&self, what: wit_call::Change);
    /// `log` and standard error lines: who is speaking, for the operator's log.
    fn log(&self, level: wit_call::LogLevel, message: &str);
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
    /// Fuel between two yields.
    pub fuel_slice: u64,
}

/// A policy's grants, resolved once per plugin version.
#[derive(Debug, Default)]
pub struct Granted {
    /// As the policy has them.
    pub grants: Grants,
}

impl Granted {
    /// Resolves `grants`: opens nothing yet, but checks that every folder is there, is a folder, and
    /// neither contains, equals nor lies inside one of `forbidden` (by device and inode).
    ///
    /// # Errors
    /// The grant that cannot be given, and why.
    pub fn resolve(grants: &Grants, forbidden: &[std::path::PathBuf]) -> Result<Arc<Self>, String> {
        let _ = (grants, forbidden);
        unimplemented!()
    }

    /// True where a run may block its thread on files, so that it must not start on a thread that answers HTTP.
    pub fn may_block(&self) -> bool {
        !self.grants.files.is_empty()
    }
}

/// A component that is linked and type-checked, ready to instantiate.
#[derive(Clone)]
pub struct Prepared {
    pre: bindings::PluginPre<State>,
}

/// The data of one store.
pub struct State {}

/// The linker with every capability; made once per engine.
pub struct Linked {
    #[expect(dead_code)]
    linker: wasmtime::component::Linker<State>,
}

impl Linked {
    /// Wires every capability once.
    ///
    /// # Errors
    /// A clash of names: a bug.
    pub fn new(engine: &Engine) -> anyhow::Result<Self> {
        let _ = engine;
        unimplemented!()
    }

    /// Links `component` against everything.
    ///
    /// # Errors
    /// An import that cannot be satisfied, or a missing export: the text names it.
    pub fn prepare(&self, component: &wasmtime::component::Component) -> anyhow::Result<Prepared> {
        let _ = component;
        unimplemented!()
    }
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
    /// Something wrong on our side (pool full, …): says nothing about the run.
    Host(String),
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

/// Instantiates and calls `call-tool`; one future from start to end, which may be polled on any
/// runtime, and which stops the guest when dropped. `active-time` is the driver's to bound.
pub async fn call_tool(
    prepared: &Prepared,
    setup: Setup,
    tool: &str,
    arguments: &str,
) -> (Result<Result<wit_types::ToolResult, wit_types::ToolError>, Abort>, Used) {
    let _ = (prepared, setup, tool, arguments);
    unimplemented!()
}

/// Instantiates and calls `list-tools`, with an inert caller.
pub async fn list_tools(prepared: &Prepared, setup: Setup) -> Result<Vec<wit_types::Tool>, Abort> {
    let _ = (prepared, setup, &prepared.pre);
    unimplemented!()
}
