//! JSON Schemas of types. Each is one schema with one `type` list, never a choice of several: a misfit is then
//! told at the place where it is, and a check costs no more than the value is large.

use serde_json::{Map, Value, json};

use super::{
    json::EXACT,
    shape::{Integer, Item, Label, Named, Shape},
};

/// Largest `f32`, as its shortest text has it.
pub(super) const F32_MAX: f64 = 3.402_823_5e38;
/// Floats that are no numbers in JSON.
const NO_NUMBER: &str = "^(NaN|-?Infinity)$";

/// Whether a schema is for what is given to a function, or for what it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum For {
    Arguments,
    Results,
}

/// The schema of an object with `items` as its members, and no others.
pub(super) fn members<'a>(
    items: impl Iterator<Item = (&'a Label, &'a Shape)>,
    what: For,
) -> Map<String, Value> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (label, shape) in items {
        let mut schema = schema(shape, what);
        describe(&mut schema, label.docs.as_deref());
        properties.insert(label.json.clone(), Value::Object(schema));
        if !matches!(shape, Shape::Option(_)) {
            required.push(Value::from(label.json.as_str()));
        }
    }
    let mut map = Map::new();
    map.insert("type".into(), "object".into());
    map.insert("properties".into(), Value::Object(properties));
    if !required.is_empty() {
        map.insert("required".into(), Value::Array(required));
    }
    map.insert("additionalProperties".into(), false.into());
    map
}

/// The schema of a record's fields.
pub(super) fn fields(items: &[Item], what: For) -> Map<String, Value> {
    members(items.iter().map(|item| (&item.label, &item.shape)), what)
}

/// The schema of `shape`.
pub(super) fn schema(shape: &Shape, what: For) -> Map<String, Value> {
    let value = match shape {
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Integer(i) => return integer(*i),
        Shape::F32 => {
            json!({"type": ["number", "string"], "minimum": -F32_MAX, "maximum": F32_MAX, "pattern": NO_NUMBER})
        }
        Shape::F64 => json!({"type": ["number", "string"], "pattern": NO_NUMBER}),
        Shape::Char => json!({"type": "string", "minLength": 1, "maxLength": 1}),
        Shape::String => json!({"type": "string"}),
        Shape::Bytes if what == For::Results => json!({"type": "string", "contentEncoding": "base64"}),
        Shape::Bytes => json!({
            "type": ["string", "array"], "contentEncoding": "base64",
            "items": {"type": "integer", "minimum": 0, "maximum": 255},
        }),
        Shape::List(shape) => json!({"type": "array", "items": schema(shape, what)}),
        Shape::Tuple(shapes) => {
            let items: Vec<_> = shapes.iter().map(|shape| schema(shape, what)).collect();
            json!({"type": "array", "prefixItems": items, "minItems": shapes.len(), "maxItems": shapes.len()})
        }
        Shape::Option(inner) => return option(inner, what),
        Shape::Record(record) => {
            let mut map = fields(&record.items, what);
            describe(&mut map, record.docs.as_deref());
            return map;
        }
        Shape::Variant(variant) => {
            let mut map = cases(variant.items.iter().map(|c| (&c.label, c.shape.as_deref())), what);
            describe(&mut map, variant.docs.as_deref());
            return map;
        }
        Shape::Result(both) => return cases(both.iter().map(|c| (&c.label, c.shape.as_deref())), what),
        Shape::Enum(named) => {
            let mut map = labels(named);
            describe(&mut map, about(named).as_deref());
            return map;
        }
        Shape::Flags(named) => {
            let mut map = Map::new();
            map.insert("type".into(), "array".into());
            map.insert("items".into(), Value::Object(labels(named)));
            map.insert("uniqueItems".into(), true.into());
            describe(&mut map, about(named).as_deref());
            return map;
        }
    };
    match value {
        Value::Object(map) => map,
        // Every arm above is an object.
        _ => Map::new(),
    }
}

fn integer(integer: Integer) -> Map<String, Value> {
    let (least, largest) = integer.range();
    let mut map = Map::new();
    if integer.is_wide() {
        let pattern = if least < 0 { "^-?[0-9]{1,19}$" } else { "^[0-9]{1,20}$" };
        map.insert("type".into(), json!(["integer", "string"]));
        map.insert("pattern".into(), pattern.into());
    } else {
        map.insert("type".into(), "integer".into());
    }
    // Of numbers; what is beyond is a string, which the pattern above lets pass.
    map.insert("minimum".into(), number(least.max(-EXACT)));
    map.insert("maximum".into(), number(largest.min(EXACT)));
    map
}

/// A whole number that JSON has exactly.
fn number(value: i128) -> Value {
    i64::try_from(value).map(Value::from).unwrap_or_default()
}

/// `null`, or what the inner type has; within `some` where that may itself be `null`.
fn option(inner: &Shape, what: For) -> Map<String, Value> {
    let mut map = schema(inner, what);
    if matches!(inner, Shape::Option(_)) {
        let mut outer = Map::new();
        outer.insert("type".into(), "object".into());
        outer.insert("properties".into(), json!({"some": map}));
        outer.insert("required".into(), json!(["some"]));
        outer.insert("additionalProperties".into(), false.into());
        map = outer;
    }
    match map.get_mut("type") {
        Some(Value::Array(types)) => types.push("null".into()),
        Some(one) => *one = json!([one.clone(), "null"]),
        None => {}
    }
    if let Some(Value::Array(values)) = map.get_mut("enum") {
        values.push(Value::Null);
    }
    map
}

/// An object with exactly one member, named as a case; its value is the case's, or `null`.
fn cases<'a>(all: impl Iterator<Item = (&'a Label, Option<&'a Shape>)>, what: For) -> Map<String, Value> {
    let mut properties = Map::new();
    for (label, shape) in all {
        let mut schema = match shape {
            Some(shape) => schema(shape, what),
            None => Map::from_iter([("type".to_owned(), Value::from("null"))]),
        };
        describe(&mut schema, label.docs.as_deref());
        properties.insert(label.json.clone(), Value::Object(schema));
    }
    let mut map = Map::new();
    map.insert("type".into(), "object".into());
    map.insert("properties".into(), Value::Object(properties));
    map.insert("minProperties".into(), 1.into());
    map.insert("maxProperties".into(), 1.into());
    map.insert("additionalProperties".into(), false.into());
    map
}

fn labels(named: &Named<Label>) -> Map<String, Value> {
    let names: Vec<_> = named.items.iter().map(|label| label.json.as_str()).collect();
    let mut map = Map::new();
    map.insert("type".into(), "string".into());
    map.insert("enum".into(), json!(names));
    map
}

/// What is said of an enum or of flags and of each of their names; a schema's `enum` has no place for that.
fn about(named: &Named<Label>) -> Option<String> {
    let lines: Vec<_> = named
        .items
        .iter()
        .filter_map(|label| {
            Some(format!("- `{}`: {}", label.json, label.docs.as_deref()?.replace('\n', " ")))
        })
        .collect();
    let lines = (!lines.is_empty()).then(|| lines.join("\n"));
    join(named.docs.as_deref(), lines.as_deref())
}

fn join(first: Option<&str>, second: Option<&str>) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}\n\n{second}")),
        (one, other) => one.or(other).map(str::to_owned),
    }
}

/// Puts `text` before what the schema says of itself already: a field's own words before its type's.
fn describe(schema: &mut Map<String, Value>, text: Option<&str>) {
    let Some(text) = text else { return };
    let joined = join(Some(text), schema.get("description").and_then(Value::as_str));
    schema.insert("description".into(), joined.into());
}
