//! From what an instance ended with to what the caller gets (design 5, the table of outcomes).

use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::Value;

use super::{Answer, run::Run};
use crate::{
    base::Fault,
    capabilities::{self, Abort, wit_types},
    plugins::Tool,
    store::End,
};

/// What an instance ended with.
pub(super) type Ended = Result<Result<wit_types::ToolResult, wit_types::ToolError>, Abort>;

/// What a run ended with, as its caller is told.
pub(super) enum Outcome {
    Result(Box<CallToolResult>),
    Error(Fault),
    Cancelled,
    /// The task's TTL or input deadline passed.
    Stopped(End),
}

impl Outcome {
    pub(super) fn of(run: &Run, ended: Ended) -> Self {
        let tool = &run.tool;
        match ended {
            Ok(Ok(result)) => Self::result(tool, result, false),
            Ok(Err(wit_types::ToolError::Failed(result))) => Self::result(tool, result, true),
            Ok(Err(wit_types::ToolError::Protocol(error))) => Self::Error(protocol(tool, error)),
            Ok(Err(wit_types::ToolError::Unsupported)) => Self::Error(unsupported(run)),
            Ok(Err(wit_types::ToolError::Cancelled)) if run.is_cancelled() => Self::Cancelled,
            Ok(Err(wit_types::ToolError::Cancelled)) => Self::Error(Fault::internal(
                "plugin_cancelled_unasked",
                format!(
                    "The tool {:?} said that it was cancelled, and nobody had asked for it. Call again.",
                    tool.name
                ),
            )),
            Err(Abort::Limit { name, value, advice }) => Self::limit(tool, name, &value, &advice),
            Err(Abort::Trap(text)) => {
                let first = text.lines().next().unwrap_or("a trap");
                tracing::warn!(plugin = %tool.plugin.name, tool = %tool.own_name, "trapped: {text}");
                Self::Error(Fault::internal(
                    "plugin_trap",
                    format!("The tool {:?} of the plugin {:?} crashed: {first}", tool.name, tool.plugin.name),
                ))
            }
            Err(Abort::Host(text)) => {
                tracing::error!(plugin = %tool.plugin.name, tool = %tool.own_name, "the host failed: {text}");
                Self::Error(Fault::internal(
                    "host_failure",
                    "The host could not run the tool. The operator's log has the reason; call again later.",
                ))
            }
        }
    }

    fn result(tool: &Tool, result: wit_types::ToolResult, failed: bool) -> Self {
        let result = match capabilities::call_tool_result(result, failed) {
            Ok(result) => result,
            Err(reason) => {
                tracing::warn!(plugin = %tool.plugin.name, tool = %tool.own_name, "unusable result: {reason}");
                return Self::Error(Fault::internal(
                    "plugin_bad_result",
                    format!("The tool {:?} gave a result that MCP does not have: {reason}", tool.name),
                ));
            }
        };
        if !failed && let Some(wrong) = mismatch(tool, result.structured_content.as_ref()) {
            return Self::Result(Box::new(tool_error(
                "output_invalid",
                format!("The result of {:?} does not fit its own output schema: {wrong}", tool.name),
            )));
        }
        Self::Result(Box::new(result))
    }

    fn limit(tool: &Tool, name: &'static str, value: &str, advice: &str) -> Self {
        let section = if name.contains('.') { "" } else { "limits." };
        tracing::warn!(plugin = %tool.plugin.name, tool = %tool.own_name, limit = name, value, "a limit was hit");
        Self::Result(Box::new(tool_error(
            limit_code(name),
            format!("The tool {:?} was stopped: it reached {section}{name} = {value}. {advice}", tool.name),
        )))
    }

    pub(super) fn into_answer(self) -> Answer {
        match self {
            Self::Result(result) => Answer::Result(result),
            Self::Error(fault) => Answer::Error(fault),
            Self::Cancelled => cancelled(),
            Self::Stopped(end) => ended_answer(end),
        }
    }
}

/// The answer to a call whose run was cancelled before it had answered.
pub(super) fn cancelled() -> Answer {
    Answer::Error(Fault::internal("cancelled", "The call was cancelled."))
}

/// The answer that a stored end stands for.
pub(super) fn ended_answer(end: End) -> Answer {
    match end {
        End::Completed(result) => match serde_json::from_value::<CallToolResult>(result) {
            Ok(result) => Answer::Result(Box::new(result)),
            Err(e) => {
                Answer::Error(Fault::internal("host_failure", format!("A stored result cannot be read: {e}")))
            }
        },
        End::Failed(error) => Answer::Error(Fault::from_json(&error)),
        End::Cancelled => cancelled(),
    }
}

/// `structuredContent` against the output schema; a missing one does not fit either.
fn mismatch(tool: &Tool, content: Option<&Value>) -> Option<String> {
    let schema = tool.output.as_ref()?;
    match content {
        Some(content) => schema.check(content).err(),
        None => Some("it has no structured content".into()),
    }
}

/// The plugin's own protocol error; codes that MCP and JSON-RPC reserve become -32603.
fn protocol(tool: &Tool, error: wit_types::ProtocolError) -> Fault {
    let reserved = (-32768..=-32000).contains(&error.code);
    let rpc = match error.code {
        Fault::INVALID_PARAMS | Fault::INTERNAL => error.code,
        _ if reserved => Fault::INTERNAL,
        other => other,
    };
    let fault = Fault::new(rpc, "plugin_error", error.message).with("tool", tool.name.clone().into());
    match error.data.as_deref().map(serde_json::from_str::<Value>) {
        Some(Ok(data)) => fault.with("data", data),
        _ => fault,
    }
}

/// The plugin cannot go on without an input: names exactly what is missing.
fn unsupported(run: &Run) -> Fault {
    let missing = run.missing();
    if let Some(required) = missing.required() {
        return Fault::missing_capability(
            required,
            format!(
                "The tool {:?} has to ask something that your client did not declare it can answer.",
                run.tool.name
            ),
        );
    }
    let reason = match missing.grant() {
        Some(kind) => {
            format!("policy does not let this plugin ask ({kind:?}): the operator can add it to grants.ask")
        }
        None => "it gave no question that could not be asked".to_owned(),
    };
    Fault::internal("plugin_unsupported", format!("The tool {:?} could not go on: {reason}.", run.tool.name))
}

/// A result that a model is to read: `isError: true`, with the stable code in `_meta`.
pub fn tool_error(code: &'static str, text: impl Into<String>) -> CallToolResult {
    let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
    let mut meta = MetaObject::default();
    meta.insert("layby/code".into(), code.into());
    result.meta = Some(meta);
    result
}

/// `limit_` and the limit's name; every one is listed in `docs/errors.md`.
fn limit_code(name: &str) -> &'static str {
    match name {
        "fuel" => "limit_fuel",
        "memory" => "limit_memory",
        "active-time" => "limit_active_time",
        "output" => "limit_output",
        "questions" => "limit_questions",
        "limits.parked" | "host.waiting" | "host.memory" => "limit_waiting",
        _ => "limit_other",
    }
}
