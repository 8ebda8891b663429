//! A task whose resume ends its host, again and again, is found and ended; the others are unharmed.

use std::sync::Arc;

use layby_tests::{Client, Host, Setup, client::everything, eventually, text};
use serde_json::json;

use super::world::{FAILPOINTS, accepted, is_ended};

/// As the host has it: after so many crashes alone a task ends. The first is beside others.
const POISON: u32 = 1 + 3;

#[tokio::test]
async fn a_task_that_kills_every_host_ends_and_harms_no_other() {
    let mut doomed = Doomed::new("[call]\ndeadline = \"100ms\"\nlinger = \"1s\"\n[grants]\nask = [\"form\"]");
    let host = doomed.mortal().await.expect("nothing is resumed yet");
    let client = host.client();
    let waits = client.task("ask", json!({})).await;
    let sleeps = client.task("nap", json!({ "ms": 3_600_000 })).await;
    let poison = poison(&host).await;
    for id in [&waits, &sleeps] {
        parked(&host, id).await;
    }
    client.update(&poison, json!({ "question": accepted("go") })).await.result();
    let (host, failed, crashes) = doomed.until_it_ends(host, &poison, |_| {}).await;
    assert_eq!(crashes, POISON);
    assert_eq!(failed["status"], "failed", "{failed}");
    assert_eq!(failed["error"]["data"]["code"], "resume_crashes", "{failed}");
    // The same host serves on, and another, which nothing kills, goes on with the others.
    let client = host.client();
    let works = client.task("nap", json!({ "ms": 300 })).await;
    assert_eq!(text(&client.status(&works, "completed").await["result"]), "slept 300 ms");
    assert_eq!(client.get(&waits).await.result()["status"], "input_required");
    assert_eq!(client.get(&sleeps).await.result()["status"], "working");
    let host = host.restart().await;
    let client = host.client();
    client.update(&waits, json!({ "question": accepted("well") })).await.result();
    assert!(text(&client.status(&waits, "completed").await["result"]).contains("well"));
    client.cancel(&sleeps).await.result();
    client.status(&sleeps, "cancelled").await;
}

/// The same where its plugin has one slot, which others take whenever a host has begun.
#[tokio::test]
async fn a_poison_task_of_a_busy_plugin_ends_too() {
    let policy = "[call]\ndeadline = \"100ms\"\nlinger = \"0s\"\n[grants]\nask = [\"form\"]\n[limits]\nconcurrency = 1";
    let mut doomed = Doomed::new(policy);
    let host = doomed.mortal().await.expect("nothing is resumed yet");
    let poison = poison(&host).await;
    host.client().update(&poison, json!({ "question": accepted("go") })).await.result();
    let busy = |host: &Host| {
        // Held, by a client without tasks: it leaves no row.
        let busy = Client::new(host.url(), json!({}));
        let nap = json!({ "name": "nap", "arguments": { "ms": 2000, "step_ms": 50 } });
        tokio::spawn(async move { busy.try_send(&busy.body("tools/call", nap)).await });
    };
    let (_host, failed, _) = doomed.until_it_ends(host, &poison, busy).await;
    assert_eq!(failed["error"]["data"]["code"], "resume_crashes", "{failed}");
}

/// Nobody's fault: whatever a host is killed for, it takes up what others left.
#[tokio::test]
async fn hosts_that_are_killed_in_quick_order_end_no_task() {
    let policy = "[call]\ndeadline = \"100ms\"\nlinger = \"0s\"\n[grants]\nask = [\"form\"]";
    // No shorter: a busy machine must not take a live host for dead.
    let config = "[store]\nlease = \"3s\"\ntakeover = \"200ms\"";
    let setup = Setup::new();
    let clock = setup.root().join("clock");
    let setup = setup.env("LAYBYTEST_CLOCK", &clock.display().to_string());
    let mut host = setup.plugin("probe", policy).config(config).start().await;
    let client = host.client();
    let mut tasks = Vec::new();
    for n in 0..24 {
        let arguments = match n % 3 {
            0 => json!({ "ms": 2000 + 200 * n }),
            _ => json!({ "ms": 4000 + 100 * n, "step_ms": 30 }),
        };
        tasks.push(client.task("nap", arguments).await);
    }
    for n in 0..16 {
        tokio::time::sleep(std::time::Duration::from_millis(100 + 97 * (n % 5))).await;
        host.kill();
        host = host.restart().await;
    }
    // Whichever were met alone have a pause.
    std::fs::write(&clock, "600000").expect("a clock");
    let client = host.client();
    for id in &tasks {
        let task = client.ended(id).await;
        assert_eq!(task["status"], "completed", "{task}");
    }
}

/// Hosts that die whenever a task that one of them resumes is live.
struct Doomed {
    setup: Arc<Setup>,
    clock: Clock,
}

impl Doomed {
    fn new(policy: &str) -> Self {
        let setup = Setup::new();
        let clock = Clock { file: setup.root().join("clock"), ahead: 0 };
        let setup = setup.env("LAYBYTEST_CLOCK", &clock.file.display().to_string());
        let config = "[store]\nlease = \"1s\"\ntakeover = \"500ms\"";
        Self { setup: Arc::new(setup.plugin("probe", policy).config(config)), clock }
    }

    async fn mortal(&self) -> Option<Host> {
        self.setup.mortal(&[(FAILPOINTS, "task.live.before=kill")]).await
    }

    /// Starts one host after the other until the task has ended, and has `begun` told of each: the last host, the task,
    /// and how many died.
    async fn until_it_ends(
        &mut self,
        mut host: Host,
        id: &str,
        begun: impl Fn(&Host),
    ) -> (Host, serde_json::Value, u32) {
        let mut crashes = 0;
        loop {
            if let Some(ended) = end_of(&mut host, id, &mut self.clock).await {
                return (host, ended, crashes);
            }
            crashes += 1;
            host = loop {
                assert!(crashes <= POISON, "it goes on after {crashes} crashes");
                match self.mortal().await {
                    Some(host) => break host,
                    None => crashes += 1,
                }
            };
            begun(&host);
        }
    }
}

/// A parked task that works for a while once it is answered.
async fn poison(host: &Host) -> String {
    let id = host.client().task("ask", json!({ "after_ms": 900 })).await;
    parked(host, &id).await;
    id
}

/// The hosts' clock.
struct Clock {
    file: std::path::PathBuf,
    ahead: u64,
}

/// How the task ended; none where the host was killed before. Time goes fast, so that the pauses are over soon.
async fn end_of(host: &mut Host, id: &str, clock: &mut Clock) -> Option<serde_json::Value> {
    let client = Client::new(host.url(), everything());
    let begin = std::time::Instant::now();
    loop {
        tokio::time::sleep(std::time::Duration::from_millis(80)).await;
        clock.ahead += 1000;
        std::fs::write(&clock.file, clock.ahead.to_string()).expect("a clock");
        let reply = client.try_send(&client.body("tasks/get", json!({ "taskId": id }))).await;
        match reply {
            Ok(reply) if is_ended(&reply.message["result"]["status"]) => return Some(reply.result().clone()),
            Ok(_) => {}
            Err(_) if host.killed_by() == Some(9) => return None,
            Err(_) => {}
        }
        assert!(begin.elapsed() < layby_tests::wait::BOUND, "neither a crash nor an end");
    }
}

async fn parked(host: &Host, id: &str) {
    eventually("the task is parked", || async {
        let tasks = host.tasks().await;
        tasks.iter().any(|task| task["taskId"] == id && task["parked"] == true).then_some(())
    })
    .await;
}
