//! The one writer of this process: commits what is queued together, and finds out what became of a
//! commit whose answer was lost.

use std::{future::Future, sync::Arc, time::Duration};

use sqlx::{ConnectOptions as _, Connection as _, Executor as _};
use sqlx_postgres::{PgConnectOptions, PgConnection};
use tokio::time::Instant;
use uuid::Uuid;

use super::{
    Shared, notices, plugins,
    rows::{self, Rows},
    server, sql,
};
use crate::{
    base::{Digest, TaskId, failpoint},
    config::StoreConfig,
    store::{
        StoreError,
        batch::{Batch, Key, Wanted},
        values::{self, Sink as _, signed},
        work::{Commit, Done, Work},
    },
};

pub(super) struct Writer {
    options: PgConnectOptions,
    connection: Option<PgConnection>,
    shared: Arc<Shared>,
    /// This writer's name in the table of last commits.
    name: Uuid,
    /// Its commits so far.
    sequence: u64,
    /// How long an unknown commit is looked for.
    patience: Duration,
}

impl Writer {
    pub(super) async fn open(
        options: PgConnectOptions,
        shared: Arc<Shared>,
        config: &StoreConfig,
    ) -> Result<Self, StoreError> {
        let patience = (config.lease + config.takeover).duration();
        let mut writer =
            Self { options, connection: None, shared, name: Uuid::new_v4(), sequence: 0, patience };
        writer.connection = Some(writer.connect().await?);
        Ok(writer)
    }

    async fn connect(&self) -> Result<PgConnection, StoreError> {
        let connecting = async {
            let mut c = self.options.connect().await?;
            // After a failover another server may answer.
            server::check(&mut c).await?;
            sqlx::query(sql::BEGIN_WRITER).bind(&self.name.as_bytes()[..]).execute(&mut c).await?;
            Ok(c)
        };
        self.within(connecting).await
    }

    /// No answer for longer than the server itself allows a statement: the network has gone.
    async fn within<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        match tokio::time::timeout(self.shared.answer_within, work).await {
            Ok(done) => done,
            Err(_) => Err(StoreError::Unreachable("the server does not answer".into())),
        }
    }

    /// A connection inside a new transaction. One that has died says so here, where nothing is lost.
    async fn begin(&mut self) -> Result<PgConnection, StoreError> {
        if let Some(mut old) = self.connection.take() {
            match self.within(execute(&mut old, "BEGIN")).await {
                Ok(()) => return Ok(old),
                Err(e) => {
                    tracing::warn!(error = %e, "the connection to the database is lost: opening another")
                }
            }
        }
        let mut new = self.connect().await?;
        self.within(execute(&mut new, "BEGIN")).await?;
        Ok(new)
    }

    async fn write(&mut self, c: &mut PgConnection, work: &[&Work]) -> Result<Vec<Done>, StoreError> {
        let mut batch = Batch::default();
        // None is known without a look: others write too, and the row's lock is what keeps them out.
        let Wanted { mut ids, keys, .. } = Batch::wanted(work, |_| None)?;
        ids.extend(lock_keys(c, keys).await?);
        if !ids.is_empty() {
            let ids: Vec<&[u8]> = ids.iter().map(|id| &id.0.as_bytes()[..]).collect();
            sqlx::query(sql::LOCK_TASKS).bind(&ids).execute(&mut *c).await?;
            for row in sqlx::query(sql::TASKS_OF_BATCH).bind(&ids).fetch_all(&mut *c).await? {
                batch.read(rows::task(&row)?);
            }
        }
        let mut done = batch.apply(work)?;
        let mut wrote = write_tasks(c, &batch).await?;
        for (done, work) in done.iter_mut().zip(work) {
            if let Some(other) = write_other(c, self.shared.replica, work).await? {
                *done = other;
                wrote = true;
            }
        }
        if wrote {
            self.sequence += 1;
            sqlx::query(sql::WRITTEN)
                .bind(&self.name.as_bytes()[..])
                .bind(signed(self.sequence))
                .execute(&mut *c)
                .await?;
        }
        if let Some(notice) = notices::of(&batch, self.shared.me()) {
            sqlx::query(sql::NOTIFY).bind(notice).execute(c).await?;
        }
        Ok(done)
    }

    /// After a `COMMIT` without an answer: whether it happened after all. Asked for as long as the tasks are
    /// ours: a run that takes what was committed for lost would write it twice.
    pub(super) async fn was_committed(&mut self) -> Result<bool, StoreError> {
        let until = Instant::now() + self.patience;
        loop {
            let error = match self.last_written().await {
                Ok(last) => return Ok(last >= self.sequence),
                Err(e) => e,
            };
            if Instant::now() >= until || self.shared.is_closing() {
                return Err(error);
            }
            tracing::warn!(%error, "whether a commit has happened cannot be told yet; trying again");
            tokio::time::sleep(StoreConfig::RECONNECT.duration()).await;
        }
    }

    async fn last_written(&mut self) -> Result<u64, StoreError> {
        let mut c = self.connect().await?;
        let query = sqlx::query_scalar::<_, i64>(sql::LAST_WRITTEN).bind(&self.name.as_bytes()[..]);
        let last = self.within(async { Ok(query.fetch_one(&mut c).await?) }).await?;
        self.connection = Some(c);
        Ok(u64::try_from(last).unwrap_or(0))
    }

    #[cfg(test)]
    pub(super) fn skip_sequence(&mut self) {
        self.sequence += 1;
    }
}

