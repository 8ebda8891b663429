//! PostgreSQL, for processes on many machines: one writer and a few readers of each. Leases go by the
//! server's clock.

mod clock;
mod connect;
mod notices;
mod plugins;
mod rows;
mod server;
mod sql;
#[cfg(test)]
pub(super) mod tests;
mod writer;

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt as _, future::BoxFuture, stream::BoxStream};
use sqlx::{ConnectOptions as _, Connection as _, Pool, pool::PoolOptions};
use sqlx_postgres::{PgConnectOptions, PgRow, Postgres};
use tokio::task::JoinHandle;
use uuid::Uuid;

pub(super) use self::server::error;
use self::{
    clock::ServerClock,
    connect::{migrate, options},
    writer::Writer,
};
use super::{
    Admitted, Change, Elsewhere, Except, Hint, Lease, PluginRow, Revoked, Store, StoreError, Task, Tombstone,
    Updated,
    values::{self, signed},
    work::{Queue, Work, serve},
};
use crate::{
    base::{BootId, Digest, Millis, Piece, Principal, TaskId, UnixMillis, boottime_ms},
    config::StoreConfig,
};

type Query = sqlx::query::Query<'static, Postgres, sqlx_postgres::PgArguments>;

/// The store on a PostgreSQL server.
pub struct PostgresStore {
    options: PgConnectOptions,
    pool: Pool<Postgres>,
    /// One connection, for notices.
    listening: Pool<Postgres>,
    readers: u32,
    queue: Queue,
    writer: Mutex<Option<JoinHandle<()>>>,
    shared: Arc<Shared>,
    takeover: Millis,
    clock: ServerClock,
}

/// What the writer must know of its store.
struct Shared {
    /// Whose plugins are this process's own.
    replica: Uuid,
    /// The process whose heartbeats came through this store.
    me: Mutex<Option<BootId>>,
    closing: AtomicBool,
    /// How long an answer of the server's may take: longer than the server itself allows.
    answer_within: Duration,
}

impl Shared {
    fn me(&self) -> Option<BootId> {
        *self.me.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }
}

