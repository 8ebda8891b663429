//! Runs between two multi round-trip requests (MCP 2026-07-28, `basic/patterns/mrtr`): which of them wait in
//! this process, and what those that have ended answered. A run waits with its instance and without a slot.

mod ledger;
mod seal;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;
use tokio::{
    sync::{Notify, mpsc, oneshot},
    time::Instant,
};
use uuid::Uuid;

pub(super) use self::{
    ledger::{Ledger, Verdict},
    seal::{Named, Seal},
};
use super::{
    Answer, Client, Outlet,
    admission::{Slots, Waiting},
    run::Requests,
};
use crate::{base::TaskId, config::HostLimits, plugins::Plugin};

/// Retries of one run that may wait for its driver; a further one waits to be queued.
const RETRIES: usize = 16;

/// A request that comes back to a run.
pub(super) struct Retry {
    /// The round that it answers; none where it only wants to know how the run stands.
    pub(super) round: Option<u32>,
    pub(super) responses: BTreeMap<String, Value>,
    pub(super) client: Client,
    pub(super) outlet: Option<Outlet>,
    pub(super) reply: oneshot::Sender<Answer>,
}

/// Where a run is found.
pub(super) enum Found {
    /// Its driver takes retries.
    Live(Arc<Requests>, mpsc::Sender<Retry>),
    /// It has ended: its rounds, and its answer.
    Ended(Arc<(Ledger, Answer)>),
}

/// All of this process.
pub(super) struct Rounds {
    pub(super) seal: Seal,
    most_waiting: usize,
    most_kept: usize,
    most_kept_bytes: usize,
    kept_for: std::time::Duration,
    /// Held for a few look-ups, never across an await.
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    runs: HashMap<Uuid, Entry>,
    /// Runs that have a row from admission on (idempotency key).
    tasks: HashMap<TaskId, Uuid>,
    /// In the order in which they began to wait.
    waiting: BTreeMap<u64, Waiter>,
    next: u64,
    /// In the order in which they ended.
    kept: VecDeque<Kept>,
    kept_bytes: usize,
}

enum Entry {
    Live(Arc<Requests>, mpsc::Sender<Retry>),
    /// Shared, so that a large answer is not copied under the lock.
    Ended(Arc<(Ledger, Answer)>),
}

struct Waiter {
    plugin: String,
    right: Waiting,
    evict: Arc<Notify>,
}

struct Kept {
    id: Uuid,
    until: Instant,
    bytes: usize,
}

