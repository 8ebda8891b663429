//! What a multi round-trip request means that comes back to a run: a round's answers are taken once. Pure.

use std::collections::BTreeMap;

use crate::store::{Answer, Question, Status, Task};

/// What a retry means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It repeats what was taken: it gets whatever comes next.
    Attach,
    /// It is of the round that is open: answers to what is open in it, perhaps none, and repeats.
    Answers,
    /// It says something else than what was taken, or belongs to a round long past.
    Stale,
}

/// What a retry means that answers `round` of `task`; `answers` are checked, by key, each valid or with the reason why
/// it is not. Keys that the round did not ask are ignored. Only the newest round and, while that is open, the one
/// before it count: a client can only have missed the answer to its newest retry. Where a client has the task's handle,
/// any round leads to it.
pub(super) fn judge(task: &Task, round: u32, answers: &BTreeMap<String, Result<Answer, String>>) -> Verdict {
    let Some(newest) = task.round() else { return Verdict::Stale };
    let open = task.status == Status::InputRequired;
    let asked = || task.questions.iter().filter(|q| q.round == round);
    // What a round closed without is equal to nothing.
    let equal = |q: &Question| match answers.get(&q.key) {
        Some(Ok(given)) => q.answer.as_ref() == Some(given),
        Some(Err(_)) => false,
        None => true,
    };
    let (verdict, mut equals) = if open && round == newest {
        (Verdict::Answers, asked().filter(|q| q.answer.is_some()).all(equal))
    } else {
        (Verdict::Attach, asked().all(equal))
    };
    let counts = round == newest || round < newest && (task.revealed || open && round + 1 == newest);
    equals &= counts;
    if equals { verdict } else { Verdict::Stale }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{
        base::{Millis, UnixMillis},
        store::{QuestionKind, Refused},
        tasks::Event,
    };

    const NOW: UnixMillis = UnixMillis(1000);

    fn says(pairs: &[(&str, u8)]) -> BTreeMap<String, Result<Answer, String>> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), Ok(Answer::Accepted(json!(v))))).collect()
    }

    fn ask(task: Task, keys: &[&str]) -> Task {
        let question = |key: &&str| Question {
            key: (*key).to_owned(),
            round: 0,
            kind: QuestionKind::Form,
            request: Arc::new(json!({})),
            answer: None,
        };
        let event = Event::Ask {
            fence: 1,
            questions: keys.iter().map(question).collect(),
            wait: Millis(60_000),
            resume_on_timeout: true,
            by_host: false,
            active_left: None,
            poll_interval: Millis(1),
        };
        task.apply(event, NOW).unwrap()
    }

    fn hidden() -> Task {
        Task { revealed: false, holder: Some(crate::base::BootId(uuid::Uuid::nil())), ..Task::blank() }
    }

    fn take(
        task: Task,
        round: u32,
        answers: BTreeMap<String, Result<Answer, String>>,
    ) -> Result<Task, Refused> {
        task.apply(Event::Answers { answers, round: Some(round), poll_interval: Millis(1) }, NOW)
    }

    #[test]
    fn a_round_is_answered_once() {
        let task = ask(hidden(), &["a", "b"]);
        let first = says(&[("a", 1), ("stranger", 1)]);
        assert_eq!(judge(&task, 0, &first), Verdict::Answers);
        let task = take(task, 0, first.clone()).unwrap();
        assert_eq!(task.pending().map(|q| q.key.as_str()).collect::<Vec<_>>(), ["b"]);
        // The same again adds nothing and harms nothing; other answers do.
        assert_eq!(take(task.clone(), 0, first.clone()), Err(Refused::Unchanged));
        assert_eq!(judge(&task, 0, &says(&[("a", 2)])), Verdict::Stale);
        assert!(matches!(take(task.clone(), 0, says(&[("a", 2), ("b", 1)])), Err(Refused::NotNow(_))));
        let task = take(task, 0, says(&[("a", 1), ("b", 1)])).unwrap();
        // Answered: an equal repeat attaches, a part of it too, a differing one does not.
        assert_eq!(judge(&task, 0, &first), Verdict::Attach);
        assert_eq!(judge(&task, 0, &says(&[])), Verdict::Attach);
        assert_eq!(judge(&task, 0, &says(&[("b", 2)])), Verdict::Stale);
        assert_eq!(judge(&task, 0, &[("b".to_owned(), Err("bad".into()))].into()), Verdict::Stale);
        // The next round: the answers of the one before still attach, older ones do not.
        let task = ask(task, &["c"]);
        assert_eq!(judge(&task, 0, &first), Verdict::Attach);
        assert_eq!(judge(&task, 0, &says(&[("b", 2)])), Verdict::Stale);
        let task = take(task, 1, says(&[("c", 1)])).unwrap();
        assert_eq!(judge(&task, 0, &first), Verdict::Stale);
        assert_eq!(judge(&task, 1, &says(&[("c", 1)])), Verdict::Attach);
        assert_eq!(judge(&task, 2, &says(&[])), Verdict::Stale, "a round that was never put");
        // With a handle out, each round leads there; but never by other answers.
        let task = Task { revealed: true, ..task };
        assert_eq!(judge(&task, 0, &first), Verdict::Attach);
        assert_eq!(judge(&task, 0, &says(&[("b", 2)])), Verdict::Stale);
        assert_eq!(judge(&hidden(), 0, &says(&[])), Verdict::Stale, "it has asked nothing");
    }

    #[test]
    fn what_a_round_closed_without_is_never_equal() {
        let task = ask(hidden(), &["a"]);
        let late = task.input_deadline.unwrap();
        let task = task.apply(Event::TimeOut { fence: 1, poll_interval: Millis(1) }, late).unwrap();
        assert_eq!(judge(&task, 0, &says(&[("a", 1)])), Verdict::Stale);
        assert_eq!(judge(&task, 0, &says(&[])), Verdict::Attach);
    }

    #[test]
    fn who_leaves_stops_what_works_for_it_alone() {
        let works = hidden();
        assert_eq!(works.clone().apply(Event::Leave, NOW).unwrap().cancel_requested, Some(NOW));
        let key = crate::store::IdempotencyKey { key: "k".into(), arguments: works.digest };
        let others = [
            Task { key: Some(key), ..works.clone() },
            Task { revealed: true, ..works.clone() },
            ask(works, &["a"]),
        ];
        for task in others {
            assert_eq!(task.apply(Event::Leave, NOW), Err(Refused::Unchanged));
        }
    }

    proptest! {
        /// Whatever clients send, in whatever order: what was taken for a key never changes, and a retry
        /// that contradicts it never attaches.
        #[test]
        fn nothing_taken_is_ever_contradicted(
            steps in prop::collection::vec((0u32..4, prop::collection::btree_map(0u8..3, 0u8..3, 0..3)), 1..40),
        ) {
            let mut task = hidden();
            let mut taken: BTreeMap<String, u8> = BTreeMap::new();
            for (round, sent) in steps {
                if task.status == Status::Working {
                    task = ask(task, &["a", "b"]);
                }
                // Keys of that round, and one of none.
                let suffix = if round == 0 { String::new() } else { format!("_{}", round + 1) };
                let key = |n: &u8| format!("{}{suffix}", ["a", "b", "c"][usize::from(*n)]);
                let sent: BTreeMap<String, u8> = sent.iter().map(|(k, v)| (key(k), *v)).collect();
                let answers: Vec<(&str, u8)> = sent.iter().map(|(k, v)| (k.as_str(), *v)).collect();
                let answers = says(&answers);
                let contradicts = sent.iter().any(|(k, v)| taken.get(k).is_some_and(|t| t != v));
                let newest = task.round().unwrap();
                match judge(&task, round, &answers) {
                    Verdict::Stale => {
                        prop_assert!(contradicts || round != newest && round + 1 != newest);
                        if sent.keys().any(|key| task.pending().any(|q| q.key == *key)) {
                            prop_assert!(take(task.clone(), round, answers).is_err());
                        }
                    }
                    verdict => {
                        prop_assert!(!contradicts);
                        prop_assert!(round + 1 >= newest);
                        prop_assert_eq!(verdict == Verdict::Answers, round == newest);
                        if let Ok(next) = take(task.clone(), round, answers) {
                            for (key, value) in sent.iter().filter(|(k, _)| task.pending().any(|q| q.key == **k)) {
                                prop_assert_eq!(taken.insert(key.clone(), *value), None, "a key is taken once");
                            }
                            task = next;
                        }
                    }
                }
                let stored = task.questions.iter().filter_map(|q| Some((q.key.clone(), q.answer.clone()?)));
                let now: BTreeMap<String, Answer> = stored.collect();
                let known: BTreeMap<String, Answer> =
                    taken.iter().map(|(k, v)| (k.clone(), Answer::Accepted(json!(v)))).collect();
                prop_assert_eq!(now, known);
            }
        }
    }
}
