//! npm's SDKs without tasks: the one of both eras, and the one of the older revisions.

use layby_tests::issuer::{Issuer, free_port};
use serde_json::{Value, json};

use super::{Expect, Program, Row, all, asked, changes, event, fixtures, long, offers, plain, row, setup};

pub(super) const MODERN: Program = Program::Npm("modern.mjs");

/// Calls of a client without tasks, which end with the call.
pub(super) fn calls() -> Vec<Row> {
    let mut table = plain();
    table.extend([
        long(),
        row(json!({ "call": "protocol_error_job" }), Expect::Failed(-32603)),
        row(json!({ "call": "failing_job" }), Expect::Failed(-32021)),
        row(
            json!({ "call": "slow_compute", "arguments": { "seconds": 60 }, "cancelAfterMs": 700 }),
            Expect::Cancelled,
        ),
        row(json!({ "logLevel": "info" }), Expect::Done),
        row(json!({ "call": "test_logging_tool" }), Expect::Text("Logged three lines")),
        // The connection is as good as before.
        row(json!({ "call": "greet", "arguments": { "name": "Eve" } }), Expect::Text("Hello, Eve!")),
    ]);
    table
}

pub(super) fn progress_is_told(events: &[Value]) {
    // The SDK tells its own progress with questions, without a total.
    let told = all(events, "progress").into_iter().filter(|p| p["total"] == 100);
    let told: Vec<_> = told.filter_map(|p| p["progress"].as_f64()).collect();
    assert_eq!(told, [0.0, 50.0, 100.0], "{events:#?}");
}

#[tokio::test]
async fn the_client_of_both_eras_calls() {
    let host = fixtures().await;
    let events = MODERN.check(host.url(), json!({}), calls()).await;
    assert_eq!(event(&events, "connected")["version"], "2026-07-28");
    progress_is_told(&events);
    let levels: Vec<_> = all(&events, "log").iter().map(|log| log["level"].clone()).collect();
    assert_eq!(levels, ["info", "warning"]);
}

/// Questions as rounds of one call: whatever the client can answer, and nothing of tasks.
#[tokio::test]
async fn the_client_of_both_eras_answers_in_rounds() {
    let host = fixtures().await;
    let answers = json!({
        "confirm": { "confirm": true },
        "name": { "name": "Ada" },
        "*": { "name": "Ada", "confirm": true },
    });
    let table = vec![
        asked("old.txt", Expect::Text("Deleted old.txt")),
        row(json!({ "call": "test_input_required_result_elicitation" }), Expect::Text("Hello, Ada!")),
        row(json!({ "call": "test_input_required_result_sampling" }), Expect::Text("")),
        row(json!({ "call": "test_input_required_result_list_roots" }), Expect::Text("")),
        row(json!({ "call": "test_input_required_result_multiple_inputs" }), Expect::Text("")),
        row(json!({ "call": "multi_input" }), Expect::Text("")),
    ];
    let events = MODERN.check(host.url(), json!({ "answers": answers }), table).await;
    assert!(all(&events, "question").len() >= 7, "{events:#?}");
    for (answer, end) in [("decline", "Kept old.txt"), ("dismiss", "")] {
        let table = vec![asked("old.txt", Expect::Text(end))];
        MODERN.check(host.url(), json!({ "answers": { "confirm": answer } }), table).await;
    }
}

#[tokio::test]
async fn the_client_of_both_eras_uses_prompts_and_resources() {
    let host = fixtures().await;
    let mut table = offers();
    table.extend(changes());
    table.push(row(
        json!({ "prompt": "test_input_required_result_prompt" }),
        Expect::At("/messages/0/content/text", json!("Answer in this context: a test")),
    ));
    MODERN.check(host.url(), json!({ "answers": { "context": { "context": "a test" } } }), table).await;
}

/// The client finds the issuer by itself: a 401, this server's metadata, the issuer's, a token, and the call.
#[tokio::test]
async fn the_client_of_both_eras_gets_a_token_by_itself() {
    let port = free_port();
    let resource = format!("http://127.0.0.1:{port}/mcp");
    let issuer = Issuer::start(free_port(), &resource).await;
    let oauth =
        format!("[auth.oauth]\nissuer = {:?}\naudience = {resource:?}\nscopes = [\"call\"]\n", issuer.url());
    let host = setup().config(&oauth).port(port).start().await;
    let credentials =
        json!({ "clientId": "agent", "clientSecret": "agent-secret", "expectedIssuer": issuer.url() });
    let table =
        vec![row(json!({ "call": "greet", "arguments": { "name": "Ada" } }), Expect::Text("Hello, Ada!"))];
    MODERN.check(host.url(), json!({ "oauth": credentials }), table).await;
}