impl Rounds {
    pub(super) fn new(seal: Seal, limits: &HostLimits) -> Arc<Self> {
        Arc::new(Self {
            seal,
            most_waiting: limits.mrtr_waiting as usize,
            most_kept: limits.mrtr_outcomes as usize,
            most_kept_bytes: limits.mrtr_outcome_bytes.as_usize(),
            kept_for: limits.mrtr_outcome_age.duration(),
            inner: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a run that asks its first question. `task` is its row, where it has one.
    pub(super) fn enter(self: &Arc<Self>, requests: Arc<Requests>, task: Option<TaskId>) -> Seat {
        let id = Uuid::new_v4();
        let (sender, retries) = mpsc::channel(RETRIES);
        let mut inner = self.lock();
        inner.runs.insert(id, Entry::Live(requests, sender));
        if let Some(task) = task {
            inner.tasks.insert(task, id);
        }
        drop(inner);
        let (rounds, evict) = (self.clone(), Arc::default());
        Seat { rounds, id, task, ledger: Ledger::default(), retries, evict }
    }

    /// The run that a state names.
    pub(super) fn find(&self, id: Uuid) -> Option<Found> {
        let mut inner = self.lock();
        inner.forget(Instant::now(), self.most_kept, self.most_kept_bytes);
        match inner.runs.get(&id)? {
            Entry::Live(requests, sender) => Some(Found::Live(requests.clone(), sender.clone())),
            Entry::Ended(end) => Some(Found::Ended(end.clone())),
        }
    }

    /// The run of a keyed call, while it lives here and has asked this way.
    pub(super) fn of_task(&self, task: TaskId) -> Option<(Arc<Requests>, mpsc::Sender<Retry>)> {
        let inner = self.lock();
        match inner.runs.get(inner.tasks.get(&task)?)? {
            Entry::Live(requests, sender) => Some((requests.clone(), sender.clone())),
            Entry::Ended(_) => None,
        }
    }

    /// The right to wait. Where all is taken, runs that wait for a retry give way, the longest waiting
    /// first: nobody promised to come back to them, and the others would be shut out for a day.
    ///
    /// # Errors
    /// The bound that is reached, and its value, where nobody can give way.
    pub(super) fn room(
        &self,
        slots: &Slots,
        plugin: &Plugin,
        bytes: u64,
    ) -> Result<Waiting, (&'static str, String)> {
        loop {
            let (name, value) = match slots.try_wait(plugin, bytes) {
                Ok(right) => return Ok(right),
                Err(reached) => reached,
            };
            let of = (name == "limits.parked").then_some(plugin.name.as_str());
            if !self.lock().evict(of) {
                return Err((name, value));
            }
        }
    }
}

impl Inner {
    /// Ends the run that has waited longest, of a plugin or of all; false where none waits.
    fn evict(&mut self, plugin: Option<&str>) -> bool {
        let found = self.waiting.iter().find(|(_, w)| plugin.is_none_or(|name| w.plugin == name));
        let Some(number) = found.map(|(number, _)| *number) else { return false };
        if let Some(waiter) = self.waiting.remove(&number) {
            tracing::debug!(plugin = waiter.plugin, "a run that waited for a retry gives way to another");
            waiter.evict.notify_one();
        }
        true
    }

    /// Drops outcomes past their age or bound, the oldest first.
    fn forget(&mut self, now: Instant, most: usize, most_bytes: usize) {
        while let Some(oldest) = self.kept.front()
            && (oldest.until <= now || self.kept.len() > most || self.kept_bytes > most_bytes)
        {
            self.runs.remove(&oldest.id);
            self.kept_bytes -= oldest.bytes;
            self.kept.pop_front();
        }
    }
}

/// One run's place; dropped, the run is not found any more, unless its answer is kept.
pub(super) struct Seat {
    rounds: Arc<Rounds>,
    id: Uuid,
    task: Option<TaskId>,
    pub(super) ledger: Ledger,
    pub(super) retries: mpsc::Receiver<Retry>,
    /// Told where the run has to give way.
    pub(super) evict: Arc<Notify>,
}

impl Seat {
    pub(super) const fn id(&self) -> Uuid {
        self.id
    }

    /// The run waits from now on; within the share of such runs the longest waiting one gives way.
    pub(super) fn wait(&mut self, plugin: &str, right: Waiting) -> Place {
        // What was told of an earlier wait, and came too late for it, is not about this one.
        self.evict = Arc::default();
        let mut inner = self.rounds.lock();
        while inner.waiting.len() >= self.rounds.most_waiting && inner.evict(None) {}
        inner.next += 1;
        let number = inner.next;
        inner.waiting.insert(number, Waiter { plugin: plugin.into(), right, evict: self.evict.clone() });
        drop(inner);
        Place { rounds: self.rounds.clone(), number }
    }

    /// Keeps the answer of a run that has ended, for repeats of its last retry.
    pub(super) fn keep(&self, answer: &Answer) {
        let bytes = answer.size();
        if bytes > self.rounds.most_kept_bytes {
            return;
        }
        let (now, rounds) = (Instant::now(), &self.rounds);
        let mut inner = rounds.lock();
        inner.runs.insert(self.id, Entry::Ended(Arc::new((self.ledger.clone(), answer.clone()))));
        inner.kept.push_back(Kept { id: self.id, until: now + rounds.kept_for, bytes });
        inner.kept_bytes += bytes;
        inner.forget(now, rounds.most_kept, rounds.most_kept_bytes);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut inner = self.rounds.lock();
        if let Some(task) = self.task {
            inner.tasks.remove(&task);
        }
        if matches!(inner.runs.get(&self.id), Some(Entry::Live(..))) {
            inner.runs.remove(&self.id);
        }
    }
}

/// A run's place among those that wait; dropped, it has left.
pub(super) struct Place {
    rounds: Arc<Rounds>,
    number: u64,
}

impl Place {
    /// The run has its answers, and gives way to nobody any more; none where it had to just now.
    pub(super) fn answered(self) -> Option<Waiting> {
        self.rounds.lock().waiting.remove(&self.number).map(|waiter| waiter.right)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let waiter = self.rounds.lock().waiting.remove(&self.number);
        // Its permits go back outside the lock.
        drop(waiter);
    }
}

#[cfg(test)]
mod tests;
