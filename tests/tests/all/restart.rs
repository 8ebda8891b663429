//! Crashes, several processes on one folder, databases that cannot be used, and expiry.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use layby_tests::{Host, Setup, eventually, host::replace, text};
use serde_json::{Value, json};
use sqlx::{Connection as _, Executor as _, SqliteConnection};

/// Short leases, so that tests do not wait for the real ones.
const LEASES: &str = "[store]\nlease = \"1s\"\ntakeover = \"1s\"";
const SLOW: &str = "[call]\ndeadline = \"100ms\"\ngrace = \"200ms\"";

async fn slow() -> Host {
    Setup::probe(SLOW).config(LEASES).start().await
}

#[tokio::test]
async fn after_a_crash_every_handle_resolves() {
    let mut host = slow().await;
    let client = host.client();
    let done = client.task("nap", json!({ "ms": 300 })).await;
    let completed = client.status(&done, "completed").await;
    let stopped = client.task("nap", json!({ "ms": 60_000, "step_ms": 20 })).await;
    client.cancel(&stopped).await.result();
    let cancelled = client.status(&stopped, "cancelled").await;
    let broken = client.task("trap", json!({ "after_ms": 300 })).await;
    let failed = client.status(&broken, "failed").await;
    let mut lost = Vec::new();
    for n in 0..30 {
        let (tool, arguments) =
            if n % 2 == 0 { ("nap", json!({ "ms": 60_000 })) } else { ("ask", json!({})) };
        lost.push(client.task(tool, arguments).await);
        if n == 6 {
            // A plugin has 8 slots: the rest of its naps queue, and are tasks all the same.
            assert_eq!(client.get(&lost[6]).await.result()["status"], "working");
        }
    }
    host.kill();
    let host = host.restart().await;
    let client = host.client();
    for (id, task) in [(done, completed), (stopped, cancelled), (broken, failed)] {
        assert_eq!(client.get(&id).await.result(), &task);
    }
    for (n, id) in lost.into_iter().enumerate() {
        if n % 2 == 0 {
            // It goes on; and is stopped like any other.
            assert_eq!(client.get(&id).await.result()["status"], "working");
            client.cancel(&id).await.result();
            client.status(&id, "cancelled").await;
        } else {
            client.status(&id, "input_required").await;
            client.accept(&id, "question", json!({ "value": "late" })).await.result();
            assert!(text(&client.status(&id, "completed").await["result"]).contains("late"));
        }
    }
    assert_eq!(text(client.call("nap", json!({ "ms": 1 })).await.result()), "slept 1 ms");
}

#[tokio::test]
async fn two_processes_share_a_folder_and_the_dead_ones_tasks_go_on() {
    let mut first = slow().await;
    let second = first.beside().await;
    let (one, two) = (first.client(), second.client());
    // Either answers for either's tasks.
    let asked = one.task("ask", json!({})).await;
    assert_eq!(two.get(&asked).await.result()["status"], "input_required");
    two.accept(&asked, "question", json!({ "value": "from the other" })).await.result();
    let task = two.status(&asked, "completed").await;
    assert!(text(&task["result"]).contains("from the other"), "{task}");
    let cancelled = one.task("nap", json!({ "ms": 60_000, "step_ms": 20 })).await;
    two.cancel(&cancelled).await.result();
    one.status(&cancelled, "cancelled").await;
    // One dies; the other's work goes on.
    let working = one.task("nap", json!({ "ms": 3000, "step_ms": 20 })).await;
    let waiting = one.task("ask", json!({})).await;
    let kept = two.task("ask", json!({})).await;
    first.kill();
    assert_eq!(text(&two.status(&working, "completed").await["result"]), "slept 3000 ms");
    for id in [&waiting, &kept] {
        assert_eq!(two.get(id).await.result()["status"], "input_required");
        two.accept(id, "question", json!({ "value": "still here" })).await.result();
        assert!(text(&two.status(id, "completed").await["result"]).contains("still here"));
    }
}

