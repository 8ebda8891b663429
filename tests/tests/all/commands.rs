//! The command line: `call`, `inspect`, `plugins`, `tasks`, and how they end.

use std::{fs, path::Path};

use layby_tests::{
    Setup,
    command::{Done, layby, run},
    eventually, guests, text,
};
use serde_json::{Value, json};

async fn at(folder: &Path, args: &[&str]) -> Done {
    run(layby(folder, args)).await
}

#[tokio::test]
async fn a_call_in_this_process_needs_no_server() {
    let setup = Setup::probe("[call]\ndeadline = \"200ms\"").plugin("echo", "");
    // The compiled code of a data folder is used where there is one.
    drop(setup.command());
    let here = ["--plugins", "plugins", "--data", "data"];
    let call = |args: &[&str]| {
        let all: Vec<&str> = ["call"].iter().chain(args).chain(&here).copied().collect();
        run(layby(setup.root(), all))
    };
    let said = call(&["echo", r#"{"text":"hello there"}"#]).await;
    assert_eq!((said.code, said.out.trim()), (Some(0), "hello there"), "{said:?}");
    let said = call(&["echo", r#"{"text":"hello"}"#, "--json"]).await;
    assert_eq!((said.code, &said.json()["status"]), (Some(0), &json!("completed")), "{said:?}");
    assert_eq!(text(&said.json()["result"]), "hello");
    let slow = call(&["nap", r#"{"ms":1200}"#, "--json"]).await;
    assert_eq!(text(&slow.json()["result"]), "slept 1200 ms", "{slow:?}");
    assert!(slow.json()["taskId"].is_string(), "{slow:?}");
    let failed = call(&["fail", r#"{"text":"no luck"}"#]).await;
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.out.contains("no luck"), "{failed:?}");
    let trapped = call(&["trap", "{}", "--json"]).await;
    assert_eq!((trapped.code, &trapped.json()["error"]["data"]["code"]), (Some(1), &json!("plugin_trap")));
    let unknown = call(&["ecko", "{}", "--json"]).await;
    assert_eq!(unknown.code, Some(4), "{unknown:?}");
    assert!(
        unknown.json()["error"]["message"].as_str().unwrap().contains("echo"),
        "the nearest name: {unknown:?}"
    );
    let wrong = call(&["echo", "{", "--json"]).await;
    assert_eq!(
        (wrong.code, &wrong.json()["error"]["code"]),
        (Some(2), &json!("arguments_invalid")),
        "{wrong:?}"
    );
    let invalid = call(&["echo", r#"{"text":5}"#, "--json"]).await;
    assert_eq!(invalid.code, Some(1), "{invalid:?}");
    // Answers from a file, and none.
    fs::write(setup.root().join("answers.json"), r#"{"question": {"value": "prepared"}}"#).unwrap();
    let answered = call(&["ask", "{}", "--answers", "answers.json"]).await;
    assert_eq!(answered.code, Some(0), "{answered:?}");
    assert!(answered.out.contains("prepared"), "{answered:?}");
    let alone = call(&["ask", "{}", "--json"]).await;
    assert_eq!((alone.code, &alone.json()["error"]["code"]), (Some(1), &json!("answer_needed")), "{alone:?}");
    // The private store is gone with the command: nothing was written beside the cache.
    assert!(!setup.data().join("layby.db").exists());
}

#[tokio::test]
async fn a_call_against_a_server_drives_its_task() {
    let host = Setup::probe("[call]\ndeadline = \"200ms\"").start().await;
    let root = host.setup().root();
    let call = |args: &[&str]| {
        let all: Vec<&str> =
            ["call"].iter().chain(args).chain(&["--url", host.base(), "--json"]).copied().collect();
        run(layby(root, all))
    };
    let slow = call(&["nap", r#"{"ms":900}"#]).await;
    assert_eq!((slow.code, text(&slow.json()["result"])), (Some(0), "slept 900 ms"), "{slow:?}");
    let id = slow.json()["taskId"].as_str().unwrap().to_owned();
    assert_eq!(host.client().get(&id).await.result()["status"], "completed");
    fs::write(root.join("answers.json"), r#"{"question": {"value": "one"}, "question_2": "decline"}"#)
        .unwrap();
    let asked = call(&["ask", r#"{"at_once":2}"#, "--answers", "answers.json"]).await;
    let answer: Value = serde_json::from_str(text(&asked.json()["result"])).unwrap();
    assert_eq!(answer["answers"], json!([{ "value": "one" }, "declined"]));
    // Without an answer the task goes on waiting, and the command says which it is.
    let open = call(&["ask", "{}"]).await;
    assert_eq!((open.code, &open.json()["status"]), (Some(5), &json!("input_required")), "{open:?}");
    let id = open.json()["taskId"].as_str().unwrap().to_owned();
    assert_eq!(host.client().get(&id).await.result()["status"], "input_required");
    let late = call(&["nap", r#"{"ms":60000}"#, "--timeout", "1s"]).await;
    assert_eq!((late.code, &late.json()["status"]), (Some(5), &json!("working")), "{late:?}");
    let once = ["nap", r#"{"ms":300}"#, "--idempotency-key", "k"];
    assert_eq!(text(&call(&once).await.json()["result"]), "slept 300 ms");
    assert_eq!(text(&call(&once).await.json()["result"]), "slept 300 ms");
    assert_eq!(host.tasks().await.iter().filter(|t| t["tool"] == "nap").count(), 3);
    let nobody = at(root, &["call", "echo", "--url", "http://127.0.0.1:1", "--json"]).await;
    assert_eq!(
        (nobody.code, &nobody.json()["error"]["code"]),
        (Some(3), &json!("server_unreachable")),
        "{nobody:?}"
    );
}

#[tokio::test]
async fn a_script_answers_questions_in_turn_from_a_file() {
    let setup = Setup::probe("").plugin("echo", "");
    drop(setup.command());
    let root = setup.root().to_owned();
    let schema =
        json!({"type": "object", "properties": {"value": {"type": "string"}}, "required": ["value"]});
    let arguments = json!({ "rounds": 3, "message": "Who is next?", "schema": schema }).to_string();
    let call = async |answers: Value| {
        fs::write(root.join("answers.json"), answers.to_string()).unwrap();
        let here = ["--answers", "answers.json", "--plugins", "plugins", "--data", "data", "--json"];
        let all = ["call", "ask", &arguments].into_iter().chain(here);
        run(layby(&root, all)).await
    };
    let three = json!({ "question": { "value": "one" }, "question_2": "decline",
        "question_3": { "action": "accept", "content": { "value": "three" } } });
    let done = call(three.clone()).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let answers: Value = serde_json::from_str(text(&done.json()["result"])).unwrap();
    assert_eq!(answers["answers"], json!([{ "value": "one" }, "declined", { "value": "three" }]));
    assert!(done.json()["unusedAnswers"].is_null(), "{done:?}");

    // One too many is no error, and is told.
    let mut more = three.clone();
    more["other"] = json!("dismiss");
    let done = call(more).await;
    assert_eq!((done.code, &done.json()["unusedAnswers"]), (Some(0), &json!(["other"])), "{done:?}");
    assert!(done.err.contains("\"other\""), "{done:?}");

    // One that is missing: which, what it asks, its schema, and what nothing asked for.
    let done = call(json!({ "question": { "value": "one" }, "qestion_2": "decline" })).await;
    let said = done.json();
    assert_eq!((done.code, &said["error"]["code"]), (Some(1), &json!("answer_needed")), "{done:?}");
    let message = said["error"]["message"].as_str().unwrap();
    for part in ["\"question_2\"", "Who is next?", "\"required\":[\"value\"]", "\"qestion_2\""] {
        assert!(message.contains(part), "{part}: {message}");
    }

    // What does not fit.
    for (answer, part) in [
        (json!({ "value": 5 }), "value: text is needed"),
        (json!({}), "value: a value is required"),
        (json!({ "valu": "x", "value": "y" }), "\"valu\"; the nearest is \"value\""),
        (json!("accept"), "value: a value is required"),
    ] {
        let done = call(json!({ "question": answer })).await;
        let said = done.json();
        assert_eq!((done.code, &said["error"]["code"]), (Some(4), &json!("answer_invalid")), "{done:?}");
        let message = said["error"]["message"].as_str().unwrap();
        assert!(message.contains(part) && message.contains("\"question\""), "{message}");
    }
    for answers in [json!([1]), json!({ "question": 5 }), json!({ "question": "yes" })] {
        let done = call(answers).await;
        let code = &done.json()["error"]["code"];
        assert_eq!((done.code, code), (Some(2), &json!("answers_file_invalid")), "{done:?}");
    }
}

/// Whatever is wrong with the file of answers is told before anything is called, and at once.
#[tokio::test]
async fn a_file_of_answers_is_read_strictly() {
    let setup = Setup::probe("");
    drop(setup.command());
    let root = setup.root().to_owned();
    let made = std::process::Command::new("mkfifo").arg(root.join("pipe")).status().unwrap();
    assert!(made.success());
    fs::write(root.join("large"), " ".repeat((1 << 20) + 1)).unwrap();
    fs::write(root.join("twice"), r#"{"question": {"value": "a"}, "question": {"value": "b"}}"#).unwrap();
    fs::write(root.join("within"), r#"{"question": {"value": "a", "value": "b"}}"#).unwrap();
    fs::write(root.join("one"), r#"{"action": "accept", "content": {"value": "a"}}"#).unwrap();
    fs::write(root.join("latin"), b"{\"question\": {\"value\": \"\xfc\"}}").unwrap();
    fs::write(root.join("marked"), "\u{feff}{\"question\": {\"value\": \"marked\"}}").unwrap();
    let here = ["--plugins", "plugins", "--data", "data", "--json"];
    let call = |file: &str| run(layby(&root, ["call", "ask", "{}", "--answers", file].iter().chain(&here)));
    for (file, part) in [
        ("/dev/zero", "not a regular file"),
        ("pipe", "not a regular file"),
        ("plugins", "not a regular file"),
        ("none", "No such file"),
        ("large", "larger than 1MiB"),
        ("twice", "\"question\" stands there twice"),
        ("within", "\"value\" stands there twice"),
        ("one", "looks like one answer"),
        ("latin", "not UTF-8"),
    ] {
        let done = call(file).await;
        let said = &done.json()["error"];
        assert_eq!((done.code, &said["code"]), (Some(2), &json!("answers_file_invalid")), "{done:?}");
        let message = said["message"].as_str().unwrap();
        assert!(message.contains(part) && message.contains(file), "{message}");
    }
    let done = call("marked").await;
    assert!(done.code == Some(0) && done.out.contains("marked"), "{done:?}");
    // The other files that a person names.
    for wrong in [
        &["plugins", "--config", "/dev/zero", "--json"][..],
        &["plugins", "--config", "pipe", "--json"],
        &["inspect", "pipe", "--json"],
    ] {
        let done = at(&root, wrong).await;
        assert!(done.out.contains("not a regular file"), "{wrong:?}: {done:?}");
    }
}

/// An answer that does not fit ends the command, not the task.
#[tokio::test]
async fn a_wrong_answer_says_what_becomes_of_the_task() {
    let host = Setup::probe("[call]\ndeadline = \"200ms\"").start().await;
    let root = host.setup().root();
    for (answer, part) in [
        (json!({ "action": "nope" }), "\"nope\" is no \"action\""),
        (json!({ "action": "accept", "conten": {} }), "no \"conten\""),
        (json!({ "value": 5 }), "text is needed"),
    ] {
        fs::write(root.join("answers.json"), json!({ "question": answer }).to_string()).unwrap();
        let args = ["call", "ask", "{}", "--url", host.base(), "--answers", "answers.json", "--json"];
        let done = at(root, &args).await;
        let said = &done.json()["error"];
        assert_eq!((done.code, &said["code"]), (Some(4), &json!("answer_invalid")), "{done:?}");
        let id = said["taskId"].as_str().unwrap();
        let message = said["message"].as_str().unwrap();
        let answer_it = format!("`layby tasks answer {id}`");
        let cancel_it = format!("`layby tasks cancel {id}`");
        for part in [part, "goes on waiting", &answer_it, &cancel_it] {
            assert!(message.contains(part), "{part}: {message}");
        }
        assert_eq!(host.client().get(id).await.result()["status"], "input_required");
        let data = host.setup().data();
        let cancelled = at(root, &["tasks", "cancel", id, "--data", data.to_str().unwrap()]).await;
        assert_eq!(cancelled.code, Some(0), "{cancelled:?}");
    }
}

#[tokio::test]
async fn ctrl_c_cancels_the_task() {
    let host = Setup::probe("[call]\ndeadline = \"200ms\"\ngrace = \"300ms\"").start().await;
    let arguments = r#"{"ms":60000,"step_ms":20}"#;
    let mut command = layby(host.setup().root(), ["call", "nap", arguments, "--url", host.base(), "--json"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    let pid = child.id().unwrap().to_string();
    let done = tokio::spawn(child.wait_with_output());
    eventually("the task", || async { (host.tasks().await.len() == 1).then_some(()) }).await;
    let sent = std::process::Command::new("kill").args(["-s", "INT", &pid]).status().unwrap();
    assert!(sent.success());
    let done: Done = done.await.unwrap().unwrap().into();
    assert_eq!(done.code, Some(130), "{done:?}");
    assert_eq!(host.tasks().await[0]["status"], "cancelled");
}

#[tokio::test]
async fn tasks_are_seen_answered_and_cancelled_beside_the_server() {
    let host = Setup::probe("[call]\ndeadline = \"100ms\"\ngrace = \"300ms\"").start().await;
    let client = host.client();
    let asked = client.task("ask", json!({ "at_once": 2, "message": "Who?" })).await;
    let working = client.task("nap", json!({ "ms": 60_000, "step_ms": 20 })).await;
    let list = host.tasks().await;
    assert_eq!(list.len(), 2);
    assert!(list.iter().all(|t| t["principal"] == "local" && t["plugin"] == "probe"), "{list:?}");
    let shown = host.command(&["tasks", "show", &asked]).await.json();
    assert_eq!((&shown["status"], &shown["tool"]), (&json!("input_required"), &json!("ask")));
    assert_eq!(shown["inputRequests"].as_object().unwrap().len(), 2);
    let which = host.command(&["tasks", "answer", &asked, "--decline"]).await;
    assert_eq!((which.code, &which.json()["error"]["code"]), (Some(2), &json!("key_needed")), "{which:?}");
    let wrong =
        host.command(&["tasks", "answer", &asked, "--key", "question", "--accept", r#"{"value":5}"#]).await;
    assert_eq!(wrong.code, Some(4), "{wrong:?}");
    let one =
        host.command(&["tasks", "answer", &asked, "--key", "question", "--accept", r#"{"value":"x"}"#]).await;
    assert_eq!((one.code, &one.json()["status"]), (Some(0), &json!("answered")), "{one:?}");
    let two = host.command(&["tasks", "answer", &asked, "--dismiss"]).await;
    assert_eq!(two.code, Some(0), "{two:?}");
    let task = client.status(&asked, "completed").await;
    let got: Value = serde_json::from_str(text(&task["result"])).unwrap();
    assert_eq!(got["answers"], json!([{ "value": "x" }, "dismissed"]));
    let again = host.command(&["tasks", "answer", &asked, "--decline"]).await;
    assert_eq!((again.code, &again.json()["error"]["code"]), (Some(4), &json!("nothing_asked")), "{again:?}");
    let cancel = host.command(&["tasks", "cancel", &working]).await;
    assert_eq!((cancel.code, &cancel.json()["status"]), (Some(0), &json!("cancelling")), "{cancel:?}");
    client.status(&working, "cancelled").await;
    let ended = host.command(&["tasks", "cancel", &working]).await;
    assert_eq!((ended.code, &ended.json()["status"]), (Some(0), &json!("cancelled")), "{ended:?}");
    let live = host.command(&["tasks", "list", "--live"]).await.json();
    assert_eq!(live["tasks"], json!([]));
    let unknown = host.command(&["tasks", "show", "99999999-9999-4999-8999-999999999999"]).await;
    assert_eq!(
        (unknown.code, &unknown.json()["error"]["code"]),
        (Some(4), &json!("task_unknown")),
        "{unknown:?}"
    );
}

#[tokio::test]
async fn the_store_of_a_stopped_host_still_tells() {
    let mut host = Setup::probe("").start().await;
    let id = host.client().task("ask", json!({})).await;
    host.signal("TERM");
    host.ended().await;
    assert_eq!(host.tasks().await[0]["taskId"], id.as_str());
    let plugins = host.command(&["plugins"]).await.json();
    assert_eq!(
        (&plugins["plugins"][0]["name"], &plugins["plugins"][0]["state"]),
        (&json!("probe"), &json!("serving"))
    );
    let text = at(host.setup().root(), &["plugins", "--data", "data"]).await;
    assert!(text.out.contains("probe") && text.out.contains("serving"), "{text:?}");
    let missing = at(host.setup().root(), &["plugins", "--data", "nowhere", "--json"]).await;
    assert_eq!(
        (missing.code, &missing.json()["error"]["code"]),
        (Some(3), &json!("data_folder_missing")),
        "{missing:?}"
    );
    assert!(!host.setup().root().join("nowhere").exists());
}

#[tokio::test]
async fn inspect_says_what_a_file_is() {
    let setup = Setup::new();
    let root = setup.root();
    fs::write(root.join("probe.wasm"), guests::component("probe")).unwrap();
    let seen = at(root, &["inspect", "probe.wasm", "--json"]).await;
    assert_eq!(seen.code, Some(0), "{seen:?}");
    let json = seen.json();
    assert_eq!(json["digest"].as_str().unwrap().len(), 64, "{json}");
    assert_eq!(json["tools"].as_array().unwrap().len(), 28, "{json}");
    assert_eq!(json["durable"], serde_json::json!({ "resumable": true, "pinnedBy": null }));
    assert!(json.to_string().contains("wasi:filesystem"), "{json}");
    let shown = at(root, &["inspect", "probe.wasm"]).await;
    assert!(shown.out.contains("stubborn") && shown.out.contains("durable   yes"), "{shown:?}");
    let policy = json["grants"]["policy"].as_str().unwrap();
    assert!(shown.out.contains(policy) && policy.contains("# files = [{"), "{shown:?}");
    assert!(shown.out.contains("rounds?: integer"), "schemas for people: {shown:?}");
    let truncated = guests::component("probe")[..40_000].to_vec();
    for (bytes, code) in [
        (b"hello".to_vec(), "plugin_not_a_component"),
        (Vec::new(), "plugin_not_a_component"),
        (truncated, "plugin_not_a_component"),
        (b"\0asm\x01\0\0\0".to_vec(), "plugin_not_a_component"),
        (layby_tests::chameleon::listing("trap"), "plugin_list_tools_failed"),
    ] {
        fs::write(root.join("bad.wasm"), bytes).unwrap();
        let refused = at(root, &["inspect", "bad.wasm", "--json"]).await;
        assert_eq!(refused.code, Some(4), "{refused:?}");
        assert!(refused.out.contains(code), "{code}: {refused:?}");
        // What is no component can be granted nothing.
        let component = code != "plugin_not_a_component";
        assert_eq!(refused.json()["grants"].is_object(), component, "{refused:?}");
        let shown = at(root, &["inspect", "bad.wasm"]).await;
        assert_eq!(shown.out.contains("[grants]"), component, "{shown:?}");
    }
    let missing = at(root, &["inspect", "nowhere.wasm", "--json"]).await;
    assert_eq!((missing.code, &missing.json()["error"]["code"]), (Some(4), &json!("file_unreadable")));
}

#[tokio::test]
async fn options_are_checked_and_explained() {
    let setup = Setup::new();
    let root = setup.root();
    let help = at(root, &["--help"]).await;
    assert_eq!(help.code, Some(0));
    for word in ["serve", "call", "inspect", "plugins", "tasks", "Exit codes"] {
        assert!(help.out.contains(word), "{word}: {help:?}");
    }
    assert!(at(root, &["--version"]).await.out.starts_with("layby "));
    for wrong in [&["serv"][..], &["serve", "--liste", "x"], &["call"], &["tasks", "show"]] {
        assert_eq!(at(root, wrong).await.code, Some(2), "{wrong:?}");
    }
    fs::write(root.join("layby.toml"), "[serv]\nlisten = \"127.0.0.1:0\"").unwrap();
    let unknown = at(root, &["plugins", "--json"]).await;
    assert_eq!(
        (unknown.code, &unknown.json()["error"]["code"]),
        (Some(2), &json!("config_invalid")),
        "{unknown:?}"
    );
    assert!(unknown.out.contains("`serve`"), "the nearest key: {unknown:?}");
    let missing = at(root, &["plugins", "--config", "nowhere.toml", "--json"]).await;
    assert_eq!(
        (missing.code, &missing.json()["error"]["code"]),
        (Some(2), &json!("config_invalid")),
        "{missing:?}"
    );
}
