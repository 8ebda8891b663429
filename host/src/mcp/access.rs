//! What is open to a caller: everything, or what its scopes open.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::base::{Fault, Principal};

/// Who calls, and what is open to them.
#[derive(Clone, Debug)]
pub struct Access {
    /// Who calls.
    pub principal: Principal,
    /// Callers say who they are, so that what one is shown is not another's.
    pub private: bool,
    /// Patterns of what is open; none where all is.
    opens: Option<Arc<[String]>>,
}

/// A kind of thing that a scope opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tool, by its name.
    Tool,
    /// A prompt, by its name.
    Prompt,
    /// A resource by its URI, or a template of resources by its text.
    Resource,
}

impl Kind {
    /// What a pattern of this kind begins with.
    const fn prefix(self) -> &'static str {
        match self {
            Self::Tool => "",
            Self::Prompt => "prompt:",
            Self::Resource => "resource:",
        }
    }
}

impl Access {
    /// All that is served, for a caller that did not have to say who it is.
    pub const fn all(principal: Principal) -> Self {
        Self { principal, private: false, opens: None }
    }

    /// For a caller that has said who it is; `opens` has the patterns of its scopes, none where scopes limit nothing.
    pub const fn proven(principal: Principal, opens: Option<Arc<[String]>>) -> Self {
        Self { principal, private: true, opens }
    }

    /// True where not everything is open.
    pub const fn is_limited(&self) -> bool {
        self.opens.is_some()
    }

    /// True where this is open.
    pub fn admits(&self, kind: Kind, name: &str) -> bool {
        self.opens.as_ref().is_none_or(|opens| opens.iter().any(|pattern| opened(pattern, kind, name)))
    }

    /// # Errors
    /// `insufficient_scope`.
    pub fn check(&self, kind: Kind, name: &str) -> Result<(), Fault> {
        if self.admits(kind, name) { Ok(()) } else { Err(refused()) }
    }
}

/// What a caller is told of all that is not open to it, whether it exists or not.
pub fn refused() -> Fault {
    Fault::invalid(
        "insufficient_scope",
        "The scopes of your token do not open this. Ask for a token with the scope that is named, or use what your lists show.",
    )
}

/// True where `pattern` of a scope opens this. Names of tools have no colon.
pub fn opened(pattern: &str, kind: Kind, name: &str) -> bool {
    let Some(pattern) = pattern.strip_prefix(kind.prefix()) else { return false };
    let other = kind == Kind::Tool
        && [Kind::Prompt, Kind::Resource].iter().any(|kind| pattern.starts_with(kind.prefix()));
    if other {
        return false;
    }
    match pattern.strip_suffix('*') {
        Some(stem) => name.starts_with(stem),
        None => name == pattern,
    }
}

/// What a request of `method` is for, where scopes can open that.
pub fn wanted(method: &str, params: Option<&RawValue>) -> Vec<(Kind, String)> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Params {
        name: Option<String>,
        uri: Option<String>,
        r#ref: Option<Reference>,
        notifications: Option<Notifications>,
    }
    #[derive(Deserialize)]
    struct Reference {
        name: Option<String>,
        uri: Option<String>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Notifications {
        resource_subscriptions: Option<Vec<String>>,
    }
    // What has another shape is refused where it is read whole.
    let params: Params = params.and_then(|p| serde_json::from_str(p.get()).ok()).unwrap_or_default();
    let one = |kind, name: Option<String>| name.map(|name| (kind, name)).into_iter().collect();
    match method {
        "tools/call" => one(Kind::Tool, params.name),
        "prompts/get" => one(Kind::Prompt, params.name),
        "resources/read" | "resources/subscribe" => one(Kind::Resource, params.uri),
        "completion/complete" => match params.r#ref {
            Some(Reference { uri: Some(uri), .. }) => one(Kind::Resource, Some(uri)),
            Some(Reference { name, .. }) => one(Kind::Prompt, name),
            None => Vec::new(),
        },
        "subscriptions/listen" => {
            let uris = params.notifications.unwrap_or_default().resource_subscriptions.unwrap_or_default();
            uris.into_iter().map(|uri| (Kind::Resource, uri)).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn patterns_open_by_kind() {
        let cases = [
            ("weather_*", Kind::Tool, "weather_now", true),
            ("weather_*", Kind::Tool, "news", false),
            ("weather_*", Kind::Prompt, "weather_now", false),
            ("*", Kind::Tool, "anything", true),
            ("*", Kind::Prompt, "anything", false),
            ("*", Kind::Resource, "a://b", false),
            ("prompt:*", Kind::Prompt, "anything", true),
            ("prompt:*", Kind::Tool, "prompt:x", false),
            ("resource:weather://*", Kind::Resource, "weather://{city}", true),
            ("resource:weather://oslo", Kind::Resource, "weather://oslo", true),
            ("resource:weather://oslo", Kind::Resource, "weather://oslo2", false),
            ("echo", Kind::Tool, "echo2", false),
        ];
        for (pattern, kind, name, expected) in cases {
            assert_eq!(opened(pattern, kind, name), expected, "{pattern} {kind:?} {name}");
        }
        let none = Access::proven(Principal::local(), Some([].into()));
        assert!(!none.admits(Kind::Tool, "a") && Access::all(Principal::local()).admits(Kind::Tool, "a"));
    }

    #[test]
    fn a_request_names_what_it_wants() {
        let wants =
            |method: &str, params: &str| wanted(method, Some(&RawValue::from_string(params.into()).unwrap()));
        assert_eq!(wants("tools/call", r#"{"name":"a"}"#), [(Kind::Tool, "a".into())]);
        assert_eq!(wants("resources/read", r#"{"uri":"a:b"}"#), [(Kind::Resource, "a:b".into())]);
        let reference = r#"{"ref":{"type":"ref/resource","uri":"a:{b}"},"argument":{}}"#;
        assert_eq!(wants("completion/complete", reference), [(Kind::Resource, "a:{b}".into())]);
        let filter = r#"{"notifications":{"resourceSubscriptions":["a:b","c:d"]}}"#;
        assert_eq!(wants("subscriptions/listen", filter).len(), 2);
        assert!(wants("tools/list", r#"{"name":"a"}"#).is_empty());
    }
}
