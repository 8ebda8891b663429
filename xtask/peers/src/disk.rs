//! What the disk itself allows: SQLite as the host opens it, one writer, every commit synced.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sqlx::{
    ConnectOptions as _, Connection as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

/// Options.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// An empty folder on the disk to measure.
    #[arg(long)]
    folder: PathBuf,
    /// Rows that share a commit in the second measurement: as many as callers wait at once.
    #[arg(long, default_value_t = 64)]
    group: u32,
    /// Bytes of a row: about what a task and its question take.
    #[arg(long, default_value_t = 1024)]
    row: usize,
    /// How long each of the two measurements takes.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
}

/// Rows a second with one row in each commit, and with a group in each.
pub(crate) fn run(args: &Args) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let single = rows_per_second(args, 1).await?;
        let grouped = rows_per_second(args, args.group.max(1)).await?;
        Ok(json!({
            "single_per_second": single,
            "grouped_per_second": grouped,
            "group": args.group,
        }))
    })
}

async fn rows_per_second(args: &Args, group: u32) -> Result<f64> {
    let file = args.folder.join(format!("disk-{group}.db"));
    let mut connection = SqliteConnectOptions::new()
        .filename(&file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .connect()
        .await
        .with_context(|| format!("cannot open {}", file.display()))?;
    sqlx::query("CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT")
        .execute(&mut connection)
        .await?;
    let body = vec![b'x'; args.row];
    let (start, time) = (Instant::now(), Duration::from_secs_f64(args.seconds));
    let mut rows = 0_u32;
    while start.elapsed() < time {
        sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await?;
        for _ in 0..group {
            insert(&mut connection, &body).await?;
        }
        sqlx::query("COMMIT").execute(&mut connection).await?;
        rows += group;
    }
    let seconds = start.elapsed().as_secs_f64();
    connection.close().await?;
    Ok(f64::from(rows) / seconds)
}

async fn insert(connection: &mut SqliteConnection, body: &[u8]) -> Result<()> {
    sqlx::query("INSERT INTO t (body) VALUES (?)").bind(body).execute(connection).await?;
    Ok(())
}
