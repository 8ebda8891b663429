//! Log messages to clients of today, and the caller's trace in the host's log.

use layby_tests::{Setup, eventually};
use serde_json::{Value, json};

#[tokio::test]
async fn log_messages_come_from_the_level_on_that_the_request_names() {
    let host = Setup::probe("").start().await;
    let client = host.client();
    let levels = async |wanted: Option<&str>| {
        let client = match wanted {
            Some(level) => client.clone().meta("io.modelcontextprotocol/logLevel", json!(level)),
            None => client.clone(),
        };
        let reply = client.call("log", json!({ "text": "t" })).await;
        reply.result();
        let told = reply.stream.iter().filter(|m| m["method"] == "notifications/message");
        told.map(|m| m["params"]["level"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(levels(None).await.is_empty());
    assert_eq!(levels(Some("debug")).await.len(), 6);
    assert_eq!(levels(Some("warning")).await, ["warning", "error", "critical"]);
    assert_eq!(levels(Some("emergency")).await, ["critical"], "the gravest that a plugin has");
    for wrong in [json!("loud"), json!(5), Value::Null] {
        let reply =
            client.clone().meta("io.modelcontextprotocol/logLevel", wrong).call("log", json!({})).await;
        assert_eq!((reply.rpc(), reply.code()), (-32602, "params_invalid"));
    }
}

/// A panic's line names files of whoever built the plugin.
#[tokio::test]
async fn what_a_plugin_writes_to_its_standard_streams_is_the_operators_alone() {
    let host = Setup::probe("").arg("--log").arg("info").start().await;
    let client = host.client().meta("io.modelcontextprotocol/logLevel", json!("debug"));
    let reply = client.call("shout", json!({ "stderr": 100, "stdout": 100, "line": "only here" })).await;
    reply.result();
    assert!(reply.stream.is_empty(), "{:?}", reply.stream);
    let reply = client.call("trap", json!({})).await;
    assert_eq!(reply.rpc(), -32603);
    assert!(reply.stream.is_empty(), "{:?}", reply.stream);
}

#[tokio::test]
async fn the_caller_s_trace_goes_on_in_the_log_also_of_a_task() {
    let host = Setup::probe("[call]\ndeadline = \"100ms\"").arg("--log").arg("info").start().await;
    let client = host.client();
    let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let traced = client.clone().meta("traceparent", json!(format!("00-{trace}-{span}-01")));
    traced.call("log", json!({ "text": "quick" })).await.result();
    let id = traced.task("nap", json!({ "ms": 500 })).await;
    client.status(&id, "completed").await;
    eventually("the plugin's line with its trace", || async {
        let log = host.log();
        let line = log.lines().find(|line| line.contains("quick info"))?.to_owned();
        assert!(line.contains(&format!("trace_id={trace}")), "{line}");
        assert!(line.contains(&format!("parent_id={span}")), "{line}");
        let own = line.split("span_id=").nth(1)?.get(..16)?.to_owned();
        assert!(own != span && own.bytes().all(|b| b.is_ascii_hexdigit()), "{line}");
        Some(())
    })
    .await;
    // One that is malformed is none.
    client.clone().meta("traceparent", json!("00-xyz")).call("log", json!({ "text": "lost" })).await.result();
    eventually("the plugin's line without one", || async {
        let line = host.log().lines().find(|line| line.contains("lost info"))?.to_owned();
        assert!(!line.contains("trace_id="), "{line}");
        Some(())
    })
    .await;
}
