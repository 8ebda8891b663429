//! Scenarios that pass the failpoints. Each goes on, whichever process dies meanwhile.

use futures::future::BoxFuture;
use serde_json::{Value, json};

use super::world::{World, accepted, is_ended};

/// A scenario.
pub struct Plan {
    /// For messages, and for [`plan`].
    pub name: &'static str,
    /// Of the plugin `probe`.
    pub policy: &'static str,
    /// What its client does.
    pub run: for<'a> fn(&'a mut World) -> BoxFuture<'a, ()>,
}

const PARKS: &str = "[call]\ndeadline = \"100ms\"\ngrace = \"200ms\"\nlinger = \"0s\"";
const STAYS: &str = "[call]\ndeadline = \"100ms\"\ngrace = \"200ms\"\nlinger = \"60s\"";

/// All scenarios.
pub const PLANS: &[Plan] = &[
    Plan { name: "works", policy: STAYS, run: |world| Box::pin(works(world)) },
    Plan { name: "reports", policy: STAYS, run: |world| Box::pin(reports(world)) },
    Plan { name: "asks, parked", policy: PARKS, run: |world| Box::pin(asks(world, true)) },
    Plan { name: "asks, held", policy: STAYS, run: |world| Box::pin(asks(world, false)) },
    Plan { name: "sleeps", policy: PARKS, run: |world| Box::pin(sleeps(world)) },
    Plan { name: "keyed", policy: STAYS, run: |world| Box::pin(keyed(world)) },
    Plan {
        name: "is not answered and goes on, parked",
        policy: "[call]\ndeadline = \"100ms\"\nlinger = \"0s\"\ninput-deadline = \"1500ms\"\non-input-timeout = \"resume\"",
        run: |world| Box::pin(waits(world, true)),
    },
    Plan {
        name: "is not answered and goes on, held",
        policy: "[call]\ndeadline = \"100ms\"\nlinger = \"60s\"\ninput-deadline = \"1500ms\"\non-input-timeout = \"resume\"",
        run: |world| Box::pin(waits(world, false)),
    },
    Plan {
        name: "is not answered and fails, parked",
        policy: "[call]\ndeadline = \"100ms\"\nlinger = \"0s\"\ninput-deadline = \"1500ms\"",
        run: |world| Box::pin(waits(world, true)),
    },
    Plan {
        name: "is not answered and fails, held",
        policy: "[call]\ndeadline = \"100ms\"\nlinger = \"60s\"\ninput-deadline = \"1500ms\"",
        run: |world| Box::pin(waits(world, false)),
    },
    Plan { name: "is cancelled, parked", policy: PARKS, run: |world| Box::pin(cancelled(world, true)) },
    Plan { name: "is cancelled, held", policy: STAYS, run: |world| Box::pin(cancelled(world, false)) },
    Plan {
        name: "asks by retries, parked",
        policy: PARKS,
        run: |world| Box::pin(retries(world, None, true)),
    },
    Plan { name: "asks by retries, held", policy: STAYS, run: |world| Box::pin(retries(world, None, false)) },
    Plan {
        name: "keyed, asks by retries",
        policy: PARKS,
        run: |world| Box::pin(retries(world, Some("key"), true)),
    },
    Plan { name: "is told to stop", policy: STAYS, run: |world| Box::pin(stops(world)) },
    Plan { name: "is killed", policy: STAYS, run: |world| Box::pin(killed(world)) },
    Plan { name: "is left beside another", policy: STAYS, run: |world| Box::pin(left(world)) },
    Plan {
        name: "outgrows its journal",
        policy: "[call]\ndeadline = \"100ms\"\n[limits]\njournal = \"4KiB\"",
        run: |world| Box::pin(works_long(world)),
    },
    Plan {
        name: "expires",
        policy: "[call]\ndeadline = \"100ms\"\nlinger = \"60s\"\nabsence = \"1h\"",
        run: |world| Box::pin(expires(world)),
    },
    Plan {
        name: "writes files",
        policy: "[call]\ndeadline = \"100ms\"\n[grants]\nfiles = [FILES]",
        run: |world| Box::pin(writes(world)),
    },
    Plan { name: "prints", policy: STAYS, run: |world| Box::pin(prints(world)) },
];

/// The scenario of this name.
///
/// # Panics
/// If there is none.
pub fn plan(name: &str) -> &'static Plan {
    PLANS.iter().find(|plan| plan.name == name).unwrap_or_else(|| panic!("no scenario {name}"))
}

fn nap(ms: u64, step: u64) -> Value {
    json!({ "ms": ms, "step_ms": step })
}

async fn works(world: &mut World) {
    let id = world.task("nap", nap(2500, 50)).await;
    world.ended(&id).await;
}

async fn works_long(world: &mut World) {
    let id = world.task("nap", nap(4000, 5)).await;
    world.ended(&id).await;
}

async fn reports(world: &mut World) {
    let id = world.task("report", json!({ "count": 5, "pause_ms": 500 })).await;
    world.ended(&id).await;
}

async fn asks(world: &mut World, parked: bool) {
    let id = world.task("ask", json!({ "rounds": 3, "before_ms": 300, "after_ms": 300 })).await;
    for response in [accepted("first"), json!({ "action": "decline" }), accepted("third")] {
        let key = world.asks(&id).await;
        if parked {
            world.parked(&id).await;
        }
        world.answer(&id, &key, response).await;
        // Until the next question has another key, or there is none.
        world.until(&id, "the answer to be taken", |task| task["inputRequests"][&key].is_null()).await;
    }
    world.ended(&id).await;
}

