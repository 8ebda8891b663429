//! Park, change the world, then answer: what a task that waits is promised, whatever becomes of what it began with.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use layby_tests::{Client, Host, Recorder, Setup, eventually, guests, text};
use serde_json::{Value, json};

mod policy;

/// Parks at once.
const CALL: &str = "[call]\ndeadline = \"100ms\"\nlinger = \"0s\"\n";
const ASK: &str = "[grants]\nask = [\"form\"]\n";

/// A task of the plugin `probe` that is parked at the first of its `rounds` questions.
struct Parked {
    host: Host,
    id: String,
}

async fn parked(host: &Host, id: &str) {
    eventually("the task is parked", || async {
        let tasks = host.tasks().await;
        tasks.iter().any(|task| task["taskId"] == id && task["parked"] == true).then_some(())
    })
    .await;
}

impl Parked {
    async fn asks(rounds: usize) -> Self {
        let host = Setup::new().plugin("probe", &format!("{CALL}{ASK}")).start().await;
        let id = host.client().task("ask", json!({ "rounds": rounds })).await;
        parked(&host, &id).await;
        Self { host, id }
    }

    fn client(&self) -> Client {
        self.host.client()
    }

    /// Answers the question that is open.
    async fn answer(&self, value: &str) {
        let task = self.client().status(&self.id, "input_required").await;
        let asked = task["inputRequests"].as_object().expect("questions");
        let key = asked.keys().next().expect("a question");
        self.client().accept(&self.id, key, json!({ "value": value })).await.result();
    }

    /// What the tool says in the end: how many answers, and why it got no more.
    async fn ends(&self) -> (u64, Option<String>) {
        let task = self.client().status(&self.id, "completed").await;
        let result: Value = serde_json::from_str(text(&task["result"])).expect("the tool's own JSON");
        (result["count"].as_u64().expect("a count"), result["error"].as_str().map(str::to_owned))
    }

