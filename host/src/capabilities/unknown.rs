//! Effects whose outcome nobody knows: an unsafe one was under way when its run was last seen, and is never repeated
//! without a word. Whoever can be asked decides; else the run ends with the facts. Every kind of effect comes here.
//!
//! Records: the choice, as the answer of what was under way (`Choice::encode`); after *retry* the effect begins anew, with
//! a start of its own.

use serde_json::{Value, json};

use super::{Asked, Caller, wit_call::InputError};
use crate::{
    base::{UnixMillis, neutral_line},
    store::{Answer, QuestionKind},
};

/// Longest URL or path that people are shown, in bytes.
const SHOWN: usize = 500;
/// The first byte of a choice in a journal: no answer of an effect begins with it.
const CHOSEN: u8 = 0xff;
/// The form's one field.
const FIELD: &str = "choice";

/// What was done to what, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A request by HTTP.
    Request {
        /// Its method.
        method: String,
        /// Its URL, without the query, which may have secrets.
        url: String,
    },
    /// A change of a file.
    Change {
        /// The operation, for example `write`.
        operation: String,
        /// The path as the guest sees it.
        path: String,
    },
}

impl Deed {
    /// `method` and `url` are the guest's text: they are made harmless, and not too long.
    pub fn request(method: &str, url: &str) -> Self {
        Self::Request { method: shown(method), url: shown(url) }
    }

    /// The same of a change.
    pub fn change(operation: &str, path: &str) -> Self {
        Self::Change { operation: shown(operation), path: shown(path) }
    }

    /// Names and values of what it is, for an error's data.
    pub fn facts(&self) -> [(&'static str, &str); 2] {
        match self {
            Self::Request { method, url } => [("method", method), ("url", url)],
            Self::Change { operation, path } => [("operation", operation), ("path", path)],
        }
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::Request { .. } => "http",
            Self::Change { .. } => "file",
        }
    }
}

/// Continues "it was interrupted while it".
impl std::fmt::Display for Deed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Request { method, url } => write!(f, "sent {method} {url}"),
            Self::Change { operation, path } => write!(f, "did {operation} on {path}"),
        }
    }
}

/// An effect whose outcome is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// What it is.
    pub deed: Deed,
    /// Its number among the run's effects of its kind.
    pub number: u64,
    /// How often it has begun, from 1: each time is a question of its own.
    pub begun: u32,
    /// When it began last.
    pub at: UnixMillis,
}

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// It is done again.
    Retry,
    /// It happened: the guest goes on with an error that says that there is no answer.
    Happened,
    /// The run ends, with [`super::Abort::Unknown`].
    Stop,
}

impl Choice {
    const ALL: [Self; 3] = [Self::Retry, Self::Happened, Self::Stop];

    /// The word in the form, and its title there.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Retry => ("retry", "Retry: do it again"),
            Self::Happened => ("it happened", "It happened: go on without its answer"),
            Self::Stop => ("stop", "Stop: end the task"),
        }
    }

    /// As the journal keeps it, in place of the effect's answer.
    pub(super) const fn encode(self) -> [u8; 2] {
        [CHOSEN, self as u8]
    }

    /// What [`Choice::encode`] wrote; none where the bytes are an effect's own answer.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.encode() == bytes)
    }

    /// For people.
    pub(super) fn describe(self) -> String {
        format!("its outcome was unknown, and the choice was {:?}", self.words().0)
    }

    fn of(answer: &Answer) -> Self {
        let Answer::Accepted(content) = answer else { return Self::Stop };
        let word = content[FIELD].as_str().unwrap_or_default();
        Self::ALL.into_iter().find(|choice| choice.words().0 == word).unwrap_or(Self::Stop)
    }
}

impl Unknown {
    /// The host's question.
    fn question(&self) -> Asked {
        let Self { deed, number, begun, at } = self;
        let again = if *begun > 1 { format!("-{begun}") } else { String::new() };
        let message = format!(
            "This call was interrupted while it {deed}, at {}. That may have happened, or may yet, and was not done \
             again. Look there first, then choose what is to be done.",
            at.rfc3339()
        );
        let choices: Vec<Value> = Choice::ALL
            .into_iter()
            .map(Choice::words)
            .map(|(word, title)| json!({ "const": word, "title": title }))
            .collect();
        let schema = json!({
            "type": "object",
            "properties": { FIELD: { "type": "string", "title": "What is to be done", "oneOf": choices } },
            "required": [FIELD],
        });
        let params = json!({ "mode": "form", "message": message, "requestedSchema": schema });
        Asked {
            key: format!("{HOSTS_OWN}outcome-{}-{number}{again}", deed.kind()),
            kind: QuestionKind::Form,
            request: json!({ "method": "elicitation/create", "params": params }),
        }
    }
}

/// Keys of questions that only the host may use begin so.
pub const HOSTS_OWN: &str = "layby/";

/// Asks what is to be done about `unknown`: *stop* where nobody can be asked, says otherwise, or answers in time. Never
/// returns where the run is being cancelled. To be called where the journal is live; the caller records the choice before it
/// acts on it. Cancel-safe: asked again, it gives the same answer.
pub(super) async fn choose(caller: &dyn Caller, unknown: &Unknown) -> Choice {
    match caller.ask_for_host(unknown.question()).await {
        Ok(answer) => Choice::of(&answer),
        Err(InputError::Cancelled) => std::future::pending().await,
        Err(_) => Choice::Stop,
    }
}

fn shown(text: &str) -> String {
    let text = neutral_line(text);
    text[..text.floor_char_boundary(SHOWN)].to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn unknown(begun: u32) -> Unknown {
        let deed = Deed::request("POST", "https://a.example/\u{1b}[31mpay");
        Unknown { deed, number: 3, begun, at: UnixMillis(1_790_000_000_000) }
    }

    #[test]
    fn the_question_has_the_facts_and_is_one_that_mcp_has() {
        let asked = unknown(1).question();
        assert_eq!(asked.key, "layby/outcome-http-3");
        assert_eq!(unknown(2).question().key, "layby/outcome-http-3-2");
        let message = asked.request["params"]["message"].as_str().unwrap();
        for fact in ["POST https://a.example/", "2026-09-21T", "may have happened, or may yet"] {
            assert!(message.contains(fact), "{message}");
        }
        assert!(!message.contains('\u{1b}'));
        serde_json::from_value::<rmcp::model::InputRequest>(asked.request).unwrap();
    }

    #[test]
    fn only_a_clear_word_is_more_than_stop() {
        let accepted = |word: &str| Choice::of(&Answer::Accepted(json!({ FIELD: word })));
        assert_eq!(accepted("retry"), Choice::Retry);
        assert_eq!(accepted("it happened"), Choice::Happened);
        for answer in [Answer::Declined, Answer::Dismissed, Answer::Accepted(json!({}))] {
            assert_eq!(Choice::of(&answer), Choice::Stop);
        }
        assert_eq!(accepted("stop"), Choice::Stop);
    }

    #[test]
    fn a_choice_comes_back_from_a_journal() {
        for choice in Choice::ALL {
            assert_eq!(Choice::decode(&choice.encode()), Some(choice));
        }
        assert_eq!(Choice::decode(&[CHOSEN]), None);
        assert_eq!(Choice::decode(b"answer"), None);
    }
}
