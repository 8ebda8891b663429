//! `layby stdio`: both eras over standard input and output.

use std::process::Stdio;

use layby_tests::{Setup, client, command, text, wait::BOUND};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout},
};

/// A running process, its input and its output.
struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
    _setup: Setup,
}

impl Process {
    fn start(setup: Setup) -> Self {
        // Makes the folder of compiled code and the configuration.
        drop(setup.command());
        let (plugins, data) = (setup.plugins(), setup.data());
        let args = ["stdio", "--config", "layby.toml", "--plugins"].map(std::ffi::OsString::from);
        let args = args.into_iter().chain([plugins.into(), "--data".into(), data.into()]);
        let mut command = command::layby(setup.root(), args);
        let log = std::fs::File::create(setup.root().join("stdio-log")).unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, input, output, _setup: setup }
    }

    async fn line(&mut self, line: &str) {
        self.input.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn send(&mut self, message: &Value) {
        self.line(&message.to_string()).await;
    }

    /// A request of today.
    async fn ask(&mut self, id: u64, method: &str, mut params: Value) {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": client::PROTOCOL,
            "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": client::everything(),
        });
        for (name, value) in meta.as_object().unwrap() {
            params["_meta"][name] = value.clone();
        }
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
    }

    /// A request of an older revision.
    async fn old(&mut self, id: u64, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
    }

    /// The next message; every line of output is one.
    async fn next(&mut self) -> Value {
        let line =
            tokio::time::timeout(BOUND, self.output.next_line()).await.expect("a message comes in time");
        let line = line.unwrap().expect("the output is open");
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// The next message with this id.
    async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Ends the input; what still comes, and the exit code.
    async fn end(mut self) -> (Vec<Value>, Option<i32>) {
        drop(self.input.take());
        let mut rest = Vec::new();
        while let Some(line) = tokio::time::timeout(BOUND, self.output.next_line()).await.unwrap().unwrap() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        let status = tokio::time::timeout(BOUND, self.child.wait()).await.expect("it ends").unwrap();
        (rest, status.code())
    }
}

#[tokio::test]
async fn a_client_of_today_has_all_of_it() {
    let mut process = Process::start(Setup::probe("[call]\ndeadline = \"300ms\""));
    process.ask(1, "server/discover", json!({})).await;
    let found = process.answer(1).await;
    assert_eq!(found["result"]["supportedVersions"], json!([client::PROTOCOL]));
    // The first list has the tools, however long they took.
    process.ask(2, "tools/list", json!({})).await;
    assert!(!process.answer(2).await["result"]["tools"].as_array().unwrap().is_empty());
    let report = json!({ "name": "report", "arguments": { "count": 2 }, "_meta": { "progressToken": 7 } });
    process.ask(3, "tools/call", report).await;
    let told = process.next().await;
    assert_eq!(
        (&told["method"], &told["params"]["progressToken"]),
        (&json!("notifications/progress"), &json!(7))
    );
    assert!(process.answer(3).await.get("result").is_some());
    // A task, and a subscription to it.
    process.ask(4, "tools/call", json!({ "name": "nap", "arguments": { "ms": 1500 } })).await;
    let task = process.answer(4).await["result"]["taskId"].as_str().unwrap().to_owned();
    process.ask(5, "subscriptions/listen", json!({ "notifications": { "taskIds": [task] } })).await;
    let opened = process.next().await;
    assert_eq!(opened["params"]["notifications"]["taskIds"], json!([task]));
    loop {
        let told = process.next().await;
        assert_eq!(told["method"], "notifications/tasks");
        assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 5);
        if told["params"]["status"] == "completed" {
            break;
        }
    }
    // What is cancelled is not answered; the next request is.
    process.ask(6, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })).await;
    process.next().await;
    for id in [5, 6] {
        let params = json!({ "requestId": id });
        process
            .send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))
            .await;
    }
    process.ask(7, "tools/list", json!({})).await;
    assert_eq!(process.next().await["id"], 7);
    let (rest, code) = process.end().await;
    assert_eq!((rest, code), (Vec::new(), Some(0)));
}

#[tokio::test]
async fn the_end_of_input_ends_everything_in_order() {
    let mut process = Process::start(Setup::new().plugin("echo", ""));
    process.ask(1, "subscriptions/listen", json!({ "notifications": {} })).await;
    process.next().await;
    // Whoever pipes one request into it gets its answer.
    process.ask(2, "tools/call", json!({ "name": "echo", "arguments": { "text": "x" } })).await;
    let (rest, code) = process.end().await;
    assert_eq!(code, Some(0));
    let of = |id: u64| rest.iter().find(|m| m["id"] == id && m.get("result").is_some());
    assert_eq!(text(&of(2).unwrap()["result"]), "x", "{rest:?}");
    assert_eq!(of(1).unwrap()["result"]["resultType"], "complete", "{rest:?}");
    assert!(rest.iter().any(|m| m["method"] == "notifications/cancelled"), "{rest:?}");
}

