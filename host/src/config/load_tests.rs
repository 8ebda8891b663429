#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::Write as _;

use super::*;
use crate::{
    base::{ByteSize, Millis},
    config::{EnvValue, OnInputTimeout},
};

fn policy(text: &str) -> Result<Policy, ConfigError> {
    load_policy(text, Path::new("p/weather.toml"), Path::new("/srv/p"), &Config::default())
}

fn config(text: &str, env: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let env: Vec<_> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    load(Some(file.path()), &move || env.clone())
}

/// The error's text holds each of `parts`.
fn refused<T: std::fmt::Debug>(result: Result<T, ConfigError>, parts: &[&str]) {
    let text = result.expect_err("must be refused").to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

const WHOLE: &str = r#"
sha256 = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
prefix = "weather_"
[limits]
fuel = 20_000_000_000
memory = "128MiB"
active-time = "10m"
output = "4MiB"
arguments = "1MiB"
questions = 100
progress = 10
stderr = "1MiB"
journal = "16MiB"
concurrency = 8
parked = 10_000
[call]
deadline = "2s"
hold = "50s"
grace = "2s"
linger = "5s"
absence = "24h"
input-deadline = "24h"
on-input-timeout = "resume"
early-input = "task"
requires-tasks = false
pre-answers = false
model-may-answer = false
idempotency-argument = ""
[tools.forecast.call]
hold = "20s"
[grants]
ask = ["form", "url https://host/", "url https://", "sampling", "roots"]
http = [{ allow = "GET https://api.example.com/v1/*", idempotent = false }]
env = { REGION = "eu", TOKEN = { secret = "WEATHER_TOKEN" }, KEY = { secret-file = "keys/weather" } }
files = [{ host = "./inbox", guest = "/inbox", write = false }]
config = { units = "metric" }
"#;

#[test]
fn every_key_of_a_policy_parses() {
    let p = policy(WHOLE).unwrap();
    assert_eq!(p.limits.fuel, 20_000_000_000);
    assert_eq!(p.limits.memory, ByteSize::mib(128));
    assert_eq!(p.call.on_input_timeout, OnInputTimeout::Resume);
    assert_eq!(p.grants.env["TOKEN"], EnvValue::Secret { secret: "WEATHER_TOKEN".into() });
    assert_eq!(p.grants.env["KEY"], EnvValue::SecretFile { secret_file: "/srv/p/keys/weather".into() });
    assert_eq!(p.grants.files[0].host, Path::new("/srv/p/inbox"));
    assert!(p.sha256.is_some());
}

#[test]
fn tool_over_plugin_over_host_over_default() {
    let mut host = Config::default();
    host.call.grace = Millis(700);
    host.call.deadline = Millis(900);
    host.limits.fuel = 77;
    let p = load_policy(WHOLE, Path::new("w.toml"), Path::new("/srv/p"), &host).unwrap();
    assert_eq!(p.call.deadline, Millis::from_secs(2), "plugin over host");
    assert_eq!(p.call_of("forecast").hold, Millis::from_secs(20), "tool over plugin");
    assert_eq!(p.call_of("forecast").deadline, Millis::from_secs(2), "plugin where the tool says nothing");
    assert_eq!(p.call_of("other").hold, Millis::from_secs(50));
    let p = load_policy("", Path::new("w.toml"), Path::new("/srv/p"), &host).unwrap();
    assert_eq!((p.call.grace, p.limits.fuel), (Millis(700), 77), "host over default");
    assert_eq!(p.call.hold, Millis::from_secs(50), "default");
}

#[test]
fn unknown_keys_name_place_and_nearest() {
    refused(policy("[limits]\nfule = 3\n"), &["p/weather.toml:2:1", "`fule`", "`fuel`"]);
    refused(policy("prefx = \"a\"\n"), &["weather.toml:1:1", "`prefix`"]);
    refused(policy("deadline = \"3s\"\n"), &["belongs in [call]"]);
    refused(policy("[tools.a.call]\nhodl = \"3s\"\n"), &["weather.toml:2:1", "`hold`"]);
    refused(policy("[tools.a]\ncal = {}\n"), &["`cal`", "`call`"]);
    refused(
        policy("[grants]\nenv = { A = { secrt = \"B\" } }\n"),
        &["weather.toml:2:", "`secrt`", "`secret`"],
    );
    refused(policy("[grants]\nfiles = [{ host = \"a\", gest = \"/a\" }]\n"), &["`gest`", "`guest`"]);
    refused(policy("[call]\nearly-input = \"tsk\"\n"), &["`tsk`", "`task`"]);
    refused(config("[serve]\nlissen = \"x\"\n", &[]), &[".toml:2:1", "`lissen`", "`listen`"]);
}

#[test]
fn bad_values_say_what_was_expected() {
    refused(policy("[limits]\nmemory = 5\n"), &[":2:10", "a size in quotes"]);
    refused(policy("[limits]\nmemory = \"lots\"\n"), &[":2:10", "64KiB"]);
    refused(policy("[call]\ndeadline = 5\n"), &["a time span in quotes"]);
    refused(policy("[limits]\nquestions = -1\n"), &["a whole number from 0"]);
    refused(policy("[limits]\nquestions = 5_000_000_000\n"), &["a whole number from 0 to 4294967295"]);
    // Past what a number of TOML may be: nothing beside it may be lost for that.
    for fuel in ["9223372036854775808", "18446744073709551615"] {
        let text = format!("[limits]\nfuel = {fuel}\nquestions = 0\n");
        refused(policy(&text), &[":2:8", "whole number", "9223372036854775807"]);
        refused(config(&text, &[]), &[":2:8", "whole number", "9223372036854775807"]);
    }
    refused(policy("[call]\nrequires-tasks = \"yes\"\n"), &["true or false"]);
    refused(policy("[grants]\nenv = { A = 5 }\n"), &["a string, { secret"]);
    refused(policy("[limits\n"), &["weather.toml:1:"]);
}

#[test]
fn ranges_are_checked() {
    for (text, part) in [
        ("[limits]\nfuel = 0", "`fuel` is 0"),
        ("[limits]\nmemory = \"0B\"", "`memory`"),
        ("[limits]\nmemory = \"900GiB\"", "no run would ever start"),
        ("[limits]\nactive-time = \"0s\"", "longer than zero"),
        ("[limits]\nconcurrency = 0", "at least 1"),
        ("[call]\ndeadline = \"0s\"", "longer than zero"),
        ("[call]\ndeadline = \"2m\"", "longer than `hold`"),
        ("[call]\nabsence = \"100years\"", "at most"),
        ("prefix = \"a b\"", "A-Z"),
        ("sha256 = \"abc\"", "64 hexadecimal"),
        ("[grants]\nask = [\"from\"]", "\"form\""),
        ("[grants]\nask = [\"url\"]", "url https://host/"),
        ("[grants]\nask = [\"url ftp://a/\"]", "must begin with https://"),
        ("[grants]\nask = [\"url https://host\"]", "a host, and a /"),
        ("[grants]\nhttp = [{ allow = \"fetch\" }]", "a method and a URL"),
        ("[grants]\nfiles = [{ host = \"a\", guest = \"a\" }]", "absolute"),
        ("[grants]\nfiles = [{ host = \"a\", guest = \"/a/../b\" }]", "absolute and plain"),
        ("[grants]\nfiles = [{ host = \"a\", guest = \"/a\" }, { host = \"b\", guest = \"/a/\" }]", "twice"),
        ("[grants]\nenv = { \"A=B\" = \"c\" }", "not a variable's name"),
    ] {
        refused(policy(text), &["p/weather.toml:", part]);
    }
    refused(policy("[limits]\nfuel = 0"), &["weather.toml:2:1"]);
    refused(policy("[tools.slow.call]\ndeadline = \"2m\""), &[":2:1", "tool \"slow\"", "longer than `hold`"]);
    assert!(policy("[tools.slow.call]\ndeadline = \"2m\"\nhold = \"3m\"").is_ok());
}

#[test]
fn variables_win_over_the_file() {
    let c = config(
        "[serve]\nlisten = \"127.0.0.1:1\"\nmax-body = \"2MiB\"\n",
        &[
            ("LAYBY_SERVE_LISTEN", "127.0.0.1:2"),
            ("LAYBY_LIMITS_FUEL", "1_000_000"),
            ("LAYBY_CALL_INPUT_DEADLINE", "2h"),
            ("LAYBY_SERVE_ALLOWED_HOSTS", "a.example, b.example"),
            ("LAYBY_TRUST_REPLACEMENTS", "true"),
            ("LAYBY_BRIDGE_TOOLS", "1"),
            ("LAYBY_CONFIG", "elsewhere.toml"),
            ("HOME", "/root"),
        ],
    )
    .unwrap();
    assert_eq!(c.serve.listen, "127.0.0.1:2");
    assert_eq!(c.serve.max_body, ByteSize::mib(2), "the file's other keys stay");
    assert_eq!(c.limits.fuel, 1_000_000);
    assert_eq!(c.call.input_deadline, Millis::from_secs(7200));
    assert_eq!(c.serve.allowed_hosts, ["a.example", "b.example"]);
    assert!(c.trust_replacements && c.bridge_tools);
}

#[test]
fn bad_variables_are_named() {
    refused(config("", &[("LAYBY_SERVE_LISSEN", "x")]), &["LAYBY_SERVE_LISSEN", "LAYBY_SERVE_LISTEN"]);
    refused(config("", &[("LAYBY_HOST_CONCURRENCY", "many")]), &["LAYBY_HOST_CONCURRENCY", "whole number"]);
    refused(config("", &[("LAYBY_HOST_CONCURRENCY", "0")]), &["LAYBY_HOST_CONCURRENCY", "at least 1"]);
    refused(
        config("", &[("LAYBY_HOST_CONCURRENCY", "4000")]),
        &["LAYBY_HOST_CONCURRENCY", "5000", "at most 4096"],
    );
    refused(config("", &[("LAYBY_LIMITS_MEMORY", "big")]), &["LAYBY_LIMITS_MEMORY", "64KiB"]);
    refused(config("", &[("LAYBY_SERVE_ALLOW_UNAUTHENTICATED", "maybe")]), &["neither true nor false"]);
}

#[test]
fn a_named_file_must_be_there() {
    refused(
        load(Some(Path::new("/nowhere/layby.toml")), &Vec::new),
        &["/nowhere/layby.toml", "cannot be read"],
    );
}

#[test]
fn the_defaults_are_in_range_and_survive_a_round_trip() {
    let text = toml::to_string(&Config::default()).unwrap();
    for text in [text.as_str(), ""] {
        let read = config(text, &[]).unwrap();
        assert!(read.file.as_ref().is_some_and(|f| f.is_absolute()));
        assert_eq!(Config { file: None, ..read }, Config::default());
    }
}

#[test]
fn the_documentation_names_every_option() {
    let page = include_str!("../../../docs/configuration.md");
    let mut keys = leaves(&table_of(&Config::default()));
    for key in ["sha256", "prefix", "ask", "http", "env", "files", "config"] {
        keys.push(vec![key.to_owned()]);
    }
    for path in keys {
        let key = path.last().unwrap();
        assert!(page.contains(&format!("| `{key}` |")), "docs/configuration.md has no row for {path:?}");
    }
}
