//! Reading configuration: layers, and errors that name the nearest known key.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use toml::{Table, Value};

use super::{CallPolicy, Config, EnvValue, Grants, Limits, Policy, check};
use crate::base::{ByteSize, Digest, read_file, text_of};

/// Largest configuration file that is read: it is written by hand.
const MAX_FILE: ByteSize = ByteSize::mib(1);
/// The configuration file that is read where none is named.
const DEFAULT_FILE: &str = "layby.toml";
/// Variables that begin with `LAYBY_` and are not options of the file: the command line reads them.
const OTHER_VARIABLES: [&str; 5] =
    ["LAYBY_CONFIG", "LAYBY_LOG", "LAYBY_REGISTRY_PASSWORD", "LAYBY_REGISTRY_USER", "LAYBY_TOKEN"];

/// Why a configuration or policy file is refused.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: {reason}")]
pub struct ConfigError {
    /// File (with line and column where known), variable or option.
    pub origin: String,
    /// What is wrong and what to write instead.
    pub reason: String,
}

impl ConfigError {
    /// Its stable code, as `docs/errors.md` lists it.
    pub const CODE: &str = "config_invalid";

    fn new(origin: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { origin: origin.into(), reason: reason.into() }
    }
}

/// `layby.toml` (or `file`), then `LAYBY_SECTION_KEY` variables, over the defaults.
/// Without `file`, a missing `layby.toml` means the defaults; a named file must be there.
///
/// # Errors
/// A file that cannot be read, is not TOML, or has an unknown key or a bad value.
pub fn load(file: Option<&Path>, env: &dyn Fn() -> Vec<(String, String)>) -> Result<Config, ConfigError> {
    let path = file.unwrap_or(Path::new(DEFAULT_FILE));
    let mut found = None;
    let text = match read_file(path, MAX_FILE).and_then(text_of) {
        Ok(text) => {
            found = Some(absolute(Path::new(""), path));
            text
        }
        Err(e) if file.is_none() && e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(e) => return Err(ConfigError::new(path.display().to_string(), format!("cannot be read: {e}"))),
    };
    Ok(Config { file: found, ..load_text(&text, path, env())? })
}

/// The same from the text of the file, and the variables.
///
/// # Errors
/// As [`load`].
pub fn load_text(text: &str, origin: &Path, env: Vec<(String, String)>) -> Result<Config, ConfigError> {
    let source = Source { text, origin };
    let config: Config = source.parse()?;
    let (config, set_by) = overlay_variables(config, &source, env)?;
    check::config(&config).map_err(|(keys, reason)| match set_by.get(&keys) {
        Some(variable) => ConfigError::new(variable.clone(), reason),
        None => source.wrong(&keys, reason),
    })?;
    Ok(config)
}

/// Puts each `LAYBY_` variable over `config`; returns which variable set which key.
fn overlay_variables(
    config: Config,
    source: &Source<'_>,
    variables: Vec<(String, String)>,
) -> Result<(Config, BTreeMap<Vec<String>, String>), ConfigError> {
    let template = table_of(&Config::default());
    let known: BTreeMap<String, Vec<String>> =
        leaves(&template).into_iter().map(|path| (variable_name(&path), path)).collect();
    let mut table = source.table()?;
    let mut result = config;
    let mut set_by = BTreeMap::new();
    for (name, value) in variables {
        if !name.starts_with("LAYBY_") || OTHER_VARIABLES.contains(&name.as_str()) {
            continue;
        }
        if cfg!(feature = "test-hooks") && (name.starts_with("LAYBY_TEST_") || name == "LAYBY_FAILPOINTS") {
            continue;
        }
        let Some(path) = known.get(&name) else {
            let all = known.keys().map(String::as_str).chain(OTHER_VARIABLES);
            let near = nearest(&name, all).unwrap_or_default();
            return Err(ConfigError::new(
                name.clone(),
                format!("unknown variable; the nearest known one is {near}"),
            ));
        };
        let value = typed(&value, get(&template, path)).map_err(|e| ConfigError::new(name.clone(), e))?;
        set(&mut table, path, value);
        result = Config::deserialize(Value::Table(table.clone()))
            .map_err(|e| ConfigError::new(name.clone(), friendly(e.message())))?;
        set_by.insert(path.clone(), name);
    }
    Ok((result, set_by))
}

/// `serve.max-body` as `LAYBY_SERVE_MAX_BODY`.
fn variable_name(path: &[String]) -> String {
    format!("LAYBY_{}", path.join("_").replace('-', "_").to_uppercase())
}

