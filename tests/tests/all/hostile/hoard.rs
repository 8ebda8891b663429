//! Attacks by requests that are granted: a plugin begins many, and holds them.

use std::time::Duration;

use layby_tests::{Client, Host, Recorder, Setup, eventually, result_code, text};
use serde_json::{Value, json};

use super::{
    call::seen,
    gauge::{Bystander, given_back, holds},
    make,
};

/// Of one run: how many it may begin, and how many of those may be under way.
const BEGUN: usize = 300;
const UNDER_WAY: usize = 4;

/// A host whose probe has all of `server`, and one who does no harm.
async fn host(server: &Recorder) -> (Host, Client, String) {
    let policy = format!(
        "[limits]\nhttp-requests = {BEGUN}\nhttp-concurrency = {UNDER_WAY}\nactive-time = \"3s\"\n\
         [call]\ndeadline = \"20s\"\n[grants]\nhttp = [{{ allow = \"* {}/*\" }}]",
        server.origin()
    );
    // Not the probe's nap, which would end with its own `active-time`.
    let sleep = make::component("sleep");
    let setup =
        Setup::probe(&policy).plugin("echo", "").file("sleep", &sleep, "[call]\ndeadline = \"100ms\"");
    let host = setup.start().await;
    let id = host.client().task("sleep", json!({})).await;
    let client = host.client();
    (host, client, id)
}

/// `count` requests of `path`, all begun before the first is awaited.
fn hoard(server: &Recorder, path: &str, count: usize) -> Value {
    let request = json!({ "url": format!("{}/{path}", server.origin()) });
    json!({ "requests": vec![request; count], "together": true })
}

/// Those that are begun and never answered, and those whose answers never end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hoard_that_is_held_for_ever_ends_with_its_run() {
    let server = Recorder::start().await;
    let (host, client, nap) = host(&server).await;
    let before = holds(&host);
    for path in ["hang", "drip"] {
        let (bystander, begun) = (Bystander::watch(&client, &nap), server.seen().len());
        let call = client.call("fetch", hoard(&server, path, 1000));
        tokio::pin!(call);
        let mut most = 0;
        let reply = loop {
            tokio::select! {
                reply = &mut call => break reply,
                () = tokio::time::sleep(Duration::from_millis(10)) => most = most.max(server.waiting()),
            }
        };
        assert_eq!(result_code(reply.result()), "limit_active_time", "{path}: {:?}", seen(&reply.message));
        let heard = bystander.hears(path).await;
        assert!((1..=UNDER_WAY).contains(&most), "{path}: {most} were under way at once");
        eventually("no connection is left", || async { (server.waiting() == 0).then_some(()) }).await;
        // None of those that waited for a place took that of one that ended with the run.
        assert!(
            server.seen().len() - begun <= UNDER_WAY,
            "{path}: {} were begun",
            server.seen().len() - begun
        );
        let after = given_back(&host, before, path).await;
        eprintln!("{path}: {most} under way, {before:?} {after:?}, {heard:?}");
    }
}

/// Past `http-requests` each is denied, and the rest are answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hoard_that_is_awaited_at_once_is_answered_up_to_its_limit() {
    let server = Recorder::start().await;
    let (host, client, nap) = host(&server).await;
    let before = holds(&host);
    let bystander = Bystander::watch(&client, &nap);
    let reply = client.call("fetch", hoard(&server, "x", 1000)).await;
    let answers: Vec<Value> = serde_json::from_str(text(reply.result())).expect("the tool's own JSON");
    let denied = |a: &&Value| a["error"].as_str().is_some_and(|e| e.contains("HttpRequestDenied"));
    assert_eq!(answers.iter().filter(|a| a["status"] == 200).count(), BEGUN);
    assert_eq!(answers.iter().filter(denied).count(), 1000 - BEGUN);
    assert_eq!(server.seen().len(), BEGUN);
    let heard = bystander.hears("a hoard").await;
    let after = tokio::time::timeout(Duration::from_secs(30), given_back(&host, before, "a hoard")).await;
    eprintln!("awaited: {before:?} {after:?}, {heard:?}");
}
