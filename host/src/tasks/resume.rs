//! Journals, and runs that lose their instance and get another: park, claim, hand back.

use super::{Event, Held, Inner, Tasks, run::done};
use crate::{
    base::{Fault, Millis, Piece, TaskId, UnixMillis},
    store::{Except, Refused, StoreError, Task, Updated},
};

impl Tasks {
    /// Appends to the journal; `active_left` is the active time that is left. Everything appended before
    /// is committed when this returns.
    ///
    /// # Errors
    /// `task_fenced`, `task_ended` (the run must stop), `store_…` (nothing was appended).
    pub async fn commit(&self, held: &Held, active_left: Millis, pieces: Vec<Piece>) -> Result<Task, Fault> {
        let event = Event::Commit { fence: held.fence, active_left };
        done(self.inner.append_held(held, event, pieces).await?)
    }

    /// Gives the task up while it waits: for answers, or (`wake_at`) for a moment. Nothing of it stays in
    /// this process's memory.
    ///
    /// # Errors
    /// With what is still held: `task_cancelling`, `task_not_now` (the answers are there, there is no
    /// journal, it is pinned), `task_fenced`, `task_ended`, `store_…`.
    pub async fn park(
        &self,
        held: Held,
        wake_at: Option<UnixMillis>,
        active_left: Millis,
        pieces: Vec<Piece>,
    ) -> Result<Task, (Held, Fault)> {
        let event = Event::Park { fence: held.fence, wake_at, active_left };
        match self.inner.give_up(&held, event, pieces).await {
            Ok(task) => Ok(task),
            Err(fault) => Err((held, fault)),
        }
    }

    /// Takes a task that [`Tasks::resumable`] found; none where somebody else was faster. Answers that it
    /// has by now are in the returned row, and are not signalled. `alone`: this process resumes no other
    /// beside it, which one with an open attempt needs. Not to be dropped midway: run it in a task of its own.
    ///
    /// # Errors
    /// `store_…`.
    pub async fn claim(&self, task: &Task, alone: bool) -> Result<Option<(Held, Task)>, Fault> {
        let inner = &self.inner;
        if !inner.has_lease() {
            return Ok(None);
        }
        let Some(held) = inner.registry.add_free(&Task { fence: task.fence + 1, ..task.clone() }) else {
            return Ok(None);
        };
        let event = Event::Claim { me: inner.boot, holder: task.holder, fence: task.fence, alone };
        // On an error its entry stays: the loop that looks after tasks finds out whether it is ours.
        match inner.apply(task.id, event).await? {
            Updated::Done(task) => {
                inner.registry.committed(task.id);
                Ok(Some((held, task)))
            }
            Updated::Refused(..) | Updated::Unknown => {
                inner.registry.remove_held(held.id, held.fence);
                Ok(None)
            }
        }
    }

    /// The run has come to the end of its journal: the attempt has come off.
    ///
    /// # Errors
    /// `task_fenced`, `task_ended`, `store_…`.
    pub async fn live(&self, held: &Held) -> Result<(), Fault> {
        self.set(held, Event::Live { fence: held.fence }).await
    }

    /// Gives the task back as it is, not to be resumed before `retry_at`. `ordered`: nothing went wrong,
    /// and the attempt does not count.
    ///
    /// # Errors
    /// `task_not_now` where it cannot be resumed, `task_fenced`, `task_ended`, `store_…`. Where this
    /// process still holds it, it gives it back a little later.
    pub async fn hand_back(
        &self,
        held: Held,
        retry_at: Option<UnixMillis>,
        ordered: bool,
    ) -> Result<Task, Fault> {
        let event = Event::HandBack { fence: held.fence, retry_at, ordered };
        self.inner.give_up(&held, event, Vec::new()).await
    }

    /// The run has done what cannot be replayed: from now on it is not resumed. `why` is for people, and
    /// continues "because".
    ///
    /// # Errors
    /// `task_fenced`, `task_ended`, `store_…`.
    pub async fn pin(&self, held: &Held, why: String) -> Result<(), Fault> {
        self.set(held, Event::Pin { fence: held.fence, why }).await
    }

    /// The pieces of a task's journal, in order.
    ///
    /// # Errors
    /// `store_…`; `store_corrupt` where one is missing.
    pub async fn journal(&self, id: TaskId) -> Result<Vec<Piece>, Fault> {
        Ok(self.inner.store.journal(id).await?)
    }

    /// At most `limit` tasks that this process may [`Tasks::claim`] now, oldest first, and none of `but`; none
    /// at all while it has no lease itself.
    ///
    /// # Errors
    /// `store_…`.
    pub async fn resumable(&self, but: Except, limit: u32) -> Result<Vec<Task>, Fault> {
        let inner = &self.inner;
        if !inner.has_lease() {
            return Ok(Vec::new());
        }
        let mut tasks = inner.store.resumable(inner.clock.now(), but, limit).await?;
        // One with an open attempt is made nobody's first.
        tasks.retain(|task| task.holder != Some(inner.boot) && (task.holder.is_none() || task.attempts == 0));
        Ok(tasks)
    }

    /// True where another live process resumes a task with an open attempt: one at a time does. Two that look in the same
    /// moment may both begin; each counts only its own end.
    ///
    /// # Errors
    /// `store_…`.
    pub async fn others_alone(&self) -> Result<bool, Fault> {
        for holder in self.inner.store.alone().await? {
            if holder != self.inner.boot && self.inner.store.leased(holder).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A move that may have been made already.
    async fn set(&self, held: &Held, event: Event) -> Result<(), Fault> {
        match self.inner.append_held(held, event, Vec::new()).await? {
            Updated::Refused(Refused::Unchanged, _) => Ok(()),
            other => done(other).map(drop),
        }
    }
}

impl Inner {
    /// A move after which this process has nothing of the task any more; its last progress is written
    /// with it.
    async fn give_up(&self, held: &Held, event: Event, pieces: Vec<Piece>) -> Result<Task, Fault> {
        let (written, given) = tokio::join!(self.last_progress(held), self.append_held(held, event, pieces));
        if let Err(e) = written {
            tracing::warn!(task = %held.id, error = %e, "the last progress was not written");
        }
        let task = done(given?)?;
        self.registry.remove_held(held.id, held.fence);
        Ok(task)
    }

    async fn last_progress(&self, held: &Held) -> Result<(), StoreError> {
        if let Some(message) = self.registry.take_progress(held.id) {
            self.apply(held.id, Event::Progress { fence: held.fence, message }).await?;
        }
        Ok(())
    }
}