impl Commit for Writer {
    async fn commit(&mut self, work: &[&Work]) -> Result<Vec<Done>, StoreError> {
        let tasks = work.iter().any(|w| w.is_of_task());
        if tasks {
            failpoint!("store.before-begin");
        }
        let mut c = self.begin().await?;
        let limit = self.shared.answer_within * 4;
        let written = match tokio::time::timeout(limit, self.write(&mut c, work)).await {
            Ok(written) => written,
            Err(_) => Err(StoreError::Unreachable("the server does not answer".into())),
        };
        let done = match written {
            Ok(done) => done,
            Err(e) => {
                // A connection that cannot even do this is dropped; the server rolls back by itself.
                if self.within(execute(&mut c, "ROLLBACK")).await.is_ok() {
                    self.connection = Some(c);
                }
                return Err(e);
            }
        };
        if tasks {
            failpoint!("store.before-commit");
        }
        match self.within(execute(&mut c, "COMMIT")).await {
            Ok(()) => self.connection = Some(c),
            Err(e) => {
                let _ = c.close_hard().await;
                if !self.was_committed().await? {
                    return Err(e);
                }
            }
        }
        if tasks {
            failpoint!("store.after-commit");
        }
        Ok(done)
    }

    fn concerns_one_row(e: &StoreError) -> bool {
        // Another process may hold the lock of one row only.
        matches!(e, StoreError::Full(_) | StoreError::Other(_) | StoreError::Locked(_))
    }

    async fn close(self) {
        if let Some(c) = self.connection
            && let Err(e) = c.close().await
        {
            tracing::debug!(error = %e, "the connection to the database was not closed in order");
        }
    }
}

/// A statement without parameters, by the simple protocol.
async fn execute(c: &mut PgConnection, statement: &'static str) -> Result<(), StoreError> {
    c.execute(statement).await?;
    Ok(())
}

/// Locks the keys, in one order for everybody; the tasks that have them.
async fn lock_keys(c: &mut PgConnection, keys: Vec<Key>) -> Result<Vec<TaskId>, StoreError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let mut locks: Vec<i64> = keys.iter().map(lock_of).collect();
    locks.sort_unstable();
    locks.dedup();
    sqlx::query(sql::LOCK_KEYS).bind(locks).execute(&mut *c).await?;
    let mut wanted = Rows::new(&sql::IDS_OF_KEYS);
    for (principal, tool, key) in keys {
        wanted.name(&principal).name(&tool).bytes(key);
    }
    wanted.select(c).await?.iter().map(rows::id).collect()
}

/// A number for an advisory lock; two keys with the same one only wait for each other.
fn lock_of((principal, tool, key): &Key) -> i64 {
    let text = format!("{principal}\0{tool}\0{key}");
    let digest = Digest::of(text.as_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&digest.0[..8]);
    i64::from_be_bytes(first)
}

