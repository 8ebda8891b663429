//! The least that a component can be: no standard library, no WASI, no import at all. The
//! benchmark calls it to measure what the host itself costs.

#![cfg_attr(target_family = "wasm", no_std)]

extern crate alloc;

use alloc::{borrow::ToOwned, string::String, vec, vec::Vec};

use bindings::{
    exports::layby::plugin::tools::{Guest, Json, Tool, ToolError, ToolResult},
    layby::plugin::types::{Content, ToolAnnotations},
};

#[allow(missing_docs, unreachable_pub, clippy::all)]
mod bindings {
    wit_bindgen::generate!({ path: "../../../wit", world: "plugin" });
}

/// The plugin.
#[derive(Debug)]
pub struct Minimal;

impl Guest for Minimal {
    fn list_tools() -> Vec<Tool> {
        vec![Tool {
            name: "echo_minimal".to_owned(),
            title: None,
            description: "Answers with its arguments, as text.".to_owned(),
            input_schema: r#"{"type":"object"}"#.to_owned(),
            output_schema: None,
            annotations: ToolAnnotations {
                read_only: Some(true),
                destructive: None,
                idempotent: Some(true),
                open_world: Some(false),
            },
            extra: None,
        }]
    }

    fn call_tool(_name: String, arguments: Json) -> Result<ToolResult, ToolError> {
        Ok(ToolResult { content: vec![Content::Text(arguments)], structured_content: None, meta: None })
    }
}

#[cfg(target_family = "wasm")]
bindings::export!(Minimal with_types_in bindings);

// The other guest without a standard library has the same.
#[cfg(target_family = "wasm")]
#[path = "../../contract/src/runtime.rs"]
mod runtime;
