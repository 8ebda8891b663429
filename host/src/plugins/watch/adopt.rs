//! What the end of a job, or of a plugin, changes: in the slot, in the store, in the log.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use super::Watcher;
use crate::{
    base::Digest,
    config::BridgeRules,
    plugins::{
        Lists, Refusal,
        check::{Stop, Version},
        declare::{Built, Declared},
        problem::{Problem, neutral},
    },
    store::{PluginRow, StoreError},
};

/// What a plugin owns, in words, in the order of [`owned`].
const KINDS: [&str; 4] = ["tool name", "prompt name", "resource URI", "URI template"];
/// From here on they are URIs, which no prefix changes.
const URIS: usize = 2;
/// Characters of a name that a message quotes.
const QUOTED: usize = 200;

/// Each name that is `row`'s own, with its kind.
fn owned(row: &PluginRow) -> impl Iterator<Item = (usize, &str)> {
    [&row.tools, &row.prompts, &row.resources, &row.templates]
        .into_iter()
        .enumerate()
        .flat_map(|(kind, names)| names.iter().map(move |name| (kind, name.as_str())))
}

/// True where `old` owns a name that `new` does not.
fn frees(old: &PluginRow, new: &PluginRow) -> bool {
    let kept: HashSet<(usize, &str)> = owned(new).collect();
    owned(old).any(|name| !kept.contains(&name))
}

impl Watcher {
    /// Stores `version` as what serves, and serves it; unless a name of it is another plugin's.
    pub(super) async fn adopt(&mut self, name: &str, version: Version) {
        match self.taken(name, &version.built).await {
            Err(e) => return self.store_failed(name, &e),
            Ok(Some(problem)) => {
                let retry = Instant::now() + self.retry();
                if let Some(slot) = self.slots.get_mut(name) {
                    slot.retry_at = Some(retry);
                }
                return self.refuse(name, &problem, Some(version.digest)).await;
            }
            Ok(None) => {}
        }
        let Some(slot) = self.slots.get(name) else { return };
        let row = PluginRow { adopted_at: self.clock.now(), ..slot.row_of(&version) };
        if let Err(e) = self.store.put_plugin(row.clone()).await {
            return self.store_failed(name, &e);
        }
        let Some(slot) = self.slots.get_mut(name) else { return };
        let (digest, tools) = (version.digest.short(), row.tools.len());
        if row.without_grants {
            tracing::warn!(
                plugin = %name, %digest, tools,
                "serves WITHOUT GRANTS, because its component changed under an old policy; \
                 rewrite {name}.toml, or pin sha256 = \"{}\" in it, if you trust the new component",
                version.digest
            );
        } else {
            tracing::info!(plugin = %name, %digest, tools, "serves");
        }
        let freed = frees(&slot.row, &row);
        slot.row = row;
        slot.refusal = None;
        slot.retry_at = None;
        slot.restore_at = None;
        slot.serve(version);
        if freed {
            self.retry_names();
        }
    }

    /// What lies in the folder is what serves: an older refusal is settled.
    pub(super) async fn accept(&mut self, name: &str) {
        let Some(slot) = self.slots.get_mut(name) else { return };
        if slot.refusal.take().is_some() {
            slot.row.refusal = None;
            let row = slot.row.clone();
            self.put(row).await;
        }
    }

    /// The first of its names that the host or another plugin owns: one that serves here, or that the store keeps.
    async fn taken(&self, name: &str, built: &Built) -> Result<Option<Problem>, StoreError> {
        let mut wanted = PluginRow::default();
        built.own(&mut wanted);
        let mut tools = wanted.tools.iter().filter(|_| self.checker.config.bridge_tools);
        if let Some(own) = tools.find(|tool| BridgeRules::NAMES.contains(&tool.as_str())) {
            let reason = format!("the tool name {own:?} is the host's own (bridge-tools)");
            return Ok(Some(Problem::name_taken(reason)));
        }
        let wanted: HashSet<(usize, &str)> = owned(&wanted).collect();
        let stored = self.store.plugins().await?;
        let rows = self.slots.values().map(|s| &s.row).chain(&stored);
        let clash = rows.filter(|row| row.name != name).find_map(|row| {
            let (kind, taken) = owned(row).find(|owned| wanted.contains(owned))?;
            let taken = neutral(taken, QUOTED);
            let reason = format!("the {} {taken:?} belongs to the plugin {}", KINDS[kind], row.name);
            Some(if kind < URIS { Problem::name_taken(reason) } else { Problem::uri_taken(reason) })
        });
        Ok(clash)
    }

    fn store_failed(&mut self, name: &str, error: &StoreError) {
        tracing::error!(plugin = %name, "cannot be adopted, trying again: {error}");
        let retry = Instant::now() + self.retry();
        if let Some(slot) = self.slots.get_mut(name) {
            slot.retry_at = Some(retry);
        }
    }

