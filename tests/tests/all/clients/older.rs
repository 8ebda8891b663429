//! The SDKs of the older revisions, and a newer one that falls back: one session, in which questions are pushed.

use serde_json::{Value, json};

use super::{
    Expect, Program, Row, all, asked, changes, event, fixtures, long,
    npm::{self, calls, progress_is_told},
    offers, plain, row,
};

pub(super) const NPM: Program = Program::Npm("legacy/legacy.mjs");
pub(super) const PYTHON: Program = Program::Python("mcp1", "legacy.py");

/// Answers to what the fixtures ask a client of an older revision.
pub(super) fn pushed() -> (Value, Vec<Row>) {
    let user = json!({ "username": "ada", "email": "ada@example.com" });
    let table = vec![
        asked("old.txt", Expect::Text("Deleted old.txt")),
        row(
            json!({ "call": "test_elicitation", "arguments": { "message": "Who?" } }),
            Expect::Text("User response: action: accept"),
        ),
        row(
            json!({ "call": "test_sampling", "arguments": { "prompt": "x" } }),
            Expect::Text("LLM response: Paris"),
        ),
    ];
    (json!({ "answers": { "confirm": { "confirm": true }, "username": user } }), table)
}

/// An older client: one session in which it calls, is asked, is told and cancels.
pub(super) async fn works_in_a_session(client: Program, plan: Value, target: &str) {
    let (answers, mut table) = pushed();
    let mut plan = plan;
    plan["answers"] = answers["answers"].clone();
    table.extend(calls());
    table.extend(offers());
    table.extend(changes());
    let events = client.check(target, plan, table).await;
    let connected = event(&events, "connected");
    assert_eq!(connected["era"], "legacy");
    // The SDK tells it over HTTP only.
    assert!(connected["version"].is_null() || connected["version"] == "2025-11-25", "{connected}");
    assert_eq!(all(&events, "question").len(), 3, "{events:#?}");
    // Over stdio the last may come in one read with the result, and the SDK then has forgotten who wanted it.
    if target.starts_with("http") {
        progress_is_told(&events);
    }
}

#[tokio::test]
async fn the_older_client_works_in_a_session() {
    let host = fixtures().await;
    works_in_a_session(NPM, json!({}), host.url()).await;
    for (answer, end) in [("decline", "Kept old.txt"), ("dismiss", "")] {
        let table = vec![asked("old.txt", Expect::Text(end))];
        NPM.check(host.url(), json!({ "answers": { "confirm": answer } }), table).await;
    }
}

#[tokio::test]
async fn the_client_of_both_eras_works_in_a_session_too() {
    let host = fixtures().await;
    works_in_a_session(npm::MODERN, json!({ "era": "legacy" }), host.url()).await;
}

/// What a client of an older revision can do: it is asked over its open stream, and cannot cancel.
pub(super) fn session() -> Vec<Row> {
    let mut table = plain();
    table.extend([
        long(),
        asked("old.txt", Expect::Text("Deleted old.txt")),
        row(
            json!({ "call": "test_sampling", "arguments": { "prompt": "x" } }),
            Expect::Text("LLM response: Paris"),
        ),
        row(json!({ "call": "protocol_error_job" }), Expect::Failed(-32603)),
        row(json!({ "call": "failing_job" }), Expect::Failed(-32021)),
        row(json!({ "logLevel": "info" }), Expect::Done),
        row(json!({ "call": "test_tool_with_logging" }), Expect::Text("Logged three lines")),
    ]);
    table.extend(offers());
    table.extend(changes());
    table
}

#[tokio::test]
async fn the_older_sdk_works_in_a_session() {
    let host = fixtures().await;
    let plan = json!({ "answers": { "confirm": { "confirm": true } } });
    let mut table = session();
    // The SDK gives up on its own, with a code of its own, and tells nobody. (Over stdio it trips over the late answer.)
    table.push(row(
        json!({ "call": "slow_compute", "arguments": { "seconds": 3 }, "giveUpAfterMs": 500 }),
        Expect::Failed(408),
    ));
    let events = PYTHON.check(host.url(), plan, table).await;
    assert_eq!(event(&events, "connected")["version"], "2025-11-25");
    assert_eq!(all(&events, "question").len(), 2, "{events:#?}");
    let logged = all(&events, "log")
        .into_iter()
        .filter(|log| log["data"].as_str().is_some_and(|d| d.starts_with("Tool ")));
    assert_eq!(logged.count(), 3, "{events:#?}");
    let table = vec![asked("old.txt", Expect::Text("Kept old.txt"))];
    PYTHON.check(host.url(), json!({ "answers": { "confirm": "decline" } }), table).await;
}
