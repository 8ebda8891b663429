//! The time of day that all processes on one store agree on.

use std::sync::{Arc, Mutex, PoisonError};

use futures::{FutureExt as _, future::BoxFuture};

use super::{Store, StoreError};
use crate::{
    base::{Clock, Millis, UnixMillis, boottime_ms},
    config::TaskRules,
};

/// The clock that tasks go by: the store's, where it has one ([`Store::now`]), else `local`. So a host whose own clock is
/// wrong, or jumps, neither ends other hosts' tasks before their time nor makes some that are over at once. And whichever
/// it is, a jump by more than [`TaskRules::WALL_JUMP`] counts only when it has lasted as long. What `local` was before
/// is in the store ([`Store::clock`]), so that a process which begins after a jump knows of it.
///
/// # Errors
/// The store cannot be used.
pub async fn clock(store: Arc<dyn Store>, local: Arc<dyn Clock>) -> Result<Arc<dyn Clock>, StoreError> {
    let ahead = ahead(local.now(), local.elapsed());
    let own = match store.clock(ahead, None).await? {
        Some(ahead) => Steady::kept(ahead),
        None => Steady::default(),
    };
    Ok(Arc::new(StoreClock { store, local, own, server: Steady::default() }))
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

    fn elapsed(&self) -> Millis {
        self.local.elapsed()
    }

    fn agree(&self) -> BoxFuture<'_, ()> {
        async {
            let (wall, passed) = (self.local.now(), self.local.elapsed());
            let Some((new, old)) = self.own.to_agree(wall, passed) else { return };
            match self.store.clock(new, old).await {
                Ok(Some(agreed)) => self.own.agreed(agreed),
                Ok(None) => {}
                Err(e) => tracing::debug!("the clock was not agreed on; trying again: {e}"),
            }
        }
        .boxed()
    }
}

/// The time of day less the time that has passed since some moment: the same as long as nobody sets the clock.
fn ahead(wall: UnixMillis, passed: Millis) -> Millis {
    Millis(wall.0.saturating_sub(passed.0))
}

/// A clock that does not follow a jump at once: what ends, or is deleted, because somebody set the clock by mistake does
/// not come back when it is set right.
#[derive(Default)]
struct Steady {
    known: Mutex<Option<Known>>,
    /// It follows a jump that has lasted only when others do too.
    agrees: bool,
}

#[derive(Clone, Copy)]
struct Known {
    ahead: Millis,
    /// Where it has jumped to, and when.
    jumped: Option<(Millis, Millis)>,
}

impl Steady {
    fn kept(ahead: Millis) -> Self {
        Self { known: Mutex::new(Some(Known { ahead, jumped: None })), agrees: true }
    }

    /// The time of day that is to be believed, where the clock says `wall` and this much time has `passed`.
    fn at(&self, wall: UnixMillis, passed: Millis) -> UnixMillis {
        let ahead = ahead(wall, passed);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let was = known.unwrap_or(Known { ahead, jumped: None });
        let is = was.after(ahead, passed, self.agrees);
        *known = Some(is);
        drop(known);
        tell(was, is, ahead);
        let ahead = if is.jumped.is_none() { ahead } else { is.ahead };
        UnixMillis(ahead.0.saturating_add(passed.0))
    }

    /// What the clock is to be by a jump that has lasted, and was before; or what may be agreed on already. None where
    /// there is nothing to agree on.
    fn to_agree(&self, wall: UnixMillis, passed: Millis) -> Option<(Millis, Option<Millis>)> {
        self.at(wall, passed);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.filter(|_| self.agrees)?;
        let lasted = known.jumped.filter(|(_, since)| has_lasted(*since, passed));
        Some(lasted.map_or((known.ahead, None), |(to, _)| (to, Some(known.ahead))))
    }

    /// What all go by now.
    fn agreed(&self, ahead: Millis) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(was) = *known else { return };
        let is = Known { ahead, jumped: was.jumped.filter(|(to, _)| !is_near(*to, ahead)) };
        *known = Some(is);
        drop(known);
        tell(was, is, ahead);
    }
}

fn tell(was: Known, is: Known, ahead: Millis) {
    let by = |from: Millis, to: Millis| i128::from(to.0) - i128::from(from.0);
    if was.jumped.is_none() && is.jumped.is_some() {
        tracing::warn!(
            by_ms = %by(was.ahead, ahead),
            "the wall clock has jumped: tasks go by the old time until it has stood for a minute"
        );
    } else if was.jumped.is_some() && is.jumped.is_none() {
        tracing::warn!(by_ms = %by(was.ahead, is.ahead), "tasks go by the wall clock again");
    }
}

fn is_near(one: Millis, other: Millis) -> bool {
    one.0.abs_diff(other.0) <= TaskRules::WALL_JUMP.0
}

fn has_lasted(since: Millis, passed: Millis) -> bool {
    passed.0.saturating_sub(since.0) >= TaskRules::WALL_JUMP.0
}

impl Known {
    /// What is known after another look at the clock.
    fn after(self, ahead: Millis, passed: Millis, agrees: bool) -> Self {
        if is_near(ahead, self.ahead) {
            // What is agreed on stays what it is.
            return Self { ahead: if agrees { self.ahead } else { ahead }, jumped: None };
        }
        match self.jumped {
            Some((to, since)) if is_near(ahead, to) => {
                if has_lasted(since, passed) && !agrees {
                    Self { ahead, jumped: None }
                } else {
                    self
                }
            }
            _ => Self { jumped: Some((ahead, passed)), ..self },
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

    #[test]
    fn a_kept_clock_follows_when_all_do() {
        const START: u64 = 1_000_000_000;
        let clock = Steady::kept(Millis(START));
        let look = |seconds: u64, ahead: u64| {
            let passed = Millis::from_secs(seconds);
            let wall = UnixMillis(START + passed.0 + ahead * 1000);
            (clock.at(wall, passed).0 - START - passed.0, clock.to_agree(wall, passed))
        };
        // Another process began with a clock that had jumped, and looks whether all have agreed on it.
        assert_eq!(look(0, 3600), (0, Some((Millis(START), None))));
        assert_eq!(look(59, 3600), (0, Some((Millis(START), None))));
        let jumped = Millis(START + 3_600_000);
        assert_eq!(look(60, 3600), (0, Some((jumped, Some(Millis(START))))));
        clock.agreed(jumped);
        assert_eq!(look(61, 3600), (3_600_000, Some((jumped, None))));
        // Back by less than a minute, and then where it was in the beginning.
        assert_eq!(look(62, 3550).0, 3_550_000);
        assert_eq!(look(63, 0).0, 3_600_000);
        // Others had waited for long enough.
        clock.agreed(Millis(START));
        assert_eq!(look(64, 0).0, 0);
    }
}
