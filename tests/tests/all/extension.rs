//! What the official suite leaves out of the tasks extension. Questions and their keys are in `input.rs`,
//! ends in `cancel.rs` and `promote.rs`, the TTL's restart in `restart.rs`.

use std::collections::HashSet;

use layby_tests::{Client, Setup, client::TASKS, eventually, text};
use serde_json::{Value, json};

const METHODS: [&str; 3] = ["tasks/get", "tasks/update", "tasks/cancel"];

async fn each(client: &Client, id: &str) -> Vec<layby_tests::Reply> {
    let mut replies = Vec::new();
    for method in METHODS {
        replies.push(client.request(method, json!({ "taskId": id, "inputResponses": {} })).await);
    }
    replies
}

fn keys(task: &Value) -> Vec<&String> {
    task["inputRequests"].as_object().map(|m| m.keys().collect()).unwrap_or_default()
}

#[tokio::test]
async fn an_id_that_nobody_has_is_unknown_and_the_capability_comes_first() {
    let host = Setup::new().start().await;
    for id in
        ["no-uuid", "11111111-1111-4111-8111-111111111111", "11111111-1111-1111-1111-11111111111g", "-1"]
    {
        for reply in each(&host.client(), id).await {
            assert_eq!((reply.rpc(), reply.code()), (-32602, "task_unknown"), "{id}: {}", reply.message);
        }
        for reply in each(&host.client_with(json!({})), id).await {
            assert_eq!((reply.status, reply.rpc()), (400, -32021), "{id}: {}", reply.message);
        }
    }
}

#[tokio::test]
async fn only_the_extension_on_the_request_itself_declares_tasks() {
    let host = Setup::probe("[call]\ndeadline = \"100ms\"\nhold = \"800ms\"").start().await;
    let client = host.client();
    let id = client.task("ask", json!({})).await;
    let legacy = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    for capabilities in [
        json!({}),
        json!({ "tasks": legacy }),
        json!({ "tasks": legacy, "elicitation": {}, "extensions": {} }),
        json!({ "extensions": { "io.modelcontextprotocol/task": {}, "example.com/tasks": {} } }),
        json!({ "experimental": { TASKS: {} } }),
    ] {
        // The same connections, over which another request did declare it.
        let poor = client.declaring(capabilities.clone());
        assert_eq!(text(poor.call("nap", json!({ "ms": 300 })).await.result()), "slept 300 ms");
        let held = poor.call("nap", json!({ "ms": 20_000 })).await;
        assert_eq!((held.status, held.rpc()), (400, -32021), "{capabilities}: {}", held.message);
        for reply in each(&poor, &id).await {
            assert_eq!((reply.status, reply.rpc()), (400, -32021), "{capabilities}: {}", reply.message);
            let required = &reply.message["error"]["data"]["requiredCapabilities"];
            assert_eq!(required, &json!({ "extensions": { TASKS: {} } }), "{capabilities}");
        }
    }
    // Settings that a later revision of the extension may define are no reason to refuse.
    let later = client.declaring(json!({ "extensions": { TASKS: { "push": true } } }));
    assert_eq!(later.get(&id).await.result()["status"], "input_required");
    assert_eq!(host.tasks().await.len(), 1, "only the first was promoted");
}

#[tokio::test]
async fn ids_are_random_and_never_the_same() {
    let host = Setup::probe("").start().await;
    let client = host.client();
    let mut ids = HashSet::new();
    let mut nibbles = [0_u32; 16];
    for _ in 0..100 {
        let id = client.task("ask", json!({})).await;
        let digits: Vec<usize> = id.chars().filter_map(|c| c.to_digit(16)).map(|d| d as usize).collect();
        assert_eq!((id.len(), digits.len()), (36, 32), "{id}");
        assert_eq!(id, id.to_lowercase());
        // RFC 9562: version 4, variant 0b10.
        assert_eq!((&id[14..15], digits[16] & 0b1100), ("4", 0b1000), "{id}");
        for (at, digit) in digits.into_iter().enumerate() {
            if at != 12 && at != 16 {
                nibbles[digit] += 1;
            }
        }
        client.cancel(&id).await.result();
        assert!(ids.insert(id));
    }
    // 3,000 hexadecimal digits, each expected 187.5 times: 8 standard deviations (13.3) on either side.
    assert!(nibbles.iter().all(|n| (80..=295).contains(n)), "not random: {nibbles:?}");
    // No counter and no time in front: the first eight digits all differ.
    let heads: HashSet<&str> = ids.iter().map(|id| &id[..8]).collect();
    assert_eq!(heads.len(), ids.len());
}

