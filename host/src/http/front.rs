//! `POST /mcp`: one JSON-RPC request in, one JSON answer or one stream of events out.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, Request, Response, StatusCode, header},
};
use futures::StreamExt as _;
use rmcp::{
    ErrorData,
    model::{ClientRequest, RequestId, RequestMetaObject, ServerResult},
};

use super::{App, headers, listen, older, reply};
use crate::{
    base::Fault,
    mcp::{
        Caller,
        access::{Access, wanted},
        dispatch::{Envelope, Notices, Parsed, Work, invalid, parse},
        error_data,
    },
    runs::{Asks, Notice, Outlet},
};

/// How often a quiet stream gets a comment: below the 30 to 60 s at which proxies give up.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Answers one HTTP request to the MCP endpoint.
pub(super) async fn mcp(app: Arc<App>, access: Access, request: Request<Body>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    if let Err(refusal) = negotiate(&parts.headers) {
        return *refusal;
    }
    let read = axum::body::to_bytes(body, app.config.max_body.as_usize());
    let body = match tokio::time::timeout(app.config.body_timeout.duration(), read).await {
        Ok(Ok(body)) => body,
        Err(_) => {
            let limit = app.config.body_timeout;
            let fault = Fault::invalid(
                "body_too_slow",
                format!("The body took longer than serve.body-timeout = {limit}."),
            );
            return reply::refuse(StatusCode::REQUEST_TIMEOUT, None, fault);
        }
        Ok(Err(_)) => {
            let limit = app.config.max_body;
            let fault = Fault::invalid(
                "body_too_large",
                format!("The body is over serve.max-body = {limit}, or broke off."),
            );
            return reply::refuse(StatusCode::PAYLOAD_TOO_LARGE, None, fault);
        }
    };
    if older::speaks(&parts.headers, &body) {
        return older::post(&app, access, parts, body).await;
    }
    answer(app, access, parts.headers, body).await.unwrap_or_else(|refusal| *refusal)
}

/// Content type and accepted types (MCP 2026-07-28, streamable HTTP, sending messages).
fn negotiate(headers: &HeaderMap) -> Result<(), Box<Response<Body>>> {
    let text =
        |name| headers.get(name).and_then(|v: &header::HeaderValue| v.to_str().ok()).unwrap_or_default();
    let media = text(header::CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    if !media.eq_ignore_ascii_case("application/json") {
        let fault = Fault::invalid("content_type_unsupported", "Send the body as application/json.");
        return Err(Box::new(reply::refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, None, fault)));
    }
    // A list may come in several lines (RFC 9110, 5.3).
    let accept: Vec<&str> = headers.get_all(header::ACCEPT).iter().filter_map(|v| v.to_str().ok()).collect();
    let takes = |wanted: &str, group: &str| {
        accept.iter().flat_map(|line| line.split(',')).any(|range| {
            let range = range.split(';').next().unwrap_or_default().trim();
            range == "*/*" || range.eq_ignore_ascii_case(wanted) || range.eq_ignore_ascii_case(group)
        })
    };
    if takes("application/json", "application/*") && takes("text/event-stream", "text/*") {
        return Ok(());
    }
    let fault = Fault::invalid(
        "not_acceptable",
        "The answer is JSON or a stream: send Accept: application/json, text/event-stream.",
    );
    Err(Box::new(reply::refuse(StatusCode::NOT_ACCEPTABLE, None, fault)))
}

