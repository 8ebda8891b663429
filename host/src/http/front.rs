//! `POST /mcp`: one JSON-RPC request in, one JSON answer or one stream of events out.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, Request, Response, StatusCode, header},
};
use futures::StreamExt as _;
use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequest, CallToolRequestParams, CancelTaskParams, CancelTaskRequest, ClientJsonRpcMessage,
        ClientRequest, GetTaskParams, GetTaskRequest, JsonRpcMessage, ProtocolVersion, RequestId,
        RequestMetaObject, ServerResult, UpdateTaskParams, UpdateTaskRequest,
    },
    service::{RequestContext, Service as _},
};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use tokio::sync::mpsc;

use super::{App, guard, headers, listen, reply};
use crate::{
    base::Fault,
    mcp::{Caller, error_data, log_level, notification},
    runs::{Asks, Notice, Outlet},
};

/// Progress and log messages that wait for a slow reader; later ones are dropped, the result never is.
const NOTICES: usize = 64;

/// The name in `_meta` by which a client asks for log messages (MCP 2026-07-28, logging).
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// How often a quiet stream gets a comment: below the 30 to 60 s at which proxies give up.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A JSON-RPC message, with its parameters unread.
#[derive(Deserialize)]
struct Envelope<'a> {
    jsonrpc: Option<&'a str>,
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
}

/// Keeps `"id": null` apart from no id.
fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(d).map(Some)
}

/// A parsed request: its metadata apart, the name that `Mcp-Name` mirrors, and what rmcp dispatches.
struct Parsed {
    meta: RequestMetaObject,
    name: Option<(String, bool)>,
    request: ClientRequest,
}

/// Answers one HTTP request to the MCP endpoint.
pub(super) async fn mcp(app: Arc<App>, peer: SocketAddr, request: Request<Body>) -> Response<Body> {
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
    answer(app, peer, parts.headers, body).await.unwrap_or_else(|refusal| *refusal)
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
    let accept = text(header::ACCEPT);
    let takes = |wanted: &str, group: &str| {
        accept.split(',').any(|range| {
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
    peer: SocketAddr,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response<Body>, Box<Response<Body>>> {
    let envelope = envelope(&body)?;
    let Some(method) = envelope.method else {
        return Err(bad_request(
            None,
            "The message has no method: only requests and notifications are taken.",
        ));
    };
    let id: RequestId = match envelope.id {
        // This revision has no notification from clients over HTTP; whatever comes is taken and dropped.
        None => return Ok(accepted()),
        Some(id) => serde_json::from_value(id)
            .map_err(|_| bad_request(None, "The id of a request is a string or a whole number."))?,
    };
    let parsed = parse(&method, envelope.params, &body)
        .map_err(|fault| Box::new(reply::json::<()>(&id, &Err(error_data(fault)))))?;
    let missing = parsed.meta.missing_required_keys(&ProtocolVersion::V_2026_07_28);
    if !missing.is_empty() {
        let fault = Fault::invalid(
            "meta_missing",
            format!(
                "params._meta lacks, or has malformed: {}. This server speaks MCP 2026-07-28.",
                missing.join(", ")
            ),
        );
        return Err(Box::new(reply::refuse(StatusCode::BAD_REQUEST, Some(&id), fault)));
    }
    let version = parsed.meta.protocol_version().map(|v| v.as_str().to_owned()).unwrap_or_default();
    check(&app, &headers, &version, &method, &parsed)
        .map_err(|fault| Box::new(reply::json::<()>(&id, &Err(error_data(fault)))))?;
    let principal = guard::principal(&headers, peer);
    if let ClientRequest::SubscriptionsListenRequest(request) = parsed.request {
        return Ok(listen::open(app, id, &request.params.notifications));
    }
    let idempotency_key = headers::idempotency_key(&headers)
        .map_err(|fault| Box::new(reply::json::<()>(&id, &Err(error_data(fault)))))?;
    let caller = Caller { principal, idempotency_key, outlet: None, asks: Asks::Retry };
    Ok(serve(app, id, parsed, caller).await)
}

fn envelope(body: &[u8]) -> Result<Envelope<'_>, Box<Response<Body>>> {
    let envelope: Envelope<'_> = serde_json::from_slice(body).map_err(|e| {
        if matches!(body.iter().find(|b| !b.is_ascii_whitespace()), Some(b'[')) && e.is_data() {
            return bad_request(None, "Batches are not part of MCP 2026-07-28: send one message a request.");
        }
        let (rpc, code) = if e.is_data() { (-32600, "request_invalid") } else { (-32700, "json_invalid") };
        let fault = Fault::new(rpc, code, format!("The body is not a JSON-RPC message: {e}"));
        Box::new(reply::refuse(StatusCode::BAD_REQUEST, None, fault))
    })?;
    if envelope.jsonrpc != Some("2.0") {
        return Err(bad_request(None, "The message lacks \"jsonrpc\": \"2.0\"."));
    }
    Ok(envelope)
}

fn bad_request(id: Option<&RequestId>, message: &str) -> Box<Response<Body>> {
    Box::new(reply::refuse(StatusCode::BAD_REQUEST, id, Fault::new(-32600, "request_invalid", message)))
}

fn accepted() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::ACCEPTED;
    response
}

