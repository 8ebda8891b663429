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
