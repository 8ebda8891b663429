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
        problem::{Problem, REVOKED, neutral},
    },
    store::{PluginRow, StoreError},
};

/// What a plugin owns, in words, in the order of [`PluginRow::names`].
const KINDS: [&str; 4] = ["tool name", "prompt name", "resource URI", "URI template"];
/// From here on they are URIs, which no prefix changes.
const URIS: usize = 2;
/// Characters of a name that a message quotes.
const QUOTED: usize = 200;

/// True where `old` owns a name that `new` does not.
fn frees(old: &PluginRow, new: &PluginRow) -> bool {
    let kept: HashSet<(usize, &str)> = new.names().collect();
    old.names().any(|name| !kept.contains(&name))
}

/// What is wrong where a name of `wanted` is `owner`'s; none where they have none in common.
fn clash(wanted: &PluginRow, owner: &PluginRow) -> Option<Problem> {
    let names: HashSet<(usize, &str)> = wanted.names().collect();
    let (kind, taken) = owner.names().find(|name| names.contains(name))?;
    let taken = neutral(taken, QUOTED);
    let reason = format!("the {} {taken:?} belongs to the plugin {}", KINDS[kind], owner.name);
    Some(if kind < URIS { Problem::name_taken(reason) } else { Problem::uri_taken(reason) })
}

impl Watcher {
    /// Stores `version` as what serves, and serves it; unless a name of it is another plugin's.
    pub(super) async fn adopt(&mut self, name: &str, version: Version) {
        match self.taken(name, &version.built).await {
            Err(e) => return self.store_failed(name, &e),
            Ok(Some(problem)) => return self.lacks_a_name(name, &problem, version.digest).await,
            Ok(None) => {}
        }
        let Some(slot) = self.slots.get(name) else { return };
        let row = PluginRow { adopted_at: self.clock.now(), ..slot.row_of(&version) };
        // Another process may have taken a name since.
        match self.store.adopt_plugin(row.clone()).await {
            Err(e) => return self.store_failed(name, &e),
            Ok(Some(owner)) => {
                let problem = clash(&row, &owner).unwrap_or_else(|| Problem::name_taken(owner.name));
                return self.lacks_a_name(name, &problem, version.digest).await;
            }
            Ok(None) => {}
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

    /// Refused for as long as a name of it is another plugin's.
    async fn lacks_a_name(&mut self, name: &str, problem: &Problem, digest: Digest) {
        let retry = Instant::now() + self.retry();
        if let Some(slot) = self.slots.get_mut(name) {
            slot.retry_at = Some(retry);
        }
        self.refuse(name, problem, Some(digest)).await;
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

    /// The first of its names that the host or another plugin owns: one that serves here, or that the store keeps, of
    /// this replica or of one that lives.
    async fn taken(&self, name: &str, built: &Built) -> Result<Option<Problem>, StoreError> {
        let mut wanted = PluginRow::default();
        built.own(&mut wanted);
        let mut tools = wanted.tools.iter().filter(|_| self.checker.config.bridge_tools);
        if let Some(own) = tools.find(|tool| BridgeRules::NAMES.contains(&tool.as_str())) {
            let reason = format!("the tool name {own:?} is the host's own (bridge-tools)");
            return Ok(Some(Problem::name_taken(reason)));
        }
        let stored = self.store.plugins().await?;
        let elsewhere = self.store.plugins_elsewhere().await?;
        let living = elsewhere.iter().filter(|other| other.lives).map(|other| &other.row);
        let rows = self.slots.values().map(|s| &s.row).chain(&stored).chain(living);
        Ok(rows.filter(|row| row.name != name).find_map(|row| clash(&wanted, row)))
    }

    /// The plugins of other replicas that live. Where that cannot be told, none: what served goes on.
    pub(super) async fn living_elsewhere(&self) -> Vec<PluginRow> {
        match self.store.plugins_elsewhere().await {
            Ok(all) => all.into_iter().filter(|other| other.lives).map(|other| other.row).collect(),
            Err(e) => {
                tracing::warn!(error = %e, "what other replicas have cannot be read");
                Vec::new()
            }
        }
    }

    /// Gives up the names of a plugin that does not serve, but not the memory of its grants; the row as it is then.
    pub(super) async fn without_names(&self, row: PluginRow) -> PluginRow {
        let PluginRow { name, granted, policy, .. } = row;
        let row = PluginRow { name, granted, policy, ..PluginRow::default() };
        self.put(row.clone()).await;
        row
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

    /// What is wrong with `digest` where it is revoked.
    pub(super) fn revocation(&self, digest: Digest) -> Option<Problem> {
        self.revoked.borrow().get(&digest).map(Problem::of_revoked)
    }

    /// Something was revoked, or is no more: takes what serves out of service, and looks again at what was refused. A plugin
    /// keeps its names, and the memory of its grants.
    pub(super) async fn obey(&mut self) {
        let all = self.revoked.borrow_and_update().clone();
        let mut condemned = Vec::new();
        let now = Instant::now();
        for (name, slot) in &mut self.slots {
            let serving = slot.live.as_ref().map(|live| live.plugin.digest);
            if let Some(revoked) = serving.and_then(|digest| all.get(&digest)) {
                slot.live = None;
                slot.relist_at = None;
                condemned.push((name.clone(), Problem::of_revoked(revoked), revoked.digest));
            } else if slot.refusal.as_ref().is_some_and(|refusal| refusal.code == REVOKED) {
                slot.retry_at = Some(now);
                if slot.live.is_none() {
                    slot.restore_at = slot.row.digest.filter(|digest| !all.contains_key(digest)).map(|_| now);
                }
            }
        }
        for (name, problem, digest) in condemned {
            self.refuse(&name, &problem, Some(digest)).await;
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
        if let Some(owner) = self.store.adopt_plugin(row.clone()).await.map_err(|e| e.to_string())? {
            return Err(format!("a name belongs to the plugin {}", owner.name));
        }
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
