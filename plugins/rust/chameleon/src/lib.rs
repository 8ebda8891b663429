//! Whatever a test wants a plugin to be. The catalog stands as text in the component's bytes, and
//! tests patch it there, at the same length: no compiler is needed for the next plugin.
//!
//! The text: `LAYBY-CHAMELEON:`, then one JSON object padded with spaces to 8192 bytes in all:
//!
//! - `version`: any text, which each call returns
//! - `list`: what `list-tools` does: `ok`, `trap`, `spin` (never returns), `big` (64 MiB of description)
//! - `tools`: objects with `name`, `title`, `description`, `inputSchema`, `outputSchema`,
//!   `annotations` (`readOnlyHint` …) and `extra`; a schema or `extra` that is a string is passed on
//!   as it is, so that it can be broken
//!
//! `call-tool` returns `{"version":…,"tool":…,"arguments":…}` as text, after `arguments.sleep_ms`
//! milliseconds if there is such a number.

use std::{ptr, time::Duration};

use bindings::{
    exports::layby::plugin::tools::{Guest, Json, Tool, ToolError, ToolResult},
    layby::plugin::types::{Content, ToolAnnotations},
};
use serde_json::{Value, json};

#[allow(missing_docs, unreachable_pub, clippy::all)]
mod bindings {
    wit_bindgen::generate!({ path: "../../../wit", world: "plugin" });
}

const SIZE: usize = 8192;
const MARK: &str = "LAYBY-CHAMELEON:";
const CATALOG: &str = r#"{"version":"1","list":"ok","tools":[{"name":"chameleon","description":"Answers with its version, its name and its arguments.","inputSchema":{"type":"object"}}]}"#;

/// What tests patch. Not a `const`: it must be in the bytes once, and be read from there.
#[used]
static PATCHED: [u8; SIZE] = padded();

const fn padded() -> [u8; SIZE] {
    let mut bytes = [b' '; SIZE];
    let (mark, catalog) = (MARK.as_bytes(), CATALOG.as_bytes());
    let mut i = 0;
    while i < mark.len() {
        bytes[i] = mark[i];
        i += 1;
    }
    let mut i = 0;
    while i < catalog.len() {
        bytes[mark.len() + i] = catalog[i];
        i += 1;
    }
    bytes
}

fn catalog() -> Value {
    let bytes: Vec<u8> = PATCHED
        .iter()
        // SAFETY: a reference is always valid to read. Volatile, or the optimizer would answer from
        // what the source says, and not from what the test has put there.
        .map(|byte| unsafe { ptr::read_volatile(byte) })
        .skip(MARK.len())
        .collect();
    // What a test has broken is the test's to see: a trap, with the reason on standard error.
    serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("the catalog is no JSON: {e}"))
}

/// The plugin.
#[derive(Debug)]
pub struct Chameleon;

impl Guest for Chameleon {
    fn list_tools() -> Vec<Tool> {
        let catalog = catalog();
        let mut tools: Vec<_> = catalog["tools"].as_array().into_iter().flatten().map(tool).collect();
        match catalog["list"].as_str() {
            Some("trap") => panic!("told to trap in list-tools"),
            Some("spin") => loop {
                std::hint::black_box(());
            },
            Some("big") => tools.iter_mut().for_each(|tool| tool.description = "x".repeat(64 << 20)),
            _ => {}
        }
        tools
    }

    fn call_tool(name: String, arguments: Json) -> Result<ToolResult, ToolError> {
        let arguments: Value = serde_json::from_str(&arguments).unwrap_or_default();
        if let Some(ms) = arguments["sleep_ms"].as_u64() {
            std::thread::sleep(Duration::from_millis(ms));
        }
        let answer = json!({ "version": catalog()["version"], "tool": name, "arguments": arguments });
        Ok(ToolResult {
            content: vec![Content::Text(answer.to_string())],
            structured_content: None,
            meta: None,
        })
    }
}

fn tool(tool: &Value) -> Tool {
    let hint = |name: &str| tool["annotations"][name].as_bool();
    Tool {
        name: text(&tool["name"]).unwrap_or_default(),
        title: text(&tool["title"]),
        description: text(&tool["description"]).unwrap_or_default(),
        input_schema: text(&tool["inputSchema"]).unwrap_or_else(|| r#"{"type":"object"}"#.to_owned()),
        output_schema: text(&tool["outputSchema"]),
        annotations: ToolAnnotations {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        },
        extra: text(&tool["extra"]),
    }
}

/// A string as it is, anything else as JSON, and `null` as nothing.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(target_family = "wasm")]
bindings::export!(Chameleon with_types_in bindings);
