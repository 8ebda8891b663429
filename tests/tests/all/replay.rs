//! `layby replay` and `layby tasks export`: what a task did, done again offline.

use std::fs;

use layby_tests::{Host, Setup, guests};
use serde_json::{Value, json};

async fn host() -> Host {
    let policy = "[call]\ndeadline = \"100ms\"\nlinger = \"0s\"\n[grants]\nask = [\"form\"]\nenv = { PLACE = \"a-secret-place\" }";
    Setup::probe(policy).start().await
}

/// A task of three rounds that has ended.
async fn asked(host: &Host) -> String {
    let client = host.client();
    let id = client.task("ask", json!({ "rounds": 3, "after_ms": 20 })).await;
    for n in 0..3 {
        let task = client.status(&id, "input_required").await;
        let key =
            task["inputRequests"].as_object().and_then(|asked| asked.keys().next()).expect("a question");
        client.accept(&id, key, json!({ "value": format!("answer {n}") })).await.result();
        client.until(&id, "the next question", |task| !task["inputRequests"][key].is_object()).await;
    }
    client.status(&id, "completed").await;
    id
}

/// A guest's component as a file beside the host.
fn component(host: &Host, name: &str) -> String {
    let file = host.setup().root().join(format!("{}.wasm", name.replace('/', "-")));
    fs::write(&file, guests::component(name)).expect("a component");
    file.to_str().expect("a path in UTF-8").to_owned()
}

async fn replay(host: &Host, args: &[&str]) -> Value {
    let done = host.command(&[&["replay"], args].concat()).await;
    assert!(matches!(done.code, Some(0 | 1)), "{done:?}");
    done.json()
}

#[tokio::test]
async fn a_task_is_done_again_step_by_step() {
    let host = host().await;
    let id = asked(&host).await;
    let shown = replay(&host, &[&id]).await;
    assert_eq!((&shown["verdict"], &shown["tool"]), (&json!("same"), &json!("ask")), "{shown}");
    assert_eq!(shown["recorded"], shown["replayed"]);
    let steps = shown["steps"].as_array().expect("steps");
    let answers: Vec<&str> = steps.iter().filter_map(|s| s["answer"].as_str()).collect();
    for n in 0..3 {
        assert!(answers.iter().any(|a| a.contains(&format!("answer {n}"))), "{shown}");
    }
    assert_eq!(steps.iter().filter(|s| s["call"] == "request-input").count(), 3, "{shown}");
    let asks = host.client().get(&id).await;
    let receipt = &asks.result()["result"]["_meta"]["layby/receipt"];
    assert!(receipt["resumed"].as_u64().is_some_and(|n| n >= 1), "{receipt}");
    assert!(receipt["fuel"].as_u64().is_some_and(|n| n > 0), "{receipt}");
    assert_eq!(receipt["digest"], shown["recorded"]);
}

#[tokio::test]
async fn what_a_person_reads_is_one_line_a_step() {
    let host = host().await;
    let id = asked(&host).await;
    let mut command = layby_tests::command::layby(host.setup().root(), ["replay", id.as_str()]);
    command.arg("--data").arg(host.setup().data());
    let done = layby_tests::command::run(command).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains("request-input"), "{done:?}");
    assert!(done.out.contains("accepted {\"value\":\"answer 1\"}"), "{done:?}");
    assert!(done.out.contains("the same end, with the same result"), "{done:?}");
}

#[tokio::test]
async fn a_crash_is_crashed_again() {
    let host = host().await;
    let client = host.client();
    let id = client.task("trap", json!({ "after_ms": 300 })).await;
    client.status(&id, "failed").await;
    assert_eq!(replay(&host, &[&id]).await["verdict"], "same");
}

/// The host says something in place of what the plugin gave: it is the same end all the same.
#[tokio::test]
async fn an_end_that_the_host_rewrites_is_the_same() {
    let host = host().await;
    for (tool, arguments, code) in [
        ("fail", json!({}), None),
        ("fail", json!({ "text": "why" }), None),
        ("structured", json!({ "content": { "n": "no integer" } }), Some("output_invalid")),
        ("structured", json!({ "content": { "n": 1 } }), None),
    ] {
        // A call with a key has a row, however quick it is.
        let client = host.client().meta("layby/idempotency-key", json!(format!("{tool} {arguments}")));
        let before = host.tasks().await;
        let reply = client.call(tool, arguments.clone()).await;
        assert_eq!(reply.result()["_meta"]["layby/code"].as_str(), code, "{}", reply.message);
        let tasks = host.tasks().await;
        let new = tasks.iter().find(|task| !before.contains(task)).expect("a row");
        let id = new["taskId"].as_str().expect("an id");
        let shown = replay(&host, &[id]).await;
        assert_eq!(shown["verdict"], "same", "{tool} {arguments}: {shown}");
    }
}

#[tokio::test]
async fn what_still_runs_is_shown_to_where_it_is() {
    let host = host().await;
    let client = host.client();
    let id = client.task("ask", json!({ "rounds": 2 })).await;
    client.status(&id, "input_required").await;
    assert_eq!(replay(&host, &[&id]).await["verdict"], "open");
    client.cancel(&id).await.result();
    assert_eq!(replay(&host, &[&id]).await["verdict"], "open");
    // With its instance there it does not end by itself either: it is told.
    let id = client.task("nap", json!({ "ms": 60_000, "step_ms": 20 })).await;
    client.cancel(&id).await.result();
    client.status(&id, "cancelled").await;
    assert_eq!(replay(&host, &[&id]).await["verdict"], "open");
}

