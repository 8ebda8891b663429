//! Folder to catalog: scan, check, swap, pin by digest, policy files.

mod pace;

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::{
    base::{Clock, Digest, Fault, UnixMillis},
    capabilities::{Granted, Linked, Prepared},
    config::{Config, Policy},
    engine::Engine,
    store::Store,
};

pub use pace::Pace;

/// One adopted version of a plugin. Calls in flight hold the `Arc` of the version they started with.
pub struct Plugin {
    /// The file's stem.
    pub name: String,
    /// Its component.
    pub digest: Digest,
    /// The operator's policy.
    pub policy: Policy,
    /// Its grants, resolved (empty where the version serves without grants).
    pub granted: Arc<Granted>,
    /// Ready to instantiate.
    pub prepared: Prepared,
    /// Active runs of this plugin name, over its versions.
    pub slots: Arc<tokio::sync::Semaphore>,
    /// Waiting runs of this plugin name, over its versions.
    pub waiting: Arc<tokio::sync::Semaphore>,
}

/// One tool that is served.
pub struct Tool {
    /// Public name: prefix and own name.
    pub name: String,
    /// The plugin's own name for it.
    pub own_name: String,
    /// The plugin version that serves it.
    pub plugin: Arc<Plugin>,
    /// As `tools/list` shows it.
    pub listed: rmcp::model::Tool,
    /// Arguments' schema, compiled.
    pub input: Validator,
    /// `structuredContent`'s schema, compiled.
    pub output: Option<Validator>,
    /// `x-mcp-header` annotations: header name (without `Mcp-Param-`) and path of property names.
    pub headers: Vec<(String, Vec<String>)>,
    /// Whether its runs end at once, as measured; `Pace::default()` at first.
    pub pace: Pace,
}

/// A compiled JSON Schema (2020-12, no network, linear-time patterns).
pub struct Validator {
    #[expect(dead_code)]
    inner: jsonschema::Validator,
}

impl Validator {
    /// Compiles `schema`.
    ///
    /// # Errors
    /// What is wrong with it, with a JSON pointer.
    pub fn new(schema: &serde_json::Value) -> Result<Self, String> {
        let _ = schema;
        unimplemented!()
    }

    /// `Err` names the first violations, each with its JSON pointer; bounded in length.
    ///
    /// # Errors
    /// The instance does not fit.
    pub fn check(&self, instance: &serde_json::Value) -> Result<(), String> {
        let _ = instance;
        unimplemented!()
    }
}

/// What is served at one moment.
#[derive(Default)]
pub struct Catalog {
    /// By public name; iteration is the stable order of `tools/list`.
    pub tools: BTreeMap<String, Arc<Tool>>,
    /// By plugin name.
    pub plugins: BTreeMap<String, Arc<Plugin>>,
    /// Everything about every file, for `layby plugins` and `/ready`.
    pub report: Vec<Entry>,
}

/// One plugin file's standing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The file's stem.
    pub name: String,
    /// Digest of the version that serves, if one does.
    pub serving: Option<String>,
    /// Its public tool names.
    pub tools: Vec<String>,
    /// True where it serves without grants, because its bytes changed under an old policy.
    pub without_grants: bool,
    /// True while a version is being compiled and checked.
    pub compiling: bool,
    /// The newest refused candidate.
    pub refusal: Option<Refusal>,
}

/// Why a candidate does not serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// Stable code, from `docs/errors.md`: `plugin_not_a_component`, `plugin_wrong_world`,
    /// `plugin_bad_policy`, `plugin_bad_tool_name`, `plugin_name_taken`, `plugin_bad_schema`,
    /// `plugin_digest_pin`, `plugin_list_tools_failed`, `plugin_bad_grant`, `plugin_too_large`.
    pub code: String,
    /// What was wrong.
    pub reason: String,
    /// What to do.
    pub advice: String,
    /// Digest of the refused bytes, where they could be read.
    pub digest: Option<String>,
    /// When.
    pub at: UnixMillis,
}

/// The catalog and its watcher.
pub struct Plugins {
    current: watch::Receiver<Arc<Catalog>>,
}

impl Plugins {
    /// Restores what served last, then watches the folder of `config.serve.plugins` until [`Plugins::close`].
    /// Returns as soon as the restored plugins with a compiled form are served; the rest compiles in the background.
    ///
    /// # Errors
    /// A folder that cannot be read or watched, `store_…`.
    pub async fn open(
        config: Arc<Config>,
        engine: Arc<Engine>,
        linked: Arc<Linked>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, Fault> {
        let _ = (config, engine, linked, store, clock);
        unimplemented!()
    }

    /// What is served now. Cheap.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.current.borrow().clone()
    }

    /// Tells of every change of the catalog.
    pub fn watch(&self) -> watch::Receiver<Arc<Catalog>> {
        self.current.clone()
    }

    /// A plugin said that its tools changed (`changed` in the WIT): list again with the same budget.
    pub fn relist(&self, plugin: &str) {
        let _ = plugin;
        unimplemented!()
    }

    /// Ends the watcher and joins its work.
    pub async fn close(&self) {
        unimplemented!()
    }
}
