//! `wasi:clocks`. Grant: none needed. Class: read. Records: each reading, as a difference to the one before.
//!
//! Monotonic time is the run's own: it starts at [`BASE_NS`] and never goes back. A resumed run goes on
//! from the last value seen, so no value of the machine's own clock ever reaches a guest.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use wasmtime::component::Resource;
use wasmtime_wasi::p2::{
    DynPollable, Pollable,
    bindings::clocks::{
        monotonic_clock,
        wall_clock::{self, Datetime},
    },
    subscribe,
};

use super::{State, state::Ended};
use crate::journal::Call;

/// Monotonic time at the start of a run: Go's runtime refuses a clock that reads 0.
const BASE_NS: u64 = 1_000_000_000;
/// What guests are told of both clocks' resolution: the same on every machine.
const RESOLUTION_NS: u32 = 1_000;
/// Longer sleeps count as this long: about 30 years, which every timer can hold.
const LONGEST_SLEEP: Duration = Duration::from_secs(1 << 30);

const NS_PER_S: u64 = 1_000_000_000;

/// When a run began.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    /// An instant of this process.
    pub at: Instant,
    /// Nanoseconds that the run had lasted then: 0 for one that begins.
    pub before: u64,
}

impl Began {
    /// A run that begins now.
    pub fn now() -> Self {
        Self { at: Instant::now(), before: 0 }
    }
}

/// Between two readings of a clock that goes by steps.
const STEP_NS: u64 = 1_000;

/// True where a test wants clocks that depend on nothing but what the run did before: what it does again is then the
/// same to the last bit.
fn goes_by_steps() -> bool {
    static STEPS: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        cfg!(feature = "test-hooks") && std::env::var_os("LAYBYTEST_STEPS").is_some()
    });
    *STEPS
}

/// The clocks of one run.
pub(super) struct RunClock {
    began: Began,
    last: u64,
}

impl RunClock {
    pub(super) const fn new(began: Began) -> Self {
        Self { began, last: BASE_NS }
    }

    /// The run's time at the instant that it is measured from.
    const fn base(&self) -> u64 {
        BASE_NS.saturating_add(self.began.before)
    }

    /// Nanoseconds of the run's monotonic time.
    pub(super) fn monotonic(&mut self) -> u64 {
        if goes_by_steps() {
            return self.last.saturating_add(STEP_NS);
        }
        let passed = u64::try_from(self.began.at.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last = self.last.max(self.base().saturating_add(passed));
        self.last
    }

    /// Nanoseconds since 1970.
    fn wall(&self) -> u64 {
        const SOME_DAY: u64 = 1_900_000_000 * NS_PER_S;
        if goes_by_steps() {
            return SOME_DAY.saturating_add(self.last);
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }

    /// The first of `deadlines`, where the clock goes by steps and reads nothing else.
    pub(super) fn steps_to(&self, deadlines: &[Option<u64>]) -> Option<u64> {
        let all = deadlines.iter().copied().collect::<Option<Vec<u64>>>()?;
        all.into_iter().min().filter(|_| goes_by_steps()).map(|first| first.max(self.last))
    }

    /// A timer for `deadline` has fired, or this was read before: the clock must not read less from now on.
    pub(super) fn reached(&mut self, deadline: u64) {
        self.last = self.last.max(deadline);
    }

    /// How long it is to `deadline`.
    pub(super) fn left(&self, deadline: u64) -> Duration {
        self.wakes(deadline).saturating_duration_since(tokio::time::Instant::now())
    }

    /// When the host has to wake for `deadline`.
    fn wakes(&self, deadline: u64) -> tokio::time::Instant {
        if goes_by_steps() {
            let left = Duration::from_nanos(deadline.saturating_sub(self.last)).min(LONGEST_SLEEP);
            return tokio::time::Instant::now() + left;
        }
        let after = Duration::from_nanos(deadline.saturating_sub(self.base()));
        let now = Instant::now();
        let left = after.saturating_sub(now.duration_since(self.began.at)).min(LONGEST_SLEEP);
        tokio::time::Instant::from_std(now + left)
    }
}

/// What stands behind the pollable of a timer.
struct Timer {
    wakes: tokio::time::Instant,
}

#[wasmtime_wasi::async_trait]
impl Pollable for Timer {
    async fn ready(&mut self) {
        tokio::time::sleep_until(self.wakes).await;
    }
}

impl State {
    fn timer(&mut self, deadline: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.journal.note("subscribe", &deadline.to_le_bytes());
        let timer = self.table.push(Timer { wakes: self.clock.wakes(deadline) })?;
        let pollable = subscribe(&mut self.table, timer)?;
        self.timers.insert(pollable.rep(), deadline);
        Ok(pollable)
    }
}

impl wall_clock::Host for State {
    fn now(&mut self) -> wasmtime::Result<Datetime> {
        let ns = self.journal.clock(Call::Wall, || self.clock.wall()).map_err(Ended::mismatch)?;
        // A remainder of 10^9 fits.
        Ok(Datetime { seconds: ns / NS_PER_S, nanoseconds: (ns % NS_PER_S) as u32 })
    }

    fn resolution(&mut self) -> wasmtime::Result<Datetime> {
        Ok(Datetime { seconds: 0, nanoseconds: RESOLUTION_NS })
    }
}

impl monotonic_clock::Host for State {
    fn now(&mut self) -> wasmtime::Result<u64> {
        let now = self.journal.clock(Call::Monotonic, || self.clock.monotonic()).map_err(Ended::mismatch)?;
        self.clock.reached(now);
        Ok(now)
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(RESOLUTION_NS.into())
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.timer(when)
    }

    fn subscribe_duration(&mut self, span: u64) -> wasmtime::Result<Resource<DynPollable>> {
        // Read through the journal, so that the deadline is the same in a replay.
        let now = monotonic_clock::Host::now(self)?;
        self.timer(now.saturating_add(span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_late_enough_for_go_and_never_goes_back() {
        let mut clock = RunClock::new(Began::now());
        let first = clock.monotonic();
        assert!(first >= BASE_NS);
        clock.reached(first + 5_000_000_000);
        assert!(clock.monotonic() >= first + 5_000_000_000);
        let far = clock.wakes(u64::MAX);
        assert!(far > tokio::time::Instant::now());
    }
}
