//! Tasks that use folders go on after any crash: what was read is read again or remembered, and no change happens twice.

mod compared;
mod writers;

use std::fs;

use layby_tests::{
    Client, Host, Setup,
    client::{TASKS, everything},
    eventually, text,
};
use serde_json::{Value, json};

/// Short leases, so that tests do not wait for the real ones.
const LEASES: &str = "[store]\nlease = \"1s\"\ntakeover = \"1s\"";

/// The failpoints that these tests visit.
pub(crate) const FAILPOINTS: [&str; 4] =
    ["file.before-start", "file.after-start-commit", "file.after-change", "file.after-answer"];

/// `probe` with the folder `/files`.
fn setup(write: bool, linger: &str) -> Setup {
    let setup = Setup::new();
    let grant = setup.grant(write);
    let policy = format!(
        "[call]\ndeadline = \"100ms\"\ngrace = \"200ms\"\nlinger = \"{linger}\"\n[grants]\nask = [\"form\"]\nfiles = [{grant}]"
    );
    setup.plugin("probe", &policy).config(LEASES)
}

pub(crate) async fn parked(host: &Host, id: &str) {
    eventually("the task is parked", || async {
        let tasks = host.tasks().await;
        tasks.iter().any(|task| task["taskId"] == id && task["parked"] == true).then_some(())
    })
    .await;
}

/// Answers the question that is open, and waits until that is taken.
pub(crate) async fn answer(client: &Client, id: &str) {
    let task = client.status(id, "input_required").await;
    let key = task["inputRequests"].as_object().and_then(|asked| asked.keys().next().cloned());
    let key = key.expect("a question");
    client.accept(id, &key, json!({ "value": "yes" })).await.result();
    client.until(id, "the answer to be taken", |task| task["inputRequests"][&key].is_null()).await;
}

/// What each step came to.
fn came_to(task: &Value) -> Vec<String> {
    serde_json::from_str(text(&task["result"])).expect("the tool's own JSON")
}

fn step(what: &str) -> Value {
    json!({ "do": what })
}

fn on(what: &str, path: &str) -> Value {
    json!({ "do": what, "path": format!("/files/{path}") })
}

fn put(what: &str, path: &str, text: &str) -> Value {
    json!({ "do": what, "path": format!("/files/{path}"), "text": text })
}

/// `kill -9` at each question, then an answer in the next process; the end.
async fn crashed_at_each_question(mut host: Host, steps: Vec<Value>) -> (Host, Vec<String>) {
    let questions = steps.iter().filter(|step| step["do"] == "ask").count();
    let id = host.client().task("steps", json!({ "steps": steps })).await;
    for n in 0..questions {
        host.client().status(&id, "input_required").await;
        if n % 2 == 1 {
            parked(&host, &id).await;
        }
        host.kill();
        host = host.restart().await;
        answer(&host.client(), &id).await;
    }
    let task = host.client().status(&id, "completed").await;
    (host, came_to(&task))
}

#[tokio::test]
async fn changes_happen_once_over_any_number_of_processes() {
    let setup = setup(true, "0s");
    let files = setup.files();
    fs::write(files.join("old"), "old text").unwrap();
    let host = setup.start().await;
    let steps = vec![
        on("list", ""),
        on("read", "old"),
        put("append", "log", "one\n"),
        put("write", "new", "made"),
        step("ask"),
        put("append", "log", "two\n"),
        json!({ "do": "rename", "path": "/files/old", "to": "/files/moved" }),
        on("make-folder", "deep"),
        put("write", "deep/file", "inside"),
        on("size", "new"),
        step("ask"),
        on("read", "moved"),
        on("read", "old"),
        on("remove", "deep/file"),
        on("remove-folder", "deep"),
        put("append", "log", "three\n"),
        step("ask"),
        on("read", "log"),
        on("list", ""),
    ];
    let (_host, came) = crashed_at_each_question(host, steps).await;
    assert_eq!(
        came,
        [
            "old",
            "old text",
            "ok",
            "ok",
            "ok",
            "ok",
            "ok",
            "ok",
            "ok",
            "4",
            "ok",
            "old text",
            "error: NotFound",
            "ok",
            "ok",
            "ok",
            "ok",
            "one\ntwo\nthree\n",
            "log moved new",
        ]
    );
    assert_eq!(fs::read_to_string(files.join("log")).unwrap(), "one\ntwo\nthree\n");
}

