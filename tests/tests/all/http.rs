//! The wire: headers, statuses, and what is refused before any tool runs.

use futures::StreamExt as _;
use layby_tests::{Reply, Setup, client, client::PROTOCOL, error_code, text};
use serde_json::{Value, json};

/// Sends `body` as it is, with these headers over the usual ones; an empty value drops the header.
async fn raw(url: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    let mut all = vec![
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", PROTOCOL),
        ("mcp-method", "tools/list"),
    ];
    for (name, value) in headers {
        all.retain(|(known, _)| known != name);
        if !value.is_empty() {
            all.push((name, value));
        }
    }
    let mut request = client::http().post(url).body(body.to_owned());
    for (name, value) in all {
        request = request.header(name, value);
    }
    client::read(request.send().await.unwrap()).await.unwrap()
}

fn meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": PROTOCOL,
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

fn list() -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta() } }).to_string()
}

fn request(method: &str, mut params: Value) -> String {
    params["_meta"] = meta();
    json!({ "jsonrpc": "2.0", "id": 7, "method": method, "params": params }).to_string()
}

#[tokio::test]
async fn only_its_own_host_and_origin_are_served() {
    let config = "[serve]\nallowed-hosts = [\"tools.example\"]\nallowed-origins = [\"https://app.example\"]";
    let host = Setup::new().config(config).start().await;
    let port = host.port();
    let own = format!("localhost:{port}");
    for (name, value, status) in [
        ("host", own.as_str(), 200),
        ("host", "tools.example", 200),
        ("host", "evil.example", 403),
        ("host", "127.0.0.1:1", 403),
        ("origin", "https://app.example", 200),
        ("origin", &format!("http://127.0.0.1:{port}"), 200),
        ("origin", "https://evil.example", 403),
        ("origin", "null", 403),
    ] {
        let reply = raw(host.url(), &[(name, value)], &list()).await;
        assert_eq!(reply.status, status, "{name}: {value}");
        if status == 403 {
            assert_eq!(error_code(&reply.message), "host_or_origin_refused");
        }
    }
}

#[tokio::test]
async fn headers_must_say_what_the_body_says() {
    let host = Setup::new().plugin("echo", "").start().await;
    let call = request("tools/call", json!({ "name": "echo", "arguments": { "text": "x" } }));
    let good = [("mcp-method", "tools/call"), ("mcp-name", "echo")];
    assert_eq!(text(raw(host.url(), &good, &call).await.result()), "x");
    // Names that no header can carry come in base64.
    let coded = [("mcp-method", "tools/call"), ("mcp-name", "=?base64?ZWNobw==?=")];
    assert_eq!(text(raw(host.url(), &coded, &call).await.result()), "x");
    for headers in [
        vec![("mcp-method", "tools/call"), ("mcp-name", "other")],
        vec![("mcp-method", "tools/call"), ("mcp-name", "=?base64?!!?=")],
        vec![("mcp-method", "tools/call")],
        vec![("mcp-method", "tools/list"), ("mcp-name", "echo")],
        vec![("mcp-method", ""), ("mcp-name", "echo")],
        vec![("mcp-method", "tools/call"), ("mcp-name", "echo"), ("mcp-protocol-version", "2025-11-25")],
        vec![("mcp-method", "tools/call"), ("mcp-name", "echo"), ("mcp-protocol-version", "")],
    ] {
        let reply = raw(host.url(), &headers, &call).await;
        assert_eq!(
            (reply.status, reply.rpc(), reply.code()),
            (400, -32020, "header_mismatch"),
            "{headers:?}"
        );
        assert_eq!(reply.message["id"], 7);
    }
    // The extension's methods: a mismatch counts, a missing header does not.
    let get = request("tasks/get", json!({ "taskId": "99999999-9999-4999-8999-999999999999" }));
    let mismatch = raw(host.url(), &[("mcp-method", "tasks/get"), ("mcp-name", "other")], &get).await;
    assert_eq!(mismatch.rpc(), -32020);
    let missing = raw(host.url(), &[("mcp-method", "tasks/get")], &get).await;
    assert_eq!((missing.status, missing.rpc()), (400, -32021));
}

#[tokio::test]
async fn a_parameter_that_a_header_mirrors_must_equal_it() {
    let host = Setup::new().plugin("conformance", "").start().await;
    let client = host.client();
    let tools = client.tools().await;
    let tool = tools.iter().find(|t| t["name"] == "test_custom_header").unwrap();
    let header = tool["inputSchema"]["properties"]["value"]["x-mcp-header"].as_str().unwrap().to_lowercase();
    let name = format!("mcp-param-{header}");
    let call = |value: &str| client.clone().header(&name, value);
    let good = call("hello").call("test_custom_header", json!({ "value": "hello" })).await;
    assert!(text(good.result()).contains("hello"));
    for (headed, argument) in [("hello", "other"), ("", "hello")] {
        let client = if headed.is_empty() { client.clone() } else { call(headed) };
        let reply = client.call("test_custom_header", json!({ "value": argument })).await;
        assert_eq!((reply.status, reply.rpc()), (400, -32020), "{headed:?} {argument}");
    }
}

