//! The active time of a run: what its guest works, waits not counted, nor the time in which this process was stopped.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::engine::Stalls;

/// A budget of active time, and its clock.
pub(super) struct Active {
    /// What was left when the clock was last started.
    left: Duration,
    /// Since when it goes, and how long this process had been stopped by then.
    since: Option<(Instant, Duration)>,
    stalls: Arc<Stalls>,
}

impl Active {
    /// With so much left; its clock stands.
    pub(super) const fn new(left: Duration, stalls: Arc<Stalls>) -> Self {
        Self { left, since: None, stalls }
    }

    /// Starts the clock, where it stands.
    pub(super) fn start(&mut self) {
        if self.since.is_none() {
            self.since = Some((Instant::now(), self.stalls.sum()));
        }
    }

    /// Stops the clock.
    pub(super) fn stop(&mut self) {
        self.left = self.left();
        self.since = None;
    }

    /// True while the clock goes.
    pub(super) const fn goes(&self) -> bool {
        self.since.is_some()
    }

    /// What was left when the clock was last started: the same for as long as it goes.
    pub(super) const fn left_before(&self) -> Duration {
        self.left
    }

    /// What is left now.
    pub(super) fn left(&self) -> Duration {
        let used = self.since.map_or(Duration::ZERO, |(since, stalled)| {
            since.elapsed().saturating_sub(self.stalls.sum().saturating_sub(stalled))
        });
        self.left.saturating_sub(used)
    }

    /// When it is used up, as far as can be said now; none while the clock stands.
    pub(super) fn until(&self) -> Option<Instant> {
        self.since.map(|(since, stalled)| since + self.left + self.stalls.sum().saturating_sub(stalled))
    }
}
