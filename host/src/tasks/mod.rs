//! Tasks: the state machine, TTL, questions and answers, idempotency, change signals, sweeping.

mod answers;
mod bounds;
mod client;
mod event;
mod faults;
mod ledger;
mod loops;
mod machine;
#[cfg(test)]
mod machine_tests;
mod registry;
mod resume;
#[cfg(test)]
mod resume_tests;
mod rhythm;
mod rounds;
mod run;
#[cfg(test)]
mod tests;
mod ttl;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use tokio::sync::{Notify, broadcast};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

pub use self::{answers::check as check_answer, event::Event};
use self::{
    bounds::{FreeSpace, Live, Polls},
    registry::Registry,
    rhythm::Rhythm,
};
pub(crate) use self::{client::checked as check_answers, machine::unused as unused_key};
use crate::{
    base::{
        BootId, Clock, Digest, Fault, Millis, Piece, Principal, TaskId, UnixMillis, boottime_ms, failpoints,
    },
    config::{CallPolicy, Config, StoreConfig, TaskRules},
    store::{
        Answer, End, IdempotencyKey, Lease, Question, Status, Store, StoreError, Task, Updated, os_boot_id,
    },
};

/// What a run says of itself when it becomes a task.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Its handle, made by the caller of [`Tasks::create`].
    pub id: TaskId,
    /// Who called.
    pub principal: Principal,
    /// Public tool name.
    pub tool: String,
    /// Plugin name.
    pub plugin: String,
    /// Component.
    pub digest: Digest,
    /// The tool's settings: TTL, poll interval and input deadline follow from them.
    pub call: CallPolicy,
    /// Active time that the run may still use.
    pub active_time: Millis,
    /// Already known progress text.
    pub status_message: Option<String>,
    /// Questions that it asks already: the task is born `input_required`.
    pub questions: Vec<Question>,
    /// Idempotency, for [`Tasks::admit`].
    pub key: Option<IdempotencyKey>,
}

/// The lease holder's view of one live task. Dropping it ends the signals, not the task.
#[derive(Debug)]
pub struct Held {
    /// The task's handle.
    pub id: TaskId,
    /// Carried by every write.
    pub fence: u64,
    signals: tokio::sync::mpsc::Receiver<Signal>,
    /// Fuel of a replay that the row does not have yet.
    replayed: AtomicU64,
}

impl Held {
    /// The run was resumed, and replayed so much fuel: the row has it with this holder's next write.
    pub fn replayed(&self, fuel: u64) {
        self.replayed.fetch_add(fuel, Ordering::Relaxed);
    }

    /// The next thing somebody asked of this task; pends while there is none. Cancel-safe.
    pub async fn signal(&mut self) -> Signal {
        match self.signals.recv().await {
            Some(s) => s,
            None => std::future::pending().await,
        }
    }
}

/// What others ask of a live task.
#[derive(Debug, Clone, PartialEq)]
pub enum Signal {
    /// Every question of the present round has its answer, in the order they were put.
    Answers(Vec<Answer>),
    /// The input deadline passed, and the tool wants to go on (`timed-out`).
    TimedOut,
    /// Cancellation was asked for (committed).
    Cancel,
    /// The TTL passed, or the input deadline of a tool that fails then: stop now; then settle with this end.
    Stop(End),
    /// This process's lease is over, and others may have the task: stop now. Then give it back where it can be
    /// resumed; else settle with this end.
    Unleased(End),
}

/// Whose questions are put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The plugin's.
    Guest,
    /// The host's own: their keys are under `layby/`.
    Host,
}

/// How [`Tasks::admit`] ended.
#[derive(Debug)]
pub enum Admission {
    /// A new run; its row is committed.
    Fresh(Held, Box<Task>),
    /// The same key, tool and arguments: the run there is, live or ended.
    Repeat(Box<Task>),
}

/// How long this process may still act for its tasks.
#[derive(Clone, Debug)]
pub struct Leased {
    until: Arc<AtomicU64>,
    margin: u64,
    lapses: Arc<AtomicU64>,
    /// Lapses before this right began.
    of: u64,
}

