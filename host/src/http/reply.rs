//! JSON-RPC over HTTP: bodies, statuses, and the framing of server-sent events.

use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, Response, StatusCode, header},
};
use rmcp::{ErrorData, model::RequestId};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{base::Fault, mcp::error_data};

#[derive(Serialize)]
struct Done<'a, R> {
    jsonrpc: &'static str,
    id: &'a RequestId,
    result: &'a R,
}

/// A JSON-RPC response as bytes.
pub(super) fn encode<R: Serialize>(id: &RequestId, outcome: &Result<R, ErrorData>) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    let written = match outcome {
        Ok(result) => serde_json::to_writer(&mut out, &Done { jsonrpc: "2.0", id, result }),
        Err(error) => serde_json::to_writer(&mut out, &json!({"jsonrpc": "2.0", "id": id, "error": error})),
    };
    if let Err(e) = written {
        tracing::error!("a response cannot be written: {e}");
        out.clear();
        let fault = error_data(Fault::internal("host_failure", "The response could not be written."));
        // A plain error always can be.
        let _ = serde_json::to_writer(&mut out, &json!({"jsonrpc": "2.0", "id": id, "error": fault}));
    }
    out
}

/// The HTTP status that an error has while none has been sent yet.
pub(super) fn status(error: &ErrorData) -> StatusCode {
    let often = ["caller_busy", "polling_too_fast", "rate_limited", "too_many_subscriptions"];
    if code_of(error).is_some_and(|code| often.contains(&code)) {
        return StatusCode::TOO_MANY_REQUESTS;
    }
    match error.code.0 {
        -32022..=-32020 => StatusCode::BAD_REQUEST,
        -32601 => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

fn code_of(error: &ErrorData) -> Option<&str> {
    error.data.as_ref()?.get("code")?.as_str()
}

/// A response as JSON.
pub(super) fn json<R: Serialize>(id: &RequestId, outcome: &Result<R, ErrorData>) -> Response<Body> {
    let mut response = bytes(outcome.as_ref().err().map_or(StatusCode::OK, status), encode(id, outcome));
    if let Err(error) = outcome
        && let Some(wait) = error.data.as_ref().and_then(|d| d.get("retryAfterMs")).and_then(Value::as_u64)
    {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait.div_ceil(1000).max(1)));
    }
    response
}

/// An error before there is a request to answer, or with another status than its code's.
pub(super) fn refuse(status: StatusCode, id: Option<&RequestId>, fault: Fault) -> Response<Body> {
    refuse_with(status, id, &error_data(fault))
}

/// The same with an error that is there already.
pub(super) fn refuse_with(status: StatusCode, id: Option<&RequestId>, error: &ErrorData) -> Response<Body> {
    let mut body = json!({"jsonrpc": "2.0", "error": error});
    // MCP's errors leave the id out where it is not known; `null`, as plain JSON-RPC has it, is no id of MCP.
    if let Some(id) = id {
        body["id"] = json!(id);
    }
    bytes(status, body.to_string().into_bytes())
}

fn bytes(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// One event.
pub(super) fn event(data: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(data.len() + 24);
    out.extend_from_slice(b"event: message\ndata: ");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n");
    out.into()
}

/// A comment that keeps proxies from closing a quiet stream.
pub(super) fn keep_alive() -> Bytes {
    Bytes::from_static(b":\n\n")
}

/// A stream of events. Dropping it (the client left) drops whatever feeds it.
pub(super) fn stream<S>(events: S) -> Response<Body>
where
    S: futures::Stream<Item = Result<Bytes, std::convert::Infallible>> + Send + 'static,
{
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}
