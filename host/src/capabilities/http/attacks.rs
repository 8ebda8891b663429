//! The table of attacks (`tests/attacks/http.toml`) through everything that decides about a request: from what the guest says to
//! what would leave. `tests/tests/all/attacks.rs` has the same through the real binary.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Mutex;

use axum::http::{Method, Uri};
use http_body_util::{BodyExt as _, Empty};
use serde::Deserialize;

use super::*;
use crate::{
    capabilities::{Caller, Granted, Nobody},
    config::{Grants, HttpGrant, Limits},
    journal::Journal,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    group: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    name: String,
    allow: Vec<String>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    ask: String,
    is: String,
    method: Option<String>,
    authority: Option<String>,
    path: Option<String>,
    #[serde(default)]
    headers: Vec<(String, String)>,
    /// So many bytes more in the path.
    #[serde(default)]
    fill: usize,
    /// So many bytes more in each header's value.
    #[serde(default)]
    header_fill: usize,
    addresses: Option<Vec<std::net::IpAddr>>,
    #[serde(default)]
    has: Vec<String>,
}

fn table() -> Vec<Group> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/attacks/http.toml");
    let table: Table = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    table.group
}

fn granting(allow: &[String]) -> Grants {
    let grant = |allow: &String| HttpGrant { allow: allow.clone(), idempotent: false, networks: Vec::new() };
    Grants { http: allow.iter().map(grant).collect(), ..Grants::default() }
}

fn shared(grants: &Grants, names: Names) -> (Arc<Shared>, Arc<Mutex<Vec<String>>>) {
    let told = Arc::<Mutex<Vec<String>>>::default();
    let kept = told.clone();
    let granted = Granted::of(grants).unwrap();
    let tell = move |text: &str| kept.lock().unwrap().push(text.to_owned());
    let caller: Arc<dyn Caller> = Arc::new(Nobody::granting(tell, granted.clone()));
    let shared = Shared {
        granted,
        caller,
        journal: Journal::record([7; 16], 1 << 20),
        flights: Flights::default(),
        names,
        room: Semaphore::new(8),
        bytes: AtomicU64::new(0),
        limits: Limits::default(),
    };
    (Arc::new(shared), told)
}

/// All but the connection: what would leave.
async fn decided(shared: &Shared, case: &Case) -> Result<Request<http_body_util::Full<bytes::Bytes>>, Error> {
    let (head, body) = said(case).unwrap().into_parts();
    let body = shared.gathered(body).await;
    let ready = shared.ready(0, head, body, &shared.granted)?;
    let way = send::Way { names: &shared.names, networks: &ready.networks };
    send::addresses(&ready.target, way).await.map_err(|failed| failed.error)?;
    Ok(send::request(&ready.target, ready.headers, ready.body).unwrap())
}

/// The line that the operator is told to add does it.
async fn allowed_by_the_line(told: &str, names: Names, case: &Case) {
    let Some((before, _)) = told.split_once(" to grants.http of this plugin's policy") else { return };
    let (_, line) = before.split_once("add ").unwrap();
    let text = format!("[grants]\nhttp = [{line}]");
    let (origin, folder) = (std::path::Path::new("p.toml"), std::path::Path::new("/"));
    let policy = crate::config::load_policy(&text, origin, folder, &crate::config::Config::default());
    let grants = policy.unwrap_or_else(|e| panic!("{told}: {e}")).grants;
    let (shared, again) = shared(&grants, names);
    if let Err(error) = decided(&shared, case).await {
        // Where it leads then is another question, with a line of its own.
        assert_ne!(named(&error), "denied", "{}: {told}: {again:?}", case.name);
    }
}

/// The request as it comes from the guest, or what the guest is told at once.
fn said(case: &Case) -> Result<Request<WasiBody>, &'static str> {
    let (method, url) = case.ask.split_once(' ').unwrap();
    let (scheme, rest) = url.split_once("://").unwrap();
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let method =
        Method::from_bytes(case.method.as_deref().unwrap_or(method).as_bytes()).map_err(|_| "malformed")?;
    let scheme: Scheme = scheme.parse().map_err(|_| "malformed")?;
    let authority = case.authority.as_deref().unwrap_or(authority);
    let path = format!("{}{}", case.path.as_deref().unwrap_or(path), "x".repeat(case.fill));
    if !(path.is_empty() || path.starts_with(['/', '?'])) {
        return Err("malformed");
    }
    let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(path);
    let uri = uri.build().map_err(|_| "malformed")?;
    let mut request = Request::new(Empty::new().map_err(|never| match never {}).boxed_unsync());
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    for (name, value) in &case.headers {
        let name: HeaderName = name.parse().map_err(|_| "header")?;
        let bytes: Vec<u8> = value.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
        let bytes = [bytes, vec![b'x'; case.header_fill]].concat();
        let value = axum::http::HeaderValue::from_bytes(&bytes).map_err(|_| "header")?;
        let is_length = name == header::CONTENT_LENGTH;
        let is_odd =
            is_length && (!bytes.iter().all(u8::is_ascii_digit) || request.headers().contains_key(&name));
        if is_forbidden(&name) || is_odd {
            return Err("header");
        }
        request.headers_mut().append(name, value);
    }
    Ok(request)
}