#[tokio::test]
async fn a_file_stays_open_over_a_crash() {
    let setup = setup(true, "0s");
    let files = setup.files();
    fs::write(files.join("words"), "one two three four").unwrap();
    let host = setup.start().await;
    let steps = vec![
        on("open-write", "words"),
        json!({ "do": "take", "bytes": 4 }),
        step("ask"),
        json!({ "do": "take", "bytes": 4 }),
        json!({ "do": "put", "text": "THREE" }),
        // It is the same file by another name.
        json!({ "do": "rename", "path": "/files/words", "to": "/files/renamed" }),
        step("ask"),
        json!({ "do": "put", "text": "!" }),
        // Rust's adapter reads and writes by streams with a position each.
        json!({ "do": "take", "bytes": 100 }),
        step("close"),
        on("open-append", "log"),
        json!({ "do": "put", "text": "a" }),
        step("ask"),
        json!({ "do": "put", "text": "b" }),
        step("ask"),
        json!({ "do": "put", "text": "c" }),
        step("close"),
        on("read", "renamed"),
    ];
    let (_host, came) = crashed_at_each_question(host, steps).await;
    assert_eq!((&came[1][..], &came[3][..], &came[8][..]), ("one ", "two ", "THREE!four"), "{came:?}");
    assert_eq!(came[17], "one two THREE!four");
    assert_eq!(came.iter().filter(|came| *came == "ok").count(), 14, "{came:?}");
    assert_eq!(fs::read_to_string(files.join("log")).unwrap(), "abc");
}

#[tokio::test]
async fn what_is_only_read_is_read_again() {
    let setup = setup(false, "0s");
    let files = setup.files();
    let long = "0123456789".repeat(30_000);
    fs::write(files.join("long"), &long).unwrap();
    fs::write(files.join("short"), "short").unwrap();
    let host = setup.start().await;
    let steps = vec![
        on("list", ""),
        on("read", "long"),
        on("read", "none"),
        on("open-read", "short"),
        json!({ "do": "take", "bytes": 2 }),
        put("write", "short", "never"),
        step("ask"),
        json!({ "do": "take", "bytes": 2 }),
        step("ask"),
        json!({ "do": "take", "bytes": 2 }),
        on("size", "long"),
    ];
    let (_host, came) = crashed_at_each_question(host, steps).await;
    let denied = "error: PermissionDenied";
    assert_eq!(
        came,
        ["long short", &long, "error: NotFound", "ok", "sh", denied, "ok", "or", "ok", "t", "300000"]
    );
}

#[tokio::test]
async fn what_others_changed_meanwhile_is_not_overwritten() {
    let setup = setup(true, "0s");
    let files = setup.files();
    for name in ["read", "touched", "unread"] {
        fs::write(files.join(name), "theirs").unwrap();
    }
    let mut host = setup.start().await;
    let steps = json!([
        on("read", "read"),
        on("read", "touched"),
        on("size", "absent"),
        put("append", "touched", ", mine"),
        step("ask"),
        put("append", "read", "mine"),
        put("write", "absent", "mine"),
        on("remove", "read"),
        on("read", "read"),
        put("append", "read", ", mine"),
        put("append", "touched", ", again"),
        put("append", "unread", ", mine"),
    ]);
    let id = host.client().task("steps", json!({ "steps": steps })).await;
    host.client().status(&id, "input_required").await;
    host.kill();
    fs::write(files.join("read"), "theirs, changed").unwrap();
    fs::write(files.join("absent"), "theirs").unwrap();
    fs::write(files.join("unread"), "theirs, changed").unwrap();
    host = host.restart().await;
    answer(&host.client(), &id).await;
    let task = host.client().status(&id, "completed").await;
    let busy = "error: ResourceBusy";
    assert_eq!(
        came_to(&task)[5..],
        [busy, busy, busy, "theirs, changed", "ok", "ok", "ok"].map(str::to_owned),
        "{task}"
    );
    let read = |name: &str| fs::read_to_string(files.join(name)).unwrap();
    assert_eq!(read("read"), "theirs, changed, mine");
    assert_eq!(read("absent"), "theirs");
    assert_eq!(read("touched"), "theirs, mine, again");
    assert_eq!(read("unread"), "theirs, changed, mine");
    assert!(host.log().contains("changed-since-read: /files/read"), "{}", host.log());
}

