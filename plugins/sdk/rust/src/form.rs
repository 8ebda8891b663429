//! From a Rust type to the flat schema that MCP allows in a form.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Map, Value, json};

/// The schema of a form with the fields of `T`, or why `T` cannot be one.
pub(crate) fn schema<T: JsonSchema>() -> Result<Value, String> {
    let settings = SchemaSettings::draft2020_12().with(|s| {
        s.inline_subschemas = true;
        s.meta_schema = None;
    });
    let root = settings.into_generator().into_root_schema_for::<T>().to_value();
    let Some(Value::Object(fields)) = root.get("properties") else {
        return Err(format!("`{}` has no fields", T::schema_name()));
    };
    let mut properties = Map::new();
    for (name, field) in fields {
        let field = field_schema(field).map_err(|why| format!("field `{name}`: {why}"))?;
        properties.insert(name.clone(), field);
    }
    let mut schema = json!({ "type": "object", "properties": properties });
    if let Some(required) = root.get("required") {
        schema["required"] = required.clone();
    }
    Ok(schema)
}

/// One field, with nothing in it but what MCP's primitive schemas have.
fn field_schema(field: &Value) -> Result<Value, String> {
    let Value::Object(outer) = field else {
        return Err("any value at all is no question".to_owned());
    };
    let inner = without_null(outer);
    let mut schema = match kind_of(&inner) {
        Some("string") => string(&inner)?,
        Some(kind @ ("number" | "integer")) => keep(&inner, kind, &["minimum", "maximum", "default"]),
        Some("boolean") => keep(&inner, "boolean", &["default"]),
        Some("array") => list(&inner)?,
        _ if inner.contains_key("oneOf") => choices(&inner)?,
        _ => return Err(NOT_FLAT.to_owned()),
    };
    for key in ["title", "description"] {
        if let Some(text) = outer.get(key).or_else(|| inner.get(key)) {
            schema.insert(key.to_owned(), text.clone());
        }
    }
    Ok(Value::Object(schema))
}

const NOT_FLAT: &str = "a form has only strings, numbers, booleans, enums and lists of enums";

