//! JSON Schemas of plugins: 2020-12, references within the schema only, patterns without
//! backtracking, and a bound on what one check may cost.

use std::collections::{HashMap, HashSet};

use jsonschema::{Draft, PatternOptions, ValidationError};
use serde_json::{Map, Value};

use super::{cost::Cost, problem::neutral};
use crate::config::CatalogConfig;

/// Violations that an error names; the rest is counted.
const SHOWN: usize = 5;
/// Longest text of one violation, in characters. A message may quote the value.
const MESSAGE: usize = 300;
/// Largest compiled pattern, in bytes: `(a{1000}){1000}` must not take a gigabyte.
const PATTERN_BYTES: usize = 1 << 20;
/// Largest whole number that every reader of JSON keeps exactly: 2^53 - 1.
const EXACT: i64 = (1 << 53) - 1;
/// Keywords whose value is data, not a schema.
pub(super) const DATA: [&str; 5] = ["const", "enum", "default", "examples", "required"];
/// Keywords whose value maps names to schemas.
pub(super) const MAPS: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// A compiled JSON Schema (2020-12, no network, linear-time patterns).
#[derive(Debug)]
pub struct Validator {
    inner: jsonschema::Validator,
    /// Walked first, where the schema could make a check cost too much.
    cost: Option<Cost>,
    /// Where in the schema a bound is that of JSON's exact numbers, and what is beyond may be a string.
    strings: HashSet<String>,
}

impl Validator {
    /// Compiles `schema`, whatever its size: check that with [`bounded`] where a plugin wrote it.
    ///
    /// # Errors
    /// What is wrong with it, with a JSON pointer.
    pub fn new(schema: &Value) -> Result<Self, String> {
        local_references(schema)?;
        let inner = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .offline()
            .with_pattern_options(PatternOptions::regex().size_limit(PATTERN_BYTES))
            .build(schema)
            .map_err(|e| describe(&e))?;
        Ok(Self { inner, cost: Cost::of(schema), strings: numbers_as_strings(schema) })
    }

    /// `Err` names the first violations, each with its JSON pointer; bounded in length.
    ///
    /// # Errors
    /// The instance does not fit.
    pub fn check(&self, instance: &Value) -> Result<(), String> {
        let steps = match self.cost.as_ref().map(|cost| cost.steps(instance)) {
            Some(None) => {
                return Err(format!(
                    "(root): a check would take more than {} steps; send less, or nest it less deeply",
                    CatalogConfig::CHECK_STEPS
                ));
            }
            Some(Some(steps)) => steps,
            None => 0,
        };
        if self.inner.is_valid(instance) {
            return Ok(());
        }
        if steps > CatalogConfig::EXPLAINED_STEPS {
            return Err("(root): it does not fit, and is too large to say where".to_owned());
        }
        let mut lines = Vec::new();
        let mut more = false;
        for error in self.inner.iter_errors(instance) {
            if lines.len() == SHOWN {
                more = true;
                break;
            }
            let mut line = describe(&error);
            if self.strings.contains(error.schema_path().as_str()) {
                line.push_str(" (numbers of JSON are exact only up to there: give it as a string of digits)");
            }
            lines.push(line);
        }
        if more {
            lines.push("and more".to_owned());
        }
        Err(lines.join("; "))
    }
}

/// `/path: message`, neutral and bounded; the root's path is `(root)`.
fn describe(error: &ValidationError<'_>) -> String {
    let path = error.instance_path().as_str();
    let path = if path.is_empty() { "(root)" } else { path };
    let mut message = error.to_string();
    if error.kind().keyword() == "format" && path.ends_with("/pattern") {
        message.push_str(" of the linear-time kind (no look-around, no back-references, bounded size)");
    }
    format!("{}: {}", neutral(path, MESSAGE), neutral(&message, MESSAGE))
}

