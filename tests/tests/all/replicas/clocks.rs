//! Clocks that are wrong by a day, from the start or at once.

use std::{path::PathBuf, time::Duration};

use layby_tests::{Host, Setup, eventually, postgres::database, text};
use serde_json::json;

use super::{CONFIG, Fleet, POLICY, answers, nap, question};

const DAY: i64 = 24 * 3_600_000;

/// A replica with a clock of its own, and the file that moves it.
async fn replica(url: &str, ahead: i64) -> (Host, PathBuf) {
    let setup = Setup::probe(POLICY).config(CONFIG).store(url);
    let clock = setup.root().join("clock");
    std::fs::write(&clock, format!("jump {ahead}")).unwrap();
    let setup = setup.env("LAYBYTEST_CLOCK", &clock.display().to_string());
    (setup.start().await, clock)
}

#[tokio::test]
async fn replicas_whose_clocks_are_a_day_apart_agree_on_the_time_of_tasks() {
    let url = database().await;
    let (right, ahead, behind) = tokio::join!(replica(&url, 0), replica(&url, DAY), replica(&url, -DAY));
    let clocks = [right.1, ahead.1, behind.1];
    let fleet = Fleet::of(vec![right.0, ahead.0, behind.0]).await;
    let client = fleet.client();
    // Of each replica: one that waits, one that sleeps, one at work, and one that has ended.
    let mut lives = Vec::new();
    for host in &fleet.hosts {
        let taker = host.client();
        let asks = taker.task("ask", json!({ "rounds": 2 })).await;
        let sleeps = taker.task("nap", json!({ "ms": 4000 })).await;
        let works = taker.task("nap", nap(4000)).await;
        let ended = taker.task("nap", nap(300)).await;
        taker.status(&ended, "completed").await;
        lives.push((asks, sleeps, works, ended));
    }
    // Time enough for each to look at all of them.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    // And now the clocks jump.
    for (clock, ahead) in clocks.iter().zip([DAY, -DAY, DAY]) {
        std::fs::write(clock, format!("jump {ahead}")).unwrap();
    }
    for (asks, sleeps, works, ended) in &lives {
        for n in 0..2 {
            let key = question(&client, asks).await;
            client.accept(asks, &key, json!({ "value": n.to_string() })).await.result();
            client.until(asks, "the answer to be taken", |task| task["inputRequests"][&key].is_null()).await;
        }
        let task = client.status(asks, "completed").await;
        assert_eq!(answers(&task), json!([{ "value": "0" }, { "value": "1" }]));
        for id in [sleeps, works] {
            assert_eq!(text(&client.status(id, "completed").await["result"]), "slept 4000 ms");
        }
        // What has ended is there at every replica.
        for host in &fleet.hosts {
            assert_eq!(host.client().get(ended).await.result()["status"], "completed");
        }
    }
    // Nobody took a living replica's tasks for those of a dead one.
    for host in &fleet.hosts {
        assert!(!host.log().contains("taking over"), "{}", host.log());
    }
}

/// On SQLite a host has its own clock alone.
#[tokio::test]
async fn a_jump_of_the_clock_ends_nothing_before_it_has_lasted() {
    let policy = "[call]\ndeadline = \"100ms\"\nabsence = \"1h\"\n[grants]\nask = [\"form\"]";
    let setup = Setup::probe(policy);
    let clock = setup.root().join("clock");
    let host = setup.env("LAYBYTEST_CLOCK", &clock.display().to_string()).start().await;
    let client = host.client();
    let done = client.task("nap", nap(300)).await;
    client.status(&done, "completed").await;
    let waits = client.task("ask", json!({})).await;
    let works = client.task("nap", nap(6000)).await;
    for ahead in [100 * DAY, -100 * DAY] {
        std::fs::write(&clock, format!("jump {ahead}")).unwrap();
        eventually("the jump to be seen", || async {
            host.log().contains("the wall clock has jumped").then_some(())
        })
        .await;
        // Time enough to look at all tasks, for deadlines and for the ends of their handles.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        for (id, status) in [(&done, "completed"), (&waits, "input_required"), (&works, "working")] {
            assert_eq!(client.get(id).await.result()["status"], status);
        }
    }
    // It was a mistake: everything goes on.
    std::fs::write(&clock, "jump 0").unwrap();
    let key = question(&client, &waits).await;
    client.accept(&waits, &key, json!({ "value": "in time" })).await.result();
    client.status(&waits, "completed").await;
    assert_eq!(text(&client.status(&works, "completed").await["result"]), "slept 6000 ms");
}

/// Processes that begin after the jump know of it from those before.
#[tokio::test]
async fn a_jump_does_not_count_at_once_in_a_process_that_begins_after_it() {
    let policy =
        "[call]\ndeadline = \"100ms\"\nabsence = \"1h\"\nlinger = \"0s\"\n[grants]\nask = [\"form\"]";
    let setup = Setup::probe(policy);
    let clock = setup.root().join("clock");
    let mut host = setup.env("LAYBYTEST_CLOCK", &clock.display().to_string()).start().await;
    let client = host.client();
    let done = client.task("nap", nap(300)).await;
    client.status(&done, "completed").await;
    let waits = client.task("ask", json!({})).await;
    let sleeps = client.task("nap", json!({ "ms": 8000 })).await;
    std::fs::write(&clock, format!("jump {}", 100 * DAY)).unwrap();
    eventually("the jump to be seen", || async {
        host.log().contains("the wall clock has jumped").then_some(())
    })
    .await;
    let all_live = async |host: &Host| {
        // Time enough to look at all tasks.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        for (id, status) in [(&done, "completed"), (&waits, "input_required"), (&sleeps, "working")] {
            assert_eq!(host.client().get(id).await.result()["status"], status, "{}", host.log());
        }
    };
    let second = host.beside().await;
    all_live(&second).await;
    drop(second);
    host.kill();
    host = host.restart().await;
    all_live(&host).await;
    std::fs::write(&clock, "jump 0").unwrap();
    let client = host.client();
    let key = question(&client, &waits).await;
    client.accept(&waits, &key, json!({ "value": "in time" })).await.result();
    client.status(&waits, "completed").await;
    assert_eq!(text(&client.status(&sleeps, "completed").await["result"]), "slept 8000 ms");
}