/// Typed parameters for the methods that are called often; the rest through rmcp's own parser.
fn parse(method: &str, params: Option<&RawValue>, body: &[u8]) -> Result<Parsed, Fault> {
    /// Reads `$params`, takes its metadata out, and keeps what `Mcp-Name` mirrors.
    macro_rules! typed {
        ($params:ty, $request:ident, $name:ident, $required:literal) => {{
            let mut p: $params = read(method, params)?;
            let meta = p.meta.take().unwrap_or_default();
            let name = Some((p.$name.to_string(), $required));
            Parsed { meta, name, request: ClientRequest::$request($request::new(p)) }
        }};
    }
    Ok(match method {
        "tools/call" => typed!(CallToolRequestParams, CallToolRequest, name, true),
        "tasks/get" => typed!(GetTaskParams, GetTaskRequest, task_id, false),
        "tasks/update" => typed!(UpdateTaskParams, UpdateTaskRequest, task_id, false),
        "tasks/cancel" => typed!(CancelTaskParams, CancelTaskRequest, task_id, false),
        _ => general(method, params, body)?,
    })
}

fn read<'a, P: Deserialize<'a>>(method: &str, params: Option<&'a RawValue>) -> Result<P, Fault> {
    serde_json::from_str(params.map_or("{}", RawValue::get)).map_err(|e| {
        let text = format!("The params of {method} do not have the shape that MCP gives them: {e}");
        Fault::invalid("params_invalid", text)
    })
}

fn general(method: &str, params: Option<&RawValue>, body: &[u8]) -> Result<Parsed, Fault> {
    #[derive(Default, Deserialize)]
    struct Common {
        #[serde(rename = "_meta", default)]
        meta: Option<RequestMetaObject>,
        #[serde(default)]
        name: Option<Value>,
        #[serde(default)]
        uri: Option<Value>,
    }
    let common: Common = params.and_then(|p| serde_json::from_str(p.get()).ok()).unwrap_or_default();
    let text = |value: Option<Value>| value.and_then(|v| v.as_str().map(str::to_owned));
    let name = match method {
        "prompts/get" => text(common.name),
        "resources/read" => text(common.uri),
        _ => None,
    };
    let message: ClientJsonRpcMessage = serde_json::from_slice(body).map_err(|e| {
        Fault::invalid("params_invalid", format!("The params of {method} cannot be read: {e}"))
    })?;
    let JsonRpcMessage::Request(request) = message else {
        return Err(Fault::new(-32600, "request_invalid", "The message is not a request."));
    };
    Ok(Parsed {
        meta: common.meta.unwrap_or_default(),
        name: name.map(|n| (n, true)),
        request: request.request,
    })
}

fn check(app: &App, headers: &HeaderMap, version: &str, method: &str, parsed: &Parsed) -> Result<(), Fault> {
    headers::check_standard(headers, version, method)?;
    if let Some((name, required)) = &parsed.name {
        headers::check_name(headers, name, *required)?;
    }
    let token = parsed.meta.0.get("progressToken");
    if token.is_some_and(|token| !token.is_string() && !token.is_i64() && !token.is_u64()) {
        return Err(Fault::invalid("params_invalid", "_meta.progressToken is a string or a whole number."));
    }
    if let ClientRequest::CallToolRequest(call) = &parsed.request {
        let catalog = app.handler.plugins().catalog();
        if let Some(tool) = catalog.tools.get(call.params.name.as_ref()).filter(|t| !t.headers.is_empty()) {
            headers::check_params(headers, &tool.headers, call.params.arguments.as_ref())?;
        }
    }
    Ok(())
}

