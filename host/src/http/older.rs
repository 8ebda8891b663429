//! Clients of older revisions on the same endpoint: rmcp's service keeps their sessions; who may use one, and how
//! many there are, is decided here.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts},
};
use rmcp::{
    ErrorData,
    model::RequestId,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService,
        session::{SessionManager as _, local::LocalSessionManager},
    },
};
use serde::Deserialize;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{App, front::KEEP_ALIVE, headers, reply};
use crate::{
    base::{Fault, Principal, neutral_line},
    config::ServeConfig,
    mcp::{
        Handler,
        access::{Access, wanted},
        dispatch::{Envelope, coded, is_batch},
        older::{Door, Older},
    },
};

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// The revision that has no sessions: naming it settles what a request is.
const MODERN: &str = "2026-07-28";

/// How long a client may take from `initialize` to its next message where its place is wanted: far longer than
/// between two messages that follow each other by themselves.
const BEGUN: Duration = Duration::from_secs(10);

/// Longest body of a refusal, in bytes: its texts are sentences.
const REFUSAL: usize = 64 << 10;

/// How long the end of a session that was closed for its place may take.
const FREED: Duration = Duration::from_secs(1);

/// All sessions of older clients.
pub(super) struct Sessions {
    service: StreamableHttpService<Older, LocalSessionManager>,
    manager: Arc<LocalSessionManager>,
    /// Whose each is.
    owners: Mutex<HashMap<String, Owner>>,
    /// Sessions that are nobody's, and when each was seen first: their client left before it had an answer.
    strays: Mutex<HashMap<String, Instant>>,
    places: Arc<Semaphore>,
    most: u32,
    end: CancellationToken,
    /// Answers that are still being written.
    open: Arc<Open>,
}

/// Whose a session is.
struct Owner {
    principal: Principal,
    since: Instant,
    /// Its client has said something after `initialize`.
    used: AtomicBool,
}

/// Counts the responses to requests (not the streams of `GET`), for an end in order.
#[derive(Default)]
struct Open {
    count: AtomicUsize,
    fell: Notify,
}

/// One response; dropped once it was written, or its client left.
struct Writing(Arc<Open>);

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::SeqCst);
        self.0.fell.notify_waiters();
    }
}

impl Sessions {
    pub(super) fn new(handler: &Arc<Handler>, config: &ServeConfig) -> Self {
        let end = CancellationToken::new();
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = Some(config.session_idle.duration());
        let manager = Arc::new(manager);
        let settings = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(true)
            .with_sse_keep_alive(Some(KEEP_ALIVE))
            .with_max_request_body_bytes(config.max_body.as_usize())
            .with_cancellation_token(end.clone())
            // Host and Origin were checked before anything was read.
            .disable_allowed_hosts()
            .disable_allowed_origins();
        let handler = handler.clone();
        let make = move || Ok(Older::new(handler.clone()));
        Self {
            service: StreamableHttpService::new(make, manager.clone(), settings),
            manager,
            owners: Mutex::default(),
            strays: Mutex::default(),
            places: Arc::new(Semaphore::new(config.max_sessions as usize)),
            most: config.max_sessions,
            end,
            open: Arc::default(),
        }
    }

    /// Returns once no response to a request is being written.
    pub(super) async fn idle(&self) {
        loop {
            let fell = self.open.fell.notified();
            if self.open.count.load(Ordering::SeqCst) == 0 {
                return;
            }
            fell.await;
        }
    }

    /// Ends every session.
    pub(super) fn end(&self) {
        self.end.cancel();
    }

    fn owners(&self) -> std::sync::MutexGuard<'_, HashMap<String, Owner>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps whose a new session is, and forgets those that have ended.
    async fn keep(&self, id: &HeaderValue, principal: Principal) {
        let Ok(id) = id.to_str() else { return };
        let live = self.live().await;
        let mut owners = self.owners();
        owners.retain(|id, _| live.contains(id));
        owners
            .insert(id.to_owned(), Owner { principal, since: Instant::now(), used: AtomicBool::new(false) });
    }

    async fn live(&self) -> HashSet<String> {
        self.manager.sessions.read().await.keys().map(|id| id.to_string()).collect()
    }