/// Writes what has changed; false where nothing has.
async fn write_tasks(c: &mut PgConnection, batch: &Batch<'_>) -> Result<bool, StoreError> {
    let mut wrote = false;
    if !batch.buried().is_empty() {
        let ids: Vec<&[u8]> = batch.buried().iter().map(|id| &id.0.as_bytes()[..]).collect();
        sqlx::query(sql::BURY_BATCH).bind(ids).execute(&mut *c).await?;
        wrote = true;
    }
    // Tasks before their questions and pieces: a statement that fills up is sent at once.
    let mut out = Rows::new(&sql::INSERT_TASKS);
    for task in batch.new_tasks() {
        values::push_new(&mut out, task);
        out.send_if_full(c).await?;
    }
    wrote |= out.send(c).await?;
    let mut out = Rows::new(&sql::UPDATE_TASKS);
    for (was, task) in batch.changed_tasks() {
        values::push_changed(&mut out, task, was.fence);
        out.send_if_full(c).await?;
    }
    wrote |= out.send(c).await?;
    let mut questions = Rows::new(&sql::INSERT_QUESTIONS);
    let mut answers = Rows::new(&sql::ANSWER_QUESTIONS);
    for (id, position, question, is_new) in batch.questions() {
        if is_new {
            values::push_question(&mut questions, id, position, question);
        } else {
            values::push_answer(&mut answers, id, position, question);
        }
        questions.send_if_full(c).await?;
        answers.send_if_full(c).await?;
    }
    wrote |= questions.send(c).await? | answers.send(c).await?;
    let mut pieces = Rows::new(&sql::INSERT_PIECES);
    let mut blobs = Rows::new(&sql::INSERT_BLOBS);
    for (id, n, piece) in batch.pieces() {
        values::push_piece(&mut pieces, *id, *n, piece);
        pieces.send_if_full(c).await?;
        for blob in &piece.blobs {
            values::push_blob(&mut blobs, *id, *n, blob);
            blobs.send_if_full(c).await?;
        }
    }
    wrote |= pieces.send(c).await? | blobs.send(c).await?;
    Ok(wrote)
}

/// Work that is not of one task; none where it is.
async fn write_other(c: &mut PgConnection, me: Uuid, work: &Work) -> Result<Option<Done>, StoreError> {
    match work {
        Work::Insert(..) | Work::Admit(..) | Work::Update(..) | Work::Close => return Ok(None),
        Work::Heartbeat(lease) => {
            server::heartbeat(lease).execute(c).await?;
        }
        Work::Release(boot) => {
            sqlx::query(sql::RELEASE).bind(&boot.0.as_bytes()[..]).execute(c).await?;
        }
        Work::Sweep { now, tombstones_before } => {
            let step = i64::from(StoreConfig::SWEEP_STEP);
            let (now, before) = (signed(now.0), signed(tombstones_before.0));
            let gone: i64 =
                sqlx::query_scalar(sql::BURY_EXPIRED).bind(now).bind(step).fetch_one(&mut *c).await?;
            sqlx::query(sql::DELETE_TOMBSTONES).bind(before).bind(step).execute(&mut *c).await?;
            let silent = signed(StoreConfig::FORGET_WRITER.0);
            sqlx::query(sql::DELETE_WRITERS).bind(silent).execute(&mut *c).await?;
            let unnamed = signed(StoreConfig::FORGET_COMPONENT.0);
            sqlx::query(sql::DELETE_COMPONENTS).bind(unnamed).execute(&mut *c).await?;
            let unseen = signed(StoreConfig::FORGET_REPLICA.0);
            sqlx::query(sql::DELETE_REPLICAS).bind(unseen).execute(c).await?;
            return Ok(Some(Done::Count(u64::try_from(gone).unwrap_or(0))));
        }
        Work::PutPlugin(row) => plugins::put(c, me, row).await?,
        Work::AdoptPlugin(row) => {
            let owner = plugins::adopt(c, me, row).await?;
            return Ok(Some(Done::Owner(owner.map(Box::new))));
        }
        Work::DropPlugin(name) => {
            let drop = sqlx::query(sql::DROP_PLUGIN).bind(name.as_bytes());
            drop.bind(&me.as_bytes()[..]).execute(c).await?;
        }
        Work::Revoke(revoked) => {
            let reason = revoked.reason.as_ref().map(|reason| reason.as_bytes());
            let revoke = sqlx::query(sql::REVOKE).bind(&revoked.digest.0[..]).bind(signed(revoked.at.0));
            revoke.bind(reason).execute(c).await?;
        }
        Work::Unrevoke(digest) => {
            sqlx::query(sql::UNREVOKE).bind(&digest.0[..]).execute(c).await?;
        }
        // Here the server's time counts, and nobody asks for this.
        Work::Clock { .. } => {}
        Work::Secret { name, fresh } => {
            sqlx::query(sql::KEEP_SECRET).bind(*name).bind(&fresh[..]).execute(c).await?;
        }
    }
    Ok(Some(Done::Written))
}
