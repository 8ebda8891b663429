//! A form's schema as fields, and what a person typed as values. Pure.
//!
//! The subset is MCP's `requestedSchema` (2026-07-28, client/elicitation): a flat object of strings,
//! numbers, booleans, and single or multiple choices. The server checks answers again.

use serde_json::{Map, Value};

use crate::{base::neutral_line, config::nearest};

/// One choice of a list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    /// What is sent.
    pub(crate) value: Value,
    /// What is shown.
    pub(crate) title: String,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Text, with bounds on its length in characters.
    Text { min: Option<u64>, max: Option<u64>, format: Option<String> },
    /// A number with inclusive bounds.
    Number { integer: bool, min: Option<f64>, max: Option<f64> },
    /// Yes or no.
    Boolean,
    /// One of some values.
    One(Vec<Choice>),
    /// Any of some values, with bounds on how many.
    Many { choices: Vec<Choice>, min: Option<u64>, max: Option<u64> },
}

/// One field of a form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    /// Property name.
    pub(crate) name: String,
    /// Title, else the name.
    pub(crate) title: String,
    /// More for the person.
    pub(crate) description: Option<String>,
    /// Must be given.
    pub(crate) required: bool,
    /// Filled in before the person types.
    pub(crate) default: Option<Value>,
    /// What it holds.
    pub(crate) kind: Kind,
}

/// The fields of a `requestedSchema`, in its order.
///
/// # Errors
/// A field that no prompt can ask for; the text names it.
pub(crate) fn fields(schema: &Value) -> Result<Vec<Field>, String> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return Ok(Vec::new());
    };
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    properties
        .iter()
        .map(|(name, schema)| {
            let kind = kind(schema).ok_or_else(|| {
                format!("the field {:?} has a type that a terminal cannot ask for", neutral_line(name))
            })?;
            let text = |key: &str| schema.get(key).and_then(Value::as_str).map(str::to_owned);
            Ok(Field {
                name: name.clone(),
                title: text("title").unwrap_or_else(|| name.clone()),
                description: text("description"),
                required: required.contains(&name.as_str()),
                default: schema.get("default").cloned(),
                kind,
            })
        })
        .collect()
}

fn kind(schema: &Value) -> Option<Kind> {
    let number = |key: &str| schema.get(key).and_then(Value::as_f64);
    let count = |key: &str| schema.get(key).and_then(Value::as_u64);
    match schema.get("type").and_then(Value::as_str) {
        Some("array") => {
            let choices = choices(schema.get("items")?)?;
            Some(Kind::Many { choices, min: count("minItems"), max: count("maxItems") })
        }
        Some("string") | None if choices(schema).is_some() => choices(schema).map(Kind::One),
        Some("string") => Some(Kind::Text {
            min: count("minLength"),
            max: count("maxLength"),
            format: schema.get("format").and_then(Value::as_str).map(str::to_owned),
        }),
        Some(kind @ ("number" | "integer")) => {
            Some(Kind::Number { integer: kind == "integer", min: number("minimum"), max: number("maximum") })
        }
        Some("boolean") => Some(Kind::Boolean),
        _ => None,
    }
}

/// The three ways to write choices: `enum`, `enum` with `enumNames`, and `oneOf`/`anyOf` of constants.
fn choices(schema: &Value) -> Option<Vec<Choice>> {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let names = schema.get("enumNames").and_then(Value::as_array);
        let title = |i: usize, value: &Value| {
            names.and_then(|n| n.get(i)).and_then(Value::as_str).map_or_else(|| shown(value), str::to_owned)
        };
        return Some(
            values.iter().enumerate().map(|(i, v)| Choice { value: v.clone(), title: title(i, v) }).collect(),
        );
    }
    let list = schema.get("oneOf").or_else(|| schema.get("anyOf"))?.as_array()?;
    list.iter()
        .map(|item| {
            let value = item.get("const")?.clone();
            let title =
                item.get("title").and_then(Value::as_str).map_or_else(|| shown(&value), str::to_owned);
            Some(Choice { value, title })
        })
        .collect()
}

