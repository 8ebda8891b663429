//! Attacks on the journal of a task: each of these is cheap for a plugin, and kept by its host.

use std::{path::Path, time::Duration};

use layby_tests::{Host, Setup};
use serde_json::json;
use sqlx::{ConnectOptions as _, sqlite::SqliteConnectOptions};

use super::{
    gauge::{Bystander, OTHER, given_back, harmless, holds, napping},
    make,
};

/// What floods it, each in its own way: readings of the clock, timers that end, random bytes of 4 MiB and of one number.
const FLOODS: [&str; 4] = ["clock", "naps", "random", "random-many"];
/// `limits.journal` of each.
const LIMIT: i64 = 64 << 10;
/// Long enough to fill the journal a thousand times.
const POLICY: &str = "[limits]\nmemory = \"64MiB\"\njournal = \"64KiB\"\nfuel = 100_000_000_000\nactive-time = \"4s\"\n\
                      [call]\ndeadline = \"100ms\"\ngrace = \"200ms\"\n";
/// What the database's files may grow by, with their log, whose size SQLite lets go to 4 MiB before it is written back.
const FILES: u64 = 8 << 20;

/// Bytes of the database's files.
fn files(data: &Path) -> u64 {
    ["layby.db", "layby.db-wal"]
        .iter()
        .map(|file| std::fs::metadata(data.join(file)).map_or(0, |m| m.len()))
        .sum()
}

/// The largest journal of a task in the database.
async fn largest(host: &Host) -> i64 {
    let options = SqliteConnectOptions::new().filename(host.setup().data().join("layby.db")).read_only(true);
    let mut c = options.connect().await.expect("the database opens");
    let sizes =
        "SELECT coalesce(max(n), 0) FROM (SELECT sum(length(bytes)) AS n FROM journals GROUP BY task)";
    sqlx::query_scalar(sizes).fetch_one(&mut c).await.expect("a size")
}

/// Its task goes on without a journal until another limit ends it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_is_kept_up_to_the_limit_and_no_further() {
    let setup = Setup::probe(OTHER).plugin("echo", "");
    let host =
        FLOODS.iter().fold(setup, |s, name| s.file(name, &make::component(name), POLICY)).start().await;
    let client = host.client();
    let nap = napping(&host).await;
    let (before, empty) = (holds(&host), files(&host.setup().data()));
    let bystander = Bystander::watch(&client, &nap);
    let mut most = (0, 0);
    for name in FLOODS {
        let id = client.task(name, json!({})).await;
        let end = loop {
            let now = (largest(&host).await, files(&host.setup().data()) - empty);
            most = (most.0.max(now.0), most.1.max(now.1));
            let task = client.get(&id).await.result().clone();
            if task["status"] != "working" {
                break task;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert_eq!(end["status"], "completed", "{name}: {end}");
        let code = end["result"]["_meta"]["layby/code"].as_str().unwrap_or_default();
        assert!(matches!(code, "limit_active_time" | "limit_fuel"), "{name}: {end}");
        eprintln!("{name}: {most:?} {}", end["result"]["_meta"]);
    }
    let heard = bystander.hears("floods of journals").await;
    let after = given_back(&host, before, "floods of journals").await;
    eprintln!("journals: {before:?} {after:?}, {heard:?}, most {most:?}");
    harmless(&host.log(), "the log");
    assert!((LIMIT / 2..=LIMIT).contains(&most.0), "a journal of {} bytes", most.0);
    assert!(most.1 <= FILES, "the database grew by {} bytes", most.1);
}
