//! One request of MCP 2026-07-28, from its text to rmcp's dispatch: what HTTP and stdio share.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequest, CallToolRequestParams, CancelTaskParams, CancelTaskRequest, ClientJsonRpcMessage,
        ClientRequest, GetTaskParams, GetTaskRequest, JsonRpcMessage, ProtocolVersion, RequestId,
        RequestMetaObject, ServerResult, UpdateTaskParams, UpdateTaskRequest,
    },
    service::{Peer, RequestContext, Service as _},
};
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use super::{Caller, Handler, error_data, listen::Filter, log_level, trace};
use crate::{
    base::Fault,
    runs::{Notice, Outlet},
};

/// Progress and log messages that wait for a slow reader; later ones are dropped, the result never is.
const NOTICES: usize = 64;

/// The name in `_meta` by which a client asks for log messages (MCP 2026-07-28, logging).
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// The revisions that a request may name in its own `_meta`.
const INLINE: [ProtocolVersion; 1] = [ProtocolVersion::V_2026_07_28];

/// A JSON-RPC message, with its parameters unread.
#[derive(Deserialize)]
pub struct Envelope<'a> {
    jsonrpc: Option<&'a str>,
    /// `"id": null` is kept apart from no id.
    #[serde(default, deserialize_with = "present")]
    pub id: Option<Value>,
    /// None in a response.
    pub method: Option<String>,
    /// As they came.
    #[serde(borrow)]
    pub params: Option<&'a RawValue>,
}

fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(d).map(Some)
}

impl<'a> Envelope<'a> {
    /// Reads one message.
    ///
    /// # Errors
    /// `json_invalid` (-32700) and `request_invalid` (-32600).
    pub fn read(text: &'a [u8]) -> Result<Self, Fault> {
        let envelope: Self = serde_json::from_slice(text).map_err(|e| {
            if is_batch(text) && e.is_data() {
                return invalid("Batches are not part of MCP 2026-07-28: send one message a request.");
            }
            let (rpc, code) =
                if e.is_data() { (-32600, "request_invalid") } else { (-32700, "json_invalid") };
            Fault::new(rpc, code, format!("This is not a JSON-RPC message: {e}"))
        })?;
        if envelope.jsonrpc != Some("2.0") {
            return Err(invalid("The message lacks \"jsonrpc\": \"2.0\"."));
        }
        Ok(envelope)
    }

    /// The id of a request; none where it has none (a notification).
    ///
    /// # Errors
    /// `request_invalid` for an id that MCP does not have.
    pub fn request_id(&self) -> Result<Option<RequestId>, Fault> {
        let Some(id) = &self.id else { return Ok(None) };
        RequestId::deserialize(id)
            .map(Some)
            .map_err(|_| invalid("The id of a request is a string or a whole number below 2^63."))
    }

    /// True where `params._meta` names a revision, as requests do from 2026-07-28 on.
    pub fn names_revision(&self) -> bool {
        #[derive(Default, Deserialize)]
        struct Meta {
            #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
            version: Option<Value>,
        }
        #[derive(Deserialize)]
        struct Params {
            #[serde(rename = "_meta", default)]
            meta: Meta,
        }
        let params = self.params.and_then(|p| serde_json::from_str::<Params>(p.get()).ok());
        params.is_some_and(|p| p.meta.version.is_some())
    }
}

