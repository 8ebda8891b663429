//! What one transaction does to tasks: read all rows that it concerns at once, change them in
//! memory one after the other, write all at once. The number of statements does not grow with the
//! batch.

use std::collections::{HashMap, hash_map::Entry};

use sqlx::SqliteConnection;

use super::{
    rows::{self, Rows, signed},
    sql::{self, Bulk},
    writer::{ById, Work},
};
use crate::{
    base::{TaskId, UnixMillis},
    config::StoreConfig,
    store::{Admitted, Lease, PluginRow, Refused, StoreError, Task, Updated},
};

/// A task as the database has it, and as it will be.
struct Slot {
    stored: Option<Task>,
    changed: Option<Task>,
}

impl Slot {
    /// One of the two is always there.
    fn now(&self) -> Option<&Task> {
        self.changed.as_ref().or(self.stored.as_ref())
    }
}

/// Live tasks that this connection wrote, as they are in the database: what most updates need not read.
/// Another connection's commit makes all of them unknown.
#[derive(Default)]
pub(super) struct Known {
    tasks: ById<Task>,
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
        for (id, slot) in batch.slots {
            match slot.changed {
                Some(task) if task.holder.is_some() => {
                    self.make_room();
                    self.tasks.insert(id, task);
                }
                Some(_) => drop(self.tasks.remove(&id)),
                None => {}
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

type Key = (String, String, String);

fn key_of(task: &Task) -> Option<Key> {
    let key = task.key.as_ref()?;
    Some((task.principal.as_str().to_owned(), task.tool.clone(), key.key.clone()))
}

/// The tasks of one transaction.
#[derive(Default)]
pub(super) struct Batch<'a> {
    slots: ById<Slot>,
    keys: HashMap<Key, TaskId>,
    /// In the order they came, so that lists show them so.
    new: Vec<TaskId>,
    bury: Vec<TaskId>,
    /// New pieces of journals, with their numbers.
    pieces: Vec<(TaskId, u32, &'a [u8])>,
}

impl<'a> Batch<'a> {
    /// Reads the rows that `work` changes, but for those that are `known` as they are now, and those
    /// that stand in the way of its keys.
    pub(super) async fn load(
        c: &mut SqliteConnection,
        work: &[&Work],
        known: &Known,
    ) -> Result<Self, StoreError> {
        let mut batch = Self::default();
        let (mut ids, mut keys) = (Rows::default(), Rows::default());
        for work in work {
            match work {
                Work::Update(id, ..) => match known.get(id) {
                    Some(task) => batch.read(task.clone()),
                    None => {
                        ids.bytes(*id.0.as_bytes());
                    }
                },
                Work::Admit(task, _) => {
                    let Some((principal, tool, key)) = key_of(task) else {
                        return Err(StoreError::Other(
                            "a task without a key cannot be admitted by it".into(),
                        ));
                    };
                    keys.text(&principal).text(&tool).bytes(key);
                }
                _ => {}
            }
        }
        for (rows, query) in [(ids, &sql::TASKS_OF_BATCH), (keys, &sql::TASKS_OF_KEYS)] {
            rows.select(query, c).await?.into_iter().for_each(|task| batch.read(task));
        }
        Ok(batch)
    }

    /// Takes note of a task as the database has it.
    fn read(&mut self, task: Task) {
        if let Some(key) = key_of(&task) {
            self.keys.insert(key, task.id);
        }
        self.slots.entry(task.id).or_insert(Slot { stored: Some(task), changed: None });
    }

    pub(super) fn insert(&mut self, task: &Task, pieces: &'a [Vec<u8>]) -> Result<(), StoreError> {
        match self.slots.entry(task.id) {
            Entry::Occupied(_) => Err(StoreError::Other("a task with this id is there already".into())),
            Entry::Vacant(free) => {
                let pieces = append(&mut self.pieces, task.id, 0, pieces)?;
                free.insert(Slot { stored: None, changed: Some(Task { pieces, ..task.clone() }) });
                self.new.push(task.id);
                Ok(())
            }
        }
    }

    pub(super) fn admit(&mut self, task: &Task, pieces: &'a [Vec<u8>]) -> Result<Admitted, StoreError> {
        let key = key_of(task).ok_or(StoreError::Closed)?;
        if let Some(there) = self.keys.get(&key).and_then(|id| self.slots.get(id)).and_then(Slot::now) {
            if there.end.is_none() || there.created_at + there.ttl > task.created_at {
                return Ok(Admitted::Exists(Box::new(there.clone())));
            }
            // Its TTL is over: it frees its key.
            self.bury.push(there.id);
        }
        self.insert(task, pieces)?;
        self.keys.insert(key, task.id);
        Ok(Admitted::Fresh)
    }

    pub(super) fn update(
        &mut self,
        id: TaskId,
        change: impl FnOnce(Task) -> Result<Result<Task, Refused>, StoreError>,
        pieces: &'a [Vec<u8>],
    ) -> Result<Updated, StoreError> {
        let Some(slot) = self.slots.get_mut(&id) else { return Ok(Updated::Unknown) };
        let Some(now) = slot.now().cloned() else { return Ok(Updated::Unknown) };
        Ok(match change(now.clone())? {
            Ok(mut changed) => {
                changed.pieces = append(&mut self.pieces, id, now.pieces, pieces)?;
                slot.changed = Some(changed.clone());
                Updated::Done(changed)
            }
            Err(refused) => Updated::Refused(refused, now),
        })
    }

    /// Writes what has changed; false where nothing has.
    pub(super) async fn write(&self, c: &mut SqliteConnection) -> Result<bool, StoreError> {
        let Self { slots, new, bury, pieces, .. } = self;
        let mut wrote = bury_tasks(c, bury).await?;
        let mut inserts = Statement::new(&sql::INSERT_TASKS);
        let mut updates = Statement::new(&sql::UPDATE_TASKS);
        let mut questions = Statement::new(&sql::INSERT_QUESTIONS);
        let mut answers = Statement::new(&sql::ANSWER_QUESTIONS);
        let fresh = new.iter().filter_map(|id| slots.get(id));
        let old = slots.values().filter(|s| s.stored.is_some());
        // Tasks before their questions: a statement that fills up is sent at once.
        for slot in fresh.chain(old) {
            match (&slot.stored, &slot.changed) {
                (None, Some(task)) => {
                    rows::push_new(&mut inserts.rows, task);
                    inserts.send_if_full(c).await?;
                }
                (Some(was), Some(task)) => {
                    rows::push_changed(&mut updates.rows, task, was.fence);
                    updates.send_if_full(c).await?;
                }
                (_, None) => {}
            }
        }
        wrote |= inserts.send(c).await? | updates.send(c).await?;
        for slot in slots.values() {
            let Some(task) = &slot.changed else { continue };
            let was = slot.stored.as_ref().map_or(&[][..], |t| &t.questions[..]);
            for (position, question) in task.questions.iter().enumerate() {
                match was.get(position) {
                    None => rows::push_question(&mut questions.rows, task.id, position, question),
                    Some(before) if before.answer.is_none() && question.answer.is_some() => {
                        rows::push_answer(&mut answers.rows, task.id, position, question);
                    }
                    Some(_) => {}
                }
            }
            questions.send_if_full(c).await?;
            answers.send_if_full(c).await?;
        }
        wrote |= questions.send(c).await? | answers.send(c).await?;
        let mut journals = Statement::new(&sql::INSERT_PIECES);
        for (id, n, bytes) in pieces {
            journals.rows.bytes(*id.0.as_bytes()).int(u64::from(*n)).bytes(*bytes);
            journals.send_if_full(c).await?;
        }
        wrote |= journals.send(c).await?;
        Ok(wrote)
    }
}

/// Numbers `pieces` from `first` on; returns how many the journal has then.
fn append<'a>(
    all: &mut Vec<(TaskId, u32, &'a [u8])>,
    id: TaskId,
    first: u32,
    pieces: &'a [Vec<u8>],
) -> Result<u32, StoreError> {
    let mut n = first;
    for piece in pieces {
        all.push((id, n, piece));
        n = n.checked_add(1).ok_or_else(|| StoreError::Other("a journal has too many pieces".into()))?;
    }
    Ok(n)
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
    let long_over = crate::store::boottime_ms().saturating_sub(StoreConfig::FORGET_PROCESS.0);
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
