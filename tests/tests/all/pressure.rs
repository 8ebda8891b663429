//! A full host: runs that wait make room, and runs that go on and new calls each have their part of the slots.

use std::time::{Duration, Instant};

use futures::future::join_all;
use layby_tests::{Client, Host, Setup, eventually, guests, text};
use serde_json::{Value, json};

/// Nothing parks by itself.
const LINGERS: &str = "[call]\ndeadline = \"100ms\"\ngrace = \"200ms\"\nlinger = \"1h\"";

/// The answers that the tool `ask` got.
fn answers(task: &Value) -> Value {
    let result: Value = serde_json::from_str(text(&task["result"])).expect("the tool's own JSON");
    result["answers"].clone()
}

/// The tasks that an instance waits for.
async fn unparked(host: &Host) -> Vec<String> {
    let is = |task: &&Value| task["parked"] == false && task["status"] == "input_required";
    let tasks = host.tasks().await;
    tasks.iter().filter(is).map(|task| task["taskId"].as_str().unwrap().to_owned()).collect()
}

async fn parked(host: &Host, id: &str) {
    eventually("the task is parked", || async {
        let tasks = host.tasks().await;
        tasks.iter().any(|task| task["taskId"] == id && task["parked"] == true).then_some(())
    })
    .await;
}

/// A client whose calls are answered with their results, and how long it waits for one.
async fn served(host: &Host) -> Duration {
    let start = Instant::now();
    let reply = host.client_with(json!({})).call("nap", json!({ "ms": 1 })).await;
    assert_eq!(text(reply.result()), "slept 1 ms");
    start.elapsed()
}

/// Askers beyond what may wait with an instance: those that wait longest park, nobody is refused, and all are answered.
#[tokio::test]
async fn askers_make_room_and_come_back() {
    for (config, limits, most) in [
        ("waiting = 10", "", 8),
        ("waiting = 10\npark-above = 50", "", 5),
        // Each keeps a little more than 1 MiB, of 80 percent of 16 MiB.
        ("memory = \"32MiB\"\n[limits]\nmemory = \"16MiB\"", "", 12),
        ("", "[limits]\nparked = 10", 8),
    ] {
        let host =
            Setup::probe(&format!("{LINGERS}\n{limits}")).config(&format!("[host]\n{config}")).start().await;
        let client = host.client();
        let mut ids = Vec::new();
        for n in 0..30 {
            ids.push(client.task("ask", json!({ "message": format!("m{n}") })).await);
        }
        assert!(served(&host).await < Duration::from_secs(5), "{config} {limits}");
        let left = eventually("most are parked", || async {
            let left = unparked(&host).await;
            (left.len() <= most).then_some(left)
        })
        .await;
        assert!(left.len() >= most / 2, "only as many as it takes: {left:?}");
        assert!(
            left.iter().all(|id| ids[30 - left.len()..].contains(id)),
            "those that wait longest go first"
        );
        for (n, id) in ids.iter().enumerate() {
            client.accept(id, "question", json!({ "value": n.to_string() })).await.result();
        }
        for (n, id) in ids.iter().enumerate() {
            assert_eq!(answers(&client.status(id, "completed").await), json!([{ "value": n.to_string() }]));
        }
    }
}

/// Runs that sleep hold slots: they make room for a call that finds none, and sleep as long as they would have.
#[tokio::test]
async fn sleepers_make_room_for_a_call() {
    let memory = "[limits]\nmemory = \"64MiB\"";
    for (config, limits) in
        [("concurrency = 4", ""), ("memory = \"256MiB\"", memory), ("", "[limits]\nconcurrency = 4")]
    {
        let host =
            Setup::probe(&format!("{LINGERS}\n{limits}")).config(&format!("[host]\n{config}")).start().await;
        let client = host.client();
        let begin = Instant::now();
        let naps: Vec<String> = join_all((0..3).map(|_| client.task("nap", json!({ "ms": 9000 })))).await;
        // One quarter is left to runs that go on.
        assert!(served(&host).await < Duration::from_secs(5), "{config} {limits}");
        let rows = eventually("one is parked", || async {
            let rows = host.tasks().await;
            rows.iter().any(|row| row["parked"] == true).then_some(rows)
        })
        .await;
        assert_eq!(rows.iter().filter(|row| row["parked"] == true).count(), 1, "one is enough: {rows:?}");
        for id in &naps {
            assert_eq!(text(&client.status(id, "completed").await["result"]), "slept 9000 ms");
        }
        assert!(begin.elapsed() >= Duration::from_secs(9), "one slept too little");
    }
}