/// True where the text is a JSON array.
pub fn is_batch(text: &[u8]) -> bool {
    text.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[')
}

/// What is no message of the protocol.
pub fn invalid(message: &str) -> Fault {
    Fault::new(-32600, "request_invalid", message)
}

/// A parsed request.
pub struct Parsed {
    /// `params._meta`.
    pub meta: RequestMetaObject,
    /// What `Mcp-Name` mirrors, and whether that header must be there.
    pub name: Option<(String, bool)>,
    /// What it asks for.
    pub work: Work,
}

/// What a request asks for. It lives for a moment on the stack: a box would cost more than it spares.
#[allow(clippy::large_enum_variant)]
pub enum Work {
    /// An answer.
    Answer(ClientRequest),
    /// A stream of changes.
    Listen(Filter),
}

/// Typed parameters for the methods that are called often; the rest through rmcp's own parser. `text` is the
/// whole message.
///
/// # Errors
/// `params_invalid`.
pub fn parse(method: &str, params: Option<&RawValue>, text: &[u8]) -> Result<Parsed, Fault> {
    /// Reads `$params`, takes its metadata out, and keeps what `Mcp-Name` mirrors.
    macro_rules! typed {
        ($params:ty, $request:ident, $name:ident, $required:literal) => {{
            let mut p: $params = read(method, params)?;
            let meta = p.meta.take().unwrap_or_default();
            let name = Some((p.$name.to_string(), $required));
            Parsed { meta, name, work: Work::Answer(ClientRequest::$request($request::new(p))) }
        }};
    }
    Ok(match method {
        "tools/call" => typed!(CallToolRequestParams, CallToolRequest, name, true),
        "tasks/get" => typed!(GetTaskParams, GetTaskRequest, task_id, false),
        "tasks/update" => typed!(UpdateTaskParams, UpdateTaskRequest, task_id, false),
        "tasks/cancel" => typed!(CancelTaskParams, CancelTaskRequest, task_id, false),
        // rmcp's type has no `taskIds`.
        "subscriptions/listen" => listen(method, params)?,
        _ => general(method, params, text)?,
    })
}

fn read<'a, P: Deserialize<'a>>(method: &str, params: Option<&'a RawValue>) -> Result<P, Fault> {
    serde_json::from_str(params.map_or("{}", RawValue::get)).map_err(|e| {
        let text = format!("The params of {method} do not have the shape that MCP gives them: {e}");
        Fault::invalid("params_invalid", text)
    })
}

fn listen(method: &str, params: Option<&RawValue>) -> Result<Parsed, Fault> {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "_meta", default)]
        meta: RequestMetaObject,
        notifications: Filter,
    }
    let Params { meta, notifications } = read(method, params)?;
    Ok(Parsed { meta, name: None, work: Work::Listen(notifications) })
}

fn general(method: &str, params: Option<&RawValue>, text: &[u8]) -> Result<Parsed, Fault> {
    #[derive(Default, Deserialize)]
    struct Common {
        #[serde(rename = "_meta", default)]
        meta: Option<RequestMetaObject>,
        #[serde(default)]
        name: Option<Value>,
        #[serde(default)]
        uri: Option<Value>,
        #[serde(default)]
        cursor: Option<Value>,
    }
    let common: Common = params.and_then(|p| serde_json::from_str(p.get()).ok()).unwrap_or_default();
    let plain = |value: Option<Value>| value.and_then(|v| v.as_str().map(str::to_owned));
    let name = match method {
        "prompts/get" => plain(common.name),
        "resources/read" => plain(common.uri),
        _ => None,
    };
    // rmcp takes a list's params that do not fit for none, and a client would get the first page for ever.
    if method.ends_with("/list") && common.cursor.is_some_and(|cursor| !cursor.is_string()) {
        return Err(Fault::invalid("params_invalid", format!("The cursor of {method} is a string.")));
    }
    let message: ClientJsonRpcMessage = serde_json::from_slice(text).map_err(|e| {
        Fault::invalid("params_invalid", format!("The params of {method} cannot be read: {e}"))
    })?;
    let JsonRpcMessage::Request(request) = message else {
        return Err(invalid("The message is not a request."));
    };
    Ok(Parsed {
        meta: common.meta.unwrap_or_default(),
        name: name.map(|n| (n, true)),
        work: Work::Answer(request.request),
    })
}

impl Parsed {
    /// The metadata that every request of this revision has (MCP 2026-07-28, basic, `_meta`).
    ///
    /// # Errors
    /// `meta_missing`; over HTTP a 400.
    pub fn check_required(&self) -> Result<(), Fault> {
        let missing = self.meta.missing_required_keys(&ProtocolVersion::V_2026_07_28);
        if missing.is_empty() {
            return Ok(());
        }
        Err(Fault::invalid(
            "meta_missing",
            format!(
                "params._meta lacks, or has malformed: {}. Requests of MCP 2026-07-28 carry it; a client of an older \
                 revision begins with initialize, and then names its session.",
                missing.join(", ")
            ),
        ))
    }

    /// The revision that the request names.
    pub fn revision(&self) -> String {
        self.meta.protocol_version().map(|v| v.as_str().to_owned()).unwrap_or_default()
    }

