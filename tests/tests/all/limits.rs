//! Each limit, exceeded by a plugin that was built for it; and nobody else is hurt (P8).

use std::time::{Duration, Instant};

use layby_tests::{Setup, error_code, eventually, result_code, text};
use serde_json::{Value, json};

/// What a run may use: the answer names limit and value, and a model can act on it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_limit_of_a_run_is_named_with_its_value() {
    let call = "[call]\ndeadline = \"30s\"\n[limits]\n";
    for (limit, tool, arguments, code, parts) in [
        ("fuel = 50_000_000", "burn", json!({}), "limit_fuel", ["fuel", "50000000"]),
        ("memory = \"32MiB\"", "grow", json!({ "mib": 64 }), "limit_memory", ["memory", "32MiB"]),
        (
            "active-time = \"700ms\"",
            "nap",
            json!({ "ms": 60_000 }),
            "limit_active_time",
            ["active-time", "700ms"],
        ),
        (
            "active-time = \"700ms\"\nfuel = 9_000_000_000_000",
            "burn",
            json!({}),
            "limit_active_time",
            ["active-time", "700ms"],
        ),
        ("output = \"4KiB\"", "say", json!({ "bytes": 5000 }), "limit_output", ["output", "4KiB"]),
        ("output = \"64KiB\"", "say", json!({ "bytes": 30_000_000 }), "limit_output", ["output", "64KiB"]),
        (
            "arguments = \"1KiB\"",
            "fail",
            json!({ "text": "x".repeat(2000) }),
            "limit_arguments",
            ["limits.arguments", "1KiB"],
        ),
    ] {
        let host = Setup::probe(&format!("{call}{limit}")).start().await;
        let reply = host.client().call(tool, arguments).await;
        let result = reply.result();
        assert_eq!((&result["isError"], result_code(result)), (&json!(true), code), "{limit}");
        for part in parts {
            assert!(text(result).contains(part), "{limit}: {part} is missing in {}", text(result));
        }
        // Below it nothing is refused, and the host is as it was.
        assert_eq!(text(host.client().call("say", json!({ "bytes": 3 })).await.result()), "xxx");
    }
}

#[tokio::test]
async fn memory_that_is_refused_may_not_hide() {
    let host = Setup::probe("[limits]\nmemory = \"32MiB\"").start().await;
    let reply = host.client().call("grow", json!({ "mib": 64, "careful": true })).await;
    assert_eq!(reply.result()["isError"], true);
    let within = host.client().call("grow", json!({ "mib": 8 })).await;
    assert_eq!(text(within.result()), "took 8 MiB");
}

#[tokio::test]
async fn results_arguments_and_bodies_within_their_bounds_pass_whole() {
    let host = Setup::probe("").plugin("echo", "").start().await;
    let client = host.client();
    let long = "ü".repeat(400_000);
    let reply = client.call("echo", json!({ "text": long })).await;
    assert_eq!(text(reply.result()), long);
    assert_eq!(text(client.call("say", json!({ "bytes": 3_000_000 })).await.result()).len(), 3_000_000);
    let past = client.call("echo", json!({ "text": "x".repeat(2 << 20) })).await;
    assert_eq!(result_code(past.result()), "limit_arguments");
}

#[tokio::test]
async fn a_flood_of_progress_is_thinned_and_the_result_comes() {
    let host = Setup::probe("[limits]\nprogress = 5").start().await;
    let client = host.client().meta("progressToken", json!("t"));
    let start = Instant::now();
    let reply = client.call("report", json!({ "count": 50_000 })).await;
    let seconds = start.elapsed().as_secs() as usize + 1;
    assert_eq!(text(&reply.message["result"]), "reported 50000 times");
    let kept = reply.stream.len().saturating_sub(1);
    // Those of one second, and of each second that began meanwhile.
    assert!(kept <= 5 * (seconds + 1), "{kept} reports in {seconds} s");
    assert!(kept >= 1, "{:?}", reply.stream);
}

