//! The one writer: takes what is queued, and commits it together. A single commit costs a sync of
//! the disk; a hundred writes that wait for one cost the same sync.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use super::{
    batch::{Batch, Known, execute},
    sql,
};
use crate::{
    base::{BootId, Clock as _, SystemClock, TaskId, UnixMillis, failpoint},
    store::{Admitted, Change, Lease, PluginRow, StoreError, Task, Updated},
};

/// One thing to write.
pub(super) enum Work {
    Insert(Box<Task>, Vec<Vec<u8>>),
    Admit(Box<Task>, Vec<Vec<u8>>),
    Update(TaskId, Change, Vec<Vec<u8>>),
    Heartbeat(Lease),
    Release(BootId),
    Sweep {
        now: UnixMillis,
        tombstones_before: UnixMillis,
    },
    PutPlugin(Box<PluginRow>),
    DropPlugin(String),
    /// Kept only where there is none of this name.
    Secret {
        name: &'static str,
        fresh: Vec<u8>,
    },
    /// The last thing: what is queued before it is committed, what comes after is refused.
    Close,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Done {
    Written,
    Admitted(Admitted),
    Updated(Box<Updated>),
    Count(u64),
}

/// A thing to write, and who waits for it.
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) reply: oneshot::Sender<Result<Done, StoreError>>,
}

pub(super) struct Writer {
    connection: SqliteConnection,
    options: SqliteConnectOptions,
    /// This writer's name in the table of last commits.
    name: Uuid,
    /// Its commits so far.
    sequence: u64,
    max_batch: usize,
    known: Known,
}

impl Writer {
    pub(super) async fn open(options: SqliteConnectOptions, max_batch: u32) -> Result<Self, StoreError> {
        let connection = options.connect().await?;
        let max_batch = usize::try_from(max_batch.max(1)).unwrap_or(usize::MAX);
        Ok(Self {
            connection,
            options,
            name: Uuid::new_v4(),
            sequence: 0,
            max_batch,
            known: Known::default(),
        })
    }

