#![allow(clippy::unwrap_used, clippy::expect_used)]
//! The service on a real store, with a clock that the tests move.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{
    base::UnixMillis,
    config::OnInputTimeout,
    store::{QuestionKind, SqliteStore, Status},
};

/// The wall clock, moved by hand on top of the real one.
#[derive(Default)]
pub(super) struct Moved(AtomicU64);

impl Clock for Moved {
    fn now(&self) -> UnixMillis {
        crate::base::SystemClock.now() + Millis(self.0.load(Ordering::Relaxed))
    }

    fn elapsed(&self) -> Millis {
        Millis(boottime_ms()) + Millis(self.0.load(Ordering::Relaxed))
    }
}

impl Moved {
    pub(super) fn advance(&self, span: Millis) {
        self.0.fetch_add(span.0, Ordering::Relaxed);
    }
}

/// One host process, as far as tasks go.
pub(super) struct Host {
    pub(super) tasks: Arc<Tasks>,
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<Moved>,
}

pub(super) fn config() -> Config {
    let mut config = Config::default();
    config.store.lease = Millis(2000);
    config.store.takeover = Millis(200);
    config
}

pub(super) async fn start_with(dir: &TempDir, config: &Config, clock: Arc<Moved>) -> Host {
    let mut config = config.clone();
    config.serve.data = dir.path().into();
    let store = SqliteStore::open(dir.path(), &config.store).await.unwrap();
    let tasks = Tasks::open(store.clone(), clock.clone(), &config).await.unwrap();
    Host { tasks, store, clock }
}

pub(super) async fn start(dir: &TempDir) -> Host {
    start_with(dir, &config(), Arc::default()).await
}

pub(super) fn new() -> NewTask {
    NewTask {
        id: TaskId::new(),
        principal: me(),
        tool: "t".into(),
        plugin: "p".into(),
        digest: Digest::of(b"c"),
        call: CallPolicy::default(),
        active_time: Millis(600_000),
        status_message: None,
        questions: Vec::new(),
        key: None,
    }
}

fn keyed(key: &str, arguments: &str) -> NewTask {
    let key = IdempotencyKey { key: key.into(), arguments: Digest::of(arguments.as_bytes()) };
    NewTask { key: Some(key), ..new() }
}

pub(super) fn form(key: &str) -> Question {
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]});
    Question {
        key: key.into(),
        round: 0,
        kind: QuestionKind::Form,
        request: Arc::new(json!({"method": "elicitation/create", "params": {"requestedSchema": schema}})),
        answer: None,
    }
}

pub(super) fn me() -> Principal {
    Principal::local()
}

pub(super) fn accept(ok: bool) -> Value {
    json!({"action": "accept", "content": {"ok": ok}})
}

pub(super) fn accepted(ok: bool) -> Answer {
    Answer::Accepted(json!({"ok": ok}))
}

pub(super) fn answers(list: &[(&str, Value)]) -> BTreeMap<String, Value> {
    list.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect()
}

pub(super) fn result(text: &str) -> End {
    End::Completed(json!({"content": [{"type": "text", "text": text}]}))
}

pub(super) async fn signal(held: &mut Held) -> Signal {
    tokio::time::timeout(Duration::from_secs(20), held.signal()).await.expect("a signal")
}

