//! A network that fails at `COMMIT`: nobody hears whether it has happened.

use layby_tests::{Client, Recorder, Reply, Setup, Severed, client::everything, postgres::database, text};
use serde_json::{Value, json};

use super::{CONFIG, answers};

/// Each commit may be cut: one in so many.
const ONE_IN: usize = 3;

/// Sends until there is an answer that is none of the database's.
async fn send(client: &Client, method: &str, params: Value) -> Reply {
    let begin = std::time::Instant::now();
    loop {
        let reply = client.request(method, params.clone()).await;
        let code = reply.message["error"]["data"]["code"].as_str().unwrap_or_default();
        if !code.starts_with("store_") && code != "polling_too_fast" {
            return reply;
        }
        assert!(begin.elapsed() < layby_tests::wait::BOUND, "{}", reply.message);
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

/// Follows a task to its end, and answers what it asks.
async fn ended(client: &Client, id: &str) -> Value {
    let begin = std::time::Instant::now();
    loop {
        let task = send(client, "tasks/get", json!({ "taskId": id })).await.result().clone();
        if !matches!(task["status"].as_str(), Some("working" | "input_required")) {
            return task;
        }
        if let Some(asked) = task["inputRequests"].as_object().filter(|asked| !asked.is_empty()) {
            let answers: serde_json::Map<String, Value> = asked
                .keys()
                .map(|key| (key.clone(), json!({ "action": "accept", "content": { "value": key } })))
                .collect();
            send(client, "tasks/update", json!({ "taskId": id, "inputResponses": answers })).await.result();
        }
        assert!(begin.elapsed() < 2 * layby_tests::wait::BOUND, "it does not end: {task}");
        tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    }
}

/// The outcome of a call: a task's, or, where a repeat of a key finds that its run has ended, what that came to.
async fn outcome(client: &Client, tool: &str, arguments: Value) -> Value {
    let reply = send(client, "tools/call", json!({ "name": tool, "arguments": arguments })).await;
    if reply.result()["resultType"] == "task" {
        ended(client, reply.task()).await["result"].clone()
    } else {
        reply.result().clone()
    }
}

async fn task(client: &Client, tool: &str, arguments: Value) -> String {
    send(client, "tools/call", json!({ "name": tool, "arguments": arguments })).await.task().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commits_whose_answer_is_lost_happen_once() {
    let seed = std::env::var("LAYBYTEST_CRASH_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let (severed, url) = Severed::start(&database().await, seed).await;
    let server = Recorder::start().await;
    let policy = format!(
        "[call]\ndeadline = \"100ms\"\nlinger = \"0s\"\n[grants]\nask = [\"form\"]\n\
         http = [{{ allow = \"POST {}/*\" }}]",
        server.origin()
    );
    // What is cut is looked up within the lease.
    let config = CONFIG.replace("lease = \"1s\"", "lease = \"5s\"");
    let host = Setup::new().plugin("probe", &policy).config(&config).store(&url).start().await;
    let client = Client::new(host.url(), everything());
    severed.cut_one_in(ONE_IN);
    let lives = (0..8).map(|n| {
        let (client, origin) = (client.clone(), server.origin());
        async move {
            let path = |k: usize| json!({ "method": "POST", "url": format!("{origin}/{n}/{k}") });
            let sends = json!({ "requests": [path(0), path(1), path(2)], "nap_ms": 150 });
            let keyed = client.clone().meta("layby/idempotency-key", json!(format!("key {n}")));
            let sends = tokio::spawn(async move { outcome(&keyed, "fetch", sends).await });
            let asks = task(&client, "ask", json!({ "rounds": 3, "after_ms": 30 })).await;
            // Where the commit that would make it a task is cut before it happens, the call is held to its end.
            let naps =
                send(&client, "tools/call", json!({ "name": "nap", "arguments": { "ms": 800 } })).await;
            let got = ended(&client, &asks).await;
            let answer = |key: &str| json!({ "value": key });
            assert_eq!(got["status"], "completed", "{got}");
            assert_eq!(
                answers(&got),
                json!([answer("question"), answer("question_2"), answer("question_3")])
            );
            let kept = naps.result()["resultType"] == "task";
            let slept = match kept {
                true => ended(&client, naps.task()).await["result"].clone(),
                false => naps.result().clone(),
            };
            assert_eq!(text(&slept), "slept 800 ms");
            let sent = sends.await.unwrap();
            assert_eq!(sent["isError"], false, "{sent}");
            i64::from(kept)
        }
    });
    let kept: i64 = futures::future::join_all(lives).await.into_iter().sum();
    severed.cut_one_in(0);
    eprintln!("{} commits were cut", severed.cuts());
    assert!(severed.cuts() > 10, "{} cuts: nothing was tried", severed.cuts());
    // Each effect once, and each run's in its order.
    let lines = server.lines();
    assert_eq!(lines.len(), 24, "{lines:?}");
    for n in 0..8 {
        let of: Vec<&String> = lines.iter().filter(|line| line.starts_with(&format!("POST /{n}/"))).collect();
        assert_eq!(of, [&format!("POST /{n}/0"), &format!("POST /{n}/1"), &format!("POST /{n}/2")]);
    }
    // No row that nobody asked for, and none that was resumed because its host took it for lost.
    let rows = host.setup().database().counts().await;
    assert_eq!(rows.iter().map(|row| row.tasks).sum::<i64>(), 16 + kept, "{rows:?}");
    assert!(rows.iter().all(|row| row.status == "completed"), "{rows:?}");
}
