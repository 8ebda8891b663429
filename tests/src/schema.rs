//! Every message that a test's client receives, against the JSON schema of the revision.
//!
//! The schema comes from the installed conformance suite (`tests/clients/schema.mjs`). What the tasks extension
//! adds has no published schema in a package, so its shapes stand here, on top of the revision's definitions.

use std::{
    collections::HashMap,
    path::PathBuf,
    process::{Command, Stdio},
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use jsonschema::{PatternOptions, Validator};
use serde_json::{Value, json};

mod older;

pub use older::{check_older_answer, check_older_message};

/// A method's answer has to fit this definition.
const RESULTS: [(&str, &str); 10] = [
    ("server/discover", "DiscoverResult"),
    ("tools/list", "ListToolsResult"),
    ("prompts/list", "ListPromptsResult"),
    ("resources/list", "ListResourcesResult"),
    ("resources/templates/list", "ListResourceTemplatesResult"),
    ("completion/complete", "CompleteResult"),
    ("subscriptions/listen", "SubscriptionsListenResult"),
    ("tasks/get", "tasks/GetTaskResult"),
    ("tasks/update", "tasks/Acknowledgement"),
    ("tasks/cancel", "tasks/Acknowledgement"),
];

/// Methods whose answer may be a question first (multi round-trip requests).
const ASKING: [(&str, &str); 3] = [
    ("tools/call", "CallToolResult"),
    ("prompts/get", "GetPromptResult"),
    ("resources/read", "ReadResourceResult"),
];

/// Notifications on a subscription's stream, and on any other.
const TOLD: [(&str, &str, bool); 7] = [
    ("notifications/subscriptions/acknowledged", "SubscriptionsAcknowledgedNotification", true),
    ("notifications/tools/list_changed", "ToolListChangedNotification", true),
    ("notifications/prompts/list_changed", "PromptListChangedNotification", true),
    ("notifications/resources/list_changed", "ResourceListChangedNotification", true),
    ("notifications/resources/updated", "ResourceUpdatedNotification", true),
    ("notifications/progress", "ProgressNotification", false),
    ("notifications/message", "LoggingMessageNotification", false),
];

/// Errors whose data the revision defines.
const ERRORS: [(i64, &str); 3] = [
    (-32020, "HeaderMismatchError"),
    (-32021, "MissingRequiredClientCapabilityError"),
    (-32022, "UnsupportedProtocolVersionError"),
];

/// Checks an answer to `request`, a whole JSON-RPC message.
///
/// # Panics
/// If it does not fit, or if the schema is not installed.
pub fn check_answer(request: &Value, message: &Value) {
    if let Err(wrong) = answer(request, message) {
        panic!("an answer that MCP 2026-07-28 does not have: {wrong}\nrequest: {request}\nanswer: {message}");
    }
}

/// Checks a notification that came on the stream which `request` opened.
///
/// # Panics
/// If it does not fit, or if the schema is not installed.
pub fn check_notification(request: &Value, message: &Value) {
    if let Err(wrong) = notification(request, message) {
        panic!(
            "a message that MCP 2026-07-28 does not have: {wrong}\nrequest: {request}\nmessage: {message}"
        );
    }
}

/// Checks an answer of which nothing is known but that it is one.
///
/// # Panics
/// As [`check_answer`].
pub fn check_any_answer(message: &Value) {
    let definition =
        if message.get("error").is_some() { "JSONRPCErrorResponse" } else { "JSONRPCResultResponse" };
    if let Err(wrong) = fits(definition, message).and_then(|()| error_data(message)) {
        panic!("an answer that MCP 2026-07-28 does not have: {wrong}\nanswer: {message}");
    }
}

fn answer(request: &Value, message: &Value) -> Result<(), String> {
    if message["id"] != request["id"] {
        return Err(format!("the id is {}, and the request's {}", message["id"], request["id"]));
    }
    if message.get("error").is_some() {
        fits("JSONRPCErrorResponse", message)?;
        return error_data(message);
    }
    fits("JSONRPCResultResponse", message)?;
    let (method, result) = (request["method"].as_str().unwrap_or_default(), &message["result"]);
    let declared = &request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    let kind = result["resultType"].as_str().unwrap_or_default();
    let named = |table: &[(&str, &'static str)]| table.iter().find(|(m, _)| *m == method).map(|(_, d)| *d);
    match (named(&RESULTS), named(&ASKING), kind) {
        (Some(definition), _, "complete") | (None, Some(definition), "complete") => fits(definition, result),
        (None, Some(_), "input_required") => fits("InputRequiredResult", result),
        (None, _, "task") if method == "tools/call" => {
            if !declared["extensions"]["io.modelcontextprotocol/tasks"].is_object() {
                return Err("a task handle, and the request did not declare the extension".into());
            }
            fits("tasks/CreateTaskResult", result)
        }
        (None, None, _) => Err(format!("{method:?} has no result")),
        _ => Err(format!("{method:?} has no resultType {kind:?}")),
    }
}

fn error_data(message: &Value) -> Result<(), String> {
    let code = message["error"]["code"].as_i64();
    match ERRORS.iter().find(|(rpc, _)| Some(*rpc) == code) {
        Some((_, definition)) => fits(definition, message),
        None => Ok(()),
    }
}

fn notification(request: &Value, message: &Value) -> Result<(), String> {
    let (method, on) = (message["method"].as_str().unwrap_or_default(), request["method"].as_str());
    if message.get("id").is_some() {
        return Err("this revision sends no requests to clients".into());
    }
    let subscribed = on == Some("subscriptions/listen");
    let subscription = &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    if subscribed && *subscription != request["id"] {
        return Err(format!("the subscription's id is {subscription}, and the request's {}", request["id"]));
    }
    match method {
        "notifications/tasks" if subscribed => fits("tasks/Notification", message),
        "notifications/cancelled" if subscribed => fits("CancelledNotification", message),
        _ => match TOLD.iter().find(|(name, _, of)| *name == method && *of == subscribed) {
            Some((_, definition, _)) => fits(definition, message),
            None => Err(format!("{method:?} does not belong on the stream of {on:?}")),
        },
    }
}

fn fits(definition: &'static str, value: &Value) -> Result<(), String> {
    let validator = validator(definition);
    let wrong: Vec<String> =
        validator.iter_errors(value).take(5).map(|e| format!("{} {e}", e.instance_path())).collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("no {definition}: {}", wrong.join("; "))) }
}

/// Each definition is compiled once a process.
fn validator(definition: &'static str) -> Arc<Validator> {
    static COMPILED: LazyLock<Mutex<HashMap<&str, Arc<Validator>>>> = LazyLock::new(Mutex::default);
    // A panic while it was locked only means that a definition is missing, which the next one says, too.
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let make = || {
        let mut schema = SCHEMA.clone();
        assert!(schema["$defs"].get(definition).is_some(), "the schema does not define {definition}");
        schema["$ref"] = format!("#/$defs/{}", definition.replace('/', "~1")).into();
        let options = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .should_validate_formats(true)
            .with_pattern_options(PatternOptions::regex());
        Arc::new(options.build(&schema).unwrap_or_else(|e| panic!("{definition} cannot be compiled: {e}")))
    };
    compiled.entry(definition).or_insert_with(make).clone()
}

static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
    let mut schema = INSTALLED["2026-07-28"].clone();
    for (name, definition) in extension() {
        schema["$defs"][name] = definition;
    }
    // A task holds what its call would have answered with, and that member belongs to the answer.
    let mut outcome = schema["$defs"]["CallToolResult"].clone();
    outcome["required"]
        .as_array_mut()
        .expect("CallToolResult requires members")
        .retain(|m| m != "resultType");
    schema["$defs"]["tasks/Outcome"] = outcome;
    schema
});