/// Polls for what should come to be.
pub(super) async fn until<F: Future<Output = bool>>(mut there: impl FnMut() -> F) {
    let wait = async {
        while !there().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("it did not come to be");
}

pub(super) fn code_of(end: &Option<End>) -> &str {
    match end {
        Some(End::Failed(error)) => error["data"]["code"].as_str().unwrap_or_default(),
        _ => "",
    }
}

#[tokio::test]
async fn a_task_from_birth_to_end() {
    let dir = TempDir::new().unwrap();
    let (host, other) = (start(&dir).await, start(&dir).await);
    let (held, born) = host.tasks.create(new(), Vec::new()).await.unwrap();
    let id = born.id.to_string();
    assert_eq!(born.ttl, Millis(600_000 + 24 * 3_600_000), "active time and absence");
    // Resolves at once, from any process, for its owner and the operator alone.
    assert_eq!(other.tasks.get(&me(), &id).await.unwrap(), born);
    assert!(other.tasks.get(&Principal::operator(), &id).await.is_ok());
    let stranger = Principal::from_stored("token:other");
    assert_eq!(host.tasks.get(&stranger, &id).await.unwrap_err().code, "task_unknown");
    assert_eq!(host.tasks.cancel(&stranger, &id).await.unwrap_err().code, "task_unknown");
    assert_eq!(host.tasks.get(&me(), "nonsense").await.unwrap_err().code, "task_unknown");
    assert_eq!(host.tasks.list(&stranger, 10).await.unwrap().len(), 0);

    let (ended, settled) = tokio::join!(
        host.tasks.wait_ended(&born.principal, born.id, Millis(10_000)),
        host.tasks.settle(&held, result("a"))
    );
    assert_eq!(ended.unwrap(), settled.unwrap());
    // Terminal is final: for the run, for answers and for cancellation.
    let again = host.tasks.settle(&held, End::Cancelled).await.unwrap();
    assert_eq!((again.status, again.end), (Status::Completed, Some(result("a"))));
    host.tasks.cancel(&me(), &id).await.unwrap();
    host.tasks.update(&me(), &id, answers(&[("a", accept(true))])).await.unwrap();
    assert_eq!(
        host.tasks.ask(&held, vec![form("a")], &new().call, None, Vec::new()).await.unwrap_err().code,
        "task_ended"
    );
    assert_eq!(other.tasks.get(&me(), &id).await.unwrap().status, Status::Completed);
}

#[tokio::test]
async fn answers_are_atomic_partial_and_in_order() {
    let dir = TempDir::new().unwrap();
    let host = start(&dir).await;
    let mut asking = new();
    asking.questions = vec![form("b"), form("a")];
    let (mut held, born) = host.tasks.create(asking, Vec::new()).await.unwrap();
    let id = born.id.to_string();
    assert_eq!(born.status, Status::InputRequired);
    let get = || async { host.tasks.get(&me(), &id).await.unwrap() };

    let bad = answers(&[("b", accept(true)), ("a", json!({"action": "accept", "content": {"ok": 1}}))]);
    let refused = host.tasks.update(&me(), &id, bad).await.unwrap_err();
    assert_eq!(refused.code, "answers_invalid");
    assert!(refused.data["reasons"]["a"].as_str().unwrap().contains("/content/ok"));
    assert_eq!(get().await.pending().count(), 2, "nothing was taken");

    let some = answers(&[("a", accept(false)), ("nobody", json!(1))]);
    host.tasks.update(&me(), &id, some).await.unwrap();
    let keys: Vec<String> = get().await.pending().map(|q| q.key.clone()).collect();
    assert_eq!(keys, ["b"]);
    // An answered key is ignored, even with nonsense.
    host.tasks.update(&me(), &id, answers(&[("a", json!(1))])).await.unwrap();
    host.tasks.update(&me(), &id, answers(&[("b", json!({"action": "decline"}))])).await.unwrap();
    assert_eq!(get().await.status, Status::Working);
    assert_eq!(signal(&mut held).await, Signal::Answers(vec![Answer::Declined, accepted(false)]));

    let asked = host
        .tasks
        .ask(&held, vec![form("a"), form("a"), form("c")], &new().call, None, Vec::new())
        .await
        .unwrap();
    let keys: Vec<&str> = asked.pending().map(|q| q.key.as_str()).collect();
    assert_eq!(keys, ["a_2", "a_3", "c"]);
    let reserved =
        host.tasks.ask(&held, vec![form("layby/x")], &new().call, None, Vec::new()).await.unwrap_err();
    assert_eq!(reserved.code, "task_not_now");
    host.tasks
        .update(&me(), &id, asked.pending().map(|q| (q.key.clone(), accept(true))).collect())
        .await
        .unwrap();
    assert_eq!(signal(&mut held).await, Signal::Answers(vec![accepted(true); 3]));
}

#[tokio::test]
async fn another_process_answers_and_cancels() {
    let dir = TempDir::new().unwrap();
    let (host, other) = (start(&dir).await, start(&dir).await);
    let asking = NewTask { questions: vec![form("a")], ..new() };
    let (mut held, born) = host.tasks.create(asking, Vec::new()).await.unwrap();
    let id = born.id.to_string();
    other.tasks.update(&me(), &id, answers(&[("a", accept(true))])).await.unwrap();
    assert_eq!(signal(&mut held).await, Signal::Answers(vec![accepted(true)]));
    host.tasks.ask(&held, vec![form("a")], &new().call, None, Vec::new()).await.unwrap();
    other.tasks.cancel(&me(), &id).await.unwrap();
    // Committed when acknowledged; the run ends it.
    assert!(host.store.get(born.id).await.unwrap().unwrap().cancel_requested.is_some());
    assert_eq!(signal(&mut held).await, Signal::Cancel);
    other.tasks.cancel(&me(), &id).await.unwrap();
    let wait = tokio::time::timeout(Duration::from_millis(1500), held.signal()).await;
    assert!(wait.is_err(), "signalled once: {wait:?}");
    let ask = host.tasks.ask(&held, vec![form("b")], &new().call, None, Vec::new()).await.unwrap_err();
    assert!(["task_cancelling", "task_not_now"].contains(&ask.code));
    let settled = host.tasks.settle(&held, End::Cancelled).await.unwrap();
    assert_eq!(settled.status, Status::Cancelled);
    assert_eq!(other.tasks.wait_ended(&me(), born.id, Millis(9000)).await.unwrap(), settled);
}

#[tokio::test]
async fn work_at_its_ttl_is_stopped_and_the_handle_says_so() {
    let dir = TempDir::new().unwrap();
    let host = start(&dir).await;
    let (mut held, born) = host.tasks.create(new(), Vec::new()).await.unwrap();
    let id = born.id.to_string();
    host.clock.advance(born.ttl);
    let Signal::Stop(end) = signal(&mut held).await else { panic!("not stopped") };
    let ended = host.tasks.settle(&held, end).await.unwrap();
    assert_eq!((ended.status, code_of(&ended.end)), (Status::Failed, "task_expired"));
    assert!(ended.status_message.unwrap().contains("TTL"));
    assert!(ended.ttl >= Millis(born.ttl.0 + new().call.absence.0), "the client may still read how it ended");
    // Past that it is expired, not unknown: before the sweep, and after it.
    host.clock.advance(new().call.absence + Millis(1));
    for _ in 0..2 {
        let expired = host.tasks.get(&me(), &id).await.unwrap_err();
        assert_eq!((expired.code, &expired.data["status"]), ("task_expired", &json!("failed")));
        assert_eq!(host.tasks.cancel(&me(), &id).await.unwrap_err().code, "task_expired");
        let stranger = Principal::from_stored("token:other");
        assert_eq!(host.tasks.get(&stranger, &id).await.unwrap_err().code, "task_unknown");
        host.store.sweep(host.clock.now(), UnixMillis(0)).await.unwrap();
    }
    assert_eq!(host.store.get(born.id).await.unwrap(), None);
}

#[tokio::test]
async fn questions_run_out() {
    let dir = TempDir::new().unwrap();
    let host = start(&dir).await;
    let mut resuming = new();
    resuming.call.on_input_timeout = OnInputTimeout::Resume;
    let (mut resumed, _) = host.tasks.create(resuming.clone(), Vec::new()).await.unwrap();
    let asked = host.tasks.ask(&resumed, vec![form("a")], &resuming.call, None, Vec::new()).await.unwrap();
    let (mut failed, born) =
        host.tasks.create(NewTask { questions: vec![form("a")], ..new() }, Vec::new()).await.unwrap();
    host.clock.advance(new().call.input_deadline + Millis(1));
    let late = host.tasks.update(&me(), &born.id.to_string(), answers(&[("a", accept(true))])).await;
    assert_eq!(late.unwrap_err().code, "input_timed_out");
    assert_eq!(signal(&mut resumed).await, Signal::TimedOut);
    let goes_on = host.tasks.get(&me(), &asked.id.to_string()).await.unwrap();
    assert_eq!((goes_on.status, goes_on.pending().count()), (Status::Working, 0));
    assert!(goes_on.ttl > asked.ttl, "its active time begins again");
    let Signal::Stop(end) = signal(&mut failed).await else { panic!("not stopped") };
    let ended = host.tasks.settle(&failed, end).await.unwrap();
    assert_eq!((ended.status, code_of(&ended.end)), (Status::Failed, "input_timed_out"));
}

#[tokio::test]
async fn progress_is_throttled_and_never_comes_after_the_end() {
    let dir = TempDir::new().unwrap();
    let host = start(&dir).await;
    let (held, born) = host.tasks.create(new(), Vec::new()).await.unwrap();
    let mut changes = host.tasks.changes();
    let message = || async { host.store.get(born.id).await.unwrap().unwrap().status_message };
    (0..100).for_each(|n| host.tasks.progress(&held, format!("{n}")));
    until(|| async { message().await.as_deref() == Some("99") }).await;
    host.tasks.progress(&held, "100".into());
    until(|| async { message().await.as_deref() == Some("100") }).await;
    let mut written = 0;
    while changes.try_recv().is_ok() {
        written += 1;
    }
    assert!(written <= 2, "{written} writes");
    host.tasks.progress(&held, "late".into());
    host.tasks.settle(&held, result("x")).await.unwrap();
    host.tasks.progress(&held, "too late".into());
    host.tasks.close().await;
    assert_eq!(message().await, None);
}

#[tokio::test]
async fn a_key_has_one_run_and_one_outcome() {
    let dir = TempDir::new().unwrap();
    let (host, other) = (start(&dir).await, start(&dir).await);
    let calls = (0..100).map(|n| {
        let tasks = if n % 2 == 0 { &host.tasks } else { &other.tasks };
        tasks.admit(keyed("k", "x"), Vec::new())
    });
    let mut fresh = Vec::new();
    let mut twins = Vec::new();
    for admission in futures::future::try_join_all(calls).await.unwrap() {
        match admission {
            Admission::Fresh(held, task) => fresh.push((held, task)),
            Admission::Repeat(task) => twins.push(task.id),
        }
    }
    assert_eq!((fresh.len(), twins.len()), (1, 99));
    let (held, task) = fresh.pop().unwrap();
    assert!(twins.iter().all(|id| *id == task.id));
    assert_eq!(
        other.tasks.admit(keyed("k", "y"), Vec::new()).await.unwrap_err().code,
        "idempotency_key_reused"
    );
    assert!(!task.revealed);
    assert!(other.tasks.reveal(task.id).await.unwrap().revealed);
    // Both processes can end it in this test: only the holder's fence does.
    let tasks = [&host.tasks, &other.tasks];
    let _ = futures::future::join_all(tasks.map(|t| t.settle(&held, result("once")))).await;
    let Admission::Repeat(ended) = other.tasks.admit(keyed("k", "x"), Vec::new()).await.unwrap() else {
        panic!("fresh")
    };
    assert_eq!(ended.end, Some(result("once")));
    // The outcome answers until the TTL; then the key is free.
    other.clock.advance(ended.ttl + Millis(1000));
    assert!(matches!(other.tasks.admit(keyed("k", "y"), Vec::new()).await.unwrap(), Admission::Fresh(..)));
}

#[tokio::test]
async fn only_tasks_of_the_dead_are_ended() {
    let dir = TempDir::new().unwrap();
    let (dead, alive) = (start(&dir).await, start(&dir).await);
    let (_held, lost) =
        dead.tasks.create(NewTask { questions: vec![form("a")], ..new() }, Vec::new()).await.unwrap();
    let (_also, cancelled) = dead.tasks.create(new(), Vec::new()).await.unwrap();
    let (_alive, kept) = alive.tasks.create(new(), Vec::new()).await.unwrap();
    // As kill -9 does: no more heartbeats, and nothing handed back.
    dead.tasks.end.cancel();
    alive.tasks.cancel(&me(), &cancelled.id.to_string()).await.unwrap();
    let ended = alive.tasks.wait_ended(&me(), lost.id, Millis(20_000)).await.unwrap();
    assert_eq!((ended.status, code_of(&ended.end)), (Status::Failed, "interrupted"));
    let ended = alive.tasks.wait_ended(&me(), cancelled.id, Millis(20_000)).await.unwrap();
    assert_eq!(ended.status, Status::Cancelled);
    assert_eq!(alive.store.get(kept.id).await.unwrap().unwrap().status, Status::Working);
    // A process that closes in order hands its lease back: the next start need not wait.
    alive.tasks.close().await;
    alive.store.close().await;
    let next = start(&dir).await;
    assert_eq!(next.store.get(kept.id).await.unwrap().unwrap().status, Status::Failed);
}

#[tokio::test]
async fn where_nobody_runs_it_a_cancel_ends_it_at_once() {
    let dir = TempDir::new().unwrap();
    let (dead, alive) = (start(&dir).await, start(&dir).await);
    let (_held, lost) = dead.tasks.create(new(), Vec::new()).await.unwrap();
    dead.tasks.end.cancel();
    dead.tasks.loops.wait().await;
    dead.store.release(dead.tasks.inner.boot).await.unwrap();
    alive.tasks.cancel(&me(), &lost.id.to_string()).await.unwrap();
    let ended = alive.tasks.get(&me(), &lost.id.to_string()).await.unwrap();
    assert!(ended.status.is_terminal(), "{ended:?}");
}

#[tokio::test]
async fn a_run_that_goes_without_an_end_is_ended() {
    let dir = TempDir::new().unwrap();
    let host = start(&dir).await;
    let (held, born) = host.tasks.create(new(), Vec::new()).await.unwrap();
    drop(held);
    let ended = host.tasks.wait_ended(&me(), born.id, Millis(20_000)).await.unwrap();
    assert_eq!((ended.status, code_of(&ended.end)), (Status::Failed, "interrupted"));
}

#[tokio::test]
async fn bounds_are_named() {
    let dir = TempDir::new().unwrap();
    let mut config = config();
    config.host.live_tasks = 1;
    let host = start_with(&dir, &config, Arc::default()).await;
    let (held, born) = host.tasks.create(new(), Vec::new()).await.unwrap();
    let refused = host.tasks.create(new(), Vec::new()).await.unwrap_err();
    assert_eq!((refused.code, &refused.data["limit"]), ("too_many_tasks", &json!(1)));
    let id = born.id.to_string();
    let mut polls = 0;
    let refused = loop {
        match host.tasks.get(&me(), &id).await {
            Ok(_) => polls += 1,
            Err(fault) => break fault,
        }
        assert!(polls < 10_000, "polls are not bounded");
    };
    assert!(polls >= 20, "{polls}");
    assert_eq!(refused.code, "polling_too_fast");
    let wait = refused.data["retryAfterMs"].as_u64().unwrap();
    assert!((1..=1001).contains(&wait), "{wait}");
    assert!(host.tasks.get(&Principal::operator(), &id).await.is_ok(), "others may poll");
    host.tasks.settle(&held, result("x")).await.unwrap();
    assert!(matches!(host.tasks.admit(keyed("k", "x"), Vec::new()).await.unwrap(), Admission::Fresh(..)));
    // A repeat starts nothing, and so is no further task.
    assert!(matches!(host.tasks.admit(keyed("k", "x"), Vec::new()).await.unwrap(), Admission::Repeat(_)));
    assert_eq!(
        host.tasks.admit(keyed("k", "y"), Vec::new()).await.unwrap_err().code,
        "idempotency_key_reused"
    );
    assert_eq!(host.tasks.admit(keyed("l", "x"), Vec::new()).await.unwrap_err().code, "too_many_tasks");

    config.host.min_free_space = crate::base::ByteSize(u64::MAX);
    let host = start_with(&dir, &config, Arc::default()).await;
    assert_eq!(host.tasks.create(new(), Vec::new()).await.unwrap_err().code, "low_disk_space");
}

#[tokio::test]
async fn a_process_that_lost_its_lease_stops_its_runs() {
    let dir = TempDir::new().unwrap();
    let host = start(&dir).await;
    let (mut held, _) = host.tasks.create(new(), Vec::new()).await.unwrap();
    host.tasks.inner.lease_until.store(0, Ordering::Release);
    let Signal::Unleased(end) = signal(&mut held).await else { panic!("not stopped") };
    assert_eq!(code_of(&Some(end)), "interrupted");
}
