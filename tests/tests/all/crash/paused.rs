//! A process that does not run for longer than its lease, and then goes on.

use std::{sync::Arc, time::Duration};

use layby_tests::{Host, Setup, text};
use serde_json::{Value, json};

use super::world::accepted;

/// Longer than lease and takeover.
const PAUSE: Duration = Duration::from_millis(4500);

/// Its lease is long enough to be kept on a busy machine: each one that runs out is one more resume.
async fn host() -> Host {
    let policy = "[call]\ndeadline = \"100ms\"\nlinger = \"60s\"\n[grants]\nask = [\"form\"]";
    let config = "[store]\nlease = \"3s\"\ntakeover = \"1s\"";
    let setup = Arc::new(Setup::new().plugin("probe", policy).config(config));
    setup.mortal(&[]).await.expect("a host")
}

fn nap(ms: u64) -> Value {
    json!({ "ms": ms, "step_ms": 20 })
}

#[tokio::test]
async fn what_a_paused_host_ran_goes_on_with_it() {
    let host = host().await;
    let client = host.client();
    let asked = client.task("ask", json!({ "after_ms": 200 })).await;
    let works = client.task("nap", nap(9000)).await;
    host.pause().await;
    tokio::time::sleep(PAUSE).await;
    host.signal("CONT");
    assert_eq!(text(&client.status(&works, "completed").await["result"]), "slept 9000 ms");
    client.update(&asked, json!({ "question": accepted("late") })).await.result();
    assert!(text(&client.status(&asked, "completed").await["result"]).contains("late"));
}

#[tokio::test]
async fn a_pause_is_no_active_time() {
    let policy = "[call]\ndeadline = \"100ms\"\nlinger = \"60s\"\n[limits]\nactive-time = \"6s\"";
    // Once within its lease, once past it.
    for lease in ["15s", "3s"] {
        let config = format!("[store]\nlease = \"{lease}\"\ntakeover = \"1s\"");
        let setup = Arc::new(Setup::new().plugin("probe", policy).config(&config));
        let host = setup.mortal(&[]).await.expect("a host");
        let client = host.client();
        let works = client.task("nap", nap(4000)).await;
        host.pause().await;
        tokio::time::sleep(PAUSE).await;
        host.signal("CONT");
        let result = client.status(&works, "completed").await["result"].clone();
        assert_eq!(text(&result), "slept 4000 ms", "with a lease of {lease}");
        let active = result["_meta"]["layby/receipt"]["activeMs"].as_u64();
        assert!(active.is_some_and(|ms| ms < 6000), "with a lease of {lease}: {active:?} ms");
    }
}

#[tokio::test]
async fn what_others_took_from_a_paused_host_it_leaves_alone() {
    let first = host().await;
    let (one, second) = (first.client(), first.beside().await);
    let asked = one.task("ask", json!({ "after_ms": 200 })).await;
    let works = one.task("nap", nap(9000)).await;
    first.pause().await;
    let two = second.client();
    two.update(&asked, json!({ "question": accepted("late") })).await.result();
    // The other one goes on with it, once the lease is over.
    assert!(text(&two.status(&asked, "completed").await["result"]).contains("late"));
    first.signal("CONT");
    for client in [&one, &two] {
        assert_eq!(text(&client.status(&works, "completed").await["result"]), "slept 9000 ms");
        assert!(text(&client.status(&asked, "completed").await["result"]).contains("late"));
    }
    let resumed = first.tasks().await.into_iter().map(|task| task["resumed"].clone());
    assert!(resumed.clone().all(|n| n == 1), "{:?}", resumed.collect::<Vec<_>>());
    // It serves on.
    let works = one.task("nap", nap(300)).await;
    assert_eq!(text(&one.status(&works, "completed").await["result"]), "slept 300 ms");
}
