//! Cancellation: asked for, forced, too late, and by leaving.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use layby_tests::{Host, Setup, eventually, text};
use serde_json::{Value, json};

async fn host_with_files(call: &str) -> Host {
    let setup = Setup::new();
    let policy = format!("[call]\n{call}\n[grants]\nask = [\"form\"]\nfiles = [{}]", setup.grant(true));
    setup.plugin("probe", &policy).start().await
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |m| m.len())
}

/// Waits until a file has not grown for half a second, 50 times the pause of its writer.
async fn stops_growing(path: &Path) {
    let mut last = (size(path), Instant::now());
    eventually("a file that stops growing", || {
        let now = size(path);
        if now != last.0 {
            last = (now, Instant::now());
        }
        let quiet = last.1.elapsed() > Duration::from_millis(500);
        async move { quiet.then_some(()) }
    })
    .await;
}

async fn grows(path: &Path) {
    let first = size(path);
    eventually("a file that grows", || async { (size(path) > first).then_some(()) }).await;
}

#[tokio::test]
async fn a_plugin_that_looks_stops_by_itself() {
    let host = host_with_files("deadline = \"100ms\"\ngrace = \"20s\"").await;
    let client = host.client();
    let id = client.task("nap", json!({ "ms": 60_000, "step_ms": 50 })).await;
    let start = Instant::now();
    assert_eq!(client.cancel(&id).await.result()["resultType"], "complete");
    let task = client.status(&id, "cancelled").await;
    assert!(start.elapsed() < Duration::from_secs(15), "it waited for the end of grace");
    for absent in ["result", "error", "inputRequests"] {
        assert!(task.get(absent).is_none(), "{absent} in {task}");
    }
    // P6: another one changes nothing, and is acknowledged.
    client.cancel(&id).await.result();
    assert_eq!(client.get(&id).await.result(), &task);
}

/// P5: once a client reads `cancelled`, nothing happens any more.
#[tokio::test]
async fn a_plugin_that_does_not_look_is_stopped() {
    let host = host_with_files("deadline = \"100ms\"\ngrace = \"300ms\"").await;
    let client = host.client();
    let id = client.task("stubborn", json!({ "ms": 60_000, "path": "/files/lines" })).await;
    let file = host.setup().files().join("lines");
    grows(&file).await;
    client.cancel(&id).await.result();
    client.status(&id, "cancelled").await;
    let then = size(&file);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains("cancelled true"), "it was told first");
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(size(&file), then, "an effect after `cancelled` was read");
    }
}

#[tokio::test]
async fn a_host_that_stops_within_the_grace_has_cancelled() {
    let policy = "[call]\ndeadline = \"100ms\"\ngrace = \"60s\"\n[limits]\nfuel = 9_000_000_000_000";
    let mut host = Setup::probe(policy).config("[serve]\ndrain = \"100ms\"\n").start().await;
    let id = host.client().task("burn", json!({})).await;
    host.client().cancel(&id).await.result();
    host.signal("TERM");
    assert_eq!(host.ended().await, Some(0));
    let host = host.restart().await;
    assert_eq!(host.client().ended(&id).await["status"], "cancelled");
}

#[tokio::test]
async fn a_plugin_that_computes_is_stopped_too() {
    let setup =
        Setup::probe("[call]\ndeadline = \"100ms\"\ngrace = \"100ms\"\n[limits]\nfuel = 9_000_000_000_000");
    let host = setup.start().await;
    let client = host.client();
    let id = client.task("burn", json!({})).await;
    client.cancel(&id).await.result();
    client.status(&id, "cancelled").await;
}

#[tokio::test]
async fn a_waiting_task_is_cancelled_at_once() {
    let host = host_with_files("grace = \"20s\"").await;
    let client = host.client();
    let id = client.task("ask", json!({})).await;
    client.cancel(&id).await.result();
    let start = Instant::now();
    let task = client.status(&id, "cancelled").await;
    assert!(start.elapsed() < Duration::from_secs(15));
    assert!(task.get("inputRequests").is_none(), "{task}");
    // An answer that comes too late is acknowledged and changes nothing.
    client.accept(&id, "question", json!({ "value": "x" })).await.result();
    assert_eq!(client.get(&id).await.result()["status"], "cancelled");
}

