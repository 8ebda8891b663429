//! When a run that waits gives up its instance. Pure.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use crate::base::Part;

/// A wait of a run that could be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// When it began.
    pub(super) since: Instant,
    /// When it ends by itself; none for a question.
    pub(super) until: Option<Instant>,
    /// What the guest has computed so far, and a replay computes again.
    pub(super) spent: Duration,
}

/// Units of pools, by part: what is short, or what a run would give back.
pub(super) type Units = BTreeMap<Part, u64>;

impl Wait {
    /// False where the wait is over so soon after `at` that a replay from then on would come too late.
    fn outlasts_replay(&self, at: Instant) -> bool {
        // A person is slower than any replay.
        self.until.is_none_or(|until| until > at + self.spent)
    }
}

/// The moment at which the instance goes, if it goes and nobody needs its room before: after `linger`, because an answer
/// may come at once.
pub(super) fn parks_at(wait: Wait, linger: Duration) -> Option<Instant> {
    let at = wait.since + linger;
    wait.outlasts_replay(at).then_some(at)
}

/// Which of `waits` give up their instance now, because others are `short` of what these hold: those that wait longest, and
/// no more than it takes. Sleeps with less than `least` left stay, as those that a replay would not be ready for.
pub(super) fn chosen(now: Instant, waits: &[(Wait, Units)], mut short: Units, least: Duration) -> Vec<usize> {
    let mut order: Vec<usize> =
        (0..waits.len()).filter(|at| waits[*at].0.outlasts_replay(now + least)).collect();
    order.sort_by_key(|at| waits[*at].0.since);
    let mut chosen = Vec::new();
    for at in order {
        short.retain(|_, units| *units > 0);
        if short.is_empty() {
            break;
        }
        if relieved(&mut short, &waits[at].1) {
            chosen.push(at);
        }
    }
    chosen
}

/// Takes what `given` gives back from what is `short`; true where that helps.
pub(super) fn relieved(short: &mut Units, given: &Units) -> bool {
    let mut helps = false;
    for (part, units) in short {
        let given = given.get(part).copied().unwrap_or(0).min(*units);
        helps |= given > 0;
        *units -= given;
    }
    helps
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_wait_parks_after_lingering() {
        let now = Instant::now();
        let s = Duration::from_secs;
        let wait = |until: Option<u64>, spent| Wait {
            since: now,
            until: until.map(|n| now + s(n)),
            spent: s(spent),
        };
        assert_eq!(parks_at(wait(None, 0), s(5)), Some(now + s(5)));
        assert_eq!(parks_at(wait(None, 100), s(0)), Some(now), "a person is slower than any replay");
        assert_eq!(parks_at(wait(Some(60), 1), s(5)), Some(now + s(5)));
        assert_eq!(parks_at(wait(Some(5), 0), s(5)), None);
        assert_eq!(parks_at(wait(Some(6), 2), s(5)), None, "it would replay longer than it sleeps");
    }

    const LEAST: Duration = Duration::from_secs(2);

    fn part(pool: u64) -> Part {
        Part { pool, class: None }
    }

    /// Waits that began up to 100 s ago, some of which end by themselves, over three pools.
    fn waits(now: Instant) -> impl Strategy<Value = Vec<(Wait, Units)>> {
        let s = Duration::from_secs;
        let given = proptest::collection::btree_map((0_u64..3).prop_map(part), 0_u64..5, 0..3);
        let wait = (0_u64..100, proptest::option::of(0_u64..60), 0_u64..40, given);
        let wait = wait.prop_map(move |(since, until, spent, given)| {
            (Wait { since: now - s(since), until: until.map(|n| now + s(n)), spent: s(spent) }, given)
        });
        proptest::collection::vec(wait, 0..20)
    }

    fn left(mut short: Units, waits: &[(Wait, Units)], gone: &[usize]) -> Units {
        for at in gone {
            relieved(&mut short, &waits[*at].1);
        }
        short.retain(|_, units| *units > 0);
        short
    }

    proptest! {
        #[test]
        fn those_that_wait_longest_go_and_no_more_than_it_takes(
            waits in waits(Instant::now() + Duration::from_secs(1000)),
            short in proptest::collection::btree_map((0_u64..3).prop_map(part), 0_u64..20, 0..4),
        ) {
            // The strategy's moment, which is no longer at hand: the latest that any began is at most it.
            let now = waits.iter().map(|(wait, _)| wait.since).max().unwrap_or_else(Instant::now);
            let gone = chosen(now, &waits, short.clone(), LEAST);
            let outlasts = |at: usize| waits[at].0.outlasts_replay(now + LEAST);
            prop_assert!(gone.iter().all(|at| outlasts(*at)), "one that a replay is too late for");
            prop_assert!(gone.iter().collect::<std::collections::BTreeSet<_>>().len() == gone.len());
            // Each helped when it was chosen, so that the last was needed.
            for n in 0..gone.len() {
                let (before, after) = (left(short.clone(), &waits, &gone[..n]), left(short.clone(), &waits, &gone[..=n]));
                prop_assert!(before != after);
            }
            let rest = left(short, &waits, &gone);
            for (at, (wait, given)) in waits.iter().enumerate().filter(|(at, _)| !gone.contains(at)) {
                let helps = relieved(&mut rest.clone(), given);
                prop_assert!(!helps || !outlasts(at), "one more could have gone");
                // Whoever stays began no earlier than those that went in its place.
                for went in gone.iter().filter(|went| outlasts(at) && waits[**went].1 == *given) {
                    prop_assert!(waits[*went].0.since <= wait.since);
                }
            }
        }
    }
}