impl Field {
    /// What was typed, as a value; `None` where an optional field was left empty.
    ///
    /// # Errors
    /// Why it does not fit, for the person to try again.
    pub(crate) fn parse(&self, typed: &str) -> Result<Option<Value>, String> {
        let text = typed.trim();
        if text.is_empty() {
            return if self.required { Err("a value is required".into()) } else { Ok(None) };
        }
        let value = match &self.kind {
            // What a person typed is kept as it is, spaces included.
            Kind::Text { .. } => Value::from(typed),
            Kind::Number { integer: true, .. } => Value::from(integer(text)?),
            Kind::Number { integer: false, .. } => match text.parse::<i64>() {
                Ok(whole) => Value::from(whole),
                Err(_) => decimal(text)?,
            },
            Kind::Boolean => match text.to_ascii_lowercase().as_str() {
                "y" | "yes" | "true" => Value::Bool(true),
                "n" | "no" | "false" => Value::Bool(false),
                _ => return Err("write yes or no".into()),
            },
            Kind::One(choices) => one(choices, text)?,
            Kind::Many { choices, .. } => {
                let parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
                Value::Array(parts.map(|p| one(choices, p)).collect::<Result<_, _>>()?)
            }
        };
        self.check(&value)?;
        Ok(Some(value))
    }

    /// Whether `value` fits the field.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        match (&self.kind, value) {
            (Kind::Text { min, max, format }, Value::String(text)) => {
                let length = text.chars().count() as u64;
                within(length, *min, *max, "characters")?;
                format.as_deref().map_or(Ok(()), |format| check_format(format, text))
            }
            (Kind::Number { integer, min, max }, Value::Number(number)) => {
                let wrong = *integer && !(number.is_i64() || number.is_u64());
                if wrong {
                    return Err("a whole number is needed".into());
                }
                check_range(number.as_f64().unwrap_or(f64::NAN), *min, *max)
            }
            (Kind::Boolean, Value::Bool(_)) => Ok(()),
            (Kind::One(choices), value) => {
                let known = choices.iter().any(|c| c.value == *value);
                if known { Ok(()) } else { Err("that is none of the choices".into()) }
            }
            (Kind::Many { choices, min, max }, Value::Array(values)) => {
                if values.iter().any(|v| !choices.iter().any(|c| c.value == *v)) {
                    return Err("one of these is none of the choices".into());
                }
                within(values.len() as u64, *min, *max, "choices")
            }
            _ => Err(format!("{} is needed", self.kind.what())),
        }
    }

    /// The default, where it fits the field.
    pub(crate) fn usable_default(&self) -> Option<&Value> {
        self.default.as_ref().filter(|value| self.check(value).is_ok())
    }
}

impl Kind {
    const fn what(&self) -> &'static str {
        match self {
            Self::Text { .. } => "text",
            Self::Number { integer: true, .. } => "a whole number",
            Self::Number { integer: false, .. } => "a number",
            Self::Boolean => "true or false",
            Self::One(_) => "one of the choices",
            Self::Many { .. } => "a list of choices",
        }
    }

    /// What a person may write, for the prompt; empty where anything goes.
    pub(crate) fn hint(&self) -> String {
        let range = |min: Option<String>, max: Option<String>| match (min, max) {
            (Some(a), Some(b)) => format!(", {a} to {b}"),
            (Some(a), None) => format!(", at least {a}"),
            (None, Some(b)) => format!(", at most {b}"),
            (None, None) => String::new(),
        };
        match self {
            Self::Text { format: Some(format), .. } => neutral_line(format),
            Self::Number { min, max, .. } => {
                let range = range(min.map(|v| v.to_string()), max.map(|v| v.to_string()));
                format!("{}{range}", self.what().trim_start_matches("a "))
            }
            _ => String::new(),
        }
    }
}