fn named(error: &Error) -> &'static str {
    match error {
        Error::HttpRequestDenied => "denied",
        Error::DestinationIpProhibited => "prohibited",
        Error::HttpRequestUriTooLong => "too-long",
        Error::HttpRequestHeaderSectionSize(_) => "large",
        Error::DnsError { .. } => "unknown-name",
        _ => "another error",
    }
}

/// What becomes of `case`, and what would leave.
async fn judged(allow: &[String], case: &Case) -> (String, Vec<String>) {
    let request = match said(case) {
        Ok(request) => request,
        Err(told) => return (told.to_owned(), Vec::new()),
    };
    let public = || vec!["93.184.216.34".parse().unwrap()];
    let names = Names::Fixed(case.addresses.clone().unwrap_or_else(public));
    let (shared, told) = shared(&granting(allow), names.clone());
    let Ok(leaves) = decided(&shared, case).await else {
        // The whole, which ends before anything is sent.
        let error = shared.exchange(0, request, None).await.unwrap_err();
        let is = named(&error).to_owned();
        let told = told.lock().unwrap().clone();
        if is == "denied" || is == "prohibited" {
            assert!(told.iter().any(|line| line.starts_with("denied: ")), "{}: {told:?}", case.name);
            allowed_by_the_line(told.last().unwrap(), names, case).await;
        }
        return (is, Vec::new());
    };
    let (head, _) = leaves.into_parts();
    let secure = case.ask.to_lowercase().contains(" https://");
    let scheme = if secure { "https" } else { "http" };
    let host = head.headers["host"].to_str().unwrap();
    let headers = head.headers.iter().map(|(n, v)| format!("{n}: {}", String::from_utf8_lossy(v.as_bytes())));
    (format!("sent {} {scheme}://{host}{}", head.method, head.uri), headers.collect())
}

#[tokio::test]
async fn every_attack_comes_to_its_verdict() {
    let (mut count, mut wrong) = (0, Vec::new());
    for group in table() {
        for case in &group.cases {
            count += 1;
            let (is, headers) = judged(&group.allow, case).await;
            if is != case.is || !case.has.iter().all(|line| headers.contains(line)) {
                wrong.push(format!("{}: {}: {is}, not {} ({headers:?})", group.name, case.name, case.is));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 300, "{count}");
}

/// What a guest cannot even say is nothing worse where it can.
#[test]
fn the_matcher_needs_nobody_before_it() {
    for group in table() {
        let rules: Vec<Rule> = group.allow.iter().map(|allow| Rule::parse(allow, false).unwrap()).collect();
        for case in group.cases.iter().filter(|case| case.is == "malformed") {
            let (method, url) = case.ask.split_once(' ').unwrap();
            let (scheme, rest) = url.split_once("://").unwrap();
            let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            let method = case.method.as_deref().unwrap_or(method);
            let authority = case.authority.as_deref().unwrap_or(authority);
            let path = case.path.as_deref().unwrap_or(path);
            let target = grants::Target::of(method, scheme, authority, path);
            let Ok(target) = target else { continue };
            // What it could let out is still no other request.
            let start = |allow: &String| {
                allow
                    .split(' ')
                    .nth(1)
                    .is_some_and(|url| target.url().as_str().starts_with(url.trim_end_matches('*')))
            };
            let let_out = rules.iter().any(|rule| rule.allows(&target));
            assert!(!let_out || group.allow.iter().any(start), "{}: {}: {target}", group.name, case.name);
        }
    }
}

proptest::proptest! {
    /// What is sent is what was matched, byte by byte, and nothing but a path and a host.
    #[test]
    fn what_is_sent_is_what_was_matched(method in "[A-Z]{1,6}|[a-z]{1,6}", authority in "[a-z.]{1,12}(:[0-9]{1,5})?", path in "/[ -~]{0,30}") {
        if let Ok(target) = grants::Target::of(&method, "http", &authority, &path) {
            let url = target.url();
            let sent = send::request(&target, axum::http::HeaderMap::new(), bytes::Bytes::new()).unwrap();
            proptest::prop_assert_eq!(sent.uri().to_string(), &url[url::Position::BeforePath..url::Position::AfterQuery]);
            proptest::prop_assert!(sent.uri().authority().is_none() && sent.uri().scheme().is_none());
            proptest::prop_assert_eq!(&sent.headers()["host"], &url[url::Position::BeforeHost..url::Position::AfterPort]);
            proptest::prop_assert_eq!(sent.method().as_str(), method);
        }
    }
}
