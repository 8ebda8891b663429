//! The host's wall clock, injected so that tests can move it, and the boot-time clock: leases on one machine go by
//! that one, because the wall clock may jump and a monotonic clock stops while the machine sleeps.

use std::time::{SystemTime, UNIX_EPOCH};

use futures::{
    FutureExt as _,
    future::{self, BoxFuture},
};
use rustix::time::{ClockId, clock_gettime};

use super::{Millis, UnixMillis};

/// Milliseconds since the operating system started, time asleep included (`CLOCK_BOOTTIME`).
pub fn boottime_ms() -> u64 {
    boottime_ns() / 1_000_000
}

/// The same in nanoseconds.
pub fn boottime_ns() -> u64 {
    let t = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(t.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(t.tv_nsec).unwrap_or(0)
}

/// Where long-lived parts read the time of day. Called often: must be cheap, and must not block.
pub trait Clock: Send + Sync + 'static {
    /// Now, by the wall clock. May jump in either direction.
    fn now(&self) -> UnixMillis;

    /// How much time has passed since some moment, also while the machine slept. Nobody can set it.
    fn elapsed(&self) -> Millis {
        Millis(boottime_ms())
    }

    /// Agrees with other processes on what the time is, where they go by one clock. To be called each second or so.
    fn agree(&self) -> BoxFuture<'_, ()> {
        future::ready(()).boxed()
    }
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> UnixMillis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixMillis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A clock that a test moves from outside, by the milliseconds in a file: `5` lets them pass, `jump 5` is somebody who
/// sets the wall clock. There may be fewer than none.
#[cfg(feature = "test-hooks")]
#[derive(Debug)]
pub struct MovedClock(std::sync::Arc<Moves>);

#[cfg(feature = "test-hooks")]
#[derive(Debug, Default)]
struct Moves {
    passed_ms: std::sync::atomic::AtomicI64,
    jumped_ms: std::sync::atomic::AtomicI64,
}

#[cfg(feature = "test-hooks")]
impl MovedClock {
    /// The variable that names the file.
    pub const VARIABLE: &str = "LAYBYTEST_CLOCK";

    /// Follows the file that [`MovedClock::VARIABLE`] names, if it is set. The thread that reads it
    /// ends with the clock.
    pub fn from_env() -> Option<Self> {
        let file = std::env::var_os(Self::VARIABLE)?;
        let moves = std::sync::Arc::new(Moves::default());
        moves.read(&file);
        let ours = std::sync::Arc::downgrade(&moves);
        std::thread::spawn(move || {
            while let Some(moves) = ours.upgrade() {
                moves.read(&file);
                drop(moves);
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        Some(Self(moves))
    }
}

#[cfg(feature = "test-hooks")]
impl Moves {
    fn read(&self, file: &std::ffi::OsStr) {
        let Ok(text) = std::fs::read_to_string(file) else { return };
        let (moved, ms) = match text.trim().strip_prefix("jump ") {
            Some(ms) => (&self.jumped_ms, ms),
            None => (&self.passed_ms, text.trim()),
        };
        if let Ok(ms) = ms.parse() {
            moved.store(ms, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

#[cfg(feature = "test-hooks")]
impl Clock for MovedClock {
    fn now(&self) -> UnixMillis {
        let set = self.0.jumped_ms.load(std::sync::atomic::Ordering::Relaxed);
        let passed = self.0.passed_ms.load(std::sync::atomic::Ordering::Relaxed);
        UnixMillis(SystemClock.now().0.saturating_add_signed(set).saturating_add_signed(passed))
    }

    fn elapsed(&self) -> Millis {
        let passed = self.0.passed_ms.load(std::sync::atomic::Ordering::Relaxed);
        Millis(boottime_ms().saturating_add_signed(passed))
    }
}
