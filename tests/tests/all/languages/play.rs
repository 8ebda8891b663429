//! Plays one case against a host.

use layby_tests::{
    Client, Host, Reply,
    client::{TASKS, everything},
    eventually, text,
};
use serde_json::{Map, Value, json};

use super::cases::{Case, Expect, RpcError, Way, When, Who, served};

/// What became of a call.
struct Outcome {
    way: Way,
    /// A `CallToolResult`, where there is one.
    result: Option<Value>,
    /// A JSON-RPC error, where there is one.
    error: Option<Value>,
    cancelled: bool,
    task: Option<String>,
    /// Notifications before the first answer.
    notices: Vec<Value>,
    asked: Map<String, Value>,
}

/// Calls, answers and cancels as the case says, and compares.
///
/// # Panics
/// If anything is not as expected.
pub(super) async fn play(host: &Host, case: &Case) {
    let client = host
        .client_with(match case.client {
            Who::All => everything(),
            Who::Plain => json!({ "elicitation": { "form": {} } }),
            Who::Mute => json!({ "extensions": { TASKS: {} } }),
        })
        .meta("progressToken", json!("progress"))
        .meta("io.modelcontextprotocol/logLevel", json!("debug"));
    let outcome = call(&client, case).await;
    let expect = &case.expect;
    assert_eq!(outcome.way, expect.way, "it came by another way: {:?} {:?}", outcome.result, outcome.error);
    check_end(&outcome, expect);
    if let Some(asked) = &expect.asked {
        assert_eq!(keys(&outcome.asked), keys(asked), "the questions, or their order");
        for (key, question) in asked {
            within(question, &outcome.asked[key]["params"], key);
        }
    }
    check_notices(&outcome, expect);
    for parts in &expect.log {
        logged(host, parts, outcome.task.as_deref()).await;
    }
}

async fn call(client: &Client, case: &Case) -> Outcome {
    let name = served(&case.tool, &case.policy);
    let first = client.call(&name, Value::Object(case.arguments.clone())).await;
    let notices = first.stream.iter().filter(|m| m["method"].is_string()).cloned().collect();
    let mut outcome = Outcome {
        way: Way::Inline,
        result: None,
        error: None,
        cancelled: false,
        task: None,
        notices,
        asked: Map::new(),
    };
    match first.message["result"]["resultType"].as_str() {
        Some("task") => by_task(client, case, first.task(), &mut outcome).await,
        Some("input_required") => by_rounds(client, case, &name, &first, &mut outcome).await,
        _ => outcome.ends(&first.message),
    }
    outcome
}

impl Outcome {
    /// Takes the result or the error of a JSON-RPC answer, or of a task.
    fn ends(&mut self, with: &Value) {
        self.result = with.get("result").cloned();
        self.error = with.get("error").cloned();
    }
}

async fn by_task(client: &Client, case: &Case, id: &str, outcome: &mut Outcome) {
    outcome.way = Way::Task;
    outcome.task = Some(id.to_owned());
    if case.cancel == Some(When::Running) {
        client.cancel(id).await.result();
    }
    let moved = client.until(id, "a question or the end", |task| task["status"] != "working").await;
    if moved["status"] == "input_required" {
        outcome.asked = moved["inputRequests"].as_object().cloned().unwrap_or_default();
        if case.cancel == Some(When::Asked) {
            client.cancel(id).await.result();
        } else {
            client.update(id, Value::Object(case.answers.clone())).await.result();
        }
    }
    // Within the bound of all waits, which is half the grace of the policy `promoted`: nobody is stopped by force.
    let ended = client.ended(id).await;
    outcome.cancelled = ended["status"] == "cancelled";
    outcome.ends(&ended);
}