async fn sleeps(world: &mut World) {
    let id = world.task("nap", json!({ "ms": 2500 })).await;
    world.parked(&id).await;
    world.ended(&id).await;
}

async fn keyed(world: &mut World) {
    let id = world.keyed("key", "nap", nap(1500, 50)).await;
    assert_eq!(world.keyed("key", "nap", nap(1500, 50)).await, id, "a repeat finds the same run");
    let task = world.ended(&id).await;
    let outcome = world.outcome("key", "nap", nap(1500, 50)).await;
    assert_eq!(outcome["content"], task["result"]["content"]);
}

async fn retries(world: &mut World, key: Option<&str>, parked: bool) {
    world.without_tasks();
    let arguments = json!({ "rounds": 3, "before_ms": 300, "after_ms": 300 });
    let mut asked = world.asked(key, "ask", &arguments).await;
    for response in [accepted("first"), json!({ "action": "decline" }), accepted("third")] {
        if parked {
            world.all_parked().await;
        }
        if key.is_some() {
            let again = world.asked(key, "ask", &arguments).await;
            assert_eq!(again.0, asked.0, "a repeat of the key is asked the same");
        }
        match world.retry(key, "ask", &arguments, (&asked.0, &asked.1), response).await {
            Some(next) => asked = next,
            None => {
                let repeat =
                    world.retry(key, "ask", &arguments, (&asked.0, &asked.1), accepted("third")).await;
                assert_eq!(repeat, None, "an equal repeat gets the outcome");
                return;
            }
        }
    }
    panic!("it goes on asking: {asked:?}");
}

async fn waits(world: &mut World, parked: bool) {
    let id = world.task("ask", json!({ "rounds": 2 })).await;
    if parked {
        world.parked(&id).await;
    }
    world.ended(&id).await;
}

async fn cancelled(world: &mut World, parked: bool) {
    let id =
        if parked { world.task("ask", json!({})).await } else { world.task("nap", nap(60_000, 20)).await };
    if parked {
        world.parked(&id).await;
    }
    world.cancel(&id).await;
    world.ended(&id).await;
}

async fn stops(world: &mut World) {
    let asked = world.task("ask", json!({})).await;
    let works = world.task("nap", nap(4500, 20)).await;
    let key = world.asks(&asked).await;
    world.terminate().await;
    world.answer(&asked, &key, accepted("late")).await;
    world.ended(&asked).await;
    world.ended(&works).await;
}

async fn killed(world: &mut World) {
    let asked = world.task("ask", json!({})).await;
    let works = world.task("nap", nap(3000, 20)).await;
    let key = world.asks(&asked).await;
    world.kill().await;
    world.parked(&asked).await;
    world.answer(&asked, &key, accepted("late")).await;
    world.ended(&asked).await;
    world.ended(&works).await;
}

async fn left(world: &mut World) {
    let asked = world.task("ask", json!({})).await;
    let works = world.task("nap", nap(3000, 20)).await;
    let cancelled = world.task("ask", json!({})).await;
    let key = world.asks(&asked).await;
    world.beside().await;
    world.kill_other();
    world.cancel(&cancelled).await;
    world.ended(&cancelled).await;
    world.parked(&asked).await;
    world.answer(&asked, &key, accepted("late")).await;
    world.ended(&asked).await;
    world.ended(&works).await;
}

async fn expires(world: &mut World) {
    let works = world.task("nap", nap(60_000, 20)).await;
    world.ahead(2 * 3_600_000).await;
    world.ended(&works).await;
}

async fn writes(world: &mut World) {
    // A task before its first change.
    let mut steps = vec![json!({ "do": "nap", "ms": 400 })];
    for n in 1..=6 {
        steps.push(json!({ "do": "append", "path": "/files/lines", "text": format!("line {n}\n") }));
        steps.push(json!({ "do": "nap", "ms": 50 }));
    }
    steps.push(json!({ "do": "read", "path": "/files/lines" }));
    let id = world.task("steps", json!({ "steps": steps })).await;
    let file = world.files().join("lines");
    let lines = || std::fs::read_to_string(&file).expect("the tool's file");
    let asked =
        |task: &Value| task["inputRequests"].as_object().and_then(|asked| asked.keys().next().cloned());
    let task =
        world.until(&id, "an end or a question", |t| is_ended(&t["status"]) || asked(t).is_some()).await;
    if let Some(key) = asked(&task) {
        // Each line is two changes: the file is opened, which could make it, and the line is appended.
        let number = key.strip_prefix("layby/outcome-file-").and_then(|n| n.parse::<usize>().ok());
        let number = number.unwrap_or_else(|| panic!("another question: {task}"));
        let happened = number % 2 == 0 || lines().lines().count() > number / 2;
        let choice = if happened { "it happened" } else { "retry" };
        let content = json!({ "action": "accept", "content": { "choice": choice } });
        world.answer(&id, &key, content).await;
    }
    world.ended(&id).await;
    let whole: String = (1..=6).map(|n| format!("line {n}\n")).collect();
    assert_eq!(lines(), whole, "something was done twice, or not at all");
}

async fn prints(world: &mut World) {
    let id = world.task("note", json!({ "to": ["stderr"], "text": "once only", "ms": 2500 })).await;
    world.ended(&id).await;
}
