//! Each denial is the guest's to handle, and in the log with the line that would allow it: which, added to the policy, does.

use std::fs;

use layby_tests::{Dns, Host, Recorder, Setup, eventually, guests, text};
use serde_json::{Value, json};

/// A policy's grants, as lines.
#[derive(Default)]
struct Policy {
    ask: Vec<String>,
    http: Vec<String>,
    files: Vec<String>,
    env: Vec<String>,
    config: Vec<String>,
}

impl Policy {
    fn text(&self) -> String {
        let [ask, http, files, env, config] =
            [&self.ask, &self.http, &self.files, &self.env, &self.config].map(|lines| lines.join(", "));
        format!(
            "[grants]\nask = [{ask}]\nhttp = [{http}]\nfiles = [{files}]\nenv = {{ {env} }}\nconfig = {{ {config} }}\n"
        )
    }
}

/// The lines that the log says are to be added to `grants.KIND`.
fn lines(log: &str, kind: &str) -> Vec<String> {
    let end = format!(" to grants.{kind} of this plugin's policy");
    let mut lines: Vec<String> = Vec::new();
    for line in log.lines().filter(|line| line.contains("plugin=\"probe\"") || line.contains("plugin=probe"))
    {
        if let Some((before, _)) = line.split_once(&end)
            && let Some((_, add)) = before.rsplit_once("add ")
            && !lines.iter().any(|known| known == add)
        {
            lines.push(add.to_owned());
        }
    }
    lines
}

async fn call(host: &Host, tool: &str, arguments: Value) -> Value {
    host.client().call(tool, arguments).await.result().clone()
}

fn came_to(result: &Value) -> Vec<Value> {
    serde_json::from_str(text(result)).expect("the tool's own JSON")
}

#[tokio::test]
async fn the_line_in_the_log_allows_what_was_denied() {
    let server = Recorder::start().await;
    let dns = Dns::start().await;
    dns.say("intranet.example", &[&["127.0.0.1"]]);
    let setup = Setup::new();
    fs::write(setup.files().join("a"), "a note").unwrap();
    let (origin, private) = (server.origin(), format!("http://intranet.example:{}", server.port()));
    let mut policy = Policy {
        http: vec![format!("{{ allow = \"GET {private}/*\" }}")],
        files: vec![setup.grant(false)],
        ..Policy::default()
    };
    let host = setup
        .plugin("probe", &policy.text())
        .env(Dns::VARIABLE, &dns.address())
        .env("TOKEN", "hunter2")
        .start()
        .await;
    let requests = json!({ "requests": [
        { "method": "POST", "url": format!("{origin}/v1/it's/%22x%22?secret=swordfish") },
        { "method": "M-SEARCH", "url": format!("{origin}/") },
        { "url": format!("{private}/x") },
    ] });
    let with_secret = json!({ "requests": [{ "url": format!("{private}/x"), "headers": { "authorization": "Bearer {layby-secret:TOKEN}" } }] });
    let files = json!({ "steps": [
        { "do": "write", "path": "/files/a", "text": "changed" },
        { "do": "remove", "path": "/files/none" },
        { "do": "read", "path": "/files/a" },
    ] });
    // Denied, and so that a guest can go on.
    let got = came_to(&call(&host, "fetch", requests.clone()).await);
    let errors: Vec<_> = got.iter().map(|answer| answer["error"].as_str().unwrap_or_default()).collect();
    assert!(errors[0].contains("HttpRequestDenied") && errors[1].contains("HttpRequestDenied"), "{got:?}");
    assert!(errors[2].contains("DestinationIpProhibited"), "{got:?}");
    let came = came_to(&call(&host, "steps", files.clone()).await);
    assert_eq!(came, ["error: PermissionDenied", "error: PermissionDenied", "a note"]);
    let settings = call(&host, "config", json!({ "key": "the units" })).await;
    assert!(text(&settings).contains("\"one\":null"), "{settings}");
    for kind in ["form", "url", "sampling", "roots"] {
        let asked =
            call(&host, "ask", json!({ "kind": kind, "url": "https://pay.example.com/x?token=swordfish" }))
                .await;
        assert!(asked.to_string().contains("cannot answer"), "{kind}: {asked}");
    }
    // The log says what is to be added.
    eventually("all lines", || async {
        let log = host.log();
        let ready = lines(&log, "http").len() >= 3 && lines(&log, "files").len() == 1;
        (ready && lines(&log, "config").len() == 1 && lines(&log, "ask").len() >= 4).then_some(())
    })
    .await;
    let log = host.log();
    policy.http.extend(lines(&log, "http"));
    policy.files = lines(&log, "files");
    policy.config = lines(&log, "config");
    policy.ask = lines(&log, "ask");
    assert!(!log.contains("swordfish"), "{log}");
    // The secret is asked for by a request that is granted otherwise.
    let host = adopted(host, &policy).await;
    let got = came_to(&call(&host, "fetch", with_secret.clone()).await);
    assert!(got[0]["error"].as_str().is_some_and(|error| error.contains("HttpRequestDenied")), "{got:?}");
    eventually("the line of the secret", || async { (lines(&host.log(), "env").len() == 1).then_some(()) })
        .await;
    policy.env = lines(&host.log(), "env");
    let host = adopted(host, &policy).await;
    // And each does it.
    let got = came_to(&call(&host, "fetch", requests).await);
    assert!(got.iter().all(|answer| answer["status"] == 200), "{}\n{got:?}", policy.text());
    let got = came_to(&call(&host, "fetch", with_secret).await);
    assert_eq!(got[0]["status"], 200, "{got:?}");
    assert_eq!(server.seen().last().unwrap().headers["authorization"], "Bearer hunter2");
    let came = came_to(&call(&host, "steps", files).await);
    assert_eq!(came, ["ok", "error: NotFound", "changed"]);
    let settings = call(&host, "config", json!({ "key": "the units" })).await;
    assert!(!text(&settings).contains("\"one\":null"), "{settings}");
    for kind in ["form", "url", "sampling", "roots"] {
        let asked = json!({ "kind": kind, "url": "https://pay.example.com/x?token=swordfish" });
        let id = host.client().task("ask", asked).await;
        host.client().status(&id, "input_required").await;
    }
    assert!(!host.log().contains("hunter2"));
}

