//! What one run has asked by multi round-trip requests, and what a retry means to it. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::target::canonical;
use crate::base::Digest;

/// The rounds of one run. Only the round put last and the one before it are kept: a client can only have
/// missed the answer to its newest retry.
#[derive(Clone, Debug, Default)]
pub(in crate::runs) struct Ledger {
    /// The number of the round put last; none before the first.
    round: Option<u32>,
    /// It waits for answers.
    open: bool,
    /// Its keys, with a mark of what was taken for them.
    present: BTreeMap<String, Option<Digest>>,
    /// The same of the round before.
    before: BTreeMap<String, Option<Digest>>,
}

/// What a retry means.
#[derive(Debug, PartialEq)]
pub(in crate::runs) enum Verdict {
    /// It repeats what was taken: it gets whatever comes next.
    Attach,
    /// Answers to questions that are open, not checked yet; perhaps none.
    Answers(BTreeMap<String, Value>),
    /// It says something else than what was taken, or belongs to a round long past.
    Stale,
}

impl Ledger {
    /// A round is put.
    pub(in crate::runs) fn put(&mut self, keys: impl IntoIterator<Item = String>) {
        self.before = std::mem::take(&mut self.present);
        self.round = Some(self.round.map_or(0, |round| round + 1));
        self.present = keys.into_iter().map(|key| (key, None)).collect();
        self.open = true;
    }

    /// The number of the round put last.
    pub(in crate::runs) fn round(&self) -> u32 {
        self.round.unwrap_or(0)
    }

    /// True where the round put last is the run's first.
    pub(in crate::runs) fn is_first(&self) -> bool {
        self.round() == 0
    }

    /// True while the round put last waits for an answer to `key`.
    pub(in crate::runs) fn awaits(&self, key: &str) -> bool {
        self.open && self.present.get(key) == Some(&None)
    }

    /// What a retry means that answers `round`; without one it only wants to know how the run stands.
    pub(in crate::runs) fn judge(&self, round: Option<u32>, responses: &BTreeMap<String, Value>) -> Verdict {
        let Some(round) = round else { return Verdict::Attach };
        let equal = |taken: &BTreeMap<String, Option<Digest>>, key: &str, response: &Value| {
            // Keys that were never asked are ignored.
            taken.get(key).is_none_or(|taken| *taken == Some(mark(response)))
        };
        if self.open && Some(round) == self.round {
            let (open, others): (Vec<_>, Vec<_>) =
                responses.iter().partition(|(key, _)| self.present.get(*key) == Some(&None));
            return if others.iter().all(|(key, response)| equal(&self.present, key, response)) {
                Verdict::Answers(open.into_iter().map(|(k, v)| (k.clone(), v.clone())).collect())
            } else {
                Verdict::Stale
            };
        }
        let answered = if Some(round) == self.round {
            &self.present
        } else if self.open && round.checked_add(1) == self.round {
            &self.before
        } else {
            return Verdict::Stale;
        };
        if responses.iter().all(|(key, response)| equal(answered, key, response)) {
            Verdict::Attach
        } else {
            Verdict::Stale
        }
    }

    /// Keeps a mark of answers that were taken; true where none is missing now, which closes the round.
    pub(in crate::runs) fn take(&mut self, responses: &BTreeMap<String, Value>) -> bool {
        for (key, response) in responses {
            if let Some(taken) = self.present.get_mut(key) {
                *taken = Some(mark(response));
            }
        }
        self.open &= self.present.values().any(Option::is_none);
        !self.open
    }

    /// The round ends without more answers: it timed out, or was answered another way.
    pub(in crate::runs) fn close(&mut self) {
        self.open = false;
    }
}