/// A task that appends once, after a nap in which it becomes a task, at a host that `failpoint` kills then; its client
/// declares `capabilities`.
async fn killed_at(failpoint: &str, capabilities: &Value) -> (Host, String, std::path::PathBuf) {
    let setup = setup(true, "60s");
    let log = setup.files().join("log");
    fs::write(&log, "begun, ").unwrap();
    // The file is opened for appending, which could make it: that is the first change, inline.
    let mut host = setup.env("LAYBY_FAILPOINTS", &format!("{failpoint}=kill:2")).start().await;
    let steps = json!([
        on("open-append", "log"),
        { "do": "nap", "ms": 400 },
        { "do": "put", "text": "appended" },
        { "do": "nap", "ms": 50 },
        on("read", "log"),
    ]);
    let id = host.client_with(capabilities.clone()).task("steps", json!({ "steps": steps })).await;
    host.ended().await;
    (host.restart_without("LAYBY_FAILPOINTS").await, id, log)
}

#[tokio::test]
async fn an_append_that_was_not_committed_happens_once() {
    let (host, id, log) = killed_at("file.before-start", &everything()).await;
    let task = host.client().status(&id, "completed").await;
    assert_eq!(came_to(&task)[4], "begun, appended");
    assert_eq!(fs::read_to_string(&log).unwrap(), "begun, appended");
}

#[tokio::test]
async fn an_append_whose_outcome_is_unknown_is_not_done_again() {
    for (failpoint, text) in
        [("file.after-start-commit", "begun, "), ("file.after-change", "begun, appended")]
    {
        let (host, id, log) = killed_at(failpoint, &json!({ "extensions": { TASKS: {} } })).await;
        let task = host.client().status(&id, "failed").await;
        let data = &task["error"]["data"];
        assert_eq!(data["code"], "outcome_unknown", "{task}");
        assert_eq!((&data["operation"], &data["path"]), (&json!("append"), &json!("/files/log")), "{task}");
        assert!(data["at"].as_str().is_some_and(|at| at.starts_with("20")), "{task}");
        assert_eq!(fs::read_to_string(&log).unwrap(), text, "{failpoint}");
    }
}

#[tokio::test]
async fn who_looks_there_says_whether_an_append_has_happened() {
    for (failpoint, happened) in
        [("file.after-start-commit", false), ("file.after-change", true), ("file.after-answer", true)]
    {
        let (mut host, id, log) = killed_at(failpoint, &everything()).await;
        let key = "layby/outcome-file-1";
        let asked = |task: &Value| task["inputRequests"][key].is_object();
        // An answer that a commit on its way has taken along is known, and nothing is asked.
        let known = |task: &Value| failpoint == "file.after-answer" && task["status"] == "completed";
        let task = host.client().until(&id, "the host's question", |task| asked(task) || known(task)).await;
        if asked(&task) {
            assert!(task.to_string().contains("did append on /files/log"), "{task}");
            let choice = if happened { "it happened" } else { "retry" };
            host.client().accept(&id, key, json!({ "choice": choice })).await.result();
        }
        let task = host.client().status(&id, "completed").await;
        assert_eq!(came_to(&task)[2..], ["ok", "ok", "begun, appended"].map(str::to_owned), "{task}");
        assert_eq!(fs::read_to_string(&log).unwrap(), "begun, appended", "{failpoint}");
        host.kill();
    }
}

