//! What the hosts' database has, read beside them.

use std::path::PathBuf;

use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use sqlx_postgres::{PgConnectOptions, PgConnection};

/// A database of hosts.
#[derive(Clone, Debug)]
pub enum Database {
    /// The file.
    Sqlite(PathBuf),
    /// The URL.
    Postgres(String),
}

/// Tasks of one status.
#[derive(Debug)]
pub struct Count {
    /// As on the wire.
    pub status: String,
    /// How many.
    pub tasks: i64,
    /// How often they were resumed, summed up.
    pub resumed: i64,
    /// The same, of the one that was most.
    pub most: i64,
}

enum Connection {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

impl Database {
    /// # Panics
    /// Without a database.
    async fn open(&self) -> Connection {
        match self {
            Self::Sqlite(file) => Connection::Sqlite(
                SqliteConnectOptions::new().filename(file).connect().await.expect("the database opens"),
            ),
            Self::Postgres(url) => {
                let options: PgConnectOptions = url.parse().expect("the URL of a server");
                Connection::Postgres(options.connect().await.expect("the database opens"))
            }
        }
    }

    /// True where nobody is in the middle of a write that keeps others from writing.
    ///
    /// # Panics
    /// Without a database.
    pub async fn takes_writes(&self) -> bool {
        let Self::Sqlite(file) = self else { return true };
        let options = SqliteConnectOptions::new().filename(file).busy_timeout(std::time::Duration::ZERO);
        let mut c = options.connect().await.expect("the database opens");
        let free = sqlx::query("BEGIN IMMEDIATE").execute(&mut c).await.is_ok();
        let _ = c.close().await;
        free
    }

    /// True where nobody runs the task.
    ///
    /// # Panics
    /// Without such a task.
    pub async fn is_nobodys(&self, id: &str) -> bool {
        let id = bytes(id);
        match self.open().await {
            Connection::Sqlite(mut c) => {
                let query = sqlx::query_scalar("SELECT holder IS NULL FROM tasks WHERE id = ?1").bind(id);
                let free = query.fetch_one(&mut c).await.expect("the row is there");
                let _ = c.close().await;
                free
            }
            Connection::Postgres(mut c) => {
                let query = sqlx::query_scalar("SELECT holder IS NULL FROM tasks WHERE id = $1").bind(id);
                let free = query.fetch_one(&mut c).await.expect("the row is there");
                let _ = c.close().await;
                free
            }
        }
    }

    /// The ids of all tasks that have not ended.
    ///
    /// # Panics
    /// If they cannot be read.
    pub async fn live(&self) -> Vec<String> {
        let query = "SELECT id FROM tasks WHERE status IN ('working', 'input_required')";
        let rows: Vec<Vec<u8>> = match self.open().await {
            Connection::Sqlite(mut c) => sqlx::query_scalar(query).fetch_all(&mut c).await,
            Connection::Postgres(mut c) => sqlx::query_scalar(query).fetch_all(&mut c).await,
        }
        .expect("the rows can be read");
        rows.iter().map(|id| text(id)).collect()
    }

    /// All tasks, by their status.
    ///
    /// # Panics
    /// If they cannot be read.
    pub async fn counts(&self) -> Vec<Count> {
        const QUERY: &str =
            "SELECT status, count(*), CAST(sum(resumed) AS bigint), CAST(max(resumed) AS bigint)
            FROM tasks GROUP BY status";
        macro_rules! count {
            ($c:expr) => {{
                let rows = sqlx::query(QUERY).fetch_all(&mut $c).await.expect("the rows can be read");
                let count = |row: &_| Count {
                    status: sqlx::Row::get(row, 0),
                    tasks: sqlx::Row::get(row, 1),
                    resumed: sqlx::Row::get(row, 2),
                    most: sqlx::Row::get(row, 3),
                };
                rows.iter().map(count).collect()
            }};
        }
        match self.open().await {
            Connection::Sqlite(mut c) => count!(c),
            Connection::Postgres(mut c) => count!(c),
        }
    }
}

/// A handle as the database has it.
fn bytes(id: &str) -> Vec<u8> {
    let hex: Vec<u8> = id.bytes().filter(u8::is_ascii_hexdigit).collect();
    hex.chunks(2).map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16).expect("hex")).collect()
}

/// The other way round.
fn text(id: &[u8]) -> String {
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