impl PostgresStore {
    /// Opens the database that `url` (`postgres://USER@HOST/DATABASE`) names, and brings its schema up to
    /// date. What the URL leaves out comes from `PGHOST`, `PGPASSWORD` and the like. Needs a tokio runtime,
    /// which the writer lives on until [`Store::close`]. `replica` is whose plugins are its own.
    ///
    /// # Errors
    /// A server that cannot be reached, is a read-only copy or older than 15; a newer schema.
    pub async fn open(url: &str, replica: Uuid, config: &StoreConfig) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Self::open_concrete(url, replica, config).await?)
    }

    async fn open_concrete(url: &str, replica: Uuid, config: &StoreConfig) -> Result<Arc<Self>, StoreError> {
        let options = options(url, config)?;
        let within = config.busy_timeout.duration();
        let answer_within = (config.statement_timeout + config.busy_timeout).duration();
        tokio::time::timeout(answer_within, migrate(&options))
            .await
            .map_err(|_| StoreError::Unreachable("the server does not answer".into()))??;
        let shared = Arc::new(Shared {
            replica,
            me: Mutex::default(),
            closing: AtomicBool::new(false),
            answer_within,
        });
        let writer = Writer::open(options.clone(), shared.clone(), config).await?;
        let pool = |connections: u32| {
            PoolOptions::new()
                .max_connections(connections.max(1))
                .acquire_timeout(within)
                .test_before_acquire(false)
                .connect_lazy_with(options.clone())
        };
        let (queue, jobs) = Queue::new(config.queue);
        let writer = Mutex::new(Some(tokio::spawn(serve(writer, jobs, config.max_batch))));
        Ok(Arc::new(Self {
            pool: pool(config.readers),
            listening: pool(1),
            options,
            readers: config.readers,
            queue,
            writer,
            shared,
            takeover: config.takeover,
            clock: ServerClock::default(),
        }))
    }

    /// Rows of a statement that may be repeated. A connection of the pool may have died since it was used
    /// last, and all of them may: each tells it once.
    async fn rows(&self, query: impl Fn() -> Query) -> Result<Vec<PgRow>, StoreError> {
        let mut left = self.readers;
        loop {
            let reading = query().fetch_all(&self.pool);
            let read = match tokio::time::timeout(self.shared.answer_within, reading).await {
                Ok(Err(sqlx::Error::PoolTimedOut)) => return Err(self.no_connection().await),
                Ok(read) => read.map_err(StoreError::from),
                Err(_) => Err(StoreError::Unreachable("the server does not answer".into())),
            };
            match read {
                Err(StoreError::Unreachable(why)) if left > 0 && !self.shared.is_closing() => {
                    tracing::debug!(why, "reading from the database once more");
                    left -= 1;
                }
                other => return other,
            }
        }
    }

    /// Why the pool gave no connection: it says that all are busy also where the server takes none.
    async fn no_connection(&self) -> StoreError {
        match tokio::time::timeout(self.shared.answer_within, self.options.connect()).await {
            Ok(Ok(connection)) => {
                // It was only to see.
                drop(connection.close().await);
                sqlx::Error::PoolTimedOut.into()
            }
            Ok(Err(e)) => e.into(),
            Err(_) => StoreError::Unreachable("the server does not answer".into()),
        }
    }

    async fn tasks(&self, query: impl Fn() -> Query) -> Result<Vec<Task>, StoreError> {
        self.rows(query).await?.iter().map(rows::task).collect()
    }

    async fn one<T>(&self, query: impl Fn() -> Query) -> Result<T, StoreError>
    where
        T: Send + Unpin + for<'r> sqlx::Decode<'r, Postgres> + sqlx::Type<Postgres>,
    {
        use sqlx::Row as _;
        let rows = self.rows(query).await?;
        let row = rows.first().ok_or_else(|| StoreError::Other("the server answered nothing".into()))?;
        Ok(row.try_get(0)?)
    }

    async fn plugins_of(&self, sql: &'static str) -> Result<Vec<PgRow>, StoreError> {
        let me = self.shared.replica.as_bytes().to_vec();
        self.rows(|| query(sql).bind(me.clone()).bind(plugins::names_held())).await
    }

    fn takeover(&self) -> i64 {
        signed(self.takeover.0)
    }
}

fn bytes(id: TaskId) -> Vec<u8> {
    id.0.as_bytes().to_vec()
}

fn boot_bytes(boot: BootId) -> Vec<u8> {
    boot.0.as_bytes().to_vec()
}

fn query(sql: &'static str) -> Query {
    sqlx::query(sql)
}

