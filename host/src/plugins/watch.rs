//! The watcher: one task that owns all slots, looks at the folder, starts jobs, and publishes the
//! catalog. Jobs run on blocking threads; nothing else changes a slot.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use notify::Watcher as _;
use tokio::{
    sync::{Notify, Semaphore, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    Catalog, Refusal,
    check::{Checker, Outcome, Stop, Version},
    declare::{self, Declared},
    keep::Keep,
    problem::{Problem, neutral},
    scan::{self, Found, Seen},
    slot::{self, Slot},
};
use crate::{
    base::{Clock, Digest},
    store::{PluginRow, Store, StoreError},
};

/// Least time between two looks at the folder: a slow copy tells of every block that it writes.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// How often kept bytes are gone through for those that nothing names any more.
const COLLECT_EVERY: Duration = Duration::from_secs(3600);
/// How long the end waits for jobs: a compilation cannot be stopped, and leaves nothing half done.
const END_WAIT: Duration = Duration::from_secs(2);

/// Plugins that asked to be listed again. Bounded by the number of plugins that serve.
#[derive(Default)]
pub(super) struct Relists {
    names: Mutex<BTreeSet<String>>,
    wake: Notify,
}

impl Relists {
    pub(super) fn ask(&self, plugin: &str) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(plugin.to_owned());
        self.wake.notify_one();
    }

    fn take(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.names.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a job brings back: the name, its life, and how it ended.
type Done = (String, u64, Job);

enum Job {
    Candidate(Outcome),
    Restore(Outcome),
    List(Result<Vec<Declared>, Stop>),
}

/// The watcher before and while it runs.
pub(super) struct Watcher {
    pub(super) checker: Arc<Checker>,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) relists: Arc<Relists>,
    published: watch::Sender<Arc<Catalog>>,
    slots: BTreeMap<String, Slot>,
    /// Names whose component is gone while their policy file stays: what was granted to whom.
    past: BTreeMap<String, PluginRow>,
    /// Files that make no plugin, with what is wrong.
    odd: BTreeMap<String, Refusal>,
    jobs: JoinSet<Done>,
    compiling: Arc<Semaphore>,
    lives: u64,
    folder_lost: bool,
    folder_events: Arc<Notify>,
    folder_watch: Option<(notify::RecommendedWatcher, (u64, u64))>,
    collect_at: Instant,
}

impl Watcher {
    pub(super) fn new(
        checker: Arc<Checker>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        published: watch::Sender<Arc<Catalog>>,
    ) -> Self {
        let jobs = match checker.config.catalog.compile_jobs {
            0 => cores().div_ceil(2),
            n => n as usize,
        };
        Self {
            checker,
            store,
            clock,
            relists: Arc::default(),
            published,
            slots: BTreeMap::new(),
            past: BTreeMap::new(),
            odd: BTreeMap::new(),
            jobs: JoinSet::new(),
            compiling: Arc::new(Semaphore::new(jobs)),
            lives: 0,
            folder_lost: false,
            folder_events: Arc::default(),
            folder_watch: None,
            collect_at: Instant::now() + Duration::from_secs(60),
        }
    }

    /// Takes over what the store remembers, and serves again what has a compiled form.
    pub(super) async fn restore(&mut self, rows: Vec<PluginRow>, found: Found) {
        let now = Instant::now();
        for row in rows {
            let name = row.name.clone();
            if found.plugins.contains_key(&name) {
                let mut slot = self.new_slot(row);
                slot.restore_at = slot.row.digest.map(|_| now);
                self.slots.insert(name, slot);
            } else {
                self.forget(row, found.policies.contains(&name)).await;
            }
        }
        self.take_in(found, true).await;

        let cached: Vec<String> =
            self.slots.values().filter(|s| s.restore_at.is_some()).map(|s| s.row.name.clone()).collect();
        let room = Arc::new(Semaphore::new(cores()));
        for name in cached {
            self.start_restore(&name, &room);
        }
        while let Some(done) = self.jobs.join_next().await {
            self.end_job(done).await;
        }
        self.publish();
    }

    /// Runs until `checker.cancel`.
    pub(super) async fn run(mut self) {
        let cancel = self.checker.cancel.clone();
        let poll = Duration::from_millis(self.checker.config.catalog.poll.0);
        let mut look_at = Instant::now();
        let relists = Arc::clone(&self.relists);
        let events = Arc::clone(&self.folder_events);
        while !cancel.is_cancelled() {
            let now = Instant::now();
            if look_at <= now {
                self.look(&cancel).await;
                look_at = Instant::now() + poll;
            }
            self.start_jobs();
            self.publish();
            self.collect(&cancel).await;
            let next = self.next_due().map_or(look_at, |due| due.min(look_at));
            tokio::select! {
                () = cancel.cancelled() => break,
                () = tokio::time::sleep_until(next.into()) => {}
                () = events.notified() => look_at = look_at.min(Instant::now() + LOOK_PAUSE),
                () = relists.wake.notified() => self.ask_relists(),
                Some(done) = self.jobs.join_next() => self.end_job(done).await,
            }
        }
        let ended = async { while self.jobs.join_next().await.is_some() {} };
        if tokio::time::timeout(END_WAIT, ended).await.is_err() {
            tracing::info!("a compilation is still running; it leaves nothing half done");
        }
        self.jobs.abort_all();
    }

    fn new_slot(&mut self, row: PluginRow) -> Slot {
        self.lives += 1;
        Slot::new(self.lives, row)
    }

    /// One look at the folder.
    async fn look(&mut self, cancel: &CancellationToken) {
        let folder = self.checker.config.serve.plugins.clone();
        let scanned = tokio::task::spawn_blocking(move || scan::scan(&folder));
        // A network file system may hang: the end does not wait for it.
        let found = tokio::select! {
            () = cancel.cancelled() => return,
            scanned = scanned => scanned.unwrap_or_else(|e| Err(std::io::Error::other(e))),
        };
        match found {
            Ok(found) => {
                self.folder_lost = false;
                self.take_in(found, false).await;
            }
            Err(e) if !self.folder_lost => {
                self.folder_lost = true;
                let folder = self.checker.config.serve.plugins.display();
                tracing::warn!(
                    %folder,
                    "the plugin folder cannot be read, what serves goes on: {e}; make the folder readable again"
                );
            }
            Err(_) => {}
        }
    }

    /// Compares what was found with what is known.
    async fn take_in(&mut self, found: Found, first: bool) {
        self.watch_folder(found.folder);
        let now = Instant::now();
        let settle = self.settle();
        let mut odd: BTreeMap<String, Problem> = found
            .misnamed
            .into_iter()
            .map(|name| {
                let reason = "its name is not 1 to 64 of A-Z a-z 0-9 _ - .".to_owned();
                (name, Problem::unreadable(reason))
            })
            .collect();
        for (name, pair) in &found.plugins {
            let most = self.checker.config.catalog.max_plugins as usize;
            if !self.slots.contains_key(name) {
                if self.slots.len() >= most {
                    let reason = format!("the folder holds more plugins than `max-plugins` allows ({most})");
                    odd.insert(name.clone(), Problem::too_large(reason));
                    continue;
                }
                let fresh = PluginRow { name: name.clone(), ..PluginRow::default() };
                let slot = self.past.remove(name).unwrap_or(fresh);
                let slot = self.new_slot(slot);
                self.slots.insert(name.clone(), slot);
            }
            let Some(slot) = self.slots.get_mut(name) else { continue };
            slot.gone_since = None;
            match pair {
                Ok(pair) => {
                    let age = if first { pair.age() } else { Duration::ZERO };
                    slot.seen = Some(Seen::observe(slot.seen, *pair, now, age));
                }
                Err(reason) => {
                    slot.seen = None;
                    let problem = Problem::unreadable(reason);
                    self.refuse(name, &problem, None).await;
                }
            }
        }
        self.note_odd(odd);

        let mut gone = Vec::new();
        for (name, slot) in &mut self.slots {
            if !found.plugins.contains_key(name) {
                slot.seen = None;
                if now >= *slot.gone_since.get_or_insert(now) + settle {
                    gone.push(name.clone());
                }
            }
        }
        for name in gone {
            self.remove(&name, found.policies.contains(&name)).await;
        }
        let unpoliced: Vec<_> = self.past.keys().filter(|n| !found.policies.contains(*n)).cloned().collect();
        for name in unpoliced {
            if let Some(row) = self.past.remove(&name) {
                self.forget(row, false).await;
            }
        }
    }

    fn note_odd(&mut self, odd: BTreeMap<String, Problem>) {
        self.odd.retain(|name, _| odd.contains_key(name));
        for (name, problem) in odd {
            let known = self.odd.get(&name).is_some_and(|r| r.reason == problem.reason);
            if !known {
                tracing::warn!(plugin = %name, code = problem.code, "refused: {}; {}", problem.reason, problem.advice);
                self.odd.insert(name, problem.refusal(None, self.clock.now()));
            }
        }
    }

    /// Watches the folder, again where another folder has taken its place. Without a watch, polling remains.
    fn watch_folder(&mut self, id: (u64, u64)) {
        if self.folder_watch.as_ref().is_some_and(|(_, watched)| *watched == id) {
            return;
        }
        let wake = Arc::clone(&self.folder_events);
        let watch = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|e| !e.kind.is_access()) {
                wake.notify_one();
            }
        });
        let watched = watch.and_then(|mut watch| {
            watch.watch(&self.checker.config.serve.plugins, notify::RecursiveMode::NonRecursive)?;
            Ok(watch)
        });
        match watched {
            Ok(watch) => self.folder_watch = Some((watch, id)),
            Err(e) => {
                if self.folder_watch.take().is_some() || self.slots.is_empty() {
                    tracing::info!(
                        "the system does not tell of changes in the plugin folder, it is polled: {e}"
                    );
                }
            }
        }
    }

    fn settle(&self) -> Duration {
        Duration::from_millis(self.checker.config.catalog.settle.0)
    }

    fn retry(&self) -> Duration {
        Duration::from_millis(self.checker.config.catalog.retry.0)
    }

    /// When something is due that no event tells of.
    fn next_due(&self) -> Option<Instant> {
        let settle = self.settle();
        let idle = self.slots.values().filter(|s| !s.busy);
        let due = idle.flat_map(|s| {
            let unchecked = s.seen.filter(|seen| Some(seen.pair()) != s.taken);
            [unchecked.map(|seen| seen.settled_at(settle)), s.retry_at, s.restore_at, s.relist_at]
        });
        let gone = self.slots.values().map(|s| s.gone_since.map(|since| since + settle));
        due.chain(gone).flatten().min()
    }

    /// Starts what is due, one job per name.
    fn start_jobs(&mut self) {
        let now = Instant::now();
        let settle = self.settle();
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        let names: Vec<String> = self.slots.iter().filter(|(_, s)| !s.busy).map(|(n, _)| n.clone()).collect();
        let room = Arc::clone(&self.compiling);
        for name in names {
            let Some(slot) = self.slots.get_mut(&name) else { continue };
            slot.settle_gates();
            if slot.live.is_none() && due(slot.restore_at) {
                self.start_restore(&name, &room);
                continue;
            }
            let unchecked =
                slot.seen.is_some_and(|s| Some(s.pair()) != slot.taken && s.settled_at(settle) <= now);
            if unchecked || due(slot.retry_at) {
                slot.retry_at = None;
                self.start_candidate(&name, &room);
            } else if due(slot.relist_at) {
                slot.relist_at = None;
                slot.listed_at = Some(now);
                self.start_list(&name, &room);
            }
        }
    }

    fn start(
        &mut self,
        name: &str,
        room: &Arc<Semaphore>,
        job: impl FnOnce(&Checker) -> Job + Send + 'static,
    ) {
        let Some(slot) = self.slots.get_mut(name) else { return };
        slot.busy = true;
        let (name, life) = (name.to_owned(), slot.life);
        let (room, checker) = (Arc::clone(room), Arc::clone(&self.checker));
        self.jobs.spawn(async move {
            let permit = room.acquire_owned().await;
            let result = tokio::task::spawn_blocking(move || job(&checker)).await;
            drop(permit);
            let job =
                result.unwrap_or_else(|e| Job::Candidate(Outcome::Failed(format!("its check broke: {e}"))));
            (name, life, job)
        });
    }

    fn start_restore(&mut self, name: &str, room: &Arc<Semaphore>) {
        let Some(slot) = self.slots.get_mut(name) else { return };
        slot.restore_at = None;
        let row = slot.row.clone();
        let Some(digest) = row.digest else { return };
        self.start(name, room, move |checker| Job::Restore(checker.restore(&row, digest)));
    }

    fn start_candidate(&mut self, name: &str, room: &Arc<Semaphore>) {
        let Some(slot) = self.slots.get_mut(name) else { return };
        let Some(seen) = slot.seen else { return };
        let pair = seen.pair();
        slot.taken = Some(pair);
        let (row, serves) = (slot.row.clone(), slot.live.is_some());
        self.start(name, room, move |checker| {
            Job::Candidate(checker.candidate(&row.name.clone(), &pair, Some(&row), serves))
        });
    }

    fn start_list(&mut self, name: &str, room: &Arc<Semaphore>) {
        let Some(plugin) = self.slots.get(name).and_then(|s| s.live.as_ref()).map(|l| Arc::clone(&l.plugin))
        else {
            return;
        };
        self.start(name, room, move |checker| {
            Job::List(checker.list(&plugin.name, plugin.digest, &plugin.prepared))
        });
    }

    async fn end_job(&mut self, done: Result<Done, tokio::task::JoinError>) {
        // Only an abort at the end gives an error here: jobs catch their own.
        let Ok((name, life, job)) = done else { return };
        let retry = Instant::now() + self.retry();
        let Some(slot) = self.slots.get_mut(&name).filter(|s| s.life == life) else { return };
        slot.busy = false;
        match job {
            Job::Candidate(Outcome::Ready(version)) => self.adopt(&name, *version).await,
            Job::Candidate(Outcome::Same) => self.accept(&name).await,
            Job::Candidate(Outcome::Changed) => slot.taken = None,
            Job::Candidate(Outcome::Refused(problem, digest)) => {
                slot.retry_at = problem.may_pass().then_some(retry);
                self.refuse(&name, &problem, digest).await;
            }
            Job::Candidate(Outcome::Failed(reason)) => {
                slot.retry_at = Some(retry);
                tracing::error!(plugin = %name, "could not be checked, trying again: {}", neutral(&reason, 1000));
            }
            Job::Restore(Outcome::Ready(version)) => {
                tracing::info!(plugin = %name, digest = %version.digest.short(), "serves again");
                slot.serve(*version);
            }
            Job::Restore(Outcome::Refused(problem, digest)) => {
                slot.restore_at = problem.may_pass().then_some(retry);
                self.refuse(&name, &problem, digest).await;
            }
            Job::Restore(Outcome::Failed(reason)) => {
                // Its file in the folder is checked next, and usually brings it back.
                tracing::error!(plugin = %name, "cannot be restored: {}", neutral(&reason, 1000));
            }
            Job::Restore(Outcome::Same | Outcome::Changed) => {}
            Job::List(result) => self.relisted(&name, result).await,
        }
        self.publish();
    }

    /// Stores `version` as what serves, and serves it; unless a tool's name is another plugin's.
    async fn adopt(&mut self, name: &str, version: Version) {
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
    async fn accept(&mut self, name: &str) {
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
    async fn refuse(&mut self, name: &str, problem: &Problem, digest: Option<Digest>) {
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
    async fn remove(&mut self, name: &str, policy_stays: bool) {
        let Some(slot) = self.slots.remove(name) else { return };
        tracing::info!(plugin = %name, "removed");
        self.forget(slot.row, policy_stays).await;
        self.retry_names();
    }

    /// Drops a row, but for the memory of who had the grants of a policy file that stays.
    async fn forget(&mut self, row: PluginRow, policy_stays: bool) {
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

    fn ask_relists(&mut self) {
        let now = Instant::now();
        let interval = Duration::from_millis(self.checker.config.catalog.relist_interval.0);
        for name in self.relists.take() {
            if let Some(slot) = self.slots.get_mut(&name).filter(|s| s.live.is_some()) {
                let earliest = slot.listed_at.map_or(now, |last| (last + interval).max(now));
                slot.relist_at.get_or_insert(earliest);
            }
        }
    }

    async fn relisted(&mut self, name: &str, result: Result<Vec<Declared>, Stop>) {
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

    /// Publishes the catalog where it differs from the last one.
    fn publish(&mut self) {
        let mut new = slot::catalog(&self.slots, &self.odd);
        let old = self.published.borrow().clone();
        if slot::same(&old, &new) {
            return;
        }
        new.revision = old.revision + u64::from(!slot::same_list(&old, &new));
        self.published.send_replace(Arc::new(new));
    }

    /// Now and then, drops kept bytes that nothing names.
    async fn collect(&mut self, cancel: &CancellationToken) {
        if Instant::now() < self.collect_at {
            return;
        }
        self.collect_at = Instant::now() + COLLECT_EVERY;
        let used = match self.store.digests_in_use().await {
            Ok(used) => used,
            Err(e) => return tracing::warn!("kept components cannot be gone through: {e}"),
        };
        let serving = self.slots.values().filter_map(|s| s.live.as_ref()).map(|l| l.plugin.digest);
        let used: HashSet<Digest> = used.into_iter().chain(serving).collect();
        let checker = Arc::clone(&self.checker);
        let job = tokio::task::spawn_blocking(move || checker.keep.collect(&used, Keep::YOUNG));
        tokio::select! {
            () = cancel.cancelled() => {}
            result = job => match result {
                Ok(Ok(0)) => {}
                Ok(Ok(files)) => tracing::info!(files, "dropped components that nothing names any more"),
                Ok(Err(e)) => tracing::warn!("kept components cannot be gone through: {e}"),
                Err(e) => tracing::error!("going through kept components broke: {e}"),
            },
        }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
