//! The run's side: it creates, asks, tells and settles, always with its fence.

use std::time::Duration;

use super::{Admission, By, Event, Held, Inner, NewTask, Tasks, faults, ttl};
use crate::{
    base::{Digest, Fault, Millis, Piece, Principal, TaskId, failpoint},
    config::{CallPolicy, OnInputTimeout, TaskRules},
    store::{Admitted, End, IdempotencyKey, Question, Status, StoreError, Task, Updated},
};

impl Tasks {
    /// Commits a new, revealed task, with the first pieces of its journal where it has one (P1: when this
    /// returns, a poll from anywhere resolves).
    /// Cancel-safe only inside a spawned task: see `ARCHITECTURE.md`.
    ///
    /// # Errors
    /// `too_many_tasks`, `low_disk_space`, `store_…`; `task_not_now` for questions with bad keys.
    pub async fn create(&self, new: NewTask, pieces: Vec<Piece>) -> Result<(Held, Task), Fault> {
        self.insert(new, true, pieces).await
    }

    pub(super) async fn insert(
        &self,
        new: NewTask,
        revealed: bool,
        pieces: Vec<Piece>,
    ) -> Result<(Held, Task), Fault> {
        let inner = &self.inner;
        let task = inner.build(new, revealed, &pieces)?;
        inner.admit_one(&task.principal)?;
        let held = inner.registry.add(&task);
        failpoint!("task.promote.before");
        match inner.store.insert(task.clone(), pieces).await {
            Ok(()) => {
                failpoint!("task.promote.after");
                inner.registry.committed(task.id);
                let _ = inner.changes.send(task.id);
                Ok((held, task))
            }
            Err(e) => {
                inner.forget(&task);
                Err(e.into())
            }
        }
    }

    /// Commits a keyed run before it starts, or finds its twin. Not revealed yet.
    ///
    /// # Errors
    /// `idempotency_key_reused` (other arguments), and those of [`Tasks::create`].
    pub async fn admit(&self, new: NewTask, pieces: Vec<Piece>) -> Result<Admission, Fault> {
        let inner = &self.inner;
        let Some(key) = new.key.clone() else {
            return Err(Fault::internal(
                "task_not_now",
                "a run without an idempotency key cannot be admitted by it",
            ));
        };
        let task = inner.build(new, false, &pieces)?;
        if let Err(full) = inner.admit_one(&task.principal) {
            // A full host takes no new run, but a repeat is none.
            return match inner.store.by_key(task.principal, task.tool, key.key).await? {
                Some(there) if !there.is_over(task.created_at) => repeat(there, &key.arguments),
                _ => Err(full),
            };
        }
        let held = inner.registry.add(&task);
        failpoint!("task.admit.before");
        match inner.store.admit(task.clone(), pieces).await {
            Ok(Admitted::Fresh) => {
                failpoint!("task.admit.after");
                inner.registry.committed(task.id);
                let _ = inner.changes.send(task.id);
                Ok(Admission::Fresh(held, Box::new(task)))
            }
            Ok(Admitted::Exists(there)) => {
                inner.forget(&task);
                repeat(*there, &key.arguments)
            }
            Err(e) => {
                inner.forget(&task);
                Err(e.into())
            }
        }
    }

    /// The run that a key names, if there is one: looked up before anything else of a call, so that a
    /// repeat gets its outcome also when the tool has changed or gone.
    ///
    /// # Errors
    /// `idempotency_key_reused` (other arguments), `store_…`.
    pub async fn keyed(
        &self,
        principal: &Principal,
        tool: &str,
        key: &IdempotencyKey,
    ) -> Result<Option<Task>, Fault> {
        let inner = &self.inner;
        let there = inner.store.by_key(principal.clone(), tool.to_owned(), key.key.clone()).await?;
        match there.filter(|task| !task.is_over(inner.clock.now())) {
            None => Ok(None),
            Some(task) if task.key.as_ref().is_some_and(|k| k.arguments == key.arguments) => Ok(Some(task)),
            Some(_) => Err(faults::key_reused()),
        }
    }

    /// Marks a keyed task as handed out. Its TTL was promised at admission, and is never less.
    ///
    /// # Errors
    /// `store_…`; `task_unknown` where it is gone.
    pub async fn reveal(&self, id: TaskId) -> Result<Task, Fault> {
        match self.inner.apply(id, Event::Reveal).await? {
            Updated::Done(task) | Updated::Refused(_, task) => Ok(task),
            Updated::Unknown => Err(faults::unknown()),
        }
    }

    /// Puts questions: the task becomes `input_required` (keys made unique over its life). One that has its
    /// answer already is kept with it, and not asked. `pieces` are appended to the journal in the same
    /// commit; `active_left` is the active time that is left, where the run counts it.
    ///
    /// # Errors
    /// `task_fenced` or `task_ended` where the run no longer owns it, `task_cancelling` where
    /// cancellation was asked for (the run must stop), `task_not_now` for a reserved key or a second
    /// round at once, `store_…`.
    pub async fn ask(
        &self,
        held: &Held,
        questions: Vec<Question>,
        call: &CallPolicy,
        active_left: Option<Millis>,
        pieces: Vec<Piece>,
    ) -> Result<Task, Fault> {
        self.ask_as(By::Guest, held, questions, call, active_left, pieces).await
    }

