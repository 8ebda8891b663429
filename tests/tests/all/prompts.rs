//! Prompts, resources and completions: one run each, checked, bounded and told apart from tools.

use layby_tests::{Client, Host, Setup, chameleon, client::Reply};
use serde_json::{Value, json};

async fn host(policy: &str) -> Host {
    let prompts = json!([
        { "name": "greet", "arguments": [{ "name": "who", "required": true }, { "name": "sleep_ms" }] },
        { "name": "plain" },
    ]);
    let resources =
        json!([{ "uri": "test://one", "name": "one" }, { "uri": "test://missing", "name": "gone" }]);
    let templates = json!([{ "uriTemplate": "test://{id}/data", "name": "many" }]);
    let tools = json!([{ "name": "tool", "description": "A test's tool." }]);
    let bytes = chameleon::with_all("7", &tools, &prompts, &resources, &templates);
    Setup::new().file("chameleon", &bytes, policy).start().await
}

async fn prompt(client: &Client, name: &str, arguments: Value) -> Reply {
    client.request("prompts/get", json!({ "name": name, "arguments": arguments })).await
}

async fn read(client: &Client, uri: &str) -> Reply {
    client.request("resources/read", json!({ "uri": uri })).await
}

async fn complete(client: &Client, reference: Value, value: &str) -> Reply {
    let argument = json!({ "name": "who", "value": value });
    client.request("completion/complete", json!({ "ref": reference, "argument": argument })).await
}

fn refused(reply: &Reply, code: &str) {
    assert_eq!((reply.rpc(), reply.code()), (-32602, code), "{}", reply.message);
}

#[tokio::test]
async fn a_prompt_is_given_with_its_arguments() {
    let host = host("prefix = \"pre_\"").await;
    let client = host.client();
    let reply = prompt(&client, "pre_greet", json!({ "who": "Ada" })).await;
    let result = reply.result();
    assert_eq!((&result["resultType"], &result["messages"][0]["role"]), (&json!("complete"), &json!("user")));
    let text: Value =
        serde_json::from_str(result["messages"][0]["content"]["text"].as_str().unwrap()).unwrap();
    // The plugin's own name, without the prefix.
    assert_eq!(text, json!({ "version": "7", "prompt": "greet", "arguments": { "who": "Ada" } }));
    let reply = client.request("prompts/get", json!({ "name": "pre_plain" })).await;
    assert_eq!(reply.result()["messages"].as_array().unwrap().len(), 1);
    for name in ["greet", "pre_", "nobody"] {
        let reply = prompt(&client, name, json!({})).await;
        refused(&reply, "prompt_unknown");
        assert_eq!(reply.message["error"]["data"]["prompt"], name);
    }
    for (arguments, why) in [
        (json!({}), "\"who\" is required"),
        (json!({ "who": "x", "extra": "y" }), "no argument \"extra\""),
        (json!({ "who": 5 }), "must be a string"),
    ] {
        let reply = prompt(&client, "pre_greet", arguments).await;
        refused(&reply, "arguments_invalid");
        assert!(reply.message["error"]["message"].as_str().unwrap().contains(why), "{}", reply.message);
    }
}

#[tokio::test]
async fn a_resource_is_read_or_unknown() {
    let host = host("").await;
    let client = host.client();
    let reply = read(&client, "test://one").await;
    let result = reply.result();
    assert_eq!((&result["resultType"], &result["cacheScope"]), (&json!("complete"), &json!("private")));
    let contents = &result["contents"][0];
    assert_eq!((&contents["uri"], &contents["mimeType"]), (&json!("test://one"), &json!("application/json")));
    // Nobody has the second; the plugin knows nothing of the third any more.
    for uri in ["test://two", "test://missing"] {
        let reply = read(&client, uri).await;
        refused(&reply, "resource_unknown");
        assert_eq!(reply.message["error"]["data"]["uri"], uri);
    }
}

#[tokio::test]
async fn completions_come_from_who_has_the_argument() {
    let host = host("prefix = \"pre_\"").await;
    let client = host.client();
    let reply = complete(&client, json!({ "type": "ref/prompt", "name": "pre_greet" }), "gr").await;
    assert_eq!(
        reply.result()["completion"],
        json!({ "values": ["green", "grey"], "total": 2, "hasMore": false })
    );
    let template = json!({ "type": "ref/resource", "uri": "test://{id}/data" });
    assert_eq!(complete(&client, template, "r").await.result()["completion"]["values"], json!(["red"]));
    refused(&complete(&client, json!({ "type": "ref/prompt", "name": "greet" }), "").await, "prompt_unknown");
    let nobody = json!({ "type": "ref/resource", "uri": "test://nobody" });
    refused(&complete(&client, nobody, "").await, "resource_unknown");
}

#[tokio::test]
async fn what_is_no_tool_is_never_a_task() {
    let policy = "[call]\ndeadline = \"100ms\"\nhold = \"800ms\"\ngrace = \"100ms\"";
    let host = host(policy).await;
    let client = host.client();
    // Longer than the deadline, and held all the same.
    let reply = prompt(&client, "greet", json!({ "who": "x", "sleep_ms": "300" })).await;
    assert_eq!(reply.result()["resultType"], "complete");
    let reply = prompt(&client, "greet", json!({ "who": "x", "sleep_ms": "20000" })).await;
    assert_eq!((reply.rpc(), reply.code()), (-32603, "held_too_long"), "{}", reply.message);
    assert!(host.tasks().await.is_empty());
}

#[tokio::test]
async fn limits_are_errors_where_there_is_no_result_for_them() {
    let host = host("[limits]\narguments = \"64B\"\noutput = \"64B\"").await;
    let client = host.client();
    refused(&prompt(&client, "greet", json!({ "who": "x".repeat(100) })).await, "limit_arguments");
    refused(
        &complete(&client, json!({ "type": "ref/prompt", "name": "greet" }), &"x".repeat(100)).await,
        "limit_arguments",
    );
    let reply = prompt(&client, "greet", json!({ "who": "xxxxxxxxxxxxxxxxxxxx" })).await;
    assert_eq!((reply.rpc(), reply.code()), (-32603, "limit_output"), "{}", reply.message);
    assert_eq!(reply.message["error"]["data"]["prompt"], "greet");
}
