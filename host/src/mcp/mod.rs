//! rmcp's `ServerHandler`: from the wire to runs and tasks, and back. No logic of its own.

pub mod access;
mod bridge;
mod convert;
pub mod dispatch;
pub mod listen;
mod lists;
pub mod older;
mod peer;
mod rates;
mod reads;
pub mod stdio;
mod tasks;
mod tools;
mod trace;

use std::{borrow::Cow, sync::Arc};

use access::Access;
pub use convert::{error_data, log_level, notification};
use rates::Cost;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult,
        CustomRequest, CustomResult, ErrorCode, GetPromptRequestParams, GetPromptResponse, GetTaskParams,
        GetTaskResult, Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
        ReadResourceResponse, ServerCapabilities, ServerConfig, UpdateTaskParams,
    },
    service::RequestContext,
};

use crate::{
    base::Fault,
    config::Config,
    plugins::Plugins,
    runs::{Asks, Outlet, Runs},
    tasks::Tasks,
};

/// The revision that this server speaks.
pub const REVISIONS: [ProtocolVersion; 1] = [ProtocolVersion::V_2026_07_28];

/// Methods that exist: what does not fit their parameters is `-32602`, not an unknown method.
pub const METHODS: [&str; 13] = [
    "server/discover",
    "tools/list",
    "tools/call",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "completion/complete",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "subscriptions/listen",
];

/// What the front puts into a request's extensions.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who calls.
    pub access: Access,
    /// The `Idempotency-Key` header.
    pub idempotency_key: Option<String>,
    /// Where progress and log messages go, where the client wants some.
    pub outlet: Option<Outlet>,
    /// How a question reaches the client.
    pub asks: Asks,
}

/// The one handler. Never uses `ctx.peer`: in this revision there is nobody behind it.
pub struct Handler {
    runs: Arc<Runs>,
    tasks: Arc<Tasks>,
    plugins: Arc<Plugins>,
    config: ServerConfig,
    rates: rates::Rates,
    /// Items of one page of a list.
    page_size: usize,
    /// Clients that cannot do tasks get bridge tools.
    bridge: bool,
}

impl Handler {
    /// A handler over the rooms below.
    #[expect(
        deprecated,
        reason = "logging goes with a later revision, and clients of this one still ask for it"
    )]
    pub fn new(runs: Arc<Runs>, tasks: Arc<Tasks>, plugins: Arc<Plugins>, config: &Config) -> Self {
        let (serve, bridge) = (&config.serve, config.bridge_tools);
        let rates = rates::Rates::new(&config.host, &config.callers);
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_tasks()
            .build();
        let mut config = ServerConfig::new(capabilities);
        config.protocol_version = ProtocolVersion::V_2026_07_28;
        config.server_info = Implementation::new("layby", env!("CARGO_PKG_VERSION"));
        config.instructions = Some(serve.instructions.clone()).filter(|text| !text.trim().is_empty());
        Self { runs, tasks, plugins, rates, config, page_size: serve.page_size as usize, bridge }
    }

    /// What is served; for subscriptions.
    pub fn plugins(&self) -> &Arc<Plugins> {
        &self.plugins
    }

    /// The tasks; for subscriptions.
    pub fn tasks(&self) -> &Arc<Tasks> {
        &self.tasks
    }

    /// Who serves, as results name it in `_meta["io.modelcontextprotocol/serverInfo"]`.
    pub fn server(&self) -> serde_json::Value {
        serde_json::to_value(&self.config.server_info).unwrap_or_default()
    }

    /// Who asks, once the request is counted as what it costs.
    fn caller(&self, ctx: &RequestContext<RoleServer>, cost: Cost) -> Result<Caller, Fault> {
        let caller = ctx.extensions.get::<Caller>().cloned().ok_or_else(|| {
            Fault::internal("host_failure", "The request reached the server without a principal.")
        })?;
        self.rates.check(&caller.access, cost)?;
        Ok(caller)
    }

    /// Counts a request that reaches no other method of this handler.
    ///
    /// # Errors
    /// `rate_limited`.
    pub fn count(&self, access: &Access) -> Result<(), Fault> {
        self.rates.check(access, Cost::Other)
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.config.clone()
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(&REVISIONS)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let access = self.caller(&ctx, Cost::Other).map_err(error_data)?.access;
        self.tools(request, &access).map_err(error_data)
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let access = self.caller(&ctx, Cost::Other).map_err(error_data)?.access;
        self.prompts(request, &access).map_err(error_data)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let access = self.caller(&ctx, Cost::Other).map_err(error_data)?.access;
        self.resources(request, &access).map_err(error_data)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let access = self.caller(&ctx, Cost::Other).map_err(error_data)?.access;
        self.templates(request, &access).map_err(error_data)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, ctx).await.map_err(error_data)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        self.prompt(request, &ctx).await.map_err(error_data)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.resource(request, &ctx).await.map_err(error_data)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        self.completion(request, &ctx).await.map_err(error_data)
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.task(request, &ctx).await.map_err(error_data)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.update(request, &ctx).await.map_err(error_data)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        ctx: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.cancel(request, &ctx).await.map_err(error_data)
    }

    /// Parameters that do not fit a known method fall through to here.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _ctx: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        if METHODS.contains(&request.method.as_str()) {
            return Err(error_data(Fault::invalid(
                "params_invalid",
                format!(
                    "The params of {} do not have the shape that MCP 2026-07-28 gives them.",
                    request.method
                ),
            )));
        }
        Err(ErrorData::new(
            ErrorCode::METHOD_NOT_FOUND,
            format!("Method not found: {}", request.method.chars().take(128).collect::<String>()),
            Some(serde_json::json!({"code": "method_unknown"})),
        ))
    }
}