#[tokio::test]
async fn sigterm_lets_calls_end() {
    let mut host = Setup::probe("[call]\ndeadline = \"20s\"\nhold = \"30s\"").start().await;
    let client = host.client();
    let mut quiet =
        client.stream("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } })).await;
    futures::StreamExt::next(&mut quiet).await.unwrap();
    let body = client.body("tools/call", json!({ "name": "nap", "arguments": { "ms": 1500 } }));
    let sent = client.clone();
    let call = tokio::spawn(async move { sent.send(&body).await });
    // It is in once a second call is answered beside it.
    client.apart().call("nap", json!({ "ms": 300 })).await.result();
    host.signal("TERM");
    let reply = call.await.unwrap();
    assert_eq!(text(reply.result()), "slept 1500 ms");
    let rest: Vec<Value> = futures::StreamExt::collect(quiet).await;
    assert!(rest.last().is_some_and(|m| m["result"].is_object()), "the stream ends in order: {rest:?}");
    assert_eq!(host.ended().await, Some(0));
    assert!(client.apart().try_send(&client.body("tools/list", json!({}))).await.is_err());
}

#[tokio::test]
async fn sigterm_hands_over_what_does_not_end_by_itself() {
    let mut host = Setup::probe(SLOW).config("[serve]\ndrain = \"300ms\"").start().await;
    let client = host.client();
    let working = client.task("nap", json!({ "ms": 60_000 })).await;
    let waiting = client.task("ask", json!({})).await;
    host.signal("TERM");
    assert_eq!(host.ended().await, Some(0));
    let host = host.restart().await;
    let client = host.client();
    assert_eq!(client.get(&working).await.result()["status"], "working");
    client.cancel(&working).await.result();
    client.status(&working, "cancelled").await;
    client.accept(&waiting, "question", json!({ "value": "later" })).await.result();
    client.status(&waiting, "completed").await;
}

async fn database(data: &Path) -> SqliteConnection {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(data.join("layby.db"));
    SqliteConnection::connect_with(&options).await.unwrap()
}

#[tokio::test]
async fn a_database_that_cannot_be_used_is_named_and_kept() {
    let config = "[store]\nbusy-timeout = \"300ms\"";
    let mut host = Setup::probe(SLOW).config(config).start().await;
    let client = host.client();
    let id = client.task("nap", json!({ "ms": 300 })).await;
    client.status(&id, "completed").await;
    host.signal("TERM");
    host.ended().await;
    let data = host.setup().data();
    let refused = |code: &'static str| {
        let setup = host.setup();
        async move {
            let done = setup.start_failing().await;
            assert_eq!(done.code, Some(3), "{code}: {done:?}");
            assert!(done.err.contains(code), "{code}: {done:?}");
            assert!(done.out.is_empty(), "{done:?}");
        }
    };
    // Locked by another program.
    let mut lock = database(&data).await;
    lock.execute("BEGIN EXCLUSIVE").await.unwrap();
    refused("store_locked").await;
    lock.execute("ROLLBACK").await.unwrap();
    // Written by a newer version.
    lock.execute(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (99999999, 'the future', 1, x'00', 0)",
    )
    .await
    .unwrap();
    refused("store_newer").await;
    lock.execute("DELETE FROM _sqlx_migrations WHERE version = 99999999").await.unwrap();
    lock.close().await.unwrap();
    // Damaged.
    let file = data.join("layby.db");
    let good = fs::read(&file).unwrap();
    let mut bad = good.clone();
    let middle = bad.len().min(16 * 1024);
    bad[..middle].fill(0x5a);
    fs::write(&file, &bad).unwrap();
    refused("store_corrupt").await;
    fs::write(&file, &good).unwrap();
    // Nothing was lost by all this.
    let host = host.restart().await;
    assert_eq!(host.client().get(&id).await.result()["status"], "completed");
}

/// A small file system, as root; unmounted when dropped.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let options = format!("size={size},mode=0700");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "layby-test"]).arg(at).status();
        if mount.is_ok_and(|s| s.success()) {
            return Some(Self(at.to_owned()));
        }
        eprintln!("SKIPPED: a full disk cannot be tried, because mounting a small file system needs root");
        None
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test]
async fn a_full_disk_refuses_to_start_and_loses_nothing_while_it_runs() {
    let tiny = Setup::new().cold();
    let Some(_mounted) = Small::mount(&tiny.data(), "32k") else { return };
    let done = tiny.start_failing().await;
    assert_eq!(done.code, Some(3), "{done:?}");
    assert!(done.err.contains("store_full"), "{done:?}");

    let setup = Setup::probe("[call]\ndeadline = \"100ms\"\nhold = \"20s\"")
        .config("[host]\nmin-free-space = \"16KiB\"");
    let Some(_mounted) = Small::mount(&setup.data(), "24m") else { return };
    let host = setup.start().await;
    let client = host.client();
    let id = client.task("nap", json!({ "ms": 300 })).await;
    let before = client.status(&id, "completed").await;
    let running = client.task("nap", json!({ "ms": 3000 })).await;
    let filler = host.setup().data().join("filler");
    // Until it is full: the last write fails.
    let mut file = fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    drop(file);
    // The work is done all the same: the answer is held instead of promoted.
    let held = client.call("nap", json!({ "ms": 1500 })).await;
    assert_eq!(text(held.result()), "slept 1500 ms");
    assert_eq!(client.get(&id).await.result(), &before);
    let asked = client.call("ask", json!({})).await;
    assert!(matches!(asked.code(), "low_disk_space" | "store_full"), "{}", asked.message);
    // With space again, what was running ends as it would have.
    fs::remove_file(&filler).unwrap();
    client.status(&running, "completed").await;
    eventually("promotion", || async {
        let reply = client.call("nap", json!({ "ms": 1500 })).await;
        (reply.result()["resultType"] == "task").then_some(())
    })
    .await;
}

