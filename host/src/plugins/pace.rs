//! How quick a tool is, as measured.

use std::sync::atomic::{AtomicU32, Ordering};

/// Whether a tool's runs end within their first slice of fuel: then they may start on the thread
/// that took the request, which saves two hops between cores. One miss costs as much as two hits
/// earn, so a tool that is slow half of the time soon counts as slow.
#[derive(Debug)]
pub struct Pace(AtomicU32);

impl Default for Pace {
    fn default() -> Self {
        Self(AtomicU32::new(Self::START))
    }
}

impl Pace {
    const START: u32 = 4;
    const MOST: u32 = 16;

    /// True where the next run may start on the request's thread.
    pub fn is_quick(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Tells how a run went. Races lose a count, which does no harm.
    pub fn note(&self, quick: bool) {
        let was = self.0.load(Ordering::Relaxed);
        let now = if quick { (was + 1).min(Self::MOST) } else { was.saturating_sub(2) };
        if now != was {
            self.0.store(now, Ordering::Relaxed);
        }
    }
}