/// Takes the `null` out of what `Option<T>` becomes.
fn without_null(schema: &Map<String, Value>) -> Map<String, Value> {
    let mut schema = schema.clone();
    if let Some(Value::Array(options)) = schema.get("anyOf") {
        let mut options = options.iter().filter(|o| o["type"] != "null");
        if let (Some(Value::Object(only)), None) = (options.next(), options.next()) {
            return only.clone();
        }
    }
    if let Some(Value::Array(types)) = schema.get("type") {
        let mut types = types.iter().filter(|t| **t != "null");
        if let (Some(only), None) = (types.next().cloned(), types.next()) {
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.retain(|v| !v.is_null());
    }
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    schema
}

fn kind_of(schema: &Map<String, Value>) -> Option<&str> {
    schema.get("type").and_then(Value::as_str)
}

fn keep(schema: &Map<String, Value>, kind: &str, keys: &[&str]) -> Map<String, Value> {
    let mut kept = Map::new();
    kept.insert("type".to_owned(), kind.into());
    for key in keys {
        if let Some(value) = schema.get(*key) {
            kept.insert((*key).to_owned(), value.clone());
        }
    }
    kept
}

fn string(schema: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    if schema.contains_key("oneOf") {
        return choices(schema);
    }
    let mut kept = keep(schema, "string", &["enum", "minLength", "maxLength", "default"]);
    if let Some(format) = schema.get("format").and_then(Value::as_str)
        && ["email", "uri", "date", "date-time"].contains(&format)
    {
        kept.insert("format".to_owned(), format.into());
    }
    if let Some(only) = schema.get("const") {
        kept.insert("enum".to_owned(), json!([only]));
    }
    Ok(kept)
}

/// An enum whose variants have doc comments, or one that is spread over cases.
fn choices(schema: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut kept = keep(schema, "string", &["default"]);
    kept.insert("oneOf".to_owned(), titled(schema.get("oneOf"))?);
    Ok(kept)
}

/// The cases of a `oneOf`, each a value with a title.
fn titled(cases: Option<&Value>) -> Result<Value, String> {
    let cases = cases.and_then(Value::as_array).ok_or(NOT_FLAT)?;
    let mut titled = Vec::new();
    for case in cases {
        if let Some(value) = case.get("const").filter(|v| v.is_string()) {
            let title = case.get("title").or_else(|| case.get("description")).unwrap_or(value);
            titled.push(json!({ "const": value, "title": title }));
        } else if let (Some(values), None) = (case["enum"].as_array(), case.get("properties")) {
            titled.extend(values.iter().map(|v| json!({ "const": v, "title": v })));
        } else {
            return Err(NOT_FLAT.to_owned());
        }
    }
    Ok(Value::Array(titled))
}

/// A list of an enum: several choices.
fn list(schema: &Map<String, Value>) -> Result<Map<String, Value>, String> {
    let mut kept = keep(schema, "array", &["minItems", "maxItems", "default"]);
    let items = schema.get("items").and_then(Value::as_object).ok_or(NOT_FLAT)?;
    let items = match (items.get("enum"), items.get("oneOf")) {
        (Some(values), _) => json!({ "type": "string", "enum": values }),
        (None, cases @ Some(_)) => json!({ "anyOf": titled(cases)? }),
        (None, None) => return Err(NOT_FLAT.to_owned()),
    };
    kept.insert("items".to_owned(), items);
    Ok(kept)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code)]
    enum Plain {
        First,
        Newest,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code)]
    enum Told {
        /// The one that comes first
        First,
        Newest,
    }

    /// All that a form can have.
    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Form {
        /// Delete the surplus?
        delete: bool,
        name: String,
        nick: Option<String>,
        #[serde(default)]
        count: u32,
        share: Option<f64>,
        plain: Plain,
        /// Which to keep
        told: Told,
        maybe: Option<Plain>,
        maybe_told: Option<Told>,
        many: Vec<Plain>,
        many_told: Vec<Told>,
    }

    #[test]
    fn every_field_is_primitive() {
        let titled = json!([
            { "const": "first", "title": "The one that comes first" },
            { "const": "newest", "title": "newest" },
        ]);
        let titled = |mut cases: Value| {
            // schemars puts plain variants first or last; the order is its own.
            if let Some(cases) = cases.as_array_mut() {
                cases.sort_by_key(|c| c["const"].to_string());
            }
            assert_eq!(cases, titled);
        };
        let mut form = schema::<Form>().unwrap();
        let fields = form["properties"].as_object_mut().unwrap();
        titled(fields["told"]["oneOf"].take());
        titled(fields["maybe_told"]["oneOf"].take());
        titled(fields["many_told"]["items"]["anyOf"].take());
        let enum_ = json!({ "type": "string", "enum": ["first", "newest"] });
        assert_eq!(
            form,
            json!({
                "type": "object",
                "properties": {
                    "delete": { "type": "boolean", "description": "Delete the surplus?" },
                    "name": { "type": "string" },
                    "nick": { "type": "string" },
                    "count": { "type": "integer", "minimum": 0, "default": 0 },
                    "share": { "type": "number" },
                    "plain": enum_,
                    "told": { "type": "string", "oneOf": null, "description": "Which to keep" },
                    "maybe": enum_,
                    "maybe_told": { "type": "string", "oneOf": null },
                    "many": { "type": "array", "items": enum_ },
                    "many_told": { "type": "array", "items": { "anyOf": null } },
                },
                "required": ["delete", "name", "plain", "told", "many", "many_told"],
            })
        );
    }

    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Nested {
        inner: Form,
    }

    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Listed {
        inner: Vec<String>,
    }

    #[test]
    fn what_is_not_flat_is_refused_with_its_field() {
        assert!(schema::<Nested>().unwrap_err().contains("field `inner`"));
        assert!(schema::<Listed>().unwrap_err().contains("field `inner`"));
        assert!(schema::<u32>().unwrap_err().contains("no fields"));
    }
}
