//! What the end of a job, or of a plugin, changes: in the slot, in the store, in the log.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::Watcher;
use crate::{
    base::Digest,
    plugins::{
        Refusal,
        check::{Stop, Version},
        declare::{self, Declared},
        problem::{Problem, neutral},
        slot,
    },
    store::{PluginRow, StoreError},
};

impl Watcher {
    /// Stores `version` as what serves, and serves it; unless a tool's name is another plugin's.
    pub(super) async fn adopt(&mut self, name: &str, version: Version) {
        let names: Vec<&str> = version.built.iter().map(|b| b.name.as_str()).collect();
        match self.owner_of_any(name, &names).await {
            Err(e) => return self.store_failed(name, &e),
            Ok(Some((tool, owner))) => {
                let problem =
                    Problem::name_taken(format!("the tool name {tool:?} belongs to the plugin {owner}"));
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
        let freed = slot.row.tools.iter().any(|tool| !row.tools.contains(tool));
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

    /// The first of `tools` that another plugin owns: one that serves here, or that the store keeps.
    async fn owner_of_any(&self, name: &str, tools: &[&str]) -> Result<Option<(String, String)>, StoreError> {
        let stored = self.store.plugins().await?;
        let rows = self.slots.values().map(|s| &s.row).chain(&stored);
        let clash = rows.filter(|row| row.name != name).find_map(|row| {
            let tool = row.tools.iter().find(|tool| tools.contains(&tool.as_str()))?;
            Some((tool.clone(), row.name.clone()))
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
        for name in self.relists.take() {
            if let Some(slot) = self.slots.get_mut(&name).filter(|s| s.live.is_some()) {
                let earliest = slot.listed_at.map_or(now, |last| (last + interval).max(now));
                slot.relist_at.get_or_insert(earliest);
            }
        }
    }

    pub(super) async fn relisted(&mut self, name: &str, result: Result<Vec<Declared>, Stop>) {
        let Some(live) = self.slots.get(name).and_then(|s| s.live.as_ref()) else { return };
        let plugin = Arc::clone(&live.plugin);
        let checked = match result {
            Ok(declared) if declared == live.declared => return,
            Ok(declared) => declare::build(&declared, &plugin.policy, &self.checker.config.catalog, false)
                .map(|built| (declared, built))
                .map_err(|p| format!("{} ({})", p.reason, p.code)),
            Err(Stop::Refused(problem)) => Err(format!("{} ({})", problem.reason, problem.code)),
            Err(Stop::Failed(reason)) => Err(reason),
        };
        let (declared, built) = match checked {
            Ok(checked) => checked,
            Err(reason) => return self.relist_failed(name, &reason),
        };
        let names: Vec<&str> = built.iter().map(|b| b.name.as_str()).collect();
        match self.owner_of_any(name, &names).await {
            Ok(None) => {}
            Ok(Some((tool, owner))) => {
                return self
                    .relist_failed(name, &format!("the tool name {tool:?} belongs to the plugin {owner}"));
            }
            Err(e) => return self.relist_failed(name, &e.to_string()),
        }
        let Some(slot) = self.slots.get_mut(name) else { return };
        let tools = built.iter().map(|b| b.name.clone()).collect();
        let row = PluginRow { tools, listed: slot::listed_text(&declared), ..slot.row.clone() };
        if let Err(e) = self.store.put_plugin(row.clone()).await {
            return self.relist_failed(name, &e.to_string());
        }
        let freed = slot.row.tools.iter().any(|tool| !row.tools.contains(tool));
        slot.row = row;
        slot.relist_error = None;
        tracing::info!(plugin = %name, tools = built.len(), "listed again");
        slot.serve_tools(plugin, built, declared);
        if freed {
            self.retry_names();
        }
    }

    fn relist_failed(&mut self, name: &str, reason: &str) {
        let Some(slot) = self.slots.get_mut(name) else { return };
        if slot.relist_error.as_deref() != Some(reason) {
            tracing::warn!(plugin = %name, "its tools stay as they were, listing again failed: {}", neutral(reason, 1000));
            slot.relist_error = Some(reason.to_owned());
        }
    }
}