    /// Puts another policy and perhaps another component in the plugin's place, and waits until they serve.
    async fn replace(&self, component: &str, policy: &str) {
        let was = self.host.plugin("probe").await["adoptedAt"].clone();
        self.host.put("probe", &guests::component(component), policy);
        eventually("the new pair serves", || async {
            let row = self.host.plugin("probe").await;
            (row["adoptedAt"] != was).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn another_component_serves_new_calls_and_not_the_task() {
    let task = Parked::asks(2).await;
    // A rewritten policy: the new build gets its grants.
    task.replace("rust/trial", &format!("# read again\n{CALL}{ASK}")).await;
    assert_eq!(text(task.client().call("echo", json!({ "text": "new" })).await.result()), "new");
    task.answer("a").await;
    task.answer("b").await;
    assert_eq!(task.ends().await, (2, None));
}

#[tokio::test]
async fn a_component_without_grants_asks_nothing_for_the_old_one() {
    let task = Parked::asks(2).await;
    task.replace("rust/trial", &format!("{CALL}{ASK}")).await;
    task.answer("a").await;
    let (count, why) = task.ends().await;
    assert_eq!(count, 1, "what was asked before is answered");
    assert!(why.is_some(), "and nothing is asked any more");
}

#[tokio::test]
async fn a_revoked_grant_holds_for_what_comes_next() {
    let task = Parked::asks(2).await;
    task.replace("probe", CALL).await;
    task.answer("a").await;
    let (count, why) = task.ends().await;
    assert_eq!(count, 1);
    assert!(why.is_some());
}

#[tokio::test]
async fn a_plugin_that_is_gone_ends_its_tasks_well_and_asks_nothing() {
    let task = Parked::asks(2).await;
    fs::remove_file(task.host.setup().plugins().join("probe.wasm")).expect("the component");
    let client = task.client();
    eventually("the tools go", || async { client.tools().await.is_empty().then_some(()) }).await;
    task.answer("a").await;
    let (count, why) = task.ends().await;
    assert_eq!(count, 1);
    assert!(why.is_some());
}

#[tokio::test]
async fn a_tighter_policy_is_for_new_runs() {
    let task = Parked::asks(3).await;
    let tight = format!("[limits]\nquestions = 1\nfuel = 100_000\n{CALL}{ASK}");
    task.replace("probe", &tight).await;
    for answer in ["a", "b", "c"] {
        task.answer(answer).await;
    }
    assert_eq!(task.ends().await, (3, None));
}

#[tokio::test]
async fn compiled_code_that_is_gone_is_made_again() {
    let Parked { mut host, id } = Parked::asks(1).await;
    host.kill();
    fs::remove_dir_all(host.setup().data().join("compiled")).expect("the compiled code");
    let task = Parked { host: host.restart().await, id };
    task.answer("a").await;
    assert_eq!(task.ends().await, (1, None));
}

#[tokio::test]
async fn bytes_that_cannot_be_read_are_waited_for() {
    let task = Parked::asks(1).await;
    let digest = task.host.plugin("probe").await["digest"].as_str().expect("a digest").to_owned();
    task.replace("rust/trial", &format!("# read again\n{CALL}{ASK}")).await;
    let kept = task.host.setup().data().join("components").join(format!("{digest}.wasm"));
    let away = kept.with_extension("away");
    fs::rename(&kept, &away).expect("the kept bytes");
    task.answer("a").await;
    eventually("the failure is logged", || async {
        task.host.log().contains("its kept bytes cannot be read").then_some(())
    })
    .await;
    assert_eq!(task.client().get(&task.id).await.result()["status"], "working", "nothing is settled");
    fs::rename(&away, &kept).expect("the kept bytes");
    assert_eq!(task.ends().await, (1, None));
}

#[tokio::test]
async fn a_sleep_does_not_follow_a_clock_that_is_set() {
    let setup = Setup::new();
    let clock = setup.root().join("clock");
    let setup = setup.env("LAYBYTEST_CLOCK", &clock.display().to_string());
    let host = setup.plugin("probe", CALL).start().await;
    let client = host.client();
    let begin = Instant::now();
    let id = client.task("nap", json!({ "ms": 4000 })).await;
    parked(&host, &id).await;
    // Almost a day on.
    fs::write(&clock, "jump 82800000").expect("a clock");
    let task = client.status(&id, "completed").await;
    assert_eq!(text(&task["result"]), "slept 4000 ms");
    assert!(begin.elapsed() >= Duration::from_secs(4), "it slept too little");
}

/// A host whose `probe` has read a file of a folder that it may only read, and asks.
async fn parked_with_a_file() -> Parked {
    let setup = Setup::new();
    fs::write(setup.files().join("note"), "as it was").expect("a file");
    let policy = format!("{CALL}{ASK}files = [{}]", setup.grant(false));
    let host = setup.plugin("probe", &policy).config("[catalog]\nretry = \"1s\"").start().await;
    let steps = json!([{ "do": "read", "path": "/files/note" }, { "do": "ask" }, { "do": "read", "path": "/files/note" }]);
    let id = host.client().task("steps", json!({ "steps": steps })).await;
    parked(&host, &id).await;
    Parked { host, id }
}

#[tokio::test]
async fn a_file_that_has_changed_ends_the_task_by_its_name() {
    for change in ["", "as it is now", "as it wus"] {
        let task = parked_with_a_file().await;
        let file = task.host.setup().files().join("note");
        fs::write(task.host.setup().files().join("another"), "").expect("a file");
        match change {
            "" => fs::remove_file(&file).expect("the file"),
            text => fs::write(&file, text).expect("the file"),
        }
        task.answer("a").await;
        let failed = task.client().status(&task.id, "failed").await;
        let data = &failed["error"]["data"];
        assert_eq!(
            (&data["code"], &data["path"]),
            (&json!("file_changed"), &json!("/files/note")),
            "{failed}"
        );
        assert!(failed["error"]["message"].as_str().is_some_and(|text| text.contains("/files/note")));
        assert!(!failed.to_string().contains(task.host.setup().root().to_str().expect("a path")));
    }
}

#[tokio::test]
async fn a_file_that_was_written_again_alike_is_as_it_was() {
    let task = parked_with_a_file().await;
    let file = task.host.setup().files().join("note");
    fs::remove_file(&file).expect("the file");
    fs::write(&file, "as it was").expect("a file");
    task.answer("a").await;
    let done = task.client().status(&task.id, "completed").await;
    assert_eq!(text(&done["result"]), r#"["as it was","ok","as it was"]"#);
}

/// The mount is away, its place too or not, and the host is another one or not.
#[tokio::test]
async fn a_mount_that_is_missing_is_waited_for() {
    for (place, killed) in [(false, false), (true, false), (false, true)] {
        let Parked { mut host, id } = parked_with_a_file().await;
        let (files, away) = (host.setup().files(), host.setup().root().join("away"));
        fs::rename(&files, &away).expect("the folder");
        if place {
            fs::create_dir(&files).expect("the mount's place");
        }
        if killed {
            host = host.restart_at_once();
            host.refusal("probe", "plugin_bad_grant").await;
            // Nobody has to wait for it: it is tried again.
            eventually("nothing is under way", || async {
                let ready = layby_tests::client::http().get(format!("{}/ready", host.base())).send().await;
                let ready: Value = ready.expect("an answer").json().await.expect("JSON");
                let plugins = &ready["plugins"];
                (plugins["compiling"] == 0 && plugins["refused"] == 1).then_some(())
            })
            .await;
        }
        let task = Parked { host, id };
        task.answer("a").await;
        eventually("the failure is logged", || async {
            let log = task.host.log();
            let why = ["cannot be opened", "is its mount missing", "cannot be given now"];
            why.iter().any(|why| log.contains(why)).then_some(())
        })
        .await;
        assert_eq!(task.client().get(&task.id).await.result()["status"], "working", "nothing is settled");
        if place {
            fs::remove_dir(&files).expect("the mount's place");
        }
        fs::rename(&away, &files).expect("the folder");
        let done = task.client().status(&task.id, "completed").await;
        assert_eq!(text(&done["result"]), r#"["as it was","ok","as it was"]"#, "{place} {killed}");
    }
}

/// A task that has sent one request with a secret in its header and is parked before its second: with the server, and
/// the file that has the secret.
async fn trusted() -> (Parked, Recorder, PathBuf) {
    let server = Recorder::start().await;
    let setup = Setup::new();
    let secret = setup.root().join("token");
    fs::write(&secret, "first-value\n").expect("a secret");
    let policy = trusting(&server, "TOKEN = { secret-file = \"../token\" }");
    let host = setup.plugin("probe", &policy).arg("--log").arg("debug").start().await;
    let get = |path: &str| {
        let headers = json!({ "authorization": "Bearer {layby-secret:TOKEN}" });
        json!({ "url": format!("{}/{path}", server.origin()), "headers": headers })
    };
    let arguments = json!({ "requests": [get("one"), get("two")], "ask": true, "nap_ms": 50 });
    let id = host.client().task("fetch", arguments).await;
    parked(&host, &id).await;
    assert_eq!(server.seen()[0].headers["authorization"], "Bearer first-value");
    (Parked { host, id }, server, secret)
}

fn trusting(server: &Recorder, secret: &str) -> String {
    format!(
        "{CALL}[grants]\nask = [\"form\"]\nhttp = [{{ allow = \"* {}/*\" }}]\nenv = {{ {secret} }}",
        server.origin()
    )
}

#[tokio::test]
async fn a_secret_may_be_another_by_then_and_is_kept_nowhere() {
    let (task, server, secret) = trusted().await;
    fs::write(&secret, "second-value\n").expect("a secret");
    task.answer("on").await;
    let ended = task.client().status(&task.id, "completed").await;
    assert_eq!(server.seen()[1].headers["authorization"], "Bearer second-value");
    assert!(!ended.to_string().contains("-value"), "{ended}");
    let export = task.host.setup().root().join("export.json");
    let path = export.to_str().expect("a path in UTF-8");
    assert_eq!(task.host.command(&["tasks", "export", &task.id, path]).await.code, Some(0));
    let mut kept = vec![task.host.log().into_bytes(), fs::read(&export).expect("the export")];
    for file in ["layby.db", "layby.db-wal"] {
        kept.push(fs::read(task.host.setup().data().join(file)).expect("the database"));
    }
    for bytes in kept {
        for value in [&b"first-value"[..], b"second-value"] {
            assert!(!bytes.windows(value.len()).any(|window| window == value));
        }
    }
}

#[tokio::test]
async fn a_secret_that_is_not_granted_any_more_is_not_sent() {
    let (task, server, _) = trusted().await;
    task.replace("probe", &trusting(&server, "")).await;
    task.answer("on").await;
    let ended = task.client().status(&task.id, "completed").await;
    assert!(text(&ended["result"]).contains("HttpRequestDenied"), "{ended}");
    assert_eq!(server.lines(), ["GET /one"]);
    assert!(task.host.log().contains("does not grant it any more"));
}

#[tokio::test]
async fn another_version_of_the_compiler_goes_on_without_comparing_fuel() {
    let Parked { host, id } = Parked::asks(2).await;
    let task = Parked { host: host.restart_with("LAYBYTEST_CODE", "another").await, id };
    task.answer("a").await;
    parked(&task.host, &task.id).await;
    task.answer("b").await;
    assert_eq!(task.ends().await, (2, None));
}
