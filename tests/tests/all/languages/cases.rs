//! `tests/languages/cases.json`, read strictly: a mistyped member is an error.

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;
use serde_json::{Map, Value};

/// All of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    /// The text of a policy by its name; the plugin's own grants are put before it.
    pub(super) policies: BTreeMap<String, String>,
    /// What is listed of each tool.
    pub(super) tools: BTreeMap<String, Listed>,
    pub(super) cases: Vec<Case>,
}

/// A tool as it is listed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Listed {
    pub(super) title: Option<String>,
    pub(super) description: Option<String>,
    pub(super) read_only: Option<bool>,
    /// The arguments and their types.
    pub(super) properties: BTreeMap<String, String>,
    pub(super) required: Vec<String>,
    /// Descriptions of arguments.
    #[serde(default)]
    pub(super) described: BTreeMap<String, String>,
    pub(super) output: Option<Output>,
}

/// An output schema by its meaning: five schema makers write it in five ways.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Output {
    pub(super) properties: Vec<String>,
    pub(super) fits: Vec<Value>,
    pub(super) refuses: Vec<Value>,
}

/// One call, and what is expected of it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) tool: String,
    #[serde(default)]
    pub(super) arguments: Map<String, Value>,
    #[serde(default = "usual")]
    pub(super) policy: String,
    #[serde(default)]
    pub(super) client: Who,
    /// Answers by the questions' keys, as `inputResponses` has them.
    #[serde(default)]
    pub(super) answers: Map<String, Value>,
    pub(super) cancel: Option<When>,
    pub(super) expect: Expect,
}

fn usual() -> String {
    "usual".to_owned()
}

/// Who calls.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Who {
    /// A client with tasks that answers forms.
    #[default]
    All,
    /// One without tasks that answers forms.
    Plain,
    /// One that has neither.
    Mute,
}

/// When a task is cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum When {
    /// As soon as there is a task.
    Running,
    /// Once it asks.
    Asked,
}

/// How a result came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    /// As the answer to the call.
    #[default]
    Inline,
    /// As a task's.
    Task,
    /// As the answer to a retry, by multi round-trip requests.
    Rounds,
}

/// One of `text`, `failed`, `failed_begins`, `limit`, `error` and `cancelled`, and what else is looked at.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    #[serde(default)]
    pub(super) way: Way,
    /// The lines of the only text of a result.
    pub(super) text: Option<Vec<String>>,
    /// All of the structured content.
    pub(super) structured: Option<Value>,
    /// The only text of a tool error, and how one begins.
    pub(super) failed: Option<String>,
    pub(super) failed_begins: Option<String>,
    /// The code of a tool error that the host made.
    pub(super) limit: Option<String>,
    /// A JSON-RPC error.
    pub(super) error: Option<RpcError>,
    #[serde(default)]
    pub(super) cancelled: bool,
    /// The questions by their keys, in order.
    pub(super) asked: Option<Map<String, Value>>,
    /// The progress notifications, without their token.
    pub(super) progress: Option<Vec<Value>>,
    /// For each, a line of the host's log has all of these; `$task` is the task's id.
    #[serde(default)]
    pub(super) log: Vec<Vec<String>>,
    /// The log messages that the client got, without the logger.
    pub(super) messages: Option<Vec<Value>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RpcError {
    pub(super) code: i64,
    /// The host's own code.
    pub(super) name: Option<String>,
}

/// The table.
pub(super) static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/languages/cases.json");
    let text = std::fs::read_to_string(path).expect("the table can be read");
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
});

/// The plugin that has the tool.
pub(super) fn plugin_of(tool: &str) -> &'static str {
    if tool == "summarize_table" { "table" } else { "trial" }
}

/// The name that the tool is served under by a policy.
pub(super) fn served(tool: &str, policy: &str) -> String {
    if policy == usual() { tool.to_owned() } else { format!("{policy}_{tool}") }
}
