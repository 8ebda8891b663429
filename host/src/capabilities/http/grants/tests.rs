#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;

use super::*;

fn rule(allow: &str) -> Rule {
    Rule::parse(allow, false).expect(allow)
}

/// A request from its URL, taken apart as a guest does.
fn target(method: &str, url: &str) -> Result<Target, Unfit> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    Target::of(method, scheme, authority, path)
}

fn allows(allow: &str, request: &str) -> bool {
    let (method, url) = request.split_once(' ').unwrap();
    target(method, url).is_ok_and(|target| rule(allow).allows(&target))
}

#[test]
fn what_is_granted() {
    for (allow, request) in [
        ("GET https://api.example.com/v1/*", "GET https://api.example.com/v1/"),
        (
            "GET https://api.example.com/v1/*",
            "GET https://api.example.com/v1/a/b?q=%2e%2e#".trim_end_matches('#'),
        ),
        ("GET https://api.example.com/v1/*", "GET https://API.example.COM:443/v1/x"),
        ("GET https://api.example.com/v1/*", "GET https://api.example.com/v1/a/../b"),
        ("GET https://api.example.com/v1/*", "GET https://api.example.com/other/../v1/b"),
        ("GET https://api.example.com/v1/*", "GET https://api.example.com/v1/group%2Fproject"),
        ("GET https://api.example.com/v1/*", "GET https://api.example.com/v1/100%25"),
        ("GET https://api.example.com/v1/*", "GET https://api.example.com/v1/a;b=c"),
        ("GET https://api.example.com/v1/*", "GET https://api.example.com/v1/%E4%BD%A0"),
        ("* https://api.example.com/*", "PATCH https://api.example.com?x"),
        ("* https://api.example.com/*", "PROPFIND https://api.example.com/"),
        ("GET https://api.example.com/v1/x", "GET https://api.example.com/v1/x?any"),
        ("GET https://*.example.com/", "GET https://a.example.com"),
        ("GET https://a.*.example.com/*", "GET https://a.b.example.com/x"),
        ("GET http://127.0.0.1:8080/*", "GET http://127.0.0.1:8080/x"),
        ("GET http://[::1]:8080/*", "GET http://[::1]:8080/x"),
        ("GET http://localhost:8080/*", "GET http://localhost:8080/x"),
        ("GET https://xn--bcher-kva.example/*", "GET https://xn--bcher-kva.example/x"),
    ] {
        assert!(allows(allow, request), "{allow} does not allow {request}");
    }
}

