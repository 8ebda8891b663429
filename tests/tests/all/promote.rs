//! Calls that take too long: handles, their rows, and clients without tasks.

use std::time::{Duration, Instant};

use futures::StreamExt as _;
use layby_tests::{Host, Recorder, Setup, client::TASKS, eventually, result_code, text};
use serde_json::{Value, json};
use sqlx::{Connection as _, Executor as _, SqliteConnection};

const QUICK: &str = "[call]\ndeadline = \"200ms\"\nhold = \"2s\"\ngrace = \"300ms\"";

#[tokio::test]
async fn past_its_deadline_a_call_becomes_a_task_and_ends_with_its_result() {
    let host = Setup::probe(QUICK).start().await;
    let client = host.client();
    let reply = client.call("nap", json!({ "ms": 900 })).await;
    let handle = reply.result();
    let id = reply.task();
    assert_eq!(handle["status"], "working");
    for absent in ["inputRequests", "result", "error", "content"] {
        assert!(handle.get(absent).is_none(), "{absent} in {handle}");
    }
    // 10 minutes of active time and a day of absence, as design 6 has it, at the least.
    assert!(handle["ttlMs"].as_u64().unwrap() >= 24 * 3_600_000, "{handle}");
    let interval = handle["pollIntervalMs"].as_u64().unwrap();
    assert!((500..=30_000).contains(&interval), "{handle}");
    for time in ["createdAt", "lastUpdatedAt"] {
        assert!(handle[time].as_str().unwrap().ends_with('Z'), "{handle}");
    }
    let uuid: Vec<usize> = id.split('-').map(str::len).collect();
    assert_eq!((uuid, &id[14..15]), (vec![8, 4, 4, 4, 12], "4"));
    let task = client.ended(id).await;
    assert_eq!((&task["status"], &task["resultType"]), (&json!("completed"), &json!("complete")));
    assert_eq!(text(&task["result"]), "slept 900 ms");
    assert_eq!(task["createdAt"], handle["createdAt"]);
    // P6: it stays.
    assert_eq!(client.get(id).await.result(), &task);
}

#[tokio::test]
async fn every_way_to_end_has_its_place_in_a_task() {
    let host = Setup::probe("[call]\ndeadline = \"50ms\"").start().await;
    let client = host.client();
    let trapped = client.task("trap", json!({ "after_ms": 300 })).await;
    let failed = client.ended(&trapped).await;
    assert_eq!(failed["status"], "failed");
    assert_eq!(
        (&failed["error"]["code"], &failed["error"]["data"]["code"]),
        (&json!(-32603), &json!("plugin_trap"))
    );
    assert!(!failed["statusMessage"].as_str().unwrap_or_default().is_empty(), "{failed}");
    assert!(failed.get("result").is_none());
    let gone = client.task("ask", json!({ "before_ms": 300, "kind": "form", "schema": "{" })).await;
    let ended = client.ended(&gone).await;
    assert_eq!(ended["status"], "completed", "{ended}");
    assert!(text(&ended["result"]).contains("schema"), "{ended}");
    // A client that cannot answer, and a plugin that insists: the missing capability is the task's error.
    let poor = host.client_with(json!({ "extensions": { TASKS: {} } }));
    let stuck = poor.task("ask", json!({ "before_ms": 300, "insist": true })).await;
    let ended = poor.ended(&stuck).await;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("failed"), &json!(-32021)));
    assert_eq!(ended["error"]["data"]["requiredCapabilities"], json!({ "elicitation": { "form": {} } }));
}

/// P1: the row is there before the handle is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handle_resolves_in_the_same_instant_over_another_connection() {
    let host = Setup::probe("[call]\ndeadline = \"1ms\"").start().await;
    let mut beside = Vec::new();
    for _ in 0..8 {
        let (caller, poller) = (host.client(), host.client());
        beside.push(tokio::spawn(async move {
            for n in 0..25 {
                let (tool, arguments) =
                    if n % 2 == 0 { ("nap", json!({ "ms": 40 })) } else { ("ask", json!({})) };
                let id = caller.task(tool, arguments).await;
                let reply = poller.get(&id).await;
                assert!(reply.message["error"].is_null(), "poll {n}: {}", reply.message);
                poller.cancel(&id).await.result();
            }
        }));
    }
    for caller in beside {
        caller.await.unwrap();
    }
    assert_eq!(host.tasks().await.len(), 200);
}