#[tokio::test]
async fn messages_that_are_none_are_refused_by_their_kind() {
    let host = Setup::new().start().await;
    let url = host.url();
    for (body, status, rpc) in [
        ("{", 400, -32700),
        ("", 400, -32700),
        ("[]", 400, -32600),
        ("5", 400, -32600),
        (r#"{"id":1,"method":"tools/list"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"tools/list"}"#, 400, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, 400, -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{}}}"#, 400, -32602),
    ] {
        let reply = raw(url, &[], body).await;
        assert_eq!((reply.status, reply.rpc()), (status, rpc), "{body}: {}", reply.message);
    }
    let missing =
        raw(url, &[], r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{}}}"#).await;
    assert_eq!(missing.code(), "meta_missing");
    // Notifications are taken and dropped.
    let note = r#"{"jsonrpc":"2.0","method":"notifications/whatever"}"#;
    assert_eq!(raw(url, &[], note).await.status, 202);
    for method in ["no/such", "ping", "initialize", "tools/delete"] {
        let reply = raw(url, &[("mcp-method", method)], &request(method, json!({}))).await;
        assert_eq!((reply.status, reply.rpc()), (404, -32601), "{method}: {}", reply.message);
        assert_eq!(reply.message["id"], 7);
    }
    for (method, params) in [
        ("tools/call", json!({ "name": 5 })),
        ("tools/call", json!({ "arguments": {} })),
        ("tools/call", json!({ "name": "x", "arguments": [] })),
        ("tasks/get", json!({})),
        ("tasks/get", json!({ "taskId": 5 })),
        ("tasks/update", json!({ "taskId": "x", "inputResponses": 5 })),
        ("tools/list", json!({ "cursor": "elsewhere" })),
    ] {
        let name = params["name"].as_str().or_else(|| params["taskId"].as_str()).unwrap_or_default();
        let reply =
            raw(url, &[("mcp-method", method), ("mcp-name", name)], &request(method, params.clone())).await;
        assert_eq!(reply.rpc(), -32602, "{method} {params}: {}", reply.message);
    }
}

#[tokio::test]
async fn other_methods_types_sizes_and_paths_have_their_status() {
    let host = Setup::new().config("[serve]\nmax-body = \"64KiB\"").start().await;
    let (url, http) = (host.url(), client::http());
    let get = http.get(url).send().await.unwrap();
    assert_eq!((get.status().as_u16(), get.headers()["allow"].to_str().unwrap()), (405, "POST"));
    assert_eq!(http.delete(url).send().await.unwrap().status().as_u16(), 405);
    assert_eq!(raw(url, &[("content-type", "text/plain")], &list()).await.status, 415);
    assert_eq!(raw(url, &[("content-type", "application/json; charset=utf-8")], &list()).await.status, 200);
    for accept in ["application/json", "text/event-stream", "text/html"] {
        assert_eq!(raw(url, &[("accept", accept)], &list()).await.status, 406, "{accept}");
    }
    assert_eq!(raw(url, &[("accept", "*/*")], &list()).await.status, 200);
    let large = raw(url, &[], &format!("{}{}", list(), " ".repeat(70_000))).await;
    assert_eq!((large.status, large.code()), (413, "body_too_large"));
    assert_eq!(http.get(format!("{}/nowhere", host.base())).send().await.unwrap().status().as_u16(), 404);
    for (path, status) in [("/health", "ok"), ("/ready", "ready")] {
        let body: Value =
            http.get(format!("{}{path}", host.base())).send().await.unwrap().json().await.unwrap();
        assert_eq!(body["status"], status);
    }
    assert_eq!(http.post(format!("{}/health", host.base())).send().await.unwrap().status().as_u16(), 405);
}

#[tokio::test]
async fn an_address_that_others_reach_needs_a_word_from_the_operator() {
    let refused = Setup::new();
    let listen = |address: &str| layby_tests::command::layby(refused.root(), ["serve", "--listen", address]);
    let done = layby_tests::command::run(listen("0.0.0.0:0")).await;
    assert!(done.code.is_some_and(|code| code != 0), "{done:?}");
    for part in ["0.0.0.0", "loopback", "--allow-unauthenticated"] {
        assert!(done.err.contains(part), "{part} is missing in {done:?}");
    }
    let taken = Setup::new().start().await;
    let address = format!("127.0.0.1:{}", taken.port());
    let done = layby_tests::command::run(listen(&address)).await;
    assert!(done.code.is_some_and(|code| code != 0) && done.err.contains(&address), "{done:?}");
}

