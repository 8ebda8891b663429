//! Tools: what `list-tools` answers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{add_extra, counted, is_name, put_texts, sized, typed};
use crate::{
    capabilities::wit_types,
    config::{CatalogConfig, Policy, nearest},
    plugins::{
        Validator, headers,
        problem::{Problem, neutral},
        schema,
    },
};

/// One tool as its plugin declares it: the WIT's record, as it is kept in the plugin's row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::plugins) struct DeclaredTool {
    pub(in crate::plugins) name: String,
    pub(in crate::plugins) title: Option<String>,
    pub(in crate::plugins) description: String,
    pub(in crate::plugins) input_schema: String,
    pub(in crate::plugins) output_schema: Option<String>,
    pub(in crate::plugins) read_only: Option<bool>,
    pub(in crate::plugins) destructive: Option<bool>,
    pub(in crate::plugins) idempotent: Option<bool>,
    pub(in crate::plugins) open_world: Option<bool>,
    pub(in crate::plugins) extra: Option<String>,
}

impl From<wit_types::Tool> for DeclaredTool {
    fn from(t: wit_types::Tool) -> Self {
        Self {
            name: t.name,
            title: t.title,
            description: t.description,
            input_schema: t.input_schema,
            output_schema: t.output_schema,
            read_only: t.annotations.read_only,
            destructive: t.annotations.destructive,
            idempotent: t.annotations.idempotent,
            open_world: t.annotations.open_world,
            extra: t.extra,
        }
    }
}

/// One tool that may be served, but for the question whether its name is free.
#[derive(Debug)]
pub(in crate::plugins) struct BuiltTool {
    /// Public name: prefix and own name.
    pub(in crate::plugins) name: String,
    pub(in crate::plugins) own_name: String,
    pub(in crate::plugins) listed: rmcp::model::Tool,
    pub(in crate::plugins) input: Validator,
    pub(in crate::plugins) output: Option<Validator>,
    pub(in crate::plugins) headers: Vec<(String, Vec<String>)>,
}

/// Checks all tools of one plugin. `strict`: a policy section for a tool that is not there is
/// refused too (at load; a later listing only loses the section's tool).
///
/// # Errors
/// The first tool that cannot be served, and why: a plugin serves whole or not at all.
pub(super) fn build(
    declared: &[DeclaredTool],
    policy: &Policy,
    bounds: &CatalogConfig,
    strict: bool,
) -> Result<Vec<BuiltTool>, Problem> {
    counted("list-tools", declared.len(), "max-tools", bounds.max_tools)?;
    let mut names = BTreeSet::new();
    let mut built = Vec::with_capacity(declared.len());
    for tool in declared {
        if !is_name(&tool.name) {
            return Err(Problem::bad_tool_name(format!("{:?} is not a tool name", neutral(&tool.name, 140))));
        }
        let public = format!("{}{}", policy.prefix, tool.name);
        if !is_name(&public) {
            return Err(Problem::bad_tool_name(format!(
                "{public:?}, with the policy's prefix, is over 128 characters"
            )));
        }
        if !names.insert(tool.name.as_str()) {
            return Err(Problem::bad_tool_name(format!("two tools are named {:?}", tool.name)));
        }
        built.push(build_one(tool, public, bounds)?);
    }
    if strict && let Some(unknown) = policy.tools.keys().find(|name| !names.contains(name.as_str())) {
        let near = nearest(unknown, names.iter().copied());
        let near = near.map_or("it has none".to_owned(), |n| format!("the nearest that it has is {n:?}"));
        return Err(Problem::bad_policy(format!(
            "[tools.{unknown}] names a tool that the plugin does not have; {near}"
        )));
    }
    Ok(built)
}

fn build_one(tool: &DeclaredTool, public: String, bounds: &CatalogConfig) -> Result<BuiltTool, Problem> {
    let own = &tool.name;
    let texts = [("description", Some(&tool.description)), ("title", tool.title.as_ref())];
    sized(&format!("tool {own:?}"), texts, bounds)?;
    let bad = |what: &str, reason: String| Problem::bad_schema(format!("tool {own:?}, {what}: {reason}"));

    let input_map = schema::bounded(&tool.input_schema, bounds).map_err(|e| bad("input-schema", e))?;
    if input_map.get("type").and_then(Value::as_str) != Some("object") {
        return Err(bad("input-schema", "/type: it must be \"object\"".to_owned()));
    }
    let headers = headers::annotations(&input_map).map_err(|e| bad("input-schema", e))?;
    let input_schema = Value::Object(input_map);
    let input = Validator::new(&input_schema).map_err(|e| bad("input-schema", e))?;

    let output_schema = match &tool.output_schema {
        None => None,
        Some(text) => {
            Some(Value::Object(schema::bounded(text, bounds).map_err(|e| bad("output-schema", e))?))
        }
    };
    let output = match &output_schema {
        None => None,
        Some(value) => Some(Validator::new(value).map_err(|e| bad("output-schema", e))?),
    };
    let listed = listed(tool, &public, input_schema, output_schema, bounds)?;
    Ok(BuiltTool { name: public, own_name: own.clone(), listed, input, output, headers })
}