/// P7
#[tokio::test]
async fn a_handle_past_its_ttl_says_how_its_task_had_ended() {
    let policy = "[call]\ndeadline = \"50ms\"\nabsence = \"700ms\"\ninput-deadline = \"600ms\"\n[limits]\nactive-time = \"1500ms\"";
    let host = Setup::probe(policy).start().await;
    let client = host.client();
    let ends = [
        (client.task("nap", json!({ "ms": 200 })).await, "completed"),
        (client.task("trap", json!({ "after_ms": 200 })).await, "failed"),
        (client.task("ask", json!({})).await, "failed"),
        (client.task("nap", json!({ "ms": 60_000 })).await, "completed"),
    ];
    let cancelled = client.task("nap", json!({ "ms": 60_000, "step_ms": 20 })).await;
    client.cancel(&cancelled).await.result();
    for (id, status) in ends.iter().map(|(id, s)| (id, *s)).chain([(&cancelled, "cancelled")]) {
        let expired = eventually("the end of the TTL", || async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let reply = client.get(id).await;
            reply.message["error"].is_object().then_some(reply)
        })
        .await;
        assert_eq!((expired.rpc(), expired.code()), (-32602, "task_expired"), "{}", expired.message);
        assert_eq!(expired.message["error"]["data"]["status"], status, "{}", expired.message);
        for late in [client.cancel(id).await, client.update(id, json!({})).await] {
            assert_eq!(late.code(), "task_expired", "{}", late.message);
        }
    }
    let never = client.get("99999999-9999-4999-8999-999999999999").await;
    assert_eq!(never.code(), "task_unknown");
    // Also after a restart.
    let host = host.restart().await;
    assert_eq!(host.client().get(&ends[0].0).await.code(), "task_expired");
}

#[tokio::test]
async fn a_bad_configuration_is_told_before_anything_starts() {
    for (config, parts) in [
        ("[serve]\nmax-bodyy = \"1MiB\"", ["max-bodyy", "max-body"]),
        ("[host]\nconcurrency = \"many\"", ["layby.toml:2:15", "whole number"]),
        ("[limits]\nmemory = \"1TiB\"", ["memory", "budget"]),
        ("not toml", ["layby.toml", "1"]),
    ] {
        let setup = Setup::new().cold().config(config);
        let done = setup.start_failing().await;
        assert_eq!(done.code, Some(2), "{config}: {done:?}");
        for part in parts.into_iter().chain(["config_invalid"]) {
            assert!(done.err.contains(part), "{part} is missing for {config}: {done:?}");
        }
        assert!(!setup.data().exists());
    }
    let unknown = Setup::new().cold().env("LAYBY_SERVE_MAX_BODDY", "1MiB").start_failing().await;
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.err.contains("LAYBY_SERVE_MAX_BODY"), "{unknown:?}");
    // A missing folder of plugins, and one that appears later.
    let setup = Setup::new();
    replace(&setup.root().join("note"), b"x");
    let host = setup.env("LAYBY_HOST_CONCURRENCY", "3").start().await;
    assert!(host.client().tools().await.is_empty());
}

/// Work that still runs when its handle's life is over is stopped, not orphaned (P7).
#[tokio::test]
async fn work_past_its_ttl_is_stopped() {
    let setup = Setup::new();
    let clock = setup.root().join("clock");
    let policy = format!(
        "[call]\ndeadline = \"200ms\"\nabsence = \"1h\"\n[grants]\nask = [\"form\"]\nfiles = [{}]",
        setup.grant(true)
    );
    let setup = setup.env("LAYBYTEST_CLOCK", &clock.display().to_string()).plugin("probe", &policy);
    let host = setup.start().await;
    let client = host.client();
    let works = client.task("stubborn", json!({ "ms": 60_000, "path": "/files/works" })).await;
    let waits = client.task("ask", json!({})).await;
    // Past the ten minutes that it may be active, and the hour that its client may be away.
    std::fs::write(&clock, "7200000").unwrap();
    let ended = client.ended(&works).await;
    assert_eq!(ended["status"], "failed", "{ended}");
    assert_eq!(ended["error"]["data"]["code"], "task_expired", "{ended}");
    let file = host.setup().files().join("works");
    let written = std::fs::metadata(&file).unwrap().len();
    // The one that waits has a day for its answer.
    assert_eq!(client.get(&waits).await.result()["status"], "input_required");
    // After that day, and before the hour that its client may be away is over too.
    std::fs::write(&clock, "88200000").unwrap();
    assert_eq!(client.ended(&waits).await["error"]["data"]["code"], "input_timed_out");
    assert_eq!(std::fs::metadata(&file).unwrap().len(), written, "it was stopped");
}
