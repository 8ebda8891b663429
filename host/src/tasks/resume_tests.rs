#![allow(clippy::unwrap_used, clippy::expect_used)]
//! Runs that lose their instance and get another.

use std::time::Duration;

use tempfile::TempDir;

use super::{tests::*, *};
use crate::{config::OnInputTimeout, store::Except};

const LEFT: Millis = Millis(5000);

fn pieces(texts: &[&str]) -> Vec<Piece> {
    texts.iter().map(|t| t.as_bytes().to_vec().into()).collect()
}

/// A task with a journal.
async fn journaled(host: &Host) -> (Held, Task) {
    host.tasks.create(new(), pieces(&["header"])).await.unwrap()
}

async fn parked(host: &Host, questions: &[&str], call: &CallPolicy) -> Task {
    let (held, _) = journaled(host).await;
    let questions = questions.iter().map(|k| form(k)).collect();
    host.tasks.ask(&held, questions, call, Some(LEFT), pieces(&["ask"])).await.unwrap();
    host.tasks.park(held, None, LEFT, pieces(&["park"])).await.unwrap()
}

async fn claimed(host: &Host, id: TaskId) -> (Held, Task) {
    let found = host.tasks.resumable(Except::default(), 10).await.unwrap();
    let task = found.iter().find(|t| t.id == id).expect("resumable");
    host.tasks.claim(task, task.attempts > 0).await.unwrap().expect("claimed")
}

async fn hinted(host: &Host) {
    tokio::time::timeout(Duration::from_secs(20), host.tasks.resume_hint().notified()).await.expect("a hint");
}

#[tokio::test]
async fn parked_answered_elsewhere_and_resumed_there() {
    let dir = TempDir::new().unwrap();
    let (host, other) = (start(&dir).await, start(&dir).await);
    let task = parked(&host, &["a", "b"], &new().call).await;
    let id = task.id.to_string();
    assert_eq!((task.holder, task.pieces, task.active_left), (None, 3, LEFT));
    assert!(!host.tasks.inner.registry.has(task.id), "nothing of it is in memory");
    assert_eq!(host.tasks.journal(task.id).await.unwrap(), pieces(&["header", "ask", "park"]));
    other.tasks.update(&me(), &id, answers(&[("a", accept(true))])).await.unwrap();
    assert!(other.tasks.resumable(Except::default(), 10).await.unwrap().is_empty(), "half answered");
    host.tasks.update(&me(), &id, answers(&[("b", accept(false))])).await.unwrap();
    hinted(&host).await;
    let found = other.tasks.resumable(Except::default(), 10).await.unwrap();
    let (one, two) = tokio::join!(other.tasks.claim(&found[0], false), host.tasks.claim(&found[0], false));
    let mut won: Vec<(Held, Task)> = [one, two].into_iter().filter_map(|c| c.unwrap()).collect();
    assert_eq!(won.len(), 1, "one of them only");
    let (mut held, resumed) = won.pop().unwrap();
    assert_eq!(resumed.round_answers(), Some(vec![accepted(true), accepted(false)]));
    assert_eq!((resumed.attempts, resumed.resumed, held.fence), (1, 1, 2));
    let winner = if resumed.holder == Some(host.tasks.inner.boot) { &host } else { &other };
    winner.tasks.live(&held).await.unwrap();
    winner.tasks.live(&held).await.unwrap();
    // It has its answers from the row; those of the next round are signalled.
    winner.tasks.ask(&held, vec![form("c")], &new().call, None, Vec::new()).await.unwrap();
    winner.tasks.update(&me(), &id, answers(&[("c", accept(true))])).await.unwrap();
    assert_eq!(signal(&mut held).await, Signal::Answers(vec![accepted(true)]));
    winner.tasks.commit(&held, LEFT, pieces(&["more"])).await.unwrap();
    assert_eq!(winner.tasks.journal(task.id).await.unwrap().len(), 4);
    let ended = winner.tasks.settle(&held, result("x")).await.unwrap();
    assert_eq!((ended.status, ended.attempts), (Status::Completed, 0));
}

#[tokio::test]
async fn a_sleeper_wakes_when_its_time_has_come() {
    let dir = TempDir::new().unwrap();
    let host = start(&dir).await;
    let (held, born) = journaled(&host).await;
    host.tasks.progress(&held, "asleep now".into());
    let wake_at = host.clock.now() + Millis(60_000);
    let task = host.tasks.park(held, Some(wake_at), LEFT, Vec::new()).await.unwrap();
    assert_eq!(task.status_message.as_deref(), Some("asleep now"));
    assert!(host.tasks.resumable(Except::default(), 10).await.unwrap().is_empty());
    host.clock.advance(Millis(60_000));
    let (held, awake) = claimed(&host, born.id).await;
    assert!(awake.parked_ms >= Millis(59_000), "{:?}", awake.parked_ms);
    // Given back in order it is there at once; after a failure only later, and the attempt counts.
    host.tasks.hand_back(held, None, true).await.unwrap();
    let (held, _) = claimed(&host, born.id).await;
    let retry_at = host.clock.now() + Millis(10_000);
    let back = host.tasks.hand_back(held, Some(retry_at), false).await.unwrap();
    assert_eq!((back.attempts, back.resumed), (1, 2));
    assert!(host.tasks.resumable(Except::default(), 10).await.unwrap().is_empty());
    host.clock.advance(Millis(10_000));
    claimed(&host, born.id).await;
}

