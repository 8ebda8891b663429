//! A host's SQLite file, seen from outside: what becomes of its tasks, and copies of one of them.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use sqlx::{ConnectOptions as _, Connection as _, Row as _, SqliteConnection, sqlite::SqliteConnectOptions};

/// How long the task to copy may take to what it must come to.
const WITHIN: Duration = Duration::from_secs(30);

/// Options of `seed`.
#[derive(clap::Args)]
pub(crate) struct Seed {
    /// The host's `layby.db`.
    #[arg(long)]
    database: PathBuf,
    /// The task to copy, with its questions and its journal.
    #[arg(long)]
    task: String,
    /// How many copies to make.
    #[arg(long)]
    count: u32,
    /// When to copy it.
    #[arg(long, value_enum, default_value_t = When::Live)]
    when: When,
}

/// What a task must have come to.
#[derive(Clone, Copy, clap::ValueEnum)]
enum When {
    /// At once, and it must not have ended.
    Live,
    /// No process has it.
    Parked,
    /// It has ended.
    Ended,
}

/// Makes copies of a task, each with an id of its own: ten thousand tasks that differ in nothing that the host looks at
/// are there in a second, where calls would take many.
pub(crate) fn seed(args: &Seed) -> Result<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut database = Database::open(&args.database).await?;
        let give_up = Instant::now() + WITHIN;
        loop {
            let seen = database.see(&args.task).await?;
            let ready = match args.when {
                When::Live => {
                    ensure!(!seen.ended, "task {} has ended before it was copied", args.task);
                    true
                }
                When::Parked => seen.parked,
                When::Ended => seen.ended,
            };
            if ready {
                break;
            }
            ensure!(Instant::now() < give_up, "task {} is still {seen:?} after {WITHIN:?}", args.task);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let made = database.copy(&args.task, args.count).await?;
        database.connection.close().await?;
        Ok(json!({ "made": made }))
    })
}

/// A connection to a host's file.
pub(crate) struct Database {
    connection: SqliteConnection,
}

/// What there is to see of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// It lives, and no process has it.
    pub(crate) parked: bool,
    /// Questions so far.
    pub(crate) questions: i64,
    /// It has ended.
    pub(crate) ended: bool,
}

impl Database {
    pub(crate) async fn open(file: &Path) -> Result<Self> {
        let options = SqliteConnectOptions::new().filename(file).foreign_keys(true);
        let connection =
            options.connect().await.with_context(|| format!("cannot open {}", file.display()))?;
        Ok(Self { connection })
    }

    /// How many tasks live.
    pub(crate) async fn live(&mut self) -> Result<i64> {
        let query = sqlx::query_scalar("SELECT count(*) FROM tasks WHERE outcome IS NULL");
        Ok(query.fetch_one(&mut self.connection).await?)
    }

    /// Ids of ended tasks, or of those that live, at most `limit`.
    pub(crate) async fn ids(&mut self, ended: bool, limit: u32) -> Result<Vec<String>> {
        let query = sqlx::query_scalar(
            "SELECT lower(hex(id)) FROM tasks WHERE (outcome IS NOT NULL) = ?1 ORDER BY n LIMIT ?2",
        );
        let ids: Vec<String> = query.bind(ended).bind(limit).fetch_all(&mut self.connection).await?;
        Ok(ids.iter().map(|hex| hyphenated(hex)).collect())
    }

    /// What there is to see of `task`.
    pub(crate) async fn see(&mut self, task: &str) -> Result<Seen> {
        let row = sqlx::query(
            "SELECT outcome IS NULL AND holder IS NULL, questions, outcome IS NOT NULL FROM tasks
             WHERE id = unhex(?1)",
        );
        let row = row.bind(plain(task)).fetch_one(&mut self.connection).await.context("no such task")?;
        Ok(Seen { parked: row.try_get(0)?, questions: row.try_get(1)?, ended: row.try_get(2)? })
    }

    /// Copies `task`, whatever columns its tables have; returns how many copies there are.
    async fn copy(&mut self, task: &str, count: u32) -> Result<u64> {
        let c = &mut self.connection;
        // All of it stays in memory until the one commit.
        for pragma in ["PRAGMA busy_timeout = 30000", "PRAGMA cache_size = -1000000"] {
            sqlx::query(pragma).execute(&mut *c).await?;
        }
        sqlx::query("CREATE TEMP TABLE copies (id BLOB PRIMARY KEY)").execute(&mut *c).await?;
        sqlx::query(
            "WITH RECURSIVE k (i) AS (SELECT 1 WHERE ?1 > 0 UNION ALL SELECT i + 1 FROM k WHERE i < ?1)
             INSERT INTO copies SELECT randomblob(16) FROM k",
        )
        .bind(count)
        .execute(&mut *c)
        .await?;
        let mut transaction = c.begin_with("BEGIN IMMEDIATE").await?;
        let mut made = 0;
        // Whatever else belongs to a task names it in a column of that name.
        let mut tables: Vec<String> = sqlx::query_scalar(
            "SELECT s.name FROM sqlite_schema s, pragma_table_info(s.name) c WHERE s.type = 'table' AND c.name = 'task'",
        )
        .fetch_all(&mut *transaction)
        .await?;
        tables.insert(0, "tasks".to_owned());
        for table in &tables {
            let key = if table == "tasks" { "id" } else { "task" };
            let columns: Vec<String> = sqlx::query_scalar("SELECT name FROM pragma_table_info(?1)")
                .bind(table)
                .fetch_all(&mut *transaction)
                .await?;
            // The number of a row is its table's to give.
            let columns: Vec<_> =
                columns.into_iter().filter(|c| !(table == "tasks" && c == "n") && c != key).collect();
            ensure!(!columns.is_empty(), "there is no table {table}");
            let columns = columns.join(", ");
            let copy = format!(
                "INSERT INTO {table} ({key}, {columns}) SELECT c.id, {columns} FROM copies c,
                 (SELECT {columns} FROM {table} WHERE {key} = unhex(?1)) ORDER BY c.rowid"
            );
            let done =
                sqlx::query(sqlx::AssertSqlSafe(copy)).bind(plain(task)).execute(&mut *transaction).await?;
            if table == "tasks" {
                made = done.rows_affected();
            }
        }
        transaction.commit().await?;
        ensure!(made == u64::from(count), "{made} copies of task {task} were made, not {count}");
        Ok(made)
    }
}

fn plain(id: &str) -> String {
    id.replace('-', "")
}

/// 32 digits as the host writes an id.
fn hyphenated(hex: &str) -> String {
    let mut id = hex.to_owned();
    for at in [20, 16, 12, 8] {
        if at <= id.len() {
            id.insert(at, '-');
        }
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_as_the_host_writes_them() {
        let id = "67e55044-10b1-426f-9247-bb680e5fe0c8";
        assert_eq!(hyphenated(&plain(id)), id);
    }
}
