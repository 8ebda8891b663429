//! Multi round-trip requests (MCP 2026-07-28, `basic/patterns/mrtr`): a retry brings answers, or repeats
//! what was said.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Driver, Waiter, open::Open};
use crate::{
    base::Fault,
    capabilities::wit_call::InputError,
    config::OnInputTimeout,
    runs::{
        Answer,
        outcome::Outcome,
        retry::{no_tasks, stale},
        rounds::{Named, Retry, Verdict},
    },
    store,
    tasks::{answers_invalid, check_answers},
};

impl Driver {
    /// A request has come back to this run.
    pub(super) async fn retried(&mut self, retry: Retry) {
        let Some(seat) = &self.seat else { return };
        match seat.ledger.judge(retry.round, &retry.responses) {
            Verdict::Stale => refuse(retry, stale()),
            Verdict::Attach => self.attach(retry).await,
            Verdict::Answers(responses) => self.take(retry, responses).await,
        }
    }

    /// The retry gets whatever comes next.
    async fn attach(&mut self, retry: Retry) {
        if self.revealed {
            let answer = self.handle().await;
            let _ =
                retry.reply.send(if retry.client.promotes() { answer } else { Answer::Error(no_tasks()) });
        } else if self.open.as_ref().is_some_and(Open::awaits_retry) {
            let _ = retry.reply.send(self.input_required());
        } else {
            self.wait_for(retry);
        }
    }

    /// Takes answers that were not there before, all or none; asks for what is missing.
    async fn take(&mut self, retry: Retry, responses: BTreeMap<String, Value>) {
        let taken = match &self.held {
            // The row takes them, as it would from `tasks/update`, and tells when all are there.
            Some(held) if !responses.is_empty() => {
                let id = held.id.to_string();
                self.runs.tasks.update(&self.run.principal, &id, responses.clone()).await
            }
            Some(_) => Ok(()),
            None => self.fill(&responses).await,
        };
        if let Err(fault) = taken {
            return refuse(retry, fault);
        }
        let Some(seat) = &mut self.seat else { return };
        if !seat.ledger.take(&responses) {
            let _ = retry.reply.send(self.input_required());
            return;
        }
        self.wait_for(retry);
        if self.held.is_none() {
            // `fill` has put them in their places.
            self.answered(Ok(Vec::new()));
        }
    }

    /// Checks answers and puts them in their places, all or none.
    async fn fill(&mut self, responses: &BTreeMap<String, Value>) -> Result<(), Fault> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let asked: Vec<(store::Question, Value)> = open
            .slots
            .iter()
            .filter_map(|slot| responses.get(&slot.key).map(|response| (slot.question(0), response.clone())))
            .collect();
        let (mut right, mut wrong) = (BTreeMap::new(), Vec::new());
        for (key, answer) in check_answers(asked).await? {
            match answer {
                Ok(answer) => drop(right.insert(key, answer)),
                Err(reason) => wrong.push((key, reason)),
            }
        }
        if !wrong.is_empty() {
            return Err(answers_invalid(wrong));
        }
        for slot in &mut open.slots {
            if let Some(answer) = right.remove(&slot.key) {
                slot.answer = Some(answer);
            }
        }
        Ok(())
    }

    /// The retry waits for the run's answer as the first request did.
    fn wait_for(&mut self, retry: Retry) {
        let Retry { client, outlet, reply, .. } = retry;
        self.run.taken_up(client, outlet);
        // Clients that repeat and leave, and repeat again, leave nothing behind.
        self.waiters.retain(|waiter| !waiter.reply.is_closed());
        self.waiters.push(Waiter { reply, tasks: self.run.client().promotes() });
        if self.deadline.is_none() {
            self.taken_up();
        }
    }

    /// The open questions that lack an answer, and the state that leads back to them.
    pub(super) fn input_required(&self) -> Answer {
        let (Some(seat), Some(open)) = (&self.seat, &self.open) else {
            return Answer::Error(Fault::internal("host_failure", "The questions of this run are gone."));
        };
        let requests = open
            .slots
            .iter()
            .filter(|slot| seat.ledger.awaits(&slot.key))
            .map(|slot| (slot.key.clone(), (*slot.request).clone()))
            .collect();
        let named = Named { run: seat.id(), round: seat.ledger.round() };
        let life = open.expires().unwrap_or_else(Instant::now).saturating_duration_since(Instant::now());
        match self.runs.rounds.seal.close(&named, &self.run.mark, life) {
            Ok(state) => Answer::InputRequired { requests, state },
            Err(e) => {
                tracing::error!("a request state cannot be sealed: {e}");
                Answer::Error(Fault::internal("host_failure", "The state of this request cannot be written."))
            }
        }
    }

    /// No retry has come in time.
    pub(super) fn unanswered(&mut self) -> Option<Outcome> {
        if self.run.work.policy().on_input_timeout == OnInputTimeout::Resume {
            self.answered(Err(InputError::TimedOut));
            return None;
        }
        let seat = self.seat.as_ref()?;
        let slots = self.open.as_ref().map(|open| open.slots.as_slice()).unwrap_or_default();
        let keys: Vec<&str> =
            slots.iter().map(|slot| slot.key.as_str()).filter(|key| seat.ledger.awaits(key)).collect();
        let fault =
            Fault::internal("input_timed_out", format!("Nobody answered in time: {}", keys.join(", ")));
        Some(Outcome::Dropped(fault.with("keys", json!(keys))))
    }

    /// Others need the room in which this run waits.
    pub(super) fn evicted(&self) -> Option<Outcome> {
        let open = self.open.as_ref().filter(|open| open.awaits_retry());
        open.map(|_| {
            Outcome::Dropped(Fault::internal(
                "input_timed_out",
                "Of the runs that wait for answers this one had waited longest, and others needed its room. \
                 Call again.",
            ))
        })
    }
}

fn refuse(retry: Retry, fault: Fault) {
    // A client that has left needs no answer.
    let _ = retry.reply.send(Answer::Error(fault));
}
