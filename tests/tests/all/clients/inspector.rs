//! The MCP Inspector's command line: one process for each request.

use layby_tests::{Host, text};
use serde_json::Value;

use super::{finish, fixtures, node};

/// Runs it; its exit code, and the JSON that it printed.
async fn inspect(host: &Host, era: &str, args: &[&str]) -> (Option<i32>, Value) {
    let mut command =
        node("inspector/node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js");
    command.args(["--cli", "--server-url", host.url(), "--transport", "http", "--protocol-era", era]);
    command.args(["--format", "json", "--quiet", "--method"]).args(args);
    // It keeps what it knows of servers there.
    command.env("HOME", host.setup().root());
    let done = finish(command).await;
    let printed = if done.out.trim().is_empty() { &done.err } else { &done.out };
    let json = serde_json::from_str(printed.lines().next().unwrap_or_default());
    (done.code, json.unwrap_or_else(|e| panic!("{e}: {done:?}")))
}

#[tokio::test]
async fn the_inspector_lists_and_calls() {
    let host = fixtures().await;
    let (code, told) = inspect(&host, "modern", &["initialize"]).await;
    assert_eq!((code, &told["result"]["protocolVersion"]), (Some(0), &"2026-07-28".into()));
    let (code, told) = inspect(&host, "modern", &["tools/list"]).await;
    let names = told["result"]["tools"].as_array().unwrap().iter();
    assert_eq!(code, Some(0));
    assert!(names.map(|t| &t["name"]).any(|name| name == "greet"), "{told}");
    let greet = ["tools/call", "--tool-name", "greet", "--tool-arg", "name=Ada"];
    let (code, told) = inspect(&host, "modern", &greet).await;
    assert_eq!((code, text(&told["result"])), (Some(0), "Hello, Ada!"));
    // It has no tasks here, so it is held.
    let slow =
        ["tools/call", "--tool-name", "slow_compute", "--tool-args-json", r#"{"seconds":1.5,"label":"x"}"#];
    let (code, told) = inspect(&host, "modern", &slow).await;
    assert_eq!(code, Some(0));
    assert!(text(&told["result"]).starts_with("Computed x"), "{told}");
    let (code, told) = inspect(&host, "modern", &["tools/call", "--tool-name", "test_error_handling"]).await;
    assert_eq!((code, &told["result"]["isError"]), (Some(5), &true.into()));
    let (code, told) = inspect(&host, "modern", &["tools/call", "--tool-name", "protocol_error_job"]).await;
    assert_eq!(code, Some(1));
    assert!(told["error"]["message"].as_str().unwrap().contains("crashed"), "{told}");
    // Its command line can answer nobody, and says so.
    let ask = ["tools/call", "--tool-name", "confirm_delete", "--tool-arg", "filename=x"];
    let (code, told) = inspect(&host, "modern", &ask).await;
    assert_eq!(code, Some(1), "{told}");
}

#[tokio::test]
async fn the_inspector_reads() {
    let host = fixtures().await;
    let (code, told) = inspect(&host, "modern", &["resources/read", "--uri", "test://static-text"]).await;
    let text = "This is the content of the static text resource.";
    assert_eq!((code, &told["result"]["contents"][0]["text"]), (Some(0), &text.into()), "{told}");
    let get = ["prompts/get", "--prompt-name", "test_simple_prompt"];
    let (code, told) = inspect(&host, "modern", &get).await;
    let text = "This is a simple prompt for testing.";
    assert_eq!((code, &told["result"]["messages"][0]["content"]["text"]), (Some(0), &text.into()), "{told}");
}
