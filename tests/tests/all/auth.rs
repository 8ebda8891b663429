//! Who is calling: static tokens and an issuer's, what their scopes open, and whose tasks are.

use std::{fs, process::Stdio};

use layby_tests::{
    Client, Host, Setup, client, command,
    command::layby,
    eventually,
    issuer::{Issuer, free_port},
    text,
    wait::BOUND,
};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};

const SCOPES: &str = "[auth.scopes]\ncall = [\"echo\", \"ask\", \"nap\", \"prompt:*\", \"resource:*\"]\nread = [\"resource:*\"]\n";

/// A file of tokens in the folder of a setup, as `layby token` writes it.
struct Tokens<'a>(&'a Setup);

impl Tokens<'_> {
    async fn run(&self, args: &[&str]) -> command::Done {
        command::run(layby(self.0.root(), ["token", "--file", "tokens.toml"].iter().chain(args))).await
    }

    /// Makes a token, with more options.
    async fn make(&self, name: &str, more: &[&str]) -> String {
        let args: Vec<&str> = ["new", name].into_iter().chain(more.iter().copied()).collect();
        let done = self.run(&args).await;
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out.trim().to_owned()
    }
}

/// `probe` with this policy, and `echo`.
fn plugins(policy: &str) -> Setup {
    Setup::probe(policy).plugin("echo", "")
}

fn with(host: &Host, token: &str) -> Client {
    host.client().header("authorization", &format!("Bearer {token}"))
}

