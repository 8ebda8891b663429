//! Any grant and any request by HTTP: what is let out is what the grant says, is read the same again, and has a line that allows it.
//!
//! Input: five lines, of the grant, and the request's method, scheme, authority and path; what is missing is taken from a request
//! that is granted.
#![no_main]

use layby_fuzz::capabilities::{Asked, judge};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.splitn(5, '\n');
    let mut next = |usual| lines.next().filter(|line| !line.is_empty()).unwrap_or(usual);
    let allow = next("GET https://api.example.com/v1/*");
    let (method, scheme) = (next("GET"), next("https"));
    let (authority, path) = (next("api.example.com"), next("/v1/x"));
    judge(allow, Asked { method, scheme, authority, path });
});