    /// Revision and optional metadata; after the headers were checked against them.
    ///
    /// # Errors
    /// `protocol_version_unsupported` (-32022), `params_invalid`.
    pub fn check_optional(&self) -> Result<(), ErrorData> {
        if let Some(named) = self.meta.protocol_version().filter(|named| !INLINE.contains(named)) {
            return Err(coded(ErrorData::unsupported_protocol_version(named, &INLINE)));
        }
        let wrong = |text: &str| Err(error_data(Fault::invalid("params_invalid", text)));
        let token = self.meta.0.get("progressToken");
        if token.is_some_and(|token| !token.is_string() && !token.is_i64() && !token.is_u64()) {
            return wrong("_meta.progressToken is a string or a whole number.");
        }
        let level = self.meta.0.get(LOG_LEVEL);
        if level.is_some_and(|level| level.as_str().and_then(log_level).is_none()) {
            return wrong(
                "_meta[\"io.modelcontextprotocol/logLevel\"] is one of debug, info, notice, warning, error, critical, \
                 alert, emergency.",
            );
        }
        Ok(())
    }

    /// Where a run's progress and log messages go, where the client wants some: the run's end, and ours.
    pub fn outlet(&self) -> Option<(Outlet, Notices)> {
        let runs = matches!(
            &self.work,
            Work::Answer(
                ClientRequest::CallToolRequest(_)
                    | ClientRequest::GetPromptRequest(_)
                    | ClientRequest::ReadResourceRequest(_)
            )
        );
        let token = self.meta.0.get("progressToken").filter(|_| runs).cloned();
        let log = self.meta.0.get(LOG_LEVEL).filter(|_| runs).and_then(Value::as_str).and_then(log_level);
        if token.is_none() && log.is_none() {
            return None;
        }
        let (notices, queue) = mpsc::channel(NOTICES);
        Some((Outlet { notices, progress: token.is_some(), log }, Notices { token, queue }))
    }
}

/// The notices of one request.
pub struct Notices {
    token: Option<Value>,
    /// Not yet told.
    pub queue: mpsc::Receiver<Notice>,
}

impl Notices {
    /// A notice as the message that the client gets.
    pub fn message(&self, notice: &Notice) -> Option<Value> {
        super::notification(self.token.as_ref(), notice)
    }
}

/// rmcp's dispatch over the one handler.
pub struct Desk {
    handler: Arc<Handler>,
    /// rmcp's context wants a peer; nobody is behind this one, and nothing may be sent to it.
    peer: Peer<RoleServer>,
}

impl Desk {
    /// A desk in front of `handler`. Needs a runtime.
    pub fn new(handler: Arc<Handler>) -> Self {
        Self { handler, peer: idle_peer() }
    }

    /// The handler.
    pub fn handler(&self) -> &Arc<Handler> {
        &self.handler
    }

    /// Answers one request. Dropping the future stops it: the client left, or cancelled.
    ///
    /// # Errors
    /// Every error that the client gets, with a stable code.
    pub async fn answer(
        &self,
        id: RequestId,
        meta: RequestMetaObject,
        request: ClientRequest,
        caller: Caller,
    ) -> Result<ServerResult, ErrorData> {
        let mut ctx = RequestContext::<RoleServer>::new(id, self.peer.clone());
        ctx.meta = meta;
        ctx.extensions.insert(caller);
        let span = trace::span(&ctx.meta, named(&request));
        // One place on the heap: as a part of all futures around it, its kilobytes would be copied from each to the next.
        let served = Box::pin(self.handler.handle_request(request, ctx));
        let outcome = match span {
            Some(span) => served.instrument(span).await,
            None => served.await,
        };
        outcome.map_err(coded)
    }
}

/// The method, for the log.
const fn named(request: &ClientRequest) -> &'static str {
    match request {
        ClientRequest::CallToolRequest(_) => "tools/call",
        ClientRequest::GetPromptRequest(_) => "prompts/get",
        ClientRequest::ReadResourceRequest(_) => "resources/read",
        ClientRequest::GetTaskRequest(_) => "tasks/get",
        ClientRequest::UpdateTaskRequest(_) => "tasks/update",
        ClientRequest::CancelTaskRequest(_) => "tasks/cancel",
        _ => "other",
    }
}

/// A peer without a connection: the context that rmcp's dispatch takes must have one.
fn idle_peer() -> Peer<RoleServer> {
    struct Nobody;
    impl rmcp::ServerHandler for Nobody {}
    let (near, _far) = tokio::io::duplex(64);
    let service =
        rmcp::service::serve_directly::<RoleServer, _, _, _, _>(Nobody, tokio::io::split(near), None);
    let peer = service.peer().clone();
    // Its loop ends by itself, since the far end is gone.
    drop(service);
    peer
}

/// Errors that rmcp makes by itself, with a stable code as all others have.
pub fn coded(mut error: ErrorData) -> ErrorData {
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