    /// A place for a new session. Where none is free, those go that were begun and never used: their client left,
    /// and would keep its place for as long as a session may be idle.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(place) = self.places.clone().try_acquire_owned() {
            return Some(place);
        }
        let begun = self.half_made().await;
        for id in &begun {
            if let Err(e) = self.manager.close_session(&id.as_str().into()).await {
                tracing::debug!("a session that nobody uses could not be closed: {e}");
            }
        }
        let place = self.places.clone().acquire_owned();
        let wait = if begun.is_empty() { Duration::ZERO } else { FREED };
        tokio::time::timeout(wait, place).await.ok()?.ok()
    }

    /// Sessions that were begun at least [`BEGUN`] ago, and never used.
    async fn half_made(&self) -> Vec<String> {
        let live = self.live().await;
        let owners = self.owners();
        let mut strays = self.strays.lock().unwrap_or_else(PoisonError::into_inner);
        strays.retain(|id, _| live.contains(id) && !owners.contains_key(id));
        let mut half_made = |id: &String| match owners.get(id) {
            Some(owner) => !owner.used.load(Ordering::Relaxed) && owner.since.elapsed() > BEGUN,
            None => strays.entry(id.clone()).or_insert_with(Instant::now).elapsed() > BEGUN,
        };
        live.into_iter().filter(|id| half_made(id)).collect()
    }

    /// One request through rmcp's service.
    async fn serve(&self, request: Request<Body>, door: Door) -> Response<Body> {
        let mut request = request;
        request.extensions_mut().insert(door);
        // What it wants to see literally; the front has checked that the client takes both.
        let both = HeaderValue::from_static("application/json, text/event-stream");
        request.headers_mut().insert(header::ACCEPT, both);
        let response = self.service.handle(request).await;
        if !response.status().is_client_error() && !response.status().is_server_error() {
            return response.map(Body::new);
        }
        // Its own refusals come whole, and at once.
        let status = response.status();
        let body = axum::body::to_bytes(Body::new(response.into_body()), REFUSAL).await.unwrap_or_default();
        refused(status, &body)
    }
}

/// A refusal of rmcp's service, which has texts for some and no stable code for any, as ours are.
fn refused(status: StatusCode, body: &[u8]) -> Response<Body> {
    #[derive(Deserialize)]
    struct Refusal {
        id: Option<RequestId>,
        error: ErrorData,
    }
    if let Ok(Refusal { id, error }) = serde_json::from_slice(body) {
        return reply::refuse_with(status, id.as_ref(), &coded(error));
    }
    if status == StatusCode::NOT_FOUND {
        return unknown();
    }
    let text = neutral_line(&String::from_utf8_lossy(body));
    let (rpc, code) =
        if status.is_server_error() { (-32603, "host_failure") } else { (-32600, "request_invalid") };
    reply::refuse(status, None, Fault::new(rpc, code, text))
}

/// True where a request names a session and not the revision without sessions.
pub(super) fn names_session(headers: &HeaderMap) -> bool {
    headers.contains_key(SESSION) && headers.get(VERSION).is_none_or(|version| version != MODERN)
}

/// True where a `POST` is an older client's: it names a session, or begins one, and does not itself name a revision
/// as requests do from 2026-07-28 on. A request of today is told by its first header.
pub(super) fn speaks(headers: &HeaderMap, body: &[u8]) -> bool {
    if headers.get(VERSION).is_some_and(|version| version == MODERN) {
        return false;
    }
    match Envelope::read(body) {
        Ok(envelope) if envelope.names_revision() => false,
        Ok(envelope) => headers.contains_key(SESSION) || envelope.method.as_deref() == Some("initialize"),
        Err(_) => headers.contains_key(SESSION) && !is_batch(body),
    }
}