/// `WWW-Authenticate` of a refusal.
fn challenge(reply: &layby_tests::Reply) -> String {
    reply.headers.get("www-authenticate").map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn a_static_token_is_who_calls() {
    let setup = plugins("").config("[auth]\ntokens-file = \"tokens.toml\"\n");
    let ci = Tokens(&setup).make("ci", &[]).await;
    let ops = Tokens(&setup).make("ops", &[]).await;
    let kept = fs::read_to_string(setup.root().join("tokens.toml")).unwrap();
    assert!(ci.starts_with("layby_") && !kept.contains(&ci), "only the hash is kept");
    let host = setup.start().await;

    let reply = host.client().call("echo", json!({ "text": "x" })).await;
    assert_eq!((reply.status, reply.code()), (401, "unauthenticated"));
    assert_eq!(challenge(&reply), "Bearer realm=\"layby\"");
    for wrong in ["layby_nonsense", "", "a.b.c"] {
        let reply = with(&host, wrong).call("echo", json!({ "text": "x" })).await;
        assert_eq!((reply.status, reply.code()), (401, "unauthenticated"), "{wrong}");
    }
    assert!(challenge(&with(&host, "x").call("echo", json!({})).await).contains("error=\"invalid_token\""));
    assert_eq!(text(with(&host, &ci).call("echo", json!({ "text": "hi" })).await.result()), "hi");

    // A task is its principal's alone; another's reads like one that never was.
    let task = with(&host, &ci).task("ask", json!({ "rounds": 1 })).await;
    let other = with(&host, &ops).get(&task).await;
    let never = with(&host, &ops).get("00000000-0000-4000-8000-000000000000").await;
    assert_eq!((other.code(), other.status), (never.code(), never.status));
    assert_eq!(other.message["error"]["message"], never.message["error"]["message"]);
    assert_eq!(with(&host, &ci).get(&task).await.result()["status"], "input_required");

    // Where callers say who they are, lists are theirs alone.
    let list = with(&host, &ci).request("tools/list", json!({})).await;
    assert_eq!((&list.result()["ttlMs"], &list.result()["cacheScope"]), (&json!(0), &json!("private")));
    // The probes of supervisors go on without.
    assert_eq!(client::http().get(format!("{}/ready", host.base())).send().await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_rotated_token_keeps_its_tasks() {
    let setup = plugins("[call]\nlinger = \"0s\"\n").config("[auth]\ntokens-file = \"tokens.toml\"\n");
    let old = Tokens(&setup).make("ci", &[]).await;
    let host = setup.start().await;
    let task = with(&host, &old).task("ask", json!({ "rounds": 1 })).await;
    with(&host, &old).status(&task, "input_required").await;

    let new = Tokens(host.setup()).make("ci", &["--replace"]).await;
    eventually("the old token is refused", || async {
        (with(&host, &old).get(&task).await.status == 401).then_some(())
    })
    .await;
    let asked = with(&host, &new).status(&task, "input_required").await;
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    with(&host, &new).accept(&task, &key, json!({ "value": "a" })).await.result();
    with(&host, &new).status(&task, "completed").await;

    // A file that is none takes nothing back; a name that is removed does.
    let path = host.setup().root().join("tokens.toml");
    let good = fs::read(&path).unwrap();
    layby_tests::host::replace(&path, b"[[token]]\nname = 7\n");
    // The file is looked at while requests come.
    eventually("it is said", || async {
        assert_eq!(with(&host, &new).get(&task).await.status, 200);
        host.log().contains("tokens read before count on").then_some(())
    })
    .await;
    layby_tests::host::replace(&path, &good);
    let done = Tokens(host.setup()).run(&["remove", "ci"]).await;
    assert_eq!((done.code, done.out.trim()), (Some(0), "1 removed"));
    eventually("the token is refused", || async {
        (with(&host, &new).get(&task).await.status == 401).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_expired_token_does_not_count() {
    let setup = plugins("").config("[auth]\ntokens-file = \"tokens.toml\"\n");
    let brief = Tokens(&setup).make("brief", &["--expires", "1s"]).await;
    let host = setup.start().await;
    let reply = eventually("it expires", || async {
        let reply = with(&host, &brief).call("echo", json!({ "text": "x" })).await;
        (reply.status == 401).then_some(reply)
    })
    .await;
    assert!(reply.message["error"]["message"].as_str().unwrap().contains("expired"), "{}", reply.message);
}

#[tokio::test]
async fn scopes_open_what_they_name() {
    let setup = plugins("").plugin("conformance", "");
    let setup = setup.config(&format!("[auth]\ntokens-file = \"tokens.toml\"\n{SCOPES}"));
    let caller = Tokens(&setup).make("caller", &["--scope", "call"]).await;
    let reader = Tokens(&setup).make("reader", &["--scope", "read", "--scope", "unknown"]).await;
    let nobody = Tokens(&setup).make("nobody", &[]).await;
    let host = setup.start().await;

    assert_eq!(text(with(&host, &caller).call("echo", json!({ "text": "hi" })).await.result()), "hi");
    assert_eq!(with(&host, &caller).tool_names().await, ["ask", "echo", "nap"]);
    for (token, tool) in [(&caller, "trap"), (&reader, "echo"), (&nobody, "echo"), (&nobody, "no-such-tool")]
    {
        let reply = with(&host, token).call(tool, json!({ "text": "x" })).await;
        assert_eq!((reply.status, reply.code()), (403, "insufficient_scope"), "{tool}");
        let said = challenge(&reply);
        assert!(said.contains("error=\"insufficient_scope\""), "{said}");
        assert_eq!(said.contains("scope=\"call\""), tool == "echo", "{said}");
    }
    assert!(with(&host, &reader).tool_names().await.is_empty());
    let resources = with(&host, &reader).request("resources/list", json!({})).await;
    let uri = resources.result()["resources"][0]["uri"].as_str().unwrap().to_owned();
    assert_eq!(with(&host, &reader).request("resources/read", json!({ "uri": uri })).await.status, 200);
    let reply = with(&host, &nobody).request("resources/read", json!({ "uri": uri })).await;
    assert_eq!(reply.status, 403);
    let prompts = with(&host, &reader).request("prompts/list", json!({})).await;
    assert_eq!(prompts.result()["prompts"], json!([]));
    let listen = json!({ "notifications": { "resourceSubscriptions": [uri] } });
    assert_eq!(with(&host, &nobody).request("subscriptions/listen", listen).await.status, 403);

    // The same for a client of an older revision.
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}});
    let post = |token: &str, session: Option<&str>, body: &serde_json::Value| {
        let request = client::http()
            .post(host.url())
            .header("accept", "application/json, text/event-stream")
            .bearer_auth(token)
            .json(body);
        session.map_or(request.try_clone().unwrap(), |id| request.header("mcp-session-id", id)).send()
    };
    let begun = post(&reader, None, &initialize).await.unwrap();
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "x"}}});
    assert_eq!(post(&reader, Some(&session), &call).await.unwrap().status(), 403);
    assert_eq!(post(&caller, Some(&session), &call).await.unwrap().status(), 404, "another's session");
    assert_eq!(client::http().post(host.url()).json(&initialize).send().await.unwrap().status(), 401);
}

