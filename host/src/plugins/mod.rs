//! Folder to catalog: scan, check, swap, pin by digest, policy files.

mod check;
mod compile;
mod cost;
mod declare;
mod headers;
mod keep;
mod look;
mod pace;
mod pinned;
mod problem;
mod revoked;
mod scan;
mod schema;
mod sealed;
mod slot;
mod swap;
mod template;
mod watch;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use tokio::{
    sync::{broadcast, watch as channel},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

use crate::{
    base::{Clock, Digest, Fault, Pool, Signers, UnixMillis},
    capabilities::{Granted, Linked, Prepared, wit_call},
    config::{Config, Policy},
    engine::Engine,
    store::{PluginRow, Store, Vault},
};

pub use check::Stop;
pub use compile::compile;
pub use look::{Looked, look};
#[cfg(feature = "fuzzing")]
pub(crate) use look::{declared, look_by};
pub use pace::Pace;
pub use pinned::Pinned;
pub use problem::Problem;
pub use scan::{PLUGIN_NAME, component_path, is_plugin_name, policy_path, signature_path};
pub use schema::Validator;
pub use template::UriTemplate;

/// Changed contents that a slow reader may have waiting; one that falls behind is told to read again.
const CONTENTS: usize = 256;

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
    pub slots: Arc<Pool>,
    /// Waiting runs of this plugin name that keep their instance, over its versions.
    pub waiting: Arc<Pool>,
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

/// One prompt that is served.
pub struct Prompt {
    /// Public name: prefix and own name.
    pub name: String,
    /// The plugin's own name for it.
    pub own_name: String,
    /// The plugin version that serves it.
    pub plugin: Arc<Plugin>,
    /// As `prompts/list` shows it; its arguments too.
    pub listed: rmcp::model::Prompt,
}

/// One resource that is served.
pub struct Resource {
    /// The plugin version that serves it.
    pub plugin: Arc<Plugin>,
    /// As `resources/list` shows it.
    pub listed: rmcp::model::Resource,
}

/// One family of resources that is served.
pub struct Template {
    /// The plugin version that serves it.
    pub plugin: Arc<Plugin>,
    /// As `resources/templates/list` shows it.
    pub listed: rmcp::model::ResourceTemplate,
    /// The same, compiled: which URIs are of this family.
    pub uris: UriTemplate,
}

/// Some of the lists that a client can watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lists {
    tools: bool,
    prompts: bool,
    /// Resources and their templates.
    resources: bool,
}

impl Lists {
    /// Those of both.
    fn or(self, other: Self) -> Self {
        Self {
            tools: self.tools || other.tools,
            prompts: self.prompts || other.prompts,
            resources: self.resources || other.resources,
        }
    }
}

/// Grow whenever a plugin says that a list has changed, or what a client sees of it does: then
/// subscribers are told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Revisions {
    /// Of `tools/list`.
    pub tools: u64,
    /// Of `prompts/list`.
    pub prompts: u64,
    /// Of `resources/list` and `resources/templates/list`.
    pub resources: u64,
}

/// What is served at one moment.
#[derive(Default)]
pub struct Catalog {
    /// By public name; iteration is the stable order of `tools/list`.
    pub tools: BTreeMap<String, Arc<Tool>>,
    /// By public name, in the order of `prompts/list`.
    pub prompts: BTreeMap<String, Arc<Prompt>>,
    /// By URI, in the order of `resources/list`.
    pub resources: BTreeMap<String, Arc<Resource>>,
    /// By URI template, in the order of `resources/templates/list`.
    pub templates: BTreeMap<String, Arc<Template>>,
    /// By plugin name.
    pub plugins: BTreeMap<String, Arc<Plugin>>,
    /// Everything about every file, for `layby plugins` and `/ready`.
    pub report: Vec<Entry>,
    /// What of it has changed.
    pub revisions: Revisions,
}

impl Catalog {
    /// Who serves the resource `uri`: listed itself, or else the first template that it fits, in the order
    /// of `resources/templates/list`.
    pub fn resource(&self, uri: &str) -> Option<Arc<Plugin>> {
        let listed = self.resources.get(uri).map(|resource| &resource.plugin);
        let family = || self.templates.values().find(|t| t.uris.fits(uri)).map(|t| &t.plugin);
        listed.or_else(family).cloned()
    }

