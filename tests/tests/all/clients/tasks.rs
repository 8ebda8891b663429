//! npm's official tasks client, `@modelcontextprotocol/ext-tasks` over `@modelcontextprotocol/client`.

use std::{collections::BTreeSet, fs};

use layby_tests::{Host, Setup, text};
use serde_json::{Value, json};

use super::{Program, event, fixtures};

/// Runs `tests/clients/tasks.mjs` with a plan; the events that it printed.
async fn drive(host: &Host, plan: Value) -> Vec<Value> {
    Program::Npm("tasks.mjs").drive(host.url(), &plan).await
}

#[tokio::test]
async fn the_npm_client_promotes_and_polls() {
    let host = fixtures().await;
    let events = drive(&host, json!({ "tool": "greet", "arguments": { "name": "Ada" } })).await;
    assert_eq!(event(&events, "connected")["era"], "modern");
    assert_eq!(event(&events, "execution")["kind"], "immediate");
    assert_eq!(text(&event(&events, "outcome")["result"]), "Hello, Ada!");
    let events =
        drive(&host, json!({ "tool": "slow_compute", "arguments": { "seconds": 1.5, "label": "x" } })).await;
    assert_eq!(event(&events, "execution")["kind"], "task");
    assert_eq!(event(&events, "task")["status"], "working");
    let outcome = event(&events, "outcome");
    assert_eq!(outcome["status"], "completed");
    assert!(text(&outcome["result"]).starts_with("Computed x"), "{outcome}");
    let events = drive(&host, json!({ "tool": "protocol_error_job" })).await;
    let outcome = event(&events, "outcome");
    assert_eq!((&outcome["status"], &outcome["error"]["code"]), (&json!("failed"), &json!(-32603)));
    let events = drive(&host, json!({ "tool": "failing_job" })).await;
    assert_eq!(event(&events, "outcome")["result"]["isError"], true);
}

#[tokio::test]
async fn the_npm_client_answers_questions() {
    let host = fixtures().await;
    let plan = json!({ "tool": "confirm_delete", "arguments": { "filename": "old.txt" }, "answers": { "confirm": { "confirm": true } } });
    let events = drive(&host, plan).await;
    assert_eq!(event(&events, "question")["delivery"], "task-update");
    assert_eq!(text(&event(&events, "outcome")["result"]), "Deleted old.txt");
    let plan = json!({ "tool": "confirm_delete", "arguments": { "filename": "old.txt" }, "answers": { "confirm": "decline" } });
    assert_eq!(text(&event(&drive(&host, plan).await, "outcome")["result"]), "Kept old.txt");
    let answers =
        json!({ "first": { "name": "Ada", "confirm": true }, "second": { "name": "Eve", "confirm": false } });
    let events = drive(&host, json!({ "tool": "multi_input", "answers": answers })).await;
    let keys: BTreeSet<_> =
        events.iter().filter(|e| e["event"] == "question").map(|e| e["key"].to_string()).collect();
    assert_eq!(keys.len(), 2);
    let said = text(&event(&events, "outcome")["result"]).to_owned();
    assert!(said.contains("Ada") && said.contains("Eve"), "{said}");
}

#[tokio::test]
async fn the_npm_client_cancels_and_comes_back() {
    let host = fixtures().await;
    let slow = json!({ "seconds": 60, "label": "x" });
    let events =
        drive(&host, json!({ "tool": "slow_compute", "arguments": slow, "cancelOn": "working" })).await;
    assert_eq!(event(&events, "outcome")["status"], "cancelled");
    let asks =
        json!({ "tool": "confirm_delete", "arguments": { "filename": "a" }, "cancelOn": "input_required" });
    assert_eq!(event(&drive(&host, asks).await, "outcome")["status"], "cancelled");
    // Left by one process, taken up by another.
    let asks =
        json!({ "tool": "confirm_delete", "arguments": { "filename": "a" }, "detachOn": "input_required" });
    let left = drive(&host, asks).await;
    let reference = &event(&left, "detached")["reference"];
    let events =
        drive(&host, json!({ "resume": reference, "answers": { "confirm": { "confirm": true } } })).await;
    assert_eq!(text(&event(&events, "outcome")["result"]), "Deleted a");
}

/// The main job: a folder with duplicates, a question that lists them, and what is left.
#[tokio::test]
async fn the_npm_client_tidies_a_folder_once_it_approves() {
    for (answer, left) in [(json!("decline"), 4), (json!({ "delete": true, "keep": "first" }), 2)] {
        let setup = Setup::new();
        for (name, contents) in [("a.txt", "same"), ("b.txt", "same"), ("c.txt", "same"), ("d.txt", "other")]
        {
            fs::write(setup.files().join(name), contents).unwrap();
        }
        let grant = format!("{{ host = {}, guest = \"/folder\", write = true }}", json!(setup.files()));
        let policy = format!("[grants]\nask = [\"form\"]\nfiles = [{grant}]");
        let host = setup.plugin("tidy", &policy).start().await;
        let events =
            drive(&host, json!({ "tool": "tidy_folder", "answers": { "delete_duplicates": answer } })).await;
        let question = event(&events, "question");
        for name in ["a.txt", "b.txt", "c.txt"] {
            assert!(question["params"]["message"].as_str().unwrap().contains(name), "{question}");
        }
        assert_eq!(event(&events, "outcome")["status"], "completed", "{events:#?}");
        let files = fs::read_dir(host.setup().files()).unwrap().count();
        assert_eq!(files, left, "{events:#?}");
    }
}
