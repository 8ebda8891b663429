//! What every answer tells a browser. Nothing here is a page, so a browser that comes to show or embed an answer, by a link
//! or by another site's doing, gets nothing out of it.
//!
//! No `Strict-Transport-Security`, with TLS either: it counts for a host *name*, for all its ports and long after this
//! process has gone, and so would take plain HTTP from whatever else runs at `localhost` or beside us. Whoever owns the
//! whole name says it in the proxy that serves it.

use axum::{
    body::Body,
    http::{HeaderName, HeaderValue, Response, header},
};

/// Set whatever else an answer has.
const ALWAYS: [(HeaderName, HeaderValue); 4] = [
    // JSON with somebody's text in it is not to be taken for a page.
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    // For loads that no `Origin` goes with, as of a picture or a script. Origins of `serve.allowed-origins` ask by
    // `fetch`, which this does not touch.
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// What holds where an answer does not say for itself how long it may be kept.
const UNSAID: HeaderValue = HeaderValue::from_static("no-store");

/// Adds to `response` what a browser is told.
pub(super) fn guarded(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.reserve(ALWAYS.len() + 1);
    for (name, value) in ALWAYS {
        headers.insert(name, value);
    }
    headers.entry(header::CACHE_CONTROL).or_insert(UNSAID);
    response
}
