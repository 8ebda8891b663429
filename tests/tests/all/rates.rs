//! How much one caller may ask for, and what it leaves to others.

use std::time::Duration;

use layby_tests::{Client, Host, Reply, Setup, command, command::layby, text};
use serde_json::{Value, json};

async fn token(setup: &Setup, name: &str) -> String {
    let done = command::run(layby(setup.root(), ["token", "--file", "tokens.toml", "new", name])).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    done.out.trim().to_owned()
}

fn with(host: &Host, token: &str) -> Client {
    host.client().header("authorization", &format!("Bearer {token}"))
}

/// A host whose callers have these bounds, and two of them.
async fn host(callers: &str) -> (Host, [String; 2]) {
    host_of("deadline = \"500ms\"\nlinger = \"0s\"\nhold = \"1s\"\n", callers).await
}

/// The same with these settings of calls.
async fn host_of(call: &str, callers: &str) -> (Host, [String; 2]) {
    let config = format!("[auth]\ntokens-file = \"tokens.toml\"\n[call]\n{call}\n{callers}");
    let setup = Setup::probe("").plugin("echo", "").config(&config);
    let tokens = [token(&setup, "one").await, token(&setup, "two").await];
    (setup.start().await, tokens)
}

async fn echo(client: &Client) -> Reply {
    client.call("echo", json!({ "text": "x" })).await
}

/// Checks a refusal for `limit`; how long it says to wait.
fn wait(reply: &Reply, limit: &str, value: u32) -> Duration {
    assert_eq!((reply.status, reply.code()), (429, "rate_limited"), "{}", reply.message);
    let data = &reply.message["error"]["data"];
    assert_eq!((&data["limit"], &data["perSecond"]), (&json!(limit), &json!(value)));
    assert!(reply.message["error"]["message"].as_str().unwrap().contains(limit), "{}", reply.message);
    assert_eq!(reply.headers.get("retry-after").map(|v| v.to_str().unwrap()), Some("1"));
    Duration::from_millis(data["retryAfterMs"].as_u64().unwrap())
}

#[tokio::test]
async fn a_caller_that_asks_too_often_waits_and_others_do_not() {
    let (host, tokens) = host("[callers]\ncalls = 2\npolls = 2\nrequests = 2\n").await;
    let [one, two] = tokens.map(|token| with(&host, &token));
    // All at once: a second's worth is taken.
    let many = futures::future::join_all((0..20).map(|_| echo(&one))).await;
    let refused: Vec<&Reply> = many.iter().filter(|reply| reply.status != 200).collect();
    assert!((1..=18).contains(&refused.len()), "{}", refused.len());
    let longest = refused.iter().map(|reply| wait(reply, "callers.calls", 2)).max().unwrap();
    assert!(longest <= Duration::from_millis(501), "{longest:?}");
    assert_eq!(text(echo(&two).await.result()), "x", "another caller has its own");

    let task = two.task("ask", json!({ "rounds": 1 })).await;
    let polls = futures::future::join_all((0..20).map(|_| two.get(&task))).await;
    wait(polls.iter().find(|reply| reply.status != 200).unwrap(), "callers.polls", 2);
    let lists = futures::future::join_all((0..20).map(|_| one.request("tools/list", json!({})))).await;
    wait(lists.iter().find(|reply| reply.status != 200).unwrap(), "callers.requests", 2);

    // Whoever waits as long as it is told is served.
    let mut reply = echo(&one).await;
    for _ in 0..20 {
        if reply.status == 200 {
            break;
        }
        tokio::time::sleep(wait(&reply, "callers.calls", 2)).await;
        reply = echo(&one).await;
    }
    assert_eq!(text(reply.result()), "x");
}

#[tokio::test]
async fn the_host_has_bounds_for_all_callers_together() {
    let setup = Setup::new().plugin("echo", "").config("[host]\ncalls = 2\n[callers]\ncalls = 1\n");
    let host = setup.start().await;
    // Nobody says who it is here: a caller's bound would be everybody's.
    let client = host.client();
    let many = futures::future::join_all((0..20).map(|_| echo(&client))).await;
    assert!(many.iter().filter(|reply| reply.status == 200).count() >= 2);
    wait(many.iter().find(|reply| reply.status != 200).unwrap(), "host.calls", 2);
}

/// The tasks of one caller, as many as it may have, and the refusal of one more.
async fn fill(client: &Client, most: usize) -> (Vec<String>, Value) {
    let mut tasks = Vec::new();
    for _ in 0..most {
        tasks.push(client.task("ask", json!({ "rounds": 1 })).await);
    }
    let refused = client.call("ask", json!({ "rounds": 1 })).await;
    (tasks, refused.message)
}

#[tokio::test]
async fn one_callers_tasks_leave_room_for_others() {
    let (host, tokens) = host("[callers]\nlive-tasks = 3\n").await;
    let [one, two] = [0, 1].map(|n| with(&host, &tokens[n]));
    let (tasks, refused) = fill(&one, 3).await;
    let told = refused.to_string();
    assert!(told.contains("too_many_tasks") && told.contains("callers.live-tasks"), "{told}");
    two.task("ask", json!({ "rounds": 1 })).await;
    // What ends makes room again; and a restart forgets nothing.
    one.cancel(&tasks[0]).await.result();
    one.status(&tasks[0], "cancelled").await;
    let again = one.task("ask", json!({ "rounds": 1 })).await;
    let host = host.restart().await;
    let one = with(&host, &tokens[0]);
    one.status(&again, "input_required").await;
    let refused = one.call("ask", json!({ "rounds": 1 })).await.message.to_string();
    assert!(refused.contains("callers.live-tasks"), "{refused}");
}

#[tokio::test]
async fn one_callers_runs_leave_room_for_others() {
    let (host, tokens) = host_of("deadline = \"500ms\"", "[callers]\nrunning = 2\nqueued = 1\n").await;
    let [one, two] = [0, 1].map(|n| with(&host, &tokens[n]));
    // In steps: a long sleep would make room.
    let long = json!({ "ms": 6000, "step_ms": 20 });
    let running = [one.task("nap", long.clone()).await, one.task("nap", long).await];
    let queued = one.task("echo", json!({ "text": "later" })).await;
    // Whoever is over is told where, and when to come back.
    let refused = echo(&one).await;
    assert_eq!((refused.status, refused.code()), (429, "caller_busy"), "{}", refused.message);
    let error = &refused.message["error"];
    assert_eq!((&error["data"]["limit"], &error["data"]["value"]), (&json!("callers.queued"), &json!(1)));
    assert!(error["message"].as_str().unwrap().contains("callers.queued"), "{error}");
    assert_eq!(refused.headers.get("retry-after").map(|v| v.to_str().unwrap()), Some("1"));
    // Another has its own, and is served at once: it would be a task after half a second.
    assert_eq!(text(echo(&two).await.result()), "x");
    assert_eq!(one.get(&queued).await.result()["status"], "working");
    for task in running {
        one.status(&task, "completed").await;
    }
    assert_eq!(text(&one.status(&queued, "completed").await["result"]), "later");
    assert_eq!(text(echo(&one).await.result()), "x");
}
