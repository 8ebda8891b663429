//! Python's SDKs: `mcp` 2 with a driver for tasks, `fastmcp-tasks`, and `mcp` 1 of the older revisions.

use serde_json::json;

use super::{Expect, Program, Row, all, asked, changes, event, fixtures, long, offers, plain, row};

pub(super) const MODERN: Program = Program::Python("mcp2", "modern.py");
const AUTOMATIC: Program = Program::Python("fastmcp", "automatic.py");

/// Calls of a client with tasks.
pub(super) fn calls() -> Vec<Row> {
    let mut table = plain();
    table.extend([
        long(),
        row(json!({ "call": "failing_job" }), Expect::Error("This job intentionally fails")),
        asked("old.txt", Expect::Text("Deleted old.txt")),
        row(
            json!({ "call": "slow_compute", "arguments": { "seconds": 60 }, "cancelOn": "working" }),
            Expect::Cancelled,
        ),
        row(
            json!({ "call": "confirm_delete", "arguments": { "filename": "a" }, "cancelOn": "input_required" }),
            Expect::Cancelled,
        ),
    ]);
    table
}

#[tokio::test]
async fn the_sdk_follows_tasks_with_a_driver() {
    let host = fixtures().await;
    let mut table = calls();
    table.push(row(json!({ "call": "protocol_error_job" }), Expect::Failed(-32603)));
    let answers = json!({ "confirm": { "confirm": true } });
    let events = MODERN.check(host.url(), json!({ "answers": answers }), table).await;
    assert_eq!(event(&events, "connected")["version"], "2026-07-28");
    assert!(all(&events, "task").len() > 4, "{events:#?}");
    let table = vec![asked("old.txt", Expect::Text("Kept old.txt"))];
    MODERN.check(host.url(), json!({ "answers": { "confirm": "decline" } }), table).await;
}

#[tokio::test]
async fn fastmcp_follows_tasks_by_itself() {
    let host = fixtures().await;
    let mut table = calls();
    // It makes a result of a task's failure.
    table
        .push(row(json!({ "call": "protocol_error_job" }), Expect::Error("The tool \"protocol_error_job\"")));
    let answers = json!({ "confirm": { "confirm": true } });
    let events = AUTOMATIC.check(host.url(), json!({ "answers": answers }), table).await;
    assert!(!all(&events, "task").is_empty(), "{events:#?}");
    let table = vec![asked("old.txt", Expect::Text("Kept old.txt"))];
    AUTOMATIC.check(host.url(), json!({ "answers": { "confirm": "decline" } }), table).await;
}

#[tokio::test]
async fn both_use_prompts_and_resources() {
    let host = fixtures().await;
    let mut table = offers();
    table.extend(changes());
    MODERN.check(host.url(), json!({}), table).await;
    AUTOMATIC.check(host.url(), json!({}), offers()).await;
}
