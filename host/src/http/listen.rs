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
    let names = tool_list(&changes.borrow_and_update());
    let agreed = if tools { json!({"toolsListChanged": true}) } else { json!({}) };
    let opening =
        notification(&id, "notifications/subscriptions/acknowledged", json!({"notifications": agreed}));
    let state = (changes, names, true);
    let rest = futures::stream::unfold(state, move |(mut changes, mut names, open)| {
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
                        return Some((Ok(reply::event(last.to_string().as_bytes())), (changes, names, false)));
                    }
                    changed = changes.changed(), if tools => {
                        if changed.is_err() {
                            return None;
                        }
                        let now = tool_list(&changes.borrow_and_update());
                        if now != names {
                            names = now;
                            let told = notification(&id, "notifications/tools/list_changed", json!({}));
                            return Some((Ok(told), (changes, names, true)));
                        }
                    }
                    () = tokio::time::sleep(KEEP_ALIVE) => {
                        return Some((Ok(reply::keep_alive()), (changes, names, true)));
                    }
                }
            }
        }
    });
    reply::stream(futures::stream::once(std::future::ready(Ok(opening))).chain(rest))
}

/// What `tools/list` would say, as one number: changes that do not show there are not told.
fn tool_list(catalog: &crate::plugins::Catalog) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    for tool in catalog.tools.values() {
        serde_json::to_string(&tool.listed).unwrap_or_default().hash(&mut hasher);
        tool.plugin.digest.hash(&mut hasher);
    }
    hasher.finish()
}
