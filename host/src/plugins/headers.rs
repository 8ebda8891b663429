//! `x-mcp-header`: arguments that clients also send as HTTP headers
//! (MCP 2026-07-28, transports/streamable-http, "Custom Headers from Tool Parameters").

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{problem::neutral, schema};

/// The annotation's keyword.
const KEYWORD: &str = "x-mcp-header";

/// Every annotation of an input schema: header name (without `Mcp-Param-`), and the property names
/// that lead to the value.
///
/// # Errors
/// An annotation that the specification forbids; clients would drop the tool.
pub(super) fn annotations(root: &Map<String, Value>) -> Result<Vec<(String, Vec<String>)>, String> {
    let mut found = Vec::new();
    reachable(root, &mut Vec::new(), &mut found)?;
    let mut total = 0;
    schema::visit(&Value::Object(root.clone()), &mut String::new(), &mut |map, _| {
        total += usize::from(map.contains_key(KEYWORD));
        Ok(())
    })?;
    if total != found.len() {
        return Err(format!(
            "{KEYWORD} stands where no chain of `properties` alone leads (under items, allOf, $defs or the like)"
        ));
    }
    let mut seen = HashSet::new();
    for (name, _) in &found {
        if !seen.insert(name.to_ascii_lowercase()) {
            return Err(format!("{KEYWORD} {name:?} is used twice (case does not count)"));
        }
    }
    Ok(found)
}

fn reachable(
    schema: &Map<String, Value>,
    path: &mut Vec<String>,
    found: &mut Vec<(String, Vec<String>)>,
) -> Result<(), String> {
    if let Some(name) = schema.get(KEYWORD) {
        found.push((header(name, schema, path)?, path.clone()));
    }
    let Some(Value::Object(properties)) = schema.get("properties") else { return Ok(()) };
    for (name, inner) in properties {
        if let Value::Object(inner) = inner {
            path.push(name.clone());
            reachable(inner, path, found)?;
            path.pop();
        }
    }
    Ok(())
}

fn header(name: &Value, schema: &Map<String, Value>, path: &[String]) -> Result<String, String> {
    let at = if path.is_empty() { "(root)".to_owned() } else { neutral(&path.join("."), 200) };
    let Some(name) = name.as_str().filter(|n| !n.is_empty() && n.bytes().all(is_tchar)) else {
        return Err(format!("{at}: {KEYWORD} is not a header name (RFC 9110, token)"));
    };
    match schema.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => Ok(name.to_owned()),
        _ => Err(format!("{at}: {KEYWORD} is only for properties of type string, integer or boolean")),
    }
}

/// RFC 9110, 5.6.2.
fn is_tchar(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use serde_json::json;

    use super::*;

    fn of(schema: Value) -> Result<Vec<(String, Vec<String>)>, String> {
        annotations(schema.as_object().unwrap())
    }

    #[test]
    fn reachable_primitives_are_found() {
        let found = of(json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "a": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "x-mcp-header": {"type": "string"},
            "c": {"const": {"x-mcp-header": "data"}},
        }}))
        .unwrap();
        assert_eq!(
            found,
            [
                ("Region".to_owned(), vec!["region".to_owned()]),
                ("N".to_owned(), vec!["a".to_owned(), "n".to_owned()])
            ]
        );
        assert!(of(json!({"type": "object"})).unwrap().is_empty());
    }

    #[test]
    fn everything_else_is_refused() {
        let property = |p: Value| json!({"properties": {"a": p}});
        for (schema, part) in [
            (property(json!({"type": "number", "x-mcp-header": "A"})), "only for"),
            (property(json!({"type": ["string", "null"], "x-mcp-header": "A"})), "only for"),
            (property(json!({"x-mcp-header": "A"})), "only for"),
            (property(json!({"type": "string", "x-mcp-header": ""})), "token"),
            (property(json!({"type": "string", "x-mcp-header": "A B"})), "token"),
            (property(json!({"type": "string", "x-mcp-header": "A\r\nX"})), "token"),
            (property(json!({"type": "string", "x-mcp-header": 3})), "token"),
            (property(json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}})), "chain"),
            (json!({"allOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]}), "chain"),
            (json!({"$defs": {"a": {"type": "string", "x-mcp-header": "A"}}}), "chain"),
            (json!({"if": {"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}}), "chain"),
            (
                json!({"properties": {"a": {"type": "string", "x-mcp-header": "Region"}, "b": {"type": "string", "x-mcp-header": "region"}}}),
                "twice",
            ),
            (json!({"type": "object", "x-mcp-header": "A"}), "only for"),
        ] {
            let error = of(schema.clone()).expect_err(&schema.to_string());
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
    }
}
