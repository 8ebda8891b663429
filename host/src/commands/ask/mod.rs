//! Questions that a plugin puts to a person: what they are, and how they are answered.

pub(crate) mod form;
mod prompt;

use serde_json::{Map, Value, json};

pub(crate) use prompt::{AskError, Asker, terminal};

use form::{Field, check_content, fields};

/// One MCP request (`{"method", "params"}`), as a person sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Question {
    /// `elicitation/create`, form mode.
    Form {
        /// Why it is asked.
        message: String,
        /// What to fill in.
        fields: Vec<Field>,
    },
    /// `elicitation/create`, URL mode.
    Url {
        /// Why it is asked.
        message: String,
        /// What to open.
        url: String,
    },
    /// `sampling/createMessage` or `roots/list`: for programs, not for people.
    Other {
        /// The MCP method.
        method: String,
    },
}

impl Question {
    /// Reads an MCP request.
    ///
    /// # Errors
    /// A form that no prompt can ask for.
    pub(crate) fn read(request: &Value) -> Result<Self, String> {
        let method = request.get("method").and_then(Value::as_str).unwrap_or_default();
        let params = request.get("params").unwrap_or(&Value::Null);
        if method != "elicitation/create" {
            return Ok(Self::Other { method: method.to_owned() });
        }
        let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        if params.get("mode").and_then(Value::as_str) == Some("url") {
            return Ok(Self::Url { message: text("message"), url: text("url") });
        }
        let schema = params.get("requestedSchema").unwrap_or(&Value::Null);
        Ok(Self::Form { message: text("message"), fields: fields(schema)? })
    }

    /// What it asks, for lists.
    pub(crate) fn summary(&self) -> String {
        match self {
            Self::Form { message, .. } => message.clone(),
            Self::Url { message, url } => format!("{message} <{url}>"),
            Self::Other { method } => method.clone(),
        }
    }
}

/// How a person answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    /// With this content.
    Accept(Map<String, Value>),
    /// No.
    Decline,
    /// Closed without an answer.
    Dismiss,
}

impl Reply {
    /// MCP's `ElicitResult`.
    pub(crate) fn to_json(&self, question: &Question) -> Value {
        match self {
            // A URL's acceptance carries no content.
            Self::Accept(_) if matches!(question, Question::Url { .. }) => json!({"action": "accept"}),
            Self::Accept(content) => json!({"action": "accept", "content": content}),
            Self::Decline => json!({"action": "decline"}),
            Self::Dismiss => json!({"action": "cancel"}),
        }
    }
}

/// An answer that was prepared as JSON, in one of three forms: MCP's result object (with `action`),
/// `"decline"` or `"dismiss"`, or the content itself.
///
/// # Errors
/// Why it does not fit the question.
pub(crate) fn prepared(question: &Question, given: &Value) -> Result<Value, String> {
    if let Question::Other { .. } = question {
        return Ok(given.clone());
    }
    let reply = match given {
        Value::String(word) if word == "decline" => Reply::Decline,
        Value::String(word) if word == "dismiss" || word == "cancel" => Reply::Dismiss,
        Value::String(word) if word == "accept" => Reply::Accept(Map::new()),
        Value::Object(object) => match object.get("action").and_then(Value::as_str) {
            Some("accept") => {
                Reply::Accept(object.get("content").and_then(Value::as_object).cloned().unwrap_or_default())
            }
            Some("decline") if object.len() == 1 => Reply::Decline,
            Some("cancel") if object.len() == 1 => Reply::Dismiss,
            _ => Reply::Accept(object.clone()),
        },
        _ => return Err("an answer is a JSON object, \"accept\", \"decline\" or \"dismiss\"".into()),
    };
    if let (Question::Form { fields, .. }, Reply::Accept(content)) = (question, &reply) {
        check_content(fields, content)?;
    }
    Ok(reply.to_json(question))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn form() -> Question {
        Question::read(
            &json!({"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema":
            {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}}}),
        )
        .unwrap()
    }

    #[test]
    fn prepared_answers_take_three_forms() {
        let accepted = json!({"action": "accept", "content": {"confirm": true}});
        assert_eq!(prepared(&form(), &json!({"confirm": true})), Ok(accepted.clone()));
        assert_eq!(prepared(&form(), &accepted), Ok(accepted));
        assert_eq!(prepared(&form(), &json!("decline")), Ok(json!({"action": "decline"})));
        assert_eq!(prepared(&form(), &json!({"action": "cancel"})), Ok(json!({"action": "cancel"})));
        assert!(prepared(&form(), &json!({"confirm": "yes"})).is_err());
        assert!(prepared(&form(), &json!({})).is_err());
        assert!(prepared(&form(), &json!(7)).is_err());
    }

    #[test]
    fn urls_carry_no_content() {
        let question = Question::read(
            &json!({"method": "elicitation/create", "params": {"mode": "url", "message": "Log in", "url": "https://a.example/"}}),
        )
        .unwrap();
        assert_eq!(prepared(&question, &json!("accept")), Ok(json!({"action": "accept"})));
        assert_eq!(question.summary(), "Log in <https://a.example/>");
    }
}
