//! Clients that start a host of their own, and speak with it over its standard input and output.

use serde_json::json;

use super::{
    event, npm, offers,
    older::{self, pushed, session, works_in_a_session},
    python, setup, stdio,
};

#[tokio::test]
async fn both_start_a_host_of_their_own() {
    let setup = setup();
    works_in_a_session(older::NPM, json!({}), &stdio(&setup)).await;
    let (plan, mut table) = pushed();
    table.extend(npm::calls());
    table.extend(offers());
    let events = npm::MODERN.check(&stdio(&setup), plan, table).await;
    assert_eq!(event(&events, "connected")["version"], "2026-07-28");
}

#[tokio::test]
async fn both_sdks_start_a_host_of_their_own() {
    let setup = setup();
    let plan = json!({ "answers": { "confirm": { "confirm": true } } });
    older::PYTHON.check(&stdio(&setup), plan.clone(), session()).await;
    let events = python::MODERN.check(&stdio(&setup), plan, python::calls()).await;
    assert_eq!(event(&events, "connected")["version"], "2026-07-28");
}