/// Reads the envelope and serves the request; what cannot be served is the error side.
async fn answer(
    app: Arc<App>,
    access: Access,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Box<Response<Body>>> {
    let bad_request = |fault| Box::new(reply::refuse(StatusCode::BAD_REQUEST, None, fault));
    let envelope = Envelope::read(&body).map_err(bad_request)?;
    let Some(method) = envelope.method.as_deref() else {
        return Err(bad_request(invalid(
            "The message has no method: only requests and notifications are taken.",
        )));
    };
    let Some(id) = envelope.request_id().map_err(bad_request)? else {
        // This revision has no notification from clients over HTTP; whatever comes is taken and dropped.
        return Ok(accepted());
    };
    if access.is_limited() {
        app.auth.check(&access, Some(&id), &wanted(method, envelope.params))?;
    }
    let refuse = |fault| Box::new(reply::json::<()>(&id, &Err(error_data(fault))));
    let parsed = parse(method, envelope.params, &body).map_err(refuse)?;
    parsed
        .check_required()
        .map_err(|fault| Box::new(reply::refuse(StatusCode::BAD_REQUEST, Some(&id), fault)))?;
    check(&app, &headers, method, &parsed).map_err(refuse)?;
    parsed.check_optional().map_err(|error| Box::new(reply::json::<()>(&id, &Err(error))))?;
    let outlet = parsed.outlet();
    let request = match parsed.work {
        Work::Listen(filter) => {
            let with_tasks = parsed.meta.client_capabilities().is_some_and(|c| c.supports_tasks());
            return listen::open(app, id, &access, filter, with_tasks).await;
        }
        Work::Answer(request) => request,
    };
    let idempotency_key = headers::idempotency_key(&headers).map_err(refuse)?;
    let caller = Caller { access, idempotency_key, outlet: None, asks: Asks::Retry };
    Ok(serve(app, id, parsed.meta, request, caller, outlet).await)
}

fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// The headers against what they mirror.
fn check(app: &App, headers: &HeaderMap, method: &str, parsed: &Parsed) -> Result<(), Fault> {
    headers::check_standard(headers, &parsed.revision(), method)?;
    if let Some((name, required)) = &parsed.name {
        headers::check_name(headers, name, *required)?;
    }
    if let Work::Answer(ClientRequest::CallToolRequest(call)) = &parsed.work {
        let catalog = app.desk.handler().plugins().catalog();
        if let Some(tool) = catalog.tools.get(call.params.name.as_ref()).filter(|t| !t.headers.is_empty()) {
            headers::check_params(headers, &tool.headers, call.params.arguments.as_ref())?;
        }
    }
    Ok(())
}

/// Dispatches, as JSON or, once there is something to tell before the answer, as a stream.
async fn serve(
    app: Arc<App>,
    id: RequestId,
    meta: RequestMetaObject,
    request: ClientRequest,
    mut caller: Caller,
    outlet: Option<(Outlet, Notices)>,
) -> Response<Body> {
    let Some((outlet, mut notices)) = outlet else {
        return reply::json(&id, &app.desk.answer(id.clone(), meta, request, caller).await);
    };
    caller.outlet = Some(outlet);
    let mut run: Run = Box::pin({
        let id = id.clone();
        async move { app.desk.answer(id, meta, request, caller).await }
    });
    tokio::select! {
        biased;
        Some(first) = notices.queue.recv() => streamed(id, first, notices, run),
        outcome = &mut run => {
            // A report and the result may be ready at once; the report is older.
            match notices.queue.try_recv() {
                Ok(first) => streamed(id, first, notices, Box::pin(std::future::ready(outcome))),
                Err(_) => reply::json(&id, &outcome),
            }
        }
    }
}

type Run = std::pin::Pin<Box<dyn Future<Output = Result<ServerResult, ErrorData>> + Send>>;

/// The rest of a call as events: what there is to tell, then the result. The stream itself polls the run, so
/// a client that leaves drops it.
fn streamed(id: RequestId, first: Notice, notices: Notices, run: Run) -> Response<Body> {
    let opening = told(&notices, &first);
    let state = (notices, Some(run));
    let rest = futures::stream::unfold(state, move |(mut notices, mut run)| {
        let id = id.clone();
        async move {
            let running = run.as_mut()?;
            let bytes = tokio::select! {
                biased;
                Some(next) = notices.queue.recv() => told(&notices, &next),
                outcome = running => {
                    run = None;
                    let mut bytes = Vec::new();
                    while let Ok(late) = notices.queue.try_recv() {
                        bytes.extend_from_slice(&told(&notices, &late));
                    }
                    bytes.extend_from_slice(&reply::event(&reply::encode(&id, &outcome)));
                    Bytes::from(bytes)
                }
                () = tokio::time::sleep(KEEP_ALIVE) => reply::keep_alive(),
            };
            Some((Ok(bytes), (notices, run)))
        }
    });
    reply::stream(futures::stream::once(std::future::ready(Ok(opening))).chain(rest))
}

fn told(notices: &Notices, notice: &Notice) -> Bytes {
    notices.message(notice).map_or_else(Bytes::new, |message| reply::event(message.to_string().as_bytes()))
}