/// All slots that new calls may have are taken for long: an answered task goes on all the same.
#[tokio::test]
async fn an_answer_finds_a_slot_that_new_calls_leave() {
    for linger in ["0s", "1h"] {
        for (config, limits) in [("concurrency = 4", ""), ("", "[limits]\nconcurrency = 4")] {
            let policy =
                format!("[call]\ndeadline = \"100ms\"\ngrace = \"100ms\"\nlinger = \"{linger}\"\n{limits}");
            let host = Setup::probe(&policy).config(&format!("[host]\n{config}")).start().await;
            let client = host.client();
            let asks = client.task("ask", json!({ "rounds": 2 })).await;
            if linger == "0s" {
                parked(&host, &asks).await;
            }
            // Steps that no parking is worth. The last ones wait in the queue.
            let nap = json!({ "ms": 300_000, "step_ms": 500 });
            let naps: Vec<String> = join_all((0..5).map(|_| client.task("nap", nap.clone()))).await;
            for key in ["question", "question_2"] {
                client.until(&asks, key, |task| task["inputRequests"].get(key).is_some()).await;
                client.accept(&asks, key, json!({ "value": key })).await.result();
            }
            let task = client.status(&asks, "completed").await;
            assert_eq!(answers(&task), json!([{ "value": "question" }, { "value": "question_2" }]));
            for id in &naps {
                assert_eq!(client.get(id).await.result()["status"], "working", "{config} {limits}");
                client.cancel(id).await.result();
            }
        }
    }
}

/// The other way round: however many tasks go on, new calls have their part.
#[tokio::test]
async fn many_answers_at_once_leave_slots_to_new_calls() {
    let policy = "[call]\ndeadline = \"100ms\"\nlinger = \"800ms\"\n[limits]\nconcurrency = 8";
    let host = Setup::probe(policy).config("[host]\nconcurrency = 8").start().await;
    let client = host.client();
    let mut ids = Vec::new();
    for n in 0..60 {
        // It works for a while after its answer, too shortly to park.
        ids.push(client.task("ask", json!({ "message": format!("m{n}"), "after_ms": 700 })).await);
    }
    for id in &ids {
        parked(&host, id).await;
    }
    let answer = async |client: &Client, id: &str| {
        client.accept(id, "question", json!({ "value": id })).await.result();
    };
    join_all(ids.iter().map(|id| answer(&client, id))).await;
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        longest = longest.max(served(&host).await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(longest < Duration::from_secs(3), "a call waited {longest:?}");
    for id in &ids {
        assert_eq!(answers(&client.status(id, "completed").await), json!([{ "value": id }]));
    }
}

/// Tasks that go on wait for a slot of their plugin for long, more of them than may be resumed at once: another plugin's go on.
#[tokio::test]
async fn a_plugin_without_a_slot_keeps_no_other_plugins_task() {
    let policy =
        "[call]\ndeadline = \"100ms\"\ngrace = \"100ms\"\nlinger = \"0s\"\n[grants]\nask = [\"form\"]";
    let narrow = format!("{policy}\n[limits]\nconcurrency = 1");
    let other = format!("prefix = \"other_\"\n{policy}");
    let setup = Setup::probe(&narrow).file("other", &guests::component("rust/trial"), &other);
    // Two are resumed at once.
    let host = setup.config("[host]\nconcurrency = 8").start().await;
    let client = host.client();
    let mut waiting = Vec::new();
    for _ in 0..6 {
        waiting.push(client.task("ask", json!({})).await);
    }
    let others = [client.task("other_ask", json!({})).await, client.task("other_ask", json!({})).await];
    for id in waiting.iter().chain(&others) {
        parked(&host, id).await;
    }
    let nap = client.task("nap", json!({ "ms": 300_000, "step_ms": 500 })).await;
    for id in &waiting {
        client.accept(id, "question", json!({ "value": "late" })).await.result();
    }
    // One after the other: the first may have been looked for with those that wait.
    for id in &others {
        let accepted = json!({ "action": "accept", "content": { "value": "in time" } });
        client.update(id, json!({ "first": accepted, "second": accepted })).await.result();
        let done = client.status(id, "completed").await;
        assert_eq!(text(&done["result"]), "first: in time, second: in time");
    }
    for id in &waiting {
        assert_eq!(client.get(id).await.result()["status"], "working");
    }
    client.cancel(&nap).await.result();
    for id in &waiting {
        assert_eq!(answers(&client.status(id, "completed").await), json!([{ "value": "late" }]));
    }
}

/// Of two processes on one store, one has no slot for long: the other does all that is to be done.
#[tokio::test]
async fn a_process_without_a_slot_leaves_tasks_to_another() {
    let policy = "[call]\ndeadline = \"100ms\"\ngrace = \"100ms\"\nlinger = \"0s\"\n[grants]\nask = [\"form\"]\n\
                  [limits]\nconcurrency = 1";
    let full = Setup::probe(policy).start().await;
    let client = full.client();
    let mut ids = Vec::new();
    for _ in 0..12 {
        ids.push(client.task("ask", json!({})).await);
    }
    for id in &ids {
        parked(&full, id).await;
    }
    let nap = client.task("nap", json!({ "ms": 300_000, "step_ms": 500 })).await;
    // It looks for some of them before there is another process.
    for id in &ids[..6] {
        client.accept(id, "question", json!({ "value": "a" })).await.result();
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let free = full.beside().await;
    for id in &ids[6..] {
        client.accept(id, "question", json!({ "value": "a" })).await.result();
    }
    for id in &ids {
        assert_eq!(answers(&free.client().status(id, "completed").await), json!([{ "value": "a" }]));
    }
    assert_eq!(client.get(&nap).await.result()["status"], "working");
    client.cancel(&nap).await.result();
}
