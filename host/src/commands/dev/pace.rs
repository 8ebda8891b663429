//! When the next build begins. A change that nobody has built is never left: what looks like a build's own change only
//! waits, longer and longer, while it goes on. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use crate::config::DevRules;

/// What the last builds had in common.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// Files that changed during the last build, and during how many builds in a row.
    own: BTreeMap<PathBuf, u32>,
    /// Builds in a row that each had other files change.
    others: u32,
    /// Files that changed during the last build, and were at its end as they had been.
    passing: BTreeSet<PathBuf>,
}

impl Pace {
    /// A build has ended. `changed` are the files that differ from what they were at its beginning, `passing` those
    /// that were seen to, and do not any more. What is to be built again, and after which pause; nothing where
    /// the build has seen all.
    pub(super) fn ended(
        &mut self,
        changed: BTreeSet<PathBuf>,
        passing: BTreeSet<PathBuf>,
    ) -> Option<(BTreeSet<PathBuf>, Duration)> {
        let mut own = BTreeMap::new();
        for path in &changed {
            let before = self.own.get(path).copied().unwrap_or_default();
            own.insert(path.clone(), before.saturating_add(1));
        }
        self.own = own;
        // An author's change and its undoing, unless each build does it: such as a file that it writes anew.
        let passed: BTreeSet<PathBuf> = passing.difference(&self.passing).cloned().collect();
        self.passing = passing;
        if changed.is_empty() {
            self.others = 0;
            return (!passed.is_empty()).then_some((passed, Duration::ZERO));
        }
        let pause = self.pause(&changed);
        self.others = if pause.is_zero() { self.others.saturating_add(1) } else { 0 };
        Some((changed, pause.max(grown(self.others, DevRules::OTHER_CHANGES))))
    }

    /// `paths` have changed while nothing was being built: after which pause they are to be. What is written then, no
    /// build has written alone; a file that changes all the time still waits a little.
    pub(super) fn idle(&mut self, paths: &BTreeSet<PathBuf>) -> Duration {
        for path in paths {
            if let Some(count) = self.own.get_mut(path) {
                *count = (*count).min(DevRules::OWN_CHANGES);
            }
        }
        self.pause(paths)
    }

    /// The pause of the least suspect of `paths`.
    fn pause(&self, paths: &BTreeSet<PathBuf>) -> Duration {
        let pause = |path| grown(self.own.get(path).copied().unwrap_or_default(), DevRules::OWN_CHANGES);
        paths.iter().map(pause).min().unwrap_or_default()
    }
}

/// From `first` in a row on, twice as long each time.
fn grown(count: u32, first: u32) -> Duration {
    let Some(more) = count.checked_sub(first) else { return Duration::ZERO };
    let pause = DevRules::PAUSE_FIRST.duration().saturating_mul(1 << more.min(16));
    pause.min(DevRules::PAUSE_MOST.duration())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn set(names: &[&str]) -> BTreeSet<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    fn seconds(pace: &mut Pace, names: &[&str]) -> u64 {
        pace.ended(set(names), set(&[])).unwrap().1.as_secs()
    }

    #[test]
    fn what_each_build_writes_waits_longer_and_longer() {
        let mut pace = Pace::default();
        let pauses: Vec<u64> = (0..9).map(|_| seconds(&mut pace, &["out.txt"])).collect();
        assert_eq!(pauses, [0, 0, 2, 4, 8, 10, 10, 10, 10]);
        // The author's own change waits for nothing, during a build or not.
        assert_eq!(pace.idle(&set(&["main.c"])).as_secs(), 0);
        assert_eq!(seconds(&mut pace, &["out.txt", "main.c"]), 0);
        // Written while no build runs: it is not the build alone.
        assert_eq!(pace.idle(&set(&["out.txt"])).as_secs(), 2);
        assert_eq!(seconds(&mut pace, &["out.txt"]), 4);
        assert_eq!(pace.ended(set(&[]), set(&[])), None);
        assert_eq!(seconds(&mut pace, &["out.txt"]), 0, "forgotten");
    }

    #[test]
    fn another_file_each_time_waits_too() {
        let mut pace = Pace::default();
        let pauses: Vec<u64> = (0..14).map(|i| seconds(&mut pace, &[&format!("out-{i}.txt")])).collect();
        assert_eq!(pauses[..9], [0; 9]);
        assert_eq!(pauses[9..], [2, 4, 8, 10, 10]);
        assert_eq!(pace.idle(&set(&["main.c"])).as_secs(), 0);
    }

    #[test]
    fn a_change_and_its_undoing_are_built_once_more_but_not_a_file_that_is_always_written_anew() {
        let mut pace = Pace::default();
        let mut again = |names: &[&str]| pace.ended(set(&[]), set(names)).map(|(paths, _)| paths);
        assert_eq!(again(&["gen.rs"]), Some(set(&["gen.rs"])));
        assert_eq!(again(&["gen.rs"]), None);
        assert_eq!(again(&["gen.rs", "main.rs"]), Some(set(&["main.rs"])));
        assert_eq!(again(&[]), None);
    }

    proptest! {
        #[test]
        fn no_change_is_left_unbuilt(builds in prop::collection::vec(prop::collection::btree_set("[a-d]", 0..4), 1..60)) {
            let mut pace = Pace::default();
            for names in builds {
                let changed: BTreeSet<PathBuf> = names.into_iter().map(PathBuf::from).collect();
                match pace.ended(changed.clone(), BTreeSet::new()) {
                    None => prop_assert!(changed.is_empty()),
                    Some((paths, pause)) => {
                        prop_assert_eq!(paths, changed);
                        prop_assert!(pause <= DevRules::PAUSE_MOST.duration());
                    }
                }
                let new = pace.idle(&[PathBuf::from("new")].into());
                prop_assert!(new.is_zero());
            }
        }
    }
}
