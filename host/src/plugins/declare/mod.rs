//! What a plugin lists, checked and turned into what the lists of MCP show. Pure.

mod prompts;
mod resources;
mod tools;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::problem::{Problem, neutral};
use crate::{
    capabilities::Listing,
    config::{CatalogConfig, Policy},
    store::PluginRow,
};

pub(super) use prompts::{BuiltPrompt, DeclaredPrompt};
pub(super) use resources::{BuiltTemplate, DeclaredResource, DeclaredTemplate};
pub(super) use tools::{BuiltTool, DeclaredTool};

/// All that a plugin declares: the WIT's records, as they are kept in the plugin's row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Declared {
    pub(super) tools: Vec<DeclaredTool>,
    pub(super) prompts: Vec<DeclaredPrompt>,
    pub(super) resources: Vec<DeclaredResource>,
    pub(super) templates: Vec<DeclaredTemplate>,
}

impl From<Listing> for Declared {
    fn from(listing: Listing) -> Self {
        Self {
            tools: listing.tools.into_iter().map(Into::into).collect(),
            prompts: listing.prompts.into_iter().map(Into::into).collect(),
            resources: listing.resources.into_iter().map(Into::into).collect(),
            templates: listing.templates.into_iter().map(Into::into).collect(),
        }
    }
}

impl Declared {
    /// As it is kept in a row.
    pub(super) fn to_row(&self) -> String {
        // Strings, numbers and booleans always serialize.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What [`Declared::to_row`] wrote, or a host that knew tools only.
    ///
    /// # Errors
    /// It is of another form.
    pub(super) fn from_row(text: &str) -> serde_json::Result<Self> {
        if Self::is_tools_only(text) {
            return Ok(Self { tools: serde_json::from_str(text)?, ..Self::default() });
        }
        serde_json::from_str(text)
    }

    /// True for a row of a host that knew tools only, and never asked for the rest.
    pub(super) fn is_tools_only(text: &str) -> bool {
        text.starts_with('[')
    }
}

/// Everything of one plugin that may be served, but for the question whether its names are free.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) tools: Vec<BuiltTool>,
    pub(super) prompts: Vec<BuiltPrompt>,
    pub(super) resources: Vec<rmcp::model::Resource>,
    pub(super) templates: Vec<BuiltTemplate>,
}

impl Built {
    /// Writes its names into `row`: nobody else may take them.
    pub(super) fn own(&self, row: &mut PluginRow) {
        row.tools = self.tools.iter().map(|t| t.name.clone()).collect();
        row.prompts = self.prompts.iter().map(|p| p.listed.name.clone()).collect();
        row.resources = self.resources.iter().map(|r| r.uri.clone()).collect();
        row.templates = self.templates.iter().map(|t| t.listed.uri_template.clone()).collect();
    }
}

/// Checks all that one plugin declares. `strict`: a policy section for a tool that is not there is
/// refused too (at load; a later listing only loses the section's tool).
///
/// # Errors
/// The first thing that cannot be served, and why: a plugin serves whole or not at all.
pub(super) fn build(
    declared: &Declared,
    policy: &Policy,
    bounds: &CatalogConfig,
    strict: bool,
) -> Result<Built, Problem> {
    Ok(Built {
        tools: tools::build(&declared.tools, policy, bounds, strict)?,
        prompts: prompts::build(&declared.prompts, policy, bounds)?,
        resources: resources::build(&declared.resources, bounds)?,
        templates: resources::build_templates(&declared.templates, bounds)?,
    })
}

/// 1 to 128 of `A-Z a-z 0-9 _ - .` (MCP 2026-07-28, server/tools, "Tool Names"); for prompts too.
pub(super) fn is_name(name: &str) -> bool {
    (1..=128).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

/// Refuses more than `most` items; `limit` is the option's name.
fn counted(list: &str, found: usize, limit: &str, most: u32) -> Result<(), Problem> {
    if found <= most as usize {
        return Ok(());
    }
    Err(Problem::too_large(format!("{list} answers {found} items, more than `{limit}` allows ({most})")))
}

/// Refuses texts over `max-schema`. `whose` says what they belong to.
fn sized<'a>(
    whose: &str,
    texts: impl IntoIterator<Item = (&'a str, Option<&'a String>)>,
    bounds: &CatalogConfig,
) -> Result<(), Problem> {
    let limit = bounds.max_schema;
    for (what, text) in texts {
        if text.is_some_and(|t| t.len() > limit.as_usize()) {
            return Err(Problem::too_large(format!("{whose}: its {what} is over `max-schema` ({limit})")));
        }
    }
    Ok(())
}