#[tokio::test]
async fn a_handle_is_a_seed_and_carries_no_payload() {
    let host = Setup::probe("[call]\ndeadline = \"1ms\"").start().await;
    let client = host.client();
    for (tool, arguments) in [
        ("nap", json!({ "ms": 300 })),
        ("ask", json!({ "at_once": 3 })),
        ("trap", json!({ "after_ms": 300 })),
    ] {
        let reply = client.call(tool, arguments).await;
        let handle = reply.result().as_object().unwrap();
        assert_eq!(handle["resultType"], "task");
        let known = [
            "resultType",
            "taskId",
            "status",
            "statusMessage",
            "createdAt",
            "lastUpdatedAt",
            "ttlMs",
            "pollIntervalMs",
            "_meta",
        ];
        let odd: Vec<_> = handle.keys().filter(|k| !known.contains(&k.as_str())).collect();
        assert!(odd.is_empty(), "{odd:?} in {handle:?}");
    }
}

#[tokio::test]
async fn cancelled_and_failed_say_why() {
    let host = Setup::probe("[call]\ndeadline = \"50ms\"\ngrace = \"200ms\"").start().await;
    let client = host.client();
    let cancelled = client.task("nap", json!({ "ms": 60_000, "step_ms": 20 })).await;
    client.cancel(&cancelled).await.result();
    let task = client.status(&cancelled, "cancelled").await;
    assert!(!task["statusMessage"].as_str().unwrap_or_default().is_empty(), "{task}");
    assert!(["result", "error", "inputRequests"].iter().all(|m| task.get(m).is_none()), "{task}");

    let failed = client.task("trap", json!({ "after_ms": 300 })).await;
    let task = client.status(&failed, "failed").await;
    let said = task["statusMessage"].as_str().unwrap_or_default();
    assert!(!said.is_empty() && task["error"]["message"].as_str().unwrap().contains(said), "{task}");
    assert!(["result", "inputRequests"].iter().all(|m| task.get(m).is_none()), "{task}");

    // `isError` is a result: the task is completed.
    let told = client.task("ask", json!({ "before_ms": 300, "rounds": 0 })).await;
    assert_eq!(client.ended(&told).await["status"], "completed");
    // The time of the last change moved, and stays.
    let task = client.get(&failed).await.result().clone();
    assert!(task["lastUpdatedAt"].as_str() >= task["createdAt"].as_str(), "{task}");
    assert_eq!(client.get(&failed).await.result(), &task);
}

#[tokio::test]
async fn keys_never_come_back() {
    let host = Setup::probe("").start().await;
    let client = host.client();
    // A plugin that numbers its keys itself meets the host's numbers.
    let id = client.task("ask", json!({ "rounds": 3, "at_once": 2, "key": "k_2" })).await;
    let mut seen = HashSet::new();
    for round in 0..3 {
        let task = client.until(&id, "two new questions", |t| {
            let keys = keys(t);
            keys.len() == 2 && keys.iter().all(|k| !seen.contains(*k))
        });
        let task = task.await;
        let mut answers = json!({});
        for key in keys(&task) {
            assert!(seen.insert(key.clone()), "{key} again in round {round}");
            // One is declined: it is answered all the same.
            answers[key.as_str()] = json!({ "action": "decline" });
        }
        // What was answered before, and what nobody asked, is ignored, and takes nothing with it.
        for late in &seen {
            if answers.get(late).is_none() {
                answers[late.as_str()] = json!("no answer at all");
            }
        }
        answers["k"] = json!({ "action": "dance" });
        client.update(&id, answers).await.result();
    }
    let got: Value = serde_json::from_str(text(&client.status(&id, "completed").await["result"])).unwrap();
    assert_eq!(got["answers"], json!(vec!["declined"; 6]));
    // Nothing but strangers: acknowledged, and nothing changes.
    let id = client.task("ask", json!({})).await;
    let before = client.get(&id).await.result().clone();
    client.update(&id, json!({ "stranger": { "action": "accept" } })).await.result();
    assert_eq!(client.get(&id).await.result(), &before);
}

