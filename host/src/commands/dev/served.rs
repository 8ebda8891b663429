//! What the private host serves, told where it changes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::say::{Say, Tone};
use crate::{
    config::Policy,
    plugins::{Catalog, Refusal},
};

/// What was told last.
#[derive(Default)]
pub(super) struct Served {
    version: Option<(String, Policy)>,
    tools: BTreeMap<String, Value>,
    refusal: Option<Refusal>,
}

impl Served {
    /// Whether a version of the plugin serves.
    pub(super) const fn serves(&self) -> bool {
        self.version.is_some()
    }

    /// Tells what differs from before, of the plugin `name`. `shown` makes a text of the host readable.
    pub(super) fn tell(
        &mut self,
        catalog: &Catalog,
        name: &str,
        url: &str,
        say: Say,
        shown: impl Fn(&str) -> String,
    ) {
        let version = catalog.plugins.get(name).map(|p| (p.digest.to_string(), p.policy.clone()));
        let own = catalog.tools.values().filter(|tool| tool.plugin.name == name);
        let tools: BTreeMap<String, Value> =
            own.map(|t| (t.name.clone(), serde_json::to_value(&t.listed).unwrap_or_default())).collect();
        if (&version, &tools) != (&self.version, &self.tools) {
            match &version {
                Some((digest, _)) => tell_tools(&self.tools, &tools, name, digest, url, say),
                None => say.event(Tone::Warn, "gone", name, "gone", json!({"plugin": name})),
            }
            (self.version, self.tools) = (version, tools);
        }
        let entry = catalog.report.iter().find(|entry| entry.name == name);
        let refusal = entry.and_then(|entry| entry.refusal.clone());
        if refusal != self.refusal {
            if let Some(refusal) = &refusal {
                tell_refusal(refusal, name, self.version.is_some(), say, shown);
            }
            self.refusal = refusal;
        }
    }
}

fn tell_tools(
    old: &BTreeMap<String, Value>,
    new: &BTreeMap<String, Value>,
    name: &str,
    digest: &str,
    url: &str,
    say: Say,
) {
    let added: Vec<&String> = new.keys().filter(|tool| !old.contains_key(*tool)).collect();
    let removed: Vec<&String> = old.keys().filter(|tool| !new.contains_key(*tool)).collect();
    let changed: Vec<&String> = new
        .iter()
        .filter(|(tool, item)| old.get(*tool).is_some_and(|o| o != *item))
        .map(|(tool, _)| tool)
        .collect();
    let count = if new.len() == 1 { "1 tool".to_owned() } else { format!("{} tools", new.len()) };
    let mut text = format!("{name} ({count}) at {url}");
    for (mark, tools) in [("+", &added), ("-", &removed), ("~", &changed)] {
        for tool in tools {
            text.push_str(&format!("\n{mark} {tool}"));
        }
    }
    let tools: Vec<&String> = new.keys().collect();
    let members = json!({
        "plugin": name, "digest": digest, "url": url, "tools": tools,
        "added": added, "removed": removed, "changed": changed,
    });
    say.event(Tone::Good, "serving", &text, "serving", members);
}

fn tell_refusal(refusal: &Refusal, name: &str, serves: bool, say: Say, shown: impl Fn(&str) -> String) {
    let reason = shown(&refusal.reason);
    let rest = if serves { "the version before goes on serving" } else { "nothing serves yet" };
    let text = format!("{name}: {reason} ({})\n{}\n{rest}", refusal.code, refusal.advice);
    let members = json!({
        "plugin": name, "code": refusal.code, "reason": reason, "advice": refusal.advice, "serving": serves,
    });
    say.event(Tone::Bad, "refused", &text, "refused", members);
}
