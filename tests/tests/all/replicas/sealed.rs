//! One key for all replicas, or one for each.

use std::{fs, os::unix::fs::OpenOptionsExt as _, path::Path};

use layby_tests::{Host, Setup, eventually, postgres::database, text};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{POLICY, question};

async fn replica(url: &str, key: Option<&Path>) -> Host {
    let key = key.map(|key| format!("seal-key = {}\n", json!(key))).unwrap_or_default();
    let config = format!("[store]\nlease = \"1s\"\ntakeover = \"1s\"\n{key}");
    let policy = format!("{POLICY}\n[grants]\nask = [\"form\"]\nenv = {{ PLACE = \"a-sealed-place\" }}");
    Setup::probe(&policy).config(&config).store(url).start().await
}

/// A task on `one`, whose host dies, and whose question is answered at `two`.
async fn handed_over(one: &mut Host, two: &Host) -> String {
    let steps = json!([{ "do": "ask" }, { "do": "variable", "path": "PLACE" }]);
    let id = one.client().task("steps", json!({ "steps": steps })).await;
    let key = question(&one.client(), &id).await;
    one.kill();
    two.client().accept(&id, &key, json!({ "value": "on" })).await.result();
    id
}

async fn ends(host: &Host, id: &str) {
    let task = host.client().status(id, "completed").await;
    let result: Value = serde_json::from_str(text(&task["result"])).unwrap();
    assert_eq!(result, json!(["ok", "a-sealed-place"]));
}

#[tokio::test]
async fn with_one_key_any_replica_goes_on() {
    let (url, folder) = (database().await, TempDir::new().unwrap());
    let key = folder.path().join("the.key");
    let mut file = fs::File::options().write(true).create_new(true).mode(0o600).open(&key).unwrap();
    std::io::Write::write_all(&mut file, &[7; 32]).unwrap();
    let mut one = replica(&url, Some(&key)).await;
    let two = replica(&url, Some(&key)).await;
    let id = handed_over(&mut one, &two).await;
    ends(&two, &id).await;
    assert!(!two.log().contains("seal"), "{}", two.log());
}

#[tokio::test]
async fn a_replica_with_another_key_hands_the_task_back() {
    let url = database().await;
    let mut one = replica(&url, None).await;
    let two = replica(&url, None).await;
    assert!(two.log().contains("store.seal-key is not set"), "{}", two.log());
    let id = handed_over(&mut one, &two).await;
    let what = format!("the task {id} of probe is not resumed here");
    eventually("it is logged", || async { two.log().contains(&what).then_some(()) }).await;
    assert_eq!(two.client().get(&id).await.result()["status"], "working", "nothing is settled");
    let mut two = two;
    two.kill();
    let one = one.restart().await;
    ends(&one, &id).await;
}

#[tokio::test]
async fn a_replica_with_another_key_keeps_no_task_from_the_one_with_its_key() {
    let url = database().await;
    let (one, two) = (replica(&url, None).await, replica(&url, None).await);
    let steps = json!([{ "do": "ask" }, { "do": "variable", "path": "PLACE" }]);
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(one.client().task("steps", json!({ "steps": steps })).await);
    }
    for id in &ids {
        let key = question(&one.client(), id).await;
        eventually("it is parked", || async {
            let tasks = one.tasks().await;
            tasks.iter().any(|task| task["taskId"] == **id && task["parked"] == true).then_some(())
        })
        .await;
        two.client().accept(id, &key, json!({ "value": "on" })).await.result();
    }
    for id in &ids {
        ends(&one, id).await;
    }
    // By whoever can alone.
    let resumed: Vec<Value> = one.tasks().await.into_iter().map(|task| task["resumed"].clone()).collect();
    assert!(resumed.iter().all(|n| n == 1), "{resumed:?}");
}
