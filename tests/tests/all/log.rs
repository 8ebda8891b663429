//! What a plugin writes, in the host's log: which plugin, which tool, which task; and the standard interfaces.

use layby_tests::{Host, Setup, eventually, text};
use serde_json::{Value, json};

/// The first line of the log that has all of `parts`.
async fn line(host: &Host, parts: &[&str]) -> String {
    eventually(&format!("a line with {parts:?} in\n{}", host.log()), || async {
        let log = host.log();
        log.lines().find(|line| parts.iter().all(|part| line.contains(part))).map(str::to_owned)
    })
    .await
}

#[tokio::test]
async fn configuration_comes_from_the_policy() {
    let policy = "[grants]\nconfig = { units = \"metric\", empty = \"\" }";
    let host = Setup::probe(policy).plugin("echo", "").start().await;
    let read = async |key: &str| -> Value {
        let result = host.client().call("config", json!({ "key": key })).await;
        serde_json::from_str(text(result.result())).unwrap()
    };
    let all = json!({ "units": "metric", "empty": "" });
    assert_eq!(read("units").await, json!({ "one": "metric", "all": all }));
    assert_eq!(read("empty").await["one"], json!(""));
    assert_eq!(read("nothing").await["one"], Value::Null);
    let bare = Setup::new().plugin("probe", "").start().await;
    let result = bare.client().call("config", json!({ "key": "units" })).await;
    assert_eq!(text(result.result()), r#"{"one":null,"all":{}}"#, "nothing without a grant");
}

#[tokio::test]
async fn all_that_a_plugin_writes_names_plugin_tool_and_task() {
    let host = Setup::probe("[call]\ndeadline = \"300ms\"").start().await;
    let client = host.client();
    let all = json!(["logging", "stdout", "stderr"]);
    client.call("note", json!({ "to": all, "text": "inline word", "context": "here" })).await;
    let logged = line(&host, &["WARN", "here: inline word"]).await;
    for part in ["plugin=\"probe\"", "tool=\"note\""] {
        assert!(logged.contains(part), "{logged}");
    }
    assert!(!logged.contains("task="), "an inline call has no task: {logged}");
    let streams = host.log().lines().filter(|l| l.contains("INFO inline word")).count();
    assert_eq!(streams, 2, "standard output and standard error, each a line: {}", host.log());

    // Before the promotion there is no task; after it, every line has its id.
    let arguments = json!({ "to": all, "text": "slow word", "context": "there", "ms": 900 });
    let id = client.task("note", arguments).await;
    client.status(&id, "completed").await;
    let before = line(&host, &["there: slow word"]).await;
    assert!(!before.contains("task="), "{before}");
    let task = format!("task={id}");
    let parts = [task.as_str(), "plugin=\"probe\"", "tool=\"note\""];
    line(&host, &[&["WARN", "there: again slow word"][..], &parts].concat()).await;
    let streams = |log: String| {
        log.lines()
            .filter(|l| l.contains("INFO again slow word") && parts.iter().all(|p| l.contains(p)))
            .count()
    };
    assert_eq!(streams(host.log()), 2, "{}", host.log());
}
