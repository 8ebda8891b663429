//! Prompts: what `list-prompts` answers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{add_extra, counted, is_name, put_texts, sized, typed};
use crate::{
    capabilities::wit_types,
    config::{CatalogConfig, Policy},
    plugins::problem::{Problem, neutral},
};

/// One prompt as its plugin declares it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::plugins) struct DeclaredPrompt {
    pub(in crate::plugins) name: String,
    pub(in crate::plugins) title: Option<String>,
    pub(in crate::plugins) description: Option<String>,
    pub(in crate::plugins) arguments: Vec<DeclaredArgument>,
    pub(in crate::plugins) extra: Option<String>,
}

/// One argument of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::plugins) struct DeclaredArgument {
    pub(in crate::plugins) name: String,
    pub(in crate::plugins) title: Option<String>,
    pub(in crate::plugins) description: Option<String>,
    pub(in crate::plugins) required: bool,
}

impl From<wit_types::Prompt> for DeclaredPrompt {
    fn from(p: wit_types::Prompt) -> Self {
        let argument = |a: wit_types::PromptArgument| DeclaredArgument {
            name: a.name,
            title: a.title,
            description: a.description,
            required: a.required,
        };
        Self {
            name: p.name,
            title: p.title,
            description: p.description,
            arguments: p.arguments.into_iter().map(argument).collect(),
            extra: p.extra,
        }
    }
}

/// One prompt that may be served; `listed` has its public name.
#[derive(Debug)]
pub(in crate::plugins) struct BuiltPrompt {
    pub(in crate::plugins) own_name: String,
    pub(in crate::plugins) listed: rmcp::model::Prompt,
}

/// Checks all prompts of one plugin.
pub(super) fn build(
    declared: &[DeclaredPrompt],
    policy: &Policy,
    bounds: &CatalogConfig,
) -> Result<Vec<BuiltPrompt>, Problem> {
    counted("list-prompts", declared.len(), "max-prompts", bounds.max_prompts)?;
    let mut names = BTreeSet::new();
    declared
        .iter()
        .map(|prompt| {
            let own = &prompt.name;
            if !is_name(own) {
                return Err(Problem::bad_prompt(format!("{:?} is not a prompt name", neutral(own, 140))));
            }
            let public = format!("{}{own}", policy.prefix);
            if !is_name(&public) {
                return Err(Problem::bad_prompt(format!(
                    "the prompt name {public:?}, with the policy's prefix, is over 128 characters"
                )));
            }
            if !names.insert(own.as_str()) {
                return Err(Problem::bad_prompt(format!("two prompts are named {own:?}")));
            }
            Ok(BuiltPrompt { own_name: own.clone(), listed: listed(prompt, public, bounds)? })
        })
        .collect()
}

/// The prompt as MCP's `Prompt`.
fn listed(
    prompt: &DeclaredPrompt,
    public: String,
    bounds: &CatalogConfig,
) -> Result<rmcp::model::Prompt, Problem> {
    let whose = format!("prompt {:?}", prompt.name);
    let bad = |reason: String| Problem::bad_prompt(format!("{whose}: {reason}"));
    let texts = [("title", prompt.title.as_ref()), ("description", prompt.description.as_ref())];
    sized(&whose, texts, bounds)?;
    let mut map = Map::new();
    map.insert("name".into(), public.into());
    put_texts(&mut map, texts);
    let arguments = arguments(&whose, &prompt.arguments, bounds)?;
    if !arguments.is_empty() {
        map.insert("arguments".into(), Value::Array(arguments));
    }
    add_extra(&mut map, prompt.extra.as_ref(), &["icons", "_meta"], bounds).map_err(bad)?;
    typed(map).map_err(bad)
}

