//! The version that a parked run goes on with: the component that it began with, under the settings that it began
//! with, whatever serves by now.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::Semaphore;

use super::{
    Plugin, Plugins, Tool,
    check::{Checker, Stop, listing},
    declare::{self, Declared},
    slot,
};
use crate::{
    base::Digest,
    capabilities::Granted,
    config::{CallPolicy, Grants, Limits, Policy},
};

/// What a run began with.
#[derive(Clone, Debug)]
pub struct Pinned {
    /// The plugin's name.
    pub plugin: String,
    /// Its component.
    pub digest: Digest,
    /// The tool's public name.
    pub tool: String,
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

impl Plugins {
    /// The tool that a run began with. Questions are put, and requests sent, only where the plugin's present policy has
    /// the same grant: a plugin that is gone may ask and send nothing any more.
    ///
    /// # Errors
    /// Why there is none now: its kept bytes cannot be read, or it does not list the tool.
    pub async fn pinned(&self, mut want: Pinned) -> Result<Arc<Tool>, String> {
        let catalog = self.catalog();
        let live = catalog.plugins.get(&want.plugin);
        let served = catalog.tools.values().find(|tool| {
            let plugin = &tool.plugin;
            plugin.name == want.plugin
                && plugin.digest == want.digest
                && tool.own_name == want.own_name
                && plugin.policy.limits == want.limits
                && *plugin.policy.call_of(&want.own_name) == want.call
                && plugin.granted.grants == want.grants
        });
        if let Some(tool) = served {
            return Ok(tool.clone());
        }
        want.grants.ask.retain(|ask| live.is_some_and(|live| live.granted.grants.ask.contains(ask)));
        want.grants.http.retain(|http| live.is_some_and(|live| live.granted.grants.http.contains(http)));
        let key = Made::key(&want);
        if let Some(tool) = self.made.get(&key) {
            return Ok(tool);
        }
        let slots = live.map(|live| (live.slots.clone(), live.waiting.clone()));
        let checker = self.checker.clone();
        let made = tokio::task::spawn_blocking(move || checker.pinned(want, slots)).await;
        let tool = match made {
            Ok(Ok(tool)) => tool,
            Ok(Err(Stop::Failed(reason))) => return Err(reason),
            Ok(Err(Stop::Refused(problem))) => return Err(format!("{problem:?}")),
            Err(e) => return Err(format!("making its version broke: {e}")),
        };
        self.made.keep(key, &tool);
        Ok(tool)
    }
}

impl Checker {
    /// A version from kept bytes, which serves nobody but the run that wants it. Blocking.
    fn pinned(
        &self,
        want: Pinned,
        slots: Option<(Arc<Semaphore>, Arc<Semaphore>)>,
    ) -> Result<Arc<Tool>, Stop> {
        let Pinned { plugin: name, digest, tool, own_name, limits, call, grants } = want;
        let bytes = self.kept(digest)?;
        let prepared = self.prepare(&name, digest, &bytes)?;
        let bounds = &self.config.catalog;
        let listed =
            self.runtime.block_on(listing(&name, digest, &prepared, bounds, self.config.host.fuel_slice))?;
        let tools = [(own_name.clone(), call.clone())].into();
        let policy = Policy { sha256: None, prefix: String::new(), limits, call, tools, grants };
        let built = declare::build(&Declared::from(listed), &policy, bounds, false)?;
        let found = built.tools.into_iter().find(|tool| tool.own_name == own_name);
        let mut found =
            found.ok_or_else(|| Stop::Failed(format!("it does not list {own_name:?} any more")))?;
        found.name = tool;
        let (slots, waiting) = slots.unwrap_or_else(|| {
            let of = |n: u32| Arc::new(Semaphore::new(n as usize));
            (of(policy.limits.concurrency), of(policy.limits.parked))
        });
        let granted = Granted::of(&policy.grants).map_err(Stop::Failed)?;
        let plugin = Plugin { name, digest, policy, granted, prepared, slots, waiting };
        Ok(slot::tool(&Arc::new(plugin), found))
    }
}
