//! What one check may cost. Some schemas look small and make a validator work for hours: eight
//! references back to the root cost eight times as much for every level of the instance. No validator
//! can be interrupted, so this walk goes ahead of it, counts the same steps, and gives up in time.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::schema::{self, DATA};
use crate::config::CatalogConfig;

/// Keywords that can make a check cost more than the instance's size times the schema's.
const MULTIPLY: [&str; 16] = [
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "dependentSchemas",
    "patternProperties",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "enum",
];

/// Schemas within schemas, by how they apply. Deeper than any schema and instance that are let in.
const MAX_DEPTH: u32 = 1000;

/// A schema to walk. Made only for schemas with a keyword that multiplies.
#[derive(Debug)]
pub(super) struct Cost {
    root: Value,
    /// Where each `$ref` target is, as a JSON pointer.
    targets: HashMap<String, String>,
}

impl Cost {
    pub(super) fn of(root: &Value) -> Option<Self> {
        let mut multiplies = false;
        let mut anchors = HashMap::new();
        let mut references = Vec::new();
        // The closure never refuses.
        let _ = schema::visit(root, &mut String::new(), &mut |map, at| {
            multiplies |= MULTIPLY.iter().any(|key| map.contains_key(*key));
            for key in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = map.get(key).and_then(Value::as_str) {
                    anchors.insert(name.to_owned(), at.to_owned());
                }
            }
            for key in ["$ref", "$dynamicRef"] {
                references.extend(map.get(key).and_then(Value::as_str).map(str::to_owned));
            }
            Ok(())
        });
        let target = |reference: &String| {
            let fragment = schema::percent_decode(reference.strip_prefix('#')?);
            let pointer = fragment.is_empty() || fragment.starts_with('/');
            if pointer { Some(fragment) } else { anchors.get(&fragment).cloned() }
        };
        multiplies.then(|| Self {
            targets: references.iter().filter_map(|r| Some((r.clone(), target(r)?))).collect(),
            root: root.clone(),
        })
    }

    /// The steps that a check of `instance` takes, or none where they are more than
    /// [`CatalogConfig::CHECK_STEPS`].
    pub(super) fn steps(&self, instance: &Value) -> Option<u64> {
        let mut walk = Walk { cost: self, left: CatalogConfig::CHECK_STEPS };
        walk.schema(&self.root, instance, 0)?;
        Some(CatalogConfig::CHECK_STEPS - walk.left)
    }
}

struct Walk<'a> {
    cost: &'a Cost,
    left: u64,
}

impl Walk<'_> {
    fn spend(&mut self, steps: usize) -> Option<()> {
        self.left = self.left.checked_sub(u64::try_from(steps).ok()?)?;
        Some(())
    }

    /// One schema against one instance: its keywords on the spot, then its children's.
    fn schema(&mut self, schema: &Value, instance: &Value, depth: u32) -> Option<()> {
        let Value::Object(map) = schema else { return self.spend(1) };
        if depth > MAX_DEPTH {
            return None;
        }
        self.spend(1 + map.len())?;
        for (key, value) in map {
            match (key.as_str(), value) {
                ("$ref" | "$dynamicRef", Value::String(reference)) => {
                    if let Some(target) =
                        self.cost.targets.get(reference).and_then(|p| self.cost.root.pointer(p))
                    {
                        self.schema(target, instance, depth + 1)?;
                    }
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(branches)) => {
                    branches.iter().try_for_each(|branch| self.schema(branch, instance, depth + 1))?;
                }
                ("not" | "if" | "then" | "else", branch) => self.schema(branch, instance, depth + 1)?,
                ("dependentSchemas", Value::Object(branches)) => {
                    branches.values().try_for_each(|branch| self.schema(branch, instance, depth + 1))?;
                }
                // Each item is compared with each value until one is equal.
                ("enum", Value::Array(values)) => self.spend(values.len())?,
                (name, _) if DATA.contains(&name) => {}
                _ => self.children(key, value, instance, depth)?,
            }
        }
        Some(())
    }

    fn children(&mut self, key: &str, value: &Value, instance: &Value, depth: u32) -> Option<()> {
        match (instance, key, value) {
            (Value::Object(members), "properties", Value::Object(named)) => self.named(named, members, depth),
            (Value::Object(members), "patternProperties", Value::Object(patterns)) => {
                // Which names match is for the validator to find out; all of them, at most.
                patterns.values().try_for_each(|schema| self.each(schema, members.values(), depth))
            }
            (Value::Object(members), "additionalProperties" | "unevaluatedProperties", schema) => {
                self.each(schema, members.values(), depth)
            }
            (Value::Object(members), "propertyNames", _) => self.spend(members.len()),
            (Value::Array(items), "items" | "contains" | "unevaluatedItems", schema) => {
                self.each(schema, items.iter(), depth)
            }
            (Value::Array(items), "prefixItems", Value::Array(schemas)) => {
                schemas.iter().zip(items).try_for_each(|(schema, item)| self.schema(schema, item, depth + 1))
            }
            _ => Some(()),
        }
    }

    fn named(&mut self, named: &Map<String, Value>, members: &Map<String, Value>, depth: u32) -> Option<()> {
        named.iter().try_for_each(|(name, schema)| match members.get(name) {
            Some(member) => self.schema(schema, member, depth + 1),
            None => Some(()),
        })
    }

    fn each<'v>(
        &mut self,
        schema: &Value,
        values: impl Iterator<Item = &'v Value>,
        depth: u32,
    ) -> Option<()> {
        values.into_iter().try_for_each(|value| self.schema(schema, value, depth + 1))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn nested(levels: u32) -> Value {
        (0..levels).fold(json!(5), |inner, _| json!({"a": inner}))
    }

    #[test]
    fn references_that_multiply_by_level_are_stopped_in_time() {
        let branches: Vec<Value> =
            (0..8).map(|i| json!({"$ref": "#", "required": [format!("q{i}")]})).collect();
        let bomb = Cost::of(&json!({"type": "object", "properties": {"a": {"anyOf": branches}}})).unwrap();
        assert!(bomb.steps(&nested(3)).is_some());
        assert_eq!(bomb.steps(&nested(20)), None);
        let twice = json!({"properties": {"a": {"$ref": "#"}}, "patternProperties": {"^a": {"$ref": "#"}}});
        assert_eq!(Cost::of(&twice).unwrap().steps(&nested(26)), None);
        let forever = Cost::of(&json!({"$ref": "#"})).unwrap();
        assert_eq!(forever.steps(&json!(1)), None);
    }

    #[test]
    fn an_ordinary_tree_may_be_deep_and_large() {
        let tree = json!({"properties": {"children": {"items": {"$ref": "#"}}, "name": {"type": "string"}}});
        let cost = Cost::of(&tree).unwrap();
        let deep =
            (0..60).fold(json!({"name": "leaf"}), |inner, _| json!({"name": "n", "children": [inner]}));
        assert!(cost.steps(&deep).unwrap() < 1000);
        let wide =
            json!({"children": (0..20_000).map(|i| json!({"name": i.to_string()})).collect::<Vec<_>>()});
        assert!(cost.steps(&wide).is_some());
        assert!(Cost::of(&json!({"type": "object", "properties": {"x": {"type": "string"}}})).is_none());
    }
}
