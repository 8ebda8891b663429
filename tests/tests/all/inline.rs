//! Calls that end before the deadline, and how each way to end looks (design 5, the table of outcomes).

use layby_tests::{Setup, client::TASKS, error_code, result_code, text};
use serde_json::{Value, json};

#[tokio::test]
async fn a_quick_call_is_answered_inline_and_writes_nothing() {
    let host = Setup::new().plugin("echo", "").start().await;
    let client = host.client();
    for n in 0..20 {
        let reply = client.call("echo", json!({ "text": format!("hello {n}") })).await;
        assert_eq!(reply.status, 200);
        assert_eq!(text(reply.result()), format!("hello {n}"));
        assert_eq!(reply.result()["resultType"], "complete");
        assert_ne!(reply.result()["isError"], true);
    }
    // P2
    assert_eq!(host.tasks().await, Vec::<Value>::new());
    let discovered = client.request("server/discover", json!({})).await;
    let capabilities = &discovered.result()["capabilities"];
    // A client in the field takes a server for one without tasks unless this is exactly `{}`.
    assert_eq!(capabilities["extensions"][TASKS], json!({}));
    assert_eq!(capabilities["tools"]["listChanged"], true);
    assert!(discovered.result()["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
}

#[tokio::test]
async fn the_callers_mistakes_are_named() {
    let host = Setup::new().plugin("echo", "").start().await;
    let client = host.client();
    for (arguments, part) in
        [(json!({}), "text"), (json!({ "text": 5 }), "text"), (json!({ "text": [] }), "text")]
    {
        let reply = client.call("echo", arguments).await;
        let result = reply.result();
        assert_eq!(result["isError"], true);
        assert_eq!(result_code(result), "arguments_invalid");
        assert!(text(result).contains(part), "{result}");
    }
    let unknown = client.call("no_such_tool", json!({})).await;
    assert_eq!((unknown.rpc(), unknown.code()), (-32602, "tool_unknown"));
    assert!(unknown.message["error"]["message"].as_str().unwrap().contains("no_such_tool"));
}

#[tokio::test]
async fn structured_content_must_fit_the_output_schema() {
    let host = Setup::probe("").start().await;
    let client = host.client();
    let good = client.call("structured", json!({ "content": { "n": 7 } })).await;
    assert_eq!(good.result()["structuredContent"], json!({ "n": 7 }));
    assert_ne!(good.result()["isError"], true);
    for wrong in [json!({ "n": "seven" }), json!({}), json!([])] {
        let reply = client.call("structured", json!({ "content": wrong })).await;
        let result = reply.result();
        assert_eq!(result["isError"], true, "{wrong} {result}");
        assert_eq!(result_code(result), "output_invalid");
        assert!(text(result).contains("output schema"), "{result}");
    }
    let named = client.call("structured", json!({ "content": { "n": "seven" } })).await;
    assert!(text(named.result()).contains("/n"), "the path is named: {}", named.message);
    let broken = client.call("structured", json!({ "content": "no JSON {" })).await;
    assert_eq!((broken.rpc(), broken.code()), (-32603, "plugin_bad_result"));
}

#[tokio::test]
async fn a_plugins_own_errors_keep_their_code_unless_it_is_reserved() {
    let host = Setup::probe("").start().await;
    let client = host.client();
    for (code, seen) in [
        (-32602, -32602),
        (-32603, -32603),
        (-32000, -32603),
        (-32001, -32603),
        (-32021, -32603),
        (-32700, -32603),
        (-32768, -32603),
        (-32769, -32769),
        (-31999, -31999),
        (42, 42),
    ] {
        let arguments = json!({ "code": code, "message": "no luck", "data": { "why": "a test" } });
        let reply = client.call("protocol", arguments).await;
        assert_eq!(reply.rpc(), seen, "{code}: {}", reply.message);
        assert_eq!(reply.code(), "plugin_error");
        let error = &reply.message["error"];
        assert!(error["message"].as_str().unwrap().contains("no luck"), "{error}");
        assert!(error["data"].to_string().contains("a test"), "{error}");
    }
}

#[tokio::test]
async fn a_failure_is_for_the_model_and_a_trap_is_ours() {
    let host = Setup::probe("").start().await;
    let client = host.client();
    let failed = client.call("fail", json!({ "text": "the disk is full of cats" })).await;
    assert_eq!(failed.result()["isError"], true);
    assert!(text(failed.result()).contains("the disk is full of cats"));
    let root = host.setup().root().display().to_string();
    for arguments in [json!({}), json!({ "unreachable": true })] {
        let reply = client.call("trap", arguments).await;
        assert_eq!((reply.rpc(), reply.code()), (-32603, "plugin_trap"));
        let all = reply.message.to_string();
        for secret in [root.as_str(), ".rs:", ".wasm", "0x", "wasm backtrace", "/root"] {
            assert!(!all.contains(secret), "{secret:?} in {all}");
        }
    }
    assert!(host.log().contains("trap"), "the operator's log has it:\n{}", host.log());
    let unasked = client.call("cancelled", json!({})).await;
    assert_eq!((unasked.rpc(), unasked.code()), (-32603, "plugin_cancelled_unasked"));
    // Nobody is hurt.
    assert_eq!(text(client.call("say", json!({ "bytes": 3 })).await.result()), "xxx");
}

#[tokio::test]
async fn what_a_client_cannot_answer_is_named_exactly() {
    let host = Setup::probe("").start().await;
    let tasks = || json!({ TASKS: {} });
    for (kind, capabilities, required) in [
        ("form", json!({ "extensions": tasks() }), json!({ "elicitation": { "form": {} } })),
        ("url", json!({ "extensions": tasks(), "elicitation": {} }), json!({ "elicitation": { "url": {} } })),
        (
            "form",
            json!({ "extensions": tasks(), "elicitation": { "url": {} } }),
            json!({ "elicitation": { "form": {} } }),
        ),
        ("sampling", json!({ "extensions": tasks(), "elicitation": {} }), json!({ "sampling": {} })),
        ("roots", json!({ "extensions": tasks(), "sampling": {} }), json!({ "roots": {} })),
    ] {
        let client = host.client_with(capabilities);
        let reply = client.call("ask", json!({ "kind": kind, "insist": true })).await;
        assert_eq!(
            (reply.status, reply.rpc(), reply.code()),
            (400, -32021, "missing_client_capability"),
            "{kind}"
        );
        assert_eq!(reply.message["error"]["data"]["requiredCapabilities"], required, "{kind}");
        // A plugin that can do without goes on.
        let reply = client.call("ask", json!({ "kind": kind })).await;
        assert!(
            text(reply.result()).contains("unsupported") || text(reply.result()).contains("cannot"),
            "{}",
            reply.message
        );
    }
    assert_eq!(host.tasks().await, Vec::<Value>::new());
}

#[tokio::test]
async fn odd_content_blocks_are_ours_to_refuse() {
    let host = Setup::probe("").start().await;
    let client = host.client();
    let block = json!({ "type": "text", "text": "hi", "annotations": { "priority": 1.0 } });
    let good = client.call("other", json!({ "content": block })).await;
    assert_eq!(good.result()["content"][0]["annotations"]["priority"], 1.0);
    for wrong in [json!({ "type": "telepathy" }), json!(5), json!("{")] {
        let reply = client.call("other", json!({ "content": wrong })).await;
        assert_eq!(reply.rpc(), -32603, "{}", reply.message);
        assert_eq!(error_code(&reply.message), "plugin_bad_result");
    }
}

#[tokio::test]
async fn the_list_is_in_stable_order_and_says_how_long_it_holds() {
    let host = Setup::probe("").plugin("echo", "").plugin("conformance", "").start().await;
    let client = host.client();
    let reply = client.request("tools/list", json!({})).await;
    assert_eq!(reply.result()["ttlMs"], 5000);
    assert_eq!(reply.result()["cacheScope"], "public");
    let first = client.tool_names().await;
    assert!(first.len() > 20);
    let host = host.restart().await;
    assert_eq!(host.client().tool_names().await, first);
}
