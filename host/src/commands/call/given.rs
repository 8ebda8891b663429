//! What the person gives beside the tool's name: its arguments, and answers to its questions.

use std::{collections::BTreeMap, io, path::Path};

use rmcp::model::JsonObject;
use serde_json::Value;

use super::super::{exit::Failure, json};
use crate::{
    base::{neutral_line, read_bounded, read_file, text_of},
    config::ClientLimits,
};

/// What stands for standard input.
const STDIN: &str = "-";

/// The tool's arguments; none are an empty object.
///
/// # Errors
/// `arguments_invalid`: they cannot be read, or are no JSON object.
pub(super) fn arguments(given: Option<&str>) -> Result<JsonObject, Failure> {
    let wrong = |why: String| Failure::usage("arguments_invalid", format!("the arguments {why}"));
    let text = match given {
        None => return Ok(JsonObject::new()),
        Some(STDIN) => read_bounded(io::stdin().lock(), ClientLimits::ARGUMENTS)
            .and_then(text_of)
            .map_err(|e| wrong(format!("cannot be read from standard input: {e}")))?,
        Some(text) => text.to_owned(),
    };
    match json::read(&text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(wrong("must be a JSON object, such as '{\"text\": \"hello\"}'".to_owned())),
        Err(e) => Err(wrong(format!("are not JSON: {e}"))),
    }
}

/// The answers of `file`, by key. What can fit no question is told before the call begins.
///
/// # Errors
/// `answers_file_invalid`: it cannot be read, or holds something else.
pub(super) fn answers(file: &Path) -> Result<BTreeMap<String, Value>, Failure> {
    let stdin = file == Path::new(STDIN);
    let name = if stdin { "standard input".to_owned() } else { file.display().to_string() };
    let wrong = |why: String| Failure::usage("answers_file_invalid", format!("{name}: {why}"));
    let bytes = if stdin {
        read_bounded(io::stdin().lock(), ClientLimits::ANSWERS)
    } else {
        read_file(file, ClientLimits::ANSWERS)
    };
    let text = bytes.and_then(text_of).map_err(|e| {
        wrong(format!("the answers cannot be read: {e}. Give a file of JSON, or - for standard input"))
    })?;
    by_key(&text).map_err(wrong)
}

fn by_key(text: &str) -> Result<BTreeMap<String, Value>, String> {
    let answers = match json::read(text) {
        Ok(Value::Object(answers)) => answers,
        Ok(_) => return Err("it is not a JSON object of answers by key".to_owned()),
        Err(e) => return Err(format!("it is not a JSON object of answers by key: {e}")),
    };
    // A single answer where the object of all of them belongs. No question can be meant: its answer would be
    // one of the words, or an object.
    let result = |word: &str| !is_word(word) || answers.get("content").is_some_and(Value::is_object);
    if answers.get("action").and_then(Value::as_str).is_some_and(result) {
        return Err(
            "it looks like one answer: write an object with the question's key and then the answer, \
                    such as {\"KEY\": {\"action\": \"accept\", \"content\": {}}}"
                .to_owned(),
        );
    }
    for (key, answer) in &answers {
        if !answer.as_str().is_some_and(is_word) && !answer.is_object() {
            return Err(format!(
                "the answer to {:?} is neither a JSON object nor \"accept\", \"decline\" or \"dismiss\"",
                neutral_line(key)
            ));
        }
    }
    Ok(answers.into_iter().collect())
}

fn is_word(word: &str) -> bool {
    matches!(word, "accept" | "decline" | "dismiss" | "cancel")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{super::super::exit::Exit, *};

    #[test]
    fn arguments_must_be_an_object() {
        assert!(arguments(None).unwrap().is_empty());
        assert_eq!(arguments(Some(r#"{"a":1}"#)).unwrap()["a"], 1);
        assert_eq!(arguments(Some("[1]")).unwrap_err().exit, Exit::Usage);
        assert_eq!(arguments(Some("{")).unwrap_err().code, "arguments_invalid");
        let twice = arguments(Some(r#"{"a":{"b":1,"b":2}}"#)).unwrap_err().message;
        assert!(twice.contains("\"b\"") && twice.contains("twice"), "{twice}");
        assert!(arguments(Some(r#"{"a":1e400}"#)).unwrap_err().message.contains("out of range"));
    }

    #[test]
    fn answers_are_objects_or_words_by_key() {
        let good =
            by_key(r#"{"a": "accept", "b": {}, "action": "decline", "c": {"action": "nope"}}"#).unwrap();
        assert_eq!(good.len(), 4);
        for (text, part) in [
            ("[]", "by key"),
            ("", "by key"),
            (r#"{"a": 5}"#, "\"a\""),
            (r#"{"a": "yes"}"#, "\"a\""),
            (r#"{"a": {}, "a": {}}"#, "\"a\" stands there twice"),
            (r#"{"action": "nope"}"#, "looks like one answer"),
            (r#"{"action": "accept", "content": {"x": 1}}"#, "looks like one answer"),
        ] {
            let why = by_key(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn the_file_is_bounded_and_regular() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("answers.json");
        std::fs::write(&path, "\u{feff}{\"a\": {}}").unwrap();
        assert_eq!(answers(&path).unwrap().len(), 1);
        std::fs::write(&path, " ".repeat((1 << 20) + 1)).unwrap();
        for (file, part) in [(path.as_path(), "1MiB"), (Path::new("/dev/zero"), "not a regular file")] {
            let failure = answers(file).unwrap_err();
            assert_eq!((failure.exit, failure.code.as_str()), (Exit::Usage, "answers_file_invalid"));
            assert!(failure.message.contains(part), "{failure}");
        }
    }
}
