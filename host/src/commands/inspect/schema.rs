//! A JSON Schema as lines for a person: one for each property. What the lines cannot say is shown as it is.

use serde_json::{Map, Value};

/// Nested objects are shown to this depth, and below it as JSON.
const DEPTH: usize = 3;
/// Alternatives that are shown, each to a depth of [`DEPTH`]: references may lead back to where they stand.
const ALTERNATIVES: usize = 8;
/// Lines of one schema; `--json` has it whole.
const LINES: usize = 100;

/// The lines of a schema that a plugin wrote.
pub(super) fn lines(text: &str) -> Vec<String> {
    let Ok(Value::Object(root)) = serde_json::from_str(text) else { return vec![text.to_owned()] };
    let mut lines = Vec::new();
    if !properties(&root, &root, 0, &mut lines) {
        lines.push(if root.get("type") == Some(&"object".into()) && root.len() == 1 {
            "none".into()
        } else {
            kind(&root, &root, 0)
        });
    }
    if lines.len() > LINES {
        lines.truncate(LINES);
        lines.push("… (--json has all)".to_owned());
    }
    lines
}

/// Adds a line for each property; false where there is none.
fn properties(
    schema: &Map<String, Value>,
    root: &Map<String, Value>,
    depth: usize,
    lines: &mut Vec<String>,
) -> bool {
    let Some(all) = schema.get("properties").and_then(Value::as_object) else { return false };
    let required = |name: &str| {
        schema.get("required").and_then(Value::as_array).is_some_and(|r| r.iter().any(|n| n == name))
    };
    for (name, property) in all {
        if lines.len() > LINES {
            break;
        }
        let mark = if required(name) { "" } else { "?" };
        let indent = "  ".repeat(depth);
        let Some(property) = property.as_object() else {
            lines.push(format!("{indent}{name}{mark}: any"));
            continue;
        };
        let property = resolved(property, root);
        let default = property.get("default").map_or_else(String::new, |d| format!(" = {d}"));
        let about = property.get("description").and_then(Value::as_str);
        let about = about.map_or_else(String::new, |text| format!("  {text}"));
        lines.push(format!("{indent}{name}{mark}: {}{default}{about}", kind(&property, root, 0)));
        let items = property.get("items").and_then(Value::as_object).map(|items| resolved(items, root));
        if depth + 1 < DEPTH {
            properties(items.as_ref().unwrap_or(&property), root, depth + 1, lines);
        }
    }
    !all.is_empty()
}

/// `schema` with the members of what it refers to within the root.
fn resolved(schema: &Map<String, Value>, root: &Map<String, Value>) -> Map<String, Value> {
    let mut whole = schema.clone();
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix("#/"));
    let found = target.and_then(|path| {
        let mut parts = path.split('/');
        let first = root.get(parts.next()?)?;
        parts.try_fold(first, |at, part| at.get(part.replace("~1", "/").replace("~0", "~")))
    });
    if let Some(found) = found.and_then(Value::as_object) {
        whole.remove("$ref");
        for (key, value) in found {
            whole.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    whole
}

/// What values it takes, in a few words.
fn kind(schema: &Map<String, Value>, root: &Map<String, Value>, depth: usize) -> String {
    if depth > DEPTH {
        return "…".to_owned();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(all) = schema.get(key).and_then(Value::as_array) {
            let all = all.iter().filter_map(Value::as_object).take(ALTERNATIVES);
            return all
                .map(|one| kind(&resolved(one, root), root, depth + 1))
                .collect::<Vec<_>>()
                .join(" | ");
        }
    }
    let name = match schema.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | "),
        _ if schema.contains_key("properties") => "object".to_owned(),
        _ => "any".to_owned(),
    };
    let name = match schema.get("items").and_then(Value::as_object) {
        Some(items) if name == "array" => {
            let items = resolved(items, root);
            // A list of itself ends here.
            let of =
                if items.contains_key("items") { "array".to_owned() } else { kind(&items, root, depth + 1) };
            format!("list of {of}")
        }
        _ => name,
    };
    let bounds =
        ["format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"];
    let bounds: Vec<String> =
        bounds.iter().filter_map(|key| Some(format!("{key} {}", schema.get(*key)?))).collect();
    if bounds.is_empty() { name } else { format!("{name} ({})", bounds.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_property_has_a_line() {
        let schema = r##"{"type": "object", "required": ["path"], "properties": {
            "path": {"type": "string", "description": "A file.", "minLength": 1},
            "way": {"$ref": "#/$defs/Way", "default": "a"},
            "rows": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}}},
            "odd": true}, "$defs": {"Way": {"enum": ["a", "b"]}}}"##;
        assert_eq!(
            lines(schema),
            [
                "path: string (minLength 1)  A file.",
                r#"way?: "a" | "b" = "a""#,
                "rows?: list of object",
                "  n?: integer | null",
                "odd?: any"
            ]
        );
    }

    #[test]
    fn what_has_no_properties_is_said_shortly_and_references_to_themselves_end() {
        assert_eq!(lines(r#"{"type":"object"}"#), ["none"]);
        assert_eq!(lines("no json"), ["no json"]);
        let endless = r##"{"properties": {"a": {"$ref": "#/properties/a"}, "b": {"$ref": "#"}, "c": {"anyOf": [{"$ref": "#/$defs/c"}]}},
            "$defs": {"c": {"type": "string"}}}"##;
        assert!(!lines(r##"{"anyOf": [{"$ref": "#"}, {"$ref": "#"}], "items": {"$ref": "#"}}"##).is_empty());
        let many: Vec<String> = (0..300).map(|n| format!("\"p{n}\": {{\"$ref\": \"#\"}}")).collect();
        assert_eq!(lines(&format!("{{\"properties\": {{{}}}}}", many.join(","))).len(), LINES + 1);
        assert_eq!(lines(endless).last().map(String::as_str), Some("c?: string"));
    }
}
