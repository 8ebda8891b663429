//! Which requests a policy lets out: `METHOD URL-PATTERN` against a method and a URL. Pure.
//!
//! A request is brought into one form, is matched in that form, and is sent in that form. What would need
//! interpretation (user names, odd forms of addresses, a host that reads otherwise than it is written) is
//! refused. A path must lie below a grant's as it is sent, and also as the loosest server could read it:
//! decoded as often as it can be, without parameters, with `.` and `..` followed.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use url::{Host, Url};

/// Longest URL of a request, in bytes: what servers commonly read.
const MAX_URL: usize = 8 << 10;
/// How often a path is decoded: who decodes more often than this has its own trouble.
const DECODINGS: usize = 4;
/// Methods that are never let out: a tunnel has no URL, and TRACE tells a page what a proxy knows.
const NEVER: [&str; 2] = ["CONNECT", "TRACE"];

/// One grant, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::capabilities) struct Rule {
    /// None for every method.
    method: Option<String>,
    https: bool,
    host: HostRule,
    port: u16,
    path: PathRule,
    /// A request is sent again after a crash, whatever its method.
    pub(super) idempotent: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostRule {
    /// None stands for one label, whatever it is.
    Labels(Vec<Option<String>>),
    Ip(IpAddr),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathRule {
    Exact(Path),
    /// This and all below it; as written it ends with a slash.
    Below(Path),
}

/// A path as it is sent, and as the loosest server reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Path {
    sent: String,
    loose: Vec<Vec<u8>>,
}

impl Rule {
    /// Reads `allow`.
    ///
    /// # Errors
    /// What is wrong with it, and what to write.
    pub(in crate::capabilities) fn parse(allow: &str, idempotent: bool) -> Result<Self, String> {
        let form = "write a method (or *) and a URL, such as \"GET https://api.example.com/v1/*\"";
        let (method, url) = allow.split_once(' ').ok_or(form)?;
        let known = method == "*" || (!method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase()));
        if !known {
            return Err(format!("{method:?} is no method in capitals, nor *"));
        }
        if NEVER.contains(&method) {
            return Err(format!("{method} is never let out"));
        }
        let bad = |c: char| !c.is_ascii_graphic() || matches!(c, '?' | '#' | '\\');
        if let Some(c) = url.chars().find(|c| bad(*c)) {
            return Err(format!(
                "{url:?} has {c:?}: a pattern has a scheme, a host, perhaps a port, and a path; every query is allowed"
            ));
        }
        let (start, below) = match url.strip_suffix("/*") {
            Some(start) => (format!("{start}/"), true),
            None => (url.to_owned(), false),
        };
        let (scheme, rest) = start.split_once("://").ok_or(form)?;
        let https = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(format!("the scheme {scheme:?} is neither https nor http")),
        };
        let (authority, path) = rest.find('/').map(|at| rest.split_at(at)).ok_or(form)?;
        if authority.contains('@') {
            return Err(format!(
                "{authority:?} has a user name: only a host, and perhaps a port, can stand there"
            ));
        }
        if path.contains('*') {
            return Err(format!("{path:?}: a `*` in a path stands alone at its end, as in \"/v1/*\""));
        }
        let parsed = Url::parse(&start).map_err(|e| format!("{url:?} is no URL: {e}"))?;
        let host = HostRule::parse(&parsed, authority)?;
        if parsed.path() != path {
            return Err(format!("the path {path:?} is sent as {:?}: write that", parsed.path()));
        }
        let path = Path::of(path)?;
        let path = if below { PathRule::Below(path) } else { PathRule::Exact(path) };
        let method = (method != "*").then(|| method.to_owned());
        // The scheme has a default.
        let port = parsed.port_or_known_default().unwrap_or_default();
        Ok(Self { method, https, host, port, path, idempotent })
    }

    /// True where it lets `target` out.
    pub(super) fn allows(&self, target: &Target) -> bool {
        self.method.as_ref().is_none_or(|method| *method == target.method)
            && self.https == target.is_https()
            && self.port == target.port
            && self.host.allows(&target.host)
            && match &self.path {
                PathRule::Exact(path) => *path == target.path,
                PathRule::Below(path) => {
                    target.path.sent.starts_with(&path.sent) && target.path.loose.starts_with(&path.loose)
                }
            }
    }
}

