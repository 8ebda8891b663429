#![allow(clippy::unwrap_used, clippy::expect_used)]
//! What holds of a task whatever happens to it, in whatever order.

use std::collections::{BTreeMap, HashSet};

use proptest::{collection::vec, prelude::*};
use serde_json::json;
use uuid::Uuid;

use super::event::Event;
use crate::{
    base::{BootId, Millis, TaskId, UnixMillis},
    config::TaskRules,
    store::{Answer, End, Question, QuestionKind, Refused, Status, Task},
};

const HOLDER: BootId = BootId(Uuid::from_u128(7));
const OTHER: BootId = BootId(Uuid::from_u128(8));
const ABSENCE: Millis = Millis(1000);
const ACTIVE: Millis = Millis(600);

fn born() -> Task {
    Task {
        id: TaskId(Uuid::from_u128(1)),
        created_at: UnixMillis(10_000),
        updated_at: UnixMillis(10_000),
        ttl: ACTIVE + ABSENCE,
        poll_interval: Millis(500),
        active_left: ACTIVE,
        absence: ABSENCE,
        holder: Some(HOLDER),
        revealed: false,
        ..Task::blank()
    }
}

/// One that can be parked and resumed.
fn with_journal() -> Task {
    Task { pieces: 1, ..born() }
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

/// Stands for the fence that the task has then.
const RIGHT: u64 = u64::MAX;

/// Mostly the holder's fence.
fn fence() -> impl Strategy<Value = u64> {
    prop_oneof![9 => Just(RIGHT), 1 => 0_u64..4]
}

/// Some holder, to be compared with the task's.
fn holder() -> impl Strategy<Value = Option<BootId>> {
    prop::sample::select(vec![None, Some(HOLDER), Some(OTHER)])
}

/// What concerns the instance and not what clients see.
fn resuming() -> impl Strategy<Value = Event> {
    let at = || prop::option::of(9_000_u64..20_000);
    let me = prop::sample::select(vec![HOLDER, OTHER]);
    prop_oneof![
        4 => (fence(), at(), 0..5000_u64).prop_map(|(fence, wake_at, left)| Event::Park {
            fence,
            wake_at: wake_at.map(UnixMillis),
            active_left: Millis(left),
        }),
        6 => (me, holder(), fence(), any::<bool>())
            .prop_map(|(me, holder, fence, alone)| Event::Claim { me, holder, fence, alone }),
        1 => fence().prop_map(|fence| Event::Live { fence }),
        2 => (fence(), at(), any::<bool>()).prop_map(|(fence, retry_at, ordered)| Event::HandBack {
            fence,
            retry_at: retry_at.map(UnixMillis),
            ordered,
        }),
        2 => (holder(), fence()).prop_map(|(holder, fence)| Event::Orphan {
            holder: holder.unwrap_or(OTHER),
            fence,
        }),
        1 => fence().prop_map(|fence| Event::Pin { fence, why: "it wrote".into() }),
        2 => (fence(), 0..5000_u64).prop_map(|(fence, left)| Event::Commit { fence, active_left: Millis(left) }),
    ]
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
    let asked = vec((key(), prop::bool::weighted(0.2)), 0..4);
    let left = prop::option::of(0..5000_u64);
    let asks = (fence(), asked, 1..5000_u64, any::<bool>(), prop::bool::weighted(0.1), left);
    prop_oneof![
        6 => asks.prop_map(move |(fence, keys, wait, resume_on_timeout, by_host, left)| Event::Ask {
            fence,
            questions: keys.iter().map(|(k, early)| Question {
                answer: early.then_some(Answer::Declined),
                ..question(k)
            }).collect(),
            wait: Millis(wait),
            resume_on_timeout,
            by_host,
            active_left: left.map(Millis),
            poll_interval,
        }),
        9 => (answers, prop::option::weighted(0.3, 0_u32..3)).prop_map(move |(answers, round)| Event::Answers {
            answers,
            round,
            poll_interval,
        }),
        3 => fence().prop_map(move |fence| Event::TimeOut { fence, poll_interval }),
        3 => (fence(), ".{0,9}").prop_map(|(fence, message)| Event::Progress { fence, message }),
        1 => Just(Event::Cancel),
        1 => Just(Event::Leave),
        1 => Just(Event::Reveal),
        1 => (fence(), ending()).prop_map(|(fence, end)| Event::Settle { fence, end }),
        1 => (fence(), ending(), holder()).prop_map(|(fence, end, holder)| Event::Abandon {
            holder,
            fence,
            end,
        }),
        9 => resuming(),
    ]
}

/// The event with the fence that was meant.
fn meant(mut event: Event, task: &Task) -> Event {
    if let Some(fence) = fence_mut(&mut event)
        && *fence == RIGHT
    {
        *fence = task.fence;
    }
    event
}

fn fence_of(event: &Event) -> Option<u64> {
    fence_mut(&mut event.clone()).copied()
}

fn fence_mut(event: &mut Event) -> Option<&mut u64> {
    match event {
        Event::Ask { fence, .. }
        | Event::TimeOut { fence, .. }
        | Event::Progress { fence, .. }
        | Event::Settle { fence, .. }
        | Event::Park { fence, .. }
        | Event::Claim { fence, .. }
        | Event::Live { fence }
        | Event::HandBack { fence, .. }
        | Event::Orphan { fence, .. }
        | Event::Pin { fence, .. }
        | Event::Commit { fence, .. }
        | Event::Abandon { fence, .. } => Some(fence),
        Event::Answers { .. } | Event::Cancel | Event::Leave | Event::Reveal => None,
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
    if t.holder.is_none() && !t.status.is_terminal() {
        assert!(t.is_resumable() && t.parked_at.is_some(), "nobody's and lost: {t:?}");
    } else {
        assert_eq!((t.wake_at, t.retry_at, t.parked_at), (None, None, None));
    }
    assert!(!t.status.is_terminal() || t.holder.is_none());
    assert!(t.attempts <= t.resumed);
    if let Some(wake_at) = t.wake_at {
        assert_eq!(t.status, Status::Working);
        assert!(t.expires_at() >= wake_at + t.absence, "a sleep outlives no handle");
    }
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
    assert_eq!((after.id, after.created_at, after.pieces), (before.id, before.created_at, before.pieces));
    let claims = u64::from(matches!(event, Event::Claim { .. }));
    assert_eq!(after.fence, before.fence + claims, "each holder has a fence of its own");
    assert!(after.parked_ms >= before.parked_ms && after.resumed >= before.resumed);
    instance(before, event, after, now);
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
            assert_eq!(after.attempts, 0, "who asks is live");
            let new = &after.questions[before.questions.len()..];
            assert!(new.iter().zip(questions).all(|(n, q)| n.key.starts_with(&q.key)));
            assert!(new.iter().all(|q| q.key.starts_with("layby/") == *by_host));
            assert!(new.iter().zip(questions).all(|(n, q)| n.answer == q.answer), "early answers are kept");
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

/// What must be true of who runs it.
fn instance(before: &Task, event: &Event, after: &Task, now: UnixMillis) {
    let by_holder = !matches!(
        event,
        Event::TimeOut { .. }
            | Event::Claim { .. }
            | Event::Orphan { .. }
            | Event::Abandon { .. }
            | Event::Answers { .. }
            | Event::Cancel
            | Event::Leave
            | Event::Reveal
    );
    assert!(!by_holder || before.holder.is_some(), "what is nobody's has no holder who writes");
    match event {
        Event::Park { wake_at, .. } => {
            assert!(before.cancel_requested.is_none(), "nothing parks after a cancel");
            assert_eq!((after.holder, after.attempts, after.wake_at), (None, 0, *wake_at));
            assert_eq!(before.status == Status::InputRequired, wake_at.is_none());
        }
        Event::Claim { me, holder, alone, .. } => {
            let free = before.attempts == 0 || (*alone && before.holder.is_none());
            assert!(free, "what a process may have died of is resumed alone");
            assert_eq!((before.holder, after.holder), (*holder, Some(*me)));
            assert!(before.cancel_requested.is_none() && before.status == Status::Working);
            assert_eq!((after.attempts, after.resumed), (before.attempts + 1, before.resumed + 1));
            let rested = before.parked_at.map_or(Millis(0), |at| now.max(before.updated_at).since(at));
            assert_eq!(after.parked_ms, before.parked_ms + rested);
        }
        Event::Orphan { holder, .. } => {
            assert_eq!((before.holder, after.holder), (Some(*holder), None));
            assert_eq!(after.attempts, before.attempts, "a crash counts");
            assert_eq!(after.retry_at.is_some(), before.attempts > 1, "and more of them make a pause");
        }
        Event::HandBack { ordered, retry_at, .. } => {
            assert_eq!((after.holder, after.retry_at), (None, *retry_at));
            assert_eq!(after.attempts, if *ordered { 0 } else { before.attempts });
        }
        _ => assert!(after.holder == before.holder || after.status.is_terminal()),
    }
    if matches!(event, Event::Live { .. } | Event::Pin { .. } | Event::Commit { .. }) {
        assert_eq!(
            (after.updated_at, after.ttl, after.status),
            (before.updated_at, before.ttl, before.status)
        );
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
        Refused::Fenced => match event {
            Event::Abandon { .. } | Event::Claim { .. } | Event::Orphan { .. } => {}
            event => assert!(before.holder.is_none() || fence_of(event) != Some(before.fence)),
        },
        Refused::Unchanged | Refused::NotNow(_) => assert!(!before.status.is_terminal()),
    }
    if let Event::Settle { fence, .. } = event {
        let holds = before.holder.is_some() && *fence == before.fence;
        assert!(!holds, "a holder can always end its task: {refusal:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_task_stays_consistent(steps in vec((event(), -500_i64..2000), 1..25), journal in any::<bool>()) {
        let mut task = if journal { with_journal() } else { born() };
        let mut now = task.created_at;
        for (event, tick) in steps {
            // The wall clock may go back.
            now = UnixMillis(now.0.saturating_add_signed(tick));
            let event = meant(event, &task);
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
        active_left: None,
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
        active_left: None,
        poll_interval: Millis(500),
    };
    let asked = born().apply(ask, at(10_100)).unwrap();
    assert_eq!(asked.ttl, Millis(100 + 5000) + ABSENCE, "the input deadline is later than the active time");
    let answers = BTreeMap::from([("a".to_owned(), Ok(Answer::Declined))]);
    let answered =
        asked.apply(Event::Answers { answers, round: None, poll_interval: Millis(500) }, at(15_000)).unwrap();
    assert_eq!(answered.ttl, Millis(5000) + ACTIVE + ABSENCE, "active time begins again with the answer");
    let settle =
        |end_at| answered.clone().apply(Event::Settle { fence: 1, end: End::Cancelled }, at(end_at)).unwrap();
    assert_eq!(settle(15_100).ttl, answered.ttl, "never less than was promised");
    assert_eq!(settle(17_000).ttl, Millis(7000) + ABSENCE, "absence counts from the end");
}

#[test]
fn a_sleep_is_part_of_the_ttl_and_active_time_begins_again_after_it() {
    let at = UnixMillis;
    let park = Event::Park { fence: 1, wake_at: Some(at(50_000)), active_left: Millis(300) };
    let parked = with_journal().apply(park.clone(), at(10_100)).unwrap();
    assert_eq!((parked.holder, parked.parked_at), (None, Some(at(10_100))));
    assert_eq!(parked.ttl, Millis(40_000) + ABSENCE);
    let claim = Event::Claim { me: OTHER, holder: None, fence: 1, alone: false };
    let claimed = parked.apply(claim.clone(), at(50_000)).unwrap();
    assert_eq!(
        (claimed.fence, claimed.parked_ms, claimed.ttl),
        (2, Millis(39_900), Millis(40_300) + ABSENCE)
    );
    // A crash on the way to the live point, and another.
    let crash = |task: Task, fence, now| {
        let orphan = task.apply(Event::Orphan { holder: OTHER, fence }, at(now)).unwrap();
        orphan.apply(Event::Claim { me: OTHER, holder: None, fence, alone: true }, at(now)).unwrap()
    };
    let twice = crash(crash(claimed, 2, 51_000), 3, 52_000);
    assert_eq!((twice.attempts, twice.resumed, twice.fence), (3, 3, 4));
    let live = twice.apply(Event::Live { fence: 4 }, at(52_000)).unwrap();
    assert_eq!((live.attempts, live.resumed), (0, 3));
    // Without a journal, after a pin or after a cancel nothing parks.
    assert!(matches!(born().apply(park.clone(), at(10_100)), Err(Refused::NotNow(_))));
    let pinned = with_journal().apply(Event::Pin { fence: 1, why: "it wrote".into() }, at(10_100)).unwrap();
    assert!(matches!(pinned.apply(park.clone(), at(10_100)), Err(Refused::NotNow(_))));
    let cancelled = with_journal().apply(Event::Cancel, at(10_100)).unwrap();
    assert!(matches!(cancelled.apply(park, at(10_100)), Err(Refused::NotNow(_))));
}

#[test]
fn only_crashes_alone_count_and_each_makes_a_longer_pause() {
    let now = UnixMillis(20_000);
    let claim = |task: Task, alone| {
        let (holder, fence) = (task.holder, task.fence);
        task.apply(Event::Claim { me: OTHER, holder, fence, alone }, now)
    };
    let die = |task: Task| {
        let fence = task.fence;
        task.apply(Event::Orphan { holder: OTHER, fence }, now).unwrap()
    };
    let orphan = Event::Orphan { holder: HOLDER, fence: 1 };
    let mut task = with_journal().apply(orphan, now).unwrap();
    // Beside others, which may have been at fault.
    let held = claim(task, false).unwrap();
    assert!(matches!(claim(held.clone(), true), Err(Refused::NotNow(_))), "it is made nobody's first");
    task = die(held);
    assert_eq!((task.crashes(), task.retry_at), (0, None));
    for crashes in 1..=TaskRules::POISON {
        assert!(matches!(claim(task.clone(), false), Err(Refused::NotNow(_))));
        task = die(claim(task, true).unwrap());
        let pause = Millis(TaskRules::ALONE_RETRY.0 * u64::from(crashes));
        assert_eq!((task.crashes(), task.retry_at), (crashes, Some(now + pause)));
    }
    // Live once, it begins anew.
    let held = claim(task, true).unwrap();
    let fence = held.fence;
    let live = held.apply(Event::Live { fence }, now).unwrap();
    assert_eq!(die(live).attempts, 0);
}

#[test]
fn early_answers_are_kept_and_not_asked_for() {
    let ask = |early: &[bool]| Event::Ask {
        fence: 1,
        questions: early
            .iter()
            .map(|early| Question { answer: early.then_some(Answer::Declined), ..question("a") })
            .collect(),
        wait: Millis(10),
        resume_on_timeout: false,
        by_host: false,
        active_left: Some(Millis(5)),
        poll_interval: Millis(500),
    };
    let now = UnixMillis(10_000);
    assert!(matches!(born().apply(ask(&[true, true]), now), Err(Refused::NotNow(_))));
    let asked = born().apply(ask(&[true, false]), now).unwrap();
    assert_eq!(asked.pending().map(|q| q.key.as_str()).collect::<Vec<_>>(), ["a_2"]);
    assert_eq!(asked.active_left, Millis(5));
    let answers = BTreeMap::from([("a_2".to_owned(), Ok(Answer::Dismissed))]);
    let answered =
        asked.apply(Event::Answers { answers, round: None, poll_interval: Millis(500) }, now).unwrap();
    assert_eq!(answered.round_answers(), Some(vec![Answer::Declined, Answer::Dismissed]));
}
