//! The statements of one transaction. Their number does not grow with the batch.

use std::collections::HashMap;

use sqlx::SqliteConnection;

use super::{
    rows::{self, Rows},
    sql::{self, Bulk},
};
use crate::{
    base::{TaskId, UnixMillis},
    config::StoreConfig,
    store::{
        Lease, PluginRow, StoreError, Task,
        batch::Batch,
        values::{self, Sink as _, signed},
        work::Work,
    },
};

/// Live tasks that this connection wrote, as they are in the database: what most updates need not read.
/// Another connection's commit makes all of them unknown.
#[derive(Default)]
pub(super) struct Known {
    tasks: HashMap<TaskId, Task>,
    data_version: Option<i64>,
}

impl Known {
    /// To be called inside the transaction, before the first look: forgets everything where somebody
    /// else has written.
    pub(super) async fn check(&mut self, c: &mut SqliteConnection) -> Result<(), StoreError> {
        let version = sqlx::query_scalar(sql::DATA_VERSION).fetch_one(c).await?;
        if self.data_version.replace(version) != Some(version) {
            self.tasks.clear();
        }
        Ok(())
    }

    /// Another connection takes over: its versions are other ones.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    fn get(&self, id: &TaskId) -> Option<&Task> {
        self.tasks.get(id)
    }

    /// Takes note of what was committed. An ended task is not kept: nothing changes it but a sweep; nor is
    /// one that is nobody's: it may wait for a long time.
    pub(super) fn committed(&mut self, batch: Batch<'_>) {
        for task in batch.into_written() {
            if task.holder.is_some() {
                self.make_room();
                self.tasks.insert(task.id, task);
            } else {
                self.tasks.remove(&task.id);
            }
        }
    }

    /// Any one goes: it will be read again.
    fn make_room(&mut self) {
        if self.tasks.len() >= StoreConfig::KNOWN_TASKS
            && let Some(id) = self.tasks.keys().next().copied()
        {
            self.tasks.remove(&id);
        }
    }
}

/// The batch of `work`, with the rows that it changes read, but for those that are `known` as they are now,
/// and those that stand in the way of its keys.
pub(super) async fn load<'a>(
    c: &mut SqliteConnection,
    work: &[&'a Work],
    known: &Known,
) -> Result<Batch<'a>, StoreError> {
    let mut batch = Batch::default();
    let (mut ids, mut keys) = (Rows::default(), Rows::default());
    let wanted = Batch::wanted(work, |id| known.get(id))?;
    wanted.known.into_iter().for_each(|task| batch.read(task));
    for id in wanted.ids {
        ids.bytes(*id.0.as_bytes());
    }
    for (principal, tool, key) in wanted.keys {
        keys.name(&principal).name(&tool).bytes(key);
    }
    for (rows, query) in [(ids, &sql::TASKS_OF_BATCH), (keys, &sql::TASKS_OF_KEYS)] {
        rows.select(query, c).await?.into_iter().for_each(|task| batch.read(task));
    }
    Ok(batch)
}

/// Writes what has changed; false where nothing has.
pub(super) async fn write(c: &mut SqliteConnection, batch: &Batch<'_>) -> Result<bool, StoreError> {
    let mut wrote = bury_tasks(c, batch.buried()).await?;
    // Tasks before their questions and pieces: a statement that fills up is sent at once.
    let mut inserts = Statement::new(&sql::INSERT_TASKS);
    for task in batch.new_tasks() {
        values::push_new(&mut inserts.rows, task);
        inserts.send_if_full(c).await?;
    }
    let mut updates = Statement::new(&sql::UPDATE_TASKS);
    for (was, task) in batch.changed_tasks() {
        values::push_changed(&mut updates.rows, task, was.fence);
        updates.send_if_full(c).await?;
    }
    wrote |= inserts.send(c).await? | updates.send(c).await?;
    let mut questions = Statement::new(&sql::INSERT_QUESTIONS);
    let mut answers = Statement::new(&sql::ANSWER_QUESTIONS);
    for (id, position, question, is_new) in batch.questions() {
        if is_new {
            values::push_question(&mut questions.rows, id, position, question);
            questions.send_if_full(c).await?;
        } else {
            values::push_answer(&mut answers.rows, id, position, question);
            answers.send_if_full(c).await?;
        }
    }
    wrote |= questions.send(c).await? | answers.send(c).await?;
    let mut journals = Statement::new(&sql::INSERT_PIECES);
    let mut blobs = Statement::new(&sql::INSERT_BLOBS);
    for (id, n, piece) in batch.pieces() {
        values::push_piece(&mut journals.rows, *id, *n, piece);
        journals.send_if_full(c).await?;
        for blob in &piece.blobs {
            values::push_blob(&mut blobs.rows, *id, *n, blob);
            blobs.send_if_full(c).await?;
        }
    }
    wrote |= journals.send(c).await? | blobs.send(c).await?;
    Ok(wrote)
}

