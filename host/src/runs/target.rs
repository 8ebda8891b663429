//! What a request wants: a tool, a prompt, a resource or a completion, and who serves it.

use std::{collections::BTreeMap, fmt, sync::Arc};

use rmcp::model::CompletionInfo;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Answer, tool_error};
use crate::{
    base::{Digest, Fault, Principal},
    capabilities::{Request, wit_types::CompletionReference},
    config::CallPolicy,
    plugins::{Catalog, Plugin, Prompt, Tool},
};

/// What a request wants, by public names.
#[derive(Clone, Debug)]
pub enum Target {
    /// `tools/call`.
    Tool {
        /// Public name.
        name: String,
        /// An absent member is an empty object.
        arguments: Map<String, Value>,
    },
    /// `prompts/get`.
    Prompt {
        /// Public name.
        name: String,
        /// An absent member is an empty object.
        arguments: Map<String, Value>,
    },
    /// `resources/read`.
    Resource {
        /// Its URI.
        uri: String,
    },
    /// `completion/complete`.
    Completion {
        /// Whose argument it is.
        reference: Reference,
        /// The argument's name.
        argument: String,
        /// What stands there so far.
        value: String,
        /// The arguments that are settled already.
        context: BTreeMap<String, String>,
    },
}

/// The kinds of request whose runs may be rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `tools/call`.
    #[default]
    Tool,
    /// `prompts/get`.
    Prompt,
    /// `resources/read`.
    Resource,
}

impl Kind {
    /// True for the kind that was there first: what was written before others were says nothing of it.
    pub(super) fn is_tool(&self) -> bool {
        *self == Self::Tool
    }
}

/// Whose argument is completed.
#[derive(Clone, Debug)]
pub enum Reference {
    /// A prompt's, by its public name.
    Prompt(String),
    /// A resource template's, as listed.
    Template(String),
}

impl Target {
    /// What is wanted. A completion asks nothing, so that its run is never a row.
    pub(super) const fn kind(&self) -> Kind {
        match self {
            Self::Tool { .. } | Self::Completion { .. } => Kind::Tool,
            Self::Prompt { .. } => Kind::Prompt,
            Self::Resource { .. } => Kind::Resource,
        }
    }

    /// Names this request of `principal`: equal for a retry, and for nothing else.
    pub(super) fn mark(&self, principal: &Principal) -> Digest {
        let (method, name, arguments) = match self {
            Self::Tool { name, arguments } => ("tools/call", name, canonical_object(arguments)),
            Self::Prompt { name, arguments } => ("prompts/get", name, canonical_object(arguments)),
            Self::Resource { uri } => ("resources/read", uri, String::new()),
            // Never asks, so that its mark is never looked at.
            Self::Completion { argument, .. } => ("completion/complete", argument, String::new()),
        };
        let mut bytes = Vec::new();
        for part in [principal.as_str(), method, name.as_str(), arguments.as_str()] {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part.as_bytes());
        }
        Digest::of(&bytes)
    }
}

/// What a run executes.
pub(super) enum Subject {
    Tool(Arc<Tool>),
    Prompt(Arc<Prompt>),
    Resource(String),
    Completion,
}

/// What a run executes, and the plugin version that serves it.
pub(super) struct Work {
    pub(super) subject: Subject,
    pub(super) plugin: Arc<Plugin>,
}

impl Work {
    pub(super) fn of_tool(tool: Arc<Tool>) -> Self {
        Self { plugin: tool.plugin.clone(), subject: Subject::Tool(tool) }
    }

    pub(super) const fn tool(&self) -> Option<&Arc<Tool>> {
        match &self.subject {
            Subject::Tool(tool) => Some(tool),
            _ => None,
        }
    }

    /// The public name; for a resource its URI.
    pub(super) fn name(&self) -> &str {
        match &self.subject {
            Subject::Tool(tool) => &tool.name,
            Subject::Prompt(prompt) => &prompt.name,
            Subject::Resource(uri) => uri,
            Subject::Completion => "completion",
        }
    }

    /// How calls of it are held. Prompts, resources and completions have the plugin's settings.
    pub(super) fn policy(&self) -> &CallPolicy {
        match &self.subject {
            Subject::Tool(tool) => self.plugin.policy.call_of(&tool.own_name),
            _ => &self.plugin.policy.call,
        }
    }

