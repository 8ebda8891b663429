//! Outgoing HTTP: what a grant lets out, what is denied, and the bounds.

use std::time::{Duration, Instant};

use layby_tests::{Host, Recorder, Setup, eventually, result_code, text};
use serde_json::{Value, json};

/// The failpoints that these tests visit: what becomes of a request depends on its method, not only on the moment.
pub(crate) const FAILPOINTS: [&str; 4] =
    ["effect.before-start", "effect.after-start-commit", "effect.after-send", "effect.after-answer"];

/// A host whose probe has these grants (`allow` each) and more policy.
async fn host(allow: &[String], more: &str) -> Host {
    let grants: Vec<String> = allow.iter().map(|allow| format!("{{ allow = \"{allow}\" }}")).collect();
    Setup::probe(&format!("{more}\n[grants]\nhttp = [{}]\nask = [\"form\"]", grants.join(", "))).start().await
}

/// All of `server`, for every method.
fn all(server: &Recorder) -> String {
    format!("* {}/*", server.origin())
}

/// What became of `requests`.
async fn fetch(host: &Host, requests: Value) -> Vec<Value> {
    let reply = host.client().call("fetch", json!({ "requests": requests })).await;
    answers(reply.result())
}

fn answers(result: &Value) -> Vec<Value> {
    serde_json::from_str(text(result)).expect("the tool's own JSON")
}

fn error(answer: &Value) -> &str {
    answer["error"].as_str().unwrap_or_else(|| panic!("no error: {answer}"))
}

async fn logged(host: &Host, what: &str) {
    eventually(&format!("{what:?} in the log"), || async { host.log().contains(what).then_some(()) }).await;
}

#[tokio::test]
async fn what_is_granted_reaches_its_server() {
    let server = Recorder::start().await;
    let origin = server.origin();
    let host = host(&[format!("GET {origin}/v1/*"), format!("POST {origin}/notes")], "").await;
    let got = fetch(
        &host,
        json!([
            { "url": format!("{origin}/v1/x?q=1"), "headers": { "x-mine": "a" } },
            { "method": "POST", "url": format!("{origin}/notes"), "body": "hello", "fill": 300_000 },
            { "url": format!("{origin}/v1/../v1/status/404") },
        ]),
    )
    .await;
    assert_eq!(got[0]["status"], 200, "{got:?}");
    assert_eq!(got[0]["body"], "ok 1");
    assert_eq!(got[2]["status"], 200, "{got:?}");
    let seen = server.seen();
    assert_eq!(server.lines(), ["GET /v1/x?q=1", "POST /notes", "GET /v1/status/404"]);
    assert_eq!(seen[0].headers["x-mine"], "a");
    assert_eq!(seen[0].headers["host"], format!("127.0.0.1:{}", server.port()));
    assert_eq!((seen[1].body.len(), &seen[1].body[..5]), (300_005, &b"hello"[..]));
}

