use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde_json::{Map, Value};

/// The schema of a tool's arguments.
pub(crate) fn of_arguments<T: JsonSchema>() -> String {
    let settings = SchemaSettings::draft2020_12();
    object(settings.into_generator().into_root_schema_for::<T>(), without_null)
}

/// The schema of a tool's structured content.
pub(crate) fn of_output<T: JsonSchema>() -> String {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    object(settings.into_generator().into_root_schema_for::<T>(), |_| {})
}

fn object(schema: Schema, finish: fn(&mut Value)) -> String {
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
    let mut root = Value::Object(root);
    finish(&mut root);
    root.to_string()
}

/// An argument that may be left out is left out, and never `null`: one way to say nothing is enough, and it is
/// the one of every language's kit. In a list, `null` stays: there is no other way.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let required = members.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            if let Some(Value::Object(properties)) = members.get_mut("properties") {
                let optional = properties.iter_mut().filter(|(name, _)| !required.iter().any(|r| r == *name));
                optional.for_each(|(_, property)| not_null(property));
            }
            members.values_mut().for_each(without_null);
        }
        Value::Array(schemas) => schemas.iter_mut().for_each(without_null),
        _ => {}
    }
}

fn not_null(property: &mut Value) {
    let Value::Object(members) = property else { return };
    let null_type = |schema: &Value| schema.get("type").is_some_and(|kind| kind == "null");
    if members.get("default").is_some_and(Value::is_null) {
        members.shift_remove("default");
    }
    if let Some(Value::Array(kinds)) = members.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = kinds.as_slice() {
            let kind = kind.clone();
            members.insert("type".into(), kind);
        }
    }
    if let Some(Value::Array(values)) = members.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    let Some(Value::Array(options)) = members.get_mut("anyOf") else { return };
    options.retain(|option| !null_type(option));
    if let [Value::Object(only)] = options.as_slice() {
        let only = only.clone();
        members.shift_remove("anyOf");
        // What is said of the argument comes before what is said of its type.
        only.into_iter().for_each(|(name, value)| {
            members.entry(name).or_insert(value);
        });
    }
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

    #[derive(Deserialize, JsonSchema)]
    #[serde(rename_all = "lowercase")]
    #[allow(dead_code, reason = "only their schema is looked at")]
    enum Tone {
        Warm,
        Dry,
    }

    #[derive(Deserialize, JsonSchema)]
    #[allow(dead_code, reason = "only its schema is looked at")]
    struct Optional {
        text: Option<String>,
        #[serde(default)]
        number: Option<u8>,
        /// How it sounds.
        tone: Option<Tone>,
        list: Option<Vec<Option<bool>>>,
    }

    #[test]
    fn what_may_be_left_out_is_never_null() {
        let input = parsed(&of_arguments::<Optional>());
        let of = |name: &str| input["properties"][name].clone();
        assert_eq!(of("text"), json!({ "type": "string" }));
        assert_eq!(of("number"), json!({ "type": "integer", "minimum": 0, "maximum": 255 }));
        assert_eq!(of("tone"), json!({ "description": "How it sounds.", "$ref": "#/$defs/Tone" }));
        assert_eq!(of("list"), json!({ "type": "array", "items": { "type": ["boolean", "null"] } }));
    }

    #[test]
    fn anything_becomes_an_object() {
        assert_eq!(parsed(&of_arguments::<()>())["type"], "object");
        assert_eq!(parsed(&of_arguments::<Value>())["type"], "object");
    }
}