    /// Serves until [`Work::Close`], or until nobody is left who could ask.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Job>) {
        let mut jobs = Vec::with_capacity(self.max_batch);
        while queue.recv_many(&mut jobs, self.max_batch).await > 0 {
            if jobs.iter().any(|j| matches!(j.work, Work::Close)) {
                queue.close();
            }
            self.serve(&mut jobs).await;
        }
        if let Err(e) = self.connection.close().await {
            tracing::warn!(error = %e, "the database was not closed in order");
        }
    }

    /// Commits all of `jobs` at once; where that fails for a reason that may lie in one of them,
    /// each by itself. Answers everyone.
    async fn serve(&mut self, jobs: &mut Vec<Job>) {
        let work: Vec<&Work> = jobs.iter().map(|j| &j.work).collect();
        match self.commit(&work).await {
            Ok(done) => {
                for (job, done) in jobs.drain(..).zip(done) {
                    // A caller that has left does not undo what it asked for.
                    let _ = job.reply.send(Ok(done));
                }
            }
            Err(e) if jobs.len() == 1 || !concerns_one_row(&e) => {
                for job in jobs.drain(..) {
                    let _ = job.reply.send(Err(e.clone()));
                }
            }
            Err(e) => {
                tracing::warn!(error = %e, writes = jobs.len(), "a commit failed: trying each write by itself");
                for job in jobs.drain(..) {
                    let done = self.commit(&[&job.work]).await;
                    let done = done.and_then(|mut d| d.pop().ok_or(StoreError::Closed));
                    let _ = job.reply.send(done);
                }
            }
        }
    }

    /// One transaction. On an error nothing of `work` is in the database.
    pub(super) async fn commit(&mut self, work: &[&Work]) -> Result<Vec<Done>, StoreError> {
        let tasks = work.iter().any(|w| matches!(w, Work::Insert(..) | Work::Admit(..) | Work::Update(..)));
        if tasks {
            failpoint!("store.before-begin");
        }
        if let Err(e) = execute(&mut self.connection, "BEGIN IMMEDIATE").await {
            // Only a connection that is out of step with us refuses a transaction for another reason.
            if !matches!(e, StoreError::Locked(_)) {
                self.reopen().await?;
                execute(&mut self.connection, "BEGIN IMMEDIATE").await?;
            } else {
                return Err(e);
            }
        }
        let (done, batch) = match self.write(work).await {
            Ok(written) => written,
            Err(e) => {
                self.roll_back().await;
                return Err(e);
            }
        };
        if tasks {
            failpoint!("store.before-commit");
        }
        match execute(&mut self.connection, "COMMIT").await {
            Ok(()) => {
                if tasks {
                    failpoint!("store.after-commit");
                }
                self.known.committed(batch);
                Ok(done)
            }
            Err(e) => {
                self.roll_back().await;
                if self.was_committed().await? { Ok(done) } else { Err(e) }
            }
        }
    }

    async fn write<'a>(&mut self, work: &[&'a Work]) -> Result<(Vec<Done>, Batch<'a>), StoreError> {
        self.known.check(&mut self.connection).await?;
        let mut batch = Batch::load(&mut self.connection, work, &self.known).await?;
        let mut done = Vec::with_capacity(work.len());
        let mut others = Vec::new();
        for (i, work) in work.iter().enumerate() {
            done.push(match work {
                Work::Insert(task, pieces) => batch.insert(task, pieces).map(|()| Done::Written)?,
                Work::Admit(task, pieces) => Done::Admitted(batch.admit(task, pieces)?),
                Work::Update(id, change, pieces) => {
                    Done::Updated(Box::new(batch.update(*id, |t| run(change, t), pieces)?))
                }
                Work::Close => Done::Written,
                other => {
                    others.push((i, other));
                    Done::Written
                }
            });
        }
        let mut wrote = batch.write(&mut self.connection).await?;
        for (i, other) in others {
            done[i] = self.write_other(other).await?;
            wrote = true;
        }
        if wrote {
            self.sequence += 1;
            sqlx::query(sql::WRITTEN)
                .bind(&self.name.as_bytes()[..])
                .bind(super::rows::signed(self.sequence))
                .bind(super::rows::signed(SystemClock.now().0))
                .execute(&mut self.connection)
                .await?;
        }
        Ok((done, batch))
    }

    async fn write_other(&mut self, work: &Work) -> Result<Done, StoreError> {
        let c = &mut self.connection;
        match work {
            Work::Heartbeat(lease) => super::batch::heartbeat(c, lease).await.map(|()| Done::Written),
            Work::Release(boot) => {
                sqlx::query(sql::RELEASE).bind(&boot.0.as_bytes()[..]).execute(c).await?;
                Ok(Done::Written)
            }
            Work::Sweep { now, tombstones_before } => {
                super::batch::sweep(c, *now, *tombstones_before).await.map(Done::Count)
            }
            Work::PutPlugin(row) => super::batch::put_plugin(c, row).await.map(|()| Done::Written),
            Work::DropPlugin(name) => {
                sqlx::query(sql::DROP_PLUGIN).bind(name).execute(c).await?;
                Ok(Done::Written)
            }
            Work::Secret { name, fresh } => {
                sqlx::query(sql::KEEP_SECRET).bind(name).bind(fresh).execute(c).await?;
                Ok(Done::Written)
            }
            Work::Insert(..) | Work::Admit(..) | Work::Update(..) | Work::Close => Ok(Done::Written),
        }
    }

    /// After a failed `COMMIT`: whether it happened after all, by a new look at the file.
    pub(super) async fn was_committed(&mut self) -> Result<bool, StoreError> {
        self.reopen().await?;
        let last: Option<i64> = sqlx::query_scalar(sql::LAST_WRITTEN)
            .bind(&self.name.as_bytes()[..])
            .fetch_optional(&mut self.connection)
            .await?;
        Ok(last.is_some_and(|s| s >= super::rows::signed(self.sequence)))
    }

    #[cfg(test)]
    pub(super) fn skip_sequence(&mut self) {
        self.sequence += 1;
    }

    /// SQLite may have rolled back by itself (a full disk), and then refuses: a new connection is sure.
    async fn roll_back(&mut self) {
        if execute(&mut self.connection, "ROLLBACK").await.is_err()
            && let Err(e) = self.reopen().await
        {
            tracing::warn!(error = %e, "the database cannot be opened again");
        }
    }

    async fn reopen(&mut self) -> Result<(), StoreError> {
        let fresh = self.options.connect().await?;
        self.known.forget();
        let old = std::mem::replace(&mut self.connection, fresh);
        // Its state is unknown; dropping it ends whatever it had open.
        drop(old.close_hard().await);
        Ok(())
    }
}

/// A lock or damage concerns every write alike, and waiting for it once is enough.
fn concerns_one_row(e: &StoreError) -> bool {
    matches!(e, StoreError::Full(_) | StoreError::Other(_))
}

/// Runs a change; one that panics must not take the writer with it.
fn run(change: &Change, task: Task) -> Result<Result<Task, crate::store::Refused>, StoreError> {
    catch_unwind(AssertUnwindSafe(|| change(task)))
        .map_err(|_| StoreError::Other("a change of a task panicked".into()))
}

/// Tasks of a batch by id.
pub(super) type ById<T> = HashMap<TaskId, T>;
