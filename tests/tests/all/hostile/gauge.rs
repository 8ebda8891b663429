//! What a host holds, and how fast it answers those who do no harm.

use std::time::{Duration, Instant};

use layby_tests::{Client, Host, eventually, text};
use serde_json::json;
use tokio::{sync::oneshot, task::JoinHandle};

/// Resident memory that a host may have gained over all attacks of a test, in MiB: memories of the pool that stay warm for
/// the next run, and what the allocator keeps. A single attack could cost gigabytes.
const GROWTH: u64 = 160;
/// Descriptors that a host may have gained: connections of the test's own clients.
const DESCRIPTORS: usize = 40;
/// Longest that a call or poll of somebody else may take while the host is attacked, on a machine that runs other tests
/// at the same time. What hangs, hangs for good.
const ANSWERED: Duration = Duration::from_secs(8);
/// The same for one of two.
const USUALLY: Duration = Duration::from_millis(1500);

/// Resident memory in MiB, and open descriptors.
pub(super) fn holds(host: &Host) -> (u64, usize) {
    let pid = host.pid();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the host lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    (kib >> 10, std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the host lives").count())
}

/// Waits until `host` holds no more than `before`, within the bounds; what it holds.
pub(super) async fn given_back(host: &Host, before: (u64, usize), what: &str) -> (u64, usize) {
    let last = std::cell::Cell::new(before);
    let probe = || async {
        let now = holds(host);
        last.set(now);
        (now.0 <= before.0 + GROWTH && now.1 <= before.1 + DESCRIPTORS).then_some(now)
    };
    let back = tokio::time::timeout(Duration::from_secs(25), eventually(what, probe)).await;
    back.unwrap_or_else(|_| panic!("{what}: MiB and descriptors were {before:?} and are {:?}", last.get()))
}

/// Somebody who calls and polls, and measures.
pub(super) struct Bystander {
    stop: oneshot::Sender<()>,
    times: JoinHandle<Vec<Duration>>,
}

impl Bystander {
    /// Calls `echo`, and polls `task`, again and again.
    pub(super) fn watch(client: &Client, task: &str) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let (client, task) = (client.apart(), task.to_owned());
        let times = tokio::spawn(async move {
            let mut times = Vec::new();
            loop {
                let start = Instant::now();
                assert_eq!(text(client.call("echo", json!({ "text": "quick" })).await.result()), "quick");
                times.push(start.elapsed());
                let start = Instant::now();
                assert_eq!(client.get(&task).await.result()["status"], "working");
                times.push(start.elapsed());
                tokio::time::sleep(Duration::from_millis(60)).await;
                if stopped.try_recv() != Err(oneshot::error::TryRecvError::Empty) {
                    break times;
                }
            }
        });
        Self { stop, times }
    }

    /// Stops, and checks that answers came in time; half of them within the first time, and all within the second.
    pub(super) async fn hears(self, what: &str) -> (Duration, Duration) {
        // It may have ended by a panic, which comes out below.
        let _ = self.stop.send(());
        let mut times = self.times.await.expect("others are answered");
        times.sort_unstable();
        let (half, all) = (times[times.len() / 2], times[times.len() - 1]);
        assert!(half < USUALLY && all < ANSWERED, "{what}: half within {half:?}, all within {all:?}");
        (half, all)
    }
}

/// The policy of `probe`, whose tools have names that attacks have too.
pub(super) const OTHER: &str = "prefix = \"other_\"\n[call]\ndeadline = \"100ms\"";

/// Starts what a bystander needs: a task that naps longer than any test.
pub(super) async fn napping(host: &Host) -> String {
    host.client().task("other_nap", json!({ "ms": 600_000 })).await
}

/// Fails where `text` could do anything to a terminal that shows it.
pub(super) fn harmless(text: &str, what: &str) {
    let active = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    let line = text.lines().find(|line| line.contains(active));
    assert!(line.is_none(), "{what}: {line:?}");
}
