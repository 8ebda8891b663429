//! Runs that ask by multi round-trip requests (MCP 2026-07-28, `basic/patterns/mrtr`): each is a row of which no client
//! has the handle, and which waits without a process until a retry brings answers.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    Event, Held, NewTask, Tasks, client, faults,
    ledger::{self, Verdict},
    machine,
};
use crate::{
    base::{Fault, Piece, Principal, TaskId},
    store::{Question, Refused, Task, Updated},
};

impl Tasks {
    /// Commits a run that asks its first question by a multi round-trip request, as [`Tasks::create`] does, but
    /// hidden: nobody has its handle.
    ///
    /// # Errors
    /// `too_many_waiting`, and those of [`Tasks::create`].
    pub async fn hide(&self, new: NewTask, pieces: Vec<Piece>) -> Result<(Held, Task), Fault> {
        let (all, each) = self.inner.hidden;
        let store = &self.inner.store;
        if store.count_hidden(None, all).await? >= u64::from(all) {
            return Err(faults::too_many_waiting("host.mrtr-waiting", all));
        }
        if store.count_hidden(Some(new.principal.clone()), each).await? >= u64::from(each) {
            return Err(faults::too_many_waiting("host.mrtr-waiting-each", each));
        }
        self.insert(new, false, pieces).await
    }

    /// Takes what a retry says to `round` of its run, all or nothing, each answer once: an equal repeat changes
    /// nothing. The row as it is then: with what is still asked, or to be followed to what comes next.
    ///
    /// # Errors
    /// `input_already_answered` for what contradicts what was taken, and for rounds long past; `answers_invalid` (with
    /// the reason per key), `input_timed_out`, `task_unknown`, `task_expired`, `store_…`.
    pub async fn retry(
        &self,
        principal: &Principal,
        id: TaskId,
        round: u32,
        responses: BTreeMap<String, Value>,
    ) -> Result<Task, Fault> {
        let task = self.find_run(principal, id).await?;
        // Questions never change once put, so what fits now fits when it is written.
        let of_round = task.questions.iter().filter(|q| q.round == round);
        let said: Vec<(Question, Value)> =
            of_round.filter_map(|q| Some((q.clone(), responses.get(&q.key)?.clone()))).collect();
        let answers = client::checked(said).await?;
        let verdict = |task: Task| match ledger::judge(&task, round, &answers) {
            Verdict::Stale => Err(faults::already_answered()),
            Verdict::Attach | Verdict::Answers => Ok(task),
        };
        let task = verdict(task)?;
        if !task.pending().any(|q| answers.contains_key(&q.key)) {
            return Ok(task);
        }
        let poll_interval = self.inner.rhythm.working(&task.tool);
        let event = Event::Answers { answers: answers.clone(), round: Some(round), poll_interval };
        match self.inner.apply(id, event).await? {
            Updated::Done(task) | Updated::Refused(Refused::Unchanged, task) => Ok(task),
            // Another retry was faster, or nobody was in time: what has come of it decides.
            Updated::Refused(Refused::Ended, task) => verdict(task),
            Updated::Refused(Refused::NotNow(machine::STALE), _) => Err(faults::already_answered()),
            Updated::Refused(Refused::NotNow(machine::LATE), _) => Err(faults::too_late()),
            Updated::Refused(Refused::Answers(reasons), _) => Err(faults::answers_invalid(reasons)),
            Updated::Refused(refused, task) => Err(faults::refused(&refused, &task)),
            Updated::Unknown => Err(faults::unknown()),
        }
    }

