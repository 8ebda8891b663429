#![allow(clippy::unwrap_used, clippy::expect_used)]
//! What holds of a task whatever happens to it, in whatever order.

use std::collections::{BTreeMap, HashSet};

use proptest::{collection::vec, prelude::*};
use serde_json::json;
use uuid::Uuid;

use super::machine::Event;
use crate::{
    base::{BootId, Digest, Millis, Principal, TaskId, UnixMillis},
    config::TaskRules,
    store::{Answer, End, Question, QuestionKind, Refused, Status, Task},
};

const HOLDER: BootId = BootId(Uuid::from_u128(7));
const ABSENCE: Millis = Millis(1000);
const ACTIVE: Millis = Millis(600);

fn born() -> Task {
    Task {
        id: TaskId(Uuid::from_u128(1)),
        principal: Principal::local(),
        tool: "t".into(),
        plugin: "p".into(),
        digest: Digest::of(b""),
        status: Status::Working,
        status_message: None,
        created_at: UnixMillis(10_000),
        updated_at: UnixMillis(10_000),
        ttl: ACTIVE + ABSENCE,
        poll_interval: Millis(500),
        active_left: ACTIVE,
        absence: ABSENCE,
        holder: Some(HOLDER),
        fence: 1,
        cancel_requested: None,
        input_deadline: None,
        resume_on_timeout: false,
        revealed: false,
        key: None,
        questions: Vec::new(),
        end: None,
    }
}

fn question(key: &str) -> Question {
    Question {
        key: key.into(),
        round: 99,
        kind: QuestionKind::Form,
        request: std::sync::Arc::default(),
        answer: None,
    }
}

/// Keys that collide with those that the machine makes.
fn key() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "a_2", "a_3", "b", "b_2", "layby/a"]).prop_map(str::to_owned)
}

/// Mostly the holder's fence.
fn fence() -> impl Strategy<Value = u64> {
    prop_oneof![9 => Just(1), 1 => 0_u64..4]
}

