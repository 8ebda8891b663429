//! Who may be asked what: the client's capabilities and the operator's grants, per kind.

use serde_json::{Map, Value, json};
use url::Url;

use crate::{base::Millis, capabilities::is_plain_path, config::CallPolicy, store::QuestionKind};

/// What the client declared with this request (MCP 2026-07-28, client capabilities).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Client {
    /// `extensions["io.modelcontextprotocol/tasks"]`.
    pub tasks: bool,
    /// `elicitation.form`, or an `elicitation` without members.
    pub form: bool,
    /// `elicitation.url`.
    pub url: bool,
    /// `sampling`.
    pub sampling: bool,
    /// `roots`.
    pub roots: bool,
    /// Cannot do tasks, and has bridge tools in their place (`bridge-tools`).
    pub bridge: bool,
}

impl Client {
    /// As a journal's header keeps it.
    pub(super) const fn bits(self) -> u8 {
        let Self { tasks, form, url, sampling, roots, bridge } = self;
        tasks as u8
            | (form as u8) << 1
            | (url as u8) << 2
            | (sampling as u8) << 3
            | (roots as u8) << 4
            | (bridge as u8) << 5
    }

    /// What [`Client::bits`] says.
    pub(super) const fn from_bits(bits: u8) -> Self {
        Self {
            tasks: bits & 1 != 0,
            form: bits & 1 << 1 != 0,
            url: bits & 1 << 2 != 0,
            sampling: bits & 1 << 3 != 0,
            roots: bits & 1 << 4 != 0,
            bridge: bits & 1 << 5 != 0,
        }
    }

    /// True where a run for this client can become a task.
    pub const fn promotes(self) -> bool {
        self.tasks || self.bridge
    }

    /// How long a response to this client may be held open: past it the run becomes a task, or is stopped.
    pub(super) const fn patience(self, call: &CallPolicy) -> Millis {
        if self.promotes() { call.deadline } else { call.hold }
    }

    /// True where a question of this kind can come to an answer: the client's own, or, by bridge tools and
    /// where policy allows it, its model's.
    pub const fn can_answer(self, kind: QuestionKind, model_may_answer: bool) -> bool {
        let by_model =
            self.bridge && model_may_answer && matches!(kind, QuestionKind::Form | QuestionKind::Url);
        self.answers(kind) || by_model
    }

    /// True where the client can answer this kind.
    pub const fn answers(self, kind: QuestionKind) -> bool {
        match kind {
            QuestionKind::Form => self.form,
            QuestionKind::Url => self.url,
            QuestionKind::Sampling => self.sampling,
            QuestionKind::Roots => self.roots,
        }
    }
}

/// Why a question was not put, kept for the answer if the plugin then gives up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    form: bool,
    url: bool,
    sampling: bool,
    roots: bool,
    grant: Option<QuestionKind>,
}

impl Missing {
    /// Notes that `kind` cannot be put; `granted` says whether policy allows it, so that it is the client's lack.
    pub(super) fn note(&mut self, kind: QuestionKind, granted: bool) {
        if !granted {
            self.grant = Some(kind);
        } else {
            match kind {
                QuestionKind::Form => self.form = true,
                QuestionKind::Url => self.url = true,
                QuestionKind::Sampling => self.sampling = true,
                QuestionKind::Roots => self.roots = true,
            }
        }
    }

    /// The kind that policy does not allow, if that was the reason.
    pub(super) const fn grant(self) -> Option<QuestionKind> {
        self.grant
    }

    /// MCP's `requiredCapabilities`: exactly what is missing. `None` where nothing is.
    pub(super) fn required(self) -> Option<Value> {
        let mut required = Map::new();
        if self.form || self.url {
            let mut modes = Map::new();
            for (is, mode) in [(self.form, "form"), (self.url, "url")] {
                if is {
                    modes.insert(mode.into(), json!({}));
                }
            }
            required.insert("elicitation".into(), Value::Object(modes));
        }
        for (is, name) in [(self.sampling, "sampling"), (self.roots, "roots")] {
            if is {
                required.insert(name.into(), json!({}));
            }
        }
        (!required.is_empty()).then_some(Value::Object(required))
    }
}

/// MCP's `requiredCapabilities` for questions of these kinds, where `client` lacks some.
pub(super) fn lacking(client: Client, kinds: impl Iterator<Item = QuestionKind>) -> Option<Value> {
    let mut missing = Missing::default();
    kinds.filter(|kind| !client.answers(*kind)).for_each(|kind| missing.note(kind, true));
    missing.required()
}

/// True where `asks` (the policy's `grants.ask`) allows a question of this kind.
/// A URL question needs its URL; without one (`supports`) any `url …` grant will do.
pub(super) fn granted(asks: &[String], kind: QuestionKind, url: Option<&str>) -> bool {
    asks.iter().any(|ask| match kind {
        QuestionKind::Form => ask == "form",
        QuestionKind::Sampling => ask == "sampling",
        QuestionKind::Roots => ask == "roots",
        QuestionKind::Url => match (ask.strip_prefix("url "), url) {
            (Some(prefix), Some(url)) => url_under(prefix.trim(), url),
            (Some(_), None) => true,
            (None, _) => false,
        },
    })
}

