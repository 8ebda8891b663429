//! A database of its own on the PostgreSQL server that `cargo xtask test` starts.

use std::{
    str::FromStr as _,
    sync::atomic::{AtomicU32, Ordering},
};

use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Executor as _};
use sqlx_postgres::PgConnectOptions;

/// Where the server is, as an administrator of it.
const VARIABLE: &str = "LAYBY_TESTS_POSTGRES";

/// Makes an empty database; its URL.
///
/// # Panics
/// Without a server.
pub async fn database() -> String {
    let server = std::env::var(VARIABLE).unwrap_or_else(|_| {
        panic!("{VARIABLE} is not set: run `cargo xtask test`, or `eval \"$(cargo xtask postgres)\"` first")
    });
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let n = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("hosts_{}_{n}", std::process::id());
    let options = PgConnectOptions::from_str(&server).expect("the URL of a server");
    let mut c = options.connect().await.expect("a server");
    for statement in
        [format!("DROP DATABASE IF EXISTS {name}"), format!("CREATE DATABASE {name} TEMPLATE template0")]
    {
        c.execute(AssertSqlSafe(statement)).await.expect("an empty database");
    }
    c.close().await.expect("an end in order");
    let (before, _) = server.rsplit_once('/').expect("a URL with a database");
    format!("{before}/{name}")
}
