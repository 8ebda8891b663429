//! Checks a plugin's questions, and turns them into MCP's requests (2026-07-28: client/elicitation,
//! client/sampling, client/roots). A question that no client could show is refused before anybody sees it.

use serde_json::{Map, Value, json};

use super::{
    Asked, HOSTS_OWN,
    wit_call::{InputRequest, Question},
};
use crate::{config::Limits, store::QuestionKind};

/// The reason where a call puts no question or too many.
pub(super) const MALFORMED_AT_ONCE: &str = "one call puts 1 to 16 requests";
const _: () = assert!(Limits::QUESTIONS_AT_ONCE == 16, "the text says so");

/// Bytes of a key: it is a member's name in the client's answer.
const KEY: usize = 128;

/// The question as it goes to the caller.
///
/// # Errors
/// What is wrong with it, for the plugin's author.
pub(super) fn check(request: InputRequest) -> Result<Asked, String> {
    let InputRequest { key, question } = request;
    check_key(&key)?;
    let (kind, request) = match question {
        Question::Form(form) => {
            let schema = parse(&form.schema).map_err(|e| format!("`schema`: {e}"))?;
            check_message(&form.message)?;
            check_form(&schema).map_err(|e| format!("`schema`: {e}"))?;
            let params = json!({"mode": "form", "message": form.message, "requestedSchema": schema});
            (QuestionKind::Form, json!({"method": "elicitation/create", "params": params}))
        }
        Question::Url(url) => {
            check_message(&url.message)?;
            check_url(&url.url)?;
            let params = json!({"mode": "url", "message": url.message, "url": url.url});
            (QuestionKind::Url, json!({"method": "elicitation/create", "params": params}))
        }
        Question::Sampling(params) => {
            let params = parse(&params)?;
            check_sampling(&params)?;
            (QuestionKind::Sampling, json!({"method": "sampling/createMessage", "params": params}))
        }
        Question::Roots => (QuestionKind::Roots, json!({"method": "roots/list"})),
    };
    let size = request.to_string().len();
    if size > Limits::QUESTION_SIZE.as_usize() {
        return Err(format!("it is {size} bytes as JSON; a request may be {}", Limits::QUESTION_SIZE));
    }
    Ok(Asked { key, kind, request })
}

fn parse(text: &str) -> Result<Map<String, Value>, String> {
    // Parsing costs several times the text: look at the length first.
    if text.len() > Limits::QUESTION_SIZE.as_usize() {
        return Err(format!("it is {} bytes; a request may be {}", text.len(), Limits::QUESTION_SIZE));
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err("it is not a JSON object".into()),
        Err(e) => Err(format!("it is not JSON: {e}")),
    }
}

fn check_key(key: &str) -> Result<(), String> {
    if key.is_empty() || key.len() > KEY {
        return Err(format!("`key` has {} bytes; it needs 1 to {KEY}", key.len()));
    }
    if let Some(c) = key.chars().find(|c| !c.is_ascii_alphanumeric() && !"_-./".contains(*c)) {
        return Err(format!("`key` has {c:?}; it may have A-Z a-z 0-9 _ - . /"));
    }
    if key.starts_with(HOSTS_OWN) {
        return Err(format!("`key` begins with {HOSTS_OWN:?}, which is the host's own"));
    }
    Ok(())
}

fn check_message(message: &str) -> Result<(), String> {
    if message.trim().is_empty() {
        return Err("`message` is empty: say why the caller is asked".into());
    }
    Ok(())
}

