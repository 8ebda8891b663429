//! Large answers are kept beside the journal's pieces: through a crash, in an export, and under their hash.

use std::time::{Duration, Instant};

use layby_tests::{Client, Host, Recorder, Setup, text};
use serde_json::{Value, json};
use sqlx::{ConnectOptions as _, SqliteConnection, sqlite::SqliteConnectOptions};

const SIZE: usize = 300_000;

/// A task that has fetched [`SIZE`] bytes and is parked at its question: the host, the task and the question's key.
async fn parked(server: &Recorder, limits: &str) -> (Host, String, String) {
    let policy = format!(
        "[limits]\n{limits}\n[call]\ndeadline = \"50ms\"\nlinger = \"0s\"\n\
         [grants]\nask = [\"form\"]\nhttp = [{{ allow = \"* {}/*\" }}]",
        server.origin()
    );
    let host = Setup::probe(&policy).config("[store]\nlease = \"1s\"\ntakeover = \"1s\"").start().await;
    let get = json!({ "url": format!("{}/size/{SIZE}", server.origin()) });
    // It asks before the last one.
    let last = json!({ "url": format!("{}/last", server.origin()) });
    let client = host.client();
    let id = client.task("fetch", json!({ "requests": [get, last], "ask": true, "nap_ms": 100 })).await;
    let task = client.status(&id, "input_required").await;
    let key = task["inputRequests"].as_object().and_then(|all| all.keys().next().cloned());
    (host, id, key.expect("a question"))
}

async fn answer(client: &Client, id: &str, key: &str) {
    client.accept(id, key, json!({ "value": "on" })).await.result();
}

async fn database(host: &Host) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(host.setup().data().join("layby.db"));
    options.connect().await.expect("the database")
}

async fn replayed(host: &Host, what: &str, component: Option<&str>) -> Value {
    let mut args = vec!["replay", what];
    args.extend(component.into_iter().flat_map(|component| ["--plugin", component]));
    host.command(&args).await.json()
}

#[tokio::test]
async fn a_large_answer_survives_a_crash_and_travels_with_an_export() {
    let server = Recorder::start().await;
    let (mut host, id, key) = parked(&server, "").await;
    let mut c = database(&host).await;
    let sizes = "SELECT (SELECT sum(length(bytes)) FROM blobs), (SELECT max(length(bytes)) FROM journals)";
    let (apart, largest): (i64, i64) = sqlx::query_as(sizes).fetch_one(&mut c).await.expect("sizes");
    assert!(apart > 300_000, "{apart}");
    assert!(largest < 10_000, "pieces stay small: {largest}");
    host.kill();
    let host = host.restart().await;
    let client = host.client();
    answer(&client, &id, &key).await;
    let task = client.status(&id, "completed").await;
    let got: Value = serde_json::from_str(text(&task["result"])).expect("the tool's own JSON");
    assert_eq!(got[0]["length"], SIZE, "{got}");
    assert_eq!(server.lines().len(), 2, "it was not fetched again");

    let file = host.setup().root().join("fetch.json");
    let path = file.to_str().expect("a path in UTF-8");
    assert_eq!(host.command(&["tasks", "export", &id, path]).await.code, Some(0));
    let elsewhere = Setup::probe("").start().await;
    let component = elsewhere.setup().plugins().join("probe.wasm").display().to_string();
    let shown = replayed(&elsewhere, path, Some(&component)).await;
    assert_eq!(shown["verdict"], "same", "{shown}");
    // Without them, the entry that wants one is named.
    let mut exported: Value =
        serde_json::from_slice(&std::fs::read(&file).expect("the export")).expect("an export is JSON");
    exported.as_object_mut().expect("an object").remove("blobs").expect("blobs");
    std::fs::write(&file, exported.to_string()).expect("a file");
    let refused = replayed(&elsewhere, path, Some(&component)).await;
    assert_eq!(refused["error"]["code"], "not_an_export", "{refused}");
    assert!(refused.to_string().contains("damaged or missing"), "{refused}");
}

#[tokio::test]
async fn a_damaged_answer_ends_its_task_and_names_the_entry() {
    let server = Recorder::start().await;
    let (host, id, key) = parked(&server, "").await;
    let mut c = database(&host).await;
    let change = "UPDATE blobs SET bytes = zeroblob(length(bytes))";
    let changed = sqlx::query(change).execute(&mut c).await.expect("a change");
    assert_eq!(changed.rows_affected(), 1);
    let client = host.client();
    answer(&client, &id, &key).await;
    let task = client.status(&id, "failed").await;
    assert_eq!(task["error"]["data"]["code"], "journal_damaged", "{task}");
    let message = task["error"]["message"].as_str().expect("a message");
    assert!(
        message.contains("bytes that the journal's entry ") && message.contains("is damaged"),
        "{message}"
    );
    let refused = replayed(&host, &id, None).await;
    assert_eq!(refused["error"]["code"], "journal_damaged", "{refused}");
}

#[tokio::test]
async fn a_large_answer_counts_against_the_journals_limit() {
    let server = Recorder::start().await;
    let (host, id, key) = parked(&server, "journal = \"200KiB\"").await;
    let client = host.client();
    let mut c = database(&host).await;
    // Told though the run waits.
    let mut pinned = None;
    let begin = Instant::now();
    while pinned.is_none() && begin.elapsed() < Duration::from_secs(10) {
        let query = sqlx::query_scalar::<_, Option<String>>("SELECT CAST(pinned AS TEXT) FROM tasks");
        pinned = query.fetch_one(&mut c).await.expect("a row");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(pinned.is_some_and(|why| why.contains("over the limit `journal`")), "it cannot be resumed");
    answer(&client, &id, &key).await;
    client.status(&id, "completed").await;
    let blobs: i64 =
        sqlx::query_scalar("SELECT count(*) FROM blobs").fetch_one(&mut c).await.expect("a count");
    assert_eq!(blobs, 0);
}
