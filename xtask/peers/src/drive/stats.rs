//! What was measured.

use std::{
    fs,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// What passed while the server was measured.
pub(super) struct Window {
    pub(super) seconds: f64,
    used: Option<Duration>,
}

impl Window {
    /// Waits for `begin`, then for `end`; `pid` is the server's process, where it is known.
    pub(super) async fn watch(pid: Option<u32>, begin: Instant, end: Instant) -> Result<Self> {
        let watched = Self::begin(pid, begin).await?;
        tokio::time::sleep_until(end.into()).await;
        watched.end()
    }

    /// Waits for `begin`; what is measured ends where the caller says so.
    pub(super) async fn begin(pid: Option<u32>, begin: Instant) -> Result<Watched> {
        tokio::time::sleep_until(begin.into()).await;
        let before = pid.map(processor_time).transpose()?;
        Ok(Watched { pid, before, started: Instant::now() })
    }

    /// The server's processor time for each of `count` requests, in microseconds.
    pub(super) fn cpu_us(&self, count: usize) -> Option<f64> {
        self.used.map(|used| used.as_secs_f64() * 1e6 / number(count))
    }
}

/// A window that is open.
pub(super) struct Watched {
    pid: Option<u32>,
    before: Option<Duration>,
    started: Instant,
}

impl Watched {
    pub(super) fn end(self) -> Result<Window> {
        let after = self.pid.map(processor_time).transpose()?;
        let used = after.zip(self.before).map(|(after, before)| after - before);
        Ok(Window { seconds: self.started.elapsed().as_secs_f64(), used })
    }
}

/// Latencies of one kind of request.
#[derive(Default)]
pub(super) struct Latencies {
    nanos: Vec<u64>,
}

impl Latencies {
    pub(super) fn add(&mut self, latency: Duration) {
        self.nanos.push(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.nanos.extend(other.nanos);
    }

    pub(super) fn count(&self) -> usize {
        self.nanos.len()
    }

    /// Count, rate over `seconds`, and percentiles in microseconds.
    pub(super) fn summary(mut self, seconds: f64) -> Value {
        self.nanos.sort_unstable();
        json!({
            "count": self.nanos.len(),
            "per_second": number(self.nanos.len()) / seconds,
            "p50_us": self.percentile(50),
            "p99_us": self.percentile(99),
            "max_us": self.percentile(100),
        })
    }

    /// Of sorted latencies, the smallest that `percent` of all do not exceed.
    fn percentile(&self, percent: usize) -> Option<f64> {
        let rank = (self.nanos.len() * percent).div_ceil(100);
        let nanos = self.nanos.get(rank.saturating_sub(1))?;
        Some(Duration::from_nanos(*nanos).as_secs_f64() * 1e6)
    }
}

/// A count as a number to divide by.
pub(super) fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

/// Processor time of a process so far, in user and kernel mode.
fn processor_time(pid: u32) -> Result<Duration> {
    let stat =
        fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("no process {pid}"))?;
    // The program's name may have spaces; it ends at the last parenthesis.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks: Vec<u64> = after.split_whitespace().skip(11).take(2).filter_map(|t| t.parse().ok()).collect();
    ensure!(ticks.len() == 2, "/proc/{pid}/stat is not as expected");
    // The kernel's USER_HZ, fixed for user space.
    Ok(Duration::from_millis(ticks.iter().sum::<u64>() * 10))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn percentiles() {
        let mut latencies = Latencies::default();
        (1..=200).rev().for_each(|us| latencies.add(Duration::from_micros(us)));
        let summary = latencies.summary(2.0);
        assert_eq!(summary["per_second"], 100.0);
        assert_eq!(summary["p50_us"], 100.0);
        assert_eq!(summary["p99_us"], 198.0);
        assert_eq!(summary["max_us"], 200.0);
        assert_eq!(Latencies::default().summary(1.0)["p50_us"], Value::Null);
    }

    #[test]
    fn own_processor_time() {
        processor_time(std::process::id()).unwrap();
    }
}
