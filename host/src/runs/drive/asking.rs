//! Puts the guest's questions to its caller: through the task, by an `InputRequiredResult`, or over the open
//! stream of a client of an older revision. The guest waits meanwhile, without a slot.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{
    Driver,
    durable::is_lost,
    open::{Answers, Open, Slot, Way, whole},
};
use crate::{
    base::Fault,
    capabilities::{Abort, Asked, wit_call::InputError},
    config::EarlyInput,
    runs::{
        Asks, Pushed,
        admission::{Permit, Waiting},
        outcome::Outcome,
        run::Question,
    },
    store,
    tasks::{By, check_answers, unused_key},
};

impl Driver {
    /// Puts a question.
    pub(super) async fn asked(&mut self, question: Question) -> Option<Outcome> {
        if self.run.is_cancelled() {
            let _ = question.reply.send(Err(InputError::Cancelled));
            return None;
        }
        if question.by_host {
            return self.asked_by_host(question).await;
        }
        if question.again
            && let Some(answers) = self.asked_before(&question.requests)
        {
            let _ = question.reply.send(answers);
            return None;
        }
        let mut slots = self.slots(question.requests);
        if let Err(fault) = self.answer_early(&mut slots).await {
            return Some(Outcome::Error(fault));
        }
        if let Some(answers) = whole(&slots) {
            self.rounds += 1;
            let _ = question.reply.send(Ok(answers));
            return None;
        }
        let open = slots.iter().filter(|slot| slot.answer.is_none());
        self.run.log_question(&open.map(|slot| slot.key.as_str()).collect::<Vec<_>>());
        let bytes = self.run.meter.load(std::sync::atomic::Ordering::Relaxed);
        let run = self.run.clone();
        let right = match self.runs.rounds.room(&self.runs.slots, &run.work.plugin, bytes) {
            Ok(right) => right,
            Err((name, value)) => {
                let advice = "Answer or cancel tasks that wait, then call again.".into();
                return Some(Outcome::of(&self.run, Err(Abort::Limit { name, value, advice })));
            }
        };
        self.pause();
        let client = run.client();
        let by_retry = !client.tasks || run.work.policy().early_input == EarlyInput::Mrtr;
        // What a client cannot answer its model does, through the task (bridge tools); and past the handle
        // nobody waits any more who could be asked by another way.
        let directly = !self.revealed
            && (!client.bridge
                || slots.iter().filter(|s| s.answer.is_none()).all(|s| client.answers(s.kind)));
        let put = match run.asks.clone() {
            Asks::Push(client) if directly => {
                self.push(question.reply, slots, right, client);
                Ok(())
            }
            Asks::Retry if directly && by_retry => self.ask_for_retry(question.reply, slots, right).await,
            _ => self.ask_in_task(question.reply, slots, right, By::Guest).await,
        };
        self.rounds += 1;
        match put {
            Ok(()) => None,
            // Somebody cancelled between the question and its commit: the signal is on its way.
            Err((reply, fault)) if fault.code == "task_cancelling" => {
                let outcome = self.cancel();
                self.active_since = Some(Instant::now());
                let _ = reply.send(Err(InputError::Cancelled));
                outcome
            }
            Err((_, fault)) => Some(Outcome::Error(fault)),
        }
    }

    /// Puts a question of the host's own, through the task. The guest waits as if it had asked.
    async fn asked_by_host(&mut self, question: Question) -> Option<Outcome> {
        let Question { mut requests, reply, .. } = question;
        let Asked { key, kind, request } = requests.pop().filter(|_| !reply.is_closed())?;
        if let Some(answers) = self.durable.told(&key) {
            let _ = reply.send(answers);
            return None;
        }
        self.run.log_question(&[&key]);
        let bytes = self.run.meter.load(std::sync::atomic::Ordering::Relaxed);
        let Ok(right) = self.runs.rounds.room(&self.runs.slots, &self.run.work.plugin, bytes) else {
            // Nothing may wait any more: as if nobody could be asked.
            let _ = reply.send(Err(InputError::Unsupported));
            return None;
        };
        self.pause();
        self.keys.insert(key.clone());
        let slots = vec![Slot { key, kind, request: Arc::new(request), answer: None }];
        let (reply, fault) = self.ask_in_task(reply, slots, right, By::Host).await.err()?;
        self.active_since = Some(Instant::now());
        match fault.code {
            "task_cancelling" => {
                let outcome = self.cancel();
                let _ = reply.send(Err(InputError::Cancelled));
                outcome
            }
            _ if is_lost(&fault) => Some(Outcome::Lost(fault)),
            _ => self.host_failed(&fault.to_string()).or(Some(Outcome::Error(fault))),
        }
    }

    /// The questions, with keys that are unique over the run's life.
    fn slots(&mut self, requests: Vec<Asked>) -> Vec<Slot> {
        let slot = |asked: Asked| {
            let key = unused_key(&asked.key, &self.keys);
            self.keys.insert(key.clone());
            Slot { key, kind: asked.kind, request: Arc::new(asked.request), answer: None }
        };
        requests.into_iter().map(slot).collect()
    }

    /// Takes what came with the call for the first round's questions; what does not fit is asked for.
    async fn answer_early(&mut self, slots: &mut [Slot]) -> Result<(), Fault> {
        let mut early = std::mem::take(&mut self.early);
        let fitting = |slot: &Slot| early.remove(&slot.key).map(|response| (slot.question(0), response));
        let asked: Vec<(store::Question, Value)> = slots.iter().filter_map(fitting).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let mut answers = check_answers(asked).await?;
        for slot in slots {
            slot.answer = answers.remove(&slot.key).and_then(Result::ok);
        }
        Ok(())
    }