impl Store for PostgresStore {
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
            let rows = self.rows(|| query(sql::JOURNAL).bind(bytes(id))).await?;
            values::journal(rows.iter().map(rows::piece))
        }
        .boxed()
    }

    fn get(&self, id: TaskId) -> BoxFuture<'_, Result<Option<Task>, StoreError>> {
        async move { Ok(self.tasks(|| query(sql::TASK).bind(bytes(id))).await?.pop()) }.boxed()
    }

    fn by_key(
        &self,
        principal: Principal,
        tool: String,
        key: String,
    ) -> BoxFuture<'_, Result<Option<Task>, StoreError>> {
        async move {
            let of = || {
                query(sql::TASK_OF_KEY)
                    .bind(principal.as_str().as_bytes().to_vec())
                    .bind(tool.as_bytes().to_vec())
                    .bind(key.as_bytes().to_vec())
            };
            Ok(self.tasks(of).await?.pop())
        }
        .boxed()
    }

    fn tombstone(&self, id: TaskId) -> BoxFuture<'_, Result<Option<Tombstone>, StoreError>> {
        async move {
            let rows = self.rows(|| query(sql::TOMBSTONE).bind(bytes(id))).await?;
            rows.first().map(rows::tombstone).transpose()
        }
        .boxed()
    }

    fn list(&self, of: Option<Principal>, limit: u32) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        async move {
            let of = of.map(|p| p.as_str().as_bytes().to_vec());
            self.tasks(|| query(sql::LIST).bind(of.clone()).bind(i64::from(limit))).await
        }
        .boxed()
    }

    fn attention(&self, boot: BootId, now: UnixMillis) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        async move { self.tasks(|| query(sql::ATTENTION).bind(boot_bytes(boot)).bind(signed(now.0))).await }
            .boxed()
    }

    fn resumable(
        &self,
        now: UnixMillis,
        but: Except,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        async move {
            let plugins: Vec<Vec<u8>> = but.plugins.into_iter().map(String::into_bytes).collect();
            let tasks: Vec<_> = but.tasks.into_iter().map(bytes).collect();
            let of = || {
                let bounds = query(sql::RESUMABLE).bind(self.takeover()).bind(signed(now.0));
                bounds.bind(i64::from(limit)).bind(plugins.clone()).bind(tasks.clone())
            };
            self.tasks(of).await
        }
        .boxed()
    }

    fn unattended(&self, now: UnixMillis) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        async move { self.tasks(|| query(sql::UNATTENDED).bind(signed(now.0))).await }.boxed()
    }

    fn count_live(&self) -> BoxFuture<'_, Result<Vec<(Principal, u64)>, StoreError>> {
        async { self.rows(|| query(sql::COUNT_LIVE)).await?.iter().map(rows::count).collect() }.boxed()
    }

    fn count_hidden(&self, of: Option<Principal>, most: u32) -> BoxFuture<'_, Result<u64, StoreError>> {
        async move {
            let of = of.map(|p| p.as_str().as_bytes().to_vec());
            let text = if of.is_some() { sql::COUNT_HIDDEN_OF } else { sql::COUNT_HIDDEN };
            let n: i64 = self
                .one(|| {
                    let query = query(text).bind(i64::from(most));
                    match of.clone() {
                        Some(of) => query.bind(of),
                        None => query,
                    }
                })
                .await?;
            Ok(u64::try_from(n).unwrap_or(0))
        }
        .boxed()
    }

    fn hints(&self) -> BoxStream<'static, Hint> {
        notices::stream(self.listening.clone())
    }

    /// Not through the writer: a lease must not wait for a row that somebody holds.
    fn heartbeat(&self, lease: Lease) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            *self.shared.me.lock().unwrap_or_else(PoisonError::into_inner) = Some(lease.boot);
            // Of the last try, whose answer it is.
            let sent = AtomicU64::new(0);
            let beat = || {
                sent.store(boottime_ms(), Ordering::Relaxed);
                server::heartbeat(&lease)
            };
            let time: i64 = self.one(beat).await?;
            self.clock.heard(sent.load(Ordering::Relaxed), u64::try_from(time).unwrap_or(0));
            let me = self.shared.replica.as_bytes().to_vec();
            self.rows(|| query(sql::SEE_KNOWN_REPLICA).bind(me.clone())).await?;
            let long_over = signed(StoreConfig::FORGET_PROCESS.0);
            self.rows(|| query(sql::FORGET_PROCESSES).bind(long_over)).await?;
            Ok(())
        }
        .boxed()
    }

    fn orphans(&self, me: BootId) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        async move { self.tasks(|| query(sql::ORPHANS).bind(self.takeover()).bind(boot_bytes(me))).await }
            .boxed()
    }

    fn alone(&self) -> BoxFuture<'_, Result<Vec<BootId>, StoreError>> {
        async move {
            let rows = self.rows(|| query(sql::ALONE)).await?;
            rows.iter().map(|row| values::uuid(sqlx::Row::try_get(row, 0)?, "holder").map(BootId)).collect()
        }
        .boxed()
    }

    fn leased(&self, boot: BootId) -> BoxFuture<'_, Result<bool, StoreError>> {
        async move { self.one(|| query(sql::LEASED).bind(boot_bytes(boot)).bind(self.takeover())).await }
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

    fn secret(&self, name: &'static str, fresh: Vec<u8>) -> BoxFuture<'_, Result<Vec<u8>, StoreError>> {
        async move {
            self.queue.written(Work::Secret { name, fresh }).await?;
            self.one(|| query(sql::SECRET).bind(name)).await
        }
        .boxed()
    }

    fn now(&self) -> Option<UnixMillis> {
        self.clock.now()
    }

    fn plugins(&self) -> BoxFuture<'_, Result<Vec<PluginRow>, StoreError>> {
        async { self.plugins_of(sql::PLUGINS).await?.iter().map(rows::plugin).collect() }.boxed()
    }

    fn plugins_elsewhere(&self) -> BoxFuture<'_, Result<Vec<Elsewhere>, StoreError>> {
        async { self.plugins_of(sql::PLUGINS_ELSEWHERE).await?.iter().map(plugins::elsewhere).collect() }
            .boxed()
    }

    fn adopt_plugin(&self, row: PluginRow) -> BoxFuture<'_, Result<Option<PluginRow>, StoreError>> {
        self.queue.adopt_plugin(row).boxed()
    }

    fn put_plugin(&self, row: PluginRow) -> BoxFuture<'_, Result<(), StoreError>> {
        self.queue.written(Work::PutPlugin(Box::new(row))).boxed()
    }

    fn drop_plugin(&self, name: String) -> BoxFuture<'_, Result<(), StoreError>> {
        self.queue.written(Work::DropPlugin(name)).boxed()
    }

    fn revoked(&self) -> BoxFuture<'_, Result<Vec<Revoked>, StoreError>> {
        async { self.rows(|| query(sql::REVOKED)).await?.iter().map(rows::revoked).collect() }.boxed()
    }

    fn revoke(&self, revoked: Revoked) -> BoxFuture<'_, Result<(), StoreError>> {
        self.queue.written(Work::Revoke(revoked)).boxed()
    }

    fn unrevoke(&self, digest: Digest) -> BoxFuture<'_, Result<(), StoreError>> {
        self.queue.written(Work::Unrevoke(digest)).boxed()
    }

    fn condemned(&self, most: u32) -> BoxFuture<'_, Result<Vec<Task>, StoreError>> {
        async move { self.tasks(|| query(sql::CONDEMNED).bind(i64::from(most))).await }.boxed()
    }

    fn keeps_components(&self) -> bool {
        true
    }

    fn put_component(&self, digest: Digest, bytes: Vec<u8>) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            // Mostly it is there, and is not to be sent again.
            let touched = self.touch_component(digest).await?;
            if !touched {
                let put = || query(sql::PUT_COMPONENT).bind(digest.0.to_vec()).bind(bytes.clone());
                self.rows(put).await?;
            }
            Ok(())
        }
        .boxed()
    }

    fn component(&self, digest: Digest) -> BoxFuture<'_, Result<Option<Vec<u8>>, StoreError>> {
        async move {
            use sqlx::Row as _;
            let rows = self.rows(|| query(sql::COMPONENT).bind(digest.0.to_vec())).await?;
            let Some(row) = rows.first() else { return Ok(None) };
            let bytes: Vec<u8> = row.try_get(0)?;
            if Digest::of(&bytes) == digest {
                Ok(Some(bytes))
            } else {
                Err(StoreError::Corrupt(format!("the bytes of component {} are others", digest.short())))
            }
        }
        .boxed()
    }

    fn digests_in_use(&self) -> BoxFuture<'_, Result<Vec<Digest>, StoreError>> {
        async { self.rows(|| query(sql::DIGESTS)).await?.iter().map(rows::digest_row).collect() }.boxed()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        async {
            self.shared.closing.store(true, Ordering::Relaxed);
            let _ = self.queue.written(Work::Close).await;
            let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(writer) = writer
                && let Err(e) = writer.await
            {
                tracing::warn!(error = %e, "the database's writer did not end in order");
            }
            // Whoever listens has its connection until the next word: it ends then.
            let _ = self.listening.close().now_or_never();
            self.pool.close().await;
        }
        .boxed()
    }
}

impl PostgresStore {
    /// True where the component is there; its age begins anew.
    async fn touch_component(&self, digest: Digest) -> Result<bool, StoreError> {
        let rows = self.rows(|| query(sql::TOUCH_COMPONENT).bind(digest.0.to_vec())).await?;
        Ok(!rows.is_empty())
    }
}