/// The schema of each revision.
static INSTALLED: LazyLock<Value> = LazyLock::new(installed);

/// Reads the schemas out of the installed suite.
fn installed() -> Value {
    let program = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("clients/schema.mjs");
    let node = std::env::var_os("LAYBY_TESTS_NODE").unwrap_or_else(|| "node".into());
    let advice =
        "run `cargo xtask test`, which installs Node and the suite, or `npm ci` in tests/clients/conformance";
    let output =
        Command::new(node).arg(program).stdin(Stdio::null()).output().unwrap_or_else(|e| {
            panic!("no message can be checked, because there is no Node ({e}): {advice}")
        });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "no message can be checked without the schema of MCP: {advice}\n{said}");
    serde_json::from_slice(&output.stdout).expect("the schema is JSON")
}

/// The tasks extension's shapes (SEP-2663): each status has its own member, and no other's.
fn extension() -> Vec<(&'static str, Value)> {
    let statuses = [
        ("working", None),
        ("input_required", Some(("inputRequests", "InputRequests"))),
        ("completed", Some(("result", "tasks~1Outcome"))),
        ("failed", Some(("error", "Error"))),
        ("cancelled", None),
    ];
    let payload = |(status, own): (&str, Option<(&str, &str)>)| {
        let mut shape = json!({ "properties": { "inputRequests": false, "result": false, "error": false } });
        if let Some((member, definition)) = own {
            shape["properties"][member] = json!({ "$ref": format!("#/$defs/{definition}") });
            shape["required"] = json!([member]);
        }
        json!({ "if": { "properties": { "status": { "const": status } } }, "then": shape })
    };
    let task = json!({
        "type": "object",
        "required": ["taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"],
        "properties": {
            // Letters that a header can carry: clients mirror it in Mcp-Name.
            "taskId": { "type": "string", "pattern": "^[!-~]+$" },
            "status": { "enum": statuses.map(|(status, _)| status) },
            "statusMessage": { "type": "string" },
            "createdAt": { "type": "string", "format": "date-time" },
            "lastUpdatedAt": { "type": "string", "format": "date-time" },
            "ttlMs": { "type": ["integer", "null"], "minimum": 0 },
            "pollIntervalMs": { "type": "integer", "minimum": 0 },
        },
    });
    let detailed = json!({ "allOf": statuses.map(payload), "$ref": "#/$defs/tasks~1Task" });
    let of = |definition: &str, kind: &str| {
        json!({
            "allOf": [{ "$ref": "#/$defs/Result" }, { "$ref": format!("#/$defs/tasks~1{definition}") }],
            "properties": { "resultType": { "const": kind } },
        })
    };
    let mut created = of("Task", "task");
    for absent in ["inputRequests", "result", "error", "content", "requestState"] {
        created["properties"][absent] = false.into();
    }
    vec![
        ("tasks/Task", task),
        ("tasks/Detailed", detailed),
        ("tasks/CreateTaskResult", created),
        ("tasks/GetTaskResult", of("Detailed", "complete")),
        (
            "tasks/Acknowledgement",
            json!({ "$ref": "#/$defs/Result", "properties": { "resultType": true, "_meta": true }, "additionalProperties": false }),
        ),
        (
            "tasks/Notification",
            json!({
                "type": "object",
                "required": ["jsonrpc", "method", "params"],
                "properties": {
                    "jsonrpc": { "const": "2.0" },
                    "params": {
                        "allOf": [{ "$ref": "#/$defs/tasks~1Detailed" }, { "$ref": "#/$defs/NotificationParams" }],
                        "properties": { "resultType": false },
                    },
                },
            }),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str) -> Value {
        let capabilities = crate::client::everything();
        json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": {
            "_meta": { "io.modelcontextprotocol/clientCapabilities": capabilities } } })
    }

    fn task(status: &str) -> Value {
        json!({ "resultType": "complete", "taskId": "x", "status": status, "ttlMs": 1,
            "createdAt": "2026-07-28T00:00:00Z", "lastUpdatedAt": "2026-07-28T00:00:00Z" })
    }

    fn with(mut value: Value, member: &str, to: Value) -> Value {
        value[member] = to;
        value
    }

    /// A check that cannot fail is none.
    #[test]
    fn what_does_not_fit_is_found() {
        let text = json!([{ "type": "text", "text": "x" }]);
        let call = json!({ "resultType": "complete", "content": text });
        let handle = with(task("working"), "resultType", "task".into());
        let good = [
            ("tools/call", call.clone()),
            ("tools/call", handle.clone()),
            ("tasks/get", task("working")),
            ("tasks/get", with(task("completed"), "result", json!({ "content": text }))),
            ("tasks/get", with(task("failed"), "error", json!({ "code": 1, "message": "x" }))),
            (
                "tasks/get",
                with(task("input_required"), "inputRequests", json!({ "k": { "method": "roots/list" } })),
            ),
            ("tasks/cancel", json!({ "resultType": "complete" })),
            (
                "tools/list",
                json!({ "resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "public" }),
            ),
        ];
        let bad = [
            ("tools/call", json!({ "content": text })),
            ("tools/call", json!({ "resultType": "complete" })),
            ("tools/call", with(call.clone(), "content", json!([{ "type": "text" }]))),
            ("tools/call", with(handle.clone(), "result", json!({}))),
            ("tools/call", with(handle.clone(), "createdAt", json!("yesterday"))),
            ("tools/list", handle.clone()),
            ("tools/list", json!({ "resultType": "complete", "tools": [] })),
            ("tasks/get", handle),
            ("tasks/get", task("completed")),
            ("tasks/get", task("asleep")),
            ("tasks/get", with(task("cancelled"), "error", json!({ "code": 1, "message": "x" }))),
            ("tasks/get", with(task("completed"), "result", json!({ "content": 5 }))),
            (
                "tasks/get",
                with(task("input_required"), "inputRequests", json!({ "k": { "method": "dance" } })),
            ),
            ("tasks/update", json!({ "resultType": "complete", "status": "working" })),
            ("ping", json!({ "resultType": "complete" })),
        ];
        let whole = |result: &Value| json!({ "jsonrpc": "2.0", "id": 1, "result": result });
        for (method, result) in &good {
            assert_eq!(answer(&request(method), &whole(result)), Ok(()), "{method} {result}");
        }
        for (method, result) in &bad {
            assert!(answer(&request(method), &whole(result)).is_err(), "{method} {result}");
        }
        let mut plain = request("tools/call");
        plain["params"]["_meta"] = json!({});
        assert!(answer(&plain, &whole(&good[1].1)).is_err(), "a handle that nobody may have");
        let error = |id: Value, code: i64, data: Value| json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": "x", "data": data } });
        let required = json!({ "requiredCapabilities": { "roots": {} } });
        assert_eq!(answer(&request("x"), &error(json!(1), -32021, required)), Ok(()));
        assert!(answer(&request("x"), &error(json!(1), -32021, json!({}))).is_err());
        assert!(answer(&request("x"), &error(json!(2), -32602, json!({}))).is_err());
    }

    #[test]
    fn what_belongs_on_another_stream_is_found() {
        let told =
            |method: &str, params: Value| json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let meta = json!({ "io.modelcontextprotocol/subscriptionId": 1 });
        let (listen, call) = (request("subscriptions/listen"), request("tools/call"));
        let changed = told("notifications/tools/list_changed", json!({ "_meta": meta }));
        let progress =
            told("notifications/progress", json!({ "progressToken": 1, "progress": 1, "_meta": meta }));
        assert_eq!(notification(&listen, &changed), Ok(()));
        assert_eq!(notification(&call, &progress), Ok(()));
        assert!(notification(&listen, &progress).is_err());
        assert!(notification(&call, &changed).is_err());
        let untagged = told("notifications/tools/list_changed", json!({}));
        assert!(notification(&listen, &untagged).is_err());
        let asks = json!({ "jsonrpc": "2.0", "id": 5, "method": "roots/list" });
        assert!(notification(&call, &asks).is_err());
        let mut params = with(task("working"), "_meta", meta);
        let told_of = |params: &Value| told("notifications/tasks", params.clone());
        assert!(notification(&listen, &told_of(&params)).is_err(), "with a resultType");
        params.as_object_mut().expect("an object").remove("resultType");
        assert_eq!(notification(&listen, &told_of(&params)), Ok(()));
        assert!(notification(&call, &told_of(&params)).is_err());
    }
}