#[tokio::test]
async fn what_is_not_granted_is_denied_and_the_log_says_how_to_grant_it() {
    let server = Recorder::start().await;
    let origin = server.origin();
    let host = host(&[format!("GET {origin}/v1/*")], "").await;
    let local = format!("http://localhost:{}", server.port());
    let got = fetch(
        &host,
        json!([
            { "method": "POST", "url": format!("{origin}/v1/x?token=hunter2") },
            { "url": format!("{origin}/v1/..%2fx") },
            { "url": format!("{origin}/v2/x") },
            { "url": format!("{local}/v1/x") },
            { "url": format!("http://user@127.0.0.1:{}/v1/x", server.port()) },
            { "url": "https://example.com/" },
        ]),
    )
    .await;
    for answer in &got {
        assert!(error(answer).contains("HttpRequestDenied"), "{answer}");
    }
    logged(&host, &format!("add {{ allow = \"POST {origin}/v1/x\" }} to grants.http")).await;
    logged(&host, "add { allow = \"GET https://example.com/\" } to grants.http").await;
    logged(&host, "plugin=\"probe\"").await;
    assert!(!host.log().contains("hunter2"));
    assert_eq!(server.lines(), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_leads_to_the_host_itself_or_its_network() {
    let server = Recorder::start().await;
    let first = host(&[], "").await;
    // The port is known once it is bound: another host of the same grants would have another port.
    let port = first.port();
    let policy = format!(
        "[grants]\nhttp = [{{ allow = \"* http://127.0.0.1:{port}/*\" }}, {{ allow = \"* http://localhost:{port}/*\" }}, \
         {{ allow = \"* http://localhost:{}/*\" }}]",
        server.port()
    );
    let probe = layby_tests::guests::component("probe");
    first.put("probe", &probe, &policy);
    eventually("the grants are given", || async {
        let got = fetch(&first, json!([{ "url": format!("http://127.0.0.1:{port}/") }])).await;
        got[0]["error"].as_str().unwrap_or_default().contains("DestinationIpProhibited").then_some(())
    })
    .await;
    let got = fetch(
        &first,
        json!([{ "url": format!("http://localhost:{port}/") }, { "url": format!("http://localhost:{}/", server.port()) }]),
    )
    .await;
    assert!(error(&got[0]).contains("DestinationIpProhibited"), "{got:?}");
    assert_eq!(got[1]["status"], 200, "{got:?}");
    logged(&first, "one of this host's own sockets").await;
}

#[tokio::test]
async fn bounds_hold() {
    let server = Recorder::start().await;
    let origin = server.origin();
    let limits = "[limits]\nhttp-request-body = \"100KiB\"\nhttp-response-body = \"1KiB\"\nhttp-headers = \"1KiB\"\n\
                  http-time = \"500ms\"\nhttp-requests = 9";
    let host = host(&[all(&server)], limits).await;
    let begin = Instant::now();
    let got = fetch(
        &host,
        json!([
            { "method": "POST", "url": format!("{origin}/large"), "fill": 102_401 },
            { "method": "POST", "url": format!("{origin}/fits"), "fill": 102_400 },
            { "url": format!("{origin}/size/1025") },
            { "url": format!("{origin}/size/1024") },
            { "url": format!("{origin}/headers"), "headers": { "x-large": "x".repeat(1100) } },
            { "url": format!("{origin}/hang") },
            { "url": format!("{origin}/slow/60000"), "timeout_ms": 100 },
            { "url": format!("{origin}/away") },
            { "url": format!("{origin}/last") },
            { "url": format!("{origin}/denied") },
        ]),
    )
    .await;
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert!(error(&got[0]).contains("HttpRequestBodySize"), "{got:?}");
    assert_eq!(got[1]["status"], 200, "{got:?}");
    assert!(error(&got[2]).contains("HttpResponseBodySize"), "{got:?}");
    assert_eq!(got[3]["length"], 1024, "{got:?}");
    assert!(error(&got[4]).contains("HttpRequestHeaderSectionSize"), "{got:?}");
    assert!(error(&got[5]).contains("HttpResponseTimeout"), "{got:?}");
    assert!(error(&got[6]).contains("HttpResponseTimeout"), "{got:?}");
    assert_eq!(got[7]["status"], 302, "redirects are the plugin's to follow: {got:?}");
    assert_eq!(got[8]["status"], 200, "{got:?}");
    assert!(error(&got[9]).contains("HttpRequestDenied"), "{got:?}");
    logged(&host, "limits.http-requests is 9").await;
    assert!(!server.lines().iter().any(|line| line.contains("large") || line.contains("headers")));
}

#[tokio::test]
async fn a_run_that_moves_too_much_is_stopped() {
    let server = Recorder::start().await;
    let host = host(&[all(&server)], "[limits]\nhttp-bytes = \"100KiB\"").await;
    let post = json!({ "method": "POST", "url": format!("{}/x", server.origin()), "fill": 60_000 });
    let reply = host.client().call("fetch", json!({ "requests": [post, post] })).await;
    assert_eq!(result_code(reply.result()), "limit_http_bytes");
    assert_eq!(server.lines().len(), 1);
}

/// A server that never answers holds a run no longer than the run may last, inline and as a task; its connection ends with it.
#[tokio::test]
async fn a_request_ends_with_its_run() {
    let server = Recorder::start().await;
    let host = host(&[all(&server)], "[limits]\nactive-time = \"1s\"\n[call]\ndeadline = \"300ms\"").await;
    let hang = json!({ "requests": [{ "url": format!("{}/hang", server.origin()) }] });
    let begin = Instant::now();
    let id = host.client().task("fetch", hang.clone()).await;
    let task = host.client().status(&id, "completed").await;
    assert_eq!(result_code(&task["result"]), "limit_active_time", "{task}");
    let reply = host.client_with(json!({})).call("fetch", hang).await;
    assert_eq!(result_code(reply.result()), "limit_active_time");
    // `http-time` is 30 s.
    assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    eventually("no connection is left", || async { (server.waiting() == 0).then_some(()) }).await;
}

#[tokio::test]
async fn many_at_once_wait_for_each_other() {
    let server = Recorder::start().await;
    let host = host(&[all(&server)], "[limits]\nhttp-concurrency = 4").await;
    let slow = json!({ "url": format!("{}/slow/200", server.origin()) });
    let begin = Instant::now();
    let arguments = json!({ "requests": vec![slow; 12], "together": true });
    let reply = host.client().call("fetch", arguments).await;
    assert!(answers(reply.result()).iter().all(|answer| answer["status"] == 200), "{reply:?}");
    assert!(begin.elapsed() >= Duration::from_millis(600), "they were sent four at a time");
}

#[tokio::test]
async fn what_is_cancelled_sends_nothing_more() {
    let server = Recorder::start().await;
    let host = host(&[all(&server)], "[call]\ndeadline = \"100ms\"\ngrace = \"0s\"").await;
    let client = host.client();
    let requests = json!([{ "url": format!("{}/slow/1000", server.origin()) }, { "url": format!("{}/x", server.origin()) }]);
    let id = client.task("fetch", json!({ "requests": requests })).await;
    server.reached(1).await;
    client.cancel(&id).await.result();
    client.status(&id, "cancelled").await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(server.lines(), ["GET /slow/1000"]);
}

#[tokio::test]
async fn a_grant_that_cannot_be_meant_is_refused_at_load() {
    for allow in
        ["GET https://a.example/a*", "GET https://a.*/", "CONNECT https://a.example/*", "GET http://127.1/"]
    {
        let host = host(&[allow.to_owned()], "").await;
        let refusal = host.refusal("probe", "plugin_bad_grant").await;
        assert!(refusal.to_string().contains("grants.http"), "{refusal}");
    }
}

/// A task that does `requests` after a short nap each, at a host that `failpoint` kills.
async fn killed_at(server: &Recorder, grant: &str, failpoint: &str, requests: Value) -> (Host, String) {
    assert!(FAILPOINTS.iter().any(|known| failpoint.starts_with(known)));
    let policy = format!(
        "[call]\ndeadline = \"50ms\"\nlinger = \"60s\"\n[grants]\nhttp = [{{ allow = \"{}\"{grant} }}]",
        all(server)
    );
    let setup = Setup::probe(&policy).config("[store]\nlease = \"1s\"\ntakeover = \"1s\"");
    let mut host = setup.env("LAYBY_FAILPOINTS", failpoint).start().await;
    let id = host.client().task("fetch", json!({ "requests": requests, "nap_ms": 300 })).await;
    host.ended().await;
    (host.restart_without("LAYBY_FAILPOINTS").await, id)
}

fn post(server: &Recorder) -> Value {
    json!([{ "method": "POST", "url": format!("{}/pay?token=hunter2", server.origin()), "body": "1 EUR" }])
}

/// Between the commit and the write it stands still for longer than its lease, and then goes on.
#[tokio::test]
async fn a_host_that_has_lost_its_lease_sends_nothing() {
    let server = Recorder::start().await;
    let gate = std::env::temp_dir()
        .join(format!("layby-gate-{}", server.origin().rsplit(':').next().expect("a port")));
    let reached = std::path::PathBuf::from(format!("{}.reached", gate.display()));
    let policy = format!(
        "[call]\ndeadline = \"50ms\"\nlinger = \"60s\"\n[grants]\nhttp = [{{ allow = \"{}\" }}]",
        all(&server)
    );
    let setup = Setup::probe(&policy).config("[store]\nlease = \"1s\"\ntakeover = \"500ms\"");
    let pause = format!("effect.after-start-commit=pause:{}", gate.display());
    let first = setup.env("LAYBY_FAILPOINTS", &pause).start().await;
    let id = first.client().task("fetch", json!({ "requests": post(&server), "nap_ms": 300 })).await;
    eventually("the request is committed", || async { reached.exists().then_some(()) }).await;
    first.pause().await;
    let second = first.beside().await;
    // It asks what is to be done, which is nothing.
    let key = "layby/outcome-http-0";
    second.client().until(&id, "a question", |task| task["inputRequests"][key].is_object()).await;
    second.client().accept(&id, key, json!({ "choice": "stop" })).await.result();
    let task = second.client().status(&id, "failed").await;
    assert_eq!(task["error"]["data"]["code"], "outcome_unknown", "{task}");
    std::fs::write(&gate, "").expect("a gate");
    first.signal("CONT");
    logged(&first, "the lease of this process has run out").await;
    // It is well again, and has sent nothing of the old.
    let nap = first.client().call("nap", json!({ "ms": 1 })).await;
    assert_eq!(text(nap.result()), "slept 1 ms");
    assert_eq!(first.client().get(&id).await.result()["status"], "failed");
    assert_eq!(server.lines(), Vec::<String>::new());
    for file in [gate, reached] {
        std::fs::remove_file(file).expect("a file of this test");
    }
}

#[tokio::test]
async fn a_post_that_was_not_committed_is_sent_once() {
    let server = Recorder::start().await;
    let (host, id) = killed_at(&server, "", "effect.before-start=kill", post(&server)).await;
    let task = host.client().status(&id, "completed").await;
    assert_eq!(answers(&task["result"])[0]["status"], 200, "{task}");
    assert_eq!(server.lines().len(), 1);
}

#[tokio::test]
async fn a_get_without_its_answer_is_sent_again() {
    for failpoint in ["effect.after-start-commit", "effect.after-send", "effect.after-answer"] {
        let server = Recorder::start().await;
        let get = json!([{ "url": format!("{}/x", server.origin()) }]);
        let (host, id) = killed_at(&server, "", &format!("{failpoint}=kill"), get).await;
        let task = host.client().status(&id, "completed").await;
        assert_eq!(answers(&task["result"])[0]["status"], 200, "{failpoint}: {task}");
        let sent = if failpoint == "effect.after-start-commit" { 1 } else { 2 };
        assert_eq!(server.lines().len(), sent, "{failpoint}");
    }
}

#[tokio::test]
async fn an_idempotent_grant_names_what_it_sends_again() {
    let server = Recorder::start().await;
    let (host, id) = killed_at(&server, ", idempotent = true", "effect.after-send=kill", post(&server)).await;
    let task = host.client().status(&id, "completed").await;
    assert_eq!(answers(&task["result"])[0]["status"], 200, "{task}");
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].headers["idempotency-key"], seen[1].headers["idempotency-key"]);
    assert_eq!(seen[0].headers["idempotency-key"].len(), 32);
    assert_eq!(seen[0].body, seen[1].body);
}

