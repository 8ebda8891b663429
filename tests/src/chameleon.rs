//! A plugin that is whatever a test wants: the catalog stands as text in the component's bytes.

use serde_json::{Value, json};

use crate::guests;

const MARK: &[u8] = b"LAYBY-CHAMELEON:";
const SIZE: usize = 8192;

/// The component with `catalog` in place of its own.
///
/// # Panics
/// If the catalog does not fit.
pub fn with_catalog(catalog: &Value) -> Vec<u8> {
    let mut bytes = guests::component("chameleon");
    // The mark also stands where the program skips it; only the one with the catalog is followed by JSON.
    let at = bytes
        .windows(MARK.len() + 1)
        .position(|w| w.starts_with(MARK) && w[MARK.len()] == b'{')
        .expect("the chameleon has a catalog");
    let text = catalog.to_string();
    assert!(text.len() <= SIZE - MARK.len(), "the catalog has {} bytes", text.len());
    let place = &mut bytes[at + MARK.len()..at + SIZE];
    place.fill(b' ');
    place[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

/// A chameleon of this version with one tool.
pub fn version(version: &str, tool: &str) -> Vec<u8> {
    with_tools(version, &json!([{ "name": tool, "description": "A test's tool." }]))
}

/// A chameleon of this version with these tools.
pub fn with_tools(version: &str, tools: &Value) -> Vec<u8> {
    with_catalog(&json!({ "version": version, "list": "ok", "tools": tools }))
}

/// A chameleon whose `list-tools` does `what`: `trap`, `spin` or `big`.
pub fn listing(what: &str) -> Vec<u8> {
    with_catalog(
        &json!({ "version": "1", "list": what, "tools": [{ "name": "chameleon", "description": "x" }] }),
    )
}

/// A chameleon of this version with all kinds: `tools`, `prompts`, `resources` and `templates` are
/// arrays as the chameleon takes them, and `null` is none.
pub fn with_all(
    version: &str,
    tools: &Value,
    prompts: &Value,
    resources: &Value,
    templates: &Value,
) -> Vec<u8> {
    with_catalog(&json!({
        "version": version,
        "list": "ok",
        "tools": tools,
        "prompts": prompts,
        "resources": resources,
        "templates": templates,
    }))
}