#[tokio::test]
async fn standard_error_is_kept_up_to_its_limit() {
    let host = Setup::probe("[limits]\nstderr = \"2KiB\"").start().await;
    let reply = host.client().call("shout", json!({ "stderr": 100_000, "line": "a line of its own" })).await;
    assert_eq!(text(reply.result()), "wrote 100000 and 0 bytes");
    let log = host.log();
    assert!(log.contains("a line of its own"), "{log}");
    let kept = log.matches('x').count();
    assert!((1000..=2300).contains(&kept), "{kept} bytes were kept");
    assert_eq!(log.matches("`stderr`").count(), 1, "one notice: {log}");
}

#[tokio::test]
async fn a_full_plugin_promotes_and_hurts_no_other() {
    let setup = Setup::probe("[call]\ndeadline = \"200ms\"\n[limits]\nconcurrency = 1");
    let host = setup.plugin("echo", "").start().await;
    let client = host.client();
    // In steps: a long sleep would make room.
    let first = client.task("nap", json!({ "ms": 2500, "step_ms": 20 })).await;
    let queued = client.task("nap", json!({ "ms": 10 })).await;
    assert_eq!(text(client.call("echo", json!({ "text": "unhurt" })).await.result()), "unhurt");
    assert_eq!(client.get(&queued).await.result()["status"], "working");
    client.status(&first, "completed").await;
    assert_eq!(text(&client.status(&queued, "completed").await["result"]), "slept 10 ms");
}

#[tokio::test]
async fn a_full_host_promotes_and_a_full_queue_says_so() {
    for host_limit in ["concurrency = 1\nqueue = 1", "memory = \"256MiB\"\nqueue = 1"] {
        let setup =
            Setup::probe("[call]\ndeadline = \"200ms\"").plugin("echo", "[call]\ndeadline = \"200ms\"");
        let host = setup.config(&format!("[host]\n{host_limit}")).start().await;
        let client = host.client();
        let first = client.task("nap", json!({ "ms": 3000, "step_ms": 20 })).await;
        let queued = client.task("echo", json!({ "text": "later" })).await;
        let full = client.call("echo", json!({ "text": "too much" })).await;
        assert_eq!((full.rpc(), full.code()), (-32603, "host_busy"), "{host_limit}");
        assert!(full.message.to_string().contains("host.queue"), "{}", full.message);
        client.status(&first, "completed").await;
        assert_eq!(text(&client.status(&queued, "completed").await["result"]), "later");
        assert_eq!(text(client.call("echo", json!({ "text": "now" })).await.result()), "now");
    }
}

#[tokio::test]
async fn waiting_runs_and_live_tasks_are_bounded() {
    // Without a journal they cannot be parked.
    let host = Setup::probe("[limits]\nparked = 2\njournal = \"0B\"").start().await;
    let client = host.client();
    let mut waiting = vec![client.task("ask", json!({})).await, client.task("ask", json!({})).await];
    let past = client.call("ask", json!({})).await;
    assert_eq!(result_code(past.result()), "limit_waiting");
    assert!(text(past.result()).contains("parked = 2"), "{}", past.message);
    client.accept(&waiting.remove(0), "question", json!({ "value": "x" })).await.result();
    layby_tests::eventually("a place", || async {
        (client.call("ask", json!({})).await.message["result"]["resultType"] == "task").then_some(())
    })
    .await;

    let host = Setup::probe("[call]\ndeadline = \"100ms\"\nhold = \"5s\"")
        .config("[host]\nlive-tasks = 2")
        .start()
        .await;
    let client = host.client();
    for _ in 0..2 {
        client.task("ask", json!({})).await;
    }
    let past = client.call("ask", json!({})).await;
    assert_eq!((past.rpc(), error_code(&past.message)), (-32603, "too_many_tasks"));
    // Work that cannot become a task is held instead.
    assert_eq!(text(client.call("nap", json!({ "ms": 600 })).await.result()), "slept 600 ms");
}