/// A schema as a plugin wrote it: parsed, within bounds, an object, of the one dialect.
///
/// # Errors
/// What is wrong with it.
pub(super) fn bounded(text: &str, bounds: &CatalogConfig) -> Result<Map<String, Value>, String> {
    if text.len() > bounds.max_schema.as_usize() {
        return Err(format!(
            "it has {} bytes, more than `max-schema` allows ({})",
            text.len(),
            bounds.max_schema
        ));
    }
    let value: Value = serde_json::from_str(text).map_err(|e| format!("it is not JSON: {e}"))?;
    let depth = depth(&value);
    if depth > bounds.max_schema_depth as usize {
        return Err(format!(
            "it is {depth} deep, more than `max-schema-depth` allows ({})",
            bounds.max_schema_depth
        ));
    }
    let Value::Object(map) = value else {
        return Err("it is not a JSON object".to_owned());
    };
    match map.get("$schema").map(|d| d.as_str().unwrap_or_default().trim_end_matches('#')) {
        None | Some("https://json-schema.org/draft/2020-12/schema") => {}
        Some(other) => {
            return Err(format!(
                "/$schema: {:?} is not https://json-schema.org/draft/2020-12/schema, the one dialect known here",
                neutral(other, 100)
            ));
        }
    }
    let root = Value::Object(map);
    local_references(&root)?;
    let steps = Steps::of(&root);
    if steps > u64::from(bounds.max_schema_steps) {
        return Err(format!(
            "one check may take more than {} steps with its references followed (`max-schema-steps`)",
            bounds.max_schema_steps
        ));
    }
    match root {
        Value::Object(map) => Ok(map),
        _ => Err("it is not a JSON object".to_owned()),
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Refuses every reference that leaves the schema, and `$id` below the root, which would move
/// what `#` means.
fn local_references(root: &Value) -> Result<(), String> {
    visit(root, &mut String::new(), &mut |schema, at| {
        for key in ["$ref", "$dynamicRef"] {
            if let Some(Value::String(target)) = schema.get(key)
                && !target.starts_with('#')
            {
                return Err(format!(
                    "{at}/{key}: {:?} leaves the schema; only references that begin with # are followed \
                     (put the target under $defs)",
                    neutral(target, 200)
                ));
            }
        }
        if !at.is_empty() && schema.get("$id").is_some_and(Value::is_string) {
            return Err(format!("{at}/$id: a schema within a schema has no $id here"));
        }
        Ok(())
    })
}

/// The bounds of schemas that take an integer up to 2^53 - 1, or a string.
fn numbers_as_strings(root: &Value) -> HashSet<String> {
    let mut found = HashSet::new();
    // Nothing here refuses.
    let _ = visit(root, &mut String::new(), &mut |schema, at| {
        let Some(Value::Array(types)) = schema.get("type") else { return Ok(()) };
        if ["integer", "string"].iter().all(|ty| types.iter().any(|t| t == ty)) {
            for (key, bound) in [("minimum", -EXACT), ("maximum", EXACT)] {
                if schema.get(key).and_then(Value::as_i64) == Some(bound) {
                    found.insert(format!("{at}/{key}"));
                }
            }
        }
        Ok(())
    });
    found
}

/// Calls `f` on every object that may be a schema, with its JSON pointer. Data is left out;
/// unknown keywords are gone through, because a reference may point there.
pub(super) fn visit(
    schema: &Value,
    at: &mut String,
    f: &mut impl FnMut(&Map<String, Value>, &str) -> Result<(), String>,
) -> Result<(), String> {
    match schema {
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                step(item, &i.to_string(), at, f)?;
            }
            Ok(())
        }
        Value::Object(map) => {
            f(map, at)?;
            for (key, value) in map {
                if DATA.contains(&key.as_str()) {
                    continue;
                }
                match value {
                    Value::Object(named) if MAPS.contains(&key.as_str()) => {
                        for (name, inner) in named {
                            step(inner, &format!("{key}/{}", escape(name)), at, f)?;
                        }
                    }
                    _ => step(value, &escape(key), at, f)?,
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn step(
    value: &Value,
    token: &str,
    at: &mut String,
    f: &mut impl FnMut(&Map<String, Value>, &str) -> Result<(), String>,
) -> Result<(), String> {
    let length = at.len();
    at.push('/');
    at.push_str(token);
    let result = visit(value, at, f);
    at.truncate(length);
    result
}

/// One token of a JSON pointer (RFC 6901).
fn escape(token: &str) -> String {
    token.replace('~', "~0").replace('/', "~1")
}

/// Counts what a check costs when references are followed. A reference back into a schema that is
/// being counted costs one: the validator remembers those.
struct Steps<'a> {
    root: &'a Value,
    anchors: HashMap<&'a str, &'a Value>,
    /// By address: `None` while it is being counted.
    known: HashMap<*const Value, Option<u64>>,
}

impl<'a> Steps<'a> {
    fn of(root: &'a Value) -> u64 {
        let mut anchors = HashMap::new();
        collect_anchors(root, &mut anchors);
        let mut steps = Self { root, anchors, known: HashMap::new() };
        steps.count(root)
    }

    fn count(&mut self, schema: &'a Value) -> u64 {
        let key: *const Value = schema;
        match self.known.get(&key) {
            Some(Some(steps)) => return *steps,
            Some(None) => return 1,
            None => {}
        }
        self.known.insert(key, None);
        let mut steps = 1u64;
        match schema {
            Value::Array(items) => {
                for item in items {
                    steps = steps.saturating_add(self.count(item));
                }
            }
            Value::Object(map) => {
                for (name, value) in map {
                    let add = match (name.as_str(), value) {
                        ("$ref" | "$dynamicRef", Value::String(target)) => {
                            self.target(target).map_or(1, |inner| self.count(inner))
                        }
                        // Definitions cost only where they are referred to.
                        ("$defs" | "definitions", _) => 0,
                        (name, _) if DATA.contains(&name) => 1,
                        // Names of properties are no keywords: a bomb must not hide behind one.
                        (name, Value::Object(named)) if MAPS.contains(&name) => {
                            named.values().fold(1u64, |sum, inner| sum.saturating_add(self.count(inner)))
                        }
                        _ => self.count(value),
                    };
                    steps = steps.saturating_add(add);
                }
            }
            _ => {}
        }
        self.known.insert(key, Some(steps));
        steps
    }

    fn target(&self, reference: &str) -> Option<&'a Value> {
        let fragment = percent_decode(reference.strip_prefix('#')?);
        if fragment.is_empty() || fragment.starts_with('/') {
            return self.root.pointer(&fragment);
        }
        self.anchors.get(fragment.as_str()).copied()
    }
}

fn collect_anchors<'a>(value: &'a Value, anchors: &mut HashMap<&'a str, &'a Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect_anchors(item, anchors)),
        Value::Object(map) => {
            for key in ["$anchor", "$dynamicAnchor"] {
                if let Some(Value::String(name)) = map.get(key) {
                    anchors.insert(name, value);
                }
            }
            map.values().for_each(|inner| collect_anchors(inner, anchors));
        }
        _ => {}
    }
}

