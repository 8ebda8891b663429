//! `layby plugins revoke`: nothing runs on the component any more, and what waits on it ends.

use std::fs;

use layby_tests::{Client, Host, Setup, chameleon, error_code, eventually, guests, host::replace, text};
use serde_json::{Value, json};

const LEASES: &str = "[store]\nlease = \"1s\"\ntakeover = \"1s\"";
/// What runs is to be stopped by the revocation alone.
const CALL: &str = "[limits]\nfuel = 2_000_000_000_000\n[call]\ndeadline = \"100ms\"\ngrace = \"60s\"\nlinger = \"0s\"\n\
                    [tools.nap.call]\nlinger = \"60s\"\n";

fn policy(note: &str, grants: &str) -> String {
    format!("# {note}\n{CALL}[grants]\nask = [\"form\"]\n{grants}")
}

/// The same component with other bytes: a custom section.
fn noted(bytes: &[u8]) -> Vec<u8> {
    [bytes, &[0, 5, 4], b"note"].concat()
}

async fn digest(host: &Host, name: &str) -> String {
    host.plugin(name).await["digest"].as_str().expect("it serves").to_owned()
}

async fn parked(host: &Host, id: &str) {
    let database = host.setup().database();
    eventually("the task is parked", || async { database.is_nobodys(id).await.then_some(()) }).await;
}

/// The task has failed, and says which component is revoked.
async fn ended(client: &Client, id: &str, digest: &str) {
    let task = client.ended(id).await;
    assert_eq!(task["status"], "failed", "{task}");
    assert_eq!(error_code(&task), "plugin_revoked", "{task}");
    assert_eq!(task["error"]["data"]["digest"], digest, "{task}");
    assert!(task["statusMessage"].as_str().unwrap().contains(digest), "{task}");
}

async fn revoke(host: &Host, digest: &str) {
    let done = host.command(&["plugins", "revoke", digest]).await;
    assert_eq!((done.code, &done.json()["changed"]), (Some(0), &json!(true)), "{done:?}");
}