/// Each asks for more than it has.
#[test]
fn what_is_not_granted() {
    let api = "GET https://api.example.com/v1/*";
    for (allow, request) in [
        // Method.
        (api, "POST https://api.example.com/v1/x"),
        (api, "get https://api.example.com/v1/x"),
        (api, "HEAD https://api.example.com/v1/x"),
        ("* https://api.example.com/*", "CONNECT https://api.example.com/"),
        ("* https://api.example.com/*", "TRACE https://api.example.com/"),
        // Scheme and port.
        (api, "GET http://api.example.com/v1/x"),
        (api, "GET http://api.example.com:443/v1/x"),
        (api, "GET https://api.example.com:8443/v1/x"),
        (api, "GET https://api.example.com:80/v1/x"),
        (api, "GET https://api.example.com:0443/v1/x"),
        (api, "GET https://api.example.com:/v1/x"),
        (api, "GET https://api.example.com:65979/v1/x"),
        (api, "GET https://api.example.com:+443/v1/x"),
        (api, "GET ftp://api.example.com/v1/x"),
        (api, "GET ws://api.example.com/v1/x"),
        (api, "GET file:///v1/x"),
        ("GET http://127.0.0.1:8080/*", "GET http://127.0.0.1/"),
        ("GET http://127.0.0.1:8080/*", "GET http://127.0.0.1:80801/"),
        // Host.
        (api, "GET https://example.com/v1/x"),
        (api, "GET https://xapi.example.com/v1/x"),
        (api, "GET https://api.example.com.evil.org/v1/x"),
        (api, "GET https://api.example.comevil.org/v1/x"),
        (api, "GET https://api.example.com./v1/x"),
        (api, "GET https://api..example.com/v1/x"),
        (api, "GET https://.api.example.com/v1/x"),
        (api, "GET https://api.example.co/v1/x"),
        (api, "GET https://a.api.example.com/v1/x"),
        (api, "GET https:///v1/x"),
        (api, "GET https://*/v1/x"),
        (api, "GET https://*.example.com/v1/x"),
        ("GET https://*.example.com/*", "GET https://example.com/"),
        ("GET https://*.example.com/*", "GET https://a.b.example.com/"),
        ("GET https://*.example.com/*", "GET https://.example.com/"),
        ("GET https://*.example.com/*", "GET https://*.example.com/"),
        ("GET https://*.example.com/*", "GET https://a.example.com.evil.org/"),
        ("GET https://*.example.com/*", "GET https://evil.org/.example.com/"),
        ("GET https://*.example.com/*", "GET https://evil.org?.example.com/"),
        ("GET https://*.example.com/*", "GET https://evil.org#.example.com/"),
        ("GET https://*.example.com/*", "GET https://evil.org\\.example.com/"),
        ("GET https://*.example.com/*", "GET https://evil%2eexample.com/"),
        // User names.
        (api, "GET https://api.example.com@evil.org/v1/x"),
        (api, "GET https://user@api.example.com/v1/x"),
        (api, "GET https://user:password@api.example.com/v1/x"),
        (api, "GET https://@api.example.com/v1/x"),
        (api, "GET https://evil.org%40api.example.com/v1/x"),
        (api, "GET https://api.example.com:443@evil.org/v1/x"),
        // Encodings and odd letters of hosts.
        (api, "GET https://api%2eexample.com/v1/x"),
        (api, "GET https://%61pi.example.com/v1/x"),
        (api, "GET https://api\u{3002}example.com/v1/x"),
        (api, "GET https://\u{ff41}pi.example.com/v1/x"),
        (api, "GET https://api.example\u{00ad}.com/v1/x"),
        (api, "GET https://api.example.com\t/v1/x"),
        (api, "GET https://api.example.com\0/v1/x"),
        (api, "GET https://api.example.com\r\nHost: evil.org/v1/x"),
        (api, "GET https://api.example.com evil.org/v1/x"),
        ("GET https://xn--bcher-kva.example/*", "GET https://b\u{fc}cher.example/"),
        // IPv4 in odd forms.
        ("GET http://127.0.0.1/*", "GET http://127.1/"),
        ("GET http://127.0.0.1/*", "GET http://127.0.1/"),
        ("GET http://127.0.0.1/*", "GET http://2130706433/"),
        ("GET http://127.0.0.1/*", "GET http://0x7f000001/"),
        ("GET http://127.0.0.1/*", "GET http://0x7f.0.0.1/"),
        ("GET http://127.0.0.1/*", "GET http://0177.0.0.1/"),
        ("GET http://127.0.0.1/*", "GET http://127.0.0.01/"),
        ("GET http://127.0.0.1/*", "GET http://127.0.0.1./"),
        ("GET http://127.0.0.1/*", "GET http://127.000.000.001/"),
        ("GET http://127.0.0.1/*", "GET http://127.0.0.1.nip.io/"),
        ("GET http://127.0.0.1/*", "GET http://\u{ff11}27.0.0.1/"),
        ("GET http://127.0.0.1/*", "GET http://127.0.0.2/"),
        ("GET http://127.0.0.1/*", "GET http://localhost/"),
        ("GET http://127.0.0.1/*", "GET http://[::ffff:127.0.0.1]/"),
        ("GET http://127.0.0.1/*", "GET http://[::ffff:7f00:1]/"),
        ("GET http://127.0.0.1/*", "GET http://0/"),
        ("GET http://127.0.0.1/*", "GET http://256.0.0.1/"),
        ("GET http://localhost/*", "GET http://127.0.0.1/"),
        ("GET http://localhost/*", "GET http://localhost./"),
        ("GET http://localhost/*", "GET http://a.localhost/"),
        // IPv6 in odd forms.
        ("GET http://[::1]/*", "GET http://[0:0:0:0:0:0:0:1]/"),
        ("GET http://[::1]/*", "GET http://[::0001]/"),
        ("GET http://[::1]/*", "GET http://[::1%25lo]/"),
        ("GET http://[::1]/*", "GET http://[::1%lo]/"),
        ("GET http://[::1]/*", "GET http://::1/"),
        ("GET http://[::1]/*", "GET http://[::1/"),
        ("GET http://[::1]/*", "GET http://[::1]x/"),
        ("GET http://[::1]/*", "GET http://[::1]:x/"),
        ("GET http://[::1]/*", "GET http://[::]/"),
        ("GET http://[::1]/*", "GET http://[::127.0.0.1]/"),
        // Paths.
        (api, "GET https://api.example.com/"),
        (api, "GET https://api.example.com"),
        (api, "GET https://api.example.com/v1"),
        (api, "GET https://api.example.com/v1?/v1/x"),
        (api, "GET https://api.example.com/v2/x"),
        (api, "GET https://api.example.com/V1/x"),
        (api, "GET https://api.example.com/v1x/y"),
        (api, "GET https://api.example.com//v1/x"),
        (api, "GET https://api.example.com/./x"),
        (api, "GET https://api.example.com/x?/v1/"),
        (api, "GET https://api.example.com/x;/v1/"),
        (api, "GET https://api.example.com/v1/../x"),
        (api, "GET https://api.example.com/v1/./../x"),
        (api, "GET https://api.example.com/v1/a/../../x"),
        (api, "GET https://api.example.com/v1//../../x"),
        (api, "GET https://api.example.com/v1/.."),
        (api, "GET https://api.example.com/v1/%2e%2e/x"),
        (api, "GET https://api.example.com/v1/%2E%2e/x"),
        (api, "GET https://api.example.com/v1/.%2e/x"),
        (api, "GET https://api.example.com/v1/%2e./x"),
        (api, "GET https://api.example.com/v1/..%2fx"),
        (api, "GET https://api.example.com/v1/..%2Fx"),
        (api, "GET https://api.example.com/v1/%2e%2e%2fx"),
        (api, "GET https://api.example.com/v1/a%2f..%2f..%2fx"),
        (api, "GET https://api.example.com/v1/..%5cx"),
        (api, "GET https://api.example.com/v1/..%5Cx"),
        (api, "GET https://api.example.com/v1/..\\x"),
        (api, "GET https://api.example.com/v1/%252e%252e/x"),
        (api, "GET https://api.example.com/v1/..%252fx"),
        (api, "GET https://api.example.com/v1/%252e%252e%252fx"),
        (api, "GET https://api.example.com/v1/%25252e%25252e/x"),
        (api, "GET https://api.example.com/v1/%2525252525252e/x"),
        (api, "GET https://api.example.com/v1/%25%32%65%25%32%65/x"),
        (api, "GET https://api.example.com/v1/..;/x"),
        (api, "GET https://api.example.com/v1/..;a=b/x"),
        (api, "GET https://api.example.com/v1/%2e%2e;/x"),
        (api, "GET https://api.example.com/v1/..%3b/x"),
        (api, "GET https://api.example.com/v1/;/../../x"),
        (api, "GET https://api.example.com/v1/x#/../../"),
        (api, "GET https://api.example.com/%76%31/x"),
        (api, "GET https://api.example.com/v1%2fx"),
        (api, "GET https://api.example.com\\v1\\x"),
        (api, "GET https://api.example.com/v1\\x"),
        ("GET https://api.example.com/v1/x", "GET https://api.example.com/v1/x/"),
        ("GET https://api.example.com/v1/x", "GET https://api.example.com/v1/x/y"),
        ("GET https://api.example.com/v1/x", "GET https://api.example.com/v1/x;y"),
        ("GET https://api.example.com/v1/x", "GET https://api.example.com/v1/X"),
        ("GET https://api.example.com/v1/x", "GET https://api.example.com/v1/%78"),
        ("GET https://api.example.com/v1/x", "GET https://api.example.com/v1//x"),
        ("GET https://api.example.com/", "GET https://api.example.com/x"),
        ("GET https://api.example.com/", "GET https://api.example.com//"),
    ] {
        assert!(!allows(allow, request), "{allow} allows {request}");
    }
    let long = format!("https://api.example.com/v1/{}", "x".repeat(MAX_URL));
    assert_eq!(target("GET", &long), Err(Unfit::TooLong));
    let long = format!("https://api.example.com/v1/{}", "é".repeat(MAX_URL / 4));
    assert_eq!(target("GET", &long), Err(Unfit::TooLong), "as it is sent");
    // A path that is none, but would be read as another host.
    assert!(Target::of("GET", "https", "api.example.com", "x").is_err());
    assert!(
        Target::of("GET", "https", "api.example.com", "//evil.org/").is_ok_and(|t| !rule(api).allows(&t))
    );
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for allow in [
        "",
        "GET",
        "https://a.example/",
        "get https://a.example/",
        "G*T https://a.example/",
        "CONNECT https://a.example/*",
        "TRACE https://a.example/*",
        "GET a.example/",
        "GET ftp://a.example/",
        "GET https://a.example",
        "GET https://*/",
        "GET https://a.*/",
        "GET https://*.*/",
        "GET https://a*.example/",
        "GET https://*a.example/",
        "GET https://a.example./",
        "GET https://a..example/",
        "GET https://A.example/a/../b",
        "GET https://user@a.example/",
        "GET https://a.example/?q",
        "GET https://a.example/#f",
        "GET https://a.example/a*",
        "GET https://a.example/*/b",
        "GET https://a.example/*/*",
        "GET https://a.example/ x",
        "GET https://a.example:0/",
        "GET https://a.example:/",
        "GET https://a.example:0443/",
        "GET https://a.example:*/",
        "GET https://b\u{fc}cher.example/",
        "GET https://127.1/",
        "GET https://0x7f.0.0.1/",
        "GET https://*.0.0.1/",
        "GET https://[::0001]/",
        "GET https://[::1/",
        "GET https://a%2eb.example/",
        "GET https://a.example/\\x",
        "GET https://a.example/%2525252525252525252e",
    ] {
        let why = Rule::parse(allow, false).expect_err(allow);
        assert!(why.len() > 10, "{allow}: {why}");
    }
    assert!(Rule::parse("GET https://A.Example/x", false).is_ok(), "capitals in hosts are nothing odd");
}

