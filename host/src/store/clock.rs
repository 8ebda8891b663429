//! The time of day that all processes on one store agree on.

use std::sync::{Arc, Mutex, PoisonError};

use super::Store;
use crate::{
    base::{Clock, Millis, UnixMillis, boottime_ms},
    config::TaskRules,
};

/// The clock that tasks go by: the store's, where it has one ([`Store::now`]), else `local`. So a host whose own clock is
/// wrong, or jumps, neither ends other hosts' tasks before their time nor makes some that are over at once. And whichever
/// it is, a jump by more than [`TaskRules::WALL_JUMP`] counts only when it has lasted as long.
pub fn clock(store: Arc<dyn Store>, local: Arc<dyn Clock>) -> Arc<dyn Clock> {
    Arc::new(StoreClock { store, local, own: Steady::default(), server: Steady::default() })
}

struct StoreClock {
    store: Arc<dyn Store>,
    local: Arc<dyn Clock>,
    own: Steady,
    server: Steady,
}

impl Clock for StoreClock {
    fn now(&self) -> UnixMillis {
        match self.store.now() {
            // Kept going by the same clock.
            Some(time) => self.server.at(time, Millis(boottime_ms())),
            None => self.own.at(self.local.now(), self.local.elapsed()),
        }
    }
}

/// A clock that does not follow a jump at once: what ends, or is deleted, because somebody set the clock by mistake does
/// not come back when it is set right.
#[derive(Default)]
struct Steady(Mutex<Option<Known>>);

#[derive(Clone, Copy)]
struct Known {
    /// The time of day less the time that has passed since some moment: the same as long as nobody sets the clock.
    base: i128,
    /// Where it has jumped to, and when.
    jumped: Option<(i128, Millis)>,
}

impl Steady {
    /// The time of day that is to be believed, where the clock says `wall` and this much time has `passed`.
    fn at(&self, wall: UnixMillis, passed: Millis) -> UnixMillis {
        let base = i128::from(wall.0) - i128::from(passed.0);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let was = known.unwrap_or(Known { base, jumped: None });
        let is = was.after(base, passed);
        *known = Some(is);
        drop(known);
        if was.jumped.is_none() && is.jumped.is_some() {
            tracing::warn!(
                by_ms = %(base - was.base),
                "the wall clock has jumped: tasks go by the old time until it has stood for a minute"
            );
        } else if was.jumped.is_some() && is.jumped.is_none() {
            tracing::warn!(by_ms = %(is.base - was.base), "tasks go by the wall clock again");
        }
        let time = is.base + i128::from(passed.0);
        UnixMillis(u64::try_from(time.max(0)).unwrap_or(u64::MAX))
    }
}

impl Known {
    /// What is known after another look at the clock.
    fn after(self, base: i128, passed: Millis) -> Self {
        let jump = i128::from(TaskRules::WALL_JUMP.0);
        let near = |other: i128| (base - other).abs() <= jump;
        if near(self.base) {
            return Self { base, jumped: None };
        }
        match self.jumped {
            Some((to, since)) if near(to) => {
                let lasted = passed.0.saturating_sub(since.0);
                if lasted >= TaskRules::WALL_JUMP.0 { Self { base, jumped: None } } else { self }
            }
            _ => Self { jumped: Some((base, passed)), ..self },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_counts_when_it_has_lasted() {
        const START: u64 = 1_000_000_000;
        // seconds since the start, how far the wall clock is ahead in seconds, how far the time of tasks is
        let cases: [&[(u64, i64, i64)]; 5] = [
            // By less than a minute: followed.
            &[(0, 0, 0), (1, 40, 40), (2, 90, 90), (3, 60, 60)],
            // Ahead for good.
            &[(0, 0, 0), (1, 3600, 0), (30, 3601, 0), (60, 3600, 0), (61, 3600, 3600), (62, 3601, 3601)],
            // Back for good.
            &[(0, 0, 0), (10, -3600, 0), (69, -3600, 0), (70, -3600, -3600)],
            // A mistake, set right, and another.
            &[(0, 0, 0), (1, 3600, 0), (50, 5, 5), (55, 3600, 5), (100, 3600, 5), (115, 3600, 3600)],
            // From one wrong time to the next.
            &[(0, 0, 0), (1, 3600, 0), (40, 7200, 0), (80, 7200, 0), (100, 7200, 7200)],
        ];
        for looks in cases {
            let clock = Steady::default();
            for &(seconds, ahead, believed) in looks {
                let wall = (START + seconds * 1000).saturating_add_signed(ahead * 1000);
                let time = clock.at(UnixMillis(wall), Millis::from_secs(77 + seconds));
                let expected = (START + seconds * 1000).saturating_add_signed(believed * 1000);
                assert_eq!(time.0, expected, "{looks:?} after {seconds} s");
            }
        }
    }
}
