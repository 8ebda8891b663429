//! What every answer over HTTP tells a browser, and what none tells anybody.

use layby_tests::{Authority, Setup, client, client::PROTOCOL, command, eventually};
use reqwest::{Method, Response, header::HeaderMap};
use serde_json::{Value, json};

use super::tls;

/// What each answer says, whatever it answers.
const SAID: [(&str, &str); 4] = [
    ("x-content-type-options", "nosniff"),
    ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// Has each header once, a word on caching, and nothing of what runs here.
fn guarded(headers: &HeaderMap, cache: &str, what: &str) {
    for (name, value) in SAID.into_iter().chain([("cache-control", cache)]) {
        let found: Vec<_> = headers.get_all(name).iter().collect();
        assert_eq!(found, [value], "{what}: {name}");
    }
    for name in ["server", "x-powered-by", "via", "strict-transport-security", "access-control-allow-origin"]
    {
        assert!(!headers.contains_key(name), "{what}: {name}");
    }
}

/// Nothing of `text` says where this host lives, or what it is made of.
fn tells_nothing(host: &str, text: &str, what: &str) {
    let crates = ["hyper", "axum", "rmcp", "rustls", "wasmtime", "sqlx", ".rs:", env!("CARGO_PKG_VERSION")];
    for word in [host, env!("CARGO_MANIFEST_DIR"), "/home/", "/tmp/"].into_iter().chain(crates) {
        assert!(!text.contains(word), "{what} tells {word:?}: {text}");
    }
}

/// One request, with the status that is due.
struct Asked {
    method: Method,
    path: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    body: String,
    status: u16,
    cache: &'static str,
}

fn ask(
    method: Method,
    path: &'static str,
    headers: &[(&'static str, &'static str)],
    body: &Value,
    status: u16,
) -> Asked {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    Asked { method, path, headers: headers.to_vec(), body, status, cache: "no-store" }
}

/// Headers of a message of the modern era.
fn modern(method: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", PROTOCOL),
        ("mcp-method", method),
    ]
}

fn message(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": PROTOCOL,
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params })
}

/// Every route, by each way to an answer.
fn asked() -> Vec<Asked> {
    let none = Value::Null;
    let json = [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    let mut call = modern("tools/call");
    call.push(("mcp-name", "echo"));
    let echo = message("tools/call", json!({ "name": "echo", "arguments": { "text": "x" } }));
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let begin = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    }});
    let known = "/.well-known/oauth-protected-resource";
    let mut all = vec![
        ask(Method::GET, "/health", &[], &none, 200),
        ask(Method::GET, "/ready", &[], &none, 200),
        ask(Method::POST, "/health", &[], &none, 405),
        ask(Method::OPTIONS, "/mcp", &[], &none, 405),
        ask(Method::GET, "/mcp", &[], &none, 405),
        ask(Method::GET, "/mcp", &[("mcp-session-id", "none")], &none, 404),
        ask(Method::GET, "/", &[], &none, 404),
        ask(Method::GET, "/nowhere/../../etc/passwd", &[], &none, 404),
        ask(Method::GET, "/.well-known/oauth-protected-resource/other", &[], &none, 404),
        ask(Method::GET, "/health", &[("host", "evil.example")], &none, 403),
        ask(Method::GET, "/health", &[("origin", "https://evil.example")], &none, 403),
        ask(Method::POST, "/mcp", &[("content-type", "text/plain")], &none, 415),
        ask(Method::POST, "/mcp", &[json[0], ("accept", "text/html")], &none, 406),
        ask(Method::POST, "/mcp", &json, &none, 400),
        ask(Method::POST, "/mcp", &json, &json!([1, 2]), 400),
        ask(Method::POST, "/mcp", &modern("no/such"), &message("no/such", json!({})), 404),
        ask(Method::POST, "/mcp", &modern("tools/list"), &message("tools/list", json!({})), 200),
        ask(Method::POST, "/mcp", &call, &echo, 200),
    ];
    // Older clients are answered by a stream.
    all.push(Asked { cache: "no-cache", ..ask(Method::POST, "/mcp", &json, &begin, 200) });
    all.push(Asked { cache: "max-age=300", ..ask(Method::GET, known, &[], &none, 200) });
    let listen = message("subscriptions/listen", filter);
    let stream = ask(Method::POST, "/mcp", &modern("subscriptions/listen"), &listen, 200);
    all.push(Asked { cache: "no-cache", ..stream });
    all
}