    /// True where the run may start on the thread that took its request.
    pub(super) fn is_quick(&self) -> bool {
        self.tool().is_some_and(|tool| tool.pace.is_quick()) && !self.plugin.granted.may_block()
    }

    /// True where the plugin may ask its caller something (MCP 2026-07-28: not for completions).
    pub(super) const fn may_ask(&self) -> bool {
        !matches!(self.subject, Subject::Completion)
    }

    /// An error's member that says what it is about.
    pub(super) fn named(&self, fault: Fault) -> Fault {
        match &self.subject {
            Subject::Tool(tool) => fault.with("tool", tool.name.clone().into()),
            Subject::Prompt(prompt) => fault.with("prompt", prompt.name.clone().into()),
            Subject::Resource(uri) => fault.with("uri", uri.clone().into()),
            Subject::Completion => fault,
        }
    }

    /// A bound that was reached: a result that a model can read where it is a tool's, else an error.
    pub(super) fn limited(&self, code: &'static str, text: String) -> Answer {
        match &self.subject {
            Subject::Tool(_) => Answer::Result(Box::new(tool_error(code, text))),
            _ => Answer::Error(self.named(Fault::internal(code, text))),
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            Subject::Tool(tool) => write!(f, "tool {:?}", tool.name),
            Subject::Prompt(prompt) => write!(f, "prompt {:?}", prompt.name),
            Subject::Resource(uri) => write!(f, "resource {uri:?}"),
            Subject::Completion => f.write_str("completion"),
        }
    }
}

/// There is no such tool.
pub(super) fn tool_unknown(name: &str) -> Fault {
    let named = shown(name);
    let text = format!("There is no tool {named:?}. Call tools/list for the tools that are served now.");
    Fault::invalid("tool_unknown", text).with("tool", named.into())
}

pub(super) fn prompt_unknown(name: &str) -> Fault {
    let named = shown(name);
    let text =
        format!("There is no prompt {named:?}. Call prompts/list for the prompts that are served now.");
    Fault::invalid("prompt_unknown", text).with("prompt", named.into())
}

/// MCP 2026-07-28, resources, error handling: -32602 with the URI.
pub(super) fn resource_unknown(uri: &str) -> Fault {
    let text =
        "There is no such resource. Call resources/list and resources/templates/list for what is served now.";
    Fault::invalid("resource_unknown", text).with("uri", uri.into())
}

/// As long as a name can be: what is longer is none, and need not come back whole.
fn shown(name: &str) -> String {
    name.chars().take(128).collect()
}

/// Who gives a prompt, and what its guest is asked.
///
/// # Errors
/// `prompt_unknown`, `arguments_invalid`, `limit_arguments`.
pub(super) fn prompt(
    catalog: &Catalog,
    name: &str,
    arguments: Map<String, Value>,
) -> Result<(Work, Request), Fault> {
    let prompt = catalog.prompts.get(name).cloned().ok_or_else(|| prompt_unknown(name))?;
    within(&prompt.plugin, canonical_object(&arguments).len())?;
    let declared = prompt.listed.arguments.as_deref().unwrap_or_default();
    let wrong = |why: String| {
        let text = format!("The arguments do not fit the prompt {:?}: {why}", prompt.name);
        Fault::invalid("arguments_invalid", text).with("prompt", prompt.name.clone().into())
    };
    let mut given = Vec::with_capacity(arguments.len());
    for (name, value) in arguments {
        if !declared.iter().any(|a| a.name == name) {
            let known: Vec<&str> = declared.iter().map(|a| a.name.as_str()).collect();
            let (name, known) = (shown(&name), known.join(", "));
            return Err(wrong(format!("it has no argument {name:?}; it has: {known}")));
        }
        let Value::String(value) = value else {
            return Err(wrong(format!("{name:?} must be a string")));
        };
        given.push((name, value));
    }
    let missing = declared
        .iter()
        .find(|a| a.required.unwrap_or(false) && !given.iter().any(|(name, _)| *name == a.name));
    if let Some(argument) = missing {
        return Err(wrong(format!("{:?} is required", argument.name)));
    }
    let request = Request::Prompt { name: prompt.own_name.clone(), arguments: given };
    Ok((Work { plugin: prompt.plugin.clone(), subject: Subject::Prompt(prompt) }, request))
}