/// A host that takes tokens of `issuer` for `resource`.
async fn protected(issuer: &Issuer, resource: &str, more: &str) -> Host {
    let oauth = format!("[auth.oauth]\nissuer = {:?}\naudience = {resource:?}\n{more}", issuer.url());
    plugins("").config(&oauth).start().await
}

const RESOURCE: &str = "https://tools.example/mcp";

#[tokio::test]
async fn an_access_token_of_the_issuer_is_who_calls() {
    let mut issuer = Issuer::start(free_port(), RESOURCE).await;
    let host = protected(&issuer, RESOURCE, &format!("scopes = [\"call\"]\n{SCOPES}")).await;

    let reply = host.client().call("echo", json!({ "text": "x" })).await;
    assert_eq!((reply.status, reply.code()), (401, "unauthenticated"));
    let said = challenge(&reply);
    let metadata = "https://tools.example/.well-known/oauth-protected-resource/mcp";
    assert!(
        said.contains(&format!("resource_metadata=\"{metadata}\"")) && said.contains("scope=\"call\""),
        "{said}"
    );
    for path in ["", "/mcp"] {
        let url = format!("{}/.well-known/oauth-protected-resource{path}", host.base());
        let found: serde_json::Value = client::http().get(url).send().await.unwrap().json().await.unwrap();
        assert_eq!(found["resource"], RESOURCE);
        assert_eq!(found["authorization_servers"], json!([issuer.url()]));
        assert_eq!(found["scopes_supported"], json!(["call", "read"]));
    }
    let url = format!("{}/.well-known/oauth-protected-resource/other", host.base());
    assert_eq!(client::http().get(url).send().await.unwrap().status(), 404);

    let token = issuer.token("agent", "call read").await;
    assert_eq!(text(with(&host, &token).call("echo", json!({ "text": "hi" })).await.result()), "hi");
    let reply = with(&host, &issuer.token("agent", "read").await).call("echo", json!({ "text": "x" })).await;
    assert_eq!((reply.status, reply.code()), (403, "insufficient_scope"));

    // Tasks are the subject's, under every token of its.
    let task = with(&host, &token).task("ask", json!({ "rounds": 1 })).await;
    assert_eq!(with(&host, &issuer.token("agent", "call").await).get(&task).await.status, 200);
    let other = with(&host, &issuer.token("other", "call").await).get(&task).await;
    assert_eq!(other.code(), "task_unknown");

    // What is for another server, has expired, or was changed on the way.
    let elsewhere = issuer.token_for("agent", "call", "https://elsewhere.example/mcp").await;
    issuer.be_ahead(-3600).await;
    let expired = issuer.token("agent", "call").await;
    issuer.be_ahead(3600).await;
    let early = issuer.token("agent", "call").await;
    issuer.be_ahead(0).await;
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let none = format!("eyJhbGciOiJub25lIn0.{claims}.");
    let other = if signature.starts_with('A') { "B" } else { "A" };
    let forged = format!("{header}.{claims}.{other}{}", &signature[1..]);
    for (token, why) in [
        (&elsewhere, "aud"),
        (&expired, "expired"),
        (&none, "signed"),
        (&forged, "no key"),
        (&token[..40].into(), "signed"),
    ] {
        let reply = with(&host, token).call("echo", json!({ "text": "x" })).await;
        assert_eq!(reply.status, 401, "{why}");
        assert!(
            reply.message["error"]["message"].as_str().unwrap().contains(why),
            "{why}: {}",
            reply.message
        );
    }
    // An issuer whose clock is ahead says `iat`, not `nbf`: its tokens count.
    assert_eq!(with(&host, &early).call("echo", json!({ "text": "x" })).await.status, 200);
    assert!(!host.log().contains(&token), "no token is in the log");
}

