//! Between the wire's types and ours.

use rmcp::{
    ErrorData,
    model::{
        ClientCapabilities, DetailedTask, ErrorCode, InputRequest, InputRequests, InputRequiredResult,
        Task as WireTask, TaskPayload, TaskStatus,
    },
};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use crate::{
    base::Fault,
    capabilities::wit_call,
    runs::{Client, LogLine, Notice, Progress},
    store::{End, Status, Task},
};

/// A fault as the JSON-RPC error that the wire has.
pub fn error_data(fault: Fault) -> ErrorData {
    let data = fault.wire_data();
    ErrorData::new(ErrorCode(fault.rpc), fault.message, Some(data))
}

/// A run's notice as the notification that the wire has; `token` is the request's progress token.
pub fn notification(token: Option<&Value>, notice: &Notice) -> Option<Value> {
    match notice {
        Notice::Progress(progress) => Some(progress_notification(token?, progress)),
        Notice::Log(line) => Some(log_notification(line)),
    }
}

/// `notifications/message` (MCP 2026-07-28, logging).
fn log_notification(line: &LogLine) -> Value {
    let params = json!({"level": level_name(line.level), "logger": line.logger, "data": line.text});
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
}

fn level_name(level: wit_call::LogLevel) -> &'static str {
    match level {
        wit_call::LogLevel::Debug => "debug",
        wit_call::LogLevel::Info => "info",
        wit_call::LogLevel::Notice => "notice",
        wit_call::LogLevel::Warning => "warning",
        wit_call::LogLevel::Error => "error",
        wit_call::LogLevel::Critical => "critical",
    }
}

/// The least level that a client wants, from MCP's name of it; plugins have nothing graver than `critical`.
pub fn log_level(name: &str) -> Option<wit_call::LogLevel> {
    Some(match name {
        "debug" => wit_call::LogLevel::Debug,
        "info" => wit_call::LogLevel::Info,
        "notice" => wit_call::LogLevel::Notice,
        "warning" => wit_call::LogLevel::Warning,
        "error" => wit_call::LogLevel::Error,
        "critical" | "alert" | "emergency" => wit_call::LogLevel::Critical,
        _ => return None,
    })
}

/// `notifications/progress` for the request that sent `token`.
fn progress_notification(token: &Value, progress: &Progress) -> Value {
    let mut params = Map::new();
    params.insert("progressToken".into(), token.clone());
    params.insert("progress".into(), json!(progress.progress));
    if let Some(total) = progress.total {
        params.insert("total".into(), json!(total));
    }
    if let Some(message) = &progress.message {
        params.insert("message".into(), json!(message));
    }
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
}

/// What the client declared, as runs need it. `elicitation` without members means forms.
pub(super) fn client(capabilities: Option<&ClientCapabilities>) -> Client {
    let Some(capabilities) = capabilities else { return Client::default() };
    let elicitation = capabilities.elicitation.as_ref();
    Client {
        tasks: capabilities.supports_tasks(),
        form: elicitation.is_some_and(|e| e.form.is_some() || e.url.is_none()),
        url: elicitation.is_some_and(|e| e.url.is_some()),
        sampling: capabilities.sampling.is_some(),
        roots: capabilities.roots.is_some(),
        bridge: false,
    }
}

/// The handle, without payload.
pub(super) fn task(task: &Task) -> WireTask {
    let status = match task.status {
        Status::Working => TaskStatus::Working,
        Status::InputRequired => TaskStatus::InputRequired,
        Status::Completed => TaskStatus::Completed,
        Status::Failed => TaskStatus::Failed,
        Status::Cancelled => TaskStatus::Cancelled,
    };
    let wire =
        WireTask::new(task.id.to_string(), status, task.created_at.rfc3339(), task.updated_at.rfc3339())
            .with_ttl_ms(task.ttl.0)
            .with_poll_interval_ms(task.poll_interval.0);
    match &task.status_message {
        Some(message) => wire.with_status_message(message),
        None => wire,
    }
}

/// Questions for a client without tasks.
pub(super) fn input_required(
    requests: Vec<(String, Value)>,
    state: String,
) -> Result<InputRequiredResult, Fault> {
    let mut wire = InputRequests::new();
    for (key, request) in requests {
        let request = InputRequest::deserialize(request)
            .map_err(|e| Fault::internal("host_failure", format!("A question cannot be written: {e}")))?;
        wire.insert(key, request);
    }
    Ok(InputRequiredResult::new(Some(wire), Some(state)))
}

/// A run answers its own kind of request; anything else is a bug.
pub(super) fn mixed_up() -> Fault {
    Fault::internal("host_failure", "The run answered another kind of request.")
}

/// The task with the payload of its status.
pub(super) fn detailed(row: Task) -> Result<DetailedTask, Fault> {
    let wire = task(&row);
    let payload = match (row.status, row.end) {
        (Status::Completed, Some(End::Completed(Value::Object(result)))) => TaskPayload::Completed { result },
        (Status::Failed, Some(End::Failed(Value::Object(error)))) => TaskPayload::Failed { error },
        (Status::Cancelled, _) => TaskPayload::Cancelled,
        (Status::Working, _) => TaskPayload::Working,
        (Status::InputRequired, _) => {
            TaskPayload::InputRequired { input_requests: open_requests(row.questions)? }
        }
        (status, _) => {
            return Err(Fault::internal(
                "host_failure",
                format!("The stored outcome of this {} task cannot be read.", status.as_str()),
            ));
        }
    };
    Ok(DetailedTask::new(wire, payload))
}

fn open_requests(questions: Vec<crate::store::Question>) -> Result<InputRequests, Fault> {
    questions
        .into_iter()
        .filter(|question| question.answer.is_none())
        .map(|question| match InputRequest::deserialize(&*question.request) {
            Ok(request) => Ok((question.key, request)),
            Err(e) => Err(Fault::internal("host_failure", format!("A stored question cannot be read: {e}"))),
        })
        .collect()
}