pub(super) fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let hex = bytes.get(i + 1..i + 3).and_then(|h| std::str::from_utf8(h).ok());
        match (bytes[i], hex.and_then(|h| u8::from_str_radix(h, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                i += 3;
            }
            (byte, _) => {
                out.push(byte);
                i += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use serde_json::json;

    use super::*;

    fn refused(schema: Value, part: &str) {
        let text = schema.to_string();
        let error = bounded(&text, &CatalogConfig::default())
            .and_then(|map| Validator::new(&Value::Object(map)).map(drop))
            .expect_err(&format!("{text} must be refused"));
        assert!(error.contains(part), "{part:?} is not in {error:?}");
    }

    #[test]
    fn bad_schemas_say_where() {
        refused(json!([]), "not a JSON object");
        refused(json!({"type": "objct"}), "/type");
        refused(json!({"properties": {"a": {"minimum": "x"}}}), "/properties/a/minimum");
        refused(json!({"$ref": "https://example.com/x"}), "leaves the schema");
        refused(json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}), "/properties/a/$ref");
        refused(json!({"$ref": "#/nope"}), "/nope");
        refused(json!({"properties": {"a": {"$id": "https://example.com/"}}}), "/properties/a/$id");
        refused(json!({"properties": {"a": {"pattern": "(?=x)"}}}), "linear-time");
        refused(json!({"properties": {"a": {"pattern": "(a{1000}){1000}"}}}), "linear-time");
        refused(json!({"$schema": "http://json-schema.org/draft-07/schema#"}), "2020-12");
        let mut deep = json!({});
        for _ in 0..40 {
            deep = json!({"properties": {"a": deep}});
        }
        refused(deep, "deep");
        assert!(bounded("{", &CatalogConfig::default()).unwrap_err().contains("not JSON"));
        let small = CatalogConfig { max_schema: crate::base::ByteSize(10), ..CatalogConfig::default() };
        assert!(bounded("{\"type\":\"object\"}", &small).unwrap_err().contains("max-schema"));
    }

    #[test]
    fn good_schemas_pass() {
        for schema in [
            json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/a", "$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}),
            json!({"properties": {"$ref": {"type": "string"}, "c": {"const": {"$ref": "http://x/"}}}}),
            json!({"$defs": {"n": {"$anchor": "node", "properties": {"l": {"$ref": "#node"}, "r": {"$ref": "#node"}}}}, "$ref": "#node"}),
        ] {
            let map = bounded(&schema.to_string(), &CatalogConfig::default()).unwrap();
            Validator::new(&Value::Object(map)).unwrap();
        }
    }

    #[test]
    fn references_that_multiply_are_refused() {
        let mut defs = Map::new();
        for i in 0..30 {
            let next = json!({"$ref": format!("#/$defs/a{}", i + 1)});
            defs.insert(format!("a{i}"), json!({"allOf": [next, next]}));
        }
        defs.insert("a30".into(), json!({}));
        refused(json!({"$ref": "#/$defs/a0", "$defs": defs}), "max-schema-steps");
        let hidden = json!({"properties": {"$defs": {"$ref": "#/$defs/a0"}}, "$defs": defs});
        refused(hidden, "max-schema-steps");
    }

    #[test]
    fn a_number_that_may_be_a_string_says_so() {
        let wide = json!({"type": ["integer", "string"], "minimum": -EXACT, "maximum": EXACT});
        let v = Validator::new(
            &json!({"properties": {"a/b": wide, "c": {"type": ["integer", "string"], "maximum": 5},
            "l": {"items": wide}}}),
        )
        .unwrap();
        let why = |value: &str| v.check(&serde_json::from_str(value).unwrap()).unwrap_err();
        for value in
            [r#"{"a/b": 9007199254740992}"#, r#"{"a/b": -9223372036854775809}"#, r#"{"l": [0, 1e19]}"#]
        {
            assert!(why(value).contains("give it as a string"), "{}", why(value));
        }
        assert!(!why(r#"{"c": 6}"#).contains("string of digits"), "{}", why(r#"{"c": 6}"#));
        assert!(v.check(&json!({"a/b": EXACT, "l": [-EXACT, "9223372036854775808"]})).is_ok());
    }

    #[test]
    fn violations_have_paths_and_bounds() {
        let v = Validator::new(
            &json!({"type": "object", "required": ["a"], "additionalProperties": {"type": "integer"}}),
        )
        .unwrap();
        assert!(v.check(&json!({"a": 1})).is_ok());
        let error = v.check(&json!({"a": 1, "b": {"c": "x\u{1b}[0m"}})).unwrap_err();
        assert!(error.starts_with("/b: ") && !error.contains('\u{1b}'), "{error}");
        let many: Map<String, Value> = (0..100).map(|i| (format!("k{i}"), json!("y".repeat(5000)))).collect();
        let error = v.check(&Value::Object(many)).unwrap_err();
        assert!(error.ends_with("and more") && error.len() < 4000, "{}", error.len());
        assert!(v.check(&json!(3)).unwrap_err().starts_with("(root): "));
    }
}
