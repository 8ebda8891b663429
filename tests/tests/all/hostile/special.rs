//! Attacks that need more than one call.

use serde_json::json;

use super::{
    call::{attacked, seen},
    gauge::{Bystander, given_back, harmless, holds, napping},
    table::SPECIAL,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_attack_end_as_they_should() {
    let host = attacked(SPECIAL, "deadline = \"100ms\"\n").await;
    let client = host.client();
    let nap = napping(&host).await;
    let before = holds(&host);
    let bystander = Bystander::watch(&client, &nap);

    let deaf = client.task("deaf", json!({})).await;
    client.cancel(&deaf).await.result();
    client.status(&deaf, "cancelled").await;

    let asking = client.task("questions", json!({})).await;
    let mut answered = 0;
    let end = loop {
        let key = format!("q{}", if answered == 0 { String::new() } else { format!("_{}", answered + 1) });
        let task = client
            .until(&asking, "the next question or the end", |task| {
                task["status"].is_string()
                    && task["status"] != "working"
                    && (task["inputRequests"].is_null() || !task["inputRequests"][&key].is_null())
            })
            .await;
        if task["status"] != "input_required" {
            break task;
        }
        client.accept(&asking, &key, json!({})).await.result();
        answered += 1;
    };
    assert_eq!(end["result"]["_meta"]["layby/code"], "limit_questions", "after {answered} answers: {end}");
    assert_eq!(answered, 100);

    let task = client.task("question-escapes", json!({})).await;
    client.status(&task, "input_required").await;
    for args in [vec!["tasks", "list"], vec!["tasks", "show", &task], vec!["tasks", "list", "--json"]] {
        harmless(&host.command_text(&args).await, &format!("{args:?}"));
    }
    client.accept(&task, "q", json!({ "a": "x" })).await.result();
    client.status(&task, "completed").await;

    bystander.hears("tasks").await;
    harmless(&host.log(), "the log");
    given_back(&host, before, "tasks").await;
    assert_eq!(seen(&client.call("echo", json!({ "text": "x" })).await.message).0, "says");
}
