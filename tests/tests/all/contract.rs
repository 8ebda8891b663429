//! What was built for a released version of the contract is served for as long as the README of
//! `tests/components` says.

use std::{collections::BTreeMap, fs, path::Path};

use layby_tests::{Client, Host, Setup, eventually, text};
use serde_json::{Value, json};

const POLICY: &str =
    "[call]\ndeadline = \"200ms\"\n[grants]\nask = [\"form\", \"roots\"]\nconfig = { color = \"blue\" }";

/// The components by their version.
fn released() -> BTreeMap<String, Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("components");
    let version = |path: &Path| {
        let stem = path.file_name()?.to_str()?.strip_suffix(".wasm")?;
        Some(stem.strip_prefix("plugin-")?.to_owned())
    };
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter_map(|path| Some((version(&path)?, fs::read(&path).unwrap()))).collect()
}

#[tokio::test]
async fn a_component_of_each_released_version_is_served() {
    let released = released();
    assert!(released.contains_key("1.0.0"), "{:?}", released.keys());
    for (version, bytes) in released {
        assert!(bytes.len() < 100_000, "{version} has {} bytes", bytes.len());
        let host = Setup::new().file("contract", &bytes, POLICY).arg("--log").arg("info").start().await;
        let serving = host.plugin("contract").await;
        assert_eq!(host.client().tools().await.len(), 6, "{version}: {serving}");
        asks_all(&host).await;
        ends_in_every_way(&host.client()).await;
        has_more_than_tools(&host.client()).await;
    }
}

/// The released component is what is built now, until there is a newer one.
#[tokio::test]
async fn the_source_still_does_what_was_released() {
    let host = Setup::new().plugin("contract", POLICY).arg("--log").arg("info").start().await;
    asks_all(&host).await;
    ends_in_every_way(&host.client()).await;
    has_more_than_tools(&host.client()).await;
}

/// Every function of `call`, and the standard imports.
async fn asks_all(host: &Host) {
    let client = host
        .client()
        .meta("progressToken", json!(1))
        .meta("io.modelcontextprotocol/logLevel", json!("debug"));
    let reply = client.call("contract_call", json!({ "a": 1 })).await;
    let methods: Vec<_> = reply.stream.iter().filter_map(|notice| notice["method"].as_str()).collect();
    assert_eq!(methods.iter().filter(|m| **m == "notifications/progress").count(), 1, "{methods:?}");
    assert_eq!(methods.iter().filter(|m| **m == "notifications/message").count(), 6, "{methods:?}");
    let id = reply.task();
    client.status(id, "input_required").await;
    let answers = json!({
        "form": { "action": "accept", "content": { "value": "x" } },
        "roots": { "roots": [{ "uri": "file:///work" }] },
    });
    client.update(id, answers).await.result();
    let task = client.status(id, "completed").await;
    let lines: Vec<_> = text(&task["result"]).lines().collect();
    assert_eq!(lines[..3], ["arguments {\"a\":1}", "supports true false false true", "color blue"]);
    assert!(lines[3].contains("\"value\":\"x\"") && lines[3].contains("file:///work"), "{lines:?}");
    assert_eq!(lines[4..], ["cancelled false"]);
    eventually("the line by wasi:logging", || async {
        host.log().contains("contract: a line by wasi:logging").then_some(())
    })
    .await;
    // A client that cannot answer.
    let poor = host.client_with(json!({}));
    assert_eq!(poor.call("contract_call", json!({})).await.rpc(), -32021);
}

async fn ends_in_every_way(client: &Client) {
    let reply = client.call("contract_content", json!({})).await;
    let result = reply.result();
    let kinds: Vec<_> =
        result["content"].as_array().unwrap().iter().map(|c| c["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "image", "audio", "resource_link", "resource", "resource", "text"]);
    assert_eq!(
        (&result["structuredContent"], &result["_meta"]["contract/result"]),
        (&json!({ "n": 1 }), &json!(true))
    );
    let failed = client.call("contract_failed", json!({})).await;
    assert_eq!((&failed.result()["isError"], text(failed.result())), (&json!(true), "it failed"));
    assert_eq!(client.call("contract_protocol", json!({})).await.rpc(), 7);
    assert_eq!(client.call("contract_unsupported", json!({})).await.code(), "plugin_unsupported");
    let id = client.task("contract_wait", json!({})).await;
    client.cancel(&id).await.result();
    client.status(&id, "cancelled").await;
}

async fn has_more_than_tools(client: &Client) {
    let given = async |method: &str, params: Value| client.request(method, params).await.result().clone();
    let list =
        async |method: &str, what: &str| given(method, json!({})).await[what].as_array().unwrap().len();
    assert_eq!(list("prompts/list", "prompts").await, 1);
    assert_eq!(list("resources/list", "resources").await, 1);
    assert_eq!(list("resources/templates/list", "resourceTemplates").await, 1);
    let prompt =
        given("prompts/get", json!({ "name": "contract_prompt", "arguments": { "part": "x" } })).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "part=x");
    let read = given("resources/read", json!({ "uri": "contract:///one" })).await;
    assert_eq!(read["contents"][0]["text"], "contents of contract:///one");
    let none = client.request("resources/read", json!({ "uri": "contract:///none" })).await;
    assert_eq!(none.code(), "resource_unknown");
    let params = json!({
        "ref": { "type": "ref/prompt", "name": "contract_prompt" },
        "argument": { "name": "part", "value": "x" },
    });
    let completed = given("completion/complete", params).await;
    assert_eq!(completed["completion"]["values"], json!(["x of part of contract_prompt, 0 settled"]));
}
