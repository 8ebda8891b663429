//! A database server that is away for a while, and one that takes no writes.

use std::time::{Duration, Instant};

use layby_tests::{Client, Reply, Setup, client::everything, postgres::Cluster, text};
use serde_json::{Value, json};

use super::{answers, nap};

/// How long the server is away: longer than any lease of the hosts'.
const AWAY: Duration = Duration::from_secs(30);
/// A held call waits longer than the server is away.
const POLICY: &str =
    "[call]\ndeadline = \"300ms\"\nhold = \"55s\"\nlinger = \"0s\"\n[limits]\nconcurrency = 64";
const CONFIG: &str =
    "[store]\nlease = \"5s\"\ntakeover = \"1s\"\nbusy-timeout = \"2s\"\nstatement-timeout = \"3s\"";

fn setup(url: &str) -> Setup {
    Setup::probe(POLICY).config(CONFIG).store(url)
}

/// Asks until the database is there again.
async fn ask(client: &Client, method: &str, params: Value) -> Reply {
    let begin = Instant::now();
    loop {
        let reply = client.request(method, params.clone()).await;
        let code = reply.message["error"]["data"]["code"].as_str().unwrap_or_default();
        if !code.starts_with("store_") {
            return reply;
        }
        assert!(begin.elapsed() < layby_tests::wait::BOUND, "{}", reply.message);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Waits for the end of a task, however often the database is asked in vain.
async fn ended(client: &Client, id: &str) -> Value {
    let begin = Instant::now();
    loop {
        let task = ask(client, "tasks/get", json!({ "taskId": id })).await.result().clone();
        if !matches!(task["status"].as_str(), Some("working" | "input_required")) {
            return task;
        }
        assert!(begin.elapsed() < 2 * layby_tests::wait::BOUND, "it does not end: {task}");
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_away_for_half_a_minute_costs_no_task() {
    let cluster = Cluster::start();
    let url = cluster.url();
    let (one, two) = tokio::join!(setup(&url).start(), setup(&url).start());
    let (first, second) = (one.client(), two.client());
    // Under load: at work, asleep, waiting, and waiting with the answer on its way.
    let works = first.task("nap", nap(15_000)).await;
    let sleeps = second.task("nap", json!({ "ms": 10_000 })).await;
    let mut asked = Vec::new();
    for client in [&first, &second] {
        asked.push(client.task("ask", json!({ "rounds": 2 })).await);
    }
    let begin = Instant::now();
    cluster.stop();
    // What would become a task is held, and nothing of it is lost.
    let held = tokio::spawn({
        let client = Client::new(one.url(), everything());
        async move { client.call("nap", nap(3000)).await }
    });
    let becomes = tokio::spawn({
        let client = Client::new(two.url(), everything());
        async move { client.call("nap", nap(57_000)).await }
    });
    // A question is not put before it is kept: its call is held as well.
    let asks = tokio::spawn({
        let client = Client::new(one.url(), everything());
        async move { client.call("ask", json!({})).await }
    });
    // Calls that end in time need no database, all the while.
    let mut inline = 0;
    let mut slowest = Duration::ZERO;
    while begin.elapsed() < AWAY {
        for client in [&first, &second] {
            let sent = Instant::now();
            let reply = client.call("nap", json!({ "ms": 1 })).await;
            assert_eq!(text(reply.result()), "slept 1 ms");
            slowest = slowest.max(sent.elapsed());
            inline += 1;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let asked_in_vain = first.get(&works).await;
    assert_eq!(asked_in_vain.code(), "store_unreachable");
    cluster.go_on();
    let back = Instant::now();
    assert_eq!(text(held.await.unwrap().result()), "slept 3000 ms");
    eprintln!("{inline} calls ended inline meanwhile, the slowest in {slowest:?}");
    for id in &asked {
        for n in 0..2 {
            let task = loop {
                let task = ask(&second, "tasks/get", json!({ "taskId": id })).await.result().clone();
                if task["status"] == "input_required" {
                    break task;
                }
                assert_eq!(task["status"], "working", "{task}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            };
            let key = task["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
            let response = json!({ "action": "accept", "content": { "value": n.to_string() } });
            let params = json!({ "taskId": id, "inputResponses": { key.as_str(): response } });
            ask(&first, "tasks/update", params).await.result();
            first.until(id, "the answer to be taken", |task| task["inputRequests"][&key].is_null()).await;
        }
        let task = ended(&first, id).await;
        assert_eq!(task["status"], "completed", "{task}");
        assert_eq!(answers(&task), json!([{ "value": "0" }, { "value": "1" }]));
    }
    let question = asks.await.unwrap().task().to_owned();
    assert_eq!(
        ask(&second, "tasks/get", json!({ "taskId": question })).await.result()["status"],
        "input_required"
    );
    let late = becomes.await.unwrap().task().to_owned();
    assert_eq!(text(&ended(&first, &late).await["result"]), "slept 57000 ms");
    assert_eq!(text(&ended(&second, &sleeps).await["result"]), "slept 10000 ms");
    assert_eq!(text(&ended(&second, &works).await["result"]), "slept 15000 ms");
    eprintln!("all had ended {:?} after the database was back", back.elapsed());
    // Nothing is left of it.
    for host in [&one, &two] {
        let client = host.client();
        let ready = layby_tests::client::http().get(format!("{}/ready", host.base())).send().await.unwrap();
        assert!(ready.status().is_success());
        let id = client.task("nap", nap(400)).await;
        assert_eq!(text(&client.status(&id, "completed").await["result"]), "slept 400 ms");
    }
}

#[tokio::test]
async fn a_copy_that_takes_no_writes_is_refused_until_it_is_promoted() {
    let cluster = Cluster::start();
    let url = cluster.url();
    let host = setup(&url).start().await;
    let client = host.client();
    let asked = client.task("ask", json!({})).await;
    cluster.stop();
    cluster.demote();
    cluster.go_on();
    // One that starts says so, and one that runs takes nothing for written.
    let refused = setup(&url).start_failing().await;
    assert!(refused.err.contains("store_unreachable") && refused.err.contains("recovery"), "{refused:?}");
    let answer = json!({ "question": { "action": "accept", "content": { "value": "lost?" } } });
    let reply = client.update(&asked, answer.clone()).await;
    assert!(reply.code().starts_with("store_"), "{}", reply.message);
    cluster.promote();
    ask(&client, "tasks/update", json!({ "taskId": asked, "inputResponses": answer })).await.result();
    assert_eq!(ended(&client, &asked).await["status"], "completed");
}
