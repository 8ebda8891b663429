//! Clients of older revisions: sessions on the same endpoint.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use futures::{Stream, StreamExt as _};
use layby_tests::{Host, Reply, Setup, chameleon, client, eventually, text};
use serde_json::{Value, json};

const REVISIONS: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];

/// A client of an older revision, with a session.
struct Older {
    http: reqwest::Client,
    url: String,
    session: String,
    version: String,
    extra: Vec<(&'static str, &'static str)>,
    next: Arc<AtomicU64>,
    begun: Value,
}

fn initialize(version: &str, capabilities: &Value) -> Value {
    let params = json!({ "protocolVersion": version, "capabilities": capabilities,
                         "clientInfo": { "name": "layby-tests", "version": "1" } });
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params })
}

fn plain(url: &str, extra: &[(&'static str, &'static str)]) -> reqwest::RequestBuilder {
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
    async fn begin(host: &Host, version: &str, capabilities: Value) -> Self {
        Self::begin_as(host, version, capabilities, &[]).await
    }

    async fn begin_as(
        host: &Host,
        version: &str,
        capabilities: Value,
        extra: &[(&'static str, &'static str)],
    ) -> Self {
        let request = plain(host.url(), extra).body(initialize(version, &capabilities).to_string());
        let reply = client::receive(request.send().await.unwrap()).await.unwrap();
        let begun = reply.result().clone();
        let session = reply.headers["mcp-session-id"].to_str().unwrap().to_owned();
        let this = Self {
            http: client::http(),
            url: host.url().to_owned(),
            session,
            version: begun["protocolVersion"].as_str().unwrap().to_owned(),
            extra: extra.to_vec(),
            next: Arc::new(AtomicU64::new(1)),
            begun,
        };
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(this.post(&note).send().await.unwrap().status().as_u16(), 202);
        this
    }

    fn with_session(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        let request = request.header("mcp-session-id", &self.session);
        // The oldest of them knows no such header.
        if self.version == "2025-03-26" {
            return request;
        }
        request.header("mcp-protocol-version", &self.version)
    }

    fn post(&self, body: &Value) -> reqwest::RequestBuilder {
        self.with_session(plain(&self.url, &self.extra)).body(body.to_string())
    }

    fn body(&self, method: &str, params: &Value) -> Value {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    async fn request(&self, method: &str, params: Value) -> Reply {
        let response = self.post(&self.body(method, &params)).send().await.unwrap();
        client::receive(response).await.unwrap()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Reply {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// The session's own stream.
    async fn stream(&self) -> impl Stream<Item = Value> + Unpin + use<> {
        let get = self.http.get(&self.url).header("accept", "text/event-stream");
        let response = self.with_session(get).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        client::messages(response)
    }
}

async fn next(stream: &mut (impl Stream<Item = Value> + Unpin)) -> Value {
    let next = tokio::time::timeout(layby_tests::wait::BOUND, stream.next()).await;
    next.expect("a message comes in time").expect("the stream is open")
}

#[tokio::test]
async fn every_older_revision_is_served_beside_today_s() {
    let host = Setup::new().plugin("echo", "").start().await;
    for version in REVISIONS {
        let old = Older::begin(&host, version, json!({})).await;
        assert_eq!(old.begun["protocolVersion"], version);
        assert_eq!(old.begun["serverInfo"]["name"], "layby");
        assert_eq!(old.begun["capabilities"].get("extensions"), None, "no tasks: {}", old.begun);
        let tools = old.request("tools/list", json!({})).await;
        assert_eq!(tools.result()["tools"][0]["name"], "echo");
        for modern in ["resultType", "ttlMs", "cacheScope"] {
            assert_eq!(tools.result().get(modern), None, "{modern}");
        }
        assert_eq!(text(old.call("echo", json!({ "text": "x" })).await.result()), "x");
        assert_eq!(old.request("ping", json!({})).await.result(), &json!({}));
        assert_eq!(old.request("no/such", json!({})).await.rpc(), -32601);
        assert_eq!(old.request("tasks/get", json!({ "taskId": "x" })).await.rpc(), -32601);
        assert_eq!(text(host.client().call("echo", json!({ "text": "y" })).await.result()), "y");
    }
    // One that names today's revision with a handshake is from yesterday.
    let old = Older::begin(&host, "2026-07-28", json!({})).await;
    assert_eq!(old.begun["protocolVersion"], "2025-11-25");
    // A request without a session and without today's metadata is told both ways.
    let lost = plain(host.url(), &[]).body(old.body("tools/list", &json!({})).to_string());
    let lost = client::receive(lost.send().await.unwrap()).await.unwrap();
    assert_eq!((lost.status, lost.code()), (400, "meta_missing"));
}

#[tokio::test]
async fn an_older_client_is_never_given_a_task() {
    let host = Setup::probe("[call]\ndeadline = \"100ms\"\nhold = \"1s\"").start().await;
    let capabilities = json!({ "extensions": { client::TASKS: {} } });
    let old = Older::begin(&host, "2025-11-25", capabilities).await;
    assert!(text(old.call("nap", json!({ "ms": 400 })).await.result()).contains("400"));
    let over = old.call("nap", json!({ "ms": 5000 })).await;
    assert_eq!((over.rpc(), over.code()), (-32603, "held_too_long"));
    assert!(host.tasks().await.is_empty());
}

#[tokio::test]
async fn a_session_is_its_principal_s_and_ends_when_told() {
    let host = Setup::new().plugin("echo", "").config("[serve]\nmax-sessions = 2").start().await;
    let mine = Older::begin(&host, "2025-06-18", json!({})).await;
    let other = Older::begin_as(&host, "2025-06-18", json!({}), &[("x-forwarded-for", "10.0.0.1")]).await;
    let thief = Older { session: mine.session.clone(), ..other };
    let stolen = thief.call("echo", json!({ "text": "x" })).await;
    assert_eq!((stolen.status, stolen.code()), (404, "session_unknown"));
    let delete = |old: &Older| old.with_session(plain(&old.url, &old.extra)).build().unwrap();
    let ended = async |old: &Older| {
        let mut request = delete(old);
        *request.method_mut() = reqwest::Method::DELETE;
        old.http.execute(request).await.unwrap().status().as_u16()
    };
    assert_eq!(ended(&thief).await, 404);
    let get = thief.with_session(plain(host.url(), &thief.extra)).build().unwrap();
    let mut get = get;
    *get.method_mut() = reqwest::Method::GET;
    assert_eq!(thief.http.execute(get).await.unwrap().status().as_u16(), 404);
    // Both places are taken.
    let third = plain(host.url(), &[]).body(initialize("2025-06-18", &json!({})).to_string());
    let third = client::receive(third.send().await.unwrap()).await.unwrap();
    assert_eq!((third.status, third.code()), (503, "too_many_sessions"));
    assert!(third.headers.contains_key("retry-after"));
    assert_eq!(text(mine.call("echo", json!({ "text": "x" })).await.result()), "x");
    // An ended one makes room, and is unknown from then on.
    assert_eq!(ended(&mine).await, 202);
    assert_eq!(mine.call("echo", json!({ "text": "x" })).await.status, 404);
    eventually("a place", || async {
        let again = plain(host.url(), &[]).body(initialize("2025-06-18", &json!({})).to_string());
        (again.send().await.unwrap().status() == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_idle_session_ends() {
    let host = Setup::new().plugin("echo", "").config("[serve]\nsession-idle = \"300ms\"").start().await;
    let old = Older::begin(&host, "2025-11-25", json!({})).await;
    eventually("the end of an idle session", || async {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        (old.call("echo", json!({ "text": "x" })).await.status == 404).then_some(())
    })
    .await;
}

#[tokio::test]
async fn progress_comes_with_the_call_and_log_messages_from_the_level_on() {
    let host = Setup::probe("").start().await;
    let old = Older::begin(&host, "2025-11-25", json!({})).await;
    let mut stream = old.stream().await;
    let body = json!({ "name": "report", "arguments": { "count": 3 }, "_meta": { "progressToken": "p" } });
    let reply = old.request("tools/call", body).await;
    reply.result();
    let (told, last) = reply.stream.split_at(reply.stream.len() - 1);
    assert!(!told.is_empty(), "{:?}", reply.stream);
    assert!(told.iter().all(|m| m["method"] == "notifications/progress"), "{told:?}");
    assert_eq!(told[0]["params"]["progressToken"], "p");
    assert!(last[0].get("result").is_some());
    // Until it sets a level, what a person wants to see.
    let heard = async |stream: &mut _| {
        old.call("log", json!({ "text": "t" })).await.result();
        let mut levels = Vec::new();
        loop {
            let message = next(stream).await;
            assert_eq!(message["method"], "notifications/message");
            let level = message["params"]["level"].as_str().unwrap().to_owned();
            levels.push(level.clone());
            if level == "critical" {
                return levels;
            }
        }
    };
    assert_eq!(heard(&mut stream).await, ["info", "notice", "warning", "error", "critical"]);
    assert_eq!(old.request("logging/setLevel", json!({ "level": "error" })).await.result(), &json!({}));
    assert_eq!(heard(&mut stream).await, ["error", "critical"]);
    assert_eq!(old.request("logging/setLevel", json!({ "level": "debug" })).await.result(), &json!({}));
    assert_eq!(heard(&mut stream).await.len(), 6);
    assert_eq!(old.request("logging/setLevel", json!({ "level": "loud" })).await.rpc(), -32602);
}

#[tokio::test]
async fn a_session_is_told_of_lists_and_takes_subscriptions() {
    let host = Setup::probe("").start().await;
    let old = Older::begin(&host, "2025-11-25", json!({})).await;
    let mut stream = old.stream().await;
    host.put("pet", &chameleon::version("1", "pet"), "");
    assert_eq!(next(&mut stream).await["method"], "notifications/tools/list_changed");
    let uri = json!({ "uri": "test://a" });
    assert_eq!(old.request("resources/subscribe", uri.clone()).await.result(), &json!({}));
    assert_eq!(old.request("resources/unsubscribe", uri).await.result(), &json!({}));
    old.call("changed", json!({ "what": ["tools"] })).await.result();
    assert_eq!(next(&mut stream).await["method"], "notifications/tools/list_changed");
    let long = json!({ "uri": "x".repeat(3000) });
    assert_eq!(old.request("resources/subscribe", long).await.code(), "subscription_too_large");
}

#[tokio::test]
async fn a_cancelled_call_stops_and_a_host_that_stops_ends_its_streams() {
    let mut host = Setup::probe("").start().await;
    let old = Older::begin(&host, "2025-11-25", json!({})).await;
    let call =
        old.body("tools/call", &json!({ "name": "nap", "arguments": { "ms": 30_000, "step_ms": 20 } }));
    let flying = tokio::spawn(old.post(&call).send());
    // Its stream opens at once; then it can be cancelled.
    let response = flying.await.unwrap().unwrap();
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": call["id"] } });
    assert_eq!(old.post(&note).send().await.unwrap().status().as_u16(), 202);
    let mut rest = client::messages(response);
    let ended = tokio::time::timeout(layby_tests::wait::BOUND, rest.next()).await;
    assert!(ended.is_ok(), "the stream of a cancelled call ends");
    let mut stream = old.stream().await;
    let slow = tokio::spawn(
        old.post(&old.body("tools/call", &json!({ "name": "nap", "arguments": { "ms": 1000 } }))).send(),
    );
    let slow = slow.await.unwrap().unwrap();
    host.signal("TERM");
    let answer = client::receive(slow).await.unwrap();
    assert!(text(answer.result()).contains("1000"), "a call in flight is answered: {}", answer.message);
    assert_eq!(stream.next().await, None);
    assert_eq!(host.ended().await, Some(0));
}

/// Calls `ask`, answers each of its questions with `answer`, and returns those questions and the tool's text.
async fn asked(old: &Older, arguments: Value, answer: impl Fn(&Value) -> Value) -> (Vec<Value>, String) {
    let body = old.body("tools/call", &json!({ "name": "ask", "arguments": arguments }));
    let mut stream = client::messages(old.post(&body).send().await.unwrap());
    let mut questions = Vec::new();
    loop {
        let message = next(&mut stream).await;
        if message["id"] == body["id"] && message.get("method").is_none() {
            return (
                questions,
                message["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned(),
            );
        }
        let mut reply = answer(&message);
        reply["jsonrpc"] = "2.0".into();
        reply["id"] = message["id"].clone();
        questions.push(message);
        assert_eq!(old.post(&reply).send().await.unwrap().status().as_u16(), 202);
    }
}

#[tokio::test]
async fn questions_are_pushed_on_the_stream_of_their_call() {
    let host = Setup::probe("[call]\nhold = \"5s\"").start().await;
    let capabilities = json!({ "elicitation": {}, "sampling": {}, "roots": {} });
    for version in ["2025-11-25", "2025-06-18"] {
        let old = Older::begin(&host, version, capabilities.clone()).await;
        let accept = |_: &Value| json!({ "result": { "action": "accept", "content": { "value": "v" } } });
        let (questions, said) = asked(&old, json!({ "rounds": 2 }), accept).await;
        assert_eq!(questions.len(), 2);
        assert_eq!(questions[0]["method"], "elicitation/create");
        assert!(
            questions[0]["params"]["requestedSchema"]["properties"]["value"].is_object(),
            "{}",
            questions[0]
        );
        let said: Value = serde_json::from_str(&said).unwrap();
        let both = json!({ "count": 2, "answers": [{ "value": "v" }, { "value": "v" }], "error": null });
        assert_eq!(said, both);
    }
    let old = Older::begin(&host, "2025-11-25", capabilities).await;
    let decline = |_: &Value| json!({ "result": { "action": "decline" } });
    assert!(asked(&old, json!({}), decline).await.1.contains(r#"["declined"]"#));
    let message = |_: &Value| json!({ "result": { "role": "assistant", "model": "m", "content": { "type": "text", "text": "hi" } } });
    let (questions, said) = asked(&old, json!({ "kind": "sampling" }), message).await;
    assert_eq!(questions[0]["method"], "sampling/createMessage");
    assert!(said.contains("\"hi\""), "{said}");
    let roots = |_: &Value| json!({ "result": { "roots": [{ "uri": "file:///a" }] } });
    let (questions, said) = asked(&old, json!({ "kind": "roots" }), roots).await;
    assert_eq!(questions[0]["method"], "roots/list");
    assert!(said.contains("file:///a"), "{said}");
    // What does not fit, and what is refused, is an error to the plugin.
    let wrong = |_: &Value| json!({ "result": { "action": "accept", "content": { "value": 5 } } });
    let said = asked(&old, json!({}), wrong).await.1;
    assert!(said.contains(r#""count":0"#) && !said.contains(r#""error":null"#), "{said}");
    let refused = |_: &Value| json!({ "error": { "code": -1, "message": "no" } });
    let said = asked(&old, json!({ "kind": "sampling" }), refused).await.1;
    assert!(said.contains(r#""count":0"#) && !said.contains(r#""error":null"#), "{said}");
    // What the client did not declare is not asked.
    let old = Older::begin(&host, "2025-11-25", json!({})).await;
    let (questions, said) = asked(&old, json!({}), decline).await;
    assert!(questions.is_empty() && said.contains("cannot answer"), "{questions:?} {said}");
    assert!(host.tasks().await.is_empty());
}

#[tokio::test]
async fn a_question_that_nobody_answers_is_withdrawn() {
    let host = Setup::probe("[call]\npush-wait = \"500ms\"").start().await;
    let old = Older::begin(&host, "2025-11-25", json!({ "elicitation": {} })).await;
    let body = old.body("tools/call", &json!({ "name": "ask", "arguments": {} }));
    let mut stream = client::messages(old.post(&body).send().await.unwrap());
    let question = next(&mut stream).await;
    assert_eq!(question["method"], "elicitation/create");
    let answer = loop {
        let message = next(&mut stream).await;
        if message["id"] == body["id"] {
            break message;
        }
    };
    assert!(text(&answer["result"]).contains(r#""count":0"#), "{answer}");
}