impl HostRule {
    fn parse(url: &Url, authority: &str) -> Result<Self, String> {
        let written = written_host(authority).map_err(|e| format!("{authority:?}: {e}"))?;
        match host_of(url, written).map_err(|e| format!("the host {written:?} {e}"))? {
            HostName::Ip(ip) => Ok(Self::Ip(ip)),
            HostName::Name(name) => {
                let labels: Vec<_> = name.split('.').map(|l| (l != "*").then(|| l.to_owned())).collect();
                if labels.iter().flatten().any(|label| label.contains('*')) {
                    return Err(format!("the host {name:?}: a `*` stands for a whole part between dots"));
                }
                if labels.last().is_none_or(Option::is_none) {
                    return Err(format!("the host {name:?} ends with `*`: name at least its last part"));
                }
                Ok(Self::Labels(labels))
            }
        }
    }

    fn allows(&self, host: &HostName) -> bool {
        match (self, host) {
            (Self::Ip(granted), HostName::Ip(ip)) => granted == ip,
            (Self::Labels(labels), HostName::Name(name)) => {
                let mut parts = name.split('.');
                let same = labels.iter().all(|label| {
                    parts.next().is_some_and(|part| label.as_ref().is_none_or(|label| label == part))
                });
                same && parts.next().is_none()
            }
            _ => false,
        }
    }
}

/// Whom a request goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HostName {
    /// In lower case.
    Name(String),
    /// As the URL has it: a grant that allows it names this very address.
    Ip(IpAddr),
}

/// A request's method and URL, in the form in which they are matched and sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    method: String,
    url: Url,
    host: HostName,
    port: u16,
    path: Path,
}

/// Why a request is none that could be let out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// Never, whatever is granted: why.
    Never(String),
    /// The URL is longer than 8 KiB.
    TooLong,
}

impl Target {
    /// Reads a request, as the guest has it.
    ///
    /// # Errors
    /// Why it is never let out.
    pub(super) fn of(method: &str, scheme: &str, authority: &str, path: &str) -> Result<Self, Unfit> {
        let never = |why: &str| Unfit::Never(why.to_owned());
        if authority.len() + path.len() > MAX_URL {
            return Err(Unfit::TooLong);
        }
        if NEVER.contains(&method) {
            return Err(never("this method is never let out"));
        }
        if !matches!(scheme, "http" | "https") {
            return Err(never("only http and https are let out"));
        }
        if authority.contains('@') {
            return Err(never("the URL has a user name: use a header"));
        }
        if authority.contains(['/', '?', '#', '\\']) || path.contains(['#', '\\']) {
            return Err(never("the URL has a fragment or a backslash"));
        }
        let path = match path.as_bytes().first() {
            None => "/".to_owned(),
            Some(b'/') => path.to_owned(),
            Some(b'?') => format!("/{path}"),
            Some(_) => return Err(never("the path does not begin with a slash")),
        };
        let url = Url::parse(&format!("{scheme}://{authority}{path}"))
            .map_err(|e| Unfit::Never(format!("it is no URL: {e}")))?;
        let written = written_host(authority).map_err(never)?;
        let host = host_of(&url, written).map_err(|e| Unfit::Never(format!("the host {e}")))?;
        if matches!(&host, HostName::Name(name) if name.contains('*')) {
            return Err(never("the host has a `*`"));
        }
        let port = url.port_or_known_default().unwrap_or_default();
        let path = Path::of(url.path()).map_err(Unfit::Never)?;
        Ok(Self { method: method.to_owned(), url, host, port, path })
    }

    /// The method.
    pub(super) fn method(&self) -> &str {
        &self.method
    }

    /// The URL as it is sent.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Whom it goes to.
    pub(super) fn host(&self) -> &HostName {
        &self.host
    }

    /// The port; the scheme's own where the URL has none.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// True for HTTPS.
    pub(super) fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// The `allow` of a grant that lets exactly this out, or where that cannot be written, the least more.
    pub(super) fn suggestion(&self) -> String {
        let path = match self.url.path().split_once('*') {
            Some((start, _)) => format!("{}*", &start[..=start.rfind('/').unwrap_or_default()]),
            None => self.url.path().to_owned(),
        };
        let known = self.method.bytes().all(|b| b.is_ascii_uppercase());
        let method = if known { self.method.as_str() } else { "*" };
        format!("{method} {}{path}", self.origin())
    }

    fn origin(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{}://{host}{port}", self.url.scheme())
    }
}

/// Without the query, which may have secrets.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.method, self.origin(), self.url.path())
    }
}

