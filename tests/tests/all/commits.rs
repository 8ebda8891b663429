//! What is committed around an effect that must not happen twice: its start before it, and its end before the plugin can make
//! anything of it.

use std::fs;

use layby_tests::{
    Host, Recorder, Setup,
    client::{TASKS, everything},
    text,
};
use serde_json::{Value, json};
use sqlx::{Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};

/// The failpoints that these tests visit.
pub(crate) const FAILPOINTS: [&str; 2] = ["effect.after-end-commit", "file.after-end-commit"];

fn setup(grants: &str) -> Setup {
    let policy = format!("[call]\ndeadline = \"100ms\"\nlinger = \"60s\"\n[grants]\n{grants}");
    Setup::probe(&policy)
}

/// Short leases, so that tests do not wait for the real ones.
const LEASES: &str = "[store]\nlease = \"1s\"\ntakeover = \"1s\"";

fn posts(server: &Recorder, count: usize) -> Value {
    let post = json!({ "method": "POST", "url": format!("{}/pay", server.origin()), "body": "1 EUR" });
    Value::from(vec![post; count])
}

/// A call that becomes a task and whose host dies at `failpoint`; the next process, and the task.
async fn died(setup: Setup, failpoint: &str, tool: &str, arguments: Value) -> (Host, String) {
    let mut host = setup.config(LEASES).env("LAYBY_FAILPOINTS", &format!("{failpoint}=kill")).start().await;
    let client = host.client_with(json!({ "extensions": { TASKS: {} } }));
    let id = client.task(tool, arguments).await;
    host.ended().await;
    (host.restart_without("LAYBY_FAILPOINTS").await, id)
}

#[tokio::test]
async fn the_answer_of_a_request_that_the_plugin_could_have_is_known_after_a_crash() {
    let server = Recorder::start().await;
    let setup = setup(&format!("http = [{{ allow = \"* {}/*\" }}]", server.origin()));
    let arguments = json!({ "requests": posts(&server, 1), "nap_ms": 300 });
    let (host, id) = died(setup, FAILPOINTS[0], "fetch", arguments).await;
    let task = host.client().status(&id, "completed").await;
    assert!(text(&task["result"]).contains("ok 1"), "{task}");
    assert_eq!(server.lines(), ["POST /pay"]);
}

#[tokio::test]
async fn the_end_of_a_change_that_the_plugin_could_have_is_known_after_a_crash() {
    for (change, says) in [("make-folder", "ok"), ("remove-folder", "error: NotFound")] {
        let setup = Setup::new();
        let grant = setup.grant(true);
        let policy = format!("[call]\ndeadline = \"100ms\"\n[grants]\nfiles = [{grant}]");
        let setup = setup.plugin("probe", &policy);
        let steps = json!([{ "do": "nap", "ms": 400 }, { "do": change, "path": "/files/deep" }]);
        let (host, id) = died(setup, FAILPOINTS[1], "steps", json!({ "steps": steps })).await;
        let task = host.client().status(&id, "completed").await;
        assert_eq!(text(&task["result"]), format!("[\"ok\",\"{says}\"]"), "{task}");
    }
}

/// How many pieces of its journal were committed for a task that has ended.
async fn commits(host: &Host, id: &str) -> i64 {
    host.client_with(everything()).status(id, "completed").await;
    let options = SqliteConnectOptions::new().filename(host.setup().data().join("layby.db")).read_only(true);
    let mut c = SqliteConnection::connect_with(&options).await.expect("the database");
    let task: uuid::Uuid = id.parse().expect("an id");
    let pieces = "SELECT pieces FROM tasks WHERE id = ?1";
    sqlx::query_scalar(pieces).bind(task.as_bytes().to_vec()).fetch_one(&mut c).await.expect("the task")
}

/// Beside those for the effects: the header, what came before the promotion, the end, and one for each second.
const OTHERS: i64 = 8;

#[tokio::test]
async fn a_request_costs_two_commits_and_those_under_way_together_share_them() {
    let server = Recorder::start().await;
    let grants = format!("http = [{{ allow = \"* {}/*\" }}]", server.origin());
    let host = setup(&grants).start().await;
    let client = host.client();
    let arguments = json!({ "requests": posts(&server, 8), "nap_ms": 150 });
    let id = client.task("fetch", arguments).await;
    let one_by_one = commits(&host, &id).await;
    assert!((16..=16 + OTHERS).contains(&one_by_one), "{one_by_one}");
    let mut requests = posts(&server, 8);
    let slow = json!({ "url": format!("{}/first", server.origin()) });
    requests.as_array_mut().expect("a list").insert(0, slow);
    let id = client.task("fetch", json!({ "requests": requests, "together": true, "nap_ms": 110 })).await;
    let together = commits(&host, &id).await;
    assert!(together <= 16 + OTHERS, "{together}");
    assert_eq!(server.lines().len(), 17);
}

#[tokio::test]
async fn writes_in_a_row_cost_a_commit_each() {
    let setup = Setup::new();
    let policy = format!("[call]\ndeadline = \"100ms\"\n[grants]\nfiles = [{}]", setup.grant(true));
    let host = setup.plugin("probe", &policy).start().await;
    let mut steps =
        vec![json!({ "do": "nap", "ms": 400 }), json!({ "do": "open-append", "path": "/files/log" })];
    steps.extend((0..20).map(|n| json!({ "do": "put", "text": format!("{n}\n") })));
    let id = host.client().task("steps", json!({ "steps": steps })).await;
    let count = commits(&host, &id).await;
    // On a machine that is busy the next may be late.
    assert!((20..20 + 15).contains(&count), "{count}");
    let lines: String = (0..20).map(|n| format!("{n}\n")).collect();
    assert_eq!(fs::read_to_string(host.setup().files().join("log")).expect("the log"), lines);
}