#[tokio::test]
async fn what_was_answered_is_never_sent_again() {
    let server = Recorder::start().await;
    let origin = server.origin();
    let policy = format!(
        "[call]\ndeadline = \"50ms\"\nlinger = \"0s\"\n[grants]\nask = [\"form\"]\nhttp = [{{ allow = \"{}\" }}]",
        all(&server)
    );
    let mut host = Setup::probe(&policy).config("[store]\nlease = \"1s\"\ntakeover = \"1s\"").start().await;
    let requests = json!([
        { "method": "POST", "url": format!("{origin}/one"), "body": "1", "fill": 100_000 },
        { "url": format!("{origin}/size/100000") },
        { "url": format!("{origin}/denied"), "headers": { "x": "y".repeat(70_000) } },
        { "url": "https://example.com/" },
        { "method": "POST", "url": format!("{origin}/last") },
    ]);
    let client = host.client();
    let id = client.task("fetch", json!({ "requests": requests, "ask": true, "nap_ms": 20 })).await;
    let task = client.status(&id, "input_required").await;
    let key =
        task["inputRequests"].as_object().and_then(|all| all.keys().next().cloned()).expect("a question");
    assert_eq!(server.lines(), ["POST /one", "GET /size/100000"]);
    host.kill();
    let host = host.restart().await;
    let client = host.client();
    client.accept(&id, &key, json!({ "value": "on" })).await.result();
    let task = client.status(&id, "completed").await;
    let got = answers(&task["result"]);
    assert_eq!(got[0]["body"], "ok 1", "{got:?}");
    assert_eq!(got[1]["length"], 100_000, "{got:?}");
    assert!(error(&got[2]).contains("HttpRequestHeaderSectionSize"), "{got:?}");
    assert!(error(&got[3]).contains("HttpRequestDenied"), "{got:?}");
    assert_eq!(got[4]["body"], "ok 3", "{got:?}");
    assert_eq!(server.lines(), ["POST /one", "GET /size/100000", "POST /last"]);
    assert_eq!(task["result"]["_meta"]["layby/receipt"]["bytesOut"], 100_001);
}

