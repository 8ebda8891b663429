//! A raw MCP client: every header and every byte of the body is a test's to choose.

use std::{
    sync::{
        Arc, Once,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{Stream, StreamExt as _};
use serde_json::{Value, json};

use crate::{eventually, schema};

/// The revision that tests speak.
pub const PROTOCOL: &str = "2026-07-28";
/// The tasks extension.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// An HTTP client with connections of its own.
///
/// # Panics
/// If it cannot be made.
pub fn http() -> reqwest::Client {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Another one may be there already: both do.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(120)).build().expect("an HTTP client")
}

/// Capabilities of a client that can do everything.
pub fn everything() -> Value {
    json!({ "elicitation": { "form": {}, "url": {} }, "sampling": {}, "roots": {}, "extensions": { TASKS: {} } })
}

/// An answer over HTTP.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The headers that tests look at.
    pub headers: reqwest::header::HeaderMap,
    /// The JSON-RPC message; for a stream, the last one.
    pub message: Value,
    /// All messages of a stream.
    pub stream: Vec<Value>,
}

impl Reply {
    /// The result.
    ///
    /// # Panics
    /// If it is an error.
    pub fn result(&self) -> &Value {
        let result = &self.message["result"];
        assert!(!result.is_null(), "no result: HTTP {} {}", self.status, self.message);
        result
    }

    /// The JSON-RPC error's code.
    ///
    /// # Panics
    /// If it is a result.
    pub fn rpc(&self) -> i64 {
        self.message["error"]["code"].as_i64().unwrap_or_else(|| panic!("no error: {}", self.message))
    }

    /// The error's stable code.
    pub fn code(&self) -> &str {
        crate::error_code(&self.message)
    }

    /// The task's id.
    ///
    /// # Panics
    /// If the answer is no task.
    pub fn task(&self) -> &str {
        let result = self.result();
        assert_eq!(result["resultType"], "task", "no task: {result}");
        result["taskId"].as_str().unwrap_or_else(|| panic!("no taskId: {result}"))
    }
}

/// One client, with connections of its own.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    capabilities: Value,
    headers: Vec<(String, String)>,
    meta: Value,
    next: Arc<AtomicU64>,
}

impl Client {
    /// A client of the server at `url` that declares `capabilities` with each request.
    pub fn new(url: &str, capabilities: Value) -> Self {
        let next = Arc::new(AtomicU64::new(1));
        Self { http: http(), url: url.into(), capabilities, headers: Vec::new(), meta: json!({}), next }
    }

    /// The same client with one more header on each request.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The same client with one more member of `_meta` in each request.
    pub fn meta(mut self, name: &str, value: Value) -> Self {
        self.meta[name] = value;
        self
    }

    /// The same client, over the same connections, that declares something else from now on.
    pub fn declaring(&self, capabilities: Value) -> Self {
        Self { capabilities, ..self.clone() }
    }

    /// The same client with other connections.
    pub fn apart(&self) -> Self {
        Self { http: http(), ..self.clone() }
    }