#[tokio::test]
async fn keys_of_the_issuer_may_change_at_any_time() {
    let mut issuer = Issuer::start(free_port(), RESOURCE).await;
    let host = protected(&issuer, RESOURCE, "").await;
    let call = |token: String| {
        let client = with(&host, &token);
        async move { client.call("echo", json!({ "text": "x" })).await.status }
    };
    assert_eq!(call(issuer.token("agent", "call").await).await, 200);
    for algorithm in ["RS256", "EdDSA"] {
        issuer.sign_with(algorithm).await;
        // Keys are asked for again some seconds after the last time: anybody can name a key that does not exist.
        eventually("the new key counts", || async {
            (call(issuer.token("agent", "call").await).await == 200).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn an_issuer_that_is_away_is_not_the_callers_fault() {
    let port = free_port();
    let setup = plugins("")
        .config(&format!("[auth.oauth]\nissuer = \"http://127.0.0.1:{port}\"\naudience = {RESOURCE:?}\n"));
    let host = setup.start().await;
    let elsewhere = Issuer::start(free_port(), RESOURCE).await;
    let reply =
        with(&host, &elsewhere.token("agent", "call").await).call("echo", json!({ "text": "x" })).await;
    assert_eq!((reply.status, reply.code()), (503, "issuer_unreachable"));
    let issuer = Issuer::start(port, RESOURCE).await;
    let token = issuer.token("agent", "call").await;
    eventually("it is there now", || async {
        (with(&host, &token).call("echo", json!({ "text": "x" })).await.status == 200).then_some(())
    })
    .await;
    let reply =
        with(&host, &elsewhere.token("agent", "call").await).call("echo", json!({ "text": "x" })).await;
    assert_eq!(reply.status, 401, "another issuer's");
}

#[tokio::test]
async fn the_terminal_says_who_calls() {
    let setup = plugins("").config("[auth]\ntokens-file = \"tokens.toml\"\n");
    let token = Tokens(&setup).make("me", &[]).await;
    let host = setup.start().await;
    let call = |token: Option<&str>| {
        let mut command =
            layby(host.setup().root(), ["call", "echo", r#"{"text":"hi"}"#, "--url", host.url()]);
        token.map(|token| command.env("LAYBY_TOKEN", token));
        command::run(command)
    };
    let done = call(Some(&token)).await;
    assert_eq!((done.code, done.out.trim()), (Some(0), "hi"), "{done:?}");
    for wrong in [None, Some("layby_nonsense")] {
        let done = call(wrong).await;
        assert_eq!(done.code, Some(4), "{done:?}");
        assert!(done.err.contains("unauthenticated") && done.err.contains("LAYBY_TOKEN"), "{done:?}");
    }
}

#[tokio::test]
async fn a_token_that_the_file_cannot_hold_is_not_made() {
    let setup = plugins("");
    let tokens = Tokens(&setup);
    tokens.make("good", &[]).await;
    let before = fs::read(setup.root().join("tokens.toml")).unwrap();
    for args in [
        &["a b"][..],
        &["ci", "--scope", "a b"],
        &["ci", "--expires", "99999999999d"],
        &["ci", "--expires", "11y"],
    ] {
        let args: Vec<&str> = ["new"].iter().chain(args).copied().collect();
        let done = tokens.run(&args).await;
        assert_eq!(done.code, Some(2), "{done:?}");
        assert!(done.err.contains("token_invalid") && done.out.is_empty(), "{done:?}");
    }
    assert_eq!(fs::read(setup.root().join("tokens.toml")).unwrap(), before);
}

#[tokio::test]
async fn other_addresses_need_authentication() {
    let bad = Setup::new().config("[auth]\ntokens = [\"ci:layby_secret\"]\n").start_failing().await;
    assert_eq!(bad.code, Some(2), "{bad:?}");
    assert!(bad.err.contains("layby.toml:2:1") && !bad.err.contains("secret"), "{bad:?}");
    let bad = Setup::new().config("[auth]\ntokens-file = \"none.toml\"\n").start_failing().await;
    assert!(bad.code == Some(2) && bad.err.contains("none.toml"), "{bad:?}");
    let hash = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    let host = plugins("").env("LAYBY_AUTH_TOKENS", &format!("ci:{hash}")).start().await;
    assert_eq!(host.client().call("echo", json!({ "text": "x" })).await.status, 401);
    // With tokens, an address that others reach is listened on.
    let mut open = layby(
        host.setup().root(),
        ["serve", "--listen", "0.0.0.0:0", "--data", "open", "--plugins", "plugins"],
    );
    let mut child =
        open.env("LAYBY_AUTH_TOKENS", format!("ci:{hash}")).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = tokio::time::timeout(BOUND, lines.next_line()).await.unwrap().unwrap().unwrap();
    assert!(line.contains("http://0.0.0.0:"), "{line}");
    child.kill().await.unwrap();
}
