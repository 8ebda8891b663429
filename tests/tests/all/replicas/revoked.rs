//! What is revoked at one replica, all obey.

use layby_tests::{Setup, error_code, eventually};
use serde_json::json;

use super::{CONFIG, Fleet, database, nap, replica};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_replica_revokes_none_runs() {
    let mut fleet = Fleet::postgres().await;
    let client = fleet.client();
    let digest = fleet.hosts[0].plugin("probe").await["digest"].as_str().unwrap().to_owned();
    // At work, in a loop and parked, at each of them.
    let mut tasks = Vec::new();
    for (tool, arguments) in [("nap", nap(600_000)), ("burn", json!({})), ("ask", json!({}))] {
        for host in &fleet.hosts {
            tasks.push(host.client().task(tool, arguments.clone()).await);
        }
    }
    let rows = fleet.hosts[0].setup().database();
    let asked = tasks[8].clone();
    eventually("it is parked", || async { rows.is_nobodys(&asked).await.then_some(()) }).await;
    let done = fleet.hosts[1].command(&["plugins", "revoke", &digest, "--reason", "a test"]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    for id in &tasks {
        let task = client.ended(id).await;
        assert_eq!((&task["status"], error_code(&task)), (&json!("failed"), "plugin_revoked"), "{task}");
        assert_eq!(task["error"]["data"]["digest"], digest, "{task}");
    }
    for host in &fleet.hosts {
        let client = host.client();
        eventually("nothing serves", || async { client.tools().await.is_empty().then_some(()) }).await;
        assert!(host.log().contains("revoked (a test)"), "{}", host.log());
    }
    // Nor one that starts again, nor one that joins.
    let url = fleet.hosts[0].setup().url().unwrap().to_owned();
    let first = fleet.hosts.remove(0).restart().await;
    let joined = replica(&url).await;
    for host in [&first, &joined] {
        assert!(host.client().tools().await.is_empty());
        assert_eq!(host.plugin("probe").await["refusal"]["code"], "plugin_revoked");
    }
    first.command(&["plugins", "revoke", &digest, "--undo"]).await;
    for host in [&first, &joined, &fleet.hosts[0], &fleet.hosts[1]] {
        let client = host.client();
        eventually("it serves again", || async { (!client.tools().await.is_empty()).then_some(()) }).await;
    }
}

/// The component's bytes are in the database, and the replica that is left has no file of it.
#[tokio::test]
async fn a_task_does_not_go_on_with_what_the_database_keeps_of_a_revoked_component() {
    let url = database().await;
    let mut host = replica(&url).await;
    let client = host.client();
    let digest = host.plugin("probe").await["digest"].as_str().unwrap().to_owned();
    let asks = client.task("ask", json!({})).await;
    let works = client.task("nap", nap(3000)).await;
    let rows = host.setup().database();
    eventually("it is parked", || async { rows.is_nobodys(&asks).await.then_some(()) }).await;
    host.kill();
    let done = host.command(&["plugins", "revoke", &digest]).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let other = Setup::new().config(CONFIG).store(&url).start().await;
    for id in [asks, works] {
        let task = other.client().ended(&id).await;
        assert_eq!(error_code(&task), "plugin_revoked", "{task}");
    }
    assert!(!other.setup().data().join(format!("components/{digest}.wasm")).exists(), "it was taken in");
}
