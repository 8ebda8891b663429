//! Attacks by HTTP through the real binary: those of `tests/attacks/http.toml` that nothing may come of, names whose
//! addresses change, and servers that are not who they say.

use layby_tests::{Authority, Dns, Host, Recorder, Setup, text};
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Table {
    group: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    allow: Vec<String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    ask: String,
    is: String,
    method: Option<String>,
    authority: Option<String>,
    path: Option<String>,
    #[serde(default)]
    headers: Vec<(String, String)>,
    #[serde(default)]
    fill: usize,
    #[serde(default)]
    header_fill: usize,
    addresses: Option<Vec<String>>,
}

impl Case {
    /// For the tool `fetch`.
    fn request(&self) -> Value {
        let (method, url) = self.ask.split_once(' ').expect("a method and a URL");
        let method = self.method.as_deref().unwrap_or(method);
        let fill = |(name, value): &(String, String)| {
            (name.clone(), format!("{value}{}", "x".repeat(self.header_fill)))
        };
        let headers: Vec<_> = self.headers.iter().map(fill).collect();
        let mut request = json!({ "method": method, "url": format!("{url}{}", "x".repeat(self.fill)), "more_headers": headers });
        for (name, part) in [("authority", &self.authority), ("path", &self.path)] {
            if let Some(part) = part {
                request[name] = json!(part);
            }
        }
        request
    }

    /// What the guest is told, as `fetch` shows it.
    fn error(&self) -> &'static str {
        match self.is.as_str() {
            "denied" => "HttpRequestDenied",
            "prohibited" => "DestinationIpProhibited",
            "malformed" => "refused: ",
            "header" => "HeaderError::",
            "large" => "HttpRequestHeaderSectionSize",
            "too-long" => "HttpRequestUriTooLong",
            "unknown-name" => "DnsError",
            other => panic!("the verdict {other:?}"),
        }
    }

    fn host(&self) -> &str {
        let (_, rest) = self.ask.split_once("://").expect("a URL");
        &rest[..rest.find(['/', '?', ':']).unwrap_or(rest.len())]
    }
}

/// A process for each group; what a name has is said case by case.
#[tokio::test]
async fn nothing_comes_of_an_attack() {
    let table: Table = toml::from_str(include_str!("../../attacks/http.toml")).unwrap();
    let (mut count, mut wrong) = (0, Vec::new());
    for group in &table.group {
        let dns = Dns::start().await;
        let grants: Vec<_> =
            group.allow.iter().map(|allow| format!("{{ allow = {} }}", json!(allow))).collect();
        let setup = Setup::probe(&format!("[grants]\nhttp = [{}]", grants.join(", ")));
        let host = setup.env(Dns::VARIABLE, &dns.address()).start().await;
        let cases: Vec<&Case> = group.cases.iter().filter(|case| !case.is.starts_with("sent ")).collect();
        // Those whose name has addresses of its own go one by one.
        let (alone, together): (Vec<_>, Vec<_>) =
            cases.into_iter().partition(|case| case.addresses.is_some());
        let batches = alone.into_iter().map(|case| vec![case]).chain([together]);
        for batch in batches.filter(|batch| !batch.is_empty()) {
            if let [Case { addresses: Some(addresses), .. }] = batch[..] {
                let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
                dns.say(batch[0].host(), &[&addresses]);
            }
            let requests: Vec<Value> = batch.iter().map(|case| case.request()).collect();
            let answers = fetch(&host, json!(requests)).await;
            assert_eq!(answers.len(), batch.len());
            for (case, answer) in batch.iter().zip(answers) {
                count += 1;
                if !answer["error"].as_str().is_some_and(|error| error.contains(case.error())) {
                    wrong.push(format!("{}: {}: {answer}, not {}", group.name, case.name, case.is));
                }
            }
        }
        assert!(!host.log().contains("user:password"), "a password is in the log");
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 250, "{count}");
}

async fn fetch(host: &Host, requests: Value) -> Vec<Value> {
    let reply = host.client().call("fetch", json!({ "requests": requests })).await;
    serde_json::from_str(text(reply.result())).expect("the tool's own JSON")
}

fn granting(allow: &str) -> Setup {
    Setup::probe(&format!("[grants]\nhttp = [{{ allow = \"{allow}\" }}]"))
}

#[tokio::test]
async fn a_name_is_looked_up_once_and_its_checked_address_is_the_one_that_is_used() {
    // Two servers on one port: what was checked, and what the name becomes a moment later.
    let checked = Recorder::on("127.0.0.2:0").await;
    let later = Recorder::on(&format!("127.0.0.3:{}", checked.port())).await;
    let dns = Dns::start().await;
    dns.say("localhost", &[&["127.0.0.2"], &["127.0.0.3"]]);
    let origin = format!("http://localhost:{}", checked.port());
    let host = granting(&format!("GET {origin}/*")).env(Dns::VARIABLE, &dns.address()).start().await;
    let got = fetch(&host, json!([{ "url": format!("{origin}/one") }])).await;
    assert_eq!(got[0]["status"], 200, "{got:?}");
    assert_eq!((checked.lines(), later.lines()), (vec!["GET /one".to_owned()], vec![]));
    assert_eq!(dns.lookups("localhost"), 1);
    // The next request is another decision.
    let got = fetch(&host, json!([{ "url": format!("{origin}/two") }])).await;
    assert_eq!(got[0]["status"], 200, "{got:?}");
    assert_eq!((checked.lines().len(), later.lines()), (1, vec!["GET /two".to_owned()]));
    assert_eq!(dns.lookups("localhost"), 2);
}