    /// Notes a refusal; what served goes on. Said and stored once each.
    pub(super) async fn refuse(&mut self, name: &str, problem: &Problem, digest: Option<Digest>) {
        let Some(slot) = self.slots.get_mut(name) else { return };
        let refusal = problem.refusal(digest, self.clock.now());
        let known = |old: &Refusal| {
            (&old.code, &old.reason, &old.digest) == (&refusal.code, &refusal.reason, &refusal.digest)
        };
        if slot.refusal.as_ref().is_some_and(known) {
            return;
        }
        let serving = slot.live.as_ref().map_or("nothing serves".to_owned(), |live| {
            format!("{} goes on serving", live.plugin.digest.short())
        });
        tracing::warn!(plugin = %name, code = problem.code, "refused: {}; {}; {serving}", problem.reason, problem.advice);
        slot.row.refusal = serde_json::to_string(&refusal).ok();
        slot.refusal = Some(refusal);
        let row = slot.row.clone();
        self.put(row).await;
    }

    /// Writes a row that only informs; a failure is told, and the next change writes again.
    async fn put(&self, row: PluginRow) {
        let name = row.name.clone();
        if let Err(e) = self.store.put_plugin(row).await {
            tracing::error!(plugin = %name, "its row cannot be written: {e}");
        }
    }

    /// The component is gone: the plugin, its grants and its names go with it.
    pub(super) async fn remove(&mut self, name: &str, policy_stays: bool) {
        let Some(slot) = self.slots.remove(name) else { return };
        // What it said is not news of one that comes later under its name.
        self.relists.take(name);
        tracing::info!(plugin = %name, "removed");
        self.forget(slot.row, policy_stays).await;
        self.retry_names();
    }

    /// Drops a row, but for the memory of who had the grants of a policy file that stays.
    pub(super) async fn forget(&mut self, row: PluginRow, policy_stays: bool) {
        let name = row.name.clone();
        let result = if policy_stays && row.granted.is_some() {
            let (granted, policy) = (row.granted, row.policy);
            let row = PluginRow { name: name.clone(), granted, policy, ..PluginRow::default() };
            self.past.insert(name.clone(), row.clone());
            self.store.put_plugin(row).await
        } else {
            self.store.drop_plugin(name.clone()).await
        };
        if let Err(e) = result {
            tracing::error!(plugin = %name, "its row cannot be dropped, a restart does it: {e}");
        }
    }

    /// A name came free: who was refused for one tries again now.
    fn retry_names(&mut self) {
        let now = Instant::now();
        for slot in self.slots.values_mut() {
            if slot.refusal.as_ref().is_some_and(|r| r.code == "plugin_name_taken") {
                slot.retry_at = Some(now);
            }
        }
    }

    pub(super) fn ask_relists(&mut self) {
        let now = Instant::now();
        let interval = Duration::from_millis(self.checker.config.catalog.relist_interval.0);
        for name in self.relists.names() {
            match self.slots.get_mut(&name).filter(|s| s.live.is_some()) {
                Some(slot) => {
                    let earliest = slot.listed_at.map_or(now, |last| (last + interval).max(now));
                    slot.relist_at.get_or_insert(earliest);
                }
                None => drop(self.relists.take(&name)),
            }
        }
    }

    /// A listing on demand has ended. Its plugin `said` what has changed, and subscribers are told that,
    /// also where the lists are as before; a listing that failed changes nothing and tells nobody.
    pub(super) async fn relisted(
        &mut self,
        name: &str,
        said: Lists,
        result: Result<Option<(Declared, Built)>, Stop>,
    ) {
        let failed = match result {
            Ok(None) => None,
            Ok(Some((declared, built))) => self.serve_again(name, declared, built).await.err(),
            Err(Stop::Refused(problem)) => Some(format!("{} ({})", problem.reason, problem.code)),
            Err(Stop::Failed(reason)) => Some(reason),
        };
        let Some(slot) = self.slots.get_mut(name) else { return };
        match failed {
            None => {
                slot.said = slot.said.or(said);
                slot.relist_error = None;
            }
            Some(reason) => self.relist_failed(name, &reason),
        }
    }

    /// Stores and serves what the version that serves lists now.
    async fn serve_again(&mut self, name: &str, declared: Declared, built: Built) -> Result<(), String> {
        if let Some(problem) = self.taken(name, &built).await.map_err(|e| e.to_string())? {
            return Err(format!("{} ({})", problem.reason, problem.code));
        }
        let Some(slot) = self.slots.get_mut(name) else { return Ok(()) };
        let Some(plugin) = slot.live.as_ref().map(|live| Arc::clone(&live.plugin)) else { return Ok(()) };
        let mut row = PluginRow { listed: declared.to_row(), ..slot.row.clone() };
        built.own(&mut row);
        self.store.put_plugin(row.clone()).await.map_err(|e| e.to_string())?;
        let freed = frees(&slot.row, &row);
        tracing::info!(
            plugin = %name, tools = row.tools.len(), prompts = row.prompts.len(),
            resources = row.resources.len(), templates = row.templates.len(), "listed again"
        );
        slot.row = row;
        slot.serve_lists(plugin, built, declared);
        if freed {
            self.retry_names();
        }
        Ok(())
    }

    fn relist_failed(&mut self, name: &str, reason: &str) {
        let Some(slot) = self.slots.get_mut(name) else { return };
        if slot.relist_error.as_deref() != Some(reason) {
            tracing::warn!(plugin = %name, "its lists stay as they were, listing again failed: {}", neutral(reason, 1000));
            slot.relist_error = Some(reason.to_owned());
        }
    }
}