    fn rows(&self, slots: &[Slot]) -> Vec<store::Question> {
        slots.iter().map(|slot| slot.question(self.rounds)).collect()
    }

    /// Commits the questions, and the task with them where there is none yet; then the handle may leave.
    async fn ask_in_task(
        &mut self,
        reply: oneshot::Sender<Answers>,
        slots: Vec<Slot>,
        right: Waiting,
        by: By,
    ) -> Result<(), (oneshot::Sender<Answers>, Fault)> {
        let rows = self.rows(&slots);
        let put = if self.held.is_some() {
            match self.put(rows, by).await {
                Ok(()) => self.reveal().await,
                Err(fault) => Err(fault),
            }
        } else {
            self.promote(rows).await
        };
        match put {
            Ok(()) => {
                self.open = Some(Open::new(reply, slots, Way::Task, Some(right)));
                self.durable.asked_at = Some(Instant::now());
                Ok(())
            }
            Err(fault) => Err((reply, fault)),
        }
    }

    /// A question is an effect: its rows are committed together with all that the run had done before.
    async fn put(&mut self, rows: Vec<store::Question>, by: By) -> Result<(), Fault> {
        let (pieces, left) = (self.pieces(), self.active_left());
        let Some(held) = &self.held else {
            return Err(Fault::internal("host_failure", "The run is no task."));
        };
        let call = self.run.work.policy();
        self.runs.tasks.ask_as(by, held, rows, call, Some(left), pieces).await?;
        self.saved();
        Ok(())
    }

    /// Ends the request with the questions; a run with a row commits them first (P1).
    async fn ask_for_retry(
        &mut self,
        reply: oneshot::Sender<Answers>,
        slots: Vec<Slot>,
        right: Waiting,
    ) -> Result<(), (oneshot::Sender<Answers>, Fault)> {
        let run = self.run.clone();
        let call = run.work.policy();
        let expires = Instant::now() + call.input_deadline.duration();
        // The seat first: whoever sees the committed questions finds it.
        let seat = match self.seat.take() {
            Some(seat) => seat,
            None => self.runs.rounds.enter(self.run.requests.clone(), self.held.as_ref().map(|held| held.id)),
        };
        self.seat = Some(seat);
        let mut until = Some(expires);
        if self.held.is_some() {
            // Then the row has the deadline, and whoever looks after tasks tells when it has passed.
            until = None;
            if let Err(fault) = self.put(self.rows(&slots), By::Guest).await {
                return Err((reply, fault));
            }
        }
        let Some(seat) = &mut self.seat else {
            return Err((reply, Fault::internal("host_failure", "The run lost its place.")));
        };
        seat.ledger.put(slots.iter().filter(|slot| slot.answer.is_none()).map(|slot| slot.key.clone()));
        let place = seat.wait(&self.run.work.plugin.name, right);
        self.open = Some(Open::new(reply, slots, Way::Retry { place, until, expires }, None));
        let answer = self.input_required();
        self.answer(answer);
        Ok(())
    }

    /// Hands the questions to whoever speaks to a client of an older revision, with a bound on the wait.
    fn push(
        &mut self,
        reply: oneshot::Sender<Answers>,
        slots: Vec<Slot>,
        right: Waiting,
        client: mpsc::Sender<Pushed>,
    ) {
        let asked: Vec<Asked> = slots
            .iter()
            .filter(|slot| slot.answer.is_none())
            .map(|slot| Asked { key: slot.key.clone(), kind: slot.kind, request: (*slot.request).clone() })
            .collect();
        let wait: Duration = self.run.work.policy().push_wait.duration();
        let count = asked.len();
        let answers = async move {
            let asking = async {
                let (reply, answers) = oneshot::channel();
                client.send(Pushed { requests: asked, reply }).await.ok()?;
                answers.await.ok()
            };
            match tokio::time::timeout(wait, asking).await {
                Ok(Some(Ok(answers))) if answers.len() != count => Err(InputError::TimedOut),
                Ok(Some(answers)) => answers,
                // Nobody is there who could answer any more, or nobody did.
                Ok(None) | Err(_) => Err(InputError::TimedOut),
            }
        };
        // A person's time does not count towards `hold`.
        self.deadline = None;
        self.open = Some(Open::new(reply, slots, Way::Push(Box::pin(answers)), Some(right)));
    }

    /// Gives the slot back and stops the clock of active time.
    fn pause(&mut self) {
        self.permit = None;
        self.waited = true;
        if let Some(since) = self.active_since.take() {
            self.active_left = self.active_left.saturating_sub(since.elapsed());
        }
    }

    /// The open questions have their answers, or none will come: queues for a slot.
    pub(super) fn answered(&mut self, answers: Answers) {
        let Some(open) = &mut self.open else { return };
        open.complete(answers);
        if let Some(seat) = &mut self.seat {
            seat.ledger.close();
        }
        if !self.waiters.is_empty() && self.deadline.is_none() {
            self.taken_up();
        }
        let (runs, run) = (self.runs.clone(), self.run.clone());
        self.admit = Some(Box::pin(async move { runs.slots.readmit(&run.work.plugin).await }));
    }

    /// The time that a response may be held open begins anew.
    pub(super) fn taken_up(&mut self) {
        self.taken_at = Instant::now();
        let patience = self.run.client().patience(self.run.work.policy());
        self.deadline = Some(self.taken_at + patience.duration());
    }

    /// Hands the answers to the guest, which has a slot again.
    pub(super) fn go_on(&mut self, open: Open, permit: Permit) {
        self.permit = Some(permit);
        self.active_since = Some(Instant::now());
        open.finish();
    }
}