/// The host in `HOST` or `HOST:PORT`, whose port is written plainly.
fn written_host(authority: &str) -> Result<&str, &'static str> {
    let end = if authority.starts_with('[') {
        authority.find(']').map(|at| at + 1).ok_or("the address has no `]`")?
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    let (host, port) = authority.split_at(end);
    if !port.is_empty() {
        let number = port.strip_prefix(':').and_then(|p| p.parse::<u16>().ok()).filter(|n| *n > 0);
        if number.is_none_or(|n| format!(":{n}") != port) {
            return Err("the port is no plain number from 1 to 65535");
        }
    }
    Ok(host)
}

/// The host of `url`, which must be what was `written` but for capitals.
fn host_of(url: &Url, written: &str) -> Result<HostName, String> {
    let read = url.host_str().unwrap_or_default();
    if !written.eq_ignore_ascii_case(read) {
        return Err(format!("reads as {read:?}: it must be written so"));
    }
    match url.host() {
        Some(Host::Ipv4(ip)) => Ok(HostName::Ip(IpAddr::V4(ip))),
        Some(Host::Ipv6(ip)) => Ok(HostName::Ip(IpAddr::V6(ip))),
        Some(Host::Domain(name)) if name.split('.').any(str::is_empty) => {
            Err("has an empty part, or ends with a dot".to_owned())
        }
        Some(Host::Domain(name)) => Ok(HostName::Name(name.to_owned())),
        None => Err("is missing".to_owned()),
    }
}

impl Path {
    fn of(sent: &str) -> Result<Self, String> {
        let mut bytes = sent.as_bytes().to_vec();
        for _ in 0..DECODINGS {
            let decoded = decoded(&bytes);
            if decoded == bytes {
                return Ok(Self { sent: sent.to_owned(), loose: segments(&bytes) });
            }
            bytes = decoded;
        }
        Err("the path is percent-encoded over and over".to_owned())
    }
}

/// `bytes` with each `%XX` replaced, once.
fn decoded(bytes: &[u8]) -> Vec<u8> {
    let hex = |b: Option<&u8>| b.and_then(|b| char::from(*b).to_digit(16));
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&b) = bytes.get(at) {
        match (b, hex(bytes.get(at + 1)), hex(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                // Two digits make one byte.
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                out.push(b);
                at += 1;
            }
        }
    }
    out
}

/// The parts of a decoded path: without parameters and empty ones, with `.` and `..` followed.
fn segments(path: &[u8]) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for part in path.split(|b| matches!(b, b'/' | b'\\')) {
        match part.split(|b| *b == b';').next().unwrap_or_default() {
            b"" | b"." => {}
            b".." => drop(all.pop()),
            part => all.push(part.to_vec()),
        }
    }
    all
}

/// An IPv4 address in the forms in which IPv6 carries one.
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = ip.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        // Mapped, compatible, translated, and NAT64.
        [0, 0, 0, 0, 0, 0xffff | 0, a, b]
        | [0, 0, 0, 0, 0xffff, 0, a, b]
        | [0x64, 0xff9b, 0, 0, 0, 0, a, b] => v4(a, b),
        // 6to4.
        [0x2002, a, b, ..] => v4(a, b),
        // ISATAP.
        [.., 0 | 0x200, 0x5efe, a, b] => v4(a, b),
        _ => None,
    }
}

/// True for addresses that stand for one host of the public internet (the registries of special-purpose
/// addresses of IANA, RFC 6890 and its updates, say which do not).
pub(super) fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => match embedded(ip) {
            Some(v4) => is_public_v4(v4),
            None => {
                let s = ip.segments();
                let global = s[0] & 0xe000 == 0x2000;
                // Protocol assignments (Teredo among them), documentation.
                let special =
                    (s[0] == 0x2001 && (s[1] < 0x200 || s[1] == 0xdb8)) || (s[0] == 0x3fff && s[1] < 0x1000);
                global && !special
            }
        },
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    !(a == 0
        || ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_documentation()
        // Between a provider and its customers.
        || (a == 100 && b & 0xc0 == 64)
        // Protocol assignments, old 6to4 relays, AS112, AMT, benchmarks.
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 192 && b == 31 && c == 196)
        || (a == 192 && b == 52 && c == 193)
        || (a == 192 && b == 175 && c == 48)
        || (a == 198 && b & 0xfe == 18)
        // Multicast, reserved, broadcast.
        || a >= 224)
}

#[cfg(test)]
mod tests;
