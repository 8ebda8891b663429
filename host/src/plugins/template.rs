//! RFC 6570 URI templates read backwards: which URIs fit one. A template becomes one regular expression,
//! which the engine matches in linear time, whatever a caller sends.

use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder, escape};

use crate::config::CatalogConfig;

/// Largest compiled template, in bytes; a prefix such as `{a:9999}` asks for more. Room for all expressions that one
/// may have, and little enough for the quick way of matching: from about twice that the slow one takes 100 times
/// as long, on a thread that answers requests.
const COMPILED: usize = 64 << 10;
/// Memory that matching may cache per template, in bytes.
const CACHED: usize = 64 << 10;
/// The longest prefix that RFC 6570 has.
const PREFIX: u32 = 9999;
/// One character of a simple value: it ends where a path segment, the path or the query does.
const SIMPLE: &str = "(?:%[0-9A-Fa-f]{2}|[^/?#%])";
/// One character of a reserved value: any.
const RESERVED: &str = "(?:%[0-9A-Fa-f]{2}|[^%])";

/// A URI template of RFC 6570 (all four levels), compiled to tell which URIs fit it:
///
/// - `{a}` is at least one character, and none of `/ ? #`; `{+a}` is any at least one;
/// - `{/a}` is at most one segment, `{/a*}` any number; `{.a}` and `{;a}` likewise;
/// - `{?a,b}` and `{&a,b}` are any of the names, in any order, or nothing; `{?a*}` any names;
/// - `{#a}` is any fragment, or none; `{a:3}` is at most three characters, escapes counted as one.
#[derive(Debug)]
pub struct UriTemplate {
    /// What stands before the first expression: most URIs of other templates end here.
    start: String,
    pattern: Regex,
}

impl UriTemplate {
    /// Reads and compiles `text`.
    ///
    /// # Errors
    /// What is wrong with it, and where (bytes from 0).
    pub fn parse(text: &str) -> Result<Self, String> {
        let most = CatalogConfig::URI_TEMPLATE;
        if text.is_empty() {
            return Err("it is empty".to_owned());
        }
        if text.len() > most {
            return Err(format!("it has {} bytes, more than {most}", text.len()));
        }
        let mut pattern = String::from(r"\A");
        let mut expressions = 0;
        let mut start = None;
        let (mut rest, mut at) = (text, 0);
        while let Some(first) = rest.chars().next() {
            let taken = if first == '{' {
                let end = rest.find('}').ok_or_else(|| format!("at {at}: `{{` is never closed"))?;
                expressions += 1;
                if expressions > CatalogConfig::URI_EXPRESSIONS {
                    let most = CatalogConfig::URI_EXPRESSIONS;
                    return Err(format!("it has more than {most} expressions"));
                }
                start.get_or_insert(&text[..at]);
                let expression = Expression::parse(&rest[1..end]).map_err(|e| format!("at {at}: {e}"))?;
                expression.write(&mut pattern);
                end + 1
            } else {
                literal(first, rest, &mut pattern).map_err(|e| format!("at {at}: {e}"))?
            };
            rest = &rest[taken..];
            at += taken;
        }
        pattern.push_str(r"\z");
        let pattern = RegexBuilder::new(&pattern)
            .dot_matches_new_line(true)
            .size_limit(COMPILED)
            .dfa_size_limit(CACHED)
            .build()
            .map_err(|_| format!("it is too much to match: over {COMPILED} bytes; shorten its prefixes"))?;
        // Escapes, and characters that may be escaped, are written in several ways.
        let start = start.unwrap_or(text);
        let start = start.split(|c: char| c == '%' || !c.is_ascii()).next().unwrap_or_default().to_owned();
        Ok(Self { start, pattern })
    }

    /// True where this template could have been expanded to `uri`. At most [`CatalogConfig::URI`] bytes fit,
    /// and no white space or control characters.
    pub fn fits(&self, uri: &str) -> bool {
        uri.len() <= CatalogConfig::URI
            && uri.starts_with(&self.start)
            && !uri.contains(|c: char| c.is_whitespace() || c.is_control())
            && self.pattern.is_match(uri)
    }
}

/// What stands outside of expressions; returns the bytes taken. Beyond ASCII, a URI may have a
/// character as it is or percent-encoded (RFC 6570, 3.1).
fn literal(c: char, rest: &str, pattern: &mut String) -> Result<usize, String> {
    if c == '%' {
        let escaped = rest.get(..3).filter(|e| is_escape(e));
        let escaped = escaped.ok_or("`%` is not followed by two hexadecimal digits")?;
        pattern.push_str(&format!("(?i:{escaped})"));
        return Ok(3);
    }
    if c.is_control() || c.is_whitespace() || matches!(c, '"' | '<' | '>' | '\\' | '^' | '`' | '|' | '}') {
        return Err(format!("{c:?} cannot stand in a URI template"));
    }
    let plain = escape(c.encode_utf8(&mut [0; 4]));
    if c.is_ascii() {
        pattern.push_str(&plain);
    } else {
        let escaped: String = c.encode_utf8(&mut [0; 4]).bytes().map(|b| format!("%{b:02X}")).collect();
        pattern.push_str(&format!("(?:{plain}|(?i:{escaped}))"));
    }
    Ok(c.len_utf8())
}