async fn send(http: &reqwest::Client, base: &str, asked: &Asked) -> Response {
    let mut request = http.request(asked.method.clone(), format!("{base}{}", asked.path));
    for (name, value) in &asked.headers {
        request = request.header(*name, *value);
    }
    request.body(asked.body.clone()).send().await.unwrap()
}

/// Tokens, and an issuer that nobody needs to ask, so that there are metadata.
const CONFIG: &str = "[auth]\ntokens-file = \"tokens.toml\"\n\
                      [auth.oauth]\nissuer = \"http://127.0.0.1:9\"\naudience = \"https://tools.example/mcp\"";

/// A token that opens everything, and a host with metadata that takes it.
async fn with_token(setup: Setup) -> (Setup, String) {
    let make = command::layby(setup.root(), ["token", "--file", "tokens.toml", "new", "t"]);
    let done = command::run(make).await;
    assert_eq!(done.code, Some(0), "{done:?}");
    (setup.config(CONFIG), done.out.trim().to_owned())
}

async fn each_answer_is_guarded(http: &reqwest::Client, base: &str, root: &str) {
    for asked in asked() {
        let response = send(http, base, &asked).await;
        let what = format!("{} {} {:?}", asked.method, asked.path, asked.headers);
        assert_eq!(response.status().as_u16(), asked.status, "{what}");
        guarded(response.headers(), asked.cache, &what);
        let mut told = format!("{:?}", response.headers());
        // A stream may have no end to wait for, and what a client is initialized with has the version on purpose.
        if asked.cache != "no-cache" {
            told += &response.text().await.unwrap();
        }
        tells_nothing(root, &told, &what);
    }
}

/// A client that sends this token.
fn bearer(builder: reqwest::ClientBuilder, token: &str) -> reqwest::Client {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    builder.no_proxy().default_headers(headers).build().unwrap()
}

#[tokio::test]
async fn every_answer_tells_a_browser_to_keep_out_and_nobody_what_runs_here() {
    let (setup, token) = with_token(Setup::new().plugin("echo", "")).await;
    let host = setup.start().await;
    let root = host.setup().root().display().to_string();
    let http = || reqwest::Client::builder();
    let _ = client::http();
    each_answer_is_guarded(&bearer(http(), &token), host.base(), &root).await;

    let body = message("tools/list", json!({}));
    let unknown = ask(Method::POST, "/mcp", &modern("tools/list"), &body, 401);
    let response = send(&bearer(http(), "nobody's"), host.base(), &unknown).await;
    assert_eq!(response.status().as_u16(), 401);
    guarded(response.headers(), "no-store", "a token that is unknown");
    tells_nothing(&root, &response.text().await.unwrap(), "a token that is unknown");

    let long = "x".repeat(33 * 1024);
    let response = client::http().get(format!("{}/health", host.base())).header("x-long", long).send().await;
    let response = response.unwrap();
    assert_eq!(response.status().as_u16(), 431);
    guarded(response.headers(), "no-store", "a head that is too large");
}

#[tokio::test]
async fn https_answers_say_the_same_and_claim_nothing_for_other_ports() {
    let (setup, files) = tls::setup();
    let authority = Authority::new();
    tls::put(&authority, &files);
    let (setup, token) = with_token(setup).await;
    let (_serve, port) = tls::serve(&setup).await;
    let _ = client::http();
    let root = std::fs::read(authority.certificate()).unwrap();
    let builder = || {
        let root = reqwest::Certificate::from_pem(&root).unwrap();
        reqwest::Client::builder().add_root_certificate(root)
    };
    let base = format!("https://localhost:{port}");
    let http = bearer(builder(), &token);
    eventually("the plugin serves", || async {
        let ready: Value = http.get(format!("{base}/ready")).send().await.ok()?.json().await.ok()?;
        (ready["plugins"]["serving"] == 1).then_some(())
    })
    .await;
    each_answer_is_guarded(&http, &base, &setup.root().display().to_string()).await;
}
