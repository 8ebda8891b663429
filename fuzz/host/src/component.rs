//! Any bytes as a plugin: they are refused with a reason or listed, within bounds, and whatever they list is refused or can be
//! shown.
//!
//! Input: a component; or its text, which begins with `(` or `;`; or what a plugin lists, as a row of the store has it, which
//! begins with `{` or `[`, and in further lines values that its tools are given.

use std::sync::OnceLock;

use layby::{
    base::{ByteSize, Millis},
    commands::fuzzing::Checker,
    config::{CatalogConfig, Config},
    plugins::Stop,
};
use serde_json::Value;

pub(crate) fn target(data: &[u8]) {
    static CHECKER: OnceLock<Checker> = OnceLock::new();
    let checker = CHECKER.get_or_init(|| Checker::new(config()).expect("an engine"));
    match data.first() {
        Some(b'(' | b';') => {
            if let Ok(bytes) =
                std::str::from_utf8(data).map_err(drop).and_then(|t| wat::parse_str(t).map_err(drop))
            {
                look(checker, &bytes);
            }
        }
        Some(b'{' | b'[') => {
            let text = String::from_utf8_lossy(data);
            let mut lines = text.lines();
            let row = lines.next().unwrap_or_default();
            let values: Vec<Value> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
            if let Err(reason) = checker.declared(row, &values) {
                assert!(!reason.is_empty());
            }
        }
        _ => look(checker, data),
    }
}

/// So that no input takes long.
fn config() -> Config {
    let catalog = CatalogConfig {
        list_fuel: 1_000_000,
        list_memory: ByteSize::mib(4),
        list_time: Millis::from_secs(2),
        ..CatalogConfig::default()
    };
    Config { catalog, ..Config::default() }
}

fn look(checker: &Checker, bytes: &[u8]) {
    match checker.look(bytes) {
        Ok(looked) => {
            let row = looked.listed();
            assert_eq!(checker.declared(&row, &[]).err().is_some(), looked.problem.is_some(), "{row}");
        }
        Err(Stop::Refused(problem)) => {
            let text = format!("{} {} {}", problem.code, problem.reason, problem.advice);
            assert!(problem.code.starts_with("plugin_") && !problem.reason.is_empty(), "{text}");
            assert!(!text.contains(char::is_control), "{text:?}");
        }
        Err(Stop::Failed(reason)) => panic!("it says nothing about the plugin: {reason}"),
    }
}
