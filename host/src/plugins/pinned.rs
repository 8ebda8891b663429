//! The version that a parked run goes on with: the component that it began with, under the settings that it began
//! with, whatever serves by now.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use super::{
    Catalog, Plugin, Plugins, Prompt, Tool,
    check::{Checker, Stop, listing},
    declare::{self, Built, Declared},
    slot,
};
use crate::{
    base::{Digest, Pool},
    capabilities::Granted,
    config::{CallPolicy, CatalogConfig, Grants, Limits, Policy},
    store::Elsewhere,
};

/// What a run began with.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// The plugin's name.
    pub plugin: String,
    /// Its component.
    pub digest: Digest,
    /// The public name of the tool or prompt.
    pub name: String,
    /// The plugin's own name for it.
    pub own_name: String,
    /// Bounds.
    pub limits: Limits,
    /// How calls of the tool are held.
    pub call: CallPolicy,
    /// What the plugin could reach.
    pub grants: Grants,
}

/// Versions that were made for runs, while one of them lives.
#[derive(Default)]
pub(super) struct Made(Mutex<HashMap<String, Weak<Tool>>>);

impl Made {
    /// Names a version; equal for equal ones only.
    fn key(want: &Pinned) -> String {
        format!("{want:?}")
    }

    fn get(&self, key: &str) -> Option<Arc<Tool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).and_then(Weak::upgrade)
    }

    fn keep(&self, key: String, tool: &Arc<Tool>) {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        made.retain(|_, tool| tool.strong_count() > 0);
        made.insert(key, Arc::downgrade(tool));
    }
}

impl Pinned {
    /// True for the version that the run began with, under the same settings; `call` is how calls are held there.
    fn is(&self, plugin: &Plugin, call: &CallPolicy) -> bool {
        plugin.name == self.plugin
            && plugin.digest == self.digest
            && plugin.policy.limits == self.limits
            && *call == self.call
            && plugin.granted.grants == self.grants
    }
}

impl Plugins {
    /// The tool that a run began with. What it does live is granted by [`Plugins::find_granted`] as well.
    ///
    /// # Errors
    /// Why there is none now: its kept bytes cannot be read, it does not list the tool, or nobody can say what it is
    /// granted, because a folder is missing that its policy grants.
    pub async fn pinned_tool(&self, want: Pinned) -> Result<Arc<Tool>, String> {
        let catalog = self.catalog();
        let served = catalog.tools.values().find(|tool| {
            let call = tool.plugin.policy.call_of(&want.own_name);
            tool.own_name == want.own_name && want.is(&tool.plugin, call)
        });
        if let Some(tool) = served.cloned() {
            return Ok(tool);
        }
        self.find_granted(&want.plugin).await?;
        let key = Made::key(&want);
        if let Some(tool) = self.made.get(&key) {
            return Ok(tool);
        }
        let (name, own_name) = (want.name.clone(), want.own_name.clone());
        let (plugin, built) = self.make(want).await?;
        let found = built.tools.into_iter().find(|tool| tool.own_name == own_name);
        let mut found = found.ok_or_else(|| format!("it does not list {own_name:?} any more"))?;
        found.name = name;
        let tool = slot::tool(&plugin, found);
        self.made.keep(key, &tool);
        Ok(tool)
    }

    /// The prompt that a run began with, as [`Plugins::pinned_tool`].
    ///
    /// # Errors
    /// The same.
    pub async fn pinned_prompt(&self, want: Pinned) -> Result<Arc<Prompt>, String> {
        let catalog = self.catalog();
        let served = catalog.prompts.values().find(|prompt| {
            prompt.own_name == want.own_name && want.is(&prompt.plugin, &prompt.plugin.policy.call)
        });
        if let Some(prompt) = served.cloned() {
            return Ok(prompt);
        }
        self.find_granted(&want.plugin).await?;
        let (name, own_name) = (want.name.clone(), want.own_name.clone());
        let (plugin, built) = self.make(want).await?;
        let found = built.prompts.into_iter().find(|prompt| prompt.own_name == own_name);
        let mut found = found.ok_or_else(|| format!("it does not list {own_name:?} any more"))?;
        found.listed.name = name;
        Ok(slot::prompt(&plugin, found))
    }

    /// The plugin that a run of a resource began with, as [`Plugins::pinned_tool`].
    ///
    /// # Errors
    /// The same.
    pub async fn pinned_plugin(&self, want: Pinned) -> Result<Arc<Plugin>, String> {
        let served = self.catalog().plugins.get(&want.plugin).cloned();
        if let Some(plugin) = served.filter(|plugin| want.is(plugin, &plugin.policy.call)) {
            return Ok(plugin);
        }
        self.find_granted(&want.plugin).await?;
        Ok(self.make(want).await?.0)
    }

