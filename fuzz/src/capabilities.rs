//! What decides about a request by HTTP, taken in by path as the journal's room is.

// A part of the host, of which the target uses a part.
#[allow(dead_code)]
#[path = "../../host/src/capabilities/http/addresses.rs"]
mod addresses;
#[allow(dead_code)]
#[path = "../../host/src/capabilities/http/grants.rs"]
mod grants;
#[allow(dead_code)]
#[path = "../../host/src/capabilities/http/path.rs"]
mod path;

use grants::{HostName, Rule, Target};
use url::Position;

/// A request of a guest's.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The method.
    pub method: &'a str,
    /// The scheme.
    pub scheme: &'a str,
    /// Host and port.
    pub authority: &'a str,
    /// Path and query.
    pub path: &'a str,
}

/// What is let out by the grant `allow` is what it says, by a reading of its own.
///
/// # Panics
/// Where it is not.
pub fn judge(allow: &str, asked: Asked<'_>) {
    let rule = Rule::parse(allow, false);
    if let Err(why) = &rule {
        assert!(!why.is_empty());
    }
    let Ok(target) = Target::of(asked.method, asked.scheme, asked.authority, asked.path) else { return };
    let url = target.url();
    let again = Target::of(
        target.method(),
        url.scheme(),
        &url[Position::BeforeHost..Position::AfterPort],
        &url[Position::BeforePath..Position::AfterQuery],
    );
    assert_eq!(again.as_ref(), Ok(&target), "it is read the same again");
    let suggested = Rule::parse(&target.suggestion(), false).expect("what is suggested can be read");
    assert!(suggested.allows(&target), "{target}: {}", target.suggestion());
    if let HostName::Ip(ip) = target.host() {
        addresses::is_public(*ip);
    }
    let Ok(rule) = rule else { return };
    if !rule.allows(&target) {
        return;
    }
    let (method, pattern) = allow.split_once(' ').expect("it was read");
    assert!(method == "*" || method == target.method());
    assert!(!["CONNECT", "TRACE"].contains(&target.method().to_ascii_uppercase().as_str()));
    let (scheme, rest) = pattern.split_once("://").expect("it was read");
    assert_eq!(scheme, url.scheme());
    let (authority, start) = rest.split_at(rest.find('/').expect("it was read"));
    host(authority, url, scheme);
    match start.strip_suffix('*') {
        Some(start) => assert!(url.path().starts_with(start), "{url}"),
        None => assert_eq!(url.path(), start),
    }
    stays(url.path().as_bytes(), 6);
}

fn host(authority: &str, url: &url::Url, scheme: &str) {
    assert!(url.username().is_empty() && url.password().is_none());
    let end = authority.rfind(':').filter(|at| !authority[*at..].contains(']')).unwrap_or(authority.len());
    let (name, port) = authority.split_at(end);
    let default = if scheme == "https" { 443 } else { 80 };
    let port = port.strip_prefix(':').map_or(default, |port| port.parse().expect("it was read"));
    assert_eq!(url.port_or_known_default(), Some(port));
    let read = url.host_str().expect("it has one");
    let same = |(a, b): (&str, &str)| a.eq_ignore_ascii_case(b) || (a == "*" && !b.is_empty());
    assert_eq!(name.split('.').count(), read.split('.').count());
    assert!(name.split('.').zip(read.split('.')).all(same), "{authority}: {url}");
}

/// However often it is decoded, no part of it goes up.
fn stays(path: &[u8], times: u32) {
    for part in path.split(|b| matches!(b, b'/' | b'\\')) {
        assert_ne!(part.split(|b| *b == b';').next().unwrap_or_default(), b"..");
    }
    let digit = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16));
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(byte) = path.get(at) {
        match (byte, digit(path.get(at + 1)), digit(path.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).expect("two digits"));
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    if times > 0 && out != path {
        stays(&out, times - 1);
    }
}