fn check_url(text: &str) -> Result<(), String> {
    let url = reqwest::Url::parse(text).map_err(|e| format!("`url` is not a URL: {e}"))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err("`url` must be an http or https URL with a host".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("`url` may not carry a user name or password".into());
    }
    // Browsers forgive these, and other readers see another host: `https://good\@evil/`.
    let authority =
        text.split_once("://").map(|(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    if text.contains('\\') || authority.is_none_or(|a| a.is_empty() || a.contains(['@', '%'])) {
        return Err("`url` can be read as two addresses: write it as https://host/path".into());
    }
    // Parsing forgives spaces, tabs and line ends; whoever shows the text would not.
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("`url` has white space or control characters".into());
    }
    Ok(())
}

fn check_sampling(params: &Map<String, Value>) -> Result<(), String> {
    if params.get("messages").and_then(Value::as_array).is_none_or(Vec::is_empty) {
        return Err("sampling needs `messages`, an array with at least one".into());
    }
    if params.get("maxTokens").and_then(Value::as_u64).is_none_or(|n| n == 0) {
        return Err("sampling needs `maxTokens`, a positive integer".into());
    }
    if params.contains_key("_meta") {
        return Err("`_meta` is the host's".into());
    }
    Ok(())
}

/// Keywords of a form's schema as a whole; MCP has the first four, the others only describe or close it.
const FORM: &[&str] =
    &["$schema", "type", "properties", "required", "title", "description", "additionalProperties"];
const TEXT: &[&str] = &[
    "type",
    "title",
    "description",
    "default",
    "minLength",
    "maxLength",
    "format",
    "enum",
    "enumNames",
    "oneOf",
];
const NUMBER: &[&str] = &["type", "title", "description", "default", "minimum", "maximum"];
const FLAG: &[&str] = &["type", "title", "description", "default"];
const SEVERAL: &[&str] = &["type", "title", "description", "default", "minItems", "maxItems", "items"];
const FORMATS: &[&str] = &["email", "uri", "date", "date-time"];

fn known(map: &Map<String, Value>, allowed: &[&str]) -> Result<(), String> {
    match map.keys().find(|k| !allowed.contains(&k.as_str())) {
        Some(k) => Err(format!("MCP's forms have no keyword {k:?} here; they have {}", allowed.join(", "))),
        None => Ok(()),
    }
}

fn check_form(schema: &Map<String, Value>) -> Result<(), String> {
    known(schema, FORM)?;
    if schema.get("type") != Some(&json!("object")) {
        return Err("its `type` must be \"object\"".into());
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Err("it needs `properties`, an object".into());
    };
    for (name, property) in properties {
        check_property(property).map_err(|e| format!("property {name:?}: {e}"))?;
    }
    if let Some(required) = schema.get("required") {
        let names = required.as_array().ok_or("`required` must be an array")?;
        for name in names {
            let name = name.as_str().ok_or("`required` must hold names")?;
            if !properties.contains_key(name) {
                return Err(format!("`required` names {name:?}, which is no property"));
            }
        }
    }
    jsonschema::draft202012::new(&Value::Object(schema.clone())).map_err(|e| e.to_string())?;
    Ok(())
}

fn check_property(property: &Value) -> Result<(), String> {
    let map = property.as_object().ok_or("it must be an object")?;
    match map.get("type").and_then(Value::as_str) {
        Some("string") => {
            known(map, TEXT)?;
            if let Some(format) = map.get("format")
                && !format.as_str().is_some_and(|f| FORMATS.contains(&f))
            {
                return Err(format!("`format` may be {}", FORMATS.join(", ")));
            }
            choices(map, "enum", "oneOf", false)
        }
        Some("number" | "integer") => known(map, NUMBER),
        Some("boolean") => known(map, FLAG),
        Some("array") => {
            known(map, SEVERAL)?;
            let items = map.get("items").and_then(Value::as_object).ok_or("`items` must be an object")?;
            known(items, &["type", "enum", "anyOf"])?;
            choices(items, "enum", "anyOf", true)
        }
        _ => Err("its `type` must be string, number, integer, boolean, or array (of choices)".into()),
    }
}

/// The values to choose from: plain ones, or ones with titles.
fn choices(map: &Map<String, Value>, plain: &str, titled: &str, needed: bool) -> Result<(), String> {
    if let Some(values) = map.get(plain) {
        let values = values.as_array().filter(|v| !v.is_empty() && v.iter().all(Value::is_string));
        return values.map(drop).ok_or_else(|| format!("`{plain}` must be an array of strings"));
    }
    if let Some(values) = map.get(titled) {
        let whole = |v: &Value| {
            v.as_object().is_some_and(|o| {
                o.get("const").is_some_and(Value::is_string)
                    && o.get("title").is_some_and(Value::is_string)
                    && o.len() == 2
            })
        };
        let values = values.as_array().filter(|v| !v.is_empty() && v.iter().all(whole));
        return values.map(drop).ok_or_else(|| format!("`{titled}` must be an array of {{const, title}}"));
    }
    if needed { Err(format!("`items` needs `{plain}` or `{titled}`")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::capabilities::wit_call::{FormQuestion, UrlQuestion};

    fn form(schema: &Value) -> Result<Asked, String> {
        ask("name", Question::Form(FormQuestion { message: "Who?".into(), schema: schema.to_string() }))
    }

    fn ask(key: &str, question: Question) -> Result<Asked, String> {
        check(InputRequest { key: key.into(), question })
    }

    fn url(url: &str) -> Result<Asked, String> {
        ask("k", Question::Url(UrlQuestion { message: "Go".into(), url: url.into() }))
    }

    #[test]
    fn every_shape_that_mcp_names_is_a_form() {
        let schema = json!({"type": "object", "required": ["a"], "properties": {
            "a": {"type": "string", "minLength": 1, "format": "email", "default": "x@y.z"},
            "b": {"type": "integer", "minimum": 1, "maximum": 3},
            "c": {"type": "boolean", "default": false},
            "d": {"type": "string", "enum": ["r", "g"]},
            "e": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}]},
            "f": {"type": "array", "minItems": 1, "items": {"type": "string", "enum": ["r"]}},
            "g": {"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}]}},
        }});
        let asked = form(&schema).unwrap();
        assert_eq!(asked.kind, QuestionKind::Form);
        let params = json!({"mode": "form", "message": "Who?", "requestedSchema": schema});
        assert_eq!(asked.request, json!({"method": "elicitation/create", "params": params}));
    }

    #[test]
    fn a_form_that_no_client_can_show_is_refused() {
        for (schema, reason) in [
            (json!([]), "not a JSON object"),
            (json!({"type": "array"}), "\"object\""),
            (json!({"type": "object"}), "properties"),
            (json!({"type": "object", "properties": {"a": {"type": "object"}}}), "property \"a\""),
            (json!({"type": "object", "properties": {"a": {"$ref": "http://x"}}}), "property \"a\""),
            (
                json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "(a+)+"}}}),
                "pattern",
            ),
            (json!({"type": "object", "properties": {"a": {"type": "string", "minLength": "x"}}}), "schema"),
            (json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}), "needs"),
            (json!({"type": "object", "properties": {}, "required": ["z"]}), "no property"),
            (json!({"type": "object", "properties": {}, "allOf": []}), "allOf"),
        ] {
            let refused = form(&schema).unwrap_err();
            assert!(refused.contains(reason), "{schema}: {refused}");
        }
        let long = json!({"type": "object", "properties": {}, "title": "x".repeat(70_000)});
        assert!(form(&long).unwrap_err().contains("64KiB"));
    }

    #[test]
    fn keys_and_urls() {
        assert!(ask("user_name", Question::Roots).is_ok());
        for key in ["", "layby/x", "a b", "ü", &"k".repeat(129)] {
            assert!(ask(key, Question::Roots).is_err(), "{key}");
        }
        assert!(url("https://example.com/a?b#c").is_ok());
        for bad in [
            "",
            "example.com",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://u:p@x/",
            "https://x/a b",
            "https://x/\n",
            "https://@x/",
            "https:@x/",
            "https:x/",
            "https:/x/",
            "https:///x/",
            r"https:\\x/",
            r"https://good.example\@evil.example/",
            r"https://good.example\.evil.example/",
            "https://good%2eexample/",
            "https://good.example%2f@evil.example/",
        ] {
            assert!(url(bad).is_err(), "{bad:?}");
        }
        assert!(ask("k", Question::Sampling(r#"{"messages":[{}],"maxTokens":5}"#.into())).is_ok());
        assert!(ask("k", Question::Sampling("{}".into())).is_err());
    }
}
