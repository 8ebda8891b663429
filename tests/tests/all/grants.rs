//! Deny by default (P12): a plugin reaches what the operator granted, and nothing else.

use std::{fs, os::unix::fs::symlink};

use layby_tests::{Host, Setup, text};
use serde_json::{Value, json};

async fn call(host: &Host, tool: &str, arguments: Value) -> Value {
    host.client().call(tool, arguments).await.result().clone()
}

fn failed(result: &Value) -> bool {
    result["isError"] == true
}

#[tokio::test]
async fn nothing_is_granted_by_default() {
    let host = Setup::new().plugin("probe", "").env("SECRET_OF_THE_HOST", "hunter2").start().await;
    let env = call(&host, "env", json!({})).await;
    let shown: Value = serde_json::from_str(text(&env)).unwrap();
    assert_eq!(shown["env"], json!({}));
    for path in ["/", "/etc/passwd", "/files", ".", "layby.toml", "../data/layby.db"] {
        assert!(failed(&call(&host, "read", json!({ "path": path })).await), "{path}");
        assert!(failed(&call(&host, "list", json!({ "path": path })).await), "{path}");
        assert!(failed(&call(&host, "write", json!({ "path": path, "text": "x" })).await), "{path}");
    }
    let port = host.port();
    let connect = call(&host, "connect", json!({ "address": "127.0.0.1", "port": port })).await;
    assert!(failed(&connect) && text(&connect).contains("denied"), "{connect}");
    let look_up =
        call(&host, "connect", json!({ "address": "127.0.0.1", "port": port, "look_up": "localhost" })).await;
    assert!(failed(&look_up) && text(&look_up).starts_with("look-up: "), "{look_up}");
    let ask = host.client().call("ask", json!({ "insist": true })).await;
    assert_eq!(ask.code(), "plugin_unsupported");
    // What it is made of says nothing of the host.
    for result in [&env, &connect, &look_up] {
        assert!(!result.to_string().contains("hunter2"));
    }
}

#[tokio::test]
async fn a_granted_folder_is_all_of_the_disk_there_is() {
    let setup = Setup::new();
    let (files, root) = (setup.files(), setup.root().to_owned());
    fs::write(root.join("outside.txt"), "a secret").unwrap();
    fs::create_dir(files.join("deep")).unwrap();
    fs::write(files.join("deep/inside.txt"), "a note").unwrap();
    symlink(root.join("outside.txt"), files.join("absolute")).unwrap();
    symlink("../outside.txt", files.join("relative")).unwrap();
    symlink("..", files.join("up")).unwrap();
    symlink("deep/inside.txt", files.join("fine")).unwrap();
    let fifo = std::process::Command::new("mkfifo").arg(files.join("pipe")).status();
    let policy = format!("[grants]\nfiles = [{}]", setup.grant(false));
    let host = setup.plugin("probe", &policy).start().await;
    for path in ["/files/deep/inside.txt", "/files/./deep/../deep/inside.txt", "/files/fine"] {
        assert_eq!(text(&call(&host, "read", json!({ "path": path })).await), "a note", "{path}");
    }
    assert_eq!(text(&call(&host, "list", json!({ "path": "/files/deep" })).await), "[\"inside.txt\"]");
    for path in [
        "/files/absolute",
        "/files/relative",
        "/files/up/outside.txt",
        "/files/../outside.txt",
        "/files/deep/../../outside.txt",
        "/outside.txt",
        "/etc/passwd",
    ] {
        let read = call(&host, "read", json!({ "path": path })).await;
        assert!(failed(&read), "{path}: {read}");
        assert!(!read.to_string().contains("a secret"), "{path}");
        let list = call(&host, "list", json!({ "path": path })).await;
        assert!(failed(&list), "{path}: {list}");
    }
    assert!(failed(&call(&host, "list", json!({ "path": "/files/up" })).await));
    // Only regular files and folders open: a pipe would hold the thread that opens it.
    if fifo.is_ok_and(|s| s.success()) {
        assert!(failed(&call(&host, "read", json!({ "path": "/files/pipe" })).await));
    }
    // Not to be written.
    for path in ["/files/new.txt", "/files/deep/inside.txt"] {
        let write = call(&host, "write", json!({ "path": path, "text": "changed" })).await;
        assert!(failed(&write), "{path}: {write}");
    }
    assert_eq!(fs::read_to_string(files.join("deep/inside.txt")).unwrap(), "a note");
    assert!(!files.join("new.txt").exists());
}

#[tokio::test]
async fn a_writable_folder_takes_files_and_keeps_them_inside() {
    let setup = Setup::new();
    let files = setup.files();
    symlink("../escaped.txt", files.join("link")).unwrap();
    let policy = format!("[grants]\nfiles = [{}]", setup.grant(true));
    let host = setup.plugin("probe", &policy).start().await;
    let write = call(&host, "write", json!({ "path": "/files/new.txt", "text": "hello" })).await;
    assert_eq!(text(&write), "wrote 5 bytes");
    assert_eq!(fs::read_to_string(files.join("new.txt")).unwrap(), "hello");
    for path in ["/files/link", "/files/../escaped.txt", "/escaped.txt"] {
        assert!(failed(&call(&host, "write", json!({ "path": path, "text": "x" })).await), "{path}");
    }
    assert!(!host.setup().root().join("escaped.txt").exists());
}

#[tokio::test]
async fn a_secret_is_a_placeholder_inside_the_sandbox() {
    let policy = "[grants]\nenv = { REGION = \"eu\", TOKEN = { secret = \"WEATHER_TOKEN\" } }";
    let host = Setup::new().plugin("probe", policy).env("WEATHER_TOKEN", "hunter2").start().await;
    let env = call(&host, "env", json!({})).await;
    let shown: Value = serde_json::from_str(text(&env)).unwrap();
    assert_eq!(shown["env"]["REGION"], "eu");
    let token = shown["env"]["TOKEN"].as_str().unwrap();
    assert!(!token.is_empty() && !token.contains("hunter2"), "{shown}");
    assert_eq!(shown["env"].as_object().unwrap().len(), 2);
    assert!(!host.log().contains("hunter2"));
}

#[tokio::test]
async fn clocks_move_and_random_numbers_differ() {
    let host = Setup::new().plugin("probe", "").start().await;
    let clock = call(&host, "clock", json!({ "ms": 50 })).await;
    let clock: Value = serde_json::from_str(text(&clock)).unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    assert!(clock["wall_ms"].as_u64().unwrap().abs_diff(now) < 60_000, "{clock}");
    for passed in ["wall_passed_ms", "monotonic_passed_ms"] {
        assert!((50..10_000).contains(&clock[passed].as_u64().unwrap()), "{clock}");
    }
    let mut seen = std::collections::HashSet::new();
    for _ in 0..3 {
        let random: Value = serde_json::from_str(text(&call(&host, "random", json!({})).await)).unwrap();
        for number in random["numbers"].as_array().unwrap() {
            assert!(seen.insert(number.to_string()), "{number} twice");
        }
    }
}
