//! From a held response to a task, and every run's end.

use tokio::time::Instant;

use super::{Driver, Promoted};
use crate::{
    base::{Fault, Millis, TaskId},
    config::TaskRules,
    runs::{Answer, Asks, host_stopping, outcome::Outcome, run::Run},
    store,
    tasks::{Held, NewTask},
};

impl Driver {
    /// The response can be held open no longer.
    pub(super) async fn past_deadline(&mut self) -> Option<Outcome> {
        let work = &self.run.work;
        let call = work.policy();
        if self.run.client.promotes() && self.grace_until.is_none() {
            if self.held.is_none() {
                self.promote();
                return None;
            }
            return self.reveal().await.err().and_then(|fault| self.not_promoted(fault));
        }
        let fault = if work.tool().is_some() && matches!(self.run.asks, Asks::Retry) {
            Fault::tasks_required(format!(
                "The {work} did not end within {} (call.hold). Declare the io.modelcontextprotocol/tasks \
                 extension, and a call that takes long becomes a task.",
                call.hold
            ))
        } else {
            let text = format!("The {work} did not end within {} (call.hold), and was stopped.", call.hold);
            work.named(Fault::internal("held_too_long", text))
        };
        self.answer(Answer::Error(fault));
        // A keyed run goes on: its outcome is kept for a repeat of the key.
        if self.held.is_some() { None } else { self.cancel() }
    }

    /// Begins to make the run a task.
    fn promote(&mut self) {
        // From here on no effect starts and no question is shown before all that came earlier is committed.
        self.run.becomes_durable(self.runs.tasks.leased());
        let pieces = self.pieces();
        let new = new_task(&self.run, Vec::new(), self.active_left());
        let runs = self.runs.clone();
        self.deadline = None;
        self.promoting = Some(Box::pin(async move { runs.tasks.create(new, pieces).await.map(Box::new) }));
    }

    /// Its row is committed, so that the handle may leave (P1); or it is not.
    pub(super) fn promoted(&mut self, promoted: Promoted) -> Option<Outcome> {
        match promoted {
            Ok(row) => {
                let (held, task) = *row;
                self.became(held, true);
                self.answer(Answer::Task(Box::new(task)));
                None
            }
            Err(fault) => {
                self.not_a_row(&fault);
                self.not_promoted(fault)
            }
        }
    }

    /// The store did not make a row of the run: where that is certain, the run is its caller's alone again.
    pub(super) fn not_a_row(&self, fault: &Fault) {
        let certain = ["store_locked", "store_full", "too_many_tasks", "too_many_waiting"];
        if self.held.is_none() && certain.contains(&fault.code) {
            self.run.has_no_row();
        }
    }

    /// No task can be made now (no space, too many, a store that fails): the response is held as for a client without tasks,
    /// so that the work is not lost, and it is tried again meanwhile.
    fn not_promoted(&mut self, fault: Fault) -> Option<Outcome> {
        let (now, hold) = (Instant::now(), self.taken_at + self.run.work.policy().hold.duration());
        if hold <= now {
            return Some(Outcome::Error(fault));
        }
        let pause = self.promote_pause;
        if pause == TaskRules::STORE_RETRY {
            tracing::warn!(work = %self.run.work, "cannot promote, holding the call: {fault}");
        } else {
            tracing::debug!(work = %self.run.work, "still cannot promote: {fault}");
        }
        self.promote_pause = Millis(pause.0.saturating_mul(2)).min(TaskRules::PROMOTE_RETRY);
        self.deadline = Some(hold.min(now + pause.duration()));
        None
    }

    /// The run is a row from now on.
    pub(super) fn became(&mut self, held: Held, revealed: bool) {
        self.saved();
        self.run.became(held.id);
        self.run.log_task();
        self.held = Some(held);
        self.revealed = revealed;
    }

    /// Hands the run out as a task.
    pub(super) async fn reveal(&mut self) -> Result<(), Fault> {
        let Some(held) = &self.held else { return Ok(()) };
        let task = self.runs.tasks.reveal(held.id).await?;
        if task.revealed {
            self.revealed = true;
            self.answer(Answer::Task(Box::new(task)));
        }
        Ok(())
    }

    /// Answers the request that waits, if one does.
    pub(super) fn answer(&mut self, answer: Answer) {
        self.deadline = None;
        self.run.close_outlet();
        if let Some(reply) = self.reply.take() {
            // The client may have left: the task, if there is one, is driven all the same.
            let _ = reply.send(answer);
        }
    }

    /// Stops the guest, then settles, then answers, in this order (P5: what is `cancelled` has stopped).
    pub(super) async fn finish(&mut self, outcome: Outcome) {
        if matches!(outcome, Outcome::HandsBack { .. }) {
            // What is under way may yet have its answer recorded, so that nobody has to wonder.
            let _ = tokio::time::timeout(TaskRules::EFFECTS.duration(), self.run.flights.ended()).await;
        }
        self.guest = None;
        // Dropped with the instance, and perhaps just now on another thread: none is left when the end is told.
        self.run.flights.ended().await;
        self.permit = None;
        self.open = None;
        self.unput = None;
        self.admit = None;
        // After all that it held.
        self.place = None;
        // It may have become a task in the meantime: then its end is the task's.
        if let Some(promoting) = self.promoting.take() {
            let _ = self.promoted(promoting.await);
        }
        self.run.log_end(outcome.name());
        let Some(outcome) = self.leave(outcome).await else {
            return self.answer(Answer::Error(host_stopping()));
        };
        let mut failed = None;
        let pieces = if self.held.is_some() { self.pieces() } else { Vec::new() };
        if let Some(held) = self.held.take()
            && let Err(fault) = self.runs.tasks.settle_with(&held, outcome.end(), pieces).await
        {
            tracing::error!(task = %held.id, "the outcome of a task could not be kept: {fault}");
            failed = Some(Answer::Error(fault));
        }
        self.answer(failed.unwrap_or_else(|| outcome.into_answer()));
    }
}

/// What a run says of itself when it becomes a task.
pub(in crate::runs) fn new_task(run: &Run, questions: Vec<store::Question>, active_time: Millis) -> NewTask {
    NewTask {
        id: TaskId::new(),
        principal: run.principal.clone(),
        tool: run.work.name().to_owned(),
        plugin: run.work.plugin.name.clone(),
        digest: run.work.plugin.digest,
        call: run.work.policy().clone(),
        active_time,
        status_message: run.take_message(),
        questions,
        key: None,
    }
}