fn arguments(
    whose: &str,
    declared: &[DeclaredArgument],
    bounds: &CatalogConfig,
) -> Result<Vec<Value>, Problem> {
    let bad = |reason: String| Err(Problem::bad_prompt(format!("{whose}: {reason}")));
    let most = CatalogConfig::PROMPT_ARGUMENTS;
    if declared.len() > most {
        return bad(format!("it has {} arguments, more than {most}", declared.len()));
    }
    let mut names = BTreeSet::new();
    let mut all = Vec::with_capacity(declared.len());
    for argument in declared {
        let name = &argument.name;
        if !(1..=CatalogConfig::ARGUMENT_NAME).contains(&name.len()) || name.contains(char::is_control) {
            return bad(format!(
                "the argument name {:?} is not 1 to {} bytes without control characters",
                neutral(name, 140),
                CatalogConfig::ARGUMENT_NAME
            ));
        }
        if !names.insert(name.as_str()) {
            return bad(format!("two arguments are named {:?}", neutral(name, 140)));
        }
        let texts = [("title", argument.title.as_ref()), ("description", argument.description.as_ref())];
        sized(&format!("{whose}, argument {name:?}"), texts, bounds)?;
        let mut map = Map::new();
        map.insert("name".into(), name.as_str().into());
        put_texts(&mut map, texts);
        map.insert("required".into(), argument.required.into());
        all.push(Value::Object(map));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use serde_json::json;

    use super::*;

    fn prompt(name: &str, arguments: &[&str]) -> DeclaredPrompt {
        let argument = |name: &&str| DeclaredArgument { name: (*name).into(), ..DeclaredArgument::default() };
        DeclaredPrompt {
            name: name.into(),
            arguments: arguments.iter().map(argument).collect(),
            ..DeclaredPrompt::default()
        }
    }

    fn run(prompts: &[DeclaredPrompt], policy: &Policy) -> Result<Vec<BuiltPrompt>, Problem> {
        build(prompts, policy, &CatalogConfig::default())
    }

    #[test]
    fn a_prompt_becomes_what_mcp_lists() {
        let mut declared = prompt("greet", &["name"]);
        declared.title = Some("Greet".into());
        declared.arguments[0].required = true;
        declared.extra = Some(r#"{"icons":[{"src":"data:image/png;base64,AA=="}],"_meta":{"a":1}}"#.into());
        let policy = Policy { prefix: "w_".into(), ..Policy::default() };
        let built = run(&[declared, prompt("bare", &[])], &policy).unwrap();
        assert_eq!(
            serde_json::to_value(&built[0].listed).unwrap(),
            json!({"name": "w_greet", "title": "Greet", "arguments": [{"name": "name", "required": true}],
                "icons": [{"src": "data:image/png;base64,AA=="}], "_meta": {"a": 1}})
        );
        assert_eq!(built[0].own_name, "greet");
        assert_eq!(serde_json::to_value(&built[1].listed).unwrap(), json!({"name": "w_bare"}));
    }

    #[test]
    fn bad_prompts_are_refused_by_code() {
        let many: Vec<String> = (0..=CatalogConfig::PROMPT_ARGUMENTS).map(|i| format!("a{i}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let with = |extra: &str| DeclaredPrompt { extra: Some(extra.into()), ..prompt("a", &[]) };
        for bad in [
            prompt("", &[]),
            prompt("a b", &[]),
            prompt("a", &["x", "x"]),
            prompt("a", &[""]),
            prompt("a", &["x\ny"]),
            prompt("a", &[&"x".repeat(129)]),
            prompt("a", &many),
            with("3"),
            with(r#"{"annotations":{}}"#),
            with(r#"{"icons":[{"src":"http://example.com/i.png"}]}"#),
        ] {
            let found = run(std::slice::from_ref(&bad), &Policy::default());
            assert_eq!(found.expect_err("must be refused").code, "plugin_bad_prompt", "{bad:?}");
        }
        let twice = run(&[prompt("a", &[]), prompt("a", &[])], &Policy::default());
        assert_eq!(twice.unwrap_err().code, "plugin_bad_prompt");
        let long = Policy { prefix: "p".repeat(64), ..Policy::default() };
        assert_eq!(run(&[prompt(&"x".repeat(65), &[])], &long).unwrap_err().code, "plugin_bad_prompt");
        let most = CatalogConfig::default().max_prompts;
        let many: Vec<_> = (0..=most).map(|i| prompt(&format!("p{i}"), &[])).collect();
        assert_eq!(run(&many, &Policy::default()).unwrap_err().code, "plugin_too_large");
    }
}