/// P8: loops, memory bombs and traps beside quick calls and polls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_that_misbehaves_hurts_nobody_else() {
    let bad = "[call]\ndeadline = \"100ms\"\ngrace = \"100ms\"\n[limits]\nfuel = 9_000_000_000_000\nmemory = \"64MiB\"";
    let host = Setup::probe(bad).plugin("echo", "").start().await;
    let client = host.client();
    let mut spinning = Vec::new();
    for _ in 0..8 {
        spinning.push(client.task("burn", json!({})).await);
    }
    let mut slowest = Duration::ZERO;
    for n in 0..20 {
        let start = Instant::now();
        assert_eq!(text(client.call("echo", json!({ "text": "quick" })).await.result()), "quick");
        client.get(&spinning[n % 8]).await.result();
        slowest = slowest.max(start.elapsed());
    }
    // Usual is 20 ms: spinners yield every millisecond of their work.
    assert!(slowest < Duration::from_secs(3), "{slowest:?} for a call and a poll");
    for id in &spinning {
        client.cancel(id).await.result();
    }
    for id in &spinning {
        client.status(id, "cancelled").await;
    }
    let bombs = (0..8).map(|_| client.call("grow", json!({ "mib": 500 })));
    for bomb in futures::future::join_all(bombs).await {
        let result: &Value = bomb.result();
        let result = if result["resultType"] == "task" {
            client.status(bomb.task(), "completed").await["result"].clone()
        } else {
            result.clone()
        };
        assert_eq!(result_code(&result), "limit_memory");
    }
    for trap in futures::future::join_all((0..20).map(|_| client.call("trap", json!({})))).await {
        assert_eq!(
            trap.message["result"]["resultType"].as_str().unwrap_or("error"),
            "error",
            "{}",
            trap.message
        );
    }
    assert_eq!(text(client.call("echo", json!({ "text": "alive" })).await.result()), "alive");
}

/// Answers `ask` until it ends: how often, and the task.
async fn answered(fuel: u64, linger: &str) -> (usize, Value) {
    let policy = format!(
        "[limits]\nfuel = {fuel}\n[call]\ndeadline = \"50ms\"\nlinger = \"{linger}\"\n[grants]\nask = [\"form\"]"
    );
    let host = Setup::probe(&policy).start().await;
    let client = host.client();
    let id = client.task("ask", json!({ "rounds": 60 })).await;
    let (mut last, mut answers) = (String::new(), 0);
    loop {
        let next = |task: &Value| {
            let asks = task["inputRequests"].as_object().and_then(|asked| asked.keys().next());
            // An error is no state.
            task["status"].is_string() && task["status"] != "working" && asks != Some(&last)
        };
        let task = client.until(&id, "the next question", next).await;
        let Some(key) = task["inputRequests"].as_object().and_then(|asked| asked.keys().next()) else {
            return (answers, task);
        };
        if linger == "0s" {
            // An answer that is faster than parking costs no replay.
            eventually("the task is parked", || async {
                let tasks = host.tasks().await;
                tasks.iter().any(|task| task["taskId"] == id.as_str() && task["parked"] == true).then_some(())
            })
            .await;
        }
        client.accept(&id, key, json!({ "value": "on" })).await.result();
        answers += 1;
        last = key.clone();
    }
}

/// Each answer to a parked run has all that it did before done again: that is bounded too, and nothing else pays for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_replays_too_much_is_ended() {
    let (answers, held) = answered(1_000_000_000, "60s").await;
    assert_eq!((answers, &held["status"]), (60, &json!("completed")), "{held}");
    let fuel = held["result"]["_meta"]["layby/receipt"]["fuel"].as_u64().expect("fuel");
    // Enough for the run itself; its replays take some thirty times as much.
    let (answers, task) = answered(fuel + fuel / 20, "0s").await;
    assert_eq!(result_code(&task["result"]), "limit_replay", "{task}");
    assert!(text(&task["result"]).contains("10 times limits.fuel"), "{task}");
    assert!((15..=60).contains(&answers), "{answers}");
    let (answers, task) = answered(6 * fuel, "0s").await;
    assert_eq!((answers, &task["status"]), (60, &json!("completed")), "{task}");
    assert_eq!(task["result"]["content"], held["result"]["content"]);
    // Each run has its own seed, and so its own few instructions more or less; sixty replays would be thirty times as much.
    let used = task["result"]["_meta"]["layby/receipt"]["fuel"].as_u64().expect("fuel");
    assert!(used.abs_diff(fuel) < fuel / 20, "{used} and {fuel}");
}