/// Who has a resource.
///
/// # Errors
/// `resource_unknown`, `limit_arguments`.
pub(super) fn resource(catalog: &Catalog, uri: String) -> Result<(Work, Request), Fault> {
    let plugin = catalog.resource(&uri).ok_or_else(|| resource_unknown(&shown(&uri)))?;
    within(&plugin, uri.len())?;
    Ok((Work { plugin, subject: Subject::Resource(uri.clone()) }, Request::Resource { uri }))
}

/// Who completes an argument; nobody where its plugin has no completions.
///
/// # Errors
/// `prompt_unknown`, `resource_unknown`, `limit_arguments`.
pub(super) fn completion(
    catalog: &Catalog,
    reference: Reference,
    argument: String,
    value: String,
    context: BTreeMap<String, String>,
) -> Result<Result<(Work, Request), CompletionInfo>, Fault> {
    let (plugin, reference) = match reference {
        Reference::Prompt(name) => {
            let prompt = catalog.prompts.get(&name).ok_or_else(|| prompt_unknown(&name))?;
            (prompt.plugin.clone(), CompletionReference::Prompt(prompt.own_name.clone()))
        }
        Reference::Template(uri) => {
            // A resource without variables may be named too; nothing of it can be completed.
            let template = catalog.templates.get(&uri).map(|template| template.plugin.clone());
            let plugin = template.or_else(|| catalog.resources.get(&uri).map(|r| r.plugin.clone()));
            let plugin = plugin.ok_or_else(|| resource_unknown(&shown(&uri)))?;
            (plugin, CompletionReference::ResourceTemplate(uri))
        }
    };
    let context: Vec<(String, String)> = context.into_iter().collect();
    let size = context.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    within(&plugin, size + argument.len() + value.len())?;
    if !plugin.prepared.exports().completions {
        return Ok(Err(CompletionInfo::default()));
    }
    let request = Request::Completion { reference, argument, value, context };
    Ok(Ok((Work { plugin, subject: Subject::Completion }, request)))
}

/// The plugin's bound on arguments.
fn within(plugin: &Plugin, bytes: usize) -> Result<(), Fault> {
    match over_limit(plugin, bytes) {
        Some(text) => Err(Fault::invalid("limit_arguments", text)),
        None => Ok(()),
    }
}

/// Says that `bytes` of arguments are too many, where they are.
pub(super) fn over_limit(plugin: &Plugin, bytes: usize) -> Option<String> {
    let limit = plugin.policy.limits.arguments;
    (bytes as u64 > limit.0).then(|| {
        format!(
            "The arguments are {bytes} bytes of JSON; the limit of this plugin (limits.arguments) is {limit}. \
             Send less, or split the call."
        )
    })
}

/// JSON with sorted keys, so that equal values have equal text.
pub(super) fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => canonical_object(map),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        leaf => leaf.to_string(),
    }
}

pub(super) fn canonical_object(map: &Map<String, Value>) -> String {
    let mut keys: Vec<_> = map.iter().collect();
    keys.sort_by_key(|(key, _)| key.as_str());
    let members: Vec<_> = keys
        .into_iter()
        .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)))
        .collect();
    format!("{{{}}}", members.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_members_does_not_matter() {
        let one = json!({"b": [1, {"y": 2, "x": "é\""}], "a": null});
        let two = json!({"a": null, "b": [1, {"x": "é\"", "y": 2}]});
        assert_eq!(canonical(&one), canonical(&two));
        assert_ne!(canonical(&one), canonical(&json!({"a": null, "b": [{"x": "é\"", "y": 2}, 1]})));
    }

    #[test]
    fn a_mark_tells_requests_apart() {
        let object = |value: Value| value.as_object().cloned().unwrap_or_default();
        let tool =
            |name: &str, arguments: Value| Target::Tool { name: name.into(), arguments: object(arguments) };
        let me = Principal::local();
        let mark = tool("a", json!({"x": 1, "y": 2})).mark(&me);
        assert_eq!(mark, tool("a", json!({"y": 2, "x": 1})).mark(&me));
        for other in [
            tool("a", json!({"x": 1})),
            tool("b", json!({"x": 1, "y": 2})),
            Target::Prompt { name: "a".into(), arguments: object(json!({"x": 1, "y": 2})) },
            Target::Resource { uri: "a".into() },
        ] {
            assert_ne!(mark, other.mark(&me), "{other:?}");
        }
        assert_ne!(mark, tool("a", json!({"x": 1, "y": 2})).mark(&Principal::anonymous()));
    }
}