impl Leased {
    /// True while the lease has been held all the time, and enough of it is left for an effect to leave before it ends,
    /// by a clock that goes on while the machine sleeps.
    pub fn lasts(&self) -> bool {
        // In this order: a lapse is counted before the lease is renewed.
        let enough = boottime_ms() + self.margin < self.until.load(Ordering::Acquire);
        enough && self.lapses.load(Ordering::Acquire) == self.of
    }
}

/// The tasks of this process and its store. Cheap to clone handles of: use `Arc`.
pub struct Tasks {
    inner: Arc<Inner>,
    /// Ends the loops.
    end: CancellationToken,
    loops: TaskTracker,
}

/// What the loops share with the methods.
struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: StoreConfig,
    /// This process as a holder of tasks.
    boot: BootId,
    os_boot: Uuid,
    /// End of this process's lease as last committed, in milliseconds of the boot-time clock.
    lease_until: Arc<AtomicU64>,
    /// How often the lease ran out before it was renewed.
    lapses: Arc<AtomicU64>,
    /// True since the lease ran out, until it is renewed.
    lapsed: AtomicBool,
    registry: Registry,
    rhythm: Rhythm,
    live: Live,
    /// Most runs that wait for a retry: of all, and of one principal.
    hidden: (u32, u32),
    space: FreeSpace,
    polls: Polls,
    changes: broadcast::Sender<TaskId>,
    /// Something that is nobody's has become fit to go on.
    resume: Notify,
}

impl Tasks {
    /// Takes the store into service: registers this process, ends what dead processes left, and
    /// starts heartbeat, attention and sweep loops, which end with [`Tasks::close`].
    ///
    /// # Errors
    /// `store_…` faults where the database cannot be used.
    pub async fn open(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        config: &Config,
    ) -> Result<Arc<Self>, Fault> {
        let inner = Arc::new(Inner {
            store,
            clock,
            settings: config.store.clone(),
            boot: BootId(Uuid::new_v4()),
            os_boot: os_boot_id()?,
            lease_until: Arc::default(),
            lapses: Arc::default(),
            lapsed: AtomicBool::new(false),
            registry: Registry::default(),
            rhythm: Rhythm::default(),
            live: Live::new(config),
            hidden: (config.host.mrtr_waiting, config.host.mrtr_waiting_each),
            space: FreeSpace::new(config.serve.data.clone(), config.host.min_free_space),
            polls: Polls::default(),
            changes: broadcast::channel(TaskRules::CHANGES).0,
            resume: Notify::new(),
        });
        inner.beat().await?;
        inner.end_orphans().await?;
        inner.live.set(inner.store.count_live().await?);
        let (end, tracker) = (CancellationToken::new(), TaskTracker::new());
        loops::start(&inner, &end, &tracker);
        tracker.close();
        Ok(Arc::new(Self { inner, end, loops: tracker }))
    }

    /// Every committed change of a task in this process.
    pub fn changes(&self) -> broadcast::Receiver<TaskId> {
        self.inner.changes.subscribe()
    }

    /// The right of this process to act for its tasks, to be looked at before each effect.
    pub fn leased(&self) -> Leased {
        let margin = TaskRules::LEASE_MARGIN.0.min(self.inner.settings.lease.0 / 3);
        let lapses = self.inner.lapses.clone();
        Leased { until: self.inner.lease_until.clone(), margin, of: lapses.load(Ordering::Acquire), lapses }
    }

    /// The time by the clock that tasks go by.
    pub fn now(&self) -> UnixMillis {
        self.inner.clock.now()
    }

    /// Told whenever this process commits what makes a task that is nobody's fit to go on (its answers are
    /// complete, its questions ran out, its holder is dead): look at [`Tasks::resumable`] then. Only a
    /// hint: other processes commit such things too.
    pub fn resume_hint(&self) -> &Notify {
        &self.inner.resume
    }

    /// Ends the loops and hands the lease back; live tasks must have been stopped before.
    pub async fn close(&self) {
        self.end.cancel();
        self.loops.wait().await;
        self.inner.write_progress(true).await;
        if let Err(e) = self.inner.store.release(self.inner.boot).await {
            tracing::warn!(error = %e, "the lease was not handed back; others take over once it has run out");
        }
    }
}

