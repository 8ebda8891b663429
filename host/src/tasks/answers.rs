//! Whether an answer fits its question. Answers are MCP result objects (schema of 2026-07-28:
//! `ElicitResult`, `CreateMessageResult`, `ListRootsResult`).

use jsonschema::{PatternOptions, Retrieve, Uri};
use serde_json::{Value, json};

use crate::{
    config::TaskRules,
    store::{Answer, Question, QuestionKind},
};

/// The answer that `response` gives to `question`.
///
/// # Errors
/// Why it gives none, for the client.
pub fn check(question: &Question, response: &Value) -> Result<Answer, String> {
    let checked = match question.kind {
        QuestionKind::Form | QuestionKind::Url => elicitation(question, response),
        QuestionKind::Sampling => message(response),
        QuestionKind::Roots => roots(response),
    };
    checked.map_err(|mut reason| {
        reason.truncate(reason.floor_char_boundary(TaskRules::ANSWER_REASON.as_usize()));
        reason
    })
}

/// Bytes that [`check`] has to look at, roughly: whether it may run on a thread that answers HTTP.
pub(super) fn weight(question: &Question, response: &Value) -> usize {
    size(&question.request) + size(response)
}

fn size(v: &Value) -> usize {
    match v {
        Value::String(s) => s.len(),
        Value::Array(items) => items.iter().map(size).sum::<usize>() + 2,
        Value::Object(members) => members.iter().map(|(k, v)| k.len() + size(v) + 4).sum::<usize>() + 2,
        Value::Null | Value::Bool(_) | Value::Number(_) => 5,
    }
}

fn elicitation(question: &Question, response: &Value) -> Result<Answer, String> {
    match response.get("action").and_then(Value::as_str) {
        Some("decline") => return Ok(Answer::Declined),
        Some("cancel") => return Ok(Answer::Dismissed),
        Some("accept") => {}
        _ => return Err("/action must be \"accept\", \"decline\" or \"cancel\"".into()),
    }
    if question.kind == QuestionKind::Url {
        // Agreed to open the page; what is done there stays there.
        return Ok(Answer::Accepted(json!({})));
    }
    let content = response.get("content").cloned().unwrap_or_else(|| json!({}));
    let Some(fields) = content.as_object() else {
        return Err("/content must be an object".into());
    };
    for (name, value) in fields {
        let flat = match value {
            Value::String(_) | Value::Number(_) | Value::Bool(_) => true,
            Value::Array(items) => items.iter().all(Value::is_string),
            Value::Null | Value::Object(_) => false,
        };
        if !flat {
            return Err(format!("/content/{name} must be a string, number, boolean or list of strings"));
        }
    }
    let schema = question.request.pointer("/params/requestedSchema").cloned().unwrap_or(json!({}));
    let validator = jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .should_validate_formats(true)
        .with_pattern_options(PatternOptions::regex())
        .with_retriever(Nothing)
        .build(&schema)
        .map_err(|e| format!("the question's own schema cannot be used: {e}"))?;
    let wrong: Vec<String> = validator
        .iter_errors(&content)
        .take(8)
        .map(|e| format!("/content{}: {e}", e.instance_path()))
        .collect();
    if wrong.is_empty() { Ok(Answer::Accepted(content)) } else { Err(wrong.join("; ")) }
}

/// A form's schema stands by itself.
struct Nothing;

impl Retrieve for Nothing {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("a question's schema may not refer to {uri}").into())
    }
}

fn message(response: &Value) -> Result<Answer, String> {
    if !matches!(response.get("role").and_then(Value::as_str), Some("user" | "assistant")) {
        return Err("/role must be \"user\" or \"assistant\"".into());
    }
    if !response.get("model").is_some_and(Value::is_string) {
        return Err("/model must be a string".into());
    }
    if response.get("stopReason").is_some_and(|r| !r.is_string()) {
        return Err("/stopReason must be a string".into());
    }
    match response.get("content") {
        Some(Value::Array(blocks)) => {
            for (i, block) in blocks.iter().enumerate() {
                content_block(block, &format!("/content/{i}"))?;
            }
        }
        Some(block) => content_block(block, "/content")?,
        None => return Err("/content is missing".into()),
    }
    Ok(Answer::Accepted(response.clone()))
}

