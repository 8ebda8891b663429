//! MCP 2026-07-28 requests of a client that has tasks and answers forms.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::http::{Answer, Connection, Endpoint};

const VERSION: &str = "2026-07-28";

/// A whole request; `name` is what `Mcp-Name` mirrors.
pub(super) fn request(endpoint: &Endpoint, method: &str, name: &str, mut params: Value) -> Vec<u8> {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {
            "elicitation": { "form": {} },
            "extensions": { "io.modelcontextprotocol/tasks": {} },
        },
    });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", VERSION),
        ("mcp-method", method),
        ("mcp-name", name),
    ];
    endpoint.post(&headers, &body.to_string())
}

pub(super) fn call(endpoint: &Endpoint, tool: &str, arguments: &Value) -> Vec<u8> {
    request(endpoint, "tools/call", tool, json!({ "name": tool, "arguments": arguments }))
}

pub(super) fn get(endpoint: &Endpoint, task: &str) -> Vec<u8> {
    request(endpoint, "tasks/get", task, json!({ "taskId": task }))
}

/// Accepts the form with the key `key`.
pub(super) fn accept(endpoint: &Endpoint, task: &str, key: &str, content: &Value) -> Vec<u8> {
    let answers = json!({ key: { "action": "accept", "content": content } });
    request(endpoint, "tasks/update", task, json!({ "taskId": task, "inputResponses": answers }))
}

/// The `result` of an answer that has one.
pub(super) fn result(answer: &Answer<'_>) -> Result<Value> {
    let shown = || String::from_utf8_lossy(answer.body).chars().take(400).collect::<String>();
    let mut message: Value = serde_json::from_slice(answer.body)
        .with_context(|| format!("status {}, not JSON: {}", answer.status, shown()))?;
    match message.get_mut("result").map(Value::take) {
        Some(result) if answer.status == 200 => Ok(result),
        _ => bail!("status {}: {}", answer.status, shown()),
    }
}

/// Calls a tool that must become a task in the state `status`; returns the task's id.
pub(super) async fn promoted(connection: &mut Connection, call: &[u8], status: &str) -> Result<String> {
    let result = result(&connection.exchange(call).await?)?;
    match (&result["resultType"], &result["status"], &result["taskId"]) {
        (Value::String(kind), Value::String(state), Value::String(id))
            if kind == "task" && state == status =>
        {
            Ok(id.clone())
        }
        _ => bail!("wanted a task that is {status}, got {result}"),
    }
}