async fn by_rounds(client: &Client, case: &Case, name: &str, first: &Reply, outcome: &mut Outcome) {
    outcome.way = Way::Rounds;
    let asked = first.result();
    outcome.asked = asked["inputRequests"].as_object().cloned().unwrap_or_default();
    let params = json!({
        "name": name,
        "arguments": case.arguments,
        "requestState": asked["requestState"],
        "inputResponses": case.answers,
    });
    outcome.ends(&client.request("tools/call", params).await.message);
}

fn check_end(outcome: &Outcome, expect: &Expect) {
    assert_eq!(outcome.cancelled, expect.cancelled, "{:?} {:?}", outcome.result, outcome.error);
    if expect.cancelled {
        return;
    }
    if let Some(RpcError { code, name }) = &expect.error {
        let error = outcome.error.as_ref().unwrap_or_else(|| panic!("no error: {:?}", outcome.result));
        assert_eq!(error["code"], *code, "{error}");
        if let Some(name) = name {
            assert_eq!(error["data"]["code"], **name, "{error}");
        }
        assert!(!error.to_string().contains("backtrace"), "{error}");
        return;
    }
    let result = outcome.result.as_ref().unwrap_or_else(|| panic!("no result: {:?}", outcome.error));
    let failed = result["isError"] == true;
    if let Some(code) = &expect.limit {
        assert!(failed && result["_meta"]["layby/code"] == **code, "{result}");
        return;
    }
    assert_eq!(result["content"].as_array().map(Vec::len), Some(1), "one text: {result}");
    if let Some(begin) = &expect.failed_begins {
        assert!(failed && text(result).starts_with(begin), "{result}");
    } else if let Some(message) = &expect.failed {
        assert_eq!((failed, text(result)), (true, message.as_str()), "{result}");
    } else {
        let lines = expect.text.as_ref().expect("a case expects an end");
        assert_eq!((failed, text(result)), (false, lines.join("\n").as_str()), "{result}");
        if let Some(structured) = &expect.structured {
            let found = &result["structuredContent"];
            assert!(equal(structured, found), "structured content\nexpected {structured}\nfound    {found}");
        }
    }
}

fn check_notices(outcome: &Outcome, expect: &Expect) {
    let params = |method: &str, without: &str| -> Vec<Value> {
        let of = outcome.notices.iter().filter(|notice| notice["method"] == method);
        of.map(|notice| {
            let mut params = notice["params"].clone();
            if let Some(params) = params.as_object_mut() {
                params.retain(|name, _| name != without && name != "_meta");
            }
            params
        })
        .collect()
    };
    for (expected, found) in [
        (&expect.progress, params("notifications/progress", "progressToken")),
        (&expect.messages, params("notifications/message", "logger")),
    ] {
        if let Some(expected) = expected {
            let found = Value::Array(found);
            assert!(equal(&json!(expected), &found), "expected {}\nfound    {found}", json!(expected));
        }
    }
}

/// Waits for a line of the log that has all `parts`.
async fn logged(host: &Host, parts: &[String], task: Option<&str>) {
    let part = |part: &String| part.replace("$task", task.unwrap_or("$task"));
    let parts: Vec<_> = parts.iter().map(part).collect();
    eventually(&format!("a line of the log with {parts:?}"), || async {
        let log = host.log();
        log.lines().any(|line| parts.iter().all(|part| line.contains(part))).then_some(())
    })
    .await;
}

fn keys(of: &Map<String, Value>) -> Vec<&String> {
    of.keys().collect()
}

/// Everything that is expected is there; more may be. Arrays are equal.
fn within(expected: &Value, found: &Value, place: &str) {
    match expected {
        Value::Object(members) => {
            for (name, value) in members {
                within(value, &found[name], &format!("{place}.{name}"));
            }
        }
        _ => assert!(equal(expected, found), "{place}: expected {expected}, found {found}"),
    }
}

/// Equal, whatever a language calls a number: 1 is 1.0. Only a mean has digits to round.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => (a - b).abs() <= a.abs() * 1e-12,
            _ => false,
        },
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}