#[tokio::test]
async fn an_export_is_replayed_elsewhere_and_against_another_build() {
    let host = host().await;
    let id = asked(&host).await;
    let file = host.setup().root().join("ask.json");
    let path = file.to_str().expect("a path in UTF-8");
    let done = host.command(&["tasks", "export", &id, path]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let twice = host.command(&["tasks", "export", &id, path]).await;
    assert_eq!((twice.code, twice.json()["error"]["code"].as_str()), (Some(4), Some("file_unwritable")));
    let exported = fs::read_to_string(&file).expect("the file");
    assert!(!exported.contains("a-secret-place"));

    let elsewhere = Setup::probe("").start().await;
    let component = |name: &str| component(&elsewhere, name);
    let same = replay(&elsewhere, &[path, "--plugin", &component("probe")]).await;
    assert_eq!(same["verdict"], "same", "{same}");
    // Another build asks otherwise.
    let other = replay(&elsewhere, &[path, "--plugin", &component("rust/trial")]).await;
    assert_eq!((&other["verdict"], &other["detail"]["step"]), (&json!("diverged"), &json!(0)), "{other}");
    let broken = exported.replacen("pieces\":[\"", "pieces\":[\"AAAA", 1);
    fs::write(&file, broken).expect("the file");
    let refused = elsewhere.command(&["replay", path]).await;
    assert_eq!((refused.code, refused.json()["error"]["code"].as_str()), (Some(4), Some("not_an_export")));
    let unknown = elsewhere.command(&["replay", "00000000-0000-4000-8000-000000000000"]).await;
    assert_eq!((unknown.code, unknown.json()["error"]["code"].as_str()), (Some(4), Some("task_unknown")));
}

/// What somebody sends to be replayed is compiled within the bounds of a load, too.
#[tokio::test]
async fn what_no_host_would_compile_is_not_compiled_for_a_replay() {
    let host = host().await;
    let id = asked(&host).await;
    let vast = wat::parse_str(format!("(component (core module {}))", "(func)".repeat(60_000))).unwrap();
    let file = host.setup().root().join("vast.wasm");
    fs::write(&file, vast).expect("a component");
    let file = file.to_str().expect("a path in UTF-8");
    let refused = host.command(&["replay", &id, "--plugin", file]).await;
    assert_eq!((refused.code, refused.json()["error"]["code"].as_str()), (Some(4), Some("plugin_too_large")));
    assert!(refused.out.contains("max-functions"), "{refused:?}");
    let refused = host.command(&["plugins", "check", file, "--name", "probe"]).await;
    assert_eq!((refused.code, refused.json()["error"]["code"].as_str()), (Some(4), Some("plugin_too_large")));
}

#[tokio::test]
async fn an_upgrade_is_rehearsed_before_it_is_made() {
    let host = host().await;
    let client = host.client();
    let id = client.task("ask", json!({ "rounds": 2 })).await;
    client.status(&id, "input_required").await;
    let check = |file: String| {
        let host = &host;
        async move { host.command(&["plugins", "check", &file, "--name", "probe"]).await }
    };
    let same = check(component(&host, "probe")).await;
    assert_eq!(same.code, Some(0), "{same:?}");
    assert_eq!(same.json()["tools"], json!([]));
    assert_eq!(same.json()["tasks"][0]["goesOn"], true, "{same:?}");
    let other = check(component(&host, "rust/trial")).await;
    assert_eq!(other.code, Some(1), "{other:?}");
    let other = other.json();
    assert_eq!((&other["tasks"][0]["taskId"], &other["tasks"][0]["goesOn"]), (&json!(id), &json!(false)));
    let tools = other["tools"].as_array().expect("tools");
    let change = |tool: &str| tools.iter().find(|t| t["tool"] == tool).map(|t| t["change"].clone());
    assert_eq!(
        [change("ask"), change("nap"), change("rounds")],
        [Some(json!("differs")), Some(json!("removed")), Some(json!("added"))]
    );
    let nobody = host.command(&["plugins", "check", &component(&host, "tidy")]).await;
    assert_eq!((nobody.code, nobody.json()["error"]["code"].as_str()), (Some(4), Some("plugin_unknown")));
    // It was a rehearsal: the task is as it was.
    assert_eq!(client.get(&id).await.result()["status"], "input_required");
}

/// Journals that earlier versions wrote: `VERSION.json`, of `contract_call` of the released component.
#[tokio::test]
async fn journals_of_each_version_still_replay() {
    let host = Setup::new().start().await;
    let tests = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let component = tests.join("components/plugin-1.0.0.wasm");
    let mut versions = 0;
    for entry in fs::read_dir(tests.join("journals")).expect("journals") {
        let file = entry.expect("a file").path();
        let (file, component) = (file.display().to_string(), component.display().to_string());
        let shown = replay(&host, &[&file, "--plugin", &component]).await;
        assert_eq!(shown["verdict"], "same", "{file}: {shown}");
        assert_eq!(shown["recorded"], shown["replayed"], "{file}");
        versions += 1;
    }
    assert!(versions >= 1);
}
