//! The one error that a caller can meet: a JSON-RPC code, a stable name, and what to do next.

use std::fmt;

use serde_json::{Value, json};

use super::Digest;

/// The stable name of an error, as `docs/errors.md` lists it.
pub type FaultCode = &'static str;

/// Codes that a task can end with, and a repeat of its idempotency key then reads back.
const STORED: [FaultCode; 21] = [
    "caller_busy",
    "cancelled",
    "file_changed",
    "host_busy",
    "host_failure",
    "host_stopping",
    "input_timed_out",
    "interrupted",
    "journal_damaged",
    "missing_client_capability",
    "not_resumable",
    "outcome_unknown",
    "plugin_bad_result",
    "plugin_cancelled_unasked",
    "plugin_error",
    "plugin_revoked",
    "plugin_trap",
    "plugin_unsupported",
    "replay_mismatch",
    "resume_crashes",
    "task_expired",
];

/// An error for a caller. Its text never holds host paths, addresses or backtraces.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// JSON-RPC error code: -32602 for the caller's mistakes, -32603 for ours, -32020 to -32022
    /// as MCP 2026-07-28 defines them, or a plugin's own outside the reserved range.
    pub rpc: i32,
    /// Stable name, in `error.data.code`.
    pub code: FaultCode,
    /// What was wrong and what to do.
    pub message: String,
    /// More members of `error.data`; always an object.
    pub data: serde_json::Map<String, Value>,
}

impl Fault {
    /// Invalid params.
    pub const INVALID_PARAMS: i32 = -32602;
    /// Method not found.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// The server does not speak the revision that the request names.
    pub const UNSUPPORTED_VERSION: i32 = -32022;
    /// Internal error.
    pub const INTERNAL: i32 = -32603;
    /// HTTP headers and body disagree (MCP 2026-07-28, transports).
    pub const HEADER_MISMATCH: i32 = -32020;
    /// The client did not declare a capability that is needed.
    pub const MISSING_CAPABILITY: i32 = -32021;

    /// A fault with any JSON-RPC code.
    pub fn new(rpc: i32, code: FaultCode, message: impl Into<String>) -> Self {
        Self { rpc, code, message: message.into(), data: serde_json::Map::new() }
    }

    /// What the caller got wrong.
    pub fn invalid(code: FaultCode, message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_PARAMS, code, message)
    }

    /// What went wrong on our side.
    pub fn internal(code: FaultCode, message: impl Into<String>) -> Self {
        Self::new(Self::INTERNAL, code, message)
    }

    /// The client lacks `required`, in the shape of MCP's `ClientCapabilities`.
    pub fn missing_capability(required: Value, message: impl Into<String>) -> Self {
        Self::new(Self::MISSING_CAPABILITY, "missing_client_capability", message)
            .with("requiredCapabilities", required)
    }

    /// The client did not declare the tasks extension, and this cannot be done without.
    pub fn tasks_required(message: impl Into<String>) -> Self {
        Self::missing_capability(json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}), message)
    }

    /// The operator lets nothing run on this component any more.
    pub fn revoked(component: Digest) -> Self {
        let text = format!(
            "The operator has revoked the component that this runs on, {component}: it was stopped, and does not run again. \
             Call the tool again once the operator serves another version."
        );
        Self::internal("plugin_revoked", text).with("digest", component.to_string().into())
    }

    /// The same fault with one more member of `error.data`.
    #[must_use]
    pub fn with(mut self, key: &str, value: Value) -> Self {
        self.data.insert(key.to_owned(), value);
        self
    }

    /// `error.data` as it goes over the wire: the members, and `code`.
    pub fn wire_data(&self) -> Value {
        let mut data = self.data.clone();
        data.insert("code".into(), self.code.into());
        Value::Object(data)
    }

    /// The fault that [`Fault::to_json`] wrote. A code that this binary does not know reads as `stored_error`.
    pub fn from_json(error: &Value) -> Self {
        let mut data = error["data"].as_object().cloned().unwrap_or_default();
        let code = data.remove("code");
        let code = code.as_ref().and_then(Value::as_str).unwrap_or_default();
        let known = STORED.iter().find(|known| **known == code);
        Self {
            rpc: error["code"].as_i64().and_then(|c| i32::try_from(c).ok()).unwrap_or(Self::INTERNAL),
            code: known.copied().unwrap_or("stored_error"),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            data,
        }
    }

    /// The whole JSON-RPC error object.
    pub fn to_json(&self) -> Value {
        json!({"code": self.rpc, "message": self.message, "data": self.wire_data()})
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for Fault {}
