//! Clients of the revisions 2025-03-26 to 2025-11-25: one of these for each session (over stdio, the process).
//!
//! Such a client has no tasks and no `InputRequiredResult`: its call is held, and questions are pushed to it. Here,
//! and only here, somebody is behind `ctx.peer`.
#![expect(deprecated, reason = "log messages go with a later revision, and these clients ask for them")]

use std::{
    borrow::Cow,
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult, CustomRequest,
        CustomResult, GetPromptRequestParams, GetPromptResponse, InitializeRequestParams, InitializeResult,
        JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
        LoggingLevel, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
        ReadResourceResponse, ServerConfig, ServerNotification, SetLevelRequestParams,
        SubscribeRequestParams, UnsubscribeRequestParams,
    },
    service::{NotificationContext, Peer, RequestContext},
};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, broadcast::error::RecvError};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::{Caller, Handler, access::Access, error_data, log_level, peer::Companion, trace};
use crate::{
    base::{Fault, Principal},
    capabilities::wit_call::LogLevel,
    config::ListenRules,
    plugins::{Plugins, Revisions},
    runs::Asks,
};

/// Newest first.
const REVISIONS: [ProtocolVersion; 3] =
    [ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_03_26];

/// The extension that these revisions do not have here.
const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Methods that only these revisions have: what does not fit their parameters is `-32602`.
const OWN: [&str; 3] = ["logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// How long a notification may wait for a slow client; then the session gets none any more.
const TELL: Duration = Duration::from_secs(30);

/// What the HTTP front puts into the extensions of a request.
#[derive(Clone)]
pub struct Door {
    /// Who calls.
    pub access: Access,
    /// The `Idempotency-Key` header.
    pub idempotency_key: Option<String>,
    /// With `initialize`: the new session's place.
    pub place: Arc<Mutex<Option<OwnedSemaphorePermit>>>,
}

/// One session.
pub struct Older {
    handler: Arc<Handler>,
    /// The least level of log messages. Until the client sets one, it gets what a person wants to see.
    level: Mutex<LogLevel>,
    /// Resources that the client subscribed to.
    uris: Arc<Mutex<BTreeSet<Arc<str>>>>,
    place: Mutex<Option<OwnedSemaphorePermit>>,
    /// Tells of changes; ends with the session.
    notifier: Mutex<Option<AbortOnDropHandle<()>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Older {
    /// A session that has not begun.
    pub fn new(handler: Arc<Handler>) -> Self {
        Self {
            handler,
            level: Mutex::new(LogLevel::Info),
            uris: Arc::default(),
            place: Mutex::default(),
            notifier: Mutex::default(),
        }
    }

    /// Who calls: over HTTP as the front found out, over stdio whoever started this process.
    fn caller(ctx: &RequestContext<RoleServer>) -> Caller {
        let parts = ctx.extensions.get::<axum::http::request::Parts>();
        let door = parts.and_then(|parts| parts.extensions.get::<Door>());
        Caller {
            access: door.map_or_else(|| Access::all(Principal::local()), |door| door.access.clone()),
            idempotency_key: door.and_then(|door| door.idempotency_key.clone()),
            outlet: None,
            asks: Asks::Retry,
        }
    }

    /// Who asks for a list.
    fn counted(&self, ctx: &RequestContext<RoleServer>) -> Result<Access, ErrorData> {
        let access = Self::caller(ctx).access;
        self.handler.count(&access).map_err(error_data)?;
        Ok(access)
    }

    /// The context as the handler wants it: with a caller, and without tasks, whatever the client declared.
    fn adapt(ctx: &mut RequestContext<RoleServer>, caller: Caller) {
        let mut capabilities = ctx.client_capabilities().unwrap_or_default();
        if let Some(extensions) = &mut capabilities.extensions {
            extensions.remove(TASKS);
        }
        ctx.meta.set_client_capabilities(capabilities);
        ctx.extensions.insert(caller);
    }

    /// A request that runs a plugin: somebody goes with it.
    async fn run<T, F>(
        &self,
        mut ctx: RequestContext<RoleServer>,
        method: &'static str,
        serve: impl FnOnce(RequestContext<RoleServer>) -> F,
    ) -> Result<T, ErrorData>
    where
        F: Future<Output = Result<T, ErrorData>>,
    {
        let level = *lock(&self.level);
        let (companion, outlet, asks) = Companion::new(&ctx, level);
        let caller = Caller { outlet: Some(outlet), asks, ..Self::caller(&ctx) };
        let span = trace::span(&ctx.meta, method);
        Self::adapt(&mut ctx, caller);
        let served = companion.attend(serve(ctx));
        match span {
            Some(span) => served.instrument(span).await,
            None => served.await,
        }
    }
}

impl ServerHandler for Older {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.handler.get_info();
        if let Some(extensions) = &mut info.capabilities.extensions {
            extensions.remove(TASKS);
        }
        info.capabilities.extensions.take_if(|extensions| extensions.is_empty());
        info.protocol_version = ProtocolVersion::V_2025_11_25;
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(&REVISIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let parts = ctx.extensions.get::<axum::http::request::Parts>();
        if let Some(door) = parts.and_then(|parts| parts.extensions.get::<Door>()) {
            // Another handshake in the same session comes with none, and must not give the first one's back.
            if let Some(place) = lock(&door.place).take() {
                *lock(&self.place) = Some(place);
            }
        }
        ctx.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn on_initialized(&self, ctx: NotificationContext<RoleServer>) {
        let notifier = notify(ctx.peer, self.handler.plugins().clone(), self.uris.clone());
        *lock(&self.notifier) = Some(AbortOnDropHandle::new(tokio::spawn(notifier)));
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _ctx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *lock(&self.level) = level(request.level);
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        _ctx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let mut uris = lock(&self.uris);
        let known = uris.contains(request.uri.as_str());
        if !known && (uris.len() >= ListenRules::WATCHED || request.uri.len() > ListenRules::URI.as_usize()) {
            return Err(error_data(Fault::invalid(
                "subscription_too_large",
                format!(
                    "A session watches at most {} resources, each with a URI of at most {}. Unsubscribe from others.",
                    ListenRules::WATCHED,
                    ListenRules::URI
                ),
            )));
        }
        uris.insert(request.uri.into());
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _ctx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        lock(&self.uris).remove(request.uri.as_str());
        Ok(())
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut list = self.handler.tools(request, &self.counted(&ctx)?).map_err(error_data)?;
        (list.ttl_ms, list.cache_scope) = (None, None);
        for tool in &mut list.tools {
            spell_out(&mut tool.input_schema);
            tool.output_schema.as_mut().map(spell_out);
        }
        Ok(list)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut list = self.handler.prompts(request, &self.counted(&ctx)?).map_err(error_data)?;
        (list.ttl_ms, list.cache_scope) = (None, None);
        Ok(list)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut list = self.handler.resources(request, &self.counted(&ctx)?).map_err(error_data)?;
        (list.ttl_ms, list.cache_scope) = (None, None);
        Ok(list)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut list = self.handler.templates(request, &self.counted(&ctx)?).map_err(error_data)?;
        (list.ttl_ms, list.cache_scope) = (None, None);
        Ok(list)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.run(ctx, "tools/call", |ctx| self.handler.call_tool(request, ctx)).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.run(ctx, "prompts/get", |ctx| self.handler.get_prompt(request, ctx)).await
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let mut read =
            self.run(ctx, "resources/read", |ctx| self.handler.read_resource(request, ctx)).await?;
        if let ReadResourceResponse::Complete(read) = &mut read {
            (read.ttl_ms, read.cache_scope) = (None, None);
        }
        Ok(read)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.run(ctx, "completion/complete", |ctx| self.handler.complete(request, ctx)).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        ctx: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if OWN.contains(&request.method.as_str()) {
            let text = format!("The params of {} do not have the shape that MCP gives them.", request.method);
            return Err(error_data(Fault::invalid("params_invalid", text)));
        }
        self.handler.on_custom_request(request, ctx).await
    }
}

/// Writes `true` and `false` as the objects that mean the same. In these revisions the schema of a property is an
/// object, and a client that checks it would refuse the whole list for one tool that takes any value.
fn spell_out(schema: &mut Arc<JsonObject>) {
    let has_short = |schema: &JsonObject| match schema.get("properties") {
        Some(Value::Object(properties)) => properties.values().any(Value::is_boolean),
        _ => false,
    };
    if !has_short(schema) {
        return;
    }
    if let Some(Value::Object(properties)) = Arc::make_mut(schema).get_mut("properties") {
        for property in properties.values_mut() {
            match property {
                Value::Bool(true) => *property = json!({}),
                Value::Bool(false) => *property = json!({"not": {}}),
                _ => {}
            }
        }
    }
}

fn level(level: LoggingLevel) -> LogLevel {
    let name = serde_json::to_value(level).unwrap_or_default();
    name.as_str().and_then(log_level).unwrap_or(LogLevel::Info)
}

/// Tells one session of every change, until its client takes no more.
async fn notify(peer: Peer<RoleServer>, plugins: Arc<Plugins>, uris: Arc<Mutex<BTreeSet<Arc<str>>>>) {
    let mut catalog = plugins.watch();
    let mut contents = plugins.contents();
    let mut seen = catalog.borrow_and_update().revisions;
    // It would keep the catalog's watcher from ending.
    drop(plugins);
    loop {
        let mut messages = Vec::new();
        tokio::select! {
            changed = catalog.changed() => {
                if changed.is_err() {
                    return;
                }
                let now = catalog.borrow_and_update().revisions;
                messages.extend(lists(seen, now).map(|method| json!({"method": method})));
                seen = now;
            }
            uri = contents.recv() => {
                let watched = lock(&uris);
                let changed: Vec<Arc<str>> = match uri {
                    Ok(uri) => watched.get(&uri).cloned().into_iter().collect(),
                    // Some were missed: that they all changed costs the client a few reads.
                    Err(RecvError::Lagged(_)) => watched.iter().cloned().collect(),
                    Err(RecvError::Closed) => return,
                };
                messages.extend(changed.into_iter().map(|uri| {
                    json!({"method": "notifications/resources/updated", "params": {"uri": &*uri}})
                }));
            }
        }
        for message in messages {
            let Ok(message) = ServerNotification::deserialize(message) else { continue };
            let sent = tokio::time::timeout(TELL, peer.send_notification(message)).await;
            if !matches!(sent, Ok(Ok(()))) {
                return;
            }
        }
    }
}

/// The notifications for what differs.
fn lists(seen: Revisions, now: Revisions) -> impl Iterator<Item = &'static str> {
    let changed = [
        (now.tools != seen.tools, "notifications/tools/list_changed"),
        (now.prompts != seen.prompts, "notifications/prompts/list_changed"),
        (now.resources != seen.resources, "notifications/resources/list_changed"),
    ];
    changed.into_iter().filter(|(is, _)| *is).map(|(_, method)| method)
}