    /// True where the plugin `name` does not serve, and perhaps will as soon as it was looked at.
    fn is_pending(&self, name: &str) -> bool {
        let entry = self.report.iter().find(|entry| entry.name == name);
        !self.plugins.contains_key(name)
            && entry.is_some_and(|entry| entry.pending)
            && !self.is_refused_for_grants(name)
    }

    /// True where the plugin `name` is refused for what its policy grants, such as a folder that is missing.
    fn is_refused_for_grants(&self, name: &str) -> bool {
        let entry = self.report.iter().find(|entry| entry.name == name);
        let refusal = entry.and_then(|entry| entry.refusal.as_ref());
        refusal.is_some_and(|refusal| refusal.code == problem::BAD_GRANT)
    }
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
    /// The same, or it waits to be tried again: true as long as it may come to serve without anybody's doing.
    pub pending: bool,
    /// The newest refused candidate.
    pub refusal: Option<Refusal>,
}

impl Entry {
    /// What a row of the store tells, for commands beside a running host; none for a name of which
    /// only the memory of its grants is left.
    pub fn of_row(row: &PluginRow) -> Option<Self> {
        let refusal = row.refusal.as_deref().and_then(|text| serde_json::from_str(text).ok());
        if row.digest.is_none() && refusal.is_none() {
            return None;
        }
        Some(Self {
            name: row.name.clone(),
            serving: row.digest.map(|d| d.to_string()),
            tools: row.tools.clone(),
            without_grants: row.without_grants,
            compiling: false,
            pending: false,
            refusal,
        })
    }
}