#[tokio::test]
async fn polling_far_too_fast_is_told_to_wait() {
    let host = Setup::probe("[call]\ndeadline = \"100ms\"").start().await;
    let client = host.client();
    let id = client.task("nap", json!({ "ms": 3000 })).await;
    let other = client.task("nap", json!({ "ms": 3000 })).await;
    let mut refused = None;
    for _ in 0..200 {
        let reply = client.get(&id).await;
        if reply.status == 429 {
            refused = Some(reply);
            break;
        }
    }
    let refused = refused.expect("200 polls without a pause are too many");
    assert_eq!(refused.code(), "polling_too_fast");
    let wait: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=5).contains(&wait), "{wait}");
    // Only that task's polls.
    assert_eq!(client.get(&other).await.status, 200);
    client.status(&id, "completed").await;
}

#[tokio::test]
async fn subscriptions_open_by_what_they_ask_for() {
    let host = Setup::new().config("[serve]\nmax-subscriptions = 2").start().await;
    let client = host.client();
    let mut first = client.stream("subscriptions/listen", json!({ "notifications": {} })).await;
    let opened = first.next().await.unwrap();
    assert_eq!(opened["params"]["notifications"], json!({}));
    let mut second =
        client.stream("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })).await;
    second.next().await.unwrap();
    let past = client.request("subscriptions/listen", json!({ "notifications": {} })).await;
    assert_eq!((past.status, past.code()), (429, "too_many_subscriptions"));
    drop(first);
    layby_tests::eventually("a place", || async {
        let response = client
            .post(&client.body("subscriptions/listen", json!({ "notifications": {} })))
            .send()
            .await
            .unwrap();
        (response.status() == 200).then_some(())
    })
    .await;
}

/// Sends `head` and an empty line as they are; the status line of the answer, if one comes.
async fn bare(port: u16, head: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut socket = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    socket.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    let mut taken = Vec::new();
    let read = async {
        let mut some = [0; 4096];
        while !taken.contains(&b'\r') {
            match socket.read(&mut some).await {
                Ok(0) | Err(_) => break,
                Ok(n) => taken.extend_from_slice(&some[..n]),
            }
        }
    };
    tokio::time::timeout(layby_tests::wait::BOUND, read).await.expect("an answer or an end");
    String::from_utf8_lossy(&taken).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_head_says_one_host_and_keeps_its_bounds() {
    let host = Setup::new().start().await;
    let port = host.port();
    let own = format!("Host: localhost:{port}\r\n");
    for (head, status) in [
        (format!("GET /health HTTP/1.1\r\n{own}"), "200"),
        (format!("GET /health HTTP/1.1\r\n{own}{own}"), "403"),
        (format!("GET /health HTTP/1.1\r\n{own}Host: evil.example\r\n"), "403"),
        (format!("GET http://evil.example/health HTTP/1.1\r\n{own}"), "403"),
        (format!("GET http://localhost:{port}/health HTTP/1.1\r\n{own}"), "200"),
        (format!("GET /health HTTP/1.1\r\n{own}X-Long: {}\r\n", "x".repeat(33 * 1024)), "431"),
        (format!("GET /health HTTP/1.1\r\n{own}{}", "X-Many: 1\r\n".repeat(120)), "431"),
    ] {
        let answer = bare(port, &head).await;
        assert!(answer.contains(status), "{} -> {answer:?}", head.lines().next().unwrap_or_default());
    }
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_let_go() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let setup =
        Setup::new().plugin("echo", "").config("[serve]\nwrite-timeout = \"500ms\"\nmax-body = \"16MiB\"");
    let host = setup.config("[limits]\narguments = \"16MiB\"\noutput = \"16MiB\"").start().await;
    let long = "x".repeat(12 * 1024 * 1024);
    let body = request("tools/call", json!({ "name": "echo", "arguments": { "text": long } }));
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost:{}\r\nContent-Type: application/json\r\nMcp-Method: tools/call\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {PROTOCOL}\r\nMcp-Name: echo\r\n\
         Content-Length: {}\r\n\r\n",
        host.port(),
        body.len()
    );
    let mut socket = tokio::net::TcpStream::connect(("127.0.0.1", host.port())).await.unwrap();
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(body.as_bytes()).await.unwrap();
    // More than the buffers of both ends hold is on its way; nobody takes it until long after the time-out.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let mut taken = Vec::new();
    let ended = tokio::time::timeout(layby_tests::wait::BOUND, socket.read_to_end(&mut taken)).await;
    assert!(ended.is_ok(), "the connection was kept");
    assert!(taken.len() < long.len(), "all {} bytes came", taken.len());
}