#[tokio::test]
async fn a_run_with_a_request_under_way_keeps_its_instance() {
    let server = Recorder::start().await;
    let policy = format!(
        "[call]\ndeadline = \"50ms\"\nlinger = \"0s\"\n[grants]\nask = [\"form\"]\nhttp = [{{ allow = \"{}\" }}]",
        all(&server)
    );
    let host = Setup::probe(&policy).start().await;
    let client = host.client();
    let slow = json!({ "method": "POST", "url": format!("{}/slow/1500", server.origin()) });
    let arguments = json!({ "requests": [slow, slow], "together": true, "ask": true });
    let id = client.task("fetch", arguments).await;
    let task = client.status(&id, "input_required").await;
    let parked = async || host.tasks().await.iter().any(|t| t["taskId"] == id && t["parked"] == true);
    server.reached(1).await;
    assert!(!parked().await, "{task}");
    eventually("it parks once the answer is there", || async { parked().await.then_some(()) }).await;
    let key =
        task["inputRequests"].as_object().and_then(|all| all.keys().next().cloned()).expect("a question");
    client.accept(&id, &key, json!({ "value": "on" })).await.result();
    let task = client.status(&id, "completed").await;
    assert!(answers(&task["result"]).iter().all(|answer| answer["status"] == 200), "{task}");
    assert_eq!(server.lines().len(), 2);
}
