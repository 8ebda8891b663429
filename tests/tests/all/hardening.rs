//! Faults that somebody found by trying to break the host: each stays found.

use std::time::{Duration, Instant};

use layby_tests::{Setup, chameleon, command, eventually, result_code, text};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

fn nested(levels: u32) -> Value {
    (0..levels).fold(json!(5), |inner, _| json!({ "a": inner }))
}

/// Two references to the root double the cost of a check with every level of the arguments.
#[tokio::test]
async fn a_schema_that_multiplies_stops_nothing() {
    let twice = json!([{ "$ref": "#" }, { "$ref": "#" }]);
    let schema = json!({
        "type": "object", "properties": { "a": { "anyOf": twice } }, "not": { "required": ["z"] },
    });
    let tools = json!([{ "name": "bomb", "description": "d", "inputSchema": schema }]);
    let host = Setup::new().file("bomb", &chameleon::with_tools("1", &tools), "").start().await;
    let client = host.client();
    let shallow = client.call("bomb", json!({ "a": 5 })).await;
    assert!(shallow.message["result"].is_object(), "{}", shallow.message);
    for levels in [20, 60] {
        let start = Instant::now();
        let refused = client.call("bomb", nested(levels)).await;
        assert_eq!(result_code(refused.result()), "arguments_invalid");
        assert!(text(refused.result()).contains("steps"), "{}", text(refused.result()));
        // It took 12 s and for ever.
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

/// A body that does not come to its end gives its connection back.
#[tokio::test]
async fn a_body_that_never_ends_is_cut_off() {
    let host = Setup::new().config("[serve]\nbody-timeout = \"500ms\"").start().await;
    let mut socket = TcpStream::connect(("127.0.0.1", host.port())).await.unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\ncontent-length: 100\r\n\r\n{{",
        host.port()
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = tokio::time::timeout(Duration::from_secs(10), socket.read_to_string(&mut answer)).await;
    read.expect("the connection is closed").unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("body_too_slow"), "{answer}");
}

/// Sends `first`, and then a byte every now and then, until the host has closed the connection; how long that took.
async fn trickle(port: u16, first: &str, then: u8) -> Duration {
    let start = Instant::now();
    let (mut reads, mut writes) = TcpStream::connect(("127.0.0.1", port)).await.unwrap().into_split();
    writes.write_all(first.as_bytes()).await.unwrap();
    let sends = async {
        while writes.write_all(&[then]).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        std::future::pending::<()>().await;
    };
    let ended = async {
        // An answer, an end, or a reset.
        let mut bytes = [0; 1024];
        while reads.read(&mut bytes).await.is_ok_and(|n| n > 0) {}
    };
    let ends = async {
        tokio::select! { () = sends => {}, () = ended => {} }
    };
    tokio::time::timeout(Duration::from_secs(20), ends).await.expect("the connection is closed");
    start.elapsed()
}

#[tokio::test]
async fn who_sends_byte_by_byte_is_let_go_and_others_are_served() {
    let config = "[serve]\nheader-timeout = \"1s\"\nbody-timeout = \"1s\"";
    let host = Setup::new().plugin("echo", "").config(config).start().await;
    let port = host.port();
    let line = "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\nx: ".to_owned();
    let head = "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
                accept: application/json, text/event-stream\r\ncontent-length: 100000\r\n\r\n";
    let slow = (0..20).map(|n| {
        let first = if n % 2 == 0 { line.clone() } else { head.to_owned() };
        async move { trickle(port, &first, b' ').await }
    });
    let client = host.client();
    let calls = async {
        for _ in 0..20 {
            let start = Instant::now();
            client.call("echo", json!({ "text": "x" })).await.result();
            assert!(start.elapsed() < Duration::from_secs(1), "a call waits for who is slow");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let (took, ()) = tokio::join!(futures::future::join_all(slow), calls);
    // As long as it is allowed, and not much longer, however busy the machine.
    assert!(
        took.iter().all(|t| (Duration::from_millis(900)..Duration::from_secs(10)).contains(t)),
        "{took:?}"
    );
}

/// A key that cannot be read must not pass as no key: the call would run twice.
#[tokio::test]
async fn an_unreadable_idempotency_key_is_refused() {
    let host = Setup::probe("").start().await;
    let refused = host.client().header("idempotency-key", "").call("say", json!({ "bytes": 1 })).await;
    assert_eq!(refused.code(), "idempotency_key_invalid");
    let long = "k".repeat(257);
    let refused = host.client().header("idempotency-key", &long).call("say", json!({ "bytes": 1 })).await;
    assert_eq!(refused.code(), "idempotency_key_invalid");
}

/// A repeat gets the stored outcome, whatever has become of the tool.
#[tokio::test]
async fn a_repeat_outlives_its_tool() {
    let one = |required: &[&str]| json!([{ "name": "t", "description": "d", "inputSchema": { "type": "object", "required": required } }]);
    let host = Setup::new().file("p", &chameleon::with_tools("1", &one(&[])), "").start().await;
    let client = host.client().meta("layby/idempotency-key", json!("k"));
    let first = client.call("t", json!({ "x": 1 })).await.result().clone();
    // The same tool wants another argument now.
    host.put("p", &chameleon::with_tools("2", &one(&["zz"])), "");
    let plain = host.client();
    eventually("the new version", || async {
        let answer = plain.call("t", json!({ "x": 1 })).await;
        (answer.message["result"]["_meta"]["layby/code"] == "arguments_invalid").then_some(())
    })
    .await;
    assert_eq!(*client.call("t", json!({ "x": 1 })).await.result(), first);
    // And now it is gone.
    std::fs::remove_file(host.setup().plugins().join("p.wasm")).unwrap();
    eventually("the removal", || async { plain.tool_names().await.is_empty().then_some(()) }).await;
    assert_eq!(*client.call("t", json!({ "x": 1 })).await.result(), first);
    let other = client.call("t", json!({ "x": 2 })).await;
    assert_eq!(other.code(), "idempotency_key_reused");
}

/// Errors that rmcp makes by itself have their code too.
#[tokio::test]
async fn every_error_has_a_code() {
    let host = Setup::new().start().await;
    let client = host.client();
    for method in ["ping", "no/such"] {
        let refused = client.request(method, json!({})).await;
        assert_eq!(refused.code(), "method_unknown", "{method}");
        let text = format!("Method not found: {method}");
        assert_eq!(refused.message["error"]["message"], text.as_str());
    }
    let bare = host.client_with(json!({}));
    assert_eq!(bare.get("x").await.code(), "missing_client_capability");
}

/// `layby inspect` reads files, and nothing that never ends.
#[tokio::test]
async fn inspect_reads_regular_files_only() {
    let setup = Setup::new();
    let done = command::run(command::layby(setup.root(), ["inspect", "/dev/zero", "--json"])).await;
    assert_eq!(done.json()["error"]["code"], "file_unreadable");
}

/// SIGTERM does not wait for a person.
#[tokio::test]
async fn a_question_does_not_hold_up_the_end() {
    let mut host = Setup::probe("[grants]\nask = [\"form\"]").start().await;
    host.client().task("ask", json!({})).await;
    let start = Instant::now();
    host.signal("TERM");
    assert_eq!(host.ended().await, Some(0));
    // `serve.drain` is 10 s.
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
}
