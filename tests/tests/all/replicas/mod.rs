//! Hosts with folders of their own on one PostgreSQL database, as on machines of their own.

use std::process::Command;

use layby_tests::{Host, Setup, guests, postgres::database, text};
use serde_json::json;

const CONFIG: &str = "[store]\nlease = \"1s\"\ntakeover = \"1s\"";
const POLICY: &str = "[call]\ndeadline = \"100ms\"\ngrace = \"200ms\"\nlinger = \"0s\"";

async fn replica(url: &str) -> Host {
    Setup::probe(POLICY).config(CONFIG).arg("--store").arg(url).start().await
}

#[tokio::test]
async fn a_task_is_everywhere_and_outlives_the_replica_that_took_it() {
    let url = database().await;
    let (mut one, two) = (replica(&url).await, replica(&url).await);
    let (first, second) = (one.client(), two.client());
    // Asked here, answered there, cancelled from anywhere.
    let asked = first.task("ask", json!({})).await;
    assert_eq!(second.get(&asked).await.result()["status"], "input_required");
    second.accept(&asked, "question", json!({ "value": "from the other" })).await.result();
    assert!(text(&first.status(&asked, "completed").await["result"]).contains("from the other"));
    let stopped = first.task("nap", json!({ "ms": 60_000, "step_ms": 20 })).await;
    second.cancel(&stopped).await.result();
    first.status(&stopped, "cancelled").await;
    // What waits with the first, and what it was working at, goes on with the second.
    let waiting = first.task("ask", json!({})).await;
    let working = first.task("nap", json!({ "ms": 3000, "step_ms": 20 })).await;
    one.kill();
    second.accept(&waiting, "question", json!({ "value": "still here" })).await.result();
    assert!(text(&second.status(&waiting, "completed").await["result"]).contains("still here"));
    assert_eq!(text(&second.status(&working, "completed").await["result"]), "slept 3000 ms");
}

#[tokio::test]
async fn a_replica_without_the_file_goes_on_with_the_task() {
    let url = database().await;
    let mut one = replica(&url).await;
    let waiting = one.client().task("ask", json!({})).await;
    one.client().status(&waiting, "input_required").await;
    one.kill();
    // Another data folder, and no plugin at all: the component comes from the database.
    let two = Setup::new().config(CONFIG).arg("--store").arg(&url).start().await;
    let client = two.client();
    client.accept(&waiting, "question", json!({ "value": "from nowhere" })).await.result();
    assert!(text(&client.status(&waiting, "completed").await["result"]).contains("from nowhere"));
}

#[test]
fn a_database_that_is_none_is_named() {
    for (url, code) in [
        ("postgres://layby@127.0.0.1:1/layby", "store_unreachable"),
        ("mysql://localhost/layby", "store_failed"),
    ] {
        let folder = tempfile::TempDir::new().unwrap();
        let mut command = Command::new(guests::layby());
        command.args(["tasks", "list", "--json", "--store", url]).current_dir(folder.path());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LAYBY_")) {
            command.env_remove(name);
        }
        let output = command.output().unwrap();
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(code), "{url}: {said}");
    }
}
