//! The host's wall clock, injected so that tests can move it.

use std::time::{SystemTime, UNIX_EPOCH};

use super::UnixMillis;

/// Where long-lived parts read the time of day. Called often: must be cheap, and must not block.
pub trait Clock: Send + Sync + 'static {
    /// Now, by the wall clock. May jump in either direction.
    fn now(&self) -> UnixMillis;
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

/// A clock that a test moves from outside: the system's, plus the milliseconds in a file, which may be fewer than none.
#[cfg(feature = "test-hooks")]
#[derive(Debug)]
pub struct MovedClock {
    ahead_ms: std::sync::Arc<std::sync::atomic::AtomicI64>,
}

#[cfg(feature = "test-hooks")]
impl MovedClock {
    /// The variable that names the file.
    pub const VARIABLE: &str = "LAYBYTEST_CLOCK";

    /// Follows the file that [`MovedClock::VARIABLE`] names, if it is set. The thread that reads it
    /// ends with the clock.
    pub fn from_env() -> Option<Self> {
        use std::sync::atomic::{AtomicI64, Ordering};
        let file = std::env::var_os(Self::VARIABLE)?;
        let ahead_ms = std::sync::Arc::new(AtomicI64::new(0));
        let ours = std::sync::Arc::downgrade(&ahead_ms);
        std::thread::spawn(move || {
            while let Some(ahead_ms) = ours.upgrade() {
                if let Some(ms) =
                    std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok())
                {
                    ahead_ms.store(ms, Ordering::Relaxed);
                }
                drop(ahead_ms);
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        Some(Self { ahead_ms })
    }
}

#[cfg(feature = "test-hooks")]
impl Clock for MovedClock {
    fn now(&self) -> UnixMillis {
        let ahead_ms = self.ahead_ms.load(std::sync::atomic::Ordering::Relaxed);
        UnixMillis(SystemClock.now().0.saturating_add_signed(ahead_ms))
    }
}