#[tokio::test]
async fn lines_that_are_no_message_are_answered_as_such() {
    let mut process = Process::start(Setup::new().config("[serve]\nmax-body = \"1KiB\""));
    for (line, code) in [
        ("{", -32700),
        ("[]", -32600),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, -32602),
        (&"x".repeat(3000), -32602),
    ] {
        process.line(line).await;
        assert_eq!(process.next().await["error"]["code"], code, "{line}");
    }
    process.line("").await;
    process.send(&json!({ "jsonrpc": "2.0", "method": "notifications/whatever" })).await;
    process.ask(2, "no/such", json!({})).await;
    assert_eq!(process.next().await["error"]["code"], -32601);
    assert_eq!(process.end().await.1, Some(0));
}

#[tokio::test]
async fn an_older_client_has_its_session_there() {
    let mut process = Process::start(Setup::probe(""));
    process.old(0, "ping", json!({})).await;
    assert_eq!(process.next().await["result"], json!({}));
    let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
                         "clientInfo": { "name": "t", "version": "1" } });
    process.old(1, "initialize", params).await;
    assert_eq!(process.answer(1).await["result"]["protocolVersion"], "2025-06-18");
    process.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
    process.old(2, "tools/list", json!({})).await;
    assert!(!process.answer(2).await["result"]["tools"].as_array().unwrap().is_empty());
    let report = json!({ "name": "report", "arguments": { "count": 2 }, "_meta": { "progressToken": 7 } });
    process.old(3, "tools/call", report).await;
    assert_eq!(process.next().await["method"], "notifications/progress");
    process.answer(3).await;
    // Both eras at once.
    process.ask(4, "tools/list", json!({})).await;
    assert_eq!(process.answer(4).await["result"]["resultType"], "complete");
    process
        .old(5, "tools/call", json!({ "name": "nap", "arguments": { "ms": 20_000, "step_ms": 20 } }))
        .await;
    let params = json!({ "requestId": 5 });
    process.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
    assert_eq!(process.end().await.1, Some(0));
}

#[tokio::test]
async fn a_signal_ends_it_too() {
    let mut process = Process::start(Setup::new());
    process.ask(1, "server/discover", json!({})).await;
    process.answer(1).await;
    let pid = process.child.id().unwrap().to_string();
    let sent = std::process::Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap();
    assert!(sent.success());
    let status = tokio::time::timeout(BOUND, process.child.wait()).await.expect("it ends").unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn a_client_that_reads_nothing_keeps_no_process_and_no_memory() {
    let ask = |id: u64| {
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": client::PROTOCOL,
                           "io.modelcontextprotocol/clientCapabilities": {} });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list", "params": { "_meta": meta } }).to_string()
    };
    let old = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" }).to_string();
    for kind in ["refused", "today", "older"] {
        let mut process = Process::start(Setup::probe(""));
        if kind == "older" {
            let params = json!({ "protocolVersion": "2025-06-18", "capabilities": {},
                                 "clientInfo": { "name": "t", "version": "1" } });
            process.old(0, "initialize", params).await;
            process.answer(0).await;
            process.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        }
        // Until nothing more is taken; all that is taken must be bounded.
        let mut taken = 0;
        for id in 1..200_000_u64 {
            let line = match kind {
                "refused" => "{".to_owned(),
                "today" => ask(id),
                _ => old(id),
            };
            let sent = tokio::time::timeout(std::time::Duration::from_secs(2), process.line(&line)).await;
            if sent.is_err() {
                break;
            }
            taken = id;
        }
        assert!(taken < 100_000, "{kind}: {taken} messages were taken, and no answer");
        let pid = process.child.id().unwrap().to_string();
        let sent = std::process::Command::new("kill").args(["-s", "TERM", &pid]).status().unwrap();
        assert!(sent.success());
        let ended = tokio::time::timeout(BOUND, process.child.wait()).await;
        assert_eq!(ended.expect("it ends").unwrap().code(), Some(0), "{kind}");
    }
}

#[tokio::test]
async fn a_slow_subscriber_is_let_go_with_the_reason() {
    let setup = Setup::probe("").config("[serve]\nwrite-timeout = \"1s\"");
    let mut process = Process::start(setup);
    let uri = format!("probe:///{}", "x".repeat(1900));
    process
        .ask(1, "subscriptions/listen", json!({ "notifications": { "resourceSubscriptions": [uri] } }))
        .await;
    assert_eq!(process.next().await["method"], "notifications/subscriptions/acknowledged");
    // Far more than a pipe and the queue before it hold; nobody reads for longer than half of the bound.
    let many = json!({ "name": "changed", "arguments": { "what": ["contents"], "uri": uri, "times": 3000 } });
    process.ask(2, "tools/call", many).await;
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let reason = loop {
        let told = process.next().await;
        if told["method"] == "notifications/cancelled" {
            break told["params"]["reason"].as_str().unwrap().to_owned();
        }
        assert!(told["method"] == "notifications/resources/updated" || told["id"] == 2, "{told}");
    };
    assert!(reason.contains("too long"), "{reason}");
    assert_eq!(process.answer(1).await["result"]["resultType"], "complete");
    // It can listen again.
    process.ask(3, "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })).await;
    loop {
        let told = process.next().await;
        if told["method"] == "notifications/subscriptions/acknowledged" {
            break;
        }
        assert_eq!(told["id"], 2, "{told}");
    }
    assert_eq!(process.end().await.1, Some(0));
}