/// A variable's text in the type that the default has.
fn typed(text: &str, like: Option<&Value>) -> Result<Value, String> {
    Ok(match like {
        Some(Value::Integer(_)) => {
            let digits = text.trim().replace('_', "");
            Value::Integer(digits.parse().map_err(|_| format!("{text:?} is not a whole number"))?)
        }
        Some(Value::Boolean(_)) => Value::Boolean(match text.trim() {
            "true" | "1" => true,
            "false" | "0" => false,
            _ => return Err(format!("{text:?} is neither true nor false")),
        }),
        Some(Value::Array(_)) => Value::Array(
            text.split(',')
                .map(str::trim)
                .filter(|s| !s.is_empty())
                .map(|s| Value::String(s.into()))
                .collect(),
        ),
        _ => Value::String(text.to_owned()),
    })
}

/// A policy from the text of a policy file, over `defaults`. `folder` is where relative paths start.
///
/// # Errors
/// As [`load`].
pub fn load_policy(
    text: &str,
    origin: &Path,
    folder: &Path,
    defaults: &Config,
) -> Result<Policy, ConfigError> {
    let source = Source { text, origin };
    let raw: RawPolicy = source.parse()?;
    let file = source.table()?;
    let sub = |path: &[&str]| {
        let mut at = Some(&file);
        for key in path {
            at = at.and_then(|t| t.get(*key)).and_then(Value::as_table);
        }
        at
    };
    let internal = |e: toml::de::Error| ConfigError::new(origin.display().to_string(), friendly(e.message()));

    let sha256 = match raw.sha256.as_deref().map(str::parse::<Digest>) {
        Some(Err(reason)) => return Err(source.wrong(&["sha256".into()], reason)),
        Some(Ok(digest)) => Some(digest),
        None => None,
    };
    check::prefix(&raw.prefix).map_err(|(keys, reason)| source.wrong(&keys, reason))?;

    let limits: Limits = over(&defaults.limits, sub(&["limits"])).map_err(internal)?;
    check::limits(&limits, defaults.host.memory).map_err(|(keys, reason)| source.wrong(&keys, reason))?;

    let call: CallPolicy = over(&defaults.call, sub(&["call"])).map_err(internal)?;
    check::call(&call).map_err(|(keys, reason)| source.wrong(&keys, reason))?;

    let mut tools = BTreeMap::new();
    for name in raw.tools.keys() {
        let merged: CallPolicy = over(&call, sub(&["tools", name, "call"])).map_err(internal)?;
        check::call(&merged).map_err(|(keys, reason)| {
            let path = ["tools".to_owned(), name.clone()].into_iter().chain(keys).collect::<Vec<_>>();
            source.wrong(&path, format!("tool {name:?}: {reason}"))
        })?;
        tools.insert(name.clone(), merged);
    }

    let mut grants = raw.grants;
    check::grants(&grants).map_err(|(keys, reason)| source.wrong(&keys, reason))?;
    for file in &mut grants.files {
        file.host = absolute(folder, &file.host);
    }
    for value in grants.env.values_mut() {
        if let EnvValue::SecretFile { secret_file } = value {
            *secret_file = absolute(folder, secret_file);
        }
    }
    Ok(Policy { sha256, prefix: raw.prefix, limits, call, tools, grants })
}

/// `path` from `folder`, without `.` parts; links and `..` are left to the file system.
fn absolute(folder: &Path, path: &Path) -> PathBuf {
    let joined = folder.join(path);
    std::path::absolute(&joined).unwrap_or(joined)
}

/// A policy file as it is written. Limits and calls are checked here and merged as tables.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
struct RawPolicy {
    sha256: Option<String>,
    prefix: String,
    #[serde(rename = "limits")]
    _limits: Limits,
    #[serde(rename = "call")]
    _call: CallPolicy,
    tools: BTreeMap<String, RawTool>,
    grants: Grants,
}

/// `[tools.NAME]`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawTool {
    #[serde(rename = "call")]
    _call: CallPolicy,
}

/// The keys of `file` over all of `base`.
fn over<T: Serialize + DeserializeOwned>(base: &T, file: Option<&Table>) -> Result<T, toml::de::Error> {
    let mut table = Table::try_from(base).map_err(serde::de::Error::custom)?;
    for (key, value) in file.into_iter().flatten() {
        table.insert(key.clone(), value.clone());
    }
    T::deserialize(Value::Table(table))
}

/// Of defaults only: those are tables with numbers that TOML has, as the tests show.
fn table_of<T: Serialize>(value: &T) -> Table {
    Table::try_from(value).unwrap_or_default()
}

