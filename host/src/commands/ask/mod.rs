//! Questions that a plugin puts to a person: what they are, and how they are answered.

pub(crate) mod form;
mod prompt;

use serde_json::{Map, Value, json};

pub(crate) use prompt::{AskError, Asker, terminal};

use crate::base::neutral_line;
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

    /// True where `given` is MCP's result object: it has an `action`, and that is no field of the form.
    fn takes_as_result(&self, given: &Map<String, Value>) -> bool {
        let field = |name: &str| match self {
            Self::Form { fields, .. } => fields.iter().any(|field| field.name == name),
            _ => false,
        };
        match given.get("action") {
            None => false,
            // A form may have a field of that name; it has none of `content`, too, where this is the result.
            Some(_) if field("action") => given.contains_key("content") && !field("content"),
            Some(_) => true,
        }
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
        Value::Object(object) if question.takes_as_result(object) => result(object)?,
        Value::Object(_) if matches!(question, Question::Url { .. }) => {
            return Err(
                "a question to open a URL is answered with \"accept\", \"decline\" or \"dismiss\"".into()
            );
        }
        Value::Object(object) => Reply::Accept(object.clone()),
        _ => return Err("an answer is a JSON object, \"accept\", \"decline\" or \"dismiss\"".into()),
    };
    fitting(question, &reply)
}

/// MCP's result of `reply`, where it fits.
///
/// # Errors
/// Why it does not.
pub(crate) fn fitting(question: &Question, reply: &Reply) -> Result<Value, String> {
    if let (Question::Form { fields, .. }, Reply::Accept(content)) = (question, reply) {
        check_content(fields, content)?;
    }
    Ok(reply.to_json(question))
}

/// MCP's result object.
///
/// # Errors
/// What in it MCP does not have.
fn result(object: &Map<String, Value>) -> Result<Reply, String> {
    if let Some(odd) = object.keys().find(|key| !["action", "content", "_meta"].contains(&key.as_str())) {
        let odd = neutral_line(odd);
        return Err(format!("an answer with \"action\" has \"content\" beside it, and no {odd:?}"));
    }
    let content = match object.get("content") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(content)) => content.clone(),
        Some(_) => return Err("\"content\" must be an object with the form's values".into()),
    };
    match object.get("action") {
        Some(Value::String(action)) if action == "accept" => Ok(Reply::Accept(content)),
        Some(Value::String(action)) if action == "decline" => Ok(Reply::Decline),
        Some(Value::String(action)) if action == "cancel" => Ok(Reply::Dismiss),
        other => {
            let other = neutral_line(&other.unwrap_or(&Value::Null).to_string());
            Err(format!("{other} is no \"action\": it is \"accept\", \"decline\" or \"cancel\""))
        }
    }
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
    fn what_is_no_result_of_mcps_says_why() {
        let why = |given: Value| prepared(&form(), &given).unwrap_err();
        assert!(why(json!({"action": "nope"})).starts_with("\"nope\" is no \"action\""));
        assert!(why(json!({"action": 1})).starts_with("1 is no \"action\""));
        assert!(why(json!({"action": "accept", "conten": {"confirm": true}})).contains("no \"conten\""));
        assert!(why(json!({"action": "accept", "content": "yes"})).contains("must be an object"));
        let declined = json!({"action": "decline", "content": {}});
        assert_eq!(prepared(&form(), &declined), Ok(json!({"action": "decline"})));
    }

    #[test]
    fn a_field_may_be_named_action() {
        let question = Question::read(
            &json!({"method": "elicitation/create", "params": {"message": "Do what?", "requestedSchema":
            {"type": "object", "properties": {"action": {"type": "string"}}, "required": ["action"]}}}),
        )
        .unwrap();
        let accepted = json!({"action": "accept", "content": {"action": "accept"}});
        assert_eq!(prepared(&question, &json!({"action": "accept"})), Ok(accepted.clone()));
        assert_eq!(prepared(&question, &accepted), Ok(accepted));
    }

    #[test]
    fn urls_carry_no_content() {
        let question = Question::read(
            &json!({"method": "elicitation/create", "params": {"mode": "url", "message": "Log in", "url": "https://a.example/"}}),
        )
        .unwrap();
        assert_eq!(prepared(&question, &json!("accept")), Ok(json!({"action": "accept"})));
        assert_eq!(prepared(&question, &json!({"action": "accept"})), Ok(json!({"action": "accept"})));
        assert!(prepared(&question, &json!({"confirm": true})).unwrap_err().contains("\"accept\""));
        assert_eq!(question.summary(), "Log in <https://a.example/>");
    }
}