/// The grant that allows a question with this URL: without its query, which may have secrets.
pub(super) fn url_grant(url: &str) -> String {
    match Url::parse(url) {
        Ok(mut url) => {
            url.set_query(None);
            url.set_fragment(None);
            format!("url {url}")
        }
        Err(_) => "url https://HOST/".to_owned(),
    }
}

/// True where `url` lies under `prefix`: the same scheme, host and port, and a path below the
/// prefix's, compared by whole segments. A prefix such as `https://` allows every host.
fn url_under(prefix: &str, url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    if !url.username().is_empty() || url.password().is_some() {
        return false;
    }
    if let Some(scheme) = prefix.strip_suffix("://") {
        return url.scheme() == scheme && url.has_host();
    }
    let Ok(prefix) = Url::parse(prefix) else { return false };
    let same_origin = prefix.scheme() == url.scheme()
        && prefix.host_str() == url.host_str()
        && prefix.port_or_known_default() == url.port_or_known_default();
    let base = prefix.path().trim_end_matches('/');
    // Whoever serves it may decode what was compared encoded.
    let within = base.is_empty() || is_plain_path(url.path());
    same_origin
        && within
        && url.path().strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_grant_is_a_prefix_of_whole_parts() {
        let cases = [
            ("https://a.example/", "https://a.example/x", true),
            ("https://a.example/x", "https://a.example/x/y", true),
            ("https://a.example/x/", "https://a.example/x", true),
            ("https://a.example/x", "https://a.example/xy", false),
            ("https://a.example/", "https://a.example.evil.example/", false),
            ("https://a.example/", "https://a.example:444/", false),
            ("https://a.example/", "http://a.example/", false),
            ("https://a.example/", "https://me@a.example/", false),
            ("https://a.example/x", "https://a.example/x/../y", false),
            ("https://a.example/x", "HTTPS://A.Example:443/x/y?z#w", true),
            ("https://a.example:8443/x", "https://a.example:8443/x/y", true),
            ("https://a.example:8443/", "https://a.example/", false),
            ("https://a.example/", "https://a.example@evil.example/", false),
            ("https://a.example/", "https://a.example:443@evil.example/", false),
            ("https://a.example/", "https://evil.example/https://a.example/", false),
            ("https://a.example/", "https://evil.example?https://a.example/", false),
            ("https://a.example/", "https://evil.example#@a.example/", false),
            ("https://a.example/", r"https://evil.example\a.example/", false),
            ("https://a.example/", r"https://evil.example\@a.example/", false),
            ("https://a.example/", "https://a.example./", false),
            ("https://a.example/", "https://xa.example/", false),
            ("https://a.example/", "https://a.example%2eevil.example/", false),
            ("https://a.example/", "https://a.example%2f.evil.example/", false),
            ("https://a.example/", "blob:https://a.example/x", false),
            ("https://127.0.0.1/", "https://127.1.evil.example/", false),
            ("https://a.example/x", "https://a.example/X", false),
            ("https://a.example/x", "https://a.example/%78/y", false),
            ("https://a.example/x", "https://a.example/x%2fy", false),
            ("https://a.example/x", "https://a.example/x/%2e%2e/y", false),
            ("https://a.example/x", "https://a.example/x/.%2E/y", false),
            ("https://a.example/x", "https://a.example/x/..%2fy", false),
            ("https://a.example/x", "https://a.example/x/..%5cy", false),
            ("https://a.example/x", "https://a.example/x/%252e%252e%252fy", false),
            ("https://a.example/x", r"https://a.example/x\..\y", false),
            ("https://a.example/x", "https://a.example//x/y", false),
            ("https://a.example/x", "https://a.example/x/..;/y", false),
            ("https://a.example/x", "https://a.example/x/%00/y", false),
            ("https://", "https://any.example/", true),
            ("https://", "http://any.example/", false),
            ("https://", "not a url", false),
        ];
        for (prefix, url, expected) in cases {
            assert_eq!(url_under(prefix, url), expected, "{prefix} {url}");
        }
    }

    #[test]
    fn what_is_suggested_allows_it_and_tells_no_secret() {
        for url in [
            "https://a.example/x?token=hunter2#y",
            "https://b\u{fc}cher.example/\u{fc}",
            "http://a.example:8080",
        ] {
            let grant = url_grant(url);
            assert!(grant.is_ascii() && !grant.contains("hunter2"), "{grant}");
            assert!(granted(&[grant], QuestionKind::Url, Some(url)), "{url}");
        }
    }

    #[test]
    fn exactly_the_missing_capabilities_are_named() {
        let mut missing = Missing::default();
        assert_eq!(missing.required(), None);
        missing.note(QuestionKind::Sampling, true);
        assert_eq!(missing.required(), Some(json!({"sampling": {}})));
        missing.note(QuestionKind::Form, true);
        assert_eq!(missing.required(), Some(json!({"elicitation": {"form": {}}, "sampling": {}})));
        missing.note(QuestionKind::Url, false);
        assert_eq!(missing.grant(), Some(QuestionKind::Url));
    }
}
