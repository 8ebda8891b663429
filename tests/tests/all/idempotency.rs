//! One key, one run, one outcome (P11, and the table of design 6).

use std::fs;

use futures::future::join_all;
use layby_tests::{Host, Setup, client::TASKS, text};
use serde_json::{Value, json};

const KEY: &str = "layby/idempotency-key";

async fn host(call: &str) -> Host {
    let setup = Setup::new();
    let policy = format!(
        "[call]\n{call}\n[limits]\nconcurrency = 60\n[grants]\nask = [\"form\"]\nfiles = [{}]",
        setup.grant(true)
    );
    setup.plugin("probe", &policy).start().await
}

/// How often `stubborn` has started to write this file.
fn runs(host: &Host, name: &str) -> usize {
    let text = fs::read_to_string(host.setup().files().join(name)).unwrap_or_default();
    text.lines().filter(|line| line.starts_with("line 1,")).count()
}

fn writes(name: &str, ms: u64) -> Value {
    json!({ "ms": ms, "path": format!("/files/{name}") })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_repeats_at_once_are_one_run() {
    // A busy machine needs more than a second for a hundred of them.
    let host = host("deadline = \"4s\"").await;
    let client = host.client().meta(KEY, json!("quick"));
    let answers = join_all((0..100).map(|_| client.call("stubborn", writes("quick", 30)))).await;
    assert_eq!(runs(&host, "quick"), 1);
    let first = &answers[0].message["result"];
    assert!(text(first).starts_with("wrote "), "{first}");
    for answer in &answers {
        assert_eq!(answer.result(), first);
    }
    let client = host.client().meta(KEY, json!("slow"));
    let answers = join_all((0..100).map(|_| client.call("stubborn", writes("slow", 6000)))).await;
    assert_eq!(runs(&host, "slow"), 1);
    let id = answers[0].task();
    for answer in &answers {
        assert_eq!(answer.task(), id);
    }
    let done = client.status(id, "completed").await;
    // A repeat after the end gets the outcome itself.
    let after = client.call("stubborn", writes("slow", 6000)).await;
    assert_eq!(text(after.result()), text(&done["result"]));
    assert_eq!(runs(&host, "slow"), 1);
}

#[tokio::test]
async fn the_key_comes_by_meta_by_header_and_by_argument() {
    let host = host("deadline = \"5s\"").await;
    let meta = host.client().meta(KEY, json!("one"));
    let header = host.client().header("idempotency-key", "one");
    let first = meta.call("stubborn", writes("a", 30)).await;
    assert_eq!(header.call("stubborn", writes("a", 30)).await.result(), first.result());
    assert_eq!(runs(&host, "a"), 1);
    // The order of arguments is none of their content.
    let turned = json!({ "path": "/files/a", "ms": 30 });
    assert_eq!(header.call("stubborn", turned).await.result(), first.result());
    for wrong in [json!(5), json!(""), json!("x".repeat(300)), json!("a\nb")] {
        let reply = host.client().meta(KEY, wrong.clone()).call("stubborn", writes("a", 30)).await;
        assert_eq!((reply.rpc(), reply.code()), (-32602, "idempotency_key_invalid"), "{wrong}");
    }

    let setup = Setup::new();
    let policy = format!(
        "[tools.stubborn.call]\nidempotency-argument = \"path\"\n[grants]\nfiles = [{}]",
        setup.grant(true)
    );
    let host = setup.plugin("probe", &policy).start().await;
    let client = host.client();
    let first = client.call("stubborn", writes("b", 30)).await;
    assert_eq!(client.call("stubborn", writes("b", 30)).await.result(), first.result());
    assert_eq!(runs(&host, "b"), 1);
    let other = client.call("stubborn", writes("b", 31)).await;
    assert_eq!(other.code(), "idempotency_key_reused");
    client.call("stubborn", writes("c", 30)).await.result();
    assert_eq!(runs(&host, "c"), 1);
}

#[tokio::test]
async fn a_key_belongs_to_one_call() {
    let host = host("deadline = \"200ms\"").await;
    let client = host.client().meta(KEY, json!("k"));
    client.call("stubborn", writes("a", 30)).await.result();
    for other in [writes("b", 30), writes("a", 31)] {
        let reply = client.call("stubborn", other).await;
        assert_eq!((reply.rpc(), reply.code()), (-32602, "idempotency_key_reused"));
    }
    assert_eq!(runs(&host, "b"), 0);
    // Its scope is the tool and the caller.
    assert_eq!(text(client.call("nap", json!({ "ms": 1 })).await.result()), "slept 1 ms");
    let somebody = host.client().meta(KEY, json!("k")).header("x-forwarded-for", "192.0.2.1");
    somebody.call("stubborn", writes("b", 30)).await.result();
    assert_eq!(runs(&host, "b"), 1);
}

#[tokio::test]
async fn a_repeat_finds_whatever_the_run_has_come_to() {
    let host = host("deadline = \"200ms\"\nhold = \"600ms\"").await;
    let plain = |key: &str| host.client_with(json!({ "elicitation": {} })).meta(KEY, json!(key));
    let rich = |key: &str| host.client().meta(KEY, json!(key));
    // In progress: a client without tasks never gets a handle.
    let id = rich("a").task("stubborn", writes("a", 4000)).await;
    let held = plain("a").call("stubborn", writes("a", 4000)).await;
    assert_eq!(
        (held.rpc(), &held.message["error"]["data"]["requiredCapabilities"]["extensions"][TASKS]),
        (-32021, &json!({}))
    );
    assert_eq!(rich("a").call("stubborn", writes("a", 4000)).await.task(), id);
    let done = rich("a").status(&id, "completed").await;
    assert_eq!(text(plain("a").call("stubborn", writes("a", 4000)).await.result()), text(&done["result"]));
    assert_eq!(runs(&host, "a"), 1);
    // The first client has no tasks and is told so; its run goes on, for a repeat to find.
    let told = plain("b").call("stubborn", writes("b", 4000)).await;
    assert_eq!(told.rpc(), -32021);
    let id = rich("b").task("stubborn", writes("b", 4000)).await;
    rich("b").status(&id, "completed").await;
    assert_eq!(runs(&host, "b"), 1);
    // A task that waits: the same handle at once.
    let id = rich("c").task("ask", json!({})).await;
    let again = rich("c").call("ask", json!({})).await;
    assert_eq!((again.task(), &again.result()["status"]), (id.as_str(), &json!("input_required")));
    rich("c").accept(&id, "question", json!({ "value": "v" })).await.result();
    rich("c").status(&id, "completed").await;
    let stored = rich("c").call("ask", json!({})).await;
    assert!(text(stored.result()).contains("\"v\""), "{}", stored.message);
    // Errors are outcomes, too.
    let failed = rich("d").call("trap", json!({})).await;
    let again = rich("d").call("trap", json!({})).await;
    assert_eq!((again.rpc(), again.code()), (failed.rpc(), failed.code()));
    assert_eq!(again.code(), "plugin_trap");
    let cancelled = rich("e").task("nap", json!({ "ms": 60_000, "step_ms": 20 })).await;
    rich("e").cancel(&cancelled).await.result();
    rich("e").status(&cancelled, "cancelled").await;
    let again = rich("e").call("nap", json!({ "ms": 60_000, "step_ms": 20 })).await;
    assert_eq!((again.rpc(), again.code()), (-32603, "cancelled"));
}

#[tokio::test]
async fn a_keyed_call_outlives_its_client() {
    let host = host("deadline = \"20s\"").await;
    let client = host.client().meta(KEY, json!("k"));
    let body = client.body("tools/call", json!({ "name": "stubborn", "arguments": writes("a", 1200) }));
    let call = tokio::spawn(client.post(&body).send());
    layby_tests::eventually("the run", || async { (runs(&host, "a") == 1).then_some(()) }).await;
    call.abort();
    let again = client.call("stubborn", writes("a", 1200)).await;
    assert!(text(again.result()).starts_with("wrote "), "{}", again.message);
    let lines = fs::read_to_string(host.setup().files().join("a")).unwrap();
    assert!(!lines.contains("cancelled true"));
    assert_eq!(runs(&host, "a"), 1);
}

#[tokio::test]
async fn outcomes_survive_a_crash() {
    let setup = Setup::new().config("[store]\nlease = \"1s\"\ntakeover = \"1s\"");
    let policy = format!("[call]\ndeadline = \"1s\"\n[grants]\nfiles = [{}]", setup.grant(true));
    let mut host = setup.plugin("probe", &policy).start().await;
    let keyed = |host: &Host, key: &str| host.client().meta(KEY, json!(key));
    let inline = keyed(&host, "inline").call("stubborn", writes("inline", 30)).await;
    let id = keyed(&host, "task").task("stubborn", writes("task", 2000)).await;
    let done = keyed(&host, "task").status(&id, "completed").await;
    // A client that cannot be asked what became of a change.
    let plain = |host: &Host| {
        let client = host.client_with(json!({ "extensions": { layby_tests::client::TASKS: {} } }));
        client.meta(KEY, json!("lost"))
    };
    let lost = plain(&host).task("stubborn", writes("lost", 3000)).await;
    host.kill();
    let host = host.restart().await;
    let again = keyed(&host, "inline").call("stubborn", writes("inline", 30)).await;
    assert_eq!(again.result(), inline.result());
    let again = keyed(&host, "task").call("stubborn", writes("task", 2000)).await;
    assert_eq!(text(again.result()), text(&done["result"]));
    let ended = plain(&host).ended(&lost).await;
    // Never run twice: the stored end says what became of it.
    let again = plain(&host).call("stubborn", writes("lost", 3000)).await;
    if ended["status"] == "completed" {
        assert_eq!(text(again.result()), text(&ended["result"]));
    } else {
        assert_eq!((again.rpc(), again.code()), (-32603, "outcome_unknown"));
    }
    assert_eq!([runs(&host, "inline"), runs(&host, "task"), runs(&host, "lost")], [1, 1, 1]);
}
