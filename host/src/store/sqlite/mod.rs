//! SQLite: one file in the data folder, one writer, a few readers, and other processes beside us.

mod batch;
mod rows;
mod sql;
#[cfg(test)]
mod tests;
mod writer;

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture};
use rustix::fs::{FlockOperation, flock};
use sqlx::{
    ConnectOptions as _, Connection as _, SqlitePool,
    migrate::Migrator,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous},
};
use tokio::task::JoinHandle;

use self::writer::Writer;
use super::{
    Admitted, Change, Except, Lease, PluginRow, Revoked, Store, StoreError, Task, Tombstone, Updated,
    values::{self, signed},
    work::{Queue, Work, serve},
};
use crate::{
    base::{BootId, Digest, Millis, Piece, Principal, TaskId, UnixMillis, private_folder},
    config::StoreConfig,
};

static MIGRATIONS: Migrator = sqlx_macros::migrate!("src/store/sqlite/migrations");

/// The store on one SQLite file.
pub struct SqliteStore {
    readers: SqlitePool,
    queue: Queue,
    writer: Mutex<Option<JoinHandle<()>>>,
    os_boot: uuid::Uuid,
    takeover: Millis,
}

impl SqliteStore {
    /// The database's name in the data folder.
    pub const FILE: &str = "layby.db";

    /// Opens `layby.db` in `data`, making both where they are missing (for the owner alone), and
    /// brings its schema up to date. Needs a tokio runtime, which the writer lives on until
    /// [`Store::close`].
    ///
    /// # Errors
    /// A newer schema, a damaged file, a lock held too long, a folder or disk that cannot be written.
    pub async fn open(data: &Path, config: &StoreConfig) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Self::open_concrete(data, config).await?)
    }

    async fn open_concrete(data: &Path, config: &StoreConfig) -> Result<Arc<Self>, StoreError> {
        let os_boot = super::os_boot_id()?;
        let file = data.join(Self::FILE);
        make_private(data, &file)?;
        let options = SqliteConnectOptions::new()
            .filename(&file)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(config.busy_timeout.duration())
            .pragma("journal_size_limit", StoreConfig::WAL_KEPT.0.to_string())
            .statement_cache_capacity(64)
            .disable_statement_logging();
        migrate(data, &options, config.busy_timeout).await?;
        let writer = Writer::open(options.clone()).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(config.readers.max(1))
            .acquire_timeout(config.busy_timeout.duration())
            .test_before_acquire(false)
            .idle_timeout(None)
            .max_lifetime(None)
            .connect_with(
                options
                    .pragma("query_only", "ON")
                    // Negative: in KiB.
                    .pragma("cache_size", format!("-{}", config.page_cache.0 / 1024)),
            )
            .await?;
        let (queue, jobs) = Queue::new(config.queue);
        let writer = Mutex::new(Some(tokio::spawn(serve(writer, jobs, config.max_batch))));
        Ok(Arc::new(Self { readers, queue, writer, os_boot, takeover: config.takeover }))
    }

    /// A lease that ended before this moment of the boot-time clock is over, with the time that its
    /// holder gets to notice.
    fn over_before(&self) -> i64 {
        signed(crate::base::boottime_ms().saturating_sub(self.takeover.0))
    }
}

/// The folder and the file are for the owner alone: they hold what callers said.
fn make_private(data: &Path, file: &Path) -> Result<(), StoreError> {
    let failed = |what: &str, e: std::io::Error| {
        if e.kind() == std::io::ErrorKind::StorageFull {
            StoreError::Full(format!("{what}: {e}"))
        } else {
            StoreError::Other(format!("{what}: {e}"))
        }
    };
    private_folder(data).map_err(|e| failed("the data folder cannot be made", e))?;
    private_file(file).map_err(|e| failed("the database file cannot be made", e))?;
    Ok(())
}