fn content_block(block: &Value, at: &str) -> Result<(), String> {
    let has = |members: &[&str]| match members.iter().find(|m| !block.get(**m).is_some_and(Value::is_string))
    {
        Some(missing) => Err(format!("{at}/{missing} must be a string")),
        None => Ok(()),
    };
    match block.get("type").and_then(Value::as_str) {
        Some("text") => has(&["text"]),
        Some("image" | "audio") => has(&["data", "mimeType"]),
        Some("tool_use") => {
            has(&["id", "name"])?;
            let object = block.get("input").is_some_and(Value::is_object);
            if object { Ok(()) } else { Err(format!("{at}/input must be an object")) }
        }
        Some("tool_result") => {
            has(&["toolUseId"])?;
            let list = block.get("content").is_some_and(Value::is_array);
            if list { Ok(()) } else { Err(format!("{at}/content must be a list")) }
        }
        _ => {
            Err(format!("{at}/type must be \"text\", \"image\", \"audio\", \"tool_use\" or \"tool_result\""))
        }
    }
}

fn roots(response: &Value) -> Result<Answer, String> {
    let Some(roots) = response.get("roots").and_then(Value::as_array) else {
        return Err("/roots must be a list".into());
    };
    for (i, root) in roots.iter().enumerate() {
        if !root.get("uri").and_then(Value::as_str).is_some_and(|u| u.starts_with("file://")) {
            return Err(format!("/roots/{i}/uri must be a string that begins with file://"));
        }
        if root.get("name").is_some_and(|n| !n.is_string()) {
            return Err(format!("/roots/{i}/name must be a string"));
        }
    }
    Ok(Answer::Accepted(response.clone()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    fn question(kind: QuestionKind, params: Value) -> Question {
        Question {
            key: "k".into(),
            round: 0,
            kind,
            request: std::sync::Arc::new(json!({"method": "m", "params": params})),
            answer: None,
        }
    }

    #[test]
    fn answers_fit_or_say_where_they_do_not() {
        let form = question(
            QuestionKind::Form,
            json!({"requestedSchema": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "minLength": 2}, "mail": {"type": "string", "format": "email"},
                "tags": {"type": "array", "items": {"type": "string"}}}}}),
        );
        let url = question(QuestionKind::Url, json!({"url": "https://example.com"}));
        let sampling = question(QuestionKind::Sampling, json!({}));
        let list = question(QuestionKind::Roots, json!({}));
        let message = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "hi"}});
        // question, response, the answer or a part of the reason
        let cases: [(&Question, Value, Result<Answer, &str>); 20] = [
            (&form, json!({"action": "decline"}), Ok(Answer::Declined)),
            (&form, json!({"action": "cancel"}), Ok(Answer::Dismissed)),
            (&form, json!({"action": "yes"}), Err("/action")),
            (&form, json!("accept"), Err("/action")),
            (&form, json!({"action": "accept"}), Err("name")),
            (&form, json!({"action": "accept", "content": {"name": "x"}}), Err("/content/name")),
            (
                &form,
                json!({"action": "accept", "content": {"name": "xy", "mail": "no"}}),
                Err("/content/mail"),
            ),
            (&form, json!({"action": "accept", "content": {"name": {"a": 1}}}), Err("/content/name")),
            (&form, json!({"action": "accept", "content": [1]}), Err("/content")),
            (
                &form,
                json!({"action": "accept", "content": {"name": "xy", "tags": ["a"]}}),
                Ok(Answer::Accepted(json!({"name": "xy", "tags": ["a"]}))),
            ),
            (&url, json!({"action": "accept", "content": {"a": 1}}), Ok(Answer::Accepted(json!({})))),
            (&url, json!({}), Err("/action")),
            (&sampling, message.clone(), Ok(Answer::Accepted(message))),
            (
                &sampling,
                json!({"role": "assistant", "content": {"type": "text", "text": "hi"}}),
                Err("/model"),
            ),
            (&sampling, json!({"role": "system", "model": "m"}), Err("/role")),
            (
                &sampling,
                json!({"role": "user", "model": "m", "content": [{"type": "text"}]}),
                Err("/content/0/text"),
            ),
            (&sampling, json!({"role": "user", "model": "m"}), Err("/content")),
            (&list, json!({"roots": []}), Ok(Answer::Accepted(json!({"roots": []})))),
            (&list, json!({"roots": [{"uri": "https://a"}]}), Err("/roots/0/uri")),
            (&list, json!({}), Err("/roots")),
        ];
        for (question, response, expected) in cases {
            match (check(question, &response), expected) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{response}"),
                (Err(reason), Err(part)) => assert!(reason.contains(part), "{response}: {reason}"),
                (got, want) => panic!("{response}: {got:?} is not {want:?}"),
            }
        }
    }

    #[test]
    fn a_schema_that_reaches_out_is_refused() {
        let form = question(
            QuestionKind::Form,
            json!({"requestedSchema": {"type": "object", "properties": {"a": {"$ref": "https://example.com/s"}}}}),
        );
        let answer = check(&form, &json!({"action": "accept", "content": {"a": "b"}}));
        assert!(answer.unwrap_err().contains("schema"));
    }
}