    /// The client has gone, or waits no longer, for which a run works that has no handle and no key: it is cancelled.
    /// The row as it is then.
    ///
    /// # Errors
    /// `task_unknown`, `store_…`.
    pub async fn leave(&self, id: TaskId) -> Result<Task, Fault> {
        match self.inner.apply(id, Event::Leave).await? {
            Updated::Done(task) => {
                self.cancelling(&task).await?;
                Ok(task)
            }
            Updated::Refused(_, task) => Ok(task),
            Updated::Unknown => Err(faults::unknown()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use tempfile::TempDir;

    use super::*;
    use crate::{
        base::Millis,
        store::Status,
        tasks::{Signal, tests::*},
    };

    /// A run that has asked `a` by a multi round-trip request.
    async fn asks(host: &Host) -> (Held, Task) {
        let new = NewTask { questions: vec![form("a")], ..new() };
        host.tasks.hide(new, vec![b"header".to_vec().into()]).await.unwrap()
    }

    #[tokio::test]
    async fn a_retry_anywhere_brings_answers_once() {
        let dir = TempDir::new().unwrap();
        let (host, other) = (start(&dir).await, start(&dir).await);
        let (mut held, task) = asks(&host).await;
        assert_eq!((task.revealed, task.status), (false, Status::InputRequired));
        let retry = async |host: &Host, answer: Value| {
            host.tasks.retry(&me(), task.id, 0, answers(&[("a", answer)])).await.map_err(|fault| fault.code)
        };
        assert_eq!(retry(&other, Value::Null).await.unwrap_err(), "answers_invalid");
        assert_eq!(retry(&other, accept(true)).await.unwrap().status, Status::Working);
        let Signal::Answers(got) = signal(&mut held).await else { panic!("no answers") };
        assert_eq!(got, [accepted(true)]);
        assert!(retry(&host, accept(true)).await.is_ok(), "an equal repeat changes nothing");
        assert_eq!(retry(&host, accept(false)).await.unwrap_err(), "input_already_answered");
        host.tasks.settle(&held, result("x")).await.unwrap();
        assert_eq!(retry(&other, accept(true)).await.unwrap().end, Some(result("x")));
        assert_eq!(retry(&other, accept(false)).await.unwrap_err(), "input_already_answered");
        let stranger = Principal::anonymous();
        let lost = host.tasks.retry(&stranger, task.id, 0, BTreeMap::new()).await;
        assert_eq!(lost.unwrap_err().code, "task_unknown");
    }

    #[tokio::test]
    async fn what_is_hidden_is_unknown_until_its_handle_is_given_out() {
        let dir = TempDir::new().unwrap();
        let (host, other) = (start(&dir).await, start(&dir).await);
        let (_held, task) = asks(&host).await;
        let id = task.id.to_string();
        for process in [&host, &other] {
            assert_eq!(process.tasks.get(&me(), &id).await.unwrap_err().code, "task_unknown");
            assert_eq!(process.tasks.read(&me(), &id).await.unwrap_err().code, "task_unknown");
            assert_eq!(process.tasks.cancel(&me(), &id).await.unwrap_err().code, "task_unknown");
            let update = process.tasks.update(&me(), &id, answers(&[("a", accept(true))])).await;
            assert_eq!(update.unwrap_err().code, "task_unknown");
            assert!(process.tasks.get(&Principal::operator(), &id).await.is_ok());
        }
        other.tasks.reveal(task.id).await.unwrap();
        assert!(host.tasks.get(&me(), &id).await.is_ok());
        // Its holder has not seen that yet.
        host.tasks.update(&me(), &id, answers(&[("a", accept(true))])).await.unwrap();
    }

    #[tokio::test]
    async fn who_leaves_stops_a_run_anywhere() {
        let dir = TempDir::new().unwrap();
        let (host, other) = (start(&dir).await, start(&dir).await);
        let (mut held, task) = asks(&host).await;
        assert_eq!(other.tasks.leave(task.id).await.unwrap().cancel_requested, None, "it waits for a person");
        other.tasks.retry(&me(), task.id, 0, answers(&[("a", accept(true))])).await.unwrap();
        assert!(matches!(signal(&mut held).await, Signal::Answers(_)));
        assert!(other.tasks.leave(task.id).await.unwrap().cancel_requested.is_some());
        assert_eq!(signal(&mut held).await, Signal::Cancel);
        // Where nobody runs it, it ends at once.
        let (held, task) = asks(&host).await;
        host.tasks.park(held, None, Millis(5000), Vec::new()).await.unwrap();
        host.tasks.retry(&me(), task.id, 0, answers(&[("a", accept(true))])).await.unwrap();
        other.tasks.leave(task.id).await.unwrap();
        assert_eq!(host.store.get(task.id).await.unwrap().unwrap().status, Status::Cancelled);
    }

    #[tokio::test]
    async fn the_bounds_are_of_all_and_of_each() {
        let dir = TempDir::new().unwrap();
        let mut config = config();
        (config.host.mrtr_waiting, config.host.mrtr_waiting_each) = (2, 1);
        let host = start_with(&dir, &config, std::sync::Arc::default()).await;
        let of = |principal: Principal| NewTask { principal, questions: vec![form("a")], ..new() };
        let hide = async |principal| {
            let hidden = host.tasks.hide(of(principal), Vec::new()).await;
            hidden.map_err(|fault| (fault.code, fault.data["name"].clone()))
        };
        let (held, _) = hide(me()).await.unwrap();
        let each = ("too_many_waiting", Value::from("host.mrtr-waiting-each"));
        assert_eq!(hide(me()).await.unwrap_err(), each);
        let _other = hide(Principal::anonymous()).await.unwrap();
        let all = ("too_many_waiting", Value::from("host.mrtr-waiting"));
        assert_eq!(hide(Principal::operator()).await.unwrap_err(), all);
        host.tasks.settle(&held, result("x")).await.unwrap();
        hide(me()).await.unwrap();
    }
}