/// What a plugin can still say within its grace counts.
#[tokio::test]
async fn a_result_within_grace_completes() {
    let host = host_with_files("deadline = \"100ms\"\ngrace = \"20s\"").await;
    let client = host.client();
    let id = client.task("nap", json!({ "ms": 1200 })).await;
    client.cancel(&id).await.result();
    let task = client.ended(&id).await;
    assert_eq!(task["status"], "completed", "{task}");
    assert_eq!(text(&task["result"]), "slept 1200 ms");
}

#[tokio::test]
async fn an_ended_task_stays_as_it_ended() {
    let host = host_with_files("deadline = \"100ms\"").await;
    let client = host.client();
    let done = client.task("nap", json!({ "ms": 300 })).await;
    let before = client.status(&done, "completed").await;
    client.cancel(&done).await.result();
    client.update(&done, json!({ "question": { "action": "decline" } })).await.result();
    assert_eq!(client.get(&done).await.result(), &before);
}

#[tokio::test]
async fn a_client_that_leaves_before_promotion_cancels() {
    let host = host_with_files("deadline = \"50s\"\nhold = \"50s\"\ngrace = \"300ms\"").await;
    let client = host.client();
    let file = host.setup().files().join("lines");
    let body = client.body(
        "tools/call",
        json!({ "name": "stubborn", "arguments": { "ms": 60_000, "path": "/files/lines" } }),
    );
    let request = client.post(&body).send();
    let call = tokio::spawn(request);
    grows(&file).await;
    call.abort();
    stops_growing(&file).await;
    assert!(fs::read_to_string(&file).unwrap().contains("cancelled true"));
    assert_eq!(host.tasks().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_client_that_leaves_a_stream_before_promotion_cancels() {
    let host = host_with_files("deadline = \"50s\"\nhold = \"50s\"\ngrace = \"300ms\"").await;
    let client = host.client().meta("progressToken", json!(1));
    let arguments = json!({ "count": 100_000, "pause_ms": 20 });
    let mut stream = client.stream("tools/call", json!({ "name": "report", "arguments": arguments })).await;
    futures::StreamExt::next(&mut stream).await.unwrap();
    drop(stream);
    // Its slots come back: with one left over, the queue would promote.
    eventually("no run", || async {
        let limited = host.client().call("report", json!({ "count": 1 })).await;
        (limited.message["result"]["content"].is_array()).then_some(())
    })
    .await;
    assert_eq!(host.tasks().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_client_that_leaves_after_promotion_changes_nothing() {
    let host = host_with_files("deadline = \"100ms\"").await;
    let client = host.client();
    let id = client.task("stubborn", json!({ "ms": 1500, "path": "/files/lines" })).await;
    drop(client);
    let later = host.client();
    let task = later.status(&id, "completed").await;
    assert!(text(&task["result"]).starts_with("wrote "), "{task}");
}

/// A hundred clients leave around the moment of promotion: every row that there is gets driven to an end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaving_in_the_middle_of_promotion_leaves_no_row_behind() {
    let setup = Setup::probe("[call]\ndeadline = \"120ms\"\ngrace = \"100ms\"\n[limits]\nconcurrency = 60");
    let host = setup.start().await;
    let mut calls = Vec::new();
    for n in 0..60_u64 {
        let client = host.client();
        calls.push(tokio::spawn(async move {
            let leave = Duration::from_millis(60 + n * 2);
            let _ =
                tokio::time::timeout(leave, client.call("nap", json!({ "ms": 800, "step_ms": 20 }))).await;
        }));
    }
    for call in calls {
        let _ = call.await;
    }
    eventually("the end of every task", || async {
        let ended = |t: &Value| matches!(t["status"].as_str(), Some("completed" | "cancelled"));
        host.tasks().await.iter().all(ended).then_some(())
    })
    .await;
}
