//! Which requests a policy lets out: `METHOD URL-PATTERN` against a method and a URL. Pure.
//!
//! A request is brought into one form, is matched in that form, and is sent in that form. What would need
//! interpretation (user names, odd forms of addresses, a host that reads otherwise than it is written) is
//! refused. A path must lie below a grant's as it is sent, and also as any server could read it (`path.rs`).

use std::{fmt, net::IpAddr};

use url::{Host, Position, Url};

use super::{addresses::Network, path::Path};

/// Longest URL of a request, in bytes: what servers commonly read.
const MAX_URL: usize = 8 << 10;
/// Methods that are never let out, however they are written: a tunnel has no URL, and TRACE tells a page what a proxy
/// knows.
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
    /// Where the host's name may lead beside the public internet.
    pub(super) networks: Vec<Network>,
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

impl Rule {
    /// Reads `allow`.
    ///
    /// # Errors
    /// What is wrong with it, and what to write.
    pub(in crate::capabilities) fn parse(allow: &str, idempotent: bool) -> Result<Self, String> {
        let form = "write a method (or *) and a URL, such as \"GET https://api.example.com/v1/*\"";
        let (method, url) = allow.split_once(' ').ok_or(form)?;
        if method != "*" && !is_plain_method(method) {
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
        Ok(Self { method, https, host, port, path, idempotent, networks: Vec::new() })
    }

    /// The same for a host whose name leads to one of `networks`.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub(in crate::capabilities) fn within(mut self, networks: &[String]) -> Result<Self, String> {
        if !networks.is_empty() && matches!(self.host, HostRule::Ip(_)) {
            return Err("its host is an address: `networks` is for names".to_owned());
        }
        self.networks = networks.iter().map(|text| Network::parse(text)).collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// True where it lets `target` out.
    pub(super) fn allows(&self, target: &Target) -> bool {
        self.method.as_ref().is_none_or(|method| *method == target.method)
            && self.https == target.is_https()
            && self.port == target.port
            && self.host.allows(&target.host)
            && match &self.path {
                PathRule::Exact(path) => *path == target.path,
                PathRule::Below(path) => target.path.is_below(path),
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
        if NEVER.iter().any(|known| known.eq_ignore_ascii_case(method)) {
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
        // What is sent counts: a character that is encoded takes up to twelve bytes.
        if url[Position::BeforeHost..Position::AfterQuery].len() > MAX_URL {
            return Err(Unfit::TooLong);
        }
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
        let method = if is_plain_method(&self.method) { self.method.as_str() } else { "*" };
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

/// True for a method in capitals; some have hyphens or digits.
fn is_plain_method(method: &str) -> bool {
    let plain = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'-';
    method.starts_with(|c: char| c.is_ascii_uppercase()) && method.bytes().all(plain)
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

#[cfg(test)]
// By its path: the fuzz targets take this file in by its own.
#[path = "grants/tests.rs"]
mod tests;