fn private_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Brings the schema up to date; one process at a time, because sqlx does not lock SQLite.
async fn migrate(data: &Path, options: &SqliteConnectOptions, within: Millis) -> Result<(), StoreError> {
    let lock = private_file(&data.join("layby.lock"))
        .map_err(|e| StoreError::Other(format!("the lock file cannot be made: {e}")))?;
    let locked = async {
        while flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    if tokio::time::timeout(within.duration() + Duration::from_secs(1), locked).await.is_err() {
        return Err(StoreError::Locked("another process is opening it".into()));
    }
    let mut connection = options.connect().await?;
    let known = MIGRATIONS.iter().map(|m| m.version).max().unwrap_or(0);
    let has_any: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE name = '_sqlx_migrations'")
            .fetch_one(&mut connection)
            .await?;
    if has_any > 0 {
        let found: Option<i64> = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations")
            .fetch_one(&mut connection)
            .await?;
        if let Some(found) = found.filter(|f| *f > known) {
            return Err(StoreError::Newer { found, known });
        }
    }
    MIGRATIONS.run_direct(None, &mut connection, false).await?;
    connection.close().await?;
    Ok(())
}

fn tasks(rows: &[SqliteRow]) -> Result<Vec<Task>, StoreError> {
    rows.iter().map(rows::task).collect()
}

impl Store for SqliteStore {
    fn insert(&self, task: Task, pieces: Vec<Piece>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.queue.written(Work::Insert(Box::new(task), pieces)).boxed()
    }

    fn admit(&self, task: Task, pieces: Vec<Piece>) -> BoxFuture<'_, Result<Admitted, StoreError>> {
        self.queue.admit(task, pieces).boxed()
    }

    fn update(
        &self,
        id: TaskId,
        change: Change,
        pieces: Vec<Piece>,
    ) -> BoxFuture<'_, Result<Updated, StoreError>> {
        self.queue.update(id, change, pieces).boxed()
    }

    fn journal(&self, id: TaskId) -> BoxFuture<'_, Result<Vec<Piece>, StoreError>> {
        async move {
            let query = sqlx::query(sql::JOURNAL).bind(&id.0.as_bytes()[..]);
            values::journal(query.fetch_all(&self.readers).await?.iter().map(rows::piece))
        }
        .boxed()
    }

    fn get(&self, id: TaskId) -> BoxFuture<'_, Result<Option<Task>, StoreError>> {
        async move {
            let row = sqlx::query(sql::TASK).bind(&id.0.as_bytes()[..]).fetch_optional(&self.readers).await?;
            row.as_ref().map(rows::task).transpose()
        }
        .boxed()
    }

    fn by_key(
        &self,
        principal: Principal,
        tool: String,
        key: String,
    ) -> BoxFuture<'_, Result<Option<Task>, StoreError>> {
        async move {
            let query =
                sqlx::query(sql::TASK_OF_KEY).bind(principal.as_str()).bind(tool).bind(key.as_bytes());
            query.fetch_optional(&self.readers).await?.as_ref().map(rows::task).transpose()
        }
        .boxed()
    }

    fn tombstone(&self, id: TaskId) -> BoxFuture<'_, Result<Option<Tombstone>, StoreError>> {
        async move {
            let query = sqlx::query(sql::TOMBSTONE).bind(&id.0.as_bytes()[..]);
            query.fetch_optional(&self.readers).await?.as_ref().map(rows::tombstone).transpose()
        }
        .boxed()
    }

    fn list(&self, of: Option<Principal>, limit: u32) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        async move {
            let query = sqlx::query(sql::LIST).bind(of.as_ref().map(Principal::as_str)).bind(limit);
            tasks(&query.fetch_all(&self.readers).await?)
        }
        .boxed()
    }

    fn attention(&self, boot: BootId, now: UnixMillis) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        async move {
            let query = sqlx::query(sql::ATTENTION).bind(&boot.0.as_bytes()[..]).bind(signed(now.0));
            tasks(&query.fetch_all(&self.readers).await?)
        }
        .boxed()
    }

    fn resumable(
        &self,
        now: UnixMillis,
        but: Except,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        async move {
            let plugins = serde_json::Value::from(but.plugins).to_string();
            let but: Vec<String> = but.tasks.iter().map(|id| id.0.simple().to_string()).collect();
            let query = sqlx::query(sql::RESUMABLE)
                .bind(signed(now.0))
                .bind(&self.os_boot.as_bytes()[..])
                .bind(self.over_before())
                .bind(limit)
                .bind(plugins)
                .bind(serde_json::Value::from(but).to_string());
            tasks(&query.fetch_all(&self.readers).await?)
        }
        .boxed()
    }

    fn unattended(&self, now: UnixMillis) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        async move {
            let query = sqlx::query(sql::UNATTENDED).bind(signed(now.0));
            tasks(&query.fetch_all(&self.readers).await?)
        }
        .boxed()
    }

    fn count_live(&self) -> BoxFuture<'_, Result<Vec<(Principal, u64)>, StoreError>> {
        async {
            let rows: Vec<(String, i64)> = sqlx::query_as(sql::COUNT_LIVE).fetch_all(&self.readers).await?;
            let mut counts = BTreeMap::<String, u64>::new();
            for (of, n) in rows {
                *counts.entry(of).or_default() += u64::try_from(n).unwrap_or(0);
            }
            Ok(counts.into_iter().map(|(of, n)| (Principal::from_stored(&of), n)).collect())
        }
        .boxed()
    }

    fn count_hidden(&self, of: Option<Principal>, most: u32) -> BoxFuture<'_, Result<u64, StoreError>> {
        async move {
            let query = match &of {
                Some(of) => sqlx::query_scalar(sql::COUNT_HIDDEN_OF).bind(most).bind(of.as_str()),
                None => sqlx::query_scalar(sql::COUNT_HIDDEN).bind(most),
            };
            let n: i64 = query.fetch_one(&self.readers).await?;
            Ok(u64::try_from(n).unwrap_or(0))
        }
        .boxed()
    }

    fn heartbeat(&self, lease: Lease) -> BoxFuture<'_, Result<(), StoreError>> {
        self.queue.written(Work::Heartbeat(lease)).boxed()
    }

    fn orphans(&self, me: BootId) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        async move {
            let query = sqlx::query(sql::ORPHANS)
                .bind(&me.0.as_bytes()[..])
                .bind(&self.os_boot.as_bytes()[..])
                .bind(self.over_before());
            tasks(&query.fetch_all(&self.readers).await?)
        }
        .boxed()
    }

    fn alone(&self) -> BoxFuture<'_, Result<Vec<BootId>, StoreError>> {
        async {
            let rows: Vec<Vec<u8>> = sqlx::query_scalar(sql::ALONE).fetch_all(&self.readers).await?;
            rows.iter().map(|boot| values::uuid(boot, "holder").map(BootId)).collect()
        }
        .boxed()
    }

    fn leased(&self, boot: BootId) -> BoxFuture<'_, Result<bool, StoreError>> {
        async move {
            let n: i64 = sqlx::query_scalar(sql::LEASED)
                .bind(&boot.0.as_bytes()[..])
                .bind(&self.os_boot.as_bytes()[..])
                .bind(self.over_before())
                .fetch_one(&self.readers)
                .await?;
            Ok(n > 0)
        }
        .boxed()
    }

    fn release(&self, boot: BootId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.queue.written(Work::Release(boot)).boxed()
    }

    fn sweep(
        &self,
        now: UnixMillis,
        tombstones_before: UnixMillis,
    ) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.queue.sweep(now, tombstones_before, StoreConfig::SWEEP_STEP).boxed()
    }

    fn clock(
        &self,
        ahead: Millis,
        instead_of: Option<Millis>,
    ) -> BoxFuture<'_, Result<Option<Millis>, StoreError>> {
        async move {
            let known = || sqlx::query_scalar(sql::CLOCK).bind(self.os_boot.as_bytes().to_vec());
            let mut kept: Option<i64> = known().fetch_optional(&self.readers).await?;
            if kept.is_none() || instead_of.is_some() {
                self.queue.written(Work::Clock { os_boot: self.os_boot, ahead, instead_of }).await?;
                kept = known().fetch_optional(&self.readers).await?;
            }
            kept.map(|ms| values::unsigned(ms, "clock").map(Millis)).transpose()
        }
        .boxed()
    }

    fn secret(&self, name: &'static str, fresh: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, StoreError>> {
        async move {
            self.queue.written(Work::Secret { name, fresh }).await?;
            Ok(sqlx::query_scalar(sql::SECRET).bind(name).fetch_one(&self.readers).await?)
        }
        .boxed()
    }

    fn plugins(&self) -> BoxFuture<'_, Result<Vec<PluginRow>, StoreError>> {
        async {
            let rows = sqlx::query(sql::PLUGINS).fetch_all(&self.readers).await?;
            rows.iter().map(rows::plugin).collect()
        }
        .boxed()
    }

    fn put_plugin(&self, row: PluginRow) -> BoxFuture<'_, Result<(), StoreError>> {
        self.queue.written(Work::PutPlugin(Box::new(row))).boxed()
    }

    fn adopt_plugin(&self, row: PluginRow) -> BoxFuture<'_, Result<Option<PluginRow>, StoreError>> {
        self.queue.adopt_plugin(row).boxed()
    }

    fn drop_plugin(&self, name: String) -> BoxFuture<'_, Result<(), StoreError>> {
        self.queue.written(Work::DropPlugin(name)).boxed()
    }

    fn revoked(&self) -> BoxFuture<'_, Result<Vec<Revoked>, StoreError>> {
        async {
            let rows = sqlx::query(sql::REVOKED).fetch_all(&self.readers).await?;
            rows.iter().map(rows::revoked).collect()
        }
        .boxed()
    }

    fn revoke(&self, revoked: Revoked) -> BoxFuture<'_, Result<(), StoreError>> {
        self.queue.written(Work::Revoke(revoked)).boxed()
    }

    fn unrevoke(&self, digest: Digest) -> BoxFuture<'_, Result<(), StoreError>> {
        self.queue.written(Work::Unrevoke(digest)).boxed()
    }

    fn condemned(&self, most: u32) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        async move { tasks(&sqlx::query(sql::CONDEMNED).bind(most).fetch_all(&self.readers).await?) }.boxed()
    }

    fn digests_in_use(&self) -> BoxFuture<'_, Result<Vec<Digest>, StoreError>> {
        async {
            let rows = sqlx::query(sql::DIGESTS).fetch_all(&self.readers).await?;
            rows.iter().map(rows::digest_row).collect()
        }
        .boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {
            let _ = self.queue.written(Work::Close).await;
            let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(writer) = writer
                && let Err(e) = writer.await
            {
                tracing::warn!(error = %e, "the database's writer did not end in order");
            }
            self.readers.close().await;
        }
        .boxed()
    }
}
