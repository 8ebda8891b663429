//! The SQL, behind one trait: SQLite for the processes of one machine, PostgreSQL for those of many.
//! Knows nothing above it: it keeps rows, and changes them by functions that callers hand in.

mod batch;
mod boot;
#[cfg(test)]
mod cases;
mod clock;
#[cfg(test)]
mod differential;
mod error;
mod model;
mod postgres;
mod replica;
mod sqlite;
mod values;
mod vault;
mod work;

use std::{path::Path, sync::Arc};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{self, BoxFuture},
    stream::{self, BoxStream},
};

pub use boot::os_boot_id;
pub use clock::clock;
pub use model::{
    Answer, Elsewhere, End, Except, IdempotencyKey, Lease, PluginRow, Question, QuestionKind, Refused,
    Revoked, Status, Task, Tombstone,
};
pub use postgres::PostgresStore;
pub use sqlite::SqliteStore;
pub use vault::{Closed, Sealed, Vault};

use crate::{
    base::{BootId, Digest, Millis, Piece, Principal, TaskId, UnixMillis},
    config::StoreConfig,
};

/// Why the store could not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The database was written by a newer binary.
    #[error("the database has schema version {found}, this binary knows up to {known}: use a newer layby")]
    Newer {
        /// Version in the file.
        found: i64,
        /// Newest version that this binary has.
        known: i64,
    },
    /// Another process holds the lock for longer than the busy time-out.
    #[error("the database is locked by another process: {0}")]
    Locked(String),
    /// The file is not a database, or is damaged.
    #[error("the database is damaged or not a database: {0}")]
    Corrupt(String),
    /// No space is left.
    #[error("no space is left for the database: {0}")]
    Full(String),
    /// The database server cannot be reached, or takes no writes.
    #[error("the database server cannot be used: {0}")]
    Unreachable(String),
    /// The writer's queue is closed: the host is shutting down.
    #[error("the store is closed")]
    Closed,
    /// Anything else.
    #[error("the database failed: {0}")]
    Other(String),
}

/// What [`Store::update`] runs inside the transaction, on the row as it is now: the pure
/// state machine's move. It may run again after a failed batch, so it must have no side effect.
pub type Change = Box<dyn Fn(Task) -> Result<Task, Refused> + Send + Sync>;

/// How an [`Store::update`] ended.
#[derive(Debug)]
pub enum Updated {
    /// Committed; the row as it is now.
    Done(Task),
    /// The change was refused; the row as it is.
    Refused(Refused, Task),
    /// There is no such row.
    Unknown,
}

/// How an [`Store::admit`] ended.
#[derive(Debug)]
pub enum Admitted {
    /// The row is new and committed.
    Fresh,
    /// A row with the same principal, tool and key is there already.
    Exists(Box<Task>),
}

/// Opens the store that `config` names: a PostgreSQL server, or the file in the data folder.
///
/// # Errors
/// See [`PostgresStore::open`] and [`SqliteStore::open`].
pub async fn open(data: &Path, config: &StoreConfig) -> Result<Arc<dyn Store>, StoreError> {
    if config.url.is_empty() {
        SqliteStore::open(data, config).await
    } else {
        PostgresStore::open(&config.url, replica::name(data)?, config).await
    }
}

/// What another process may have committed that concerns this one. Nothing depends on it: who looks each
/// second finds the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Somebody has cancelled or answered this task.
    Task(TaskId),
    /// A task that is nobody's can go on.
    Resumable,
    /// Anything: hints may have been missed.
    Any,
}

