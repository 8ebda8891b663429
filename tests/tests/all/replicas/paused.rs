//! A replica that does not run for longer than its lease while another takes over, and then goes on.

use std::time::Duration;

use layby_tests::{Recorder, Setup, eventually, postgres::database, text};
use serde_json::{Value, json};

use super::{nap, question};

const CONFIG: &str = "[store]\nlease = \"1s\"\ntakeover = \"500ms\"";

#[tokio::test]
async fn a_paused_replica_writes_and_sends_nothing_once_it_goes_on() {
    let url = database().await;
    let server = Recorder::start().await;
    let policy = format!(
        "[call]\ndeadline = \"100ms\"\nlinger = \"60s\"\n[grants]\nask = [\"form\"]\n\
         http = [{{ allow = \"GET {0}/*\" }}, {{ allow = \"POST {0}/*\" }}]",
        server.origin()
    );
    let replica = || Setup::new().plugin("probe", &policy).config(CONFIG).store(&url).start();
    let (first, second) = (replica().await, replica().await);
    let (one, two) = (first.client(), second.client());
    let asked = one.task("ask", json!({ "after_ms": 200 })).await;
    let key = question(&one, &asked).await;
    let works = one.task("nap", nap(8000)).await;
    let requests: Vec<Value> =
        (0..4).map(|n| json!({ "method": "POST", "url": format!("{}/{n}", server.origin()) })).collect();
    let sends = one.task("fetch", json!({ "requests": requests, "nap_ms": 2500 })).await;
    // In the sleep after the second one, whose answer is committed by then: once a second.
    server.reached(2).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    first.pause().await;
    two.accept(&asked, &key, json!({ "value": "late" })).await.result();
    // The other one goes on with it, once the lease is over.
    assert!(text(&two.status(&asked, "completed").await["result"]).contains("late"));
    eventually("the other has taken what was at work", || async {
        let tasks = second.tasks().await;
        let taken = |id: &str| tasks.iter().any(|task| task["taskId"] == *id && task["resumed"] == 1);
        (taken(&works) && taken(&sends)).then_some(())
    })
    .await;
    first.signal("CONT");
    for client in [&one, &two] {
        assert_eq!(text(&client.status(&works, "completed").await["result"]), "slept 8000 ms");
        assert!(text(&client.status(&asked, "completed").await["result"]).contains("late"));
        client.status(&sends, "completed").await;
    }
    let lines: Vec<String> = (0..4).map(|n| format!("POST /{n}")).collect();
    assert_eq!(server.lines(), lines, "each is sent once, in order");
    let resumed = first.tasks().await.into_iter().map(|task| task["resumed"].clone());
    assert!(resumed.clone().all(|n| n == 1), "{:?}", resumed.collect::<Vec<_>>());
    // It serves on.
    let works = one.task("nap", nap(300)).await;
    assert_eq!(text(&one.status(&works, "completed").await["result"]), "slept 300 ms");
}