#[tokio::test]
async fn a_folder_that_policy_takes_back_is_denied_and_not_a_mismatch() {
    for write in [false, true] {
        let setup = setup(write, "0s");
        let files = setup.files();
        fs::write(files.join("a"), "a").unwrap();
        let host = setup.start().await;
        let steps = json!([on("read", "a"), step("ask"), on("read", "a"), put("write", "b", "b")]);
        let id = host.client().task("steps", json!({ "steps": steps })).await;
        parked(&host, &id).await;
        let was = host.plugin("probe").await["adoptedAt"].clone();
        host.put(
            "probe",
            &layby_tests::guests::component("probe"),
            "[call]\ndeadline = \"100ms\"\n[grants]\nask = [\"form\"]",
        );
        eventually("the new policy holds", || async {
            (host.plugin("probe").await["adoptedAt"] != was).then_some(())
        })
        .await;
        answer(&host.client(), &id).await;
        let task = host.client().status(&id, "completed").await;
        let denied = "error: PermissionDenied";
        assert_eq!(came_to(&task), ["a", "ok", denied, denied], "{task}");
        assert!(!files.join("b").exists());
        assert!(host.log().contains("to allow it, add { host = "), "{}", host.log());
    }
}

#[tokio::test]
async fn a_replay_needs_no_folder_where_its_answers_are_kept() {
    for write in [false, true] {
        let setup = setup(write, "0s");
        let (files, root) = (setup.files(), setup.root().to_owned());
        fs::write(files.join("short"), "a short text").unwrap();
        let host = setup.start().await;
        let steps = json!([on("list", ""), on("read", "short"), step("ask"), put("append", "log", "x")]);
        let id = host.client().task("steps", json!({ "steps": steps })).await;
        answer(&host.client(), &id).await;
        host.client().status(&id, "completed").await;
        let export = root.join("export.json");
        let export = export.to_str().unwrap();
        assert_eq!(host.command(&["tasks", "export", &id, export]).await.code, Some(0));
        assert!(!fs::read_to_string(export).unwrap().contains(root.to_str().unwrap()));
        fs::rename(&files, root.join("away")).unwrap();
        for what in [id.as_str(), export] {
            let shown = host.command(&["replay", what]).await.json();
            assert_eq!(shown["verdict"], "same", "{shown}");
            let calls = shown["steps"].as_array().unwrap();
            assert!(calls.iter().any(|step| step["call"] == "file read"), "{shown}");
            assert_eq!(calls.iter().any(|step| step["call"] == "file change"), write, "{shown}");
        }
    }
}

/// `summarize_table` of each language reads a file, and asks before it is done with it.
mod languages {
    use crate::languages;

    macro_rules! in_each {
        ($($language:ident),+) => {
            $(#[tokio::test]
            async fn $language() {
                for write in [false, true] {
                    super::reads_a_table(stringify!($language), write).await;
                }
            })+

            #[test]
            fn every_language_is_run() {
                assert_eq!([$(stringify!($language)),+], languages::LANGUAGES);
            }
        };
    }

    in_each!(rust, python, typescript, go, c);
}

async fn reads_a_table(language: &str, write: bool) {
    let setup = Setup::new();
    fs::write(setup.files().join("table.csv"), "team,half\nred,0.5\nred,0.5\nblue,1.5\n").unwrap();
    let policy = format!(
        "[call]\ndeadline = \"100ms\"\nlinger = \"0s\"\n[grants]\nask = [\"form\"]\nfiles = [{}]",
        setup.grant(write)
    );
    let component = layby_tests::guests::component(&format!("{language}/table"));
    let setup = setup.config(LEASES).file("table", &component, &policy);
    let mut host = crate::languages::start(language, setup).await;
    let id = host.client().task("summarize_table", json!({ "path": "/files/table.csv" })).await;
    let task = host.client().status(&id, "input_required").await;
    parked(&host, &id).await;
    host.kill();
    host = host.restart().await;
    let key = task["inputRequests"].as_object().and_then(|asked| asked.keys().next().cloned());
    let key = key.expect("a question");
    host.client().accept(&id, &key, json!({ "key": "team" })).await.result();
    let task = host.client().status(&id, "completed").await;
    let summary = &task["result"]["structuredContent"];
    assert_eq!((&summary["rows"], &summary["duplicates"]), (&json!(3), &json!(1)), "{language}: {task}");
}