#[tokio::test]
async fn what_is_refused_leaves_the_run_its_task() {
    let dir = TempDir::new().unwrap();
    let host = start(&dir).await;
    let now = host.clock.now();
    let (held, _) = host.tasks.create(new(), Vec::new()).await.unwrap();
    let (held, fault) = host.tasks.park(held, Some(now), LEFT, Vec::new()).await.unwrap_err();
    assert_eq!(fault.code, "task_not_now", "it has no journal");
    host.tasks.settle(&held, result("x")).await.unwrap();

    let (held, born) = journaled(&host).await;
    let id = born.id.to_string();
    host.tasks.ask(&held, vec![form("a")], &new().call, None, Vec::new()).await.unwrap();
    host.tasks.update(&me(), &id, answers(&[("a", accept(true))])).await.unwrap();
    // The answers were faster: they are signalled as ever, and nothing was appended.
    let (mut held, fault) = host.tasks.park(held, None, LEFT, pieces(&["lost"])).await.unwrap_err();
    assert_eq!(fault.code, "task_not_now");
    assert_eq!(signal(&mut held).await, Signal::Answers(vec![accepted(true)]));
    assert_eq!(host.tasks.journal(born.id).await.unwrap(), pieces(&["header"]));
    host.tasks.pin(&held, "it wrote a file".into()).await.unwrap();
    host.tasks.pin(&held, "it wrote another".into()).await.unwrap();
    let (held, fault) = host.tasks.park(held, Some(now), LEFT, Vec::new()).await.unwrap_err();
    assert_eq!(fault.code, "task_not_now");
    host.tasks.cancel(&me(), &id).await.unwrap();
    let (held, fault) = host.tasks.park(held, Some(now), LEFT, Vec::new()).await.unwrap_err();
    assert_eq!(fault.code, "task_cancelling");
    host.tasks.settle(&held, End::Cancelled).await.unwrap();
}

#[tokio::test]
async fn what_is_nobodys_is_cancelled_expired_and_timed_out() {
    let dir = TempDir::new().unwrap();
    let host = start(&dir).await;
    let (call, mut resuming) = (new().call, new().call);
    resuming.on_input_timeout = OnInputTimeout::Resume;
    let cancelled = parked(&host, &["a"], &call).await;
    host.tasks.cancel(&me(), &cancelled.id.to_string()).await.unwrap();
    assert_eq!(host.store.get(cancelled.id).await.unwrap().unwrap().status, Status::Cancelled, "at once");

    let failing = parked(&host, &["a"], &call).await;
    let going_on = parked(&host, &["a"], &resuming).await;
    let (held, sleeping) = journaled(&host).await;
    let wake_at = host.clock.now() + Millis(1);
    host.tasks.park(held, Some(wake_at), LEFT, Vec::new()).await.unwrap();
    host.clock.advance(call.input_deadline + Millis(1));
    hinted(&host).await;
    let end = || async { host.store.get(failing.id).await.unwrap().unwrap().end };
    until(|| async { end().await.is_some() }).await;
    assert_eq!(code_of(&end().await), "input_timed_out");
    until(|| async { host.store.get(going_on.id).await.unwrap().unwrap().status == Status::Working }).await;
    let (_held, resumed) = claimed(&host, going_on.id).await;
    assert_eq!(resumed.round_answers(), None, "the run reads that none came");
    // Nobody went on with the sleeper for longer than it may live.
    host.clock.advance(sleeping.ttl);
    let end = || async { host.store.get(sleeping.id).await.unwrap().unwrap().end };
    until(|| async { end().await.is_some() }).await;
    assert_eq!(code_of(&end().await), "task_expired");
}

