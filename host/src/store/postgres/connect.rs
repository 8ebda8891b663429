//! How connections are made, and how the schema is brought up to date.

use std::str::FromStr as _;

use sqlx::{ConnectOptions as _, Connection as _, migrate::Migrator};
use sqlx_postgres::PgConnectOptions;

use super::server;
use crate::{base::Millis, config::StoreConfig, store::StoreError};

static MIGRATIONS: Migrator = sqlx_macros::migrate!("src/store/postgres/migrations");

/// How every connection is made: with bounds on what a statement, a lock and an idle transaction may take.
pub(super) fn options(url: &str, config: &StoreConfig) -> Result<PgConnectOptions, StoreError> {
    let refused =
        |why: &str| StoreError::Other(format!("store.url is no address of a PostgreSQL database: {why}"));
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(refused("it does not begin with postgres://"));
    }
    let options = PgConnectOptions::from_str(url).map_err(|e| refused(&e.to_string()))?;
    let ms = |time: Millis| format!("{}ms", time.0.max(1));
    Ok(options
        .application_name("layby")
        .options([
            ("statement_timeout", ms(config.statement_timeout)),
            ("lock_timeout", ms(StoreConfig::ROW_LOCK)),
            // A process that stops in the middle must not keep its locks.
            ("idle_in_transaction_session_timeout", ms(config.busy_timeout)),
            ("default_transaction_isolation", "read committed".to_owned()),
        ])
        .statement_cache_capacity(64)
        .disable_statement_logging())
}

/// Brings the schema up to date; sqlx lets one process at a time.
pub(super) async fn migrate(options: &PgConnectOptions) -> Result<(), StoreError> {
    let mut connection = options.connect().await?;
    server::check(&mut connection).await?;
    let known = MIGRATIONS.iter().map(|m| m.version).max().unwrap_or(0);
    let has_any: bool = sqlx::query_scalar("SELECT to_regclass('_sqlx_migrations') IS NOT NULL")
        .fetch_one(&mut connection)
        .await?;
    if has_any {
        let found: Option<i64> = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations")
            .fetch_one(&mut connection)
            .await?;
        if let Some(found) = found.filter(|f| *f > known) {
            return Err(StoreError::Newer { found, known });
        }
        if found == Some(known) {
            connection.close().await?;
            return Ok(());
        }
    }
    // The lock that keeps others out may be held for as long as their migration takes.
    sqlx::query("SET lock_timeout = 0").execute(&mut connection).await?;
    MIGRATIONS.run_direct(None, &mut connection, false).await?;
    connection.close().await?;
    Ok(())
}