#[tokio::test]
async fn a_name_that_turns_private_reaches_nothing() {
    let server = Recorder::start().await;
    let dns = Dns::start().await;
    // Nothing, then what is private by one of its addresses, by all, in disguise, and for good.
    dns.say(
        "turning.example",
        &[
            &[],
            &["93.184.216.34", "127.0.0.1"],
            &["127.0.0.1"],
            &["::ffff:127.0.0.1"],
            &["0.0.0.0"],
            &["127.0.0.1"],
        ],
    );
    let origin = format!("http://turning.example:{}", server.port());
    let host = granting(&format!("GET {origin}/*")).env(Dns::VARIABLE, &dns.address()).start().await;
    for n in 0..6 {
        let got = fetch(&host, json!([{ "url": format!("{origin}/x") }])).await;
        let error = if n == 0 { "DnsError" } else { "DestinationIpProhibited" };
        assert!(got[0]["error"].as_str().is_some_and(|e| e.contains(error)), "{n}: {got:?}");
        assert_eq!(dns.lookups("turning.example"), n + 1);
    }
    assert_eq!(server.lines(), Vec::<String>::new());
}

/// No variable of the environment puts anybody between.
#[tokio::test]
async fn proxy_variables_are_nothing_to_it() {
    let (server, proxy) = (Recorder::start().await, Recorder::start().await);
    let mut setup = granting(&format!("GET {}/*", server.origin()));
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
        setup = setup.env(name, &proxy.origin());
    }
    let host = setup.env("NO_PROXY", "").start().await;
    let got = fetch(&host, json!([{ "url": format!("{}/x", server.origin()) }])).await;
    assert_eq!(got[0]["status"], 200, "{got:?}");
    assert_eq!((server.lines().len(), proxy.lines().len()), (1, 0));
}

/// HTTPS by rustls, under the authorities that the machine trusts: here one of the test's own.
#[tokio::test]
async fn a_server_that_is_not_who_it_says_gets_nothing() {
    let (trusted, unknown) = (Authority::new(), Authority::new());
    let plain = Recorder::start().await;
    let servers = [
        ("as it should be", trusted.serve("DNS:localhost", 30).await, ""),
        ("one of several names", trusted.serve("DNS:other.example,DNS:localhost", 30).await, ""),
        ("another name", trusted.serve("DNS:other.example", 30).await, "TlsCertificateError"),
        ("a name below it", trusted.serve("DNS:*.localhost", 30).await, "TlsCertificateError"),
        ("its common name only", trusted.serve("", 30).await, "TlsCertificateError"),
        ("an address in place of the name", trusted.serve("IP:127.0.0.1", 30).await, "TlsCertificateError"),
        ("run out", trusted.serve("DNS:localhost", -1).await, "TlsCertificateError"),
        ("an authority that nobody knows", unknown.serve("DNS:localhost", 30).await, "TlsCertificateError"),
    ];
    let by_address = trusted.serve("IP:127.0.0.1", 30).await;
    let mut urls: Vec<(String, &str, &str)> = servers
        .iter()
        .map(|(name, server, error)| (format!("https://localhost:{}", server.port()), *error, *name))
        .collect();
    urls.push((format!("https://127.0.0.1:{}", by_address.port()), "", "an address by its address"));
    urls.push((
        format!("https://127.0.0.1:{}", servers[0].1.port()),
        "TlsCertificateError",
        "a name by its address",
    ));
    urls.push((format!("https://127.0.0.1:{}", plain.port()), "TlsProtocolError", "no TLS at all"));
    let grants: Vec<_> =
        urls.iter().map(|(origin, ..)| format!("{{ allow = \"GET {origin}/*\" }}")).collect();
    let host = Setup::probe(&format!("[grants]\nhttp = [{}]", grants.join(", ")))
        .env("SSL_CERT_FILE", trusted.certificate().to_str().unwrap())
        .start()
        .await;
    let requests: Vec<Value> =
        urls.iter().map(|(origin, ..)| json!({ "url": format!("{origin}/x") })).collect();
    let got = fetch(&host, json!(requests)).await;
    for ((_, error, name), answer) in urls.iter().zip(&got) {
        if error.is_empty() {
            assert_eq!(answer["status"], 200, "{name}: {answer}");
        } else {
            assert!(answer["error"].as_str().is_some_and(|e| e.contains(error)), "{name}: {answer}");
        }
    }
    assert_eq!(plain.lines(), Vec::<String>::new());
}

/// A body is what its `Content-Length` says, or nothing is sent.
#[tokio::test]
async fn a_body_of_another_length_than_declared_is_not_sent() {
    let server = Recorder::start().await;
    let origin = server.origin();
    let host = granting(&format!("* {origin}/*")).start().await;
    let length = |n: &str, body: &str| json!({ "method": "POST", "url": format!("{origin}/{n}"), "more_headers": [["Content-Length", n]], "body": body });
    let got = fetch(
        &host,
        json!([
            length("5", "more than that"),
            length("20", "less"),
            length("0", "smuggled"),
            length("18446744073709551616", "x"),
            length("4", "four"),
        ]),
    )
    .await;
    for answer in &got[..4] {
        assert!(answer["error"].is_string(), "{got:?}");
    }
    assert_eq!(got[4]["status"], 200, "{got:?}");
    assert_eq!(server.lines(), ["POST /4"]);
    assert_eq!(server.seen()[0].headers["content-length"], "4");
}
