//! Host and Origin, against DNS rebinding.

use std::net::SocketAddr;

use axum::http::{HeaderMap, header};

use crate::config::ServeConfig;

/// Names under which this server may be addressed.
pub(super) struct Guard {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Guard {
    pub(super) fn new(config: &ServeConfig, address: SocketAddr) -> Self {
        let port = address.port();
        let mut hosts: Vec<String> = config.allowed_hosts.iter().map(|h| h.to_ascii_lowercase()).collect();
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "[::1]".to_owned()];
        if !address.ip().is_unspecified() {
            names.push(match address.ip() {
                std::net::IpAddr::V4(ip) => ip.to_string(),
                std::net::IpAddr::V6(ip) => format!("[{ip}]"),
            });
        }
        for name in names {
            hosts.push(format!("{name}:{port}"));
            hosts.push(name);
        }
        Self { hosts, origins: config.allowed_origins.iter().map(|o| o.to_ascii_lowercase()).collect() }
    }

    /// True where `Host` names this server and `Origin`, if there is one, is this server's own or allowed
    /// (MCP 2026-07-28, streamable HTTP, security).
    pub(super) fn admits(&self, headers: &HeaderMap, authority: Option<&str>) -> bool {
        // Each that is there must be ours: a proxy before us may have looked at another one than we.
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().ok(),
            (None, _) => authority,
            (Some(_), Some(_)) => None,
        };
        let Some(host) = host else { return false };
        if !self.known(host) || authority.is_some_and(|named| !self.known(named)) {
            return false;
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = origins.next() else { return true };
        let Ok(origin) = origin.to_str() else { return false };
        if origins.next().is_some() {
            return false;
        }
        if self.origins.iter().any(|o| o.eq_ignore_ascii_case(origin)) {
            return true;
        }
        let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        own.is_some_and(|host| self.known(host))
    }

    fn known(&self, host: &str) -> bool {
        self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host))
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_own_names_and_origins_pass() {
        let config = ServeConfig {
            allowed_hosts: vec!["Tools.example".into()],
            allowed_origins: vec!["https://app.example".into()],
            ..ServeConfig::default()
        };
        let guard = Guard::new(&config, SocketAddr::from(([127, 0, 0, 1], 7331)));
        let cases = [
            ("127.0.0.1:7331", None, true),
            ("localhost:7331", Some("http://localhost:7331"), true),
            ("tools.example", Some("https://app.example"), true),
            ("127.0.0.1:80", None, false),
            ("evil.example", None, false),
            ("127.0.0.1:7331", Some("http://evil.example"), false),
            ("127.0.0.1:7331", Some("null"), false),
        ];
        for (host, origin, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_static(origin));
            }
            assert_eq!(guard.admits(&headers, None), expected, "{host} {origin:?}");
        }
        assert!(!guard.admits(&HeaderMap::new(), None));
        assert!(guard.admits(&HeaderMap::new(), Some("localhost:7331")));
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("localhost:7331"));
        assert!(!guard.admits(&headers, Some("evil.example")), "an absolute URI counts too");
        headers.append(header::HOST, HeaderValue::from_static("localhost:7331"));
        assert!(!guard.admits(&headers, None), "two Host headers");
    }
}
