//! The caller's trace goes on in the host's spans (MCP 2026-07-28, basic, `_meta`; W3C Trace Context).

use rmcp::model::RequestMetaObject;
use tracing::Span;

/// Longest `tracestate` and `baggage` that are kept: what W3C asks every party to carry.
const CARRIED: usize = 8192;

/// The span of one request, a child of the caller's; none where the request names no trace, what it names is
/// malformed, or nothing would be written.
pub(super) fn span(meta: &RequestMetaObject, method: &'static str) -> Option<Span> {
    let parent = Parent::read(meta.0.get("traceparent")?.as_str()?)?;
    if !tracing::enabled!(tracing::Level::ERROR) {
        return None;
    }
    let mut id = [0; 8];
    getrandom::fill(&mut id).ok()?;
    let id = format!("{:016x}", u64::from_be_bytes(id).max(1));
    let span = tracing::error_span!(
        "request", method, trace_id = %parent.trace, parent_id = %parent.span, span_id = %id, sampled = parent.sampled
    );
    let carried = |name: &str| {
        let text = meta.0.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
        &text[..text.floor_char_boundary(CARRIED)]
    };
    span.in_scope(|| {
        tracing::debug!(
            tracestate = carried("tracestate"),
            baggage = carried("baggage"),
            "the caller's trace goes on"
        );
    });
    Some(span)
}

/// What a `traceparent` says.
#[derive(Debug, PartialEq)]
struct Parent<'t> {
    trace: &'t str,
    span: &'t str,
    sampled: bool,
}

impl<'t> Parent<'t> {
    /// `VERSION-TRACE-SPAN-FLAGS` in lower-case hexadecimal digits. Later versions may have more after it.
    fn read(text: &'t str) -> Option<Self> {
        let mut parts = text.splitn(5, '-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let hex = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        let nothing = |part: &str| part.bytes().all(|b| b == b'0');
        let whole = hex(version, 2) && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
        let more = parts.next().is_some();
        if !whole || version == "ff" || (version == "00" && more) || nothing(trace) || nothing(span) {
            return None;
        }
        let sampled = u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1);
        Some(Self { trace, span, sampled })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_w3c_calls_a_parent_is_one() {
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let good = format!("00-{trace}-{span}-01");
        assert_eq!(Parent::read(&good), Some(Parent { trace, span, sampled: true }));
        assert!(Parent::read(&format!("00-{trace}-{span}-00")).is_some_and(|p| !p.sampled));
        assert!(Parent::read(&format!("cc-{trace}-{span}-01-what")).is_some(), "a later version");
        for bad in [
            String::new(),
            format!("00-{trace}-{span}"),
            format!("00-{trace}-{span}-01-more"),
            format!("ff-{trace}-{span}-01"),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{}-{span}-01", "0".repeat(32)),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{}-{span}-01", &trace[1..]),
            format!("00-{trace}-{span}-1é"),
        ] {
            assert_eq!(Parent::read(&bad), None, "{bad}");
        }
    }
}