/// The tool as MCP's `Tool`.
fn listed(
    tool: &DeclaredTool,
    public: &str,
    input_schema: Value,
    output_schema: Option<Value>,
    bounds: &CatalogConfig,
) -> Result<rmcp::model::Tool, Problem> {
    let mut map = Map::new();
    map.insert("name".into(), public.into());
    put_texts(&mut map, [("title", tool.title.as_ref()), ("description", Some(&tool.description))]);
    map.insert("inputSchema".into(), input_schema);
    if let Some(schema) = output_schema {
        map.insert("outputSchema".into(), schema);
    }
    let hints = [
        ("readOnlyHint", tool.read_only),
        ("destructiveHint", tool.destructive),
        ("idempotentHint", tool.idempotent),
        ("openWorldHint", tool.open_world),
    ];
    let hints: Map<String, Value> =
        hints.into_iter().filter_map(|(k, v)| Some((k.to_owned(), json!(v?)))).collect();
    if !hints.is_empty() {
        map.insert("annotations".into(), Value::Object(hints));
    }
    let bad = |reason: String| Problem::bad_tool(format!("tool {:?}: {reason}", tool.name));
    add_extra(&mut map, tool.extra.as_ref(), &["icons", "_meta"], bounds).map_err(bad)?;
    typed(map).map_err(bad)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;
    use crate::config::CallPolicy;

    fn tool(name: &str) -> DeclaredTool {
        DeclaredTool {
            name: name.into(),
            description: "does".into(),
            input_schema: "{\"type\":\"object\"}".into(),
            ..DeclaredTool::default()
        }
    }

    fn run(tools: &[DeclaredTool], policy: &Policy) -> Result<Vec<BuiltTool>, Problem> {
        build(tools, policy, &CatalogConfig::default(), true)
    }

    fn code(tools: &[DeclaredTool]) -> &'static str {
        run(tools, &Policy::default()).expect_err("must be refused").code
    }

    #[test]
    fn a_tool_becomes_what_mcp_lists() {
        let declared = DeclaredTool {
            title: Some("T".into()),
            output_schema: Some("{\"type\":\"object\"}".into()),
            read_only: Some(true),
            extra: Some(r#"{"icons":[{"src":"https://example.com/i.png"}],"_meta":{"a":1}}"#.into()),
            ..tool("look")
        };
        let policy = Policy { prefix: "w_".into(), ..Policy::default() };
        let built = run(&[declared], &policy).unwrap();
        let wire = serde_json::to_value(&built[0].listed).unwrap();
        assert_eq!(
            wire,
            json!({"name": "w_look", "title": "T", "description": "does", "inputSchema": {"type": "object"},
                "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true},
                "icons": [{"src": "https://example.com/i.png"}], "_meta": {"a": 1}})
        );
        assert_eq!((built[0].name.as_str(), built[0].own_name.as_str()), ("w_look", "look"));
    }

    #[test]
    fn bad_tools_are_refused_by_code() {
        for name in ["", "a b", "ä", &"x".repeat(129), "a\n"] {
            assert_eq!(code(&[tool(name)]), "plugin_bad_tool_name", "{name:?}");
        }
        assert_eq!(code(&[tool("a"), tool("a")]), "plugin_bad_tool_name");
        let input = |schema: &str| DeclaredTool { input_schema: schema.into(), ..tool("a") };
        for schema in
            ["", "[]", "{}", "{\"type\":\"string\"}", "{\"type\":\"object\",\"$ref\":\"http://a/\"}"]
        {
            assert_eq!(code(&[input(schema)]), "plugin_bad_schema", "{schema:?}");
        }
        assert_eq!(
            code(&[input(r#"{"type":"object","properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#)]),
            "plugin_bad_schema"
        );
        assert_eq!(
            code(&[DeclaredTool { output_schema: Some("3".into()), ..tool("a") }]),
            "plugin_bad_schema"
        );
        for extra in [
            "[]",
            "{",
            r#"{"name":"b"}"#,
            r#"{"icons":3}"#,
            r#"{"_meta":[]}"#,
            r#"{"icons":[{"src":"javascript:x"}]}"#,
        ] {
            assert_eq!(
                code(&[DeclaredTool { extra: Some(extra.into()), ..tool("a") }]),
                "plugin_bad_tool",
                "{extra:?}"
            );
        }
        let many: Vec<_> = (0..129).map(|i| tool(&format!("t{i}"))).collect();
        assert_eq!(code(&many), "plugin_too_large");
    }

    #[test]
    fn a_policy_for_a_tool_that_is_not_there_is_refused() {
        let policy =
            Policy { tools: [("serach".to_owned(), CallPolicy::default())].into(), ..Policy::default() };
        let problem = run(&[tool("index"), tool("search")], &policy).unwrap_err();
        assert!(problem.code == "plugin_bad_policy" && problem.reason.contains("\"search\""), "{problem:?}");
        assert!(build(&[tool("search")], &policy, &CatalogConfig::default(), false).is_ok());
    }

    #[test]
    fn a_prefix_counts_towards_the_length() {
        let policy = Policy { prefix: "p".repeat(64), ..Policy::default() };
        assert_eq!(run(&[tool(&"x".repeat(65))], &policy).unwrap_err().code, "plugin_bad_tool_name");
        assert!(run(&[tool(&"x".repeat(64))], &policy).is_ok());
    }
}
