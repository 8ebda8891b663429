//! What is asked of a server, and what its errors mean.

use sqlx::Row as _;
use sqlx_postgres::{PgConnection, PgDatabaseError};

use super::{Query, sql};
use crate::{
    base::boottime_ms,
    store::{Lease, StoreError, values::signed},
};

/// The oldest version that this was written for.
const OLDEST: i32 = 150_000;

/// Refuses a server that cannot keep what it is told.
pub(super) async fn check(c: &mut PgConnection) -> Result<(), StoreError> {
    let row = sqlx::query(sql::SERVER).fetch_one(c).await?;
    let (in_recovery, version): (bool, i32) = (row.try_get(0)?, row.try_get(1)?);
    let (commits, syncs, encoding): (&str, &str, &str) = (row.try_get(2)?, row.try_get(3)?, row.try_get(4)?);
    if in_recovery {
        return Err(StoreError::Unreachable(
            "the server is in recovery, and takes no writes: name the primary".into(),
        ));
    }
    if version < OLDEST {
        let text = format!("the server is PostgreSQL {}: use 15 or newer", version / 10_000);
        return Err(StoreError::Other(text));
    }
    if encoding != "UTF8" {
        return Err(StoreError::Other(format!("the database is in {encoding}: make one in UTF8")));
    }
    if commits == "off" || syncs == "off" {
        tracing::warn!(
            synchronous_commit = commits,
            fsync = syncs,
            "the database server may lose what it has confirmed, and tasks with it"
        );
    }
    Ok(())
}

/// Makes a lease last as long as it has left here, by the server's clock. What the message takes shortens it
/// for its holder, never for the others.
pub(super) fn heartbeat(lease: &Lease) -> Query {
    let now = boottime_ms();
    let left = signed(lease.until_boottime_ms.saturating_sub(now));
    let over = signed(now.saturating_sub(lease.until_boottime_ms));
    sqlx::query(sql::HEARTBEAT).bind(lease.boot.0.as_bytes().to_vec()).bind(left - over)
}

/// What an error of PostgreSQL's means to us, by its SQLSTATE
/// (<https://www.postgresql.org/docs/15/errcodes-appendix.html>).
pub(in crate::store) fn error(e: &PgDatabaseError) -> StoreError {
    let text = format!("{} ({})", e.message(), e.code());
    match e.code() {
        // Disk full; a quota or file size reached.
        "53100" | "54000" => StoreError::Full(text),
        // Lock not available, deadlock, serialization, too many connections, out of memory, statement time-out.
        "55P03" | "40P01" | "40001" | "53300" | "53200" | "57014" => StoreError::Locked(text),
        // Data or index corrupted.
        "XX001" | "XX002" => StoreError::Corrupt(text),
        // Shut down, crashed, starting up; a session ended by a time-out; a server that became a copy.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25006" => StoreError::Unreachable(text),
        code if code.starts_with("08") => StoreError::Unreachable(text),
        _ => StoreError::Other(text),
    }
}