/// Dispatches, as JSON or, once there is progress to tell, as a stream.
async fn serve(app: Arc<App>, id: RequestId, parsed: Parsed, mut caller: Caller) -> Response<Body> {
    let runs = matches!(
        &parsed.request,
        ClientRequest::CallToolRequest(_)
            | ClientRequest::GetPromptRequest(_)
            | ClientRequest::ReadResourceRequest(_)
    );
    let token = parsed.meta.0.get("progressToken").filter(|_| runs).cloned();
    let log = parsed.meta.0.get(LOG_LEVEL).filter(|_| runs).and_then(Value::as_str).and_then(log_level);
    if token.is_none() && log.is_none() {
        return reply::json(&id, &dispatch(&app, id.clone(), parsed, caller).await);
    }
    let (notices, mut progress) = mpsc::channel(NOTICES);
    caller.outlet = Some(Outlet { notices, progress: token.is_some(), log });
    let mut run = Box::pin({
        let id = id.clone();
        async move { dispatch(&app, id, parsed, caller).await }
    });
    tokio::select! {
        biased;
        Some(first) = progress.recv() => streamed(id, token, first, progress, run),
        outcome = &mut run => {
            // A report and the result may be ready at once; the report is older.
            match progress.try_recv() {
                Ok(first) => streamed(id, token, first, progress, Box::pin(std::future::ready(outcome))),
                Err(_) => reply::json(&id, &outcome),
            }
        }
    }
}

type Run = std::pin::Pin<Box<dyn Future<Output = Result<ServerResult, ErrorData>> + Send>>;

/// The rest of a call as events: progress, then the result. The stream itself polls the run, so
/// a client that leaves drops it.
fn streamed(
    id: RequestId,
    token: Option<Value>,
    first: Notice,
    progress: mpsc::Receiver<Notice>,
    run: Run,
) -> Response<Body> {
    let told = move |notice: &Notice| match notification(token.as_ref(), notice) {
        Some(message) => reply::event(message.to_string().as_bytes()),
        None => Bytes::new(),
    };
    let opening = told(&first);
    let state = (progress, Some(run));
    let rest = futures::stream::unfold(state, move |(mut progress, mut run)| {
        let (told, id) = (told.clone(), id.clone());
        async move {
            let running = run.as_mut()?;
            let bytes = tokio::select! {
                biased;
                Some(next) = progress.recv() => told(&next),
                outcome = running => {
                    run = None;
                    let mut bytes = Vec::new();
                    while let Ok(late) = progress.try_recv() {
                        bytes.extend_from_slice(&told(&late));
                    }
                    bytes.extend_from_slice(&reply::event(&reply::encode(&id, &outcome)));
                    Bytes::from(bytes)
                }
                () = tokio::time::sleep(KEEP_ALIVE) => reply::keep_alive(),
            };
            Some((Ok(bytes), (progress, run)))
        }
    });
    reply::stream(futures::stream::once(std::future::ready(Ok(opening))).chain(rest))
}

async fn dispatch(
    app: &App,
    id: RequestId,
    parsed: Parsed,
    caller: Caller,
) -> Result<ServerResult, ErrorData> {
    let mut ctx = RequestContext::<RoleServer>::new(id, app.peer.clone());
    ctx.meta = parsed.meta;
    ctx.extensions.insert(caller);
    app.handler.handle_request(parsed.request, ctx).await.map_err(coded)
}

/// Errors that rmcp makes by itself, with a stable code as all others have.
fn coded(mut error: ErrorData) -> ErrorData {
    let code = match error.code.0 {
        Fault::METHOD_NOT_FOUND => "method_unknown",
        Fault::INVALID_PARAMS => "params_invalid",
        Fault::MISSING_CAPABILITY => "missing_client_capability",
        Fault::UNSUPPORTED_VERSION => "protocol_version_unsupported",
        _ => "host_failure",
    };
    // rmcp's own says the method's name alone.
    if error.code.0 == Fault::METHOD_NOT_FOUND && !error.message.starts_with("Method not found") {
        error.message = format!("Method not found: {}", error.message).into();
    }
    let data = error.data.get_or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(data) = data {
        data.entry("code").or_insert_with(|| code.into());
    }
    error
}