    /// A request's body.
    pub fn body(&self, method: &str, mut params: Value) -> Value {
        let mut meta = self.meta.clone();
        meta["io.modelcontextprotocol/protocolVersion"] = PROTOCOL.into();
        meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "layby-tests", "version": "1" });
        meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        params["_meta"] = meta;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    /// The request that carries `body`, with the headers that mirror it.
    pub fn post(&self, body: &Value) -> reqwest::RequestBuilder {
        let mut request = self
            .http
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", PROTOCOL)
            .header("mcp-method", body["method"].as_str().unwrap_or_default());
        let params = &body["params"];
        if let Some(name) = ["name", "uri", "taskId"].iter().find_map(|key| params[*key].as_str()) {
            request = request.header("mcp-name", name);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(body.to_string())
    }

    /// Sends a request and reads its answer, whole.
    ///
    /// # Panics
    /// If the connection fails.
    pub async fn send(&self, body: &Value) -> Reply {
        self.try_send(body).await.unwrap_or_else(|e| panic!("{body}: {e:?}"))
    }

    /// The same, where the connection may fail.
    ///
    /// # Errors
    /// The connection's.
    pub async fn try_send(&self, body: &Value) -> Result<Reply, reqwest::Error> {
        let reply = receive(self.post(body).send().await?).await?;
        if reply.message.is_object() {
            let notices = reply.stream.split_last().map_or(&[][..], |(_, before)| before);
            notices.iter().for_each(|notice| schema::check_notification(body, notice));
            // Who calls is asked before the body is read: such a refusal knows no id.
            if matches!(reply.status, 401 | 403 | 503) {
                schema::check_any_answer(&reply.message);
            } else {
                schema::check_answer(body, &reply.message);
            }
        }
        Ok(reply)
    }

    /// Sends a request by method and parameters.
    pub async fn request(&self, method: &str, params: Value) -> Reply {
        self.send(&self.body(method, params)).await
    }

    /// `tools/call`.
    pub async fn call(&self, tool: &str, arguments: Value) -> Reply {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// `tools/call` that becomes a task; the task's id.
    pub async fn task(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).await.task().to_owned()
    }

    /// The messages of a stream, as they come. Dropping it closes the connection.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub async fn stream(&self, method: &str, params: Value) -> impl Stream<Item = Value> + Unpin + use<> {
        let body = self.body(method, params);
        let response = self.post(&body).send().await.expect("a stream opens");
        let kind = response.headers()["content-type"].to_str().unwrap_or_default().to_owned();
        assert_eq!(kind, "text/event-stream", "HTTP {}", response.status());
        messages(response).inspect(move |message| match message.get("method") {
            Some(_) => schema::check_notification(&body, message),
            None => schema::check_answer(&body, message),
        })
    }

    /// `tools/list`.
    ///
    /// # Panics
    /// If the answer has no tools.
    pub async fn tools(&self) -> Vec<Value> {
        let reply = self.request("tools/list", json!({})).await;
        reply.result()["tools"].as_array().expect("tools/list gives tools").clone()
    }

    /// The names of the tools, in the list's order.
    pub async fn tool_names(&self) -> Vec<String> {
        let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
        self.tools().await.iter().map(name).collect()
    }

    /// `tasks/get`.
    pub async fn get(&self, task: &str) -> Reply {
        self.request("tasks/get", json!({ "taskId": task })).await
    }

    /// `tasks/update`.
    pub async fn update(&self, task: &str, answers: Value) -> Reply {
        self.request("tasks/update", json!({ "taskId": task, "inputResponses": answers })).await
    }

    /// `tasks/update` with one accepted form.
    pub async fn accept(&self, task: &str, key: &str, content: Value) -> Reply {
        self.update(task, json!({ key: { "action": "accept", "content": content } })).await
    }

    /// `tasks/cancel`.
    pub async fn cancel(&self, task: &str) -> Reply {
        self.request("tasks/cancel", json!({ "taskId": task })).await
    }

    /// Polls, below the rate that is refused, until `is` holds; the task.
    pub async fn until(&self, task: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let last = std::cell::RefCell::new(Value::Null);
        let probe = || async {
            tokio::time::sleep(Duration::from_millis(30)).await;
            let reply = self.get(task).await;
            let found = is(&reply.message["result"]).then(|| reply.message["result"].clone());
            last.replace(reply.message);
            found
        };
        let wait = tokio::time::timeout(crate::wait::BOUND, eventually(what, probe)).await;
        wait.unwrap_or_else(|_| panic!("waited for {what}; last seen: {}", last.borrow()))
    }

    /// Waits for a status; the task.
    pub async fn status(&self, task: &str, status: &str) -> Value {
        let ended = |s: &Value| matches!(s.as_str(), Some("completed" | "failed" | "cancelled"));
        let task = self.until(task, status, |t| t["status"] == status || ended(&t["status"])).await;
        assert_eq!(task["status"], status, "{task}");
        task
    }

    /// Waits for the end, whatever it is; the task.
    pub async fn ended(&self, task: &str) -> Value {
        self.until(task, "the end", |t| {
            matches!(t["status"].as_str(), Some("completed" | "failed" | "cancelled"))
        })
        .await
    }
}

/// Reads a whole answer, JSON or stream, to a request of which nothing is known.
///
/// # Errors
/// The connection's.
///
/// # Panics
/// If it is not a message of the revision that tests speak.
pub async fn read(response: reqwest::Response) -> Result<Reply, reqwest::Error> {
    let reply = receive(response).await?;
    if reply.message.is_object() {
        schema::check_any_answer(&reply.message);
    }
    Ok(reply)
}

/// Reads a whole answer, JSON or stream, of whatever revision.
///
/// # Errors
/// The connection's.
pub async fn receive(response: reqwest::Response) -> Result<Reply, reqwest::Error> {
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let kind = headers.get("content-type").and_then(|v| v.to_str().ok()).unwrap_or_default();
    if kind.starts_with("text/event-stream") {
        let stream: Vec<Value> = messages(response).collect().await;
        let message = stream.last().cloned().unwrap_or_default();
        return Ok(Reply { status, headers, message, stream });
    }
    let text = response.text().await?;
    let message = serde_json::from_str(&text).unwrap_or(Value::String(text));
    Ok(Reply { status, headers, message, stream: Vec::new() })
}

/// The messages of a stream, as they come.
///
/// # Panics
/// If an event holds no JSON.
pub fn messages(response: reqwest::Response) -> impl Stream<Item = Value> + Unpin + use<> {
    let state = (response.bytes_stream(), Vec::<u8>::new());
    Box::pin(futures::stream::unfold(state, |(mut bytes, mut rest)| async move {
        loop {
            if let Some(end) = rest.windows(2).position(|w| w == b"\n\n") {
                let event: Vec<u8> = rest.drain(..end + 2).collect();
                let text = String::from_utf8_lossy(&event);
                let data: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("data: ")).collect();
                // Comments, and the events without data by which older revisions give an id to come back to.
                if data.concat().is_empty() {
                    continue;
                }
                let message = serde_json::from_str(&data.join("\n")).expect("an event holds JSON");
                return Some((message, (bytes, rest)));
            }
            rest.extend_from_slice(&bytes.next().await?.ok()?);
        }
    }))
}
