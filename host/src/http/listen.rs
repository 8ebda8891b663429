//! `subscriptions/listen` as a stream of events.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, http::Response};
use futures::StreamExt as _;
use rmcp::model::RequestId;
use tokio::time::Instant;

use super::{App, front::KEEP_ALIVE, reply};
use crate::mcp::{
    access::Access,
    error_data,
    listen::{Filter, Subscription},
};

/// Opens a stream; what cannot be opened is the error side.
pub(super) async fn open(
    app: Arc<App>,
    id: RequestId,
    access: &Access,
    filter: Filter,
    with_tasks: bool,
) -> Result<Response<Body>, Box<Response<Body>>> {
    let (handler, stop) = (app.desk.handler(), app.shutdown.clone());
    let refuse = |fault| Box::new(reply::json::<()>(&id, &Err(error_data(fault))));
    handler.count(access).map_err(refuse)?;
    let principal = access.principal.clone();
    let opened =
        Subscription::open(handler, &app.places, id.clone(), principal, filter, with_tasks, stop).await;
    let subscription = opened.map_err(refuse)?;
    let patience = app.config.write_timeout.duration() / 2;
    Ok(reply::stream(events(subscription, patience).map(Ok)))
}

/// The messages as events, with comments while it is quiet. The connection asks for the next event once the
/// client has taken enough of those before it; a client that is `patience` behind is let go.
fn events(
    subscription: Subscription,
    patience: Duration,
) -> impl futures::Stream<Item = axum::body::Bytes> + Send {
    let state = (subscription, Instant::now());
    futures::stream::unfold(state, move |(mut subscription, given)| async move {
        if given.elapsed() > patience {
            subscription.end(Subscription::SLOW);
        }
        let bytes = tokio::select! {
            biased;
            message = subscription.next() => reply::event(message?.to_string().as_bytes()),
            () = tokio::time::sleep(KEEP_ALIVE) => reply::keep_alive(),
        };
        Some((bytes, (subscription, Instant::now())))
    })
}