fn is_escape(text: &str) -> bool {
    text.len() == 3 && text.starts_with('%') && text.bytes().skip(1).all(|b| b.is_ascii_hexdigit())
}

/// One `{…}`.
struct Expression<'a> {
    operator: Option<char>,
    variables: Vec<Variable<'a>>,
}

struct Variable<'a> {
    name: &'a str,
    explode: bool,
    prefix: Option<u32>,
}

impl<'a> Expression<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let operator = text.chars().next().filter(|c| "+#./;?&=,!@|".contains(*c));
        if let Some(reserved) = operator.filter(|c| "=,!@|".contains(*c)) {
            return Err(format!("the operator `{reserved}` is reserved and means nothing yet"));
        }
        let list = operator.map_or(text, |c| &text[c.len_utf8()..]);
        let variables = list.split(',').map(Variable::parse).collect::<Result<Vec<_>, _>>()?;
        let names: BTreeSet<&str> = variables.iter().map(|v| v.name).collect();
        if names.len() < variables.len() {
            return Err("an expression names a variable twice".to_owned());
        }
        Ok(Self { operator, variables })
    }

    /// Appends what its expansions look like, a variable without a value included where the operator
    /// then leaves nothing. A simple or reserved one must have a value: an empty place names nothing.
    fn write(&self, pattern: &mut String) {
        let any_exploded = self.variables.iter().any(|v| v.explode);
        let each = |out: &mut String, one: &dyn Fn(&Variable<'_>) -> String| {
            out.extend(self.variables.iter().map(one));
        };
        match self.operator {
            None => self.write_list(pattern, SIMPLE),
            Some('+') => self.write_list(pattern, RESERVED),
            Some('#') => pattern.push_str("(?:#.*)?"),
            Some(separator @ ('.' | '/')) => each(pattern, &|v| {
                let (value, many) = (v.value(SIMPLE, 0), if v.explode { '*' } else { '?' });
                format!("(?:{}{value}){many}", escape(separator.encode_utf8(&mut [0; 4])))
            }),
            Some(';') => each(pattern, &|v| match v.explode {
                true => "(?:;[^/?#;]+)*".to_owned(),
                false => format!("(?:;{}(?:=[^/?#;]*)?)?", escape(v.name)),
            }),
            // `?` and `&`: no other operator is parsed.
            Some(operator) => {
                let item = if any_exploded {
                    "[^&#]+".to_owned()
                } else {
                    let names: Vec<String> = self.variables.iter().map(|v| escape(v.name)).collect();
                    format!("(?:{})(?:=[^&#]*)?", names.join("|"))
                };
                pattern.push_str(&match operator {
                    '?' => format!(r"(?:\?{item}(?:&{item})*)?"),
                    _ => format!("(?:&{item})*"),
                });
            }
        }
    }

    /// Values with commas between them; all but the first may be missing.
    fn write_list(&self, pattern: &mut String, class: &str) {
        for (i, variable) in self.variables.iter().enumerate() {
            let value = variable.value(class, 1);
            pattern.push_str(&if i == 0 { value } else { format!("(?:,{value})?") });
        }
    }
}

impl<'a> Variable<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let (name, explode, prefix) = match (text.strip_suffix('*'), text.split_once(':')) {
            (Some(name), _) => (name, true, None),
            (None, Some((name, length))) => {
                let digits = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
                let length = length.parse().ok().filter(|n| digits && (1..=PREFIX).contains(n));
                let length = length.ok_or_else(|| format!("a prefix is a number from 1 to {PREFIX}"))?;
                (name, false, Some(length))
            }
            (None, None) => (text, false, None),
        };
        if !is_variable(name) {
            let name: String = name.chars().take(100).collect();
            return Err(format!("{name:?} is not a variable's name"));
        }
        Ok(Self { name, explode, prefix })
    }

    /// A value of at least `least` characters of `class`.
    fn value(&self, class: &str, least: u32) -> String {
        match (self.prefix, least) {
            (Some(most), _) => format!("{class}{{{least},{most}}}"),
            (None, 0) => format!("{class}*"),
            (None, _) => format!("{class}+"),
        }
    }
}

/// Letters, digits, `_` and escapes, with single dots between them (RFC 6570, 2.3).
fn is_variable(name: &str) -> bool {
    name.split('.').all(|part| {
        let mut rest = part;
        while let Some(c) = rest.chars().next() {
            let taken = if rest.get(..3).is_some_and(is_escape) { 3 } else { 1 };
            if taken == 1 && !c.is_ascii_alphanumeric() && c != '_' {
                return false;
            }
            rest = &rest[taken..];
        }
        !part.is_empty()
    })
}

#[cfg(test)]
#[path = "template_tests.rs"]
mod tests;