fn integer(text: &str) -> Result<serde_json::Number, String> {
    let signed = text.parse::<i64>().map(serde_json::Number::from);
    signed
        .or_else(|_| text.parse::<u64>().map(serde_json::Number::from))
        .map_err(|_| "a whole number is needed".into())
}

fn decimal(text: &str) -> Result<Value, String> {
    let number = text.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
    number.map(Value::Number).ok_or_else(|| "a number is needed".into())
}

fn one(choices: &[Choice], text: &str) -> Result<Value, String> {
    let by_value = choices.iter().find(|c| c.value.as_str() == Some(text));
    let found = by_value.or_else(|| choices.iter().find(|c| c.title.eq_ignore_ascii_case(text)));
    found.map(|c| c.value.clone()).ok_or_else(|| format!("{:?} is none of the choices", neutral_line(text)))
}

fn within(n: u64, min: Option<u64>, max: Option<u64>, what: &str) -> Result<(), String> {
    match (min, max) {
        (Some(min), _) if n < min => Err(format!("at least {min} {what} are needed")),
        (_, Some(max)) if n > max => Err(format!("at most {max} {what} are allowed")),
        _ => Ok(()),
    }
}

fn check_range(value: f64, min: Option<f64>, max: Option<f64>) -> Result<(), String> {
    match (min, max) {
        _ if !value.is_finite() => Err("a finite number is needed".into()),
        (Some(min), _) if value < min => Err(format!("at least {min} is needed")),
        (_, Some(max)) if value > max => Err(format!("at most {max} is allowed")),
        _ => Ok(()),
    }
}

/// The four formats of MCP, as far as a hint to the person needs; the server decides.
fn check_format(format: &str, text: &str) -> Result<(), String> {
    let (fits, needed) = match format {
        "email" => {
            (text.split_once('@').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty()), "an e-mail address")
        }
        "uri" => (reqwest::Url::parse(text).is_ok(), "a full URL, such as https://example.com/"),
        "date" => {
            (humantime::parse_rfc3339_weak(&format!("{text} 00:00:00")).is_ok(), "a date such as 2026-07-28")
        }
        "date-time" => (
            humantime::parse_rfc3339_weak(text.trim_end_matches('Z')).is_ok() || has_offset(text),
            "a time such as 2026-07-28T12:00:00Z",
        ),
        _ => return Ok(()),
    };
    if fits { Ok(()) } else { Err(format!("{needed} is needed")) }
}

/// `…T12:00:00+02:00`
fn has_offset(text: &str) -> bool {
    let Some(at) = text.len().checked_sub(6) else { return false };
    let (Some(time), Some(offset)) = (text.get(..at), text.get(at..)) else { return false };
    let shape = offset.bytes().enumerate().all(|(i, b)| match i {
        0 => b == b'+' || b == b'-',
        3 => b == b':',
        _ => b.is_ascii_digit(),
    });
    shape && humantime::parse_rfc3339_weak(time).is_ok()
}

/// Checks a whole answer given as JSON.
///
/// # Errors
/// A field that the form does not have, or the first that does not fit, and why.
pub(crate) fn check_content(fields: &[Field], content: &Map<String, Value>) -> Result<(), String> {
    let known = || fields.iter().map(|field| field.name.as_str());
    // A schema without fields says nothing of them.
    if let Some(odd) = content.keys().find(|name| !fields.is_empty() && known().all(|k| k != name.as_str())) {
        let near = nearest(odd, known()).unwrap_or_default();
        let (odd, near) = (neutral_line(odd), neutral_line(near));
        return Err(format!("the form has no field {odd:?}; the nearest is {near:?}"));
    }
    for field in fields {
        match content.get(&field.name) {
            Some(value) => field.check(value).map_err(|e| format!("{}: {e}", neutral_line(&field.name)))?,
            None if field.required => {
                return Err(format!("{}: a value is required", neutral_line(&field.name)));
            }
            None => {}
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;