    /// What the plugin `name` is granted now, where it serves here.
    pub fn granted(&self, name: &str) -> Option<Arc<Granted>> {
        Some(self.current.borrow().plugins.get(name)?.granted.clone())
    }

    /// What the plugin `name` is granted now: by this replica's policy, or, where it does not have the plugin, by the newest of
    /// another one that lives. A plugin that is gone everywhere may do nothing any more.
    ///
    /// # Errors
    /// Nobody can say now: the plugin is not ready yet, or a folder is missing that its policy grants.
    pub async fn find_granted(&self, name: &str) -> Result<Arc<Granted>, String> {
        let catalog = self.settled(name).await;
        if let Some(live) = catalog.plugins.get(name) {
            return Ok(live.granted.clone());
        }
        if catalog.is_refused_for_grants(name) {
            return Err(format!("what the policy of {name:?} grants cannot be given now"));
        }
        if catalog.is_pending(name) {
            return Err(format!("the plugin {name:?} is not ready yet"));
        }
        Granted::of(&self.granted_elsewhere(name).await?)
    }

    /// The catalog, once it is known whether the plugin `name` serves: a host that begins makes its plugins ready while
    /// it goes on with tasks.
    async fn settled(&self, name: &str) -> Arc<Catalog> {
        let mut catalogs = self.watch();
        let known = async {
            loop {
                let catalog = catalogs.borrow_and_update().clone();
                if !catalog.is_pending(name) || catalogs.changed().await.is_err() {
                    return catalog;
                }
            }
        };
        tokio::time::timeout(CatalogConfig::PENDING.duration(), known)
            .await
            .unwrap_or_else(|_| self.catalog())
    }

    /// A version from kept bytes, with what it lists.
    async fn make(&self, want: Pinned) -> Result<(Arc<Plugin>, Built), String> {
        let catalog = self.catalog();
        let live = catalog.plugins.get(&want.plugin);
        let slots = live.map(|live| (live.slots.clone(), live.waiting.clone()));
        let checker = self.checker.clone();
        let made = tokio::task::spawn_blocking(move || checker.pinned(want, slots)).await;
        match made {
            Ok(Ok(made)) => Ok(made),
            Ok(Err(Stop::Failed(reason))) => Err(reason),
            Ok(Err(Stop::Refused(problem))) => Err(format!("{problem:?}")),
            Err(e) => Err(format!("making its version broke: {e}")),
        }
    }

    /// What a plugin that this replica does not have is granted where it serves.
    async fn granted_elsewhere(&self, plugin: &str) -> Result<Grants, String> {
        let all = self.checker.store.plugins_elsewhere().await.map_err(|e| e.to_string())?;
        // The newest first.
        let serves = |other: &&Elsewhere| other.row.name == plugin && other.row.digest.is_some();
        let Some(other) = all.iter().filter(|other| other.lives).find(serves) else {
            return Ok(Grants::default());
        };
        if other.row.without_grants {
            return Ok(Grants::default());
        }
        let (checker, row) = (self.checker.clone(), other.row.clone());
        let text = checker.text_of(&row)?;
        let policy = tokio::task::spawn_blocking(move || checker.policy(&row.name, &text)).await;
        match policy.map_err(|e| e.to_string())? {
            Ok(policy) => Ok(policy.grants),
            Err(problem) => Err(format!("the policy of another replica: {problem:?}")),
        }
    }
}

impl Checker {
    /// A version from kept bytes, which serves nobody but the run that wants it. Blocking.
    fn pinned(
        &self,
        want: Pinned,
        slots: Option<(Arc<Pool>, Arc<Pool>)>,
    ) -> Result<(Arc<Plugin>, Built), Stop> {
        let Pinned { plugin: name, digest, own_name, limits, call, grants, .. } = want;
        self.may_run(digest)?;
        let bytes = self.kept(digest)?;
        let prepared = self.prepare(&name, digest, &bytes)?;
        let bounds = &self.config.catalog;
        let listed =
            self.runtime.block_on(listing(&name, digest, &prepared, bounds, self.config.host.fuel_slice))?;
        let tools = [(own_name, call.clone())].into();
        let policy = Policy { sha256: None, prefix: String::new(), limits, call, tools, grants };
        let built = declare::build(&Declared::from(listed), &policy, bounds, false)?;
        let (slots, waiting) = slots.unwrap_or_else(|| {
            let limits = &policy.limits;
            (Pool::parted(limits.concurrency.into()), Pool::whole(limits.parked.into()))
        });
        let granted = Granted::beside(&policy.grants, &self.own(&policy.grants)).map_err(Stop::Failed)?;
        let plugin = Plugin { name, digest, policy, granted, prepared, slots, waiting };
        Ok((Arc::new(plugin), built))
    }
}
