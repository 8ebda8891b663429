//! The MCP client of `layby call`: rmcp's, in its 2026-07-28 mode, with the tasks extension.

use std::sync::Arc;

use rmcp::{
    ClientHandler, RoleClient, ServiceError,
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities, ClientConfig,
        ElicitationCapability, FormElicitationCapability, GetTaskParams, GetTaskResult, Implementation,
        InputResponses, ProgressNotificationParam, ProtocolVersion, UpdateTaskParams,
        UrlElicitationCapability,
    },
    service::{
        ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, NotificationContext,
        RunningService,
    },
    transport::{
        StreamableHttpClientTransport,
        streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError},
    },
};
use serde_json::{Value, json};

use super::{super::exit::Failure, progress::Display};
use crate::{
    base::{choose_tls, neutral_line},
    config::ClientLimits,
};

/// What rmcp tells us of a call in flight.
#[derive(Clone)]
struct Handler {
    display: Arc<Display>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let elicitation = ElicitationCapability::new()
            .with_form(FormElicitationCapability::new().with_schema_validation(true))
            .with_url(UrlElicitationCapability::new());
        let mut capabilities = ClientCapabilities::builder().enable_tasks().build();
        capabilities.elicitation = Some(elicitation);
        ClientConfig::new(capabilities, Implementation::new("layby", env!("CARGO_PKG_VERSION")))
    }

    async fn on_progress(&self, p: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.display.progress(p.progress, p.total, p.message.as_deref());
    }
}

/// A JSON-RPC error, or a connection that failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The server answered with an error: the JSON-RPC object.
    Answer(Value),
    /// The server did not answer; asking again may help.
    Away(String),
    /// The server answered what the protocol does not have.
    Odd(String),
}

impl From<ServiceError> for Trouble {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::McpError(e) => Self::Answer(
                serde_json::to_value(e).unwrap_or_else(|_| json!({"message": "unreadable error"})),
            ),
            ServiceError::TransportSend(e) => Self::Away(root_cause(&*e.error)),
            ServiceError::TransportClosed => Self::Away("the connection was closed".into()),
            ServiceError::Timeout { .. } => Self::Away("the server did not answer in time".into()),
            other => Self::Odd(other.to_string()),
        }
    }
}

/// The innermost reason: `Connection refused` rather than a chain of wrappers.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    // rmcp prints this one's cause and does not name it as its source.
    if let Some(StreamableHttpError::Client(inner)) =
        error.downcast_ref::<StreamableHttpError<reqwest::Error>>()
    {
        cause = inner;
    }
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    neutral_line(&cause.to_string())
}

/// One server.
pub(crate) struct Client {
    url: String,
    token: Option<String>,
    display: Arc<Display>,
    running: RunningService<RoleClient, Handler>,
}

/// The endpoint of `url`: a URL without a path means `/mcp`.
///
/// # Errors
/// Not an http or https URL.
pub(crate) fn endpoint(url: &str) -> Result<String, Failure> {
    let wrong = |why: &str| {
        Failure::usage(
            "url_invalid",
            format!("--url {url:?}: {why}. Write, for example, http://127.0.0.1:7331/mcp"),
        )
    };
    let mut parsed = reqwest::Url::parse(url).map_err(|e| wrong(&e.to_string()))?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(wrong("only http and https are spoken"));
    }
    if parsed.path() == "/" {
        parsed.set_path("/mcp");
    }
    Ok(parsed.into())
}

impl Client {
    /// Connects by `server/discover`.
    ///
    /// # Errors
    /// `server_unreachable`, `server_not_mcp`, `unauthenticated`.
    pub(crate) async fn connect(
        url: &str,
        token: Option<String>,
        display: Arc<Display>,
    ) -> Result<Self, Failure> {
        choose_tls();
        let http = reqwest::Client::builder()
            .connect_timeout(ClientLimits::CONNECT.duration())
            // A redirect could lead arguments and answers to another host.
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(0)
            .build()
            .map_err(|e| Failure::unreachable("server_unreachable", format!("no HTTP client: {e}")))?;
        let mut config = StreamableHttpClientTransportConfig::default();
        config.uri = url.into();
        config.auth_header.clone_from(&token);
        let transport = StreamableHttpClientTransport::with_client(http, config);
        let mode = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
        let handler = Handler { display: display.clone() };
        let running =
            handler.serve_with_lifecycle(transport, mode).await.map_err(|e| not_connected(url, &e))?;
        Ok(Self { url: url.to_owned(), token, display, running })
    }

