//! The same for clients of older revisions, each against its own revision's schema.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

/// A method's answer has to fit this definition.
const RESULTS: [(&str, &str); 13] = [
    ("initialize", "InitializeResult"),
    ("ping", "EmptyResult"),
    ("tools/list", "ListToolsResult"),
    ("tools/call", "CallToolResult"),
    ("prompts/list", "ListPromptsResult"),
    ("prompts/get", "GetPromptResult"),
    ("resources/list", "ListResourcesResult"),
    ("resources/templates/list", "ListResourceTemplatesResult"),
    ("resources/read", "ReadResourceResult"),
    ("completion/complete", "CompleteResult"),
    ("logging/setLevel", "EmptyResult"),
    ("resources/subscribe", "EmptyResult"),
    ("resources/unsubscribe", "EmptyResult"),
];

/// Members of results that only a later revision has; the schemas allow any.
const LATER: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];

/// Checks an answer to `request`, a whole JSON-RPC message, that a client of `revision` got.
///
/// # Panics
/// If it does not fit, or if the schema is not installed.
pub fn check_older_answer(revision: &str, request: &Value, message: &Value) {
    if let Err(wrong) = answer(revision, request, message) {
        panic!("an answer that MCP {revision} does not have: {wrong}\nrequest: {request}\nanswer: {message}");
    }
}

/// Checks a request or notification that a client of `revision` got.
///
/// # Panics
/// If it does not fit, or if the schema is not installed.
pub fn check_older_message(revision: &str, message: &Value) {
    let definition = if message.get("id").is_some() { "ServerRequest" } else { "ServerNotification" };
    if let Err(wrong) = fits(revision, definition, message) {
        panic!("a message that MCP {revision} does not have: {wrong}\nmessage: {message}");
    }
}

fn answer(revision: &str, request: &Value, message: &Value) -> Result<(), String> {
    if message["id"] != request["id"] {
        return Err(format!("the id is {}, and the request's {}", message["id"], request["id"]));
    }
    if message.get("error").is_some() {
        let name = if revision < "2025-11-25" { "JSONRPCError" } else { "JSONRPCErrorResponse" };
        return fits(revision, name, message);
    }
    fits(revision, "JSONRPCResponse", message)?;
    let (method, result) = (request["method"].as_str().unwrap_or_default(), &message["result"]);
    if let Some(later) = LATER.iter().find(|member| result.get(**member).is_some()) {
        return Err(format!("{later} is of a later revision"));
    }
    match RESULTS.iter().find(|(name, _)| *name == method) {
        Some((_, definition)) => fits(revision, definition, result),
        None => Err(format!("{method:?} has no result")),
    }
}

fn fits(revision: &str, definition: &'static str, value: &Value) -> Result<(), String> {
    let validator = validator(revision, definition);
    let wrong: Vec<String> =
        validator.iter_errors(value).take(5).map(|e| format!("{} {e}", e.instance_path())).collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("no {definition}: {}", wrong.join("; "))) }
}

type Compiled = HashMap<(String, &'static str), Arc<Validator>>;

/// Each definition is compiled once a process.
fn validator(revision: &str, definition: &'static str) -> Arc<Validator> {
    static COMPILED: LazyLock<Mutex<Compiled>> = LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || {
        let mut schema = super::INSTALLED[revision].clone();
        assert!(schema.is_object(), "no schema of MCP {revision}");
        let (definitions, draft) = match schema.get("$defs") {
            Some(_) => ("$defs", Draft::Draft202012),
            None => ("definitions", Draft::Draft7),
        };
        assert!(schema[definitions].get(definition).is_some(), "MCP {revision} does not define {definition}");
        schema["$ref"] = format!("#/{definitions}/{definition}").into();
        let options = jsonschema::options()
            .with_draft(draft)
            .should_validate_formats(true)
            .with_pattern_options(PatternOptions::regex());
        Arc::new(options.build(&schema).unwrap_or_else(|e| panic!("{definition} cannot be compiled: {e}")))
    };
    compiled.entry((revision.to_owned(), definition)).or_insert_with(make).clone()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A check that cannot fail is none.
    #[test]
    fn what_does_not_fit_is_found() {
        let request = |method: &str| json!({ "jsonrpc": "2.0", "id": 1, "method": method });
        let with = |result: Value| json!({ "jsonrpc": "2.0", "id": 1, "result": result });
        let text = json!([{ "type": "text", "text": "x" }]);
        for revision in ["2025-11-25", "2025-06-18", "2025-03-26"] {
            let call = |result: Value| answer(revision, &request("tools/call"), &with(result));
            assert_eq!(call(json!({ "content": text })), Ok(()));
            assert!(call(json!({ "content": [{ "type": "text" }] })).is_err());
            assert!(call(json!({ "content": text, "resultType": "complete" })).is_err());
            assert!(call(json!({})).is_err());
            let error = json!({ "jsonrpc": "2.0", "id": 1, "error": { "code": 1, "message": "x" } });
            assert_eq!(answer(revision, &request("x"), &error), Ok(()));
            assert!(
                answer(revision, &request("x"), &json!({ "jsonrpc": "2.0", "id": 1, "error": {} })).is_err()
            );
            let told = |message: &Value| fits(revision, "ServerNotification", message);
            let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                                   "params": { "progressToken": 1, "progress": 1 } });
            assert_eq!(told(&progress), Ok(()));
            assert!(
                told(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": {} })).is_err()
            );
        }
    }
}