#[tokio::test]
async fn a_client_without_tasks_is_held_and_then_told() {
    let host = Setup::probe(QUICK).start().await;
    let plain = host.client_with(json!({}));
    let within = plain.call("nap", json!({ "ms": 500 })).await;
    assert_eq!(text(within.result()), "slept 500 ms");
    let start = Instant::now();
    let past = plain.call("nap", json!({ "ms": 20_000 })).await;
    assert!(start.elapsed() >= Duration::from_secs(2), "held for {:?}", start.elapsed());
    assert_eq!((past.status, past.rpc()), (400, -32021));
    let required = &past.message["error"]["data"]["requiredCapabilities"];
    assert_eq!(required, &json!({ "extensions": { TASKS: {} } }));
    assert_eq!(host.tasks().await, Vec::<Value>::new());
    // The gate comes before the look-up.
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({ "taskId": "11111111-1111-4111-8111-111111111111", "inputResponses": {} });
        let gated = plain.request(method, params.clone()).await;
        assert_eq!((gated.status, gated.rpc()), (400, -32021), "{method}");
        let unknown = host.client().request(method, params).await;
        assert_eq!((unknown.rpc(), unknown.code()), (-32602, "task_unknown"), "{method}");
    }
}

#[tokio::test]
async fn a_tool_that_requires_tasks_does_not_start_without() {
    let host = Setup::new().plugin("probe", "[tools.nap.call]\nrequires-tasks = true").start().await;
    let start = Instant::now();
    let refused = host.client_with(json!({})).call("nap", json!({ "ms": 3000 })).await;
    assert_eq!((refused.status, refused.rpc()), (400, -32021));
    assert!(start.elapsed() < Duration::from_secs(3), "it ran first");
    assert_eq!(text(host.client().call("nap", json!({ "ms": 1 })).await.result()), "slept 1 ms");
}

#[tokio::test]
async fn progress_comes_before_the_result_where_it_was_asked_for() {
    let host = Setup::probe("").start().await;
    let client = host.client().meta("progressToken", json!("a token"));
    let reply = client.call("report", json!({ "count": 4, "pause_ms": 150 })).await;
    let (last, before) = reply.stream.split_last().expect("a stream");
    assert_eq!(text(&last["result"]), "reported 4 times");
    assert_eq!(before.len(), 4, "{before:?}");
    for (n, message) in before.iter().enumerate() {
        assert_eq!(message["method"], "notifications/progress");
        let params = &message["params"];
        assert_eq!(params["progressToken"], "a token");
        assert_eq!(params["progress"].as_f64(), Some(n as f64 + 1.0));
        assert_eq!(params["total"].as_f64(), Some(4.0));
        assert_eq!(params["message"], format!("step {}", n + 1));
    }
    // Values that are not finite or do not increase are dropped.
    let odd = client.call("report", json!({ "count": 3, "pause_ms": 150, "odd": true })).await;
    let values: Vec<f64> = odd.stream.iter().filter_map(|m| m["params"]["progress"].as_f64()).collect();
    assert_eq!(values, [1.0, 2.0, 3.0]);
    let silent = host.client().call("report", json!({ "count": 4 })).await;
    assert!(silent.stream.is_empty(), "no token, no stream: {:?}", silent.stream);
    // A client without tasks gets it, too.
    let plain = host.client_with(json!({})).meta("progressToken", json!(7));
    let reply = plain.call("report", json!({ "count": 2, "pause_ms": 150 })).await;
    assert_eq!(reply.stream.len(), 3);
    assert_eq!(reply.stream[0]["params"]["progressToken"], 7);
}