/// Rows of tasks and plugins. Every write returns only after its commit is on disk.
pub trait Store: Send + Sync + 'static {
    /// Adds a task with its questions and the first pieces of its journal, and sets its `pieces`. The
    /// caller made the id, so there is no conflict.
    fn insert(&self, task: Task, pieces: Vec<Piece>) -> BoxFuture<'_, Result<(), StoreError>>;
    /// Adds a task with an idempotency key, unless one with the same principal, tool and key is there
    /// that lives, or has ended and is within its TTL at the new one's `created_at`. `pieces` are kept
    /// only where it is fresh.
    fn admit(&self, task: Task, pieces: Vec<Piece>) -> BoxFuture<'_, Result<Admitted, StoreError>>;
    /// Reads, changes and writes one task in one transaction. Where the change is done, `pieces` are
    /// appended to its journal in the same one, after those that its row counts, and raise that count.
    fn update(
        &self,
        id: TaskId,
        change: Change,
        pieces: Vec<Piece>,
    ) -> BoxFuture<'_, Result<Updated, StoreError>>;
    /// All pieces of a task's journal, in order, each with its blobs; none for an unknown task. A gap, or another
    /// number of them than the row's, is [`StoreError::Corrupt`]. Blobs are not looked into.
    fn journal(&self, id: TaskId) -> BoxFuture<'_, Result<Vec<Piece>, StoreError>>;
    /// One indexed read.
    fn get(&self, id: TaskId) -> BoxFuture<'_, Result<Option<Task>, StoreError>>;
    /// The task with this principal, tool and idempotency key; one indexed read.
    fn by_key(
        &self,
        principal: Principal,
        tool: String,
        key: String,
    ) -> BoxFuture<'_, Result<Option<Task>, StoreError>>;
    /// The end of a task that is past its TTL.
    fn tombstone(&self, id: TaskId) -> BoxFuture<'_, Result<Option<Tombstone>, StoreError>>;
    /// Tasks, newest first; of one principal or of all.
    fn list(&self, of: Option<Principal>, limit: u32) -> BoxFuture<'_, Result<Vec<Task>, StoreError>>;
    /// Live tasks leased by `boot` that somebody (perhaps another process) has asked something of:
    /// cancel requested, a round answered before, TTL or input deadline passed at `now`.
    fn attention(&self, boot: BootId, now: UnixMillis) -> BoxFuture<'_, Result<Vec<Task>, StoreError>>;
    /// Working tasks that a process may claim at `now`, oldest first: with a journal, not pinned, no
    /// cancellation requested, within the TTL, their wake-up and backoff passed; and nobody's, or of a
    /// holder whose lease is over as in [`Store::orphans`]. Not those of `but`.
    fn resumable(
        &self,
        now: UnixMillis,
        but: Except,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<Task>, StoreError>>;
    /// Live tasks that are nobody's and have something due at `now`: cancel requested, TTL or input
    /// deadline passed.
    fn unattended(&self, now: UnixMillis) -> BoxFuture<'_, Result<Vec<Task>, StoreError>>;
    /// How many live (not ended) tasks each principal has that has any, in the order of their names.
    fn count_live(&self) -> BoxFuture<'_, Result<Vec<(Principal, u64)>, StoreError>>;
    /// Live tasks that have asked something and were never revealed, of one principal or of all; counts no further
    /// than `most`.
    fn count_hidden(&self, of: Option<Principal>, most: u32) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// What other processes commit, as far as the database tells (SQLite does not). Ends with
    /// [`Store::close`]. To be asked for once.
    fn hints(&self) -> BoxStream<'static, Hint> {
        stream::pending().boxed()
    }

    /// Registers this process, and makes its lease last `lease_ms` from now by the boot-time clock.
    fn heartbeat(&self, lease: Lease) -> BoxFuture<'_, Result<(), StoreError>>;
    /// Live tasks of a holder whose lease has run out or who is gone (another OS boot). What is nobody's
    /// is no orphan.
    fn orphans(&self, me: BootId) -> BoxFuture<'_, Result<Vec<Task>, StoreError>>;
    /// Holders of live tasks with more than one attempt.
    fn alone(&self) -> BoxFuture<'_, Result<Vec<BootId>, StoreError>>;
    /// True while the lease of `boot` lives, the time to notice its end included.
    fn leased(&self, boot: BootId) -> BoxFuture<'_, Result<bool, StoreError>>;
    /// Ends this process's lease in order.
    fn release(&self, boot: BootId) -> BoxFuture<'_, Result<(), StoreError>>;
    /// Ended tasks past their TTL become tombstones, old tombstones go; returns how many tasks.
    /// `tombstones_before` is the age past which a tombstone is dropped.
    fn sweep(&self, now: UnixMillis, tombstones_before: UnixMillis)
    -> BoxFuture<'_, Result<u64, StoreError>>;

    /// The secret of this name, the same for every process on this store: `fresh` where there was none.
    fn secret(&self, name: &'static str, fresh: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, StoreError>>;

    /// The server's time, by which all processes on this store go; none where there is no server, or before it was heard.
    fn now(&self) -> Option<UnixMillis> {
        None
    }

    /// How far the time of day is ahead of the boot-time clock, for all processes on this store and in this run of the operating
    /// system: `ahead` where nobody has said it before, or where it is still `instead_of`. None where a server's time counts.
    fn clock(
        &self,
        _ahead: Millis,
        _instead_of: Option<Millis>,
    ) -> BoxFuture<'_, Result<Option<Millis>, StoreError>> {
        future::ready(Ok(None)).boxed()
    }

    /// The plugins that served last, with their names; this replica's own.
    fn plugins(&self) -> BoxFuture<'_, Result<Vec<PluginRow>, StoreError>>;
    /// Adds or replaces one.
    fn put_plugin(&self, row: PluginRow) -> BoxFuture<'_, Result<(), StoreError>>;
    /// The same, unless a name in it (tool, prompt, URI, template) is another plugin's, of this replica or one that
    /// lives: then that one's row, and nothing is written.
    fn adopt_plugin(&self, row: PluginRow) -> BoxFuture<'_, Result<Option<PluginRow>, StoreError>>;
    /// What other replicas have: of each name the newest adoption first.
    fn plugins_elsewhere(&self) -> BoxFuture<'_, Result<Vec<Elsewhere>, StoreError>> {
        future::ready(Ok(Vec::new())).boxed()
    }
    /// Drops one, and with it its ownership of tool names.
    fn drop_plugin(&self, name: String) -> BoxFuture<'_, Result<(), StoreError>>;
    /// Components that are revoked, in the order of their digests.
    fn revoked(&self) -> BoxFuture<'_, Result<Vec<Revoked>, StoreError>>;
    /// Revokes one. Where it is revoked already, that stays as it is.
    fn revoke(&self, revoked: Revoked) -> BoxFuture<'_, Result<(), StoreError>>;
    /// Takes that back.
    fn unrevoke(&self, digest: Digest) -> BoxFuture<'_, Result<(), StoreError>>;
    /// Live tasks that are nobody's and would go on with a revoked component; `most` of them at most.
    fn condemned(&self, most: u32) -> BoxFuture<'_, Result<Vec<Task>, StoreError>>;
    /// True where [`Store::put_component`] keeps anything.
    fn keeps_components(&self) -> bool {
        false
    }
    /// Keeps a component's bytes for processes that have no file of it; to be called before anything names
    /// the digest. Where all processes share a data folder there is nothing to keep. They go some time
    /// after the last live task and plugin row that name them.
    fn put_component(&self, _digest: Digest, _bytes: Vec<u8>) -> BoxFuture<'_, Result<(), StoreError>> {
        future::ready(Ok(())).boxed()
    }
    /// The bytes that [`Store::put_component`] kept; none where there are none.
    fn component(&self, _digest: Digest) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        future::ready(Ok(None)).boxed()
    }
    /// Digests that a live task or a plugin row names: their bytes must stay.
    fn digests_in_use(&self) -> BoxFuture<'_, Result<Vec<Digest>, StoreError>>;
    /// Ends the writer after it has committed what it took.
    fn close(&self) -> BoxFuture<'_, ()>;
}