#[tokio::test]
async fn the_dead_leave_what_can_be_resumed() {
    let dir = TempDir::new().unwrap();
    let (dead, alive) = (start(&dir).await, start(&dir).await);
    let (held, working) = journaled(&dead).await;
    let (asking_held, asking) = journaled(&dead).await;
    dead.tasks.ask(&asking_held, vec![form("a")], &new().call, None, Vec::new()).await.unwrap();
    let (pinned_held, pinned) = journaled(&dead).await;
    dead.tasks.pin(&pinned_held, "it wrote a file".into()).await.unwrap();
    let (_cancelled_held, cancelled) = journaled(&dead).await;
    let sleeping = parked(&dead, &["a"], &new().call).await;
    dead.tasks.end.cancel();
    alive.tasks.cancel(&me(), &cancelled.id.to_string()).await.unwrap();
    hinted(&alive).await;
    let ended = alive.tasks.wait_ended(&me(), pinned.id, Millis(20_000)).await.unwrap();
    assert_eq!(code_of(&ended.end), "not_resumable");
    assert!(ended.status_message.unwrap().contains("because it wrote a file"));
    let ended = alive.tasks.wait_ended(&me(), cancelled.id, Millis(20_000)).await.unwrap();
    assert_eq!(ended.status, Status::Cancelled);
    // The asking one waits on, as one that was parked does.
    for id in [asking.id, sleeping.id] {
        until(|| async { alive.store.get(id).await.unwrap().unwrap().holder.is_none() }).await;
        assert_eq!(alive.store.get(id).await.unwrap().unwrap().status, Status::InputRequired);
    }
    let (_held, resumed) = claimed(&alive, working.id).await;
    assert_eq!((resumed.attempts, resumed.fence), (1, 2));
    // The dead one was only asleep: it writes nothing any more.
    assert_eq!(dead.tasks.commit(&held, LEFT, pieces(&["late"])).await.unwrap_err().code, "task_fenced");
    assert_eq!(dead.tasks.settle(&held, result("late")).await.unwrap_err().code, "task_fenced");
    assert_eq!(dead.tasks.settle(&asking_held, result("late")).await.unwrap_err().code, "task_fenced");
    assert_eq!(alive.tasks.journal(working.id).await.unwrap(), pieces(&["header"]));
}

#[tokio::test]
async fn a_run_that_goes_without_an_end_is_given_back_where_it_has_a_journal() {
    let dir = TempDir::new().unwrap();
    let host = start(&dir).await;
    let (held, born) = journaled(&host).await;
    drop(held);
    until(|| async { host.store.get(born.id).await.unwrap().unwrap().holder.is_none() }).await;
    assert!(host.tasks.resumable(Except::default(), 10).await.unwrap().is_empty(), "not at once");
    host.clock.advance(TaskRules::LEFT_RETRY);
    claimed(&host, born.id).await;
}

#[tokio::test]
async fn without_a_lease_nothing_is_claimed() {
    let dir = TempDir::new().unwrap();
    let host = start(&dir).await;
    let (held, born) = journaled(&host).await;
    let task = host.tasks.hand_back(held, None, true).await.unwrap();
    host.tasks.inner.lease_until.store(0, Ordering::Release);
    assert!(host.tasks.resumable(Except::default(), 10).await.unwrap().is_empty());
    assert!(host.tasks.claim(&task, false).await.unwrap().is_none());
    assert_eq!(host.store.get(born.id).await.unwrap().unwrap().holder, None);
}

#[tokio::test]
async fn one_process_at_a_time_resumes_what_another_may_have_died_of() {
    let dir = TempDir::new().unwrap();
    let (dead, alive) = (start(&dir).await, start(&dir).await);
    let (held, born) = journaled(&dead).await;
    dead.tasks.hand_back(held, None, true).await.unwrap();
    for _ in 0..2 {
        assert!(!alive.tasks.others_alone().await.unwrap());
        let found = dead.store.get(born.id).await.unwrap().unwrap();
        dead.tasks.claim(&found, true).await.unwrap().expect("claimed");
        let mine = dead.store.get(born.id).await.unwrap().unwrap();
        let second = mine.attempts > 1;
        assert_eq!(alive.tasks.others_alone().await.unwrap(), second);
        assert!(!dead.tasks.others_alone().await.unwrap(), "its own");
        let orphan = Event::Orphan { holder: dead.tasks.inner.boot, fence: mine.fence };
        alive.tasks.inner.apply(born.id, orphan).await.unwrap();
        dead.tasks.inner.registry.remove(born.id);
    }
    let left = alive.store.get(born.id).await.unwrap().unwrap();
    assert_eq!(left.crashes(), 1);
    assert!(alive.tasks.resumable(Except::default(), 10).await.unwrap().is_empty(), "not at once");
    alive.clock.advance(TaskRules::ALONE_RETRY);
    claimed(&alive, born.id).await;
}

#[tokio::test]
async fn what_was_replayed_is_summed_up_with_whatever_is_written_next() {
    let dir = TempDir::new().unwrap();
    let host = start(&dir).await;
    let (held, born) = journaled(&host).await;
    held.replayed(7);
    assert_eq!(host.tasks.commit(&held, LEFT, pieces(&["more"])).await.unwrap().replayed, 7);
    assert_eq!(host.tasks.commit(&held, LEFT, pieces(&["more"])).await.unwrap().replayed, 7, "once");
    held.replayed(1);
    let asked = host.tasks.ask(&held, vec![form("a")], &new().call, None, Vec::new()).await.unwrap();
    assert_eq!(asked.replayed, 8);
    held.replayed(2);
    let parked = host.tasks.park(held, None, LEFT, Vec::new()).await.unwrap();
    assert_eq!((parked.id, parked.replayed), (born.id, 10));
}
