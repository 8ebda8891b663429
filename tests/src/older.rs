//! A client of an older revision.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use futures::{Stream, StreamExt as _};
use serde_json::{Value, json};

use crate::{Host, Reply, client, schema};

/// A client of an older revision, with a session.
pub struct Older {
    /// Its connections.
    pub http: reqwest::Client,
    /// The MCP endpoint.
    pub url: String,
    /// `Mcp-Session-Id`.
    pub session: String,
    /// What was agreed on.
    pub version: String,
    /// More headers of each request.
    pub extra: Vec<(&'static str, &'static str)>,
    /// The id of the next request.
    pub next: Arc<AtomicU64>,
    /// The result of `initialize`.
    pub begun: Value,
}

/// The first message of a session.
pub fn initialize(version: &str, capabilities: &Value) -> Value {
    let params = json!({ "protocolVersion": version, "capabilities": capabilities,
                         "clientInfo": { "name": "layby-tests", "version": "1" } });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

/// A request without a session; its body is to be set.
pub fn plain(url: &str, extra: &[(&'static str, &'static str)]) -> reqwest::RequestBuilder {
    let mut request = client::http()
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in extra {
        request = request.header(*name, *value);
    }
    request
}

impl Older {
    /// A new session, begun in order.
    ///
    /// # Panics
    /// If it cannot be had.
    pub async fn begin(host: &Host, version: &str, capabilities: Value) -> Self {
        Self::begin_as(host, version, capabilities, &[]).await
    }

    /// The same with more headers on each request.
    ///
    /// # Panics
    /// As [`Older::begin`].
    pub async fn begin_as(
        host: &Host,
        version: &str,
        capabilities: Value,
        extra: &[(&'static str, &'static str)],
    ) -> Self {
        let request = plain(host.url(), extra).body(initialize(version, &capabilities).to_string());
        let reply =
            client::receive(request.send().await.expect("the host answers")).await.expect("a whole answer");
        let begun = reply.result().clone();
        let negotiated = begun["protocolVersion"].as_str().expect("a revision is agreed on");
        schema::check_older_answer(negotiated, &initialize(version, &capabilities), &reply.message);
        let session = reply.headers["mcp-session-id"].to_str().expect("a session has a plain id").to_owned();
        let this = Self {
            http: client::http(),
            url: host.url().to_owned(),
            session,
            version: begun["protocolVersion"].as_str().expect("a revision is agreed on").to_owned(),
            extra: extra.to_vec(),
            next: Arc::new(AtomicU64::new(1)),
            begun,
        };
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(this.post(&note).send().await.expect("the host answers").status().as_u16(), 202);
        this
    }

    /// The request, in this session.
    pub fn with_session(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let request = request.header("mcp-session-id", &self.session);
        // The oldest of them knows no such header.
        if self.version == "2025-03-26" {
            return request;
        }
        request.header("mcp-protocol-version", &self.version)
    }

    /// A message in this session, to be sent.
    pub fn post(&self, body: &Value) -> reqwest::RequestBuilder {
        self.with_session(plain(&self.url, &self.extra)).body(body.to_string())
    }

    /// A request's body.
    pub fn body(&self, method: &str, params: &Value) -> Value {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    /// Sends a request, and reads and checks its answer.
    ///
    /// # Panics
    /// If the connection fails, or an answer or a message before it is none of this revision.
    pub async fn request(&self, method: &str, params: Value) -> Reply {
        let body = self.body(method, &params);
        let reply = client::receive(self.post(&body).send().await.expect("the host answers"))
            .await
            .expect("a whole answer");
        if reply.message.is_object() && reply.status == 200 {
            let told = reply.stream.split_last().map_or(&[][..], |(_, told)| told);
            told.iter().for_each(|message| schema::check_older_message(&self.version, message));
            schema::check_older_answer(&self.version, &body, &reply.message);
        }
        reply
    }

    /// `tools/call`.
    pub async fn call(&self, tool: &str, arguments: Value) -> Reply {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// The session's own stream.
    ///
    /// # Panics
    /// If it cannot be opened; while it is read, if a message is none of this revision.
    pub async fn stream(&self) -> impl Stream<Item = Value> + Unpin + use<> {
        let get = self.http.get(&self.url).header("accept", "text/event-stream");
        let response = self.with_session(get).send().await.expect("the host answers");
        assert_eq!(response.status().as_u16(), 200);
        let version = self.version.clone();
        client::messages(response).inspect(move |message| schema::check_older_message(&version, message))
    }

    /// Ends the session; the status.
    ///
    /// # Panics
    /// If the connection fails.
    pub async fn end(&self) -> u16 {
        let delete = self.with_session(self.http.delete(&self.url));
        delete.send().await.expect("the host answers").status().as_u16()
    }
}