/// Paths of all values that are not tables.
fn leaves(table: &Table) -> Vec<Vec<String>> {
    let mut paths = Vec::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => {
                paths.extend(leaves(inner).into_iter().map(|mut path| {
                    path.insert(0, key.clone());
                    path
                }));
            }
            _ => paths.push(vec![key.clone()]),
        }
    }
    paths
}

fn get<'a>(table: &'a Table, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let value = table.get(first)?;
    if rest.is_empty() { Some(value) } else { get(value.as_table()?, rest) }
}

fn set(table: &mut Table, path: &[String], value: Value) {
    match path {
        [] => {}
        [key] => {
            table.insert(key.clone(), value);
        }
        [key, rest @ ..] => {
            let inner = table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                set(inner, rest, value);
            }
        }
    }
}

/// A file's text, for errors that point into it.
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    pub(super) origin: &'a Path,
}

impl Source<'_> {
    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        toml::from_str(self.text).map_err(|e| {
            let reason = friendly(e.message());
            match e.span() {
                Some(span) => ConfigError::new(self.at(span.start), reason),
                None => ConfigError::new(self.origin.display().to_string(), reason),
            }
        })
    }

    /// The text as it is, for keys that are laid over others. It may say less than a type of ours takes: whole numbers of TOML
    /// end at 2^63 - 1.
    fn table(&self) -> Result<Table, ConfigError> {
        self.parse()
    }

    /// `FILE:LINE:COLUMN`, both from 1, columns in characters.
    fn at(&self, offset: usize) -> String {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("{}:{line}:{column}", self.origin.display())
    }

    /// An error at the key `path`, or at the nearest table around it that the file has.
    pub(super) fn wrong(&self, path: &[String], reason: String) -> ConfigError {
        let mut found = None;
        if let Ok(root) = toml::de::DeTable::parse(self.text) {
            let mut table = Some(root.get_ref());
            for key in path {
                let entry = table.and_then(|t| t.iter().find(|(k, _)| k.get_ref().as_ref() == key.as_str()));
                let Some((key, value)) = entry else { break };
                found = Some(key.span().start);
                table = value.get_ref().as_table();
            }
        }
        match found {
            Some(offset) => ConfigError::new(self.at(offset), reason),
            None => ConfigError::new(self.origin.display().to_string(), reason),
        }
    }
}

/// serde's words in ours: an unknown key or value gets the nearest known one.
fn friendly(message: &str) -> String {
    let message = message.trim();
    for (start, what) in [("unknown field `", "key"), ("unknown variant `", "value")] {
        let Some((name, rest)) = message.strip_prefix(start).and_then(|m| m.split_once('`')) else {
            continue;
        };
        let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
        let Some(near) = nearest(name, known.iter().copied()) else {
            return format!("unknown {what} `{name}`: nothing is known here");
        };
        let mut text = format!("unknown {what} `{name}`; the nearest known {what} is `{near}`");
        if known.len() > 1 {
            text.push_str(&format!(" (known here: {})", known.join(", ")));
        }
        if let Some(section) = section_of(name, &known) {
            text.push_str(&format!("; `{name}` belongs in [{section}]"));
        }
        return text;
    }
    let number = "a whole number from 0 to";
    message
        .replace("expected u32", &format!("expected {number} 4294967295"))
        .replace("expected u64", &format!("expected {number} 9223372036854775807"))
        .replace(
            "u64 value was too large",
            &format!("it is too large: expected {number} 9223372036854775807"),
        )
        .replace("expected a boolean", "expected true or false")
}

/// Where a key is known that was written in the wrong section.
fn section_of(name: &str, known_here: &[&str]) -> Option<String> {
    if known_here.contains(&name) {
        return None;
    }
    let mut sections = table_of(&Config::default());
    sections.insert(
        "grants".into(),
        Value::Table(
            ["ask", "http", "env", "files", "config"]
                .map(|key| (key.to_owned(), Value::Boolean(false)))
                .into_iter()
                .collect(),
        ),
    );
    let hits: Vec<&String> = sections
        .iter()
        .filter(|(_, v)| v.as_table().is_some_and(|t| t.contains_key(name)))
        .map(|(section, _)| section)
        .collect();
    match hits[..] {
        [one] => Some(one.clone()),
        _ => None,
    }
}

/// The one of `known` that is most like `name`; none where nothing is known.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known.into_iter().min_by_key(|k| strsim::damerau_levenshtein(&name.to_lowercase(), &k.to_lowercase()))
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
