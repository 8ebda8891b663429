//! Values of the environment and configuration are in the database under seal only, and whoever has the key goes on.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use layby_tests::{Host, Setup, eventually, guests, text};
use serde_json::{Value, json};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};

const POLICY: &str = "[call]\ndeadline = \"100ms\"\nlinger = \"0s\"\n[grants]\nask = [\"form\"]\n\
                      env = { PLACE = \"a-sealed-place\" }\nconfig = { units = \"sealed-units\" }";
const VALUES: [&str; 2] = ["a-sealed-place", "sealed-units"];
const CLOSED: &str = "is sealed under another key (id ";

/// What the task of [`parked`] says in the end.
fn seen() -> Value {
    json!(["a-sealed-place", "ok", "a-sealed-place", "sealed-units"])
}

/// A task that has read its environment, and asks.
async fn parked(host: &Host) -> String {
    let read = json!({ "do": "variable", "path": "PLACE" });
    let steps = json!([read, { "do": "ask" }, read, { "do": "setting", "path": "units" }]);
    let id = host.client().task("steps", json!({ "steps": steps })).await;
    eventually("the task is parked", || async {
        let tasks = host.tasks().await;
        tasks.iter().any(|task| task["taskId"] == id.as_str() && task["parked"] == true).then_some(())
    })
    .await;
    id
}

async fn answer(host: &Host, id: &str) {
    let task = host.client().status(id, "input_required").await;
    let key = task["inputRequests"].as_object().and_then(|asked| asked.keys().next()).expect("a question");
    host.client().accept(id, key, json!({ "value": "on" })).await.result();
}

/// What it says in the end.
async fn end(host: &Host, id: &str) -> Value {
    let task = host.client().status(id, "completed").await;
    serde_json::from_str(text(&task["result"])).expect("the tool's own JSON")
}

fn key(host: &Host) -> PathBuf {
    host.setup().data().join("keys/seal.key")
}

fn has(bytes: &[u8], what: &str) -> bool {
    bytes.windows(what.len()).any(|window| window == what.as_bytes())
}

async fn database(host: &Host) -> SqliteConnection {
    let file = host.setup().data().join("layby.db");
    SqliteConnectOptions::new().filename(file).connect().await.expect("the database")
}

/// A plugin's policy, as its row has it.
async fn policy(host: &Host) -> String {
    let mut c = database(host).await;
    let row: Vec<u8> =
        sqlx::query_scalar("SELECT policy FROM plugins").fetch_one(&mut c).await.expect("a row");
    c.close().await.expect("an end in order");
    String::from_utf8(row).expect("text")
}

#[tokio::test]
async fn values_are_nowhere_in_the_database_and_in_no_export() {
    let host = Setup::new().plugin("probe", POLICY).arg("--log").arg("debug").start().await;
    let id = parked(&host).await;
    let export = host.setup().root().join("export.json");
    let path = export.to_str().expect("a path in UTF-8");
    assert_eq!(host.command(&["tasks", "export", &id, path]).await.code, Some(0));
    let mut kept = vec![(PathBuf::from("log"), host.log().into_bytes())];
    let database = ["layby.db", "layby.db-wal"].map(|file| host.setup().data().join(file));
    for file in [&export, &database[0], &database[1]] {
        kept.push((file.clone(), fs::read(file).expect("a file")));
    }
    assert!(kept.iter().any(|(_, bytes)| has(bytes, "\"sealed\":\"")), "the header has them under seal");
    for (file, bytes) in &kept {
        for value in VALUES {
            assert!(!has(bytes, value), "{} has {value}", file.display());
        }
    }
    assert!(policy(&host).await.starts_with("sealed:"));
    // Replayed where the key is.
    assert_eq!(host.command(&["replay", &id]).await.json()["verdict"], "open");
    let trial = guests::component("probe");
    let build = host.setup().root().join("probe.wasm");
    fs::write(&build, trial).expect("a component");
    let check = host.command(&["plugins", "check", build.to_str().expect("a path in UTF-8")]).await.json();
    assert_eq!(check["tasks"][0]["goesOn"], true, "{check}");
    // And not where it is not, unless it is told of.
    let away = host.setup().root().join("seal.key");
    fs::rename(key(&host), &away).expect("the key");
    let refused = host.command(&["replay", &id]).await.json();
    assert_eq!(refused["error"]["code"], "seal_key_missing", "{refused}");
    fs::write(host.setup().root().join("layby.toml"), "[store]\nseal-key = \"seal.key\"").expect("a file");
    assert_eq!(host.command(&["replay", &id]).await.json()["verdict"], "open");
    answer(&host, &id).await;
    assert_eq!(end(&host, &id).await, seen());
}