#[test]
fn what_is_suggested_says_no_more_than_it_must() {
    let suggested = |method, url| target(method, url).unwrap().suggestion();
    assert_eq!(suggested("POST", "https://a.example/v1/x?token=secret"), "POST https://a.example/v1/x");
    assert_eq!(suggested("GET", "http://[::1]:81/a*b"), "GET http://[::1]:81/*");
    let shown = target("GET", "https://a.example/v1?token=secret").unwrap().to_string();
    assert_eq!(shown, "GET https://a.example/v1");
}

fn piece() -> impl Strategy<Value = String> {
    const KNOWN: [&str; 17] =
        ["..", ".", "%2e", "%2f", "%5c", "%25", ";", "a", "v1", "*", "?", "#", "@", ":", "[", "]", "%"];
    prop_oneof![proptest::sample::select(&KNOWN[..]).prop_map(str::to_owned), "[ -~]{0,3}"]
}

proptest! {
    /// Whatever is let out by a grant of a path lies below that path, however a server reads it.
    #[test]
    fn nothing_leaves_a_granted_path(pieces in prop::collection::vec(piece(), 0..10)) {
        let path = format!("/v1/{}", pieces.join("/"));
        if let Ok(target) = Target::of("GET", "https", "a.example", &path)
            && rule("GET https://a.example/v1/*").allows(&target)
        {
            prop_assert!(target.url().path().starts_with("/v1/"));
            prop_assert!(!target.url().path().split('/').any(|s| s == ".." || s == "."));
        }
    }

    /// A request goes to the host that its grant names, whatever stands in its authority.
    #[test]
    fn nothing_leaves_a_granted_host(authority in "[a-z.:@/\\\\?#%0-9\\[\\]*]{0,20}", path in "[ -~]{0,20}") {
        for text in [format!("a.example{authority}"), format!("{authority}a.example"), authority.clone()] {
            if let Ok(target) = Target::of("GET", "https", &text, &path)
                && rule("GET https://a.example/*").allows(&target)
            {
                prop_assert_eq!(target.url().host_str(), Some("a.example"));
                prop_assert_eq!(target.url().port_or_known_default(), Some(443));
                prop_assert!(target.url().username().is_empty() && target.url().password().is_none());
            }
        }
    }

    /// What is read once is read the same again, and what is suggested lets it out.
    #[test]
    fn one_form(method in "[A-Z]{1,8}", port in 1..u16::MAX, pieces in prop::collection::vec(piece(), 0..6)) {
        let path = format!("/{}", pieces.join("/"));
        if let Ok(target) = Target::of(&method, "http", &format!("a.example:{port}"), &path) {
            let url = target.url();
            let again = Target::of(
                &method,
                url.scheme(),
                &url[url::Position::BeforeHost..url::Position::AfterPort],
                &url[url::Position::BeforePath..url::Position::AfterQuery],
            );
            prop_assert_eq!(again.as_ref(), Ok(&target));
            let suggested = Rule::parse(&target.suggestion(), false);
            prop_assert!(suggested.as_ref().is_ok_and(|rule| rule.allows(&target)), "{target}: {suggested:?}");
        }
    }

    /// No text makes it break.
    #[test]
    fn any_pattern_is_read_or_refused(text in "\\PC{0,40}") {
        let _ = Rule::parse(&text, true);
        let _ = Rule::parse(&format!("GET https://{text}"), true);
        let _ = target("GET", &format!("https://{text}"));
    }

    /// Whatever is let out has the method, scheme, host, port and path of its grant, by a reading of its own.
    #[test]
    fn nothing_but_what_is_granted(
        allow in proptest::sample::select(&[
            "GET https://api.example.com/v1/*",
            "POST http://api.example.com:8080/v1/x",
            "* https://*.example.com/*",
            "GET http://127.0.0.1:8080/*",
            "PUT http://[::1]/v1/*",
        ][..]),
        method in proptest::sample::select(&["GET", "get", "POST", "PUT", "TRACE", "connect", "X-A"][..]),
        scheme in proptest::sample::select(&["https", "http", "HTTP", "ftp"][..]),
        host in proptest::sample::select(&["api.example.com", "API.example.com", "a.b.example.com", "example.com", "evil.org", "127.0.0.1", "127.1", "[::1]", "[::2]", "api.example.com."][..]),
        port in proptest::sample::select(&["", ":443", ":80", ":8080", ":0", ":", ":08080"][..]),
        pieces in prop::collection::vec(piece(), 0..4),
    ) {
        let path = format!("/v1/{}", pieces.join("/"));
        let Ok(target) = Target::of(method, scheme, &format!("{host}{port}"), &path) else { return Ok(()) };
        if rule(allow).allows(&target) {
            let (granted, pattern) = allow.split_once(' ').unwrap();
            prop_assert!(granted == "*" || granted == target.method());
            let sent = target.url().as_str();
            let (start, end) = pattern.split_once('*').unwrap_or((pattern, ""));
            if end.is_empty() && !start.ends_with("//") {
                prop_assert!(sent.starts_with(start), "{sent}");
                prop_assert!(pattern.ends_with('*') || sent.split('?').next() == Some(start), "{sent}");
            } else {
                let host = target.url().host_str().unwrap();
                prop_assert!(host.ends_with(".example.com") && host.split('.').count() == 3, "{sent}");
                prop_assert!(sent.starts_with("https://") && target.port() == 443, "{sent}");
            }
        }
    }
}
