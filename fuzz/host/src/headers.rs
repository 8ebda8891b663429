//! Any head of a request to any path: what is served says one host of ours, one origin of ours or none, a known token where one is
//! asked for, and mirrors the body.
//!
//! Input: optionally a line `= METHOD TARGET`; lines `NAME: VALUE`, where the first of a name takes the place of the usual
//! one; lines `-NAME`, which take the usual one away; after an empty line a body in place of the usual one, which may begin with the
//! line `token`, for the door that asks for one.

use std::time::Duration;

use layby::commands::fuzzing::{Answered, Asked};

use crate::{
    body::base64,
    served::{ADDRESS, NAME, ORIGIN, TOKEN, ask},
};

/// A call whose every header is checked.
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"f","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},"name":"told","arguments":{"place":"42"}}}"#;
const ENDS: Duration = Duration::from_millis(300);

pub(crate) fn target(data: &[u8]) {
    let cut = data.windows(2).position(|two| two == b"\n\n");
    let (head, body) = cut.map_or((data, &b""[..]), |at| (&data[..at], &data[at + 2..]));
    let (tokens, body) = body.strip_prefix(b"token\n").map_or((false, body), |rest| (true, rest));
    let body = if body.is_empty() { CALL.as_bytes() } else { body };
    let asked = read(head, tokens, body);
    let Some(answered) = ask(tokens, asked.clone(), ENDS) else { return };
    if !matches!(answered.status, 403 | 431) {
        addressed(&asked);
    }
    let at = asked.target.split(|b| *b == b'?').next().unwrap_or_default();
    if tokens && at.ends_with(b"/mcp") && matches!(answered.status, 200 | 202) {
        proven(&asked);
    }
    if body == CALL.as_bytes() && asked.method == b"POST" && answered.status == 200 {
        mirrors(&asked, &answered);
    }
}

fn read(head: &[u8], tokens: bool, body: &[u8]) -> Asked {
    let text = |name: &str, value: &str| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    let mut usual = vec![
        text("host", ADDRESS),
        text("content-type", "application/json"),
        text("accept", "application/json, text/event-stream"),
        text("mcp-protocol-version", "2026-07-28"),
        text("mcp-method", "tools/call"),
        text("mcp-name", "told"),
        text("mcp-param-place", "42"),
    ];
    if tokens {
        usual.push(text("authorization", &format!("Bearer {TOKEN}")));
    }
    let (mut method, mut target, mut own) = (b"POST".to_vec(), b"/mcp".to_vec(), Vec::new());
    for line in head.split(|b| *b == b'\n') {
        if let Some(named) = line.strip_prefix(b"= ") {
            let mut parts = named.splitn(2, |b| *b == b' ');
            method = parts.next().unwrap_or_default().to_vec();
            target = parts.next().unwrap_or(b"/mcp").to_vec();
        } else if let Some(name) = line.strip_prefix(b"-") {
            usual.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        } else if let Some(colon) = line.iter().position(|b| *b == b':') {
            let (name, value) = (&line[..colon], &line[colon + 1..]);
            // As hyper reads a line.
            let value = value.trim_ascii();
            own.push((name.to_vec(), value.to_vec()));
        }
    }
    usual.retain(|(known, _)| !own.iter().any(|(name, _): &(Vec<u8>, _)| name.eq_ignore_ascii_case(known)));
    usual.extend(own);
    Asked { method, target, headers: usual, body: body.to_vec() }
}

fn values<'a>(asked: &'a Asked, name: &str) -> Vec<&'a [u8]> {
    let ours = asked.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name.as_bytes()));
    ours.map(|(_, value)| value.as_slice()).collect()
}

/// Every name of a host that is in it is this host's, and there is one; and so is the origin, if it has one.
fn addressed(asked: &Asked) {
    let port = ADDRESS.rsplit(':').next().expect("a port");
    let ours = |host: &[u8]| {
        let host = String::from_utf8_lossy(host).to_ascii_lowercase();
        let (name, end) = host
            .rsplit_once(':')
            .filter(|(name, _)| !name.ends_with(':') && !host.ends_with(']'))
            .unwrap_or((&host, port));
        host == NAME || (["localhost", "127.0.0.1", "[::1]"].contains(&name) && end == port)
    };
    let target = String::from_utf8_lossy(&asked.target);
    let absolute = target.split_once("://").filter(|_| !target.starts_with('/'));
    let named = absolute.map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let hosts = values(asked, "host");
    assert!(
        hosts.len() == 1 || (hosts.is_empty() && (named.is_some() || !target.starts_with('/'))),
        "{asked:?}"
    );
    assert!(hosts.iter().all(|host| ours(host)), "{asked:?}");
    assert!(named.is_none_or(|named| ours(named.as_bytes())), "{asked:?}");
    let origins = values(asked, "origin");
    assert!(origins.len() <= 1, "{asked:?}");
    for origin in origins {
        let text = String::from_utf8_lossy(origin).to_ascii_lowercase();
        let own = text.split_once("://").filter(|(scheme, _)| ["http", "https"].contains(scheme));
        assert!(text == ORIGIN || own.is_some_and(|(_, host)| ours(host.as_bytes())), "{asked:?}");
    }
}

/// It has the token, once.
fn proven(asked: &Asked) {
    let [line] = values(asked, "authorization")[..] else { panic!("{asked:?}") };
    let text = std::str::from_utf8(line).expect("plain text");
    let (scheme, token) = text.split_once(' ').expect("two words");
    assert!(scheme.eq_ignore_ascii_case("bearer") && token.trim() == TOKEN, "{asked:?}");
}

/// Each header that mirrors [`CALL`] says what is in it, once. Not where a session is named: that has none of them.
fn mirrors(asked: &Asked, answered: &Answered) {
    let text = String::from_utf8_lossy(&answered.body);
    if !text.contains("\"result\"") {
        return;
    }
    for (name, value) in [
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "told"),
        ("mcp-param-place", "42"),
    ] {
        let [line] = values(asked, name)[..] else { panic!("{name}: {asked:?}") };
        let encoded = format!("=?base64?{}?=", base64(value.as_bytes()));
        let number = name == "mcp-param-place"
            && String::from_utf8_lossy(line).parse::<f64>().is_ok_and(|n| n.to_string() == value);
        assert!(line == value.as_bytes() || line == encoded.as_bytes() || number, "{name}: {asked:?}");
    }
}