/// Puts the policy beside the same component, and waits until it holds.
async fn adopted(host: Host, policy: &Policy) -> Host {
    let was = host.plugin("probe").await["adoptedAt"].clone();
    host.put("probe", &guests::component("probe"), &policy.text());
    eventually("the new policy holds", || async {
        let plugin = host.plugin("probe").await;
        assert!(plugin["refusal"].is_null(), "{}: {plugin}", policy.text());
        (plugin["adoptedAt"] != was).then_some(())
    })
    .await;
    host
}

#[tokio::test]
async fn sockets_are_denied_and_the_log_says_what_there_is_instead() {
    let host = Setup::probe("").start().await;
    for arguments in [
        json!({ "address": "127.0.0.1", "port": host.port() }),
        json!({ "address": "127.0.0.1", "port": 1, "look_up": "localhost\u{1b}[31m.example" }),
    ] {
        for _ in 0..3 {
            let result = call(&host, "connect", arguments.clone()).await;
            assert_eq!(result["isError"], true, "{result}");
        }
    }
    eventually("both lines", || async {
        let log = host.log();
        let both = ["denied: a TCP socket; no grant allows that", "denied: the look-up of the name"];
        both.iter().all(|line| log.contains(line)).then_some(())
    })
    .await;
    let log = host.log();
    let line = log.lines().find(|line| line.contains("a TCP socket")).unwrap();
    assert!(line.contains("probe") && line.contains("grants.http"), "{line}");
    assert!(!log.contains('\u{1b}'), "a terminal would obey it");
}

/// A plugin that is denied over and over fills no log.
#[tokio::test]
async fn each_denial_is_told_once_in_a_run() {
    let setup = Setup::new();
    let policy = format!("[grants]\nfiles = [{}]", setup.grant(false));
    let host = setup.plugin("probe", &policy).start().await;
    let same: Vec<Value> = (0..100).map(|_| json!({ "do": "write", "path": "/files/a" })).collect();
    let other: Vec<Value> =
        (0..100).map(|n| json!({ "do": "write", "path": format!("/files/{n}") })).collect();
    for (steps, most) in [(same, 1), (other, 20)] {
        let before = host.log().matches("denied: ").count();
        let came = came_to(&call(&host, "steps", json!({ "steps": steps })).await);
        assert!(came.iter().all(|came| came == "error: PermissionDenied"), "{came:?}");
        eventually("what is told", || async {
            (host.log().matches("denied: ").count() - before == most).then_some(())
        })
        .await;
    }
}
