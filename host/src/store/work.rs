//! What waits for the one writer of a database, and how it is committed: what is queued goes together. A
//! single commit costs a sync of the disk; a hundred writes that wait for one cost the same sync.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
};

use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::{Admitted, Change, Lease, PluginRow, Refused, Revoked, StoreError, Task, Updated};
use crate::base::{BootId, Digest, Millis, Piece, TaskId, UnixMillis};

/// One thing to write.
pub(super) enum Work {
    Insert(Box<Task>, Vec<Piece>),
    Admit(Box<Task>, Vec<Piece>),
    Update(TaskId, Change, Vec<Piece>),
    Heartbeat(Lease),
    Release(BootId),
    Sweep {
        now: UnixMillis,
        tombstones_before: UnixMillis,
    },
    PutPlugin(Box<PluginRow>),
    /// The same, unless a name of it is another plugin's.
    AdoptPlugin(Box<PluginRow>),
    DropPlugin(String),
    Revoke(Revoked),
    Unrevoke(Digest),
    /// Kept where there is none, or it is still `instead_of`.
    Clock {
        os_boot: Uuid,
        ahead: Millis,
        instead_of: Option<Millis>,
    },
    /// Kept only where there is none of this name.
    Secret {
        name: &'static str,
        fresh: Vec<u8>,
    },
    /// The last thing: what is queued before it is committed, what comes after is refused.
    Close,
}

impl Work {
    pub(super) const fn is_of_task(&self) -> bool {
        matches!(self, Self::Insert(..) | Self::Admit(..) | Self::Update(..))
    }
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Done {
    Written,
    Admitted(Admitted),
    Updated(Box<Updated>),
    Count(u64),
    /// Whose a name is already.
    Owner(Option<Box<PluginRow>>),
}

impl Done {
    /// The writer answers each kind of work with its own kind of answer; anything else is a bug.
    fn unexpected(&self) -> StoreError {
        StoreError::Other(format!("the writer answered {self:?}"))
    }
}

/// A thing to write, and who waits for it.
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) reply: oneshot::Sender<Result<Done, StoreError>>,
}

/// The end of the queue that callers have.
#[derive(Clone)]
pub(super) struct Queue(mpsc::Sender<Job>);

impl Queue {
    /// At most `length` things wait; then callers do.
    pub(super) fn new(length: u32) -> (Self, mpsc::Receiver<Job>) {
        let (queue, jobs) = mpsc::channel(usize::try_from(length.max(1)).unwrap_or(usize::MAX));
        (Self(queue), jobs)
    }

    pub(super) async fn write(&self, work: Work) -> Result<Done, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.0.send(Job { work, reply }).await.map_err(|_| StoreError::Closed)?;
        answer.await.map_err(|_| StoreError::Closed)?
    }

    pub(super) async fn written(&self, work: Work) -> Result<(), StoreError> {
        self.write(work).await.map(|_| ())
    }

    pub(super) async fn admit(&self, task: Task, pieces: Vec<Piece>) -> Result<Admitted, StoreError> {
        match self.write(Work::Admit(Box::new(task), pieces)).await? {
            Done::Admitted(a) => Ok(a),
            other => Err(other.unexpected()),
        }
    }

    pub(super) async fn update(
        &self,
        id: TaskId,
        change: Change,
        pieces: Vec<Piece>,
    ) -> Result<Updated, StoreError> {
        match self.write(Work::Update(id, change, pieces)).await? {
            Done::Updated(u) => Ok(*u),
            other => Err(other.unexpected()),
        }
    }

    pub(super) async fn adopt_plugin(&self, row: PluginRow) -> Result<Option<PluginRow>, StoreError> {
        match self.write(Work::AdoptPlugin(Box::new(row))).await? {
            Done::Owner(owner) => Ok(owner.map(|row| *row)),
            other => Err(other.unexpected()),
        }
    }

    /// Sweeps in steps of `step` tasks, so that the writes of callers come in between.
    pub(super) async fn sweep(
        &self,
        now: UnixMillis,
        tombstones_before: UnixMillis,
        step: u32,
    ) -> Result<u64, StoreError> {
        let mut gone = 0;
        loop {
            match self.write(Work::Sweep { now, tombstones_before }).await? {
                Done::Count(n) => gone += n,
                other => return Err(other.unexpected()),
            }
            if gone == 0 || gone % u64::from(step) != 0 {
                return Ok(gone);
            }
        }
    }
}

/// A database's side of a writer.
pub(super) trait Commit: Send + Sized + 'static {
    /// One transaction. On an error nothing of `work` is in the database, as far as can be told.
    fn commit(&mut self, work: &[&Work]) -> impl Future<Output = Result<Vec<Done>, StoreError>> + Send;
    /// False for errors that concern all writes alike: trying each by itself would only take longer.
    fn concerns_one_row(e: &StoreError) -> bool;
    /// Ends it.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// Serves `queue`, at most `max_batch` things at once, until [`Work::Close`], or until nobody is left who
/// could ask.
pub(super) async fn serve<W: Commit>(mut writer: W, mut queue: mpsc::Receiver<Job>, max_batch: u32) {
    let max_batch = usize::try_from(max_batch.max(1)).unwrap_or(usize::MAX);
    let mut jobs = Vec::with_capacity(max_batch);
    while queue.recv_many(&mut jobs, max_batch).await > 0 {
        if jobs.iter().any(|j| matches!(j.work, Work::Close)) {
            queue.close();
        }
        commit_all(&mut writer, &mut jobs).await;
    }
    writer.close().await;
}

/// Commits all of `jobs` at once; where that fails for a reason that may lie in one of them, each by
/// itself. Answers everyone.
async fn commit_all<W: Commit>(writer: &mut W, jobs: &mut Vec<Job>) {
    let work: Vec<&Work> = jobs.iter().map(|j| &j.work).collect();
    match writer.commit(&work).await {
        Ok(done) => {
            for (job, done) in jobs.drain(..).zip(done) {
                // A caller that has left does not undo what it asked for.
                let _ = job.reply.send(Ok(done));
            }
        }
        Err(e) if jobs.len() == 1 || !W::concerns_one_row(&e) => {
            for job in jobs.drain(..) {
                let _ = job.reply.send(Err(e.clone()));
            }
        }
        Err(e) => {
            tracing::warn!(error = %e, writes = jobs.len(), "a commit failed: trying each write by itself");
            for job in jobs.drain(..) {
                let done = writer.commit(&[&job.work]).await;
                let done = done.and_then(|mut d| d.pop().ok_or(StoreError::Closed));
                let _ = job.reply.send(done);
            }
        }
    }
}

/// Runs a change; one that panics must not take the writer with it.
pub(super) fn run(change: &Change, task: Task) -> Result<Result<Task, Refused>, StoreError> {
    catch_unwind(AssertUnwindSafe(|| change(task)))
        .map_err(|_| StoreError::Other("a change of a task panicked".into()))
}
