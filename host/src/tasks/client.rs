//! The client's side. Every method checks the principal; another's task reads as unknown.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::{sync::broadcast::error::RecvError, time::Instant};

use super::{Event, Tasks, answers, faults, machine, registry::Open};
use crate::{
    base::{Fault, Millis, Principal, TaskId},
    config::TaskRules,
    store::{Answer, End, Question, Refused, Task, Updated},
};

impl Tasks {
    /// The task as it is.
    ///
    /// # Errors
    /// `task_unknown`, `task_expired` (with how it had ended), `polling_too_fast` (with
    /// `data.retryAfterMs`; over HTTP a 429), `store_…`.
    pub async fn get(&self, principal: &Principal, id: &str) -> Result<Task, Fault> {
        let id = parse(id)?;
        self.inner.polls.check(principal, id)?;
        self.find(principal, id).await
    }

    /// The task as it is, for a listener that was told of a change: without the bound on polls.
    ///
    /// # Errors
    /// As [`Tasks::get`] otherwise.
    pub async fn read(&self, principal: &Principal, id: &str) -> Result<Task, Fault> {
        self.find(principal, parse(id)?).await
    }

    /// Tasks, newest first: the principal's own, or all for the operator.
    ///
    /// # Errors
    /// `store_…`.
    pub async fn list(&self, principal: &Principal, limit: u32) -> Result<Vec<Task>, Fault> {
        let of = (!principal.is_operator()).then(|| principal.clone());
        Ok(self.inner.store.list(of, limit).await?)
    }

    /// Takes answers by key, all or none; unknown and answered keys are ignored. `responses` are
    /// MCP result objects (`{"action": "accept", "content": …}` for elicitation).
    ///
    /// # Errors
    /// `answers_invalid` (with the reason per key), `input_timed_out` (too late), `task_unknown`,
    /// `task_expired`, `store_…`.
    pub async fn update(
        &self,
        principal: &Principal,
        id: &str,
        responses: BTreeMap<String, Value>,
    ) -> Result<(), Fault> {
        let id = parse(id)?;
        // What this process runs it knows; the write looks again at what others may have changed. A question is
        // committed, and may be read and answered, a moment before it is known here.
        let open = match self.inner.registry.open(id) {
            // Where it is hidden, another process may have given its handle out.
            Some(open) if open.revealed && !sees(principal, &open.principal) => return Err(faults::unknown()),
            Some(open) if open.revealed && responses.keys().all(|key| open.asks(key)) => open,
            _ => Open::of(&self.find(principal, id).await?),
        };
        // Questions never change once put, so what fits now fits when it is written.
        let asked: Vec<(Question, Value)> = open
            .questions
            .into_iter()
            .filter_map(|q| responses.get(&q.key).cloned().map(|response| (q, response)))
            .collect();
        if asked.is_empty() {
            return Ok(());
        }
        let answers = checked(asked).await?;
        let poll_interval = self.inner.rhythm.working(&open.tool);
        match self.inner.apply(id, Event::Answers { answers, round: None, poll_interval }).await? {
            Updated::Done(_) | Updated::Refused(Refused::Ended | Refused::Unchanged, _) => Ok(()),
            Updated::Refused(Refused::Answers(reasons), _) => Err(faults::answers_invalid(reasons)),
            Updated::Refused(Refused::NotNow(machine::LATE), _) => Err(faults::too_late()),
            Updated::Refused(refused, task) => Err(faults::refused(&refused, &task)),
            Updated::Unknown => Err(faults::unknown()),
        }
    }

    /// Asks for cancellation; committed when this returns. Of an ended task: nothing changes.
    ///
    /// # Errors
    /// `task_unknown`, `task_expired`, `store_…`.
    pub async fn cancel(&self, principal: &Principal, id: &str) -> Result<(), Fault> {
        let id = parse(id)?;
        self.find(principal, id).await?;
        match self.inner.apply(id, Event::Cancel).await? {
            Updated::Done(task) | Updated::Refused(Refused::Unchanged, task) => self.cancelling(&task).await,
            Updated::Refused(..) => Ok(()),
            Updated::Unknown => Err(faults::unknown()),
        }
    }