/// Why a candidate does not serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refusal {
    /// Stable code, from `docs/errors.md`: `plugin_not_a_component`, `plugin_wrong_world`, `plugin_bad_function`,
    /// `plugin_bad_policy`, `plugin_bad_tool_name`, `plugin_name_taken`, `plugin_bad_schema`,
    /// `plugin_bad_tool`, `plugin_bad_prompt`, `plugin_bad_resource`, `plugin_digest_pin`,
    /// `plugin_list_tools_failed`, `plugin_list_slow`, `plugin_bad_grant`, `plugin_too_large`, `plugin_unreadable`,
    /// `plugin_unsigned`, `plugin_bad_signature`, `plugin_revoked`.
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
    current: channel::Receiver<Arc<Catalog>>,
    relists: Arc<watch::Relists>,
    checker: Arc<check::Checker>,
    made: pinned::Made,
    contents: broadcast::Sender<Arc<str>>,
    revoked: channel::Receiver<revoked::All>,
    cancel: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Plugins {
    /// Restores what served last, then watches the folder of `config.serve.plugins` until [`Plugins::close`].
    /// Returns as soon as the restored plugins with a compiled form are served; the rest compiles in the background.
    ///
    /// # Errors
    /// `plugins_folder` where it cannot be read, or is missing while the store knows plugins of it;
    /// `plugins_data` where the data folder cannot keep components; `config_invalid` for keys that are none, which a checked
    /// configuration has not; `store_…`.
    pub async fn open(
        config: Arc<Config>,
        engine: Arc<Engine>,
        linked: Arc<Linked>,
        store: Arc<dyn Store>,
        vault: Arc<Vault>,
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<Self>, Fault> {
        let rows = store.plugins().await?;
        let (knows, revoked) = channel::channel(revoked::read(&*store).await?);
        let (folder, data) = (config.serve.plugins.clone(), config.serve.data.clone());
        let (known, signed) = (!rows.is_empty(), config.catalog.is_signed());
        let opened = tokio::task::spawn_blocking(move || {
            let found = open_folder(&folder, known, signed)?;
            let keep = keep::Keep::open(&data).map_err(|e| {
                let reason = format!("components cannot be kept under {}: {e}", data.display());
                Fault::internal("plugins_data", format!("{reason}; make it a folder that layby may write"))
            })?;
            Ok::<_, Fault>((found, keep))
        });
        let (found, keep) = opened
            .await
            .map_err(|e| Fault::internal("plugins_folder", format!("the first look broke: {e}")))??;

        let signers = config.catalog.is_signed().then(|| Signers::of(&config.catalog.signers)).transpose();
        let signers = signers.map_err(|e| Fault::internal("config_invalid", e))?;
        let cancel = CancellationToken::new();
        let runtime = tokio::runtime::Handle::current();
        let compiling = tokio::sync::Semaphore::new(watch::compile_jobs(&config.catalog));
        let (cancelled, shared) = (cancel.clone(), store.clone());
        let checker = check::Checker {
            config,
            engine,
            linked,
            keep,
            signers,
            store: shared,
            vault,
            cancel: cancelled,
            runtime,
            compiling,
        };
        let (published, current) = channel::channel(Arc::default());
        let checker = Arc::new(checker);
        let following = revoked::follow(store.clone(), knows, cancel.clone());
        let mut watcher = watch::Watcher::new(checker.clone(), store, clock, published, revoked.clone());
        watcher.restore(rows, found).await;
        let relists = Arc::clone(&watcher.relists);
        let tasks = Mutex::new(vec![tokio::spawn(watcher.run()), tokio::spawn(following)]);
        let contents = broadcast::channel(CONTENTS).0;
        Ok(Arc::new(Self {
            current,
            relists,
            checker,
            made: pinned::Made::default(),
            contents,
            revoked,
            cancel,
            tasks,
        }))
    }

    /// What is served now. Cheap.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.current.borrow().clone()
    }

    /// Tells of every change of the catalog; [`Catalog::revisions`] says which lists are concerned.
    pub fn watch(&self) -> channel::Receiver<Arc<Catalog>> {
        self.current.clone()
    }

    /// A plugin said that something of it changed (`changed` in the WIT). A list is listed again with the
    /// same budget, at most once per `relist-interval`, and then told to who watches; contents are told to
    /// who watches [`Plugins::contents`], where the URI is one of the plugin's own. Cheap; names that do not
    /// serve are ignored.
    pub fn changed(&self, plugin: &str, what: wit_call::Change) {
        let catalog = self.catalog();
        if !catalog.plugins.contains_key(plugin) {
            return;
        }
        let said = match what {
            wit_call::Change::Tools => Lists { tools: true, ..Lists::default() },
            wit_call::Change::Prompts => Lists { prompts: true, ..Lists::default() },
            wit_call::Change::Resources => Lists { resources: true, ..Lists::default() },
            wit_call::Change::Contents(uri) => {
                if catalog.resource(&uri).is_some_and(|owner| owner.name == plugin) {
                    // Nobody may be listening.
                    drop(self.contents.send(uri.into()));
                } else {
                    let uri = problem::neutral(&uri, 200);
                    tracing::debug!(plugin = %plugin, %uri, "said that a resource changed that is not its own");
                }
                return;
            }
        };
        self.relists.ask(plugin, said);
    }

    /// The URIs of resources whose contents have changed.
    pub fn contents(&self) -> broadcast::Receiver<Arc<str>> {
        self.contents.subscribe()
    }

    /// Ends the watcher and joins its work. A compilation cannot be stopped: it is waited for 2 s at
    /// most, and leaves nothing half done.
    pub async fn close(&self) {
        self.cancel.cancel();
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            if let Err(e) = task.await {
                tracing::error!("the plugin watcher broke: {e}");
            }
        }
    }
}

impl Drop for Plugins {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

/// The first look at the folder. One that is missing is made, unless plugins were served from it: then it
/// is more likely not mounted, and taking it for empty would revoke them all. Blocking.
fn open_folder(folder: &Path, known: bool, signed: bool) -> Result<scan::Found, Fault> {
    let fault = |e: std::io::Error| {
        let reason = format!("the plugin folder {} cannot be read: {e}", folder.display());
        Fault::internal("plugins_folder", format!("{reason}; make it, or name another with --plugins"))
    };
    match scan::scan(folder, signed) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && !known => {
            tracing::warn!("there was no plugin folder {}: made an empty one", folder.display());
            std::fs::create_dir_all(folder).and_then(|()| scan::scan(folder, signed)).map_err(fault)
        }
        found => found.map_err(fault),
    }
}