/// A `POST` of an older client.
pub(super) async fn post(app: &App, access: Access, parts: Parts, body: Bytes) -> Response<Body> {
    if access.is_limited()
        && let Ok(Envelope { method: Some(method), params, ref id, .. }) = Envelope::read(&body)
    {
        let id = id.as_ref().and_then(|id| serde_json::from_value(id.clone()).ok());
        if let Err(refusal) = app.auth.check(&access, id.as_ref(), &wanted(&method, params)) {
            return *refusal;
        }
    }
    let idempotency_key = match headers::idempotency_key(&parts.headers) {
        Ok(key) => key,
        Err(fault) => return reply::refuse(StatusCode::BAD_REQUEST, None, fault),
    };
    let sessions = &app.older;
    let place = match parts.headers.get(SESSION) {
        Some(id) => match sessions.admits(id, &access.principal) {
            true => None,
            false => return unknown(),
        },
        None => match sessions.place().await {
            Some(place) => Some(place),
            None => return full(sessions.most),
        },
    };
    let begins = place.is_some();
    let principal = access.principal.clone();
    let door = door(access, idempotency_key, place);
    sessions.open.count.fetch_add(1, Ordering::SeqCst);
    let writing = Writing(sessions.open.clone());
    let response = sessions.serve(Request::from_parts(parts, Body::from(body)), door).await;
    if begins && let Some(id) = response.headers().get(SESSION) {
        sessions.keep(id, principal).await;
    }
    response.map(|body| {
        use futures::StreamExt as _;
        Body::from_stream(body.into_data_stream().map(move |data| {
            let _writing = &writing;
            data
        }))
    })
}

/// `GET` (the stream of a session) and `DELETE` (its end).
pub(super) async fn other(app: &App, access: Access, request: Request<Body>) -> Response<Body> {
    let admitted = request.headers().get(SESSION).is_some_and(|id| app.older.admits(id, &access.principal));
    if !admitted {
        return unknown();
    }
    let ends = request.method() == Method::DELETE;
    let mut response = app.older.serve(request, door(access, None, None)).await;
    // rmcp says 202, which published clients take for a failure: it has ended, and there is no more to say.
    if ends && response.status() == StatusCode::ACCEPTED {
        response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    response
}

impl Sessions {
    /// True where this session is the principal's; another's reads as unknown.
    fn admits(&self, id: &HeaderValue, principal: &Principal) -> bool {
        let Ok(id) = id.to_str() else { return false };
        match self.owners().get(id) {
            Some(owner) if owner.principal == *principal => {
                owner.used.store(true, Ordering::Relaxed);
                true
            }
            _ => false,
        }
    }
}

fn door(access: Access, idempotency_key: Option<String>, place: Option<OwnedSemaphorePermit>) -> Door {
    Door { access, idempotency_key, place: Arc::new(Mutex::new(place)) }
}

fn unknown() -> Response<Body> {
    let text =
        "There is no such session: it has ended, or it is another caller's. Begin one with initialize.";
    reply::refuse(StatusCode::NOT_FOUND, None, Fault::new(-32600, "session_unknown", text))
}

fn full(most: u32) -> Response<Body> {
    let fault = Fault::internal(
        "too_many_sessions",
        format!(
            "{most} sessions of older clients are open (serve.max-sessions). Try later, or speak MCP {MODERN}."
        ),
    );
    let mut response = reply::refuse(StatusCode::SERVICE_UNAVAILABLE, None, fault);
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::{Value, json};

    use super::*;

    async fn told(status: StatusCode, body: &str) -> (StatusCode, Value) {
        let response = refused(status, body.as_bytes());
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), REFUSAL).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn what_the_service_refuses_has_a_stable_code_too() {
        let bad = StatusCode::BAD_REQUEST;
        let body = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"no"}}"#;
        let (status, message) = told(bad, body).await;
        assert_eq!((status, &message["id"]), (bad, &json!(7)));
        assert_eq!(
            message["error"],
            json!({"code": -32602, "message": "no", "data": {"code": "params_invalid"}})
        );
        let (_, message) = told(StatusCode::UNSUPPORTED_MEDIA_TYPE, "fail to deserialize\u{1b}[2J").await;
        assert_eq!(message["error"]["data"]["code"], "request_invalid", "{message}");
        assert!(!message.to_string().contains("\\u001b"), "{message}");
        let (_, message) = told(StatusCode::NOT_FOUND, "Not Found: Session not found").await;
        assert_eq!(message["error"]["data"]["code"], "session_unknown", "{message}");
    }
}