/// Equal for responses that say the same.
fn mark(response: &Value) -> Digest {
    let text = match response {
        // `_meta` says nothing about the answer.
        Value::Object(members) if members.contains_key("_meta") => {
            let mut members = members.clone();
            members.remove("_meta");
            canonical(&Value::Object(members))
        }
        other => canonical(other),
    };
    Digest::of(text.as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn says(pairs: &[(&str, Value)]) -> BTreeMap<String, Value> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect()
    }

    fn asked(keys: &[&str]) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.put(keys.iter().map(|k| (*k).to_owned()));
        ledger
    }

    #[test]
    fn a_round_is_answered_once() {
        let mut ledger = asked(&["a", "b"]);
        let first = says(&[("a", json!({"x": 1, "y": 2})), ("stranger", json!(1))]);
        let open = says(&[("a", json!({"x": 1, "y": 2}))]);
        assert_eq!(ledger.judge(Some(0), &first), Verdict::Answers(open.clone()));
        assert!(!ledger.take(&open), "b is missing");
        assert!(ledger.awaits("b") && !ledger.awaits("a"));
        // The same again, in another order of members and with metadata, adds nothing and harms nothing.
        let again = says(&[("a", json!({"y": 2, "_meta": {}, "x": 1}))]);
        assert_eq!(ledger.judge(Some(0), &again), Verdict::Answers(BTreeMap::new()));
        assert_eq!(ledger.judge(Some(0), &says(&[("a", json!(2))])), Verdict::Stale);
        assert!(ledger.take(&says(&[("b", json!(1))])));
        // Answered: an equal repeat attaches, a part of it too, a differing one does not.
        assert_eq!(ledger.judge(Some(0), &again), Verdict::Attach);
        assert_eq!(ledger.judge(Some(0), &BTreeMap::new()), Verdict::Attach);
        assert_eq!(ledger.judge(Some(0), &says(&[("b", json!(2))])), Verdict::Stale);
        // The next round: the answers of the one before still attach, older ones do not.
        ledger.put(["c".to_owned()]);
        assert_eq!(ledger.judge(Some(0), &again), Verdict::Attach);
        assert_eq!(ledger.judge(Some(0), &says(&[("b", json!(2))])), Verdict::Stale);
        ledger.take(&says(&[("c", json!(1))]));
        assert_eq!(ledger.judge(Some(0), &again), Verdict::Stale);
        assert_eq!(ledger.judge(Some(1), &says(&[("c", json!(1))])), Verdict::Attach);
        assert_eq!(ledger.judge(Some(2), &BTreeMap::new()), Verdict::Stale, "a round that was never put");
    }

    #[test]
    fn what_a_round_closed_without_is_never_equal() {
        let mut ledger = asked(&["a"]);
        ledger.close();
        assert_eq!(ledger.judge(Some(0), &says(&[("a", json!(1))])), Verdict::Stale);
        assert_eq!(ledger.judge(Some(0), &BTreeMap::new()), Verdict::Attach);
        assert_eq!(ledger.judge(None, &BTreeMap::new()), Verdict::Attach);
    }

    proptest! {
        /// Whatever clients send, in whatever order: what was taken for a key never changes, and a retry
        /// that contradicts it never attaches.
        #[test]
        fn nothing_taken_is_ever_contradicted(
            steps in prop::collection::vec((0u32..4, prop::collection::btree_map("[abc]", 0u8..3, 0..3)), 1..40),
        ) {
            let mut ledger = Ledger::default();
            let mut taken: Vec<BTreeMap<String, u8>> = Vec::new();
            for (round, sent) in steps {
                if !ledger.open {
                    ledger.put(["a".to_owned(), "b".to_owned()]);
                    taken.push(BTreeMap::new());
                }
                let responses: BTreeMap<String, Value> =
                    sent.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
                let contradicts = taken.get(round as usize).is_some_and(|t| {
                    sent.iter().any(|(k, v)| t.get(k).is_some_and(|taken| taken != v))
                });
                match ledger.judge(Some(round), &responses) {
                    Verdict::Stale => {}
                    verdict => {
                        prop_assert!(!contradicts);
                        prop_assert!(round + 1 >= ledger.round());
                        if let Verdict::Answers(fresh) = verdict {
                            prop_assert_eq!(round, ledger.round());
                            for (key, value) in &fresh {
                                let was = taken[round as usize].insert(key.clone(), value.as_u64().unwrap() as u8);
                                prop_assert_eq!(was, None, "a key is taken once");
                            }
                            let whole = ledger.take(&fresh);
                            prop_assert_eq!(whole, taken[round as usize].len() == 2);
                        }
                    }
                }
            }
        }
    }
}