#[tokio::test]
async fn progress_arrives_while_the_tool_works_and_becomes_the_tasks_message() {
    let host = Setup::probe("[call]\ndeadline = \"700ms\"").start().await;
    let client = host.client().meta("progressToken", json!(1));
    let params = json!({ "name": "report", "arguments": { "count": 20, "pause_ms": 150 } });
    let mut stream = client.stream("tools/call", params).await;
    let first = stream.next().await.unwrap();
    assert_eq!(first["method"], "notifications/progress");
    let mut rest: Vec<Value> = stream.collect().await;
    let last = rest.pop().unwrap();
    assert_eq!(last["result"]["resultType"], "task", "{last}");
    let id = last["result"]["taskId"].as_str().unwrap();
    let says = |t: &Value| t["statusMessage"].as_str().is_some_and(|m| m.starts_with("step "));
    client.until(id, "progress as the status message", says).await;
    assert_eq!(text(&client.status(id, "completed").await["result"]), "reported 20 times");
}

#[tokio::test]
async fn a_limit_hit_in_a_task_is_a_result_that_a_model_can_act_on() {
    let host = Setup::probe("[call]\ndeadline = \"100ms\"\n[limits]\nactive-time = \"600ms\"").start().await;
    let client = host.client();
    let id = client.task("nap", json!({ "ms": 60_000 })).await;
    let task = client.status(&id, "completed").await;
    assert_eq!(task["result"]["isError"], true);
    assert_eq!(result_code(&task["result"]), "limit_active_time");
}

#[tokio::test]
async fn somebody_elses_task_reads_as_unknown() {
    let host = Setup::probe(QUICK).start().await;
    let client = host.client();
    let id = client.task("nap", json!({ "ms": 1500 })).await;
    // A forwarding header says that the peer is not the caller.
    let other = host.client().header("x-forwarded-for", "192.0.2.1");
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let reply = other.request(method, json!({ "taskId": id, "inputResponses": {} })).await;
        assert_eq!((reply.rpc(), reply.code()), (-32602, "task_unknown"), "{method}");
    }
    client.status(&id, "completed").await;
}

/// Somebody else writes to the database of this host, until this is dropped.
async fn locked(host: &Host) -> SqliteConnection {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(host.setup().data().join("layby.db"));
    let mut lock = SqliteConnection::connect_with(&options).await.unwrap();
    lock.execute("BEGIN IMMEDIATE").await.unwrap();
    lock
}

/// A store that takes nothing at the deadline holds the call, and it is a task as soon as the store takes it.
#[tokio::test]
async fn a_call_that_could_not_be_promoted_is_promoted_later() {
    let config = "[store]\nbusy-timeout = \"300ms\"\nlease = \"60s\"";
    let host = Setup::probe("[call]\ndeadline = \"200ms\"\nhold = \"50s\"").config(config).start().await;
    let mut lock = locked(&host).await;
    let client = host.client();
    let nap = json!({ "ms": 30_000, "step_ms": 20 });
    let call = tokio::spawn(async move { client.call("nap", nap).await });
    eventually("a call that cannot be promoted", || async {
        host.log().contains("cannot promote, holding the call").then_some(())
    })
    .await;
    assert!(!call.is_finished());
    lock.execute("ROLLBACK").await.unwrap();
    let back = Instant::now();
    let id = call.await.unwrap().task().to_owned();
    assert!(back.elapsed() < Duration::from_secs(15), "{:?}", back.elapsed());
    let client = host.client();
    assert_eq!(client.get(&id).await.result()["status"], "working");
    client.cancel(&id).await.result();
    client.status(&id, "cancelled").await;
    assert_eq!(host.tasks().await.len(), 1, "one run, one row");
}

/// While the store takes nothing the guest works on, and a call that ends in that time ends as if it had been quick.
#[tokio::test]
async fn a_call_that_cannot_be_promoted_ends_inline() {
    let config = "[store]\nbusy-timeout = \"1s\"\nlease = \"60s\"";
    let host = Setup::probe("[call]\ndeadline = \"100ms\"\nhold = \"50s\"").config(config).start().await;
    let mut lock = locked(&host).await;
    let start = Instant::now();
    let reply = host.client().call("nap", json!({ "ms": 4000, "step_ms": 10 })).await;
    assert_eq!(text(reply.result()), "slept 4000 ms");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(host.log().contains("cannot promote, holding the call"));
    lock.execute("ROLLBACK").await.unwrap();
    assert_eq!(host.tasks().await, Vec::<Value>::new());
}

