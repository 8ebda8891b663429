//! `subscriptions/listen`: acknowledgement, changes, and an end in order (MCP 2026-07-28, subscriptions).

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    http::{Response, StatusCode},
};
use futures::StreamExt as _;
use rmcp::model::{RequestId, SubscriptionFilter};
use serde_json::{Value, json};

use super::{App, front::KEEP_ALIVE, reply};
use crate::base::Fault;

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

fn notification(id: &RequestId, method: &str, mut params: Value) -> Bytes {
    params["_meta"] = json!({SUBSCRIPTION_ID: id});
    reply::event(json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string().as_bytes())
}

/// Opens a stream for the kinds of change that this server has.
pub(super) fn open(app: Arc<App>, id: RequestId, wanted: &SubscriptionFilter) -> Response<Body> {
    let Ok(place) = app.subscriptions.clone().try_acquire_owned() else {
        let fault = Fault::internal(
            "too_many_subscriptions",
            format!(
                "{} subscriptions are open (serve.max-subscriptions). Close one, or try later.",
                app.config.max_subscriptions
            ),
        );
        return reply::refuse(StatusCode::TOO_MANY_REQUESTS, Some(&id), fault);
    };
    let tools = wanted.tools_list_changed == Some(true);
    // Subscribed before the acknowledgement leaves: no change falls between the two.
    let mut changes = app.handler.plugins().watch();
    let seen = changes.borrow_and_update().revisions.tools;
    let agreed = if tools { json!({"toolsListChanged": true}) } else { json!({}) };
    let opening =
        notification(&id, "notifications/subscriptions/acknowledged", json!({"notifications": agreed}));
    let state = (changes, seen, true);
    let rest = futures::stream::unfold(state, move |(mut changes, mut seen, open)| {
        let (app, id) = (app.clone(), id.clone());
        // The stream owns its place among the subscriptions.
        let _place = &place;
        async move {
            if !open {
                return None;
            }
            loop {
                tokio::select! {
                    biased;
                    () = app.shutdown.cancelled() => {
                        let result = json!({"resultType": "complete", "_meta": {SUBSCRIPTION_ID: &id}});
                        let last = json!({"jsonrpc": "2.0", "id": &id, "result": result});
                        return Some((Ok(reply::event(last.to_string().as_bytes())), (changes, seen, false)));
                    }
                    changed = changes.changed(), if tools => {
                        if changed.is_err() {
                            return None;
                        }
                        let now = changes.borrow_and_update().revisions.tools;
                        if now != seen {
                            seen = now;
                            let told = notification(&id, "notifications/tools/list_changed", json!({}));
                            return Some((Ok(told), (changes, seen, true)));
                        }
                    }
                    () = tokio::time::sleep(KEEP_ALIVE) => {
                        return Some((Ok(reply::keep_alive()), (changes, seen, true)));
                    }
                }
            }
        }
    });
    reply::stream(futures::stream::once(std::future::ready(Ok(opening))).chain(rest))
}