/// Rows on their way to one statement.
struct Statement {
    bulk: &'static Bulk,
    rows: Rows,
}

impl Statement {
    fn new(bulk: &'static Bulk) -> Self {
        Self { bulk, rows: Rows::default() }
    }

    /// Large results must not all stand in memory twice: past this size what there is goes out.
    async fn send_if_full(&mut self, c: &mut SqliteConnection) -> Result<(), StoreError> {
        if self.rows.bytes >= StoreConfig::STATEMENT_SIZE.as_usize() {
            self.send(c).await?;
        }
        Ok(())
    }

    /// True where there was something to send; an error where not every row was written.
    async fn send(&mut self, c: &mut SqliteConnection) -> Result<bool, StoreError> {
        if self.rows.is_empty() {
            return Ok(false);
        }
        let (rows, written) = std::mem::take(&mut self.rows).execute(self.bulk, c).await?;
        if written == rows {
            Ok(true)
        } else {
            Err(StoreError::Other(format!(
                "{written} of {rows} rows were written: one was not as it was read"
            )))
        }
    }
}

async fn bury_tasks(c: &mut SqliteConnection, ids: &[TaskId]) -> Result<bool, StoreError> {
    for statement in [&sql::BURY_BATCH, &sql::DELETE_BATCH] {
        let mut rows = Rows::default();
        for id in ids {
            rows.bytes(*id.0.as_bytes());
        }
        rows.execute(statement, c).await?;
    }
    Ok(!ids.is_empty())
}

/// A statement without parameters.
pub(super) async fn execute(c: &mut SqliteConnection, statement: &'static str) -> Result<(), StoreError> {
    sqlx::query(statement).execute(c).await?;
    Ok(())
}

pub(super) async fn heartbeat(c: &mut SqliteConnection, lease: &Lease) -> Result<(), StoreError> {
    let long_over = crate::base::boottime_ms().saturating_sub(StoreConfig::FORGET_PROCESS.0);
    sqlx::query(sql::HEARTBEAT)
        .bind(&lease.boot.0.as_bytes()[..])
        .bind(&lease.os_boot.as_bytes()[..])
        .bind(signed(lease.until_boottime_ms))
        .execute(&mut *c)
        .await?;
    sqlx::query(sql::FORGET_PROCESSES)
        .bind(&lease.os_boot.as_bytes()[..])
        .bind(signed(long_over))
        .execute(c)
        .await?;
    Ok(())
}

/// One bounded step of a sweep; returns how many tasks went.
pub(super) async fn sweep(
    c: &mut SqliteConnection,
    now: UnixMillis,
    tombstones_before: UnixMillis,
) -> Result<u64, StoreError> {
    let step = i64::from(StoreConfig::SWEEP_STEP);
    sqlx::query(sql::BURY_EXPIRED).bind(signed(now.0)).bind(step).execute(&mut *c).await?;
    let gone = sqlx::query(sql::DELETE_EXPIRED).bind(signed(now.0)).bind(step).execute(&mut *c).await?;
    sqlx::query(sql::DELETE_TOMBSTONES).bind(signed(tombstones_before.0)).bind(step).execute(&mut *c).await?;
    let silent = now.0.saturating_sub(StoreConfig::FORGET_WRITER.0);
    sqlx::query(sql::DELETE_WRITERS).bind(signed(silent)).execute(c).await?;
    Ok(gone.rows_affected())
}

/// Writes a row, unless a name in it belongs to another plugin: then that one's row.
pub(super) async fn adopt_plugin(
    c: &mut SqliteConnection,
    row: &PluginRow,
) -> Result<Option<PluginRow>, StoreError> {
    for other in sqlx::query(sql::PLUGINS).fetch_all(&mut *c).await? {
        let other = rows::plugin(&other)?;
        if other.name != row.name && row.shares_name(&other) {
            return Ok(Some(other));
        }
    }
    put_plugin(c, row).await?;
    Ok(None)
}

pub(super) async fn put_plugin(c: &mut SqliteConnection, row: &PluginRow) -> Result<(), StoreError> {
    let names = |names: &Vec<String>| serde_json::to_vec(names).map_err(|e| StoreError::Other(e.to_string()));
    sqlx::query(sql::PUT_PLUGIN)
        .bind(&row.name)
        .bind(row.digest.as_ref().map(|d| &d.0[..]))
        .bind(row.granted.as_ref().map(|d| &d.0[..]))
        .bind(row.policy.as_bytes())
        .bind(row.without_grants)
        .bind(names(&row.tools)?)
        .bind(row.listed.as_bytes())
        .bind(signed(row.adopted_at.0))
        .bind(row.refusal.as_ref().map(|r| r.as_bytes()))
        .bind(names(&row.prompts)?)
        .bind(names(&row.resources)?)
        .bind(names(&row.templates)?)
        .execute(c)
        .await?;
    Ok(())
}