/// Nor is its work lost where the lease runs out meanwhile: without a row nobody else could go on with it.
#[tokio::test]
async fn a_call_that_is_no_task_sends_without_a_lease() {
    let server = Recorder::start().await;
    let config = "[store]\nbusy-timeout = \"300ms\"\nlease = \"2s\"\ntakeover = \"1s\"";
    let policy = format!(
        "[call]\ndeadline = \"100ms\"\nhold = \"50s\"\n[grants]\nhttp = [{{ allow = \"POST {}/*\" }}]",
        server.origin()
    );
    let host = Setup::probe(&policy).config(config).start().await;
    let mut lock = locked(&host).await;
    let requests: Vec<Value> =
        (0..4).map(|n| json!({ "method": "POST", "url": format!("{}/{n}", server.origin()) })).collect();
    let client = host.client();
    let fetch = json!({ "requests": requests, "nap_ms": 1000 });
    let call = tokio::spawn(async move { client.call("fetch", fetch).await });
    server.reached(4).await;
    lock.execute("ROLLBACK").await.unwrap();
    let reply = call.await.unwrap();
    let result = reply.result();
    assert!(result.get("taskId").is_some() || result["isError"] != true, "{result}");
    let lines: Vec<String> = (0..4).map(|n| format!("POST /{n}")).collect();
    assert_eq!(server.lines(), lines, "each is sent once, in order");
    assert!(host.log().contains("cannot promote, holding the call"), "{}", host.log());
}

/// A host with as many tasks as it may have promotes once one has ended.
#[tokio::test]
async fn a_full_host_promotes_when_there_is_room() {
    let host = Setup::probe("[call]\ndeadline = \"100ms\"\nhold = \"50s\"")
        .config("[host]\nlive-tasks = 1")
        .start()
        .await;
    let client = host.client();
    let asks = client.task("ask", json!({})).await;
    let caller = host.client();
    let call = tokio::spawn(async move { caller.call("nap", json!({ "ms": 30_000, "step_ms": 20 })).await });
    eventually("a call that cannot be promoted", || async {
        host.log().contains("cannot promote, holding the call").then_some(())
    })
    .await;
    client.accept(&asks, "question", json!({ "value": "x" })).await.result();
    client.status(&asks, "completed").await;
    let id = call.await.unwrap().task().to_owned();
    client.cancel(&id).await.result();
    client.status(&id, "cancelled").await;
}

/// The run was told to stop before its row was committed: what there is then is handed on, and not ended.
#[tokio::test]
async fn a_call_that_becomes_a_task_as_the_host_stops_goes_on_elsewhere() {
    let gate = std::env::temp_dir().join(format!("layby-promotes-{}", std::process::id()));
    let reached = std::path::PathBuf::from(format!("{}.reached", gate.display()));
    let setup = Setup::probe(QUICK).config("[serve]\ndrain = \"4s\"\n");
    let pause = format!("task.promote.before=pause:{}", gate.display());
    let mut host = setup.env("LAYBY_FAILPOINTS", &pause).start().await;
    let client = host.client();
    let calling = tokio::spawn(async move { client.call("nap", json!({ "ms": 9000, "step_ms": 50 })).await });
    eventually("the call is being promoted", || async { reached.exists().then_some(()) }).await;
    host.signal("TERM");
    // Calls in flight have their time; then runs are told to stop, which nobody outside can see.
    tokio::time::sleep(std::time::Duration::from_millis(4500)).await;
    std::fs::write(&gate, "").unwrap();
    host.ended().await;
    // The handle may not have come any more: then the client knows of no task, and none is lost.
    let _ = calling.await;
    for file in [&gate, &reached] {
        std::fs::remove_file(file).unwrap();
    }
    let host = host.restart_without("LAYBY_FAILPOINTS").await;
    for task in host.tasks().await {
        let id = task["taskId"].as_str().unwrap();
        assert_eq!(text(&host.client().status(id, "completed").await["result"]), "slept 9000 ms");
    }
}