fn spin() -> Value {
    json!({ "ms": 600_000, "step_ms": 5 })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_runs_on_a_revoked_component_stops_and_what_waits_ends() {
    let setup = Setup::new();
    let grants = format!("files = [{}]", setup.grant(true));
    let host = setup.config(LEASES).plugin("probe", &policy("", &grants)).start().await;
    let (client, digest) = (host.client(), digest(&host, "probe").await);
    let waits = client.task("ask", json!({})).await;
    let asleep = client.task("nap", json!({ "ms": 600_000 })).await;
    let naps = client.task("nap", spin()).await;
    let loops = client.task("burn", json!({})).await;
    let writes = client.task("stubborn", json!({ "ms": 600_000, "path": "/files/works" })).await;
    let keyed = client.clone().meta("layby/idempotency-key", json!("once"));
    let once = keyed.task("nap", spin()).await;
    // Neither a row nor a handle: its client has no tasks.
    let held = host.client_with(json!({}));
    let held = tokio::spawn(async move { held.call("nap", spin()).await });
    parked(&host, &waits).await;
    let file = host.setup().files().join("works");
    eventually("it writes", || async { fs::metadata(&file).is_ok_and(|m| m.len() > 0).then_some(()) }).await;

    let done = host.command(&["plugins", "revoke", &digest[..12], "--reason", "it \u{1b}[31mleaks"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.json()["digest"], digest, "{done:?}");
    for id in [&waits, &asleep, &naps, &loops, &writes, &once] {
        ended(&client, id, &digest).await;
    }
    assert_eq!(held.await.unwrap().code(), "plugin_revoked");
    assert_eq!(error_code(&keyed.call("nap", spin()).await.message), "plugin_revoked");
    let written = fs::metadata(&file).unwrap().len();
    let refused = host.refusal("probe", "plugin_revoked").await;
    assert_eq!((&refused["state"], &refused["digest"]), (&json!("revoked"), &Value::Null), "{refused}");
    assert!(refused["refusal"]["reason"].as_str().unwrap().contains("it \\u{1b}[31mleaks"), "{refused}");
    assert!(client.tools().await.is_empty());
    assert_eq!(client.call("nap", json!({})).await.code(), "tool_unknown");
    for list in [&["plugins"][..], &["plugins", "revoked"]] {
        let text = host.command_text(list).await;
        assert!(text.contains("revoked") || text.contains(&digest), "{text}");
        assert!(text.contains("\\u{1b}[31mleaks") && !text.contains('\u{1b}'), "{text}");
    }
    let listed = host.command(&["plugins", "revoked"]).await.json();
    assert_eq!(listed["revoked"][0]["digest"], digest, "{listed}");
    let again = host.command(&["plugins", "revoke", &digest]).await.json();
    assert_eq!((&again["changed"], &again["reason"]), (&json!(false), &listed["revoked"][0]["reason"]));

    // A start changes nothing of that.
    let host = host.restart().await;
    let client = host.client();
    host.refusal("probe", "plugin_revoked").await;
    assert!(client.tools().await.is_empty());
    assert_eq!(fs::metadata(&file).unwrap().len(), written, "it was stopped");

    // Taken back: the component that lies there serves again, and what has ended stays so.
    let undone = host.command(&["plugins", "revoke", &digest, "--undo"]).await.json();
    assert_eq!((&undone["revoked"], &undone["changed"]), (&json!(false), &json!(true)));
    eventually("it serves", || async { (!client.tools().await.is_empty()).then_some(()) }).await;
    assert_eq!(text(client.call("nap", json!({ "ms": 1 })).await.result()), "slept 1 ms");
    ended(&client, &waits, &digest).await;
    eventually("no refusal", || async {
        let plugin = host.plugin("probe").await;
        (plugin["state"] == "serving" && plugin["refusal"].is_null()).then_some(())
    })
    .await;
    for (args, code) in [
        (&["plugins", "revoke", "abcdef012345"][..], "digest_unknown"),
        (&["plugins", "revoke", &digest, "--undo"], "not_revoked"),
        (&["plugins", "revoke", &digest, "--reason", &"x".repeat(501)], "reason_too_long"),
    ] {
        let done = host.command(args).await;
        assert!(done.code != Some(0) && done.out.contains(code), "{done:?}");
    }
}

/// Also where no host runs when it is revoked, and a dead one held them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_began_on_an_older_component_end_and_others_go_on() {
    let old = guests::component("probe");
    let setup = Setup::new().config(LEASES).file("probe", &old, &policy("1", ""));
    let mut host = setup.start().await;
    let client = host.client();
    let first = digest(&host, "probe").await;
    let condemned = [client.task("ask", json!({})).await, client.task("nap", spin()).await];
    host.put("probe", &noted(&old), &policy("2", ""));
    eventually("the newer one serves", || async {
        (host.plugin("probe").await["digest"] != json!(first)).then_some(())
    })
    .await;
    let spared = [client.task("ask", json!({})).await, client.task("nap", json!({ "ms": 6000 })).await];
    for id in [&condemned[0], &spared[0]] {
        parked(&host, id).await;
    }
    host.kill();
    revoke(&host, &first).await;
    let host = host.restart().await;
    let client = host.client();
    for id in &condemned {
        ended(&client, id, &first).await;
    }
    assert_eq!(host.plugin("probe").await["state"], "serving");
    assert_eq!(text(&client.status(&spared[1], "completed").await["result"]), "slept 6000 ms");
    assert_eq!(client.get(&spared[0]).await.result()["status"], "input_required");
    // The running host hears of it as well.
    let second = digest(&host, "probe").await;
    revoke(&host, &second).await;
    ended(&client, &spared[0], &second).await;
    // The older one may serve again, once it may run.
    host.command(&["plugins", "revoke", &first, "--undo"]).await;
    host.put("probe", &old, &policy("3", ""));
    eventually("the older one serves", || async {
        (host.plugin("probe").await["digest"] == json!(first)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_revoked_component_displaces_nothing() {
    let (good, bad) = (chameleon::version("1", "pet"), chameleon::version("2", "pet"));
    // Known by its digest before any host has seen it.
    let elsewhere = Setup::new().file("pet", &bad, "").start().await;
    let digest = digest(&elsewhere, "pet").await;
    drop(elsewhere);
    let host = Setup::new().file("pet", &good, "").start().await;
    let client = host.client();
    let version = async || {
        let reply = client.call("pet", json!({})).await;
        let answer: Value = serde_json::from_str(text(reply.result())).unwrap();
        answer["version"].as_str().map(str::to_owned)
    };
    revoke(&host, &digest).await;
    replace(&host.setup().plugins().join("pet.wasm"), &bad);
    let plugin = host.refusal("pet", "plugin_revoked").await;
    assert_eq!(plugin["state"], "serving, newer refused", "{plugin}");
    assert_eq!(version().await.as_deref(), Some("1"));
    let undone = host.command(&["plugins", "revoke", &digest, "--undo"]).await;
    assert_eq!(undone.code, Some(0), "{undone:?}");
    eventually("the other one", || async { (version().await.as_deref() == Some("2")).then_some(()) }).await;
}
