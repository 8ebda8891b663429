//! The ways in which a call can end.

use layby_plugin::{
    prelude::*,
    types::{Content, ProtocolError, ToolResult},
};
use serde_json::Value;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Trap {
    /// With an instruction, and not a panic with its message.
    #[serde(default)]
    unreachable: bool,
    /// Sleep first, in milliseconds.
    #[serde(default)]
    after_ms: u64,
}

/// Traps.
#[tool]
pub(crate) fn trap(args: Trap) -> Result<()> {
    std::thread::sleep(std::time::Duration::from_millis(args.after_ms));
    #[cfg(target_family = "wasm")]
    if args.unreachable {
        core::arch::wasm32::unreachable();
    }
    panic!("told to panic (unreachable: {})", args.unreachable);
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Protocol {
    code: i32,
    #[serde(default)]
    message: String,
    data: Option<Value>,
}

/// Ends with a protocol error.
#[tool]
pub(crate) fn protocol(args: Protocol) -> Result<()> {
    let data = args.data.map(|data| data.to_string());
    Err(Error::Protocol(ProtocolError { code: args.code, message: args.message, data }))
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Fail {
    #[serde(default)]
    text: String,
}

/// Ends with a failure that the model reads.
#[tool]
pub(crate) fn fail(args: Fail) -> Result<()> {
    Err(Error::failed(args.text))
}

/// Says that the client cannot give what it needs, without having asked.
#[tool]
pub(crate) fn unsupported() -> Result<()> {
    Err(Error::Unsupported)
}

/// Says that it was cancelled, without having been.
#[tool]
pub(crate) fn cancelled() -> Result<()> {
    Err(Error::Cancelled)
}

/// Any value, as its JSON.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Raw {
    /// A string is passed on as it is, and anything else as JSON.
    content: Value,
}

impl Raw {
    fn json(self) -> String {
        match self.content {
            Value::String(text) => text,
            value => value.to_string(),
        }
    }
}

/// What `structured` promises, whatever it then returns.
#[derive(JsonSchema, Serialize)]
pub(crate) struct Promise {
    n: i64,
}

pub(crate) struct Promised(ToolResult);

impl layby_plugin::IntoResult for Promised {
    fn output_schema() -> Option<String> {
        <Json<Promise> as layby_plugin::IntoResult>::output_schema()
    }

    fn into_result(self) -> Result<ToolResult> {
        Ok(self.0)
    }
}

/// Returns `content` as structured content. Its output schema wants an integer `n`.
#[tool]
pub(crate) fn structured(args: Raw) -> Result<Promised> {
    let json = args.json();
    Ok(Promised(ToolResult {
        content: vec![Content::Text(json.clone())],
        structured_content: Some(json),
        meta: None,
    }))
}

/// Returns `content` as a content block.
#[tool]
pub(crate) fn other(args: Raw) -> Result<Content> {
    Ok(Content::Other(args.json()))
}