fn ending() -> impl Strategy<Value = End> {
    prop_oneof![
        Just(End::Completed(json!({}))),
        Just(End::Failed(json!({"code": -32603, "message": "m".repeat(9000)}))),
        Just(End::Cancelled),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let poll_interval = Millis(700);
    let answer = prop_oneof![
        4 => Just(Ok(Answer::Accepted(json!({"x": 1})))),
        1 => Just(Ok(Answer::Declined)),
        1 => Just(Err("no".to_owned())),
    ];
    let answers = prop::collection::btree_map(key(), answer, 0..4);
    let asks = (fence(), vec(key(), 0..4), 1..5000_u64, any::<bool>(), prop::bool::weighted(0.1));
    prop_oneof![
        6 => asks.prop_map(move |(fence, keys, wait, resume_on_timeout, by_host)| Event::Ask {
            fence,
            questions: keys.iter().map(|k| question(k)).collect(),
            wait: Millis(wait),
            resume_on_timeout,
            by_host,
            poll_interval,
        }),
        9 => answers.prop_map(move |answers| Event::Answers { answers, poll_interval }),
        3 => fence().prop_map(move |fence| Event::TimeOut { fence, poll_interval }),
        3 => (fence(), ".{0,9}").prop_map(|(fence, message)| Event::Progress { fence, message }),
        1 => Just(Event::Cancel),
        1 => Just(Event::Reveal),
        1 => (fence(), ending()).prop_map(|(fence, end)| Event::Settle { fence, end }),
        1 => (fence(), ending(), any::<bool>()).prop_map(|(fence, end, right)| Event::Abandon {
            holder: right.then_some(HOLDER),
            fence,
            end,
        }),
    ]
}

fn fence_of(event: &Event) -> Option<u64> {
    match event {
        Event::Ask { fence, .. }
        | Event::TimeOut { fence, .. }
        | Event::Progress { fence, .. }
        | Event::Settle { fence, .. }
        | Event::Abandon { fence, .. } => Some(*fence),
        Event::Answers { .. } | Event::Cancel | Event::Reveal => None,
    }
}

/// What must be true of any task.
fn consistent(t: &Task) {
    let keys: HashSet<&str> = t.questions.iter().map(|q| q.key.as_str()).collect();
    assert_eq!(keys.len(), t.questions.len(), "keys are unique over the task's life");
    let pending = t.pending().count();
    assert_eq!(t.status == Status::InputRequired, pending > 0, "waits exactly while a question is open");
    assert_eq!(t.status == Status::InputRequired, t.input_deadline.is_some());
    assert_eq!(t.status.is_terminal(), t.end.is_some());
    assert_eq!(t.status.is_terminal(), t.holder.is_none());
    assert!(t.updated_at >= t.created_at);
    assert!(t.expires_at() >= t.created_at + t.absence);
    if let Some(deadline) = t.input_deadline {
        assert!(t.expires_at() >= deadline + t.absence, "a question outlives no handle");
    }
    assert!(t.status_message.as_ref().is_none_or(|m| m.len() <= TaskRules::STATUS_MESSAGE.as_usize()));
    let rounds: Vec<u32> = t.questions.iter().map(|q| q.round).collect();
    assert!(rounds.is_sorted() && rounds.first().is_none_or(|r| *r == 0), "{rounds:?}");
}

/// What must be true of any move.
fn moved(before: &Task, event: &Event, after: &Task, now: UnixMillis) {
    assert!(!before.status.is_terminal(), "terminal is final");
    assert!(fence_of(event).is_none_or(|f| f == before.fence), "only the holder moves it");
    assert!(after.ttl >= before.ttl, "what was promised is kept");
    assert!(after.updated_at >= before.updated_at);
    assert_eq!((after.id, after.created_at, after.fence), (before.id, before.created_at, before.fence));
    assert!(after.revealed || !before.revealed);
    assert!(before.cancel_requested.is_none_or(|c| after.cancel_requested == Some(c)));
    for (was, is) in before.questions.iter().zip(&after.questions) {
        assert_eq!((&was.key, was.round, &was.request), (&is.key, is.round, &is.request));
        assert!(was.answer.is_none() || was.answer == is.answer, "an answer is given once");
    }
    match event {
        Event::Ask { questions, by_host, .. } => {
            assert_eq!(after.questions.len(), before.questions.len() + questions.len());
            assert!(before.cancel_requested.is_none(), "nobody is asked after a cancel");
            let new = &after.questions[before.questions.len()..];
            assert!(new.iter().zip(questions).all(|(n, q)| n.key.starts_with(&q.key)));
            assert!(new.iter().all(|q| q.key.starts_with("layby/") == *by_host));
        }
        _ => assert_eq!(after.questions.len(), before.questions.len()),
    }
    if let Event::Answers { answers, .. } = event {
        taken(before, answers, after);
    }
    if after.status.is_terminal() {
        assert!(after.expires_at() >= now + after.absence, "absence counts from the end");
    }
}

/// All that were open and answered, and no others.
fn taken(before: &Task, answers: &BTreeMap<String, Result<Answer, String>>, after: &Task) {
    let open: HashSet<&str> = before.pending().map(|q| q.key.as_str()).collect();
    for (was, is) in before.questions.iter().zip(&after.questions) {
        match answers.get(&was.key).filter(|_| open.contains(was.key.as_str())) {
            Some(answer) => assert_eq!(is.answer.as_ref(), Some(answer.as_ref().unwrap())),
            None => assert_eq!(is.answer, was.answer),
        }
    }
}

/// What must be true of any refusal.
fn refused(before: &Task, event: &Event, refusal: &Refused) {
    match refusal {
        Refused::Ended => assert!(before.status.is_terminal()),
        Refused::Answers(reasons) => {
            let open: HashSet<&str> = before.pending().map(|q| q.key.as_str()).collect();
            assert!(!reasons.is_empty() && reasons.iter().all(|(k, _)| open.contains(k.as_str())));
        }
        Refused::Fenced => assert!(matches!(event, Event::Abandon { .. }) || fence_of(event) != Some(1)),
        Refused::Unchanged | Refused::NotNow(_) => assert!(!before.status.is_terminal()),
    }
    if let (Event::Settle { fence: 1, .. }, false) = (event, before.status.is_terminal()) {
        panic!("a holder can always end its task: {refusal:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_task_stays_consistent(steps in vec((event(), -500_i64..2000), 1..25)) {
        let mut task = born();
        let mut now = task.created_at;
        for (event, tick) in steps {
            // The wall clock may go back.
            now = UnixMillis(now.0.saturating_add_signed(tick));
            match task.clone().apply(event.clone(), now) {
                Ok(next) => {
                    moved(&task, &event, &next, now);
                    consistent(&next);
                    task = next;
                }
                Err(refusal) => refused(&task, &event, &refusal),
            }
        }
    }
}

#[test]
fn keys_that_were_used_get_the_next_free_number() {
    let ask = |keys: &[&str]| Event::Ask {
        fence: 1,
        questions: keys.iter().map(|k| question(k)).collect(),
        wait: Millis(10),
        resume_on_timeout: true,
        by_host: false,
        poll_interval: Millis(500),
    };
    let now = UnixMillis(10_000);
    let asked = born().apply(ask(&["a", "a_2", "a", "b"]), now).unwrap();
    let keys: Vec<&str> = asked.questions.iter().map(|q| q.key.as_str()).collect();
    assert_eq!(keys, ["a", "a_2", "a_3", "b"]);
    // Also after they ran out unanswered: a client may have shown them.
    let time_out = Event::TimeOut { fence: 1, poll_interval: Millis(500) };
    let later = UnixMillis(10_010);
    let asked = asked.apply(time_out, later).unwrap().apply(ask(&["a", "b"]), later).unwrap();
    let keys: Vec<(&str, u32)> = asked.pending().map(|q| (q.key.as_str(), q.round)).collect();
    assert_eq!(keys, [("a_4", 1), ("b_2", 1)]);
}

#[test]
fn the_ttl_follows_its_formula() {
    let at = UnixMillis;
    let ask = Event::Ask {
        fence: 1,
        questions: vec![question("a")],
        wait: Millis(5000),
        resume_on_timeout: false,
        by_host: false,
        poll_interval: Millis(500),
    };
    let asked = born().apply(ask, at(10_100)).unwrap();
    assert_eq!(asked.ttl, Millis(100 + 5000) + ABSENCE, "the input deadline is later than the active time");
    let answers = BTreeMap::from([("a".to_owned(), Ok(Answer::Declined))]);
    let answered = asked.apply(Event::Answers { answers, poll_interval: Millis(500) }, at(15_000)).unwrap();
    assert_eq!(answered.ttl, Millis(5000) + ACTIVE + ABSENCE, "active time begins again with the answer");
    let settle =
        |end_at| answered.clone().apply(Event::Settle { fence: 1, end: End::Cancelled }, at(end_at)).unwrap();
    assert_eq!(settle(15_100).ttl, answered.ttl, "never less than was promised");
    assert_eq!(settle(17_000).ttl, Millis(7000) + ABSENCE, "absence counts from the end");
}
