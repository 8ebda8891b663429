//! The one writer of this process.

use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use uuid::Uuid;

use super::{
    batch::{Known, execute, load, write},
    sql,
};
use crate::{
    base::{Clock as _, SystemClock, failpoint},
    store::{
        StoreError,
        batch::Batch,
        values::signed,
        work::{Commit, Done, Work},
    },
};

pub(super) struct Writer {
    connection: SqliteConnection,
    options: SqliteConnectOptions,
    /// This writer's name in the table of last commits.
    name: Uuid,
    /// Its commits so far.
    sequence: u64,
    known: Known,
}

impl Writer {
    pub(super) async fn open(options: SqliteConnectOptions) -> Result<Self, StoreError> {
        let connection = options.connect().await?;
        Ok(Self { connection, options, name: Uuid::new_v4(), sequence: 0, known: Known::default() })
    }

    async fn write<'a>(&mut self, work: &[&'a Work]) -> Result<(Vec<Done>, Batch<'a>), StoreError> {
        self.known.check(&mut self.connection).await?;
        let mut batch = load(&mut self.connection, work, &self.known).await?;
        let mut done = batch.apply(work)?;
        let mut wrote = write(&mut self.connection, &batch).await?;
        for (done, work) in done.iter_mut().zip(work) {
            if let Some(other) = self.write_other(work).await? {
                *done = other;
                wrote = true;
            }
        }
        if wrote {
            self.sequence += 1;
            sqlx::query(sql::WRITTEN)
                .bind(&self.name.as_bytes()[..])
                .bind(signed(self.sequence))
                .bind(signed(SystemClock.now().0))
                .execute(&mut self.connection)
                .await?;
        }
        Ok((done, batch))
    }

    /// Work that is not of one task; none where it is.
    async fn write_other(&mut self, work: &Work) -> Result<Option<Done>, StoreError> {
        let c = &mut self.connection;
        match work {
            Work::Insert(..) | Work::Admit(..) | Work::Update(..) | Work::Close => return Ok(None),
            Work::Heartbeat(lease) => super::batch::heartbeat(c, lease).await?,
            Work::Release(boot) => {
                sqlx::query(sql::RELEASE).bind(&boot.0.as_bytes()[..]).execute(c).await?;
            }
            Work::Sweep { now, tombstones_before } => {
                return super::batch::sweep(c, *now, *tombstones_before).await.map(|n| Some(Done::Count(n)));
            }
            Work::PutPlugin(row) => super::batch::put_plugin(c, row).await?,
            Work::AdoptPlugin(row) => {
                let owner = super::batch::adopt_plugin(c, row).await?;
                return Ok(Some(Done::Owner(owner.map(Box::new))));
            }
            Work::DropPlugin(name) => {
                sqlx::query(sql::DROP_PLUGIN).bind(name).execute(c).await?;
            }
            Work::Revoke(revoked) => {
                let reason = revoked.reason.as_ref().map(|reason| reason.as_bytes());
                let revoke = sqlx::query(sql::REVOKE).bind(&revoked.digest.0[..]).bind(signed(revoked.at.0));
                revoke.bind(reason).execute(c).await?;
            }
            Work::Unrevoke(digest) => {
                sqlx::query(sql::UNREVOKE).bind(&digest.0[..]).execute(c).await?;
            }
            Work::Clock { os_boot, ahead, instead_of } => {
                let old = instead_of.unwrap_or(*ahead);
                sqlx::query(sql::SET_CLOCK)
                    .bind(&os_boot.as_bytes()[..])
                    .bind(signed(ahead.0))
                    .bind(signed(old.0))
                    .execute(&mut *c)
                    .await?;
                sqlx::query(sql::FORGET_CLOCKS).bind(&os_boot.as_bytes()[..]).execute(c).await?;
            }
            Work::Secret { name, fresh } => {
                sqlx::query(sql::KEEP_SECRET).bind(name).bind(fresh).execute(c).await?;
            }
        }
        Ok(Some(Done::Written))
    }

    /// After a failed `COMMIT`: whether it happened after all, by a new look at the file.
    pub(super) async fn was_committed(&mut self) -> Result<bool, StoreError> {
        self.reopen().await?;
        let last: Option<i64> = sqlx::query_scalar(sql::LAST_WRITTEN)
            .bind(&self.name.as_bytes()[..])
            .fetch_optional(&mut self.connection)
            .await?;
        Ok(last.is_some_and(|s| s >= signed(self.sequence)))
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

impl Commit for Writer {
    async fn commit(&mut self, work: &[&Work]) -> Result<Vec<Done>, StoreError> {
        let tasks = work.iter().any(|w| w.is_of_task());
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

    fn concerns_one_row(e: &StoreError) -> bool {
        // A lock or damage concerns every write alike, and waiting for it once is enough.
        matches!(e, StoreError::Full(_) | StoreError::Other(_))
    }

    async fn close(self) {
        if let Err(e) = self.connection.close().await {
            tracing::warn!(error = %e, "the database was not closed in order");
        }
    }
}
