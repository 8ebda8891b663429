//! Tasks outlive their instance and their process: parked, killed, handed back and gone on with.

use std::time::{Duration, Instant};

use layby_tests::{Client, Host, Setup, eventually, text};
use serde_json::{Value, json};

/// Short leases, so that tests do not wait for the real ones.
const LEASES: &str = "[store]\nlease = \"1s\"\ntakeover = \"1s\"";

/// A host whose tasks wait for `linger` before they park.
async fn host(linger: &str, more: &str) -> Host {
    let policy = format!("[call]\ndeadline = \"100ms\"\ngrace = \"200ms\"\nlinger = \"{linger}\"\n{more}");
    Setup::probe(&policy).config(LEASES).start().await
}

fn value(text: &str) -> Value {
    json!({ "value": text })
}

/// The answers that the tool `ask` got.
fn answers(task: &Value) -> Value {
    let result: Value = serde_json::from_str(text(&task["result"])).expect("the tool's own JSON");
    assert_eq!(result["error"], Value::Null, "{result}");
    result["answers"].clone()
}

/// Waits until the task asks; the key of its one question.
async fn question(client: &Client, id: &str) -> String {
    let task = client.status(id, "input_required").await;
    let asked = task["inputRequests"].as_object().expect("questions");
    assert_eq!(asked.len(), 1, "{task}");
    asked.keys().next().expect("a question").clone()
}

/// Waits until nothing runs the task.
async fn parked(host: &Host, id: &str) {
    eventually("the task is parked", || async {
        let tasks = host.tasks().await;
        tasks.iter().any(|task| task["taskId"] == id && task["parked"] == true).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_question_survives_every_process_that_asked_it() {
    for linger in ["0s", "60s"] {
        let mut host = host(linger, "").await;
        let id = host.client().task("ask", json!({ "rounds": 3, "after_ms": 100 })).await;
        for n in 0..3 {
            let client = host.client();
            let key = question(&client, &id).await;
            host.kill();
            host = host.restart().await;
            let client = host.client();
            assert_eq!(question(&client, &id).await, key, "the same question is asked");
            client.accept(&id, &key, value(&n.to_string())).await.result();
        }
        let task = host.client().status(&id, "completed").await;
        assert_eq!(answers(&task), json!([value("0"), value("1"), value("2")]));
    }
}

#[tokio::test]
async fn an_answer_to_a_parked_task_goes_on_with_it_here_or_elsewhere() {
    let first = host("0s", "").await;
    let second = first.beside().await;
    let (one, two) = (first.client(), second.client());
    let id = one.task("ask", json!({ "rounds": 4 })).await;
    for (n, client) in [&two, &one, &two, &one].into_iter().enumerate() {
        let key = question(client, &id).await;
        parked(&first, &id).await;
        client.accept(&id, &key, value(&n.to_string())).await.result();
    }
    let task = two.status(&id, "completed").await;
    assert_eq!(answers(&task), json!([value("0"), value("1"), value("2"), value("3")]));
}

#[tokio::test]
async fn a_sleep_ends_when_it_would_have() {
    let mut host = host("200ms", "").await;
    let client = host.client();
    let begin = Instant::now();
    let long = client.task("nap", json!({ "ms": 4000 })).await;
    let steps = client.task("nap", json!({ "ms": 4000, "step_ms": 50 })).await;
    parked(&host, &long).await;
    host.kill();
    let host = host.restart().await;
    let client = host.client();
    for id in [long, steps] {
        let task = client.status(&id, "completed").await;
        assert_eq!(text(&task["result"]), "slept 4000 ms");
    }
    assert!(begin.elapsed() >= Duration::from_secs(4), "it slept too little");
}

#[tokio::test]
async fn sigterm_hands_tasks_on() {
    let mut first = host("60s", "").await;
    let client = first.client();
    let asked = client.task("ask", json!({})).await;
    let key = question(&client, &asked).await;
    let working = client.task("nap", json!({ "ms": 3000, "step_ms": 20 })).await;
    let second = first.beside().await;
    first.signal("TERM");
    let client = second.client();
    client.accept(&asked, &key, value("late")).await.result();
    assert_eq!(answers(&client.status(&asked, "completed").await), json!([value("late")]));
    assert_eq!(text(&client.status(&working, "completed").await["result"]), "slept 3000 ms");
    assert_eq!(first.ended().await, Some(0));
}

#[tokio::test]
async fn a_parked_task_is_cancelled_at_once() {
    let host = host("0s", "").await;
    let client = host.client();
    let asked = client.task("ask", json!({})).await;
    let asleep = client.task("nap", json!({ "ms": 60_000 })).await;
    for id in [asked, asleep] {
        parked(&host, &id).await;
        client.cancel(&id).await.result();
        assert_eq!(client.get(&id).await.result()["status"], "cancelled");
    }
}

#[tokio::test]
async fn a_question_that_nobody_answers_ends_or_goes_on_as_the_policy_says() {
    let policy = "input-deadline = \"1500ms\"";
    let fails = host("0s", policy).await;
    let client = fails.client();
    let id = client.task("ask", json!({})).await;
    parked(&fails, &id).await;
    assert_eq!(client.status(&id, "failed").await["error"]["data"]["code"], "input_timed_out");
    let goes_on = host("0s", &format!("{policy}\non-input-timeout = \"resume\"")).await;
    let client = goes_on.client();
    let id = client.task("ask", json!({ "rounds": 2 })).await;
    parked(&goes_on, &id).await;
    let task = client.status(&id, "completed").await;
    assert!(text(&task["result"]).contains("no answer came in time"), "{task}");
}

#[tokio::test]
async fn two_answers_at_once_make_one_run() {
    let first = host("0s", "").await;
    let second = first.beside().await;
    let (one, two) = (first.client(), second.client());
    for _ in 0..10 {
        let id = one.task("ask", json!({})).await;
        let key = question(&one, &id).await;
        parked(&first, &id).await;
        let (a, b) = tokio::join!(one.accept(&id, &key, value("a")), two.accept(&id, &key, value("b")));
        a.result();
        b.result();
        let given = answers(&two.status(&id, "completed").await);
        assert!(given == json!([value("a")]) || given == json!([value("b")]), "{given}");
    }
}
