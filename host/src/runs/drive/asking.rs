//! Puts the guest's questions to its caller: through its row, of which the caller has the handle or an
//! `InputRequiredResult`, or over the open stream of a client of an older revision. The guest waits meanwhile, without a
//! slot.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{
    Driver,
    durable::is_lost,
    new_task,
    open::{Answers, Open, Slot, Way, whole},
};
use crate::{
    base::Fault,
    capabilities::{Abort, Asked, wit_call::InputError},
    config::TaskRules,
    runs::{
        Answer, Asks, Pushed,
        admission::{Permit, Waiting},
        follow,
        outcome::Outcome,
        run::Question,
    },
    store,
    tasks::{By, check_answers, unused_key},
};

/// A round of questions that is no row yet.
pub(super) struct Round {
    reply: oneshot::Sender<Answers>,
    slots: Vec<Slot>,
    right: Option<Waiting>,
    /// The caller is asked by an `InputRequiredResult`.
    hidden: bool,
    by: By,
    /// How long a failing store is tried.
    until: Instant,
    pub(super) retry_at: Option<Instant>,
}

impl Round {
    /// Tells the guest that nobody will answer any more.
    pub(super) fn cancel(self) {
        let _ = self.reply.send(Err(InputError::Cancelled));
    }
}

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
        if question.again {
            // What it had begun to ask, and nobody was shown, is asked by what is granted now.
            let before = self.asked_before(&question.requests);
            let refused = || self.run.may_put(&question.requests).err().map(Err);
            if let Some(answers) = before.or_else(refused) {
                let _ = question.reply.send(answers);
                return None;
            }
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
        let run = self.run.clone();
        let kinds = || slots.iter().filter(|slot| slot.answer.is_none()).map(|slot| slot.kind);
        let push = match &run.asks {
            // Past the handle nobody waits any more who could be asked over a stream.
            Asks::Push(client) if !self.revealed && follow::directly(run.client, kinds()) => {
                Some(client.clone())
            }
            _ => None,
        };
        let hidden =
            matches!(run.asks, Asks::Retry) && follow::by_retry(run.client, run.work.policy(), kinds());
        let bytes = run.meter.load(std::sync::atomic::Ordering::Relaxed);
        let right = match self.runs.slots.try_wait(&run.work.plugin, bytes) {
            Ok(right) => Some(right),
            // Where no instance more may wait, this one goes at once.
            Err(_) if push.is_none() && run.past.journal.pinned().is_none() => None,
            Err((name, value)) => {
                let advice = "Answer or cancel tasks that wait, then call again.".into();
                return Some(Outcome::of(&run, Err(Abort::Limit { name, value, advice })));
            }
        };
        self.pause(right.is_some());
        match push {
            Some(client) => {
                self.push(question.reply, slots, right, client);
                self.rounds += 1;
                None
            }
            None => {
                let since = if self.reply.is_some() { self.taken_at } else { Instant::now() };
                let until = since + run.work.policy().hold.duration();
                let (reply, by) = (question.reply, By::Guest);
                self.put(Round { reply, slots, right, hidden, by, until, retry_at: None }).await
            }
        }
    }

    /// Puts a question of the host's own, through the row. The guest waits as if it had asked.
    async fn asked_by_host(&mut self, question: Question) -> Option<Outcome> {
        let Question { mut requests, reply, .. } = question;
        let Asked { key, kind, request } = requests.pop().filter(|_| !reply.is_closed())?;
        if let Some(answers) = self.durable.told(&key) {
            let _ = reply.send(answers);
            return None;
        }
        self.run.log_question(&[&key]);
        let bytes = self.run.meter.load(std::sync::atomic::Ordering::Relaxed);
        // Where no instance more may wait, this one goes at once.
        let right = self.runs.slots.try_wait(&self.run.work.plugin, bytes).ok();
        self.pause(right.is_some());
        self.keys.insert(key.clone());
        let slots = vec![Slot { key, kind, request: Arc::new(request), answer: None }];
        let until = Instant::now() + self.run.work.policy().hold.duration();
        // Whoever follows the row decides how its client is asked.
        self.put(Round { reply, slots, right, hidden: true, by: By::Host, until, retry_at: None }).await
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

    /// Commits the questions, and the row with them where there is none yet; then the request has its answer (P1). A
    /// store that fails now is tried again, and the request held meanwhile.
    pub(super) async fn put(&mut self, mut round: Round) -> Option<Outcome> {
        let fault = match self.commit_round(&round).await {
            Ok(row) => {
                self.rounds += 1;
                self.durable.asked_at = Some(Instant::now());
                let Round { reply, slots, right, hidden, .. } = round;
                self.open = Some(Open::new(reply, slots, Way::Row, right));
                self.tell(hidden, row).await;
                return None;
            }
            Err(fault) => fault,
        };
        self.not_a_row(&fault);
        match fault.code {
            // Somebody cancelled between the question and its commit: the signal is on its way.
            "task_cancelling" => {
                let outcome = self.cancel();
                self.active.start();
                let _ = round.reply.send(Err(InputError::Cancelled));
                outcome
            }
            "too_many_waiting" => Some(Outcome::Error(fault)),
            _ if is_lost(&fault) => Some(Outcome::Lost(fault)),
            _ if Instant::now() < round.until => {
                tracing::warn!(work = %self.run.work, "a question cannot be kept, holding the call: {fault}");
                round.retry_at = Some(round.until.min(Instant::now() + TaskRules::STORE_RETRY.duration()));
                self.unput = Some(round);
                None
            }
            _ => {
                self.answer(Answer::Error(fault.clone()));
                Some(self.host_failed(&fault.to_string()).unwrap_or(Outcome::Error(fault)))
            }
        }
    }

    /// A question is an effect: its rows are committed together with all that the run had done before.
    async fn commit_round(&mut self, round: &Round) -> Result<store::Task, Fault> {
        self.charge();
        let rows = self.rows(&round.slots);
        if self.held.is_none() {
            self.run.becomes_durable(self.runs.tasks.leased());
        }
        let (pieces, left) = (self.pieces(), self.active_left());
        if let Some(held) = &self.held {
            let policy = self.run.work.policy();
            let row = self.runs.tasks.ask_as(round.by, held, rows, policy, Some(left), pieces).await?;
            self.has_asked();
            return Ok(row);
        }
        let new = new_task(&self.run, rows, left);
        let (held, row) = match round.hidden {
            true => self.runs.tasks.hide(new, pieces).await?,
            false => self.runs.tasks.create(new, pieces).await?,
        };
        self.became(held, row.revealed);
        Ok(row)
    }

    /// Tells the request that waits, if one does, of what its run asks.
    async fn tell(&mut self, hidden: bool, row: store::Task) {
        if self.reply.is_none() {
            return;
        }
        if hidden && !self.revealed {
            let answer = self.runs.rounds.ask(&row, &self.run.mark, self.runs.tasks.now());
            return self.answer(answer);
        }
        if row.revealed {
            self.revealed = true;
            return self.answer(Answer::Task(Box::new(row)));
        }
        // Where the handle cannot leave yet, it does at the deadline.
        if let Err(fault) = self.reveal().await {
            tracing::warn!(task = %row.id, "the handle of a call is not given out yet: {fault}");
        }
    }

    /// Hands the questions to whoever speaks to a client of an older revision, with a bound on the wait.
    fn push(
        &mut self,
        reply: oneshot::Sender<Answers>,
        slots: Vec<Slot>,
        right: Option<Waiting>,
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
        self.open = Some(Open::new(reply, slots, Way::Push(Box::pin(answers)), right));
    }

    /// Gives the slot back, for the right to wait with an instance, and stops the clock of active time. Where there is no such
    /// right, the slot is what the instance has until it goes.
    fn pause(&mut self, has_right: bool) {
        if has_right {
            self.permit = None;
        }
        self.waited = true;
        self.active.stop();
    }

    /// The open questions have their answers, or none will come: queues for a slot.
    pub(super) fn answered(&mut self, answers: Answers) {
        let Some(open) = &mut self.open else { return };
        open.complete(answers);
        if self.reply.is_some() && self.deadline.is_none() {
            self.taken_up();
        }
        let (runs, run, permit) = (self.runs.clone(), self.run.clone(), self.permit.take());
        self.admit = Some(Box::pin(async move {
            match permit {
                Some(permit) => Ok((permit, None)),
                None => Ok((runs.slots.readmit(&run.work.plugin, &run.principal).await, None)),
            }
        }));
    }

    /// The time that a response may be held open begins anew.
    fn taken_up(&mut self) {
        self.taken_at = Instant::now();
        let patience = self.run.client.patience(self.run.work.policy());
        self.deadline = Some(self.taken_at + patience.duration());
    }

    /// Hands the answers to the guest, which has a slot again.
    pub(super) fn go_on(&mut self, open: Open, permit: Permit) {
        self.permit = Some(permit);
        self.active.start();
        open.finish();
    }
}
