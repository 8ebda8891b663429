use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde_json::{Map, Value};

/// The schema of a tool's arguments.
pub(crate) fn of_arguments<T: JsonSchema>() -> String {
    let settings = SchemaSettings::draft2020_12();
    object(settings.into_generator().into_root_schema_for::<T>())
}

/// The schema of a tool's structured content.
pub(crate) fn of_output<T: JsonSchema>() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    object(settings.into_generator().into_root_schema_for::<T>())
}

fn object(schema: Schema) -> String {
    let mut root = match schema.to_value() {
        Value::Object(root) => root,
        // `true` and `false`: MCP wants an object here all the same.
        _ => Map::new(),
    };
    root.values_mut().for_each(without_widths);
    // The type's name says nothing to a client; its doc comment does.
    root.remove("title");
    if root.get("type") != Some(&Value::from("object")) {
        root.insert("type".into(), "object".into());
    }
    Value::Object(root).to_string()
}

/// Takes out `"format": "uint32"` and its like: they are Rust's names, which no client knows, and
/// the bounds beside them say as much.
fn without_widths(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let number = |kind: &Value| kind == "integer" || kind == "number";
            let numeric = match members.get("type") {
                Some(Value::Array(kinds)) => kinds.iter().any(number),
                Some(kind) => number(kind),
                None => false,
            };
            if numeric && members.get("format").is_some_and(Value::is_string) {
                members.remove("format");
            }
            members.values_mut().for_each(without_widths);
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(without_widths),
        _ => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Inner {
        n: u32,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Outer {
        /// The inner one.
        inner: Inner,
        #[serde(default)]
        words: Vec<String>,
    }

    fn parsed(schema: &str) -> Value {
        serde_json::from_str(schema).unwrap()
    }

    #[test]
    fn arguments_default_and_results_do_not() {
        let input = parsed(&of_arguments::<Outer>());
        assert_eq!(input["type"], "object");
        assert_eq!(input["required"], json!(["inner"]));
        assert_eq!(input["properties"]["inner"]["description"], "The inner one.");
        assert_eq!(input.get("title"), None);
        assert!(!input.to_string().contains("uint32"), "{input}");
        assert_eq!(parsed(&of_output::<Outer>())["required"], json!(["inner", "words"]));
    }

    #[test]
    fn anything_becomes_an_object() {
        assert_eq!(parsed(&of_arguments::<()>())["type"], "object");
        assert_eq!(parsed(&of_arguments::<Value>())["type"], "object");
    }
}
