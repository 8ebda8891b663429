//! The watcher: one task that owns all slots, looks at the folder, starts jobs, and publishes the
//! catalog. Jobs run on blocking threads; nothing else changes a slot.

mod adopt;
mod folder;

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::{
    sync::{Notify, Semaphore, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{
    Catalog, Lists, Refusal,
    check::{Checker, Outcome, Stop},
    declare::{Built, Declared},
    keep::Keep,
    problem::neutral,
    revoked,
    scan::Found,
    slot::{self, Slot},
};
use crate::{
    base::{Clock, Digest},
    config::CatalogConfig,
    store::{PluginRow, Store},
};

/// Least time between two looks at the folder: a slow copy tells of every block that it writes.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// How often kept bytes are gone through for those that nothing names any more.
const COLLECT_EVERY: Duration = Duration::from_secs(3600);
/// How long the end waits for jobs: a compilation cannot be stopped, and leaves nothing half done.
const END_WAIT: Duration = Duration::from_secs(2);

/// Plugins that asked to be listed again, and which lists they said have changed. Bounded by the number of
/// plugins that serve.
#[derive(Default)]
pub(super) struct Relists {
    asked: Mutex<BTreeMap<String, Lists>>,
    wake: Notify,
}

impl Relists {
    /// Wakes the watcher where this is news: one that says the same all the time wakes it once per listing.
    pub(super) fn ask(&self, plugin: &str, said: Lists) {
        let mut asked = self.lock();
        let known = asked.get(plugin).copied();
        let all = known.unwrap_or_default().or(said);
        if known != Some(all) {
            asked.insert(plugin.to_owned(), all);
            self.wake.notify_one();
        }
    }

    fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    /// What a plugin has said since it was last taken.
    fn take(&self, plugin: &str) -> Lists {
        self.lock().remove(plugin).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Lists>> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a job brings back: the name, its life, and how it ended.
type Done = (String, u64, Job);

enum Job {
    Candidate(Outcome),
    Restore(Outcome),
    /// What was said to have changed, and what is listed now; none where that is as before.
    List(Lists, Result<Option<(Declared, Built)>, Stop>),
}

impl Job {
    /// The version that would serve.
    fn digest(&self) -> Option<Digest> {
        match self {
            Self::Candidate(Outcome::Ready(version)) | Self::Restore(Outcome::Ready(version)) => {
                Some(version.digest)
            }
            _ => None,
        }
    }
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
    room: Arc<Semaphore>,
    lives: u64,
    folder_lost: bool,
    folder_events: Arc<Notify>,
    folder_watch: Option<(notify::RecommendedWatcher, (u64, u64))>,
    collect_at: Instant,
    revoked: watch::Receiver<revoked::All>,
}

impl Watcher {
    pub(super) fn new(
        checker: Arc<Checker>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        published: watch::Sender<Arc<Catalog>>,
        revoked: watch::Receiver<revoked::All>,
    ) -> Self {
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
            room: Arc::new(Semaphore::new(CatalogConfig::CHECKS)),
            lives: 0,
            folder_lost: false,
            folder_events: Arc::default(),
            folder_watch: None,
            collect_at: Instant::now() + Duration::from_secs(60),
            revoked,
        }
    }

    /// Takes over what the store remembers, and serves again what has a compiled form.
    pub(super) async fn restore(&mut self, rows: Vec<PluginRow>, found: Found) {
        let now = Instant::now();
        let living = self.living_elsewhere().await;
        for mut row in rows {
            let name = row.name.clone();
            if found.plugins.contains_key(&name) {
                // While this replica was away, another one has adopted a plugin with one of its names.
                if living.iter().any(|other| other.name != name && other.shares_name(&row)) {
                    row = self.without_names(row).await;
                }
                let mut slot = self.new_slot(row);
                slot.restore_at = slot.row.digest.map(|_| now);
                self.slots.insert(name, slot);
            } else {
                self.forget(row, found.policies.contains(&name)).await;
            }
        }
        self.take_in(found, true).await;

        let engine = Arc::clone(&self.checker.engine);
        let compiled = |slot: &Slot| slot.row.digest.is_some_and(|digest| engine.is_compiled(digest));
        let cached: Vec<String> = self
            .slots
            .values()
            .filter(|slot| slot.restore_at.is_some() && compiled(slot))
            .map(|slot| slot.row.name.clone())
            .collect();
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
                Ok(()) = self.revoked.changed() => self.obey().await,
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
        let room = Arc::clone(&self.room);
        for name in names {
            let Some(slot) = self.slots.get_mut(&name) else { continue };
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
        let said = self.relists.take(name);
        let Some(live) = self.slots.get(name).and_then(|s| s.live.as_ref()) else { return };
        let (plugin, known) = (Arc::clone(&live.plugin), Arc::clone(&live.declared));
        self.start(name, room, move |checker| Job::List(said, checker.relist(&plugin, &known)));
    }

    async fn end_job(&mut self, done: Result<Done, tokio::task::JoinError>) {
        // Only an abort at the end gives an error here: jobs catch their own.
        let Ok((name, life, job)) = done else { return };
        let retry = Instant::now() + self.retry();
        let revoked = job.digest().and_then(|digest| self.revocation(digest));
        let Some(slot) = self.slots.get_mut(&name).filter(|s| s.life == life) else { return };
        slot.busy = false;
        if let Some(problem) = revoked {
            // Since it was checked.
            return self.refuse(&name, &problem, job.digest()).await;
        }
        match job {
            // What served has been taken out of service since.
            Job::Candidate(Outcome::Same) if slot.live.is_none() => (slot.seen, slot.taken) = (None, None),
            Job::Candidate(Outcome::Ready(version)) => self.adopt(&name, *version).await,
            Job::Candidate(Outcome::Same) => self.accept(&name).await,
            // The next look sees what it is now, and lets it settle.
            Job::Candidate(Outcome::Changed) => (slot.seen, slot.taken) = (None, None),
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
                slot.restore_refused = true;
                self.refuse(&name, &problem, digest).await;
            }
            Job::Restore(Outcome::Failed(reason)) => {
                // Its file in the folder is checked next, and usually brings it back.
                tracing::error!(plugin = %name, "cannot be restored: {}", neutral(&reason, 1000));
            }
            Job::Restore(Outcome::Same | Outcome::Changed) => {}
            Job::List(said, result) => self.relisted(&name, said, result).await,
        }
    }

    /// Publishes the catalog where it differs from the last one, or a plugin said that it does.
    fn publish(&mut self) {
        let mut new = slot::catalog(&self.slots, &self.odd);
        let said = self.slots.values_mut().map(|s| std::mem::take(&mut s.said));
        let said = said.fold(Lists::default(), Lists::or);
        let old = self.published.borrow().clone();
        new.revisions = slot::revisions(&old, &new, said);
        if new.revisions != old.revisions || !slot::same(&old, &new) {
            self.published.send_replace(Arc::new(new));
        }
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

/// Components that are compiled at once.
pub(super) fn compile_jobs(catalog: &CatalogConfig) -> usize {
    match catalog.compile_jobs {
        0 => cores().div_ceil(2),
        n => n as usize,
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn saying_the_same_again_wakes_nobody() {
        let relists = Relists::default();
        let (tools, prompts) =
            (Lists { tools: true, ..Lists::default() }, Lists { prompts: true, ..Lists::default() });
        let woken = || relists.wake.notified().now_or_never().is_some();
        relists.ask("p", tools);
        assert!(woken());
        relists.ask("p", tools);
        assert!(!woken(), "known already");
        relists.ask("p", prompts);
        assert!(woken() && relists.names() == ["p"]);
        assert_eq!(relists.take("p"), tools.or(prompts));
        assert_eq!(relists.take("p"), Lists::default());
        relists.ask("p", tools);
        assert!(woken(), "taken, so it is news again");
    }
}
