//! Attacks by a tool that is called.

use layby_tests::{Client, Host, Reply, Setup, error_code, text};
use serde_json::{Value, json};

use super::{
    gauge::{Bystander, OTHER, given_back, harmless, holds, napping},
    make,
    table::{Attack, CALLED},
};

/// Bounds of each attack: small, so that it is over soon. What is not named is as by default.
const LIMITS: &str =
    "[limits]\nmemory = \"64MiB\"\noutput = \"1MiB\"\nstderr = \"64KiB\"\nhttp-bytes = \"4MiB\"\n";

/// How many attack at once.
const AT_ONCE: usize = 6;

/// A host with every attack that is `in_table`, and two plugins that do no harm.
pub(super) async fn attacked(in_table: &[Attack], call: &str) -> Host {
    let setup = Setup::probe(OTHER).plugin("echo", "");
    std::fs::write(setup.files().join("bait."), "x").unwrap();
    let rest = format!("{call}[grants]\nask = [\"form\"]\nfiles = [{}]\n", setup.grant(false));
    let setup = setup.config("[catalog]\nlist-fuel = 500_000_000\ncompile-jobs = 2");
    let add = |setup: Setup, attack: &Attack| {
        // What is stopped by something else has time to come to it on a busy machine.
        let time = if of_time(attack.sees) { "1s" } else { "18s" };
        // What is to be cancelled lives until then.
        let fuel = if attack.sees == "cancelled" { 100_000_000_000_u64 } else { 300_000_000 };
        let policy =
            format!("{LIMITS}fuel = {fuel}\nactive-time = \"{time}\"\n[call]\ngrace = \"200ms\"\n{rest}");
        setup.file(attack.name, &make::component(attack.name), &policy)
    };
    in_table.iter().fold(setup, add).start().await
}

/// What a caller sees: a code or `says`, and the text beside it.
pub(super) fn seen(message: &Value) -> (String, String) {
    let result = &message["result"];
    if result.is_null() {
        return (error_code(message).to_owned(), message["error"].to_string());
    }
    match result["_meta"]["layby/code"].as_str() {
        Some(code) if result["isError"] == true => (code.to_owned(), text(result).to_owned()),
        _ => ("says".to_owned(), result.to_string()),
    }
}

/// Arguments that an attack needs of its caller.
fn arguments(name: &str) -> Value {
    match name {
        "schema-pattern" => json!({ "a": "a".repeat(50_000) }),
        "schema-references" => json!({ "a": (0..12).fold(json!(1), |inner, _| json!({ "a": inner })) }),
        "handles" => json!({}),
        _ => json!({ "text": "some text of the caller's" }),
    }
}

/// What computes for ever comes to the one or the other limit first, as fast as the machine happens to be.
fn of_time(code: &str) -> bool {
    matches!(code, "limit_fuel" | "limit_active_time")
}

fn fits(code: &str, sees: &str) -> bool {
    code == sees || (of_time(code) && of_time(sees))
}

async fn call(client: &Client, name: &str) -> Reply {
    client.call(name, arguments(name)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_ends_as_it_should_and_nobody_else_is_hurt() {
    let host = attacked(CALLED, "deadline = \"20s\"\n").await;
    let client = host.client();
    let task = napping(&host).await;
    call(&client, "loop").await;
    let before = holds(&host);
    let mut misfits = Vec::new();
    let mut worst = (std::time::Duration::ZERO, std::time::Duration::ZERO);
    for group in CALLED.chunks(AT_ONCE) {
        let names: Vec<&str> = group.iter().map(|attack| attack.name).collect();
        let bystander = Bystander::watch(&client, &task);
        let replies = futures::future::join_all(names.iter().map(|name| call(&client, name))).await;
        let heard = bystander.hears(&format!("{names:?}")).await;
        worst = (worst.0.max(heard.0), worst.1.max(heard.1));
        for (attack, reply) in group.iter().zip(replies) {
            let (code, beside) = seen(&reply.message);
            if !fits(&code, attack.sees) || !beside.contains(attack.with) {
                let Attack { name, sees, with } = attack;
                misfits.push(format!("{name}: {sees} {with:?} expected, but {code} {beside}"));
            }
        }
        given_back(&host, before, &format!("{names:?}")).await;
    }
    eprintln!("called: {before:?} {:?}, worst {worst:?}", holds(&host));
    harmless(&host.log(), "the log");
    assert!(misfits.is_empty(), "{}", misfits.join("\n"));
}
