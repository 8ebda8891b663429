//! From a database's errors to ours, and from ours to what a caller sees.

use sqlx_postgres::PgDatabaseError;

use super::StoreError;
use crate::base::Fault;

/// SQLite's primary result codes that mean something to us (<https://www.sqlite.org/rescode.html>).
mod code {
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const READ_ONLY: i32 = 8;
    pub(super) const IO: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const FULL: i32 = 13;
    pub(super) const CANNOT_OPEN: i32 = 14;
    pub(super) const NOT_A_DATABASE: i32 = 26;
    /// The I/O errors of growing a file (write, truncate, size of the shared memory, its mapping,
    /// fsync): what a full disk or quota gives.
    pub(super) const GROWING: [i32; 5] = [778, 1546, 4874, 5386, 1034];
}

impl From<sqlx::Error> for StoreError {
    fn from(e: sqlx::Error) -> Self {
        match &e {
            sqlx::Error::Database(d) => {
                if let Some(d) = d.try_downcast_ref::<PgDatabaseError>() {
                    return super::postgres::error(d);
                }
                let full = d.code().and_then(|c| c.parse::<i32>().ok()).unwrap_or(0);
                let text = d.message().to_owned();
                match full & 0xff {
                    code::BUSY | code::LOCKED => Self::Locked(text),
                    code::CORRUPT | code::NOT_A_DATABASE => Self::Corrupt(text),
                    code::FULL => Self::Full(text),
                    code::IO if code::GROWING.contains(&full) => Self::Full(text),
                    code::IO => Self::Other(format!("the disk failed: {text}")),
                    code::READ_ONLY => Self::Other(format!("the file cannot be written: {text}")),
                    code::CANNOT_OPEN => Self::Other(format!("the file cannot be opened: {text}")),
                    _ => Self::Other(text),
                }
            }
            sqlx::Error::PoolTimedOut => Self::Locked("every connection stayed busy".into()),
            sqlx::Error::PoolClosed => Self::Closed,
            // SQLite's own come as errors of the database: these are of the way to a server.
            sqlx::Error::Io(e) => Self::Unreachable(e.to_string()),
            sqlx::Error::Tls(e) => Self::Unreachable(format!("TLS: {e}")),
            sqlx::Error::Protocol(e) => Self::Unreachable(format!("the connection broke: {e}")),
            sqlx::Error::Migrate(m) => match &**m {
                sqlx::migrate::MigrateError::VersionMismatch(v) => Self::Other(format!(
                    "migration {v} in the database differs from this binary's: it is of a development version"
                )),
                other => Self::Other(other.to_string()),
            },
            _ => Self::Other(e.to_string()),
        }
    }
}

impl From<sqlx::migrate::MigrateError> for StoreError {
    fn from(e: sqlx::migrate::MigrateError) -> Self {
        match e {
            sqlx::migrate::MigrateError::Execute(e) | sqlx::migrate::MigrateError::ExecuteMigration(e, _) => {
                e.into()
            }
            other => sqlx::Error::from(other).into(),
        }
    }
}

impl From<StoreError> for Fault {
    /// The text of the database stays in the log: a caller gets the stable code and what to do.
    fn from(e: StoreError) -> Self {
        tracing::warn!(error = %e, "a request could not use the database");
        let (code, message) = match e {
            StoreError::Newer { .. } => (
                "store_newer",
                "the host's database is of a newer version: the operator must update the host",
            ),
            StoreError::Locked(_) => {
                ("store_locked", "the host's database is busy: try again in a few seconds")
            }
            StoreError::Corrupt(_) => {
                ("store_corrupt", "the host's database is damaged: the operator must restore it")
            }
            StoreError::Full(_) => {
                ("store_full", "the host's disk is full: try again once the operator has made space")
            }
            StoreError::Unreachable(_) => (
                "store_unreachable",
                "the host's database server cannot be reached: try again in a few seconds",
            ),
            StoreError::Closed => ("store_closed", "the host is shutting down: try again in a few seconds"),
            StoreError::Other(_) => {
                ("store_failed", "the host's database failed: try again, and see the host's log")
            }
        };
        Self::internal(code, message)
    }
}