/// Puts the members of `extra` into `map`: those of `allowed`, each of MCP's form.
///
/// # Errors
/// What is wrong with it.
fn add_extra(
    map: &mut Map<String, Value>,
    extra: Option<&String>,
    allowed: &[&str],
    bounds: &CatalogConfig,
) -> Result<(), String> {
    let Some(text) = extra else { return Ok(()) };
    if text.len() > bounds.max_schema.as_usize() {
        return Err(format!("extra: it is over `max-schema` ({})", bounds.max_schema));
    }
    let value: Value = serde_json::from_str(text).map_err(|e| format!("extra: it is not JSON: {e}"))?;
    let Value::Object(members) = value else { return Err("extra: it is not a JSON object".to_owned()) };
    for (key, value) in members {
        let known = allowed.contains(&key.as_str());
        match (key.as_str(), &value) {
            ("icons", Value::Array(icons)) if known => icons.iter().try_for_each(icon)?,
            ("_meta", Value::Object(_)) if known => {}
            ("annotations", Value::Object(hints)) if known => annotations(hints)?,
            ("icons", _) if known => return Err("extra: `icons` is not a list".to_owned()),
            (other, _) if known => return Err(format!("extra: `{other}` is not an object")),
            (other, _) => {
                return Err(format!("extra: the member {:?} is not allowed", neutral(other, 100)));
            }
        }
        map.insert(key, value);
    }
    Ok(())
}

fn icon(icon: &Value) -> Result<(), String> {
    let source = icon.get("src").and_then(Value::as_str).unwrap_or_default();
    if source.starts_with("https://") || source.starts_with("data:image/") {
        return Ok(());
    }
    Err("extra: each icon's `src` must be an https: or a data:image/ URL".to_owned())
}

/// What the type of MCP's `Annotations` does not say.
fn annotations(hints: &Map<String, Value>) -> Result<(), String> {
    let good = hints.get("priority").is_none_or(|p| p.as_f64().is_some_and(|p| (0.0..=1.0).contains(&p)));
    if good { Ok(()) } else { Err("extra: the priority in `annotations` is not from 0 to 1".to_owned()) }
}

/// `map` as rmcp's type of it, which checks what is left.
fn typed<T: serde::de::DeserializeOwned>(map: Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(map)).map_err(|e| format!("it is not of MCP's form: {e}"))
}

/// Texts that are there, by MCP's names for them.
fn put_texts<'a>(
    map: &mut Map<String, Value>,
    texts: impl IntoIterator<Item = (&'a str, Option<&'a String>)>,
) {
    for (key, text) in texts {
        if let Some(text) = text {
            map.insert(key.to_owned(), text.as_str().into());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_that_pass_are_plain(name in any::<String>()) {
            if is_name(&name) {
                prop_assert!(name.is_ascii() && !name.contains(|c: char| c.is_whitespace() || c.is_control()));
            }
        }

        #[test]
        fn what_is_declared_survives_its_row(
            name in any::<String>(),
            title in any::<Option<String>>(),
            extra in any::<Option<String>>(),
            size in any::<Option<u64>>(),
        ) {
            let declared = Declared {
                tools: vec![DeclaredTool { name: name.clone(), title: title.clone(), extra: extra.clone(), ..DeclaredTool::default() }],
                prompts: vec![DeclaredPrompt { name: name.clone(), title, ..DeclaredPrompt::default() }],
                resources: vec![DeclaredResource { uri: name.clone(), size, extra, ..DeclaredResource::default() }],
                templates: vec![DeclaredTemplate { uri_template: name, ..DeclaredTemplate::default() }],
            };
            prop_assert_eq!(Declared::from_row(&declared.to_row()).unwrap(), declared);
        }
    }

    #[test]
    fn rows_of_hosts_that_knew_tools_only_still_read() {
        let old = r#"[{"name":"a","title":null,"description":"d","input_schema":"{}","output_schema":null,
            "read_only":null,"destructive":true,"idempotent":null,"open_world":null,"extra":null}]"#;
        let declared = Declared::from_row(old).unwrap();
        assert_eq!((declared.tools[0].name.as_str(), declared.tools[0].destructive), ("a", Some(true)));
        assert!(Declared::is_tools_only(old) && !Declared::is_tools_only(&declared.to_row()));
        assert!(Declared::from_row("{}").is_err() && Declared::from_row("").is_err());
    }
}
