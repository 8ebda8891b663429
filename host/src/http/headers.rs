//! Request metadata in headers (MCP 2026-07-28, streamable HTTP, server validation): what a header
//! mirrors must equal what the body says, or the request is refused with `-32020`.

use std::borrow::Cow;

use axum::http::HeaderMap;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Map, Value};

use crate::base::Fault;

/// Why a header does not fit.
fn mismatch(message: String) -> Fault {
    Fault::new(Fault::HEADER_MISMATCH, "header_mismatch", message)
}

/// The one value of `name`, trimmed; more than one value does not count as any.
fn one<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, Fault> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch(format!("The header {name} is there more than once. Send it once.")));
    }
    match value.to_str() {
        Ok(text) => Ok(Some(text.trim_matches([' ', '\t']))),
        Err(_) => Err(mismatch(format!(
            "The header {name} has characters that a header cannot have; use =?base64?…?=."
        ))),
    }
}

/// The text that a header value stands for: itself, or the UTF-8 in `=?base64?…?=`.
fn decoded<'v>(name: &str, value: &'v str) -> Result<Cow<'v, str>, Fault> {
    let Some(inner) = value.strip_prefix("=?base64?").and_then(|v| v.strip_suffix("?=")) else {
        return Ok(Cow::Borrowed(value));
    };
    let bytes = BASE64_STANDARD
        .decode(inner)
        .map_err(|_| mismatch(format!("The header {name} is not valid base64 between =?base64? and ?=.")))?;
    String::from_utf8(bytes)
        .map(Cow::Owned)
        .map_err(|_| mismatch(format!("The header {name} does not hold UTF-8.")))
}

/// The `Idempotency-Key` header. One that cannot be read must not pass as none: the call would run twice.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Fault> {
    let key = one(headers, "idempotency-key")
        .map_err(|fault| Fault::invalid("idempotency_key_invalid", fault.message))?;
    Ok(key.map(str::to_owned))
}

/// `MCP-Protocol-Version` and `Mcp-Method` against the body.
pub(super) fn check_standard(headers: &HeaderMap, version: &str, method: &str) -> Result<(), Fault> {
    for (name, body) in [("mcp-protocol-version", version), ("mcp-method", method)] {
        match one(headers, name)? {
            Some(value) if value == body => {}
            Some(value) => {
                return Err(mismatch(format!("The header {name} says {value:?}, the body says {body:?}.")));
            }
            None => return Err(mismatch(format!("The header {name} is missing. Set it to {body:?}."))),
        }
    }
    Ok(())
}

/// `Mcp-Name` against `params.name`, `params.uri` or `params.taskId`. Tasks' methods may lack it:
/// the extension lays it on clients, and a client that forgets it harms only itself.
pub(super) fn check_name(headers: &HeaderMap, body: &str, required: bool) -> Result<(), Fault> {
    match one(headers, "mcp-name")? {
        Some(value) if decoded("mcp-name", value)? == body => Ok(()),
        Some(value) => Err(mismatch(format!("The header mcp-name says {value:?}, the body says {body:?}."))),
        None if required => Err(mismatch(format!("The header mcp-name is missing. Set it to {body:?}."))),
        None => Ok(()),
    }
}

/// `Mcp-Param-*` of a tool's `x-mcp-header` annotations against the arguments.
pub(super) fn check_params(
    headers: &HeaderMap,
    annotations: &[(String, Vec<String>)],
    arguments: Option<&Map<String, Value>>,
) -> Result<(), Fault> {
    for (name, path) in annotations {
        let header = format!("mcp-param-{}", name.to_ascii_lowercase());
        let mut at = path.iter();
        let first = at.next().and_then(|key| arguments?.get(key));
        let body = at.fold(first, |value, key| value?.get(key)).filter(|value| !value.is_null());
        match (one(headers, &header)?, body) {
            (None, None) => {}
            (Some(value), Some(body)) if same(&decoded(&header, value)?, body) => {}
            (Some(_), Some(_)) => {
                return Err(mismatch(format!(
                    "The header {header} and the argument {} differ.",
                    path.join(".")
                )));
            }
            (None, Some(_)) => {
                return Err(mismatch(format!(
                    "The header {header} is missing, and the argument {} is there. Read tools/list again: clients \
                     mirror it.",
                    path.join(".")
                )));
            }
            (Some(_), None) => {
                return Err(mismatch(format!(
                    "The header {header} is there, and the argument {} is not.",
                    path.join(".")
                )));
            }
        }
    }
    Ok(())
}

/// The largest whole number that is exact as a double; annotated integers are within it.
const SAFE: f64 = 9_007_199_254_740_991.0;

/// A header's text against a primitive; integers by value (`42.0` is 42).
fn same(header: &str, body: &Value) -> bool {
    match body {
        Value::String(text) => header == text,
        Value::Bool(flag) => header == if *flag { "true" } else { "false" },
        Value::Number(number) => {
            header == number.to_string()
                || matches!((header.parse::<f64>(), number.as_f64()), (Ok(a), Some(b)) if a.abs() <= SAFE && a == b)
        }
        // Only primitives can be annotated; a value of another type fails the schema, not here.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use serde_json::json;

    use super::*;

    fn with(name: &'static str, value: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        headers
    }

    #[test]
    fn names_are_decoded_before_they_are_compared() {
        assert!(check_name(&with("mcp-name", "  echo "), "echo", true).is_ok());
        assert!(check_name(&with("mcp-name", "=?base64?SGVsbG8=?="), "Hello", true).is_ok());
        assert!(check_name(&with("mcp-name", "=?base64?SGVsbG8?="), "Hello", true).is_err());
        assert!(check_name(&with("mcp-name", "other"), "echo", false).is_err());
        assert!(check_name(&HeaderMap::new(), "echo", false).is_ok());
        assert!(check_name(&HeaderMap::new(), "echo", true).is_err());
    }

    #[test]
    fn parameters_in_headers_equal_the_arguments() {
        let annotations = vec![("Value".to_owned(), vec!["a".to_owned(), "b".to_owned()])];
        let check = |headers: &HeaderMap, value: Value| {
            let arguments = json!({"a": {"b": value}});
            check_params(headers, &annotations, arguments.as_object()).is_ok()
        };
        assert!(check(&with("mcp-param-value", "x"), json!("x")));
        assert!(check(&with("mcp-param-value", "42.0"), json!(42)));
        assert!(check(&with("mcp-param-value", "true"), json!(true)));
        assert!(check(&HeaderMap::new(), Value::Null));
        assert!(check(&with("mcp-param-value", "=?base64?eA=="), json!("=?base64?eA==")));
        assert!(check(&with("mcp-param-value", "9007199254740993"), json!(9_007_199_254_740_993_u64)));
        assert!(!check(&with("mcp-param-value", "9007199254740992"), json!(9_007_199_254_740_993_u64)));
        assert!(!check(&with("mcp-param-value", "True"), json!(true)), "values have their case");
        assert!(!check(&with("mcp-param-value", "=?BASE64?eA==?="), json!("x")), "and so has the sentinel");
        assert!(!check(&with("mcp-param-value", "y"), json!("x")));
        assert!(!check(&with("mcp-param-value", "x"), Value::Null));
        assert!(!check(&HeaderMap::new(), json!("x")));
        assert!(!check(&with("mcp-param-value", "=?base64?SGVs!!!bG8=?="), json!("Hello")));
    }
}