impl Drop for Tasks {
    /// Where nobody closed it, the loops end at least.
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl Inner {
    /// Applies `event` to a task, and tells of the change.
    async fn apply(&self, id: TaskId, event: Event) -> Result<Updated, StoreError> {
        self.append(id, event, Vec::new()).await
    }

    /// The same, with pieces for its journal.
    async fn append(&self, id: TaskId, event: Event, pieces: Vec<Piece>) -> Result<Updated, StoreError> {
        self.write(id, event, pieces, 0).await
    }

    /// A holder's write, with what it has replayed.
    async fn append_held(
        &self,
        held: &Held,
        event: Event,
        pieces: Vec<Piece>,
    ) -> Result<Updated, StoreError> {
        let replayed = held.replayed.load(Ordering::Relaxed);
        let updated = self.write(held.id, event, pieces, replayed).await?;
        if matches!(updated, Updated::Done(_)) {
            held.replayed.fetch_sub(replayed, Ordering::Relaxed);
        }
        Ok(updated)
    }

    async fn write(
        &self,
        id: TaskId,
        event: Event,
        pieces: Vec<Piece>,
        replayed: u64,
    ) -> Result<Updated, StoreError> {
        let now = self.clock.now();
        let (before, after) = event.edges();
        let (quiet, readies) = (event.is_quiet(), event.readies());
        let change = move |task: Task| Ok(task.apply(event.clone(), now)?.having_replayed(replayed));
        failpoints::pass(before).await;
        let updated = self.store.update(id, Box::new(change), pieces).await?;
        if let Updated::Done(task) = &updated {
            failpoints::pass(after).await;
            if readies && task.holder.is_none() && task.status == Status::Working {
                self.resume.notify_one();
            }
            if !quiet {
                self.changed(task);
            }
        }
        Ok(updated)
    }

    /// After a commit: measures, signals the holder, tells the listeners.
    fn changed(&self, task: &Task) {
        if let Some(worked) = self.registry.note(task) {
            self.rhythm.observe(&task.tool, worked);
        }
        if task.status.is_terminal() {
            self.live.ended(&task.principal);
        } else {
            self.registry.answered(task);
        }
        // Nobody may be listening.
        let _ = self.changes.send(task.id);
    }

    /// Renews this process's lease.
    async fn beat(&self) -> Result<(), StoreError> {
        let until_boottime_ms = boottime_ms() + self.settings.lease.0;
        self.store.heartbeat(Lease { boot: self.boot, os_boot: self.os_boot, until_boottime_ms }).await?;
        self.lease_until.store(until_boottime_ms, Ordering::Release);
        Ok(())
    }

    /// True while nobody else may take our tasks.
    fn has_lease(&self) -> bool {
        boottime_ms() < self.lease_until.load(Ordering::Acquire)
    }

    /// Ends a task that nobody runs, as it was when that was found out.
    async fn abandon(&self, task: &Task, end: End) -> Result<(), StoreError> {
        let event = Event::Abandon { holder: task.holder, fence: task.fence, end };
        self.apply(task.id, event).await.map(|_| ())
    }

    /// Tasks of dead processes: those with a journal become nobody's, for whoever goes on with them; the
    /// others end.
    async fn end_orphans(&self) -> Result<(), StoreError> {
        loop {
            let orphans = self.store.orphans(self.boot).await?;
            if orphans.is_empty() {
                return Ok(());
            }
            tracing::info!(tasks = orphans.len(), "taking over tasks whose process is gone");
            let moves = orphans.iter().map(|task| async move {
                match task.holder {
                    Some(holder) if task.is_resumable() && task.cancel_requested.is_none() => {
                        let event = Event::Orphan { holder, fence: task.fence };
                        self.apply(task.id, event).await.map(|_| ())
                    }
                    _ => self.abandon(task, faults::end_of_left(task)).await,
                }
            });
            futures::future::try_join_all(moves).await?;
        }
    }
}