#[tokio::test]
async fn a_task_waits_for_its_key_and_an_older_one_opens() {
    let mut host = Setup::new().plugin("probe", POLICY).start().await;
    let id = parked(&host).await;
    host.kill();
    let (key, away) = (key(&host), key(&host).with_extension("away"));
    fs::rename(&key, &away).expect("the key");
    // A key of its own is made.
    let mut host = host.restart().await;
    answer(&host, &id).await;
    let what = format!("the task {id} of probe is not resumed here");
    eventually("it is logged", || async { host.log().contains(&what).then_some(()) }).await;
    let log = host.log();
    assert!(log.contains(CLOSED) && log.contains("store.seal-key"), "{log}");
    assert_eq!(log.matches("the policy that the plugin probe had").count(), 1, "{log}");
    assert_eq!(host.client().get(&id).await.result()["status"], "working", "nothing is settled");
    assert_eq!(host.plugin("probe").await["withoutGrants"], false);
    let refused = host.command(&["replay", &id]).await.json();
    assert_eq!(refused["error"]["code"], "seal_key_missing", "{refused}");
    let new = parked(&host).await;
    host.kill();
    // The key of the first task behind the one of the second.
    let old = fs::read(&away).expect("the old key");
    let fresh = fs::read(&key).expect("the new key");
    assert_ne!(old, fresh);
    fs::write(&key, [fresh, old].concat()).expect("a file");
    let host = host.restart().await;
    answer(&host, &new).await;
    for id in [&id, &new] {
        assert_eq!(end(&host, id).await, seen());
    }
    assert!(!host.log().contains(CLOSED), "{}", host.log());
}

#[tokio::test]
async fn a_policy_that_cannot_be_opened_gives_no_grants_to_another_component() {
    for (component, granted) in [("probe", true), ("rust/trial", false)] {
        let mut host = Setup::new().plugin("probe", POLICY).start().await;
        let before = policy(&host).await;
        host.kill();
        fs::remove_file(key(&host)).expect("the key");
        host.put("probe", &guests::component(component), POLICY);
        let host = host.restart().await;
        eventually("its row is written anew", || async { (policy(&host).await != before).then_some(()) })
            .await;
        assert_eq!(host.plugin("probe").await["withoutGrants"], !granted, "{component}");
    }
}

#[tokio::test]
async fn a_policy_from_before_is_read_and_then_sealed() {
    let mut host = Setup::new().plugin("probe", POLICY).start().await;
    host.kill();
    let mut c = database(&host).await;
    let query = sqlx::query("UPDATE plugins SET policy = ?1").bind(POLICY.as_bytes());
    query.execute(&mut c).await.expect("a row");
    c.close().await.expect("an end in order");
    assert_eq!(policy(&host).await, POLICY);
    let host = host.restart().await;
    assert!(host.log().contains("serves again"), "{}", host.log());
    eventually("it is sealed", || async { policy(&host).await.starts_with("sealed:").then_some(()) }).await;
    assert_eq!(host.plugin("probe").await["withoutGrants"], false);
    let id = parked(&host).await;
    answer(&host, &id).await;
    assert_eq!(end(&host, &id).await, seen());
}

#[tokio::test]
async fn a_key_that_will_not_do_is_refused_at_the_start() {
    let setup = Setup::new().config("[store]\nseal-key = \"the.key\"");
    let file = setup.root().join("the.key");
    let open =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    for (bytes, mode, why) in
        [(None, 0, "No such file"), (Some(31), 0o600, "31 bytes"), (Some(32), 0o640, "open to other users")]
    {
        if let Some(bytes) = bytes {
            fs::write(&file, vec![7; bytes]).expect("a file");
            open(&file, mode);
        }
        let refused = setup.start_failing().await;
        assert_eq!(refused.code, Some(2), "{refused:?}");
        for part in ["seal_key_invalid", "store.seal-key", "the.key", why] {
            assert!(refused.err.contains(part), "{part}: {refused:?}");
        }
    }
    open(&file, 0o600);
    let host = setup.plugin("probe", POLICY).start().await;
    assert!(!key(&host).exists(), "none is made beside it");
    let id = parked(&host).await;
    answer(&host, &id).await;
    assert_eq!(end(&host, &id).await, seen());
}