    /// The same, also for questions of the host's own.
    ///
    /// # Errors
    /// As [`Tasks::ask`].
    pub async fn ask_as(
        &self,
        by: By,
        held: &Held,
        questions: Vec<Question>,
        call: &CallPolicy,
        active_left: Option<Millis>,
        pieces: Vec<Piece>,
    ) -> Result<Task, Fault> {
        let tool = self.inner.registry.tool(held.id).unwrap_or_default();
        let event = self.inner.asked(by, held.fence, questions, call, active_left, &tool);
        done(self.inner.append_held(held, event, pieces).await?)
    }

    /// Says how far the run has come; written at most once per poll interval (the last one wins).
    pub fn progress(&self, held: &Held, message: String) {
        self.inner.registry.progress(held.id, message);
    }

    /// Ends the task. Retries until the lease ends; a task that has ended already stays as it is
    /// (the returned row says how).
    ///
    /// # Errors
    /// `task_fenced`, `store_…`.
    pub async fn settle(&self, held: &Held, end: End) -> Result<Task, Fault> {
        self.settle_with(held, end, Vec::new()).await
    }

    /// The same, with the last pieces of its journal.
    ///
    /// # Errors
    /// As [`Tasks::settle`].
    pub async fn settle_with(&self, held: &Held, end: End, pieces: Vec<Piece>) -> Result<Task, Fault> {
        let inner = &self.inner;
        inner.registry.take_progress(held.id);
        let mut pause = Duration::from_millis(20);
        let updated = loop {
            let event = Event::Settle { fence: held.fence, end: end.clone() };
            match inner.append(held.id, event, pieces.clone()).await {
                Ok(updated) => break updated,
                Err(e) if may_pass(&e) && inner.has_lease() => {
                    tracing::warn!(task = %held.id, error = %e, "the end of a task could not be written; trying again");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(TaskRules::SETTLE_RETRY.duration());
                }
                // Its entry stays: once the run has gone, the loop that looks after tasks ends this one.
                Err(e) => return Err(e.into()),
            }
        };
        inner.registry.remove(held.id);
        match updated {
            Updated::Done(task) => Ok(task),
            Updated::Refused(_, task) if task.status.is_terminal() => Ok(task),
            Updated::Refused(refused, task) => Err(faults::refused(&refused, &task)),
            Updated::Unknown => Err(faults::unknown()),
        }
    }
}

/// The row after a move that had to be made.
pub(super) fn done(updated: Updated) -> Result<Task, Fault> {
    match updated {
        Updated::Done(task) => Ok(task),
        Updated::Refused(refused, task) => Err(faults::refused(&refused, &task)),
        Updated::Unknown => Err(faults::unknown()),
    }
}

/// What a call gets whose key is `there` already.
fn repeat(there: Task, arguments: &Digest) -> Result<Admission, Fault> {
    if there.key.as_ref().is_some_and(|k| k.arguments == *arguments) {
        Ok(Admission::Repeat(Box::new(there)))
    } else {
        Err(faults::key_reused())
    }
}

/// Errors that time or the operator may mend.
fn may_pass(e: &StoreError) -> bool {
    use StoreError::{Full, Locked, Other, Unreachable};
    matches!(e, Locked(_) | Full(_) | Unreachable(_) | Other(_))
}

impl Inner {
    /// The bounds on new tasks.
    fn admit_one(&self, principal: &Principal) -> Result<(), Fault> {
        self.space.check()?;
        self.live.begin(principal)
    }

    /// Undoes what was prepared for a task that did not come to be.
    fn forget(&self, task: &Task) {
        self.registry.remove(task.id);
        self.live.ended(&task.principal);
    }

    fn asked(
        &self,
        by: By,
        fence: u64,
        questions: Vec<Question>,
        call: &CallPolicy,
        active_left: Option<Millis>,
        tool: &str,
    ) -> Event {
        Event::Ask {
            fence,
            questions,
            wait: call.input_deadline,
            resume_on_timeout: call.on_input_timeout == OnInputTimeout::Resume,
            by_host: by == By::Host,
            active_left,
            poll_interval: self.rhythm.waiting(tool),
        }
    }

    /// The first state of a task, by the same machine as every later one.
    fn build(&self, new: NewTask, revealed: bool, pieces: &[Piece]) -> Result<Task, Fault> {
        let now = self.clock.now();
        let mut task = Task {
            id: new.id,
            principal: new.principal,
            tool: new.tool,
            plugin: new.plugin,
            digest: new.digest,
            status: Status::Working,
            status_message: new.status_message,
            created_at: now,
            updated_at: now,
            ttl: Millis(0),
            poll_interval: Millis(0),
            holder: Some(self.boot),
            fence: 1,
            cancel_requested: None,
            input_deadline: None,
            resume_on_timeout: new.call.on_input_timeout == OnInputTimeout::Resume,
            active_left: new.active_time,
            absence: new.call.absence,
            revealed,
            key: new.key,
            questions: Vec::new(),
            end: None,
            pieces: u32::try_from(pieces.len()).unwrap_or(u32::MAX),
            pinned: None,
            wake_at: None,
            attempts: 0,
            retry_at: None,
            resumed: 0,
            parked_ms: Millis(0),
            parked_at: None,
            replayed: 0,
        };
        task.ttl = ttl::raised(&task, now);
        task.poll_interval = self.rhythm.working(&task.tool);
        if new.questions.is_empty() {
            return Ok(task);
        }
        let event = self.asked(By::Guest, task.fence, new.questions, &new.call, None, &task.tool);
        task.clone().apply(event, now).map_err(|refused| faults::refused(&refused, &task))
    }
}
