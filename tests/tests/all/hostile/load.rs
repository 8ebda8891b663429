//! Attacks on whoever loads a plugin.

use std::time::{Duration, Instant};

use layby_tests::{Setup, command, wait::BOUND};
use serde_json::Value;

use super::{
    gauge::{Bystander, OTHER, given_back, harmless, holds, napping},
    made, make,
    table::LOADED,
};

/// Small bounds, so that each attack is over soon.
const CONFIG: &str = "[catalog]\nsettle = \"100ms\"\npoll = \"200ms\"\nlist-fuel = 20_000_000\nlist-memory = \"64MiB\"\nlist-time = \"4s\"\nretry = \"1s\"";

/// Name, what comes of it, and a part of the text.
type Expected = (String, &'static str, &'static str);

/// Those that are not what is expected.
fn misfits(expected: &[Expected], all: &Value) -> Vec<String> {
    let none = Vec::new();
    let plugins = all["plugins"].as_array().unwrap_or(&none);
    let judge = |(name, sees, with): &Expected| {
        let (code, text) = plugins.iter().find(|p| p["name"] == **name).and_then(state).unwrap_or_default();
        harmless(&text, name);
        let fits = code == *sees && text.contains(with);
        (!fits).then(|| format!("{name}: {sees} {with:?} expected, but {text}"))
    };
    expected.iter().filter_map(judge).collect()
}

/// Of a plugin by `layby plugins`: the code of its refusal, or `serves`.
fn state(plugin: &Value) -> Option<(String, String)> {
    let refusal = &plugin["refusal"];
    match refusal["code"].as_str() {
        Some(code) => Some((code.to_owned(), refusal.to_string())),
        None if !plugin["adoptedAt"].is_null() => Some(("serves".to_owned(), plugin.to_string())),
        None => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_is_refused_or_harmless_and_nobody_else_is_hurt() {
    let host = Setup::probe(OTHER).plugin("echo", "").config(CONFIG).start().await;
    let task = napping(&host).await;
    let before = holds(&host);
    let bystander = Bystander::watch(&host.client(), &task);
    let mut expected: Vec<Expected> =
        LOADED.iter().map(|attack| (attack.name.to_owned(), attack.sees, attack.with)).collect();
    for attack in LOADED {
        host.put(attack.name, &make::component(attack.name), "");
    }
    for (name, bytes, sees, with) in made::all() {
        host.put(name, &bytes, "");
        expected.push((name.to_owned(), sees, with));
    }
    let start = Instant::now();
    let misfits = loop {
        let all = host.command(&["plugins"]).await.json();
        let misfits = misfits(&expected, &all);
        // A machine that is too busy to list in time is one that tries again.
        if misfits.is_empty() || start.elapsed() > 2 * BOUND {
            break misfits;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let names = host.client().tool_names().await;
    let (half, all) = bystander.hears("while they are loaded").await;
    harmless(&host.log(), "the log");
    let after = given_back(&host, before, "what loading took").await;
    eprintln!("loaded: {before:?} {after:?}, half within {half:?}, all within {all:?}");
    let table = host.command_text(&["plugins"]).await;
    harmless(&table, "layby plugins");
    for name in ["list-escapes", "list-claims", "list-trap", "shape-import"] {
        let inspect = command::layby(host.setup().root(), ["inspect", &format!("plugins/{name}.wasm")]);
        let shown = command::run(inspect).await;
        assert!(!(shown.out.clone() + &shown.err).is_empty(), "{shown:?}");
        harmless(&(shown.out + &shown.err), name);
    }
    assert!(misfits.is_empty(), "{}\nserved: {names:?}", misfits.join("\n"));
}