    /// Hands a committed request to the run; where no lease is live there is none, and the task ends now.
    pub(super) async fn cancelling(&self, task: &Task) -> Result<(), Fault> {
        let runs = match task.holder {
            Some(_) if self.inner.registry.cancel(task.id) => true,
            // The loop that looks after this process's tasks ends one that has no run.
            Some(holder) => holder == self.inner.boot || self.inner.store.leased(holder).await?,
            None => false,
        };
        if !runs {
            self.inner.abandon(task, End::Cancelled).await?;
        }
        Ok(())
    }

    /// Waits until the task has ended or `within` has passed; the row as it is then.
    ///
    /// # Errors
    /// As [`Tasks::get`], without the bound on polls.
    pub async fn wait_ended(&self, principal: &Principal, id: TaskId, within: Millis) -> Result<Task, Fault> {
        self.wait_for(principal, id, within, |task| task.status.is_terminal()).await
    }

    /// Waits until the row is as `done` wants it or `within` has passed; the row as it is then, also where its handle was
    /// given to nobody yet. Cancel-safe.
    ///
    /// # Errors
    /// As [`Tasks::get`], without the bound on polls.
    pub async fn wait_for(
        &self,
        principal: &Principal,
        id: TaskId,
        within: Millis,
        done: impl Fn(&Task) -> bool,
    ) -> Result<Task, Fault> {
        // Listens before it looks, so that no end falls in between.
        let mut changes = self.inner.changes.subscribe();
        let until = Instant::now() + within.duration();
        loop {
            let task = self.find_run(principal, id).await?;
            if done(&task) || Instant::now() >= until {
                return Ok(task);
            }
            // Another process's changes are not heard: look again now and then.
            let look = until.min(Instant::now() + TaskRules::WAIT_LOOK.duration());
            let heard = async {
                loop {
                    match changes.recv().await {
                        Ok(changed) if changed != id => {}
                        Ok(_) | Err(RecvError::Lagged(_)) => return,
                        Err(RecvError::Closed) => std::future::pending().await,
                    }
                }
            };
            let _ = tokio::time::timeout_at(look, heard).await;
        }
    }

    /// The row, where `principal` may see it and its time is not over. Before a run's handle is given to anybody, its
    /// id is nobody's to use: clients can read it in a `requestState`.
    async fn find(&self, principal: &Principal, id: TaskId) -> Result<Task, Fault> {
        self.look(principal, id, |task| task.revealed || principal.is_operator()).await
    }

    /// The same, whether or not its handle was given to anybody.
    pub(super) async fn find_run(&self, principal: &Principal, id: TaskId) -> Result<Task, Fault> {
        self.look(principal, id, |_| true).await
    }

    async fn look(
        &self,
        principal: &Principal,
        id: TaskId,
        shown: impl Fn(&Task) -> bool,
    ) -> Result<Task, Fault> {
        if let Some(task) = self.inner.store.get(id).await? {
            if !sees(principal, &task.principal) || !shown(&task) {
                // As an id that never was: it takes as long.
                self.inner.store.tombstone(id).await?;
                return Err(faults::unknown());
            }
            if task.is_over(self.inner.clock.now()) {
                return Err(faults::expired(task.status, task.status_message.as_deref(), task.expires_at()));
            }
            return Ok(task);
        }
        match self.inner.store.tombstone(id).await? {
            Some(t) if sees(principal, &t.principal) => {
                Err(faults::expired(t.status, t.reason.as_deref(), t.expired_at))
            }
            _ => Err(faults::unknown()),
        }
    }
}

/// Its own tasks, or every task for the operator.
fn sees(principal: &Principal, owner: &Principal) -> bool {
    owner == principal || principal.is_operator()
}

fn parse(id: &str) -> Result<TaskId, Fault> {
    id.parse().map_err(|_| faults::unknown())
}

/// Each answer against its question; much to check is checked off the threads that answer HTTP.
/// Each of `asked`, checked; a lot of it off the threads that answer HTTP.
pub(crate) async fn checked(
    asked: Vec<(Question, Value)>,
) -> Result<BTreeMap<String, Result<Answer, String>>, Fault> {
    let weight: usize = asked.iter().map(|(q, r)| answers::weight(q, r)).sum();
    let check = move || {
        asked.into_iter().map(|(q, response)| (q.key.clone(), answers::check(&q, &response))).collect()
    };
    if weight <= TaskRules::CHECK_INLINE.as_usize() {
        return Ok(check());
    }
    tokio::task::spawn_blocking(check).await.map_err(|e| {
        tracing::error!(error = %e, "answers could not be checked");
        Fault::internal("host_failure", "the answers could not be checked: see the host's log")
    })
}
