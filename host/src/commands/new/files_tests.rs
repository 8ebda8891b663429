#![allow(clippy::unwrap_used, clippy::expect_used)]

use clap::ValueEnum as _;
use toml::{Table, Value};

use super::*;
use crate::config::{CallPolicy, Config, Limits, load_policy};

fn texts(lang: Lang) -> BTreeMap<String, String> {
    let files = files(lang, "to-do").expect("there is a template");
    files
        .into_iter()
        .filter_map(|(path, bytes)| Some((path, String::from_utf8(bytes.into()).ok()?)))
        .collect()
}

fn languages() -> impl Iterator<Item = Lang> {
    Lang::value_variants().iter().copied().filter(|lang| files(*lang, "x").is_some())
}

#[test]
fn what_every_project_has() {
    for lang in languages() {
        let files = texts(lang);
        for file in
            ["README.md", ".gitignore", "layby-dev.toml", "to-do.toml", "wit/plugin.wit", "wit/standard.wit"]
        {
            assert!(files.contains_key(file), "{lang:?}: {file} is missing: {:?}", files.keys());
        }
        let kit = lang.kit().to;
        assert!(files.keys().any(|path| path.starts_with(kit)), "{lang:?}: no kit: {:?}", files.keys());
        for (path, text) in &files {
            assert!(!path.contains("{{") && !text.contains("{{name"), "{lang:?}: {path} has a placeholder");
            let left = ["node_modules", "__pycache__", "/target/", "_test.", ".tmpl", "/tests/"];
            let ours = path.starts_with(kit);
            assert!(!ours || !left.iter().any(|part| path.contains(part)), "{lang:?}: {path}");
        }
        let dev: Table = files["layby-dev.toml"].parse().unwrap();
        assert!(dev["build"].is_array() && dev["component"].is_str() && dev["watch"].is_array(), "{dev}");
        assert_eq!(dev.get("policy"), Some(&Value::from("to-do.toml")));
    }
}

#[test]
fn the_adapter_is_there_where_it_is_needed() {
    for lang in languages() {
        let files = files(lang, "x").unwrap();
        let adapter = files.get("wasi_snapshot_preview1.reactor.wasm");
        assert_eq!(adapter.is_some(), matches!(lang, Lang::Go | Lang::C));
        assert!(adapter.is_none_or(|bytes| bytes.starts_with(b"\0asm")));
    }
}

#[test]
fn edits_of_a_kit_have_something_to_do() {
    for lang in languages() {
        let Some((file, old, new)) = lang.kit().edit else { continue };
        let files = texts(lang);
        assert!(files[file].contains(new) && !files[file].contains(old), "{lang:?}: {file}");
    }
}

/// The policy with its options, which are comments without a blank, as lines.
fn with_options(text: &str) -> String {
    let lines = text.lines().map(|line| match line.strip_prefix('#') {
        Some(option) if !option.starts_with(' ') => option,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn parsed(text: &str) -> crate::config::Policy {
    let dir = tempfile::tempdir().unwrap();
    load_policy(text, &dir.path().join("to-do.toml"), dir.path(), &Config::default()).unwrap()
}

#[test]
fn the_policy_parses_with_and_without_its_options() {
    let text = fill(policy(), "to-do");
    let plain = parsed(&text);
    assert_eq!((plain.limits, plain.call), (Limits::default(), CallPolicy::default()));
    assert_eq!(plain.grants.ask, ["form"]);
    let full = parsed(&with_options(&text));
    assert_eq!(
        (full.limits, full.call),
        (Limits::default(), CallPolicy::default()),
        "the comments show the defaults"
    );
    let grants = full.grants;
    assert!(
        !grants.http.is_empty()
            && !grants.env.is_empty()
            && !grants.files.is_empty()
            && !grants.config.is_empty()
    );
}

#[test]
fn the_policy_has_every_option() {
    let all: Table = with_options(&fill(policy(), "to-do")).parse().unwrap();
    let keys = |value: &Value| value.as_table().unwrap().keys().cloned().collect::<Vec<_>>();
    let keys_of = |key: &str| {
        let mut keys = keys(&all[key]);
        keys.sort();
        keys
    };
    let of = |value: Value| {
        let mut keys = keys(&value);
        keys.sort();
        keys
    };
    assert_eq!(keys_of("limits"), of(Value::try_from(Limits::default()).unwrap()));
    assert_eq!(keys_of("call"), of(Value::try_from(CallPolicy::default()).unwrap()));
    assert_eq!(keys_of("grants"), of(Value::try_from(crate::config::Grants::default()).unwrap()));
    let mut top: Vec<_> = all.keys().map(String::as_str).collect();
    top.sort_unstable();
    assert_eq!(top, ["call", "grants", "limits", "prefix", "sha256", "tools"]);
}
