//! Any text as `layby.toml`, its variables, and a policy: what is refused is refused with a place that is there, and what is
//! taken keeps its bounds.
//!
//! Input: a policy; or, parted by lines of `---`, a `layby.toml`, a policy, and lines `NAME=VALUE` of variables.

use std::path::Path;

use layby::config::{Config, ConfigError, LONGEST, Policy, TokenFile, load_policy, load_text};

const FILE: &str = "FILE";

pub(crate) fn target(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut parts = text.splitn(3, "\n---\n");
    let (first, second, third) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
    let (config, policy) = second.map_or(("", first), |policy| (first, policy));
    let origin = Path::new(FILE);
    let pairs = third.unwrap_or_default().lines().filter_map(|line| line.split_once('='));
    let variables = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>();
    let defaults = match load_text(config, origin, variables.clone()) {
        Ok(config) => config,
        Err(error) => {
            placed(&error, config, &variables);
            Config::default()
        }
    };
    bounded(&defaults);
    match load_policy(policy, origin, Path::new("/plugins"), &defaults) {
        Ok(policy) => kept(&policy, &defaults),
        Err(error) => placed(&error, policy, &[]),
    }
    match TokenFile::parse(first, origin) {
        Ok(tokens) => {
            let again = TokenFile::parse(&tokens.to_text(), origin).expect("what is written can be read");
            assert_eq!(again.to_text(), tokens.to_text());
        }
        Err(error) => placed(&error, first, &[]),
    }
}

/// An error has a place in the text, or names a variable.
fn placed(error: &ConfigError, text: &str, variables: &[(String, String)]) {
    assert!(!error.reason.trim().is_empty());
    if error.origin == FILE || variables.iter().any(|(name, _)| *name == error.origin) {
        return;
    }
    let mut parts = error.origin.rsplitn(3, ':');
    let mut number = || parts.next().and_then(|n| n.parse::<usize>().ok()).expect("FILE:LINE:COLUMN");
    let (column, line) = (number(), number());
    assert_eq!(parts.next(), Some(FILE));
    let found = text.split('\n').nth(line - 1).expect("the line is there");
    assert!((1..=found.chars().count() + 1).contains(&column), "{error}");
}

fn bounded(config: &Config) {
    assert!(config.limits.memory <= config.host.memory);
    assert!(config.call.deadline <= config.call.hold);
    assert!(config.host.concurrency > 0 && config.serve.max_body.0 > 0);
}

fn kept(policy: &Policy, config: &Config) {
    assert!(policy.limits.memory <= config.host.memory && policy.limits.active_time <= LONGEST);
    for call in policy.tools.values().chain([&policy.call]) {
        assert!(call.deadline <= call.hold);
        for span in [call.deadline, call.hold, call.grace, call.linger, call.absence, call.input_deadline] {
            assert!(span <= LONGEST);
        }
    }
    for grant in &policy.grants.files {
        assert!(grant.host.is_absolute() && grant.guest.starts_with('/'), "{grant:?}");
    }
    assert!(policy.prefix.is_ascii() && !policy.prefix.contains(char::is_whitespace));
}