    /// Connects again after the connection was lost.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub(crate) async fn reconnect(&mut self) -> Result<(), Failure> {
        *self = Self::connect(&self.url, self.token.clone(), self.display.clone()).await?;
        Ok(())
    }

    /// Whether the connection can carry another request.
    pub(crate) fn is_closed(&self) -> bool {
        self.running.is_closed()
    }

    /// Every tool. rmcp needs the list, too: arguments that a schema maps to headers are sent as such.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub(crate) async fn tools(&self) -> Result<Vec<rmcp::model::Tool>, Trouble> {
        Ok(self.running.list_all_tools().await?)
    }

    /// `tools/call`. Dropping the future closes the request, which the server takes as cancellation.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub(crate) async fn call(&self, params: CallToolRequestParams) -> Result<CallToolResponse, Trouble> {
        Ok(self.running.peer().call_tool_once(params).await?)
    }

    /// `tasks/get`.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub(crate) async fn get(&self, id: &str) -> Result<GetTaskResult, Trouble> {
        Ok(self.running.peer().get_task(GetTaskParams::new(id)).await?)
    }

    /// `tasks/update`.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub(crate) async fn update(&self, id: &str, answers: InputResponses) -> Result<(), Trouble> {
        Ok(self.running.peer().update_task(UpdateTaskParams::new(id, answers)).await?)
    }

    /// `tasks/cancel`.
    ///
    /// # Errors
    /// See [`Trouble`].
    pub(crate) async fn cancel(&self, id: &str) -> Result<(), Trouble> {
        Ok(self.running.peer().cancel_task(CancelTaskParams::new(id)).await?)
    }

    /// Ends the connection, and with it a call in flight.
    pub(crate) async fn close(mut self) {
        // Nothing is left to tell: the process is at its end.
        let _ = self.running.close_with_timeout(ClientLimits::CLOSE.duration()).await;
    }
}

fn not_connected(url: &str, error: &ClientInitializeError) -> Failure {
    let reason = match error {
        ClientInitializeError::TransportError { error, .. } if refuses_caller(&*error.error) => {
            let text =
                format!("{url} does not know you: give a token by --token or LAYBY_TOKEN, or another one");
            return Failure::refused("unauthenticated", text);
        }
        ClientInitializeError::TransportError { error, .. } => root_cause(&*error.error),
        ClientInitializeError::JsonRpcError(e) => {
            let text = format!("{url} does not speak MCP 2026-07-28: {}", e.message);
            return Failure::unreachable("server_not_mcp", text);
        }
        other => other.to_string(),
    };
    Failure::unreachable(
        "server_unreachable",
        format!("cannot reach an MCP server at {url}: {reason}. Is `layby serve` running there?"),
    )
}

/// True where the server wants to know who calls.
fn refuses_caller(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(
        error.downcast_ref::<StreamableHttpError<reqwest::Error>>(),
        Some(StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_))
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_bare_address_means_the_mcp_path() {
        assert_eq!(endpoint("http://127.0.0.1:7331").unwrap(), "http://127.0.0.1:7331/mcp");
        assert_eq!(endpoint("http://127.0.0.1:7331/").unwrap(), "http://127.0.0.1:7331/mcp");
        assert_eq!(endpoint("https://a.example/other").unwrap(), "https://a.example/other");
        assert!(endpoint("127.0.0.1:7331").is_err());
        assert!(endpoint("ftp://a.example/").is_err());
    }
}
