//! MCP results and errors as text for people.

use serde_json::Value;

use crate::base::{ByteSize, neutral_line, neutral_text};

/// A `CallToolResult` as text: its content blocks, and its structured content where it has no text.
/// `raw` keeps text blocks as they are (for a pipe); otherwise they are made neutral.
pub(crate) fn result(result: &Value, raw: bool) -> String {
    let blocks = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut text = String::new();
    for block in blocks {
        text.push_str(&content(block, raw));
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    let has_text = blocks.iter().any(|b| b.get("type").and_then(Value::as_str) == Some("text"));
    if let (false, Some(structured)) = (has_text, result.get("structuredContent")) {
        text.push_str(&format!("{}\n", printable(&format!("{structured:#}"), raw)));
    }
    if text.is_empty() {
        text.push_str("(no content)\n");
    }
    text
}

fn printable(text: &str, raw: bool) -> String {
    if raw { text.to_owned() } else { neutral_text(text) }
}

fn content(block: &Value, raw: bool) -> String {
    let text = |value: &Value, key: &str| neutral_line(value.get(key).and_then(Value::as_str).unwrap_or("?"));
    match block.get("type").and_then(Value::as_str) {
        Some("text") => printable(block.get("text").and_then(Value::as_str).unwrap_or_default(), raw),
        Some(kind @ ("image" | "audio")) => {
            format!("[{kind}: {}, {}]", text(block, "mimeType"), size_of(block.get("data")))
        }
        Some("resource_link") => format!("[link: {} <{}>]", text(block, "name"), text(block, "uri")),
        Some("resource") => {
            let resource = block.get("resource").unwrap_or(&Value::Null);
            let uri = text(resource, "uri");
            match resource.get("text").and_then(Value::as_str) {
                Some(body) => format!("[resource: {uri}]\n{}", printable(body, raw)),
                None => format!(
                    "[resource: {uri}, {}, {}]",
                    text(resource, "mimeType"),
                    size_of(resource.get("blob"))
                ),
            }
        }
        other => format!("[{}]", neutral_line(other.unwrap_or("unknown content"))),
    }
}

/// The size of base64 `data`, decoded.
fn size_of(data: Option<&Value>) -> String {
    let text = data.and_then(Value::as_str).unwrap_or_default().trim_end_matches('=');
    size(text.len() as u64 * 3 / 4)
}

/// A size for people: at most one decimal.
pub(crate) fn size(bytes: u64) -> String {
    if bytes < ByteSize::kib(1).0 {
        return format!("{bytes} bytes");
    }
    bytesize::ByteSize(bytes).display().iec().to_string()
}

/// A JSON-RPC error object on one line, with its stable code.
pub(crate) fn error(error: &Value) -> String {
    let message = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
    let rpc = error.get("code").map(Value::to_string).unwrap_or_default();
    match stable_code(error) {
        Some(code) => format!("{} ({}, {rpc})", neutral_line(message), neutral_line(code)),
        None => format!("{} ({rpc})", neutral_line(message)),
    }
}

/// `error.data.code`.
pub(crate) fn stable_code(error: &Value) -> Option<&str> {
    error.pointer("/data/code").and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_content_is_shown() {
        let shown = result(
            &json!({"content": [
                {"type": "text", "text": "hello\x1b[1m"},
                {"type": "image", "mimeType": "image/png", "data": "AAAA"},
                {"type": "resource_link", "name": "doc", "uri": "file:///doc"},
                {"type": "resource", "resource": {"uri": "test://x", "text": "body"}},
                {"type": "resource", "resource": {"uri": "test://y", "mimeType": "a/b", "blob": "AAAAAA=="}},
                {"type": "new\nkind"},
            ]}),
            false,
        );
        assert_eq!(
            shown,
            "hello\\u{1b}[1m\n[image: image/png, 3 bytes]\n[link: doc <file:///doc>]\n\
             [resource: test://x]\nbody\n[resource: test://y, a/b, 4 bytes]\n[new kind]\n"
        );
    }

    #[test]
    fn structured_content_shows_where_no_text_does() {
        let both = json!({"content": [{"type": "text", "text": "x"}], "structuredContent": {"a": 1}});
        assert_eq!(result(&both, false), "x\n");
        let only = json!({"content": [], "structuredContent": {"a": 1}});
        assert_eq!(result(&only, false), "{\n  \"a\": 1\n}\n");
        assert_eq!(result(&json!({"content": []}), false), "(no content)\n");
    }

    #[test]
    fn a_pipe_gets_text_as_it_is() {
        let text = json!({"content": [{"type": "text", "text": "a\u{200d}b\n"}]});
        assert_eq!(result(&text, true), "a\u{200d}b\n");
    }

    #[test]
    fn errors_name_their_stable_code() {
        let with = json!({"code": -32602, "message": "no\nsuch tool", "data": {"code": "tool_unknown"}});
        assert_eq!(error(&with), "no such tool (tool_unknown, -32602)");
        assert_eq!(error(&json!({"code": 7, "message": "x"})), "x (7)");
    }
}