/// P7, by a clock that the test moves: nothing of this waits.
#[tokio::test]
async fn past_its_ttl_a_task_is_told_from_one_that_never_was() {
    let setup = Setup::probe("[call]\ndeadline = \"50ms\"\nabsence = \"1h\"");
    let clock = setup.root().join("clock");
    let host = setup.env("LAYBYTEST_CLOCK", &clock.display().to_string()).start().await;
    let client = host.client();
    let id = client.task("nap", json!({ "ms": 200 })).await;
    let task = client.status(&id, "completed").await;
    let ttl = task["ttlMs"].as_u64().unwrap();
    assert!(ttl >= 3_600_000, "{task}");
    // Shortly before its end it is still there, a minute after it no more.
    std::fs::write(&clock, (ttl - 60_000).to_string()).unwrap();
    eventually("a clock that was moved", || async {
        // By more than an hour: the hour is another.
        let hour = |time: &Value| time.as_str().unwrap()[..13].to_owned();
        let later = client.call("ask", json!({})).await;
        (hour(&later.result()["createdAt"]) > hour(&task["lastUpdatedAt"])).then_some(())
    })
    .await;
    assert_eq!(client.get(&id).await.result(), &task);
    std::fs::write(&clock, (ttl + 60_000).to_string()).unwrap();
    eventually("the end of its TTL", || async {
        client.get(&id).await.message["error"].is_object().then_some(())
    })
    .await;
    let other = host.client().header("x-forwarded-for", "192.0.2.1");
    for reply in each(&client, &id).await {
        assert_eq!((reply.rpc(), reply.code()), (-32602, "task_expired"), "{}", reply.message);
        assert_eq!(reply.message["error"]["data"]["status"], "completed");
    }
    // Somebody else's is unknown, expired or not.
    for reply in each(&other, &id).await {
        assert_eq!((reply.rpc(), reply.code()), (-32602, "task_unknown"), "{}", reply.message);
    }
}

/// Only `tools/call` becomes a task, whatever the client declares.
#[tokio::test]
async fn no_other_method_gives_a_handle() {
    let policy = "[call]\ndeadline = \"1ms\"\n[grants]\nask = [\"form\"]";
    let host = Setup::new().plugin("conformance", policy).start().await;
    let client = host.client();
    for (method, params) in [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "test_simple_prompt" })),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "test://static-text" })),
        (
            "completion/complete",
            json!({
            "ref": { "type": "ref/prompt", "name": "test_prompt_with_arguments" },
            "argument": { "name": "arg1", "value": "t" } }),
        ),
    ] {
        let reply = client.request(method, params).await;
        assert_eq!(reply.result()["resultType"], "complete", "{method}: {}", reply.message);
    }
    // A prompt that asks is asked again with the answer, and waits as a row that is nobody's task.
    let asks = client.request("prompts/get", json!({ "name": "test_input_required_result_prompt" })).await;
    assert_eq!(asks.result()["resultType"], "input_required", "{}", asks.message);
    let rows = host.tasks().await;
    let get = client.request("tasks/get", json!({ "taskId": rows[0]["taskId"] })).await;
    assert_eq!((rows.len(), get.code()), (1, "task_unknown"), "{}", get.message);
}
