//! The state machine: every move of a task is [`Task::apply`], pure. The store persists what it returns.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::{
    event::Event,
    ledger::{self, Verdict},
    ttl,
};
use crate::{
    base::{BootId, Millis, UnixMillis},
    config::TaskRules,
    store::{Answer, End, Question, Refused, Status, Task},
};

impl Task {
    /// The move that `event` means at `now`.
    ///
    /// # Errors
    /// Why it is not allowed; the task stays as it is.
    pub fn apply(self, event: Event, now: UnixMillis) -> Result<Self, Refused> {
        if self.status.is_terminal() {
            return Err(Refused::Ended);
        }
        // The wall clock may go back; what clients see does not.
        let now = now.max(self.updated_at);
        match event {
            Event::Ask { fence, questions, wait, resume_on_timeout, by_host, active_left, poll_interval } => {
                let mut next = self.held(fence)?.asked(questions, by_host)?;
                next.status = Status::InputRequired;
                next.input_deadline = Some(now + wait);
                next.resume_on_timeout = resume_on_timeout;
                next.active_left = active_left.unwrap_or(next.active_left);
                next.poll_interval = poll_interval;
                // Only a run that is live asks.
                next.attempts = 0;
                Ok(next.touched(now).promised(now))
            }
            Event::Answers { answers, round, poll_interval } => {
                match round.map(|round| ledger::judge(&self, round, &answers)) {
                    Some(Verdict::Stale) => Err(Refused::NotNow(STALE)),
                    Some(Verdict::Attach) => Err(Refused::Unchanged),
                    Some(Verdict::Answers) | None => self.answered(answers, poll_interval, now),
                }
            }
            Event::TimeOut { fence, poll_interval } => self.fenced(fence)?.timed_out(poll_interval, now),
            Event::Progress { fence, message } => {
                let mut next = self.held(fence)?;
                let message = Some(bounded(message));
                if next.status_message == message {
                    return Err(Refused::Unchanged);
                }
                next.status_message = message;
                Ok(next.touched(now))
            }
            Event::Cancel if self.cancel_requested.is_some() => Err(Refused::Unchanged),
            Event::Cancel => Ok(Self { cancel_requested: Some(now), ..self }.touched(now)),
            // One that asks is left as a matter of course, and a key or a handle leads back to the others.
            Event::Leave if self.revealed || self.key.is_some() || self.status != Status::Working => {
                Err(Refused::Unchanged)
            }
            Event::Leave => self.apply(Event::Cancel, now),
            Event::Reveal if self.revealed => Err(Refused::Unchanged),
            Event::Reveal => Ok(Self { revealed: true, ..self }.touched(now)),
            Event::Settle { fence, end } => Ok(self.held(fence)?.ended(end, now)),
            Event::Park { fence, wake_at, active_left } => self.held(fence)?.park(wake_at, active_left, now),
            Event::Claim { me, holder, fence, alone } => {
                self.of(holder)?.fenced(fence)?.claimed(me, alone, now)
            }
            Event::Live { fence } => match self.held(fence)? {
                next if next.attempts == 0 => Err(Refused::Unchanged),
                next => Ok(Self { attempts: 0, ..next }),
            },
            Event::HandBack { fence, retry_at, ordered } => {
                let next = self.held(fence)?.released(now)?;
                Ok(Self { retry_at, attempts: if ordered { 0 } else { next.attempts }, ..next })
            }
            Event::Orphan { holder, fence } => self.of(Some(holder))?.fenced(fence)?.orphaned(now),
            Event::Pin { fence, why } => match self.held(fence)? {
                next if next.pinned.is_some() => Err(Refused::Unchanged),
                next => Ok(Self { pinned: Some(bounded(why)), ..next }),
            },
            Event::Commit { fence, active_left } => Ok(Self { active_left, ..self.held(fence)? }),
            Event::Abandon { holder, fence, end } => Ok(self.of(holder)?.fenced(fence)?.ended(end, now)),
        }
    }

    /// The same after a resume that replayed so much fuel.
    pub(super) fn having_replayed(mut self, fuel: u64) -> Self {
        self.replayed = self.replayed.saturating_add(fuel);
        self
    }

    /// The questions that wait for an answer now, in the order they were put.
    pub fn pending(&self) -> impl Iterator<Item = &Question> {
        let round = match self.status {
            Status::InputRequired => self.round(),
            _ => None,
        };
        self.questions.iter().filter(move |q| Some(q.round) == round && q.answer.is_none())
    }

    /// The number of the round put last.
    pub fn round(&self) -> Option<u32> {
        self.questions.last().map(|q| q.round)
    }

    /// The answers of the round put last, in the order of its questions; none while one is missing.
    pub fn round_answers(&self) -> Option<Vec<Answer>> {
        let round = self.round()?;
        self.questions.iter().filter(|q| q.round == round).map(|q| q.answer.clone()).collect()
    }

    /// When the handle's life ends.
    pub fn expires_at(&self) -> UnixMillis {
        self.created_at + self.ttl
    }

    /// True where it has ended and its TTL is over at `now`: what is left is how it had ended.
    pub fn is_over(&self, now: UnixMillis) -> bool {
        self.status.is_terminal() && self.expires_at() <= now
    }

    fn fenced(self, fence: u64) -> Result<Self, Refused> {
        if self.fence == fence { Ok(self) } else { Err(Refused::Fenced) }
    }

    /// A write of the holder's: of a task that is nobody's there is none.
    fn held(self, fence: u64) -> Result<Self, Refused> {
        if self.holder.is_some() { self.fenced(fence) } else { Err(Refused::Fenced) }
    }

    /// The first half of a compare and set.
    fn of(self, holder: Option<BootId>) -> Result<Self, Refused> {
        if self.holder == holder { Ok(self) } else { Err(Refused::Fenced) }
    }

    fn touched(mut self, now: UnixMillis) -> Self {
        self.updated_at = self.updated_at.max(now);
        self
    }

    /// Raises the TTL where a moment that it follows from has moved.
    fn promised(mut self, now: UnixMillis) -> Self {
        self.ttl = ttl::raised(&self, now);
        self
    }

    /// Adds a round, with keys that were never used in this task.
    fn asked(mut self, questions: Vec<Question>, by_host: bool) -> Result<Self, Refused> {
        if self.status != Status::Working {
            return Err(Refused::NotNow("questions are waiting for their answers already"));
        }
        if self.cancel_requested.is_some() {
            return Err(Refused::NotNow("cancellation was asked for"));
        }
        if questions.iter().all(|q| q.answer.is_some()) {
            return Err(Refused::NotNow("a round needs an open question"));
        }
        let mut used: HashSet<String> = self.questions.iter().map(|q| q.key.clone()).collect();
        let round = self.round().map_or(0, |r| r + 1);
        for mut question in questions {
            if question.key.starts_with("layby/") != by_host {
                return Err(Refused::NotNow("keys under layby/ are the host's, and only they"));
            }
            question.key = unused(&question.key, &used);
            question.round = round;
            used.insert(question.key.clone());
            self.questions.push(question);
        }
        Ok(self)
    }

    fn answered(
        mut self,
        answers: BTreeMap<String, Result<Answer, String>>,
        poll_interval: Millis,
        now: UnixMillis,
    ) -> Result<Self, Refused> {
        let pending: HashSet<String> = self.pending().map(|q| q.key.clone()).collect();
        let mut wrong = Vec::new();
        let mut right = BTreeMap::new();
        // Keys that were never asked, are answered, or whose round is over are ignored.
        for (key, answer) in answers.into_iter().filter(|(k, _)| pending.contains(k)) {
            match answer {
                Ok(answer) => drop(right.insert(key, answer)),
                Err(reason) => wrong.push((key, reason)),
            }
        }
        if !wrong.is_empty() {
            return Err(Refused::Answers(wrong));
        }
        if right.is_empty() {
            return Err(Refused::Unchanged);
        }
        if self.input_deadline.is_some_and(|d| d <= now) {
            return Err(Refused::NotNow(LATE));
        }
        for question in &mut self.questions {
            if let Some(answer) = right.remove(&question.key) {
                question.answer = Some(answer);
            }
        }
        if self.pending().next().is_none() {
            self.status = Status::Working;
            self.input_deadline = None;
            self.poll_interval = poll_interval;
            self = self.promised(now);
        }
        Ok(self.touched(now))
    }

    fn timed_out(mut self, poll_interval: Millis, now: UnixMillis) -> Result<Self, Refused> {
        if self.status != Status::InputRequired || self.input_deadline.is_none_or(|d| d > now) {
            return Err(Refused::NotNow("no question has run out"));
        }
        if !self.resume_on_timeout {
            return Err(Refused::NotNow("this tool ends when a question runs out"));
        }
        self.status = Status::Working;
        self.input_deadline = None;
        self.poll_interval = poll_interval;
        Ok(self.touched(now).promised(now))
    }

    /// Nobody's from now on, to be gone on with from its journal.
    fn released(mut self, now: UnixMillis) -> Result<Self, Refused> {
        if !self.is_resumable() {
            return Err(Refused::NotNow("it cannot be resumed"));
        }
        self.holder = None;
        self.parked_at = Some(now);
        Ok(self)
    }

    fn park(
        self,
        wake_at: Option<UnixMillis>,
        active_left: Millis,
        now: UnixMillis,
    ) -> Result<Self, Refused> {
        if self.cancel_requested.is_some() {
            return Err(Refused::NotNow("cancellation was asked for"));
        }
        // Answers that came in the meantime are on their way to the run.
        if (self.status == Status::InputRequired) != wake_at.is_none() {
            return Err(Refused::NotNow("there is nothing to wait for"));
        }
        let next = Self { wake_at, active_left, attempts: 0, ..self.released(now)? };
        Ok(next.promised_quietly(now))
    }

    /// Its process has died.
    fn orphaned(self, now: UnixMillis) -> Result<Self, Refused> {
        let mut next = self.released(now)?;
        if next.crashes() > 0 {
            next.retry_at = Some(now + Millis(TaskRules::ALONE_RETRY.0 * u64::from(next.crashes())));
        }
        Ok(next)
    }

    fn claimed(mut self, me: BootId, alone: bool, now: UnixMillis) -> Result<Self, Refused> {
        if self.attempts > 0 && (self.holder.is_some() || !alone) {
            return Err(Refused::NotNow("it is resumed alone, once it is nobody's"));
        }
        if self.cancel_requested.is_some() {
            return Err(Refused::NotNow("cancellation was asked for"));
        }
        if self.status != Status::Working || !self.is_resumable() {
            return Err(Refused::NotNow("it cannot be resumed"));
        }
        self.holder = Some(me);
        self.fence += 1;
        self.attempts = self.attempts.saturating_add(1);
        self.resumed = self.resumed.saturating_add(1);
        self.wake_at = None;
        self.retry_at = None;
        Ok(self.unparked(now).promised_quietly(now))
    }

    /// Adds up the time without an instance.
    fn unparked(mut self, now: UnixMillis) -> Self {
        if let Some(since) = self.parked_at.take() {
            self.parked_ms = self.parked_ms + now.since(since);
        }
        self
    }

    /// As [`Task::promised`]; the TTL is all that a client sees of it.
    fn promised_quietly(self, now: UnixMillis) -> Self {
        let before = self.ttl;
        let next = self.promised(now);
        if next.ttl == before { next } else { next.touched(now) }
    }

    fn ended(mut self, end: End, now: UnixMillis) -> Self {
        (self.status, self.status_message) = match &end {
            End::Completed(_) => (Status::Completed, None),
            End::Failed(error) => {
                let why = error.get("message").and_then(Value::as_str).unwrap_or("the task failed");
                (Status::Failed, Some(bounded(why.to_owned())))
            }
            End::Cancelled => (Status::Cancelled, Some("Cancelled on request.".to_owned())),
        };
        self.end = Some(end);
        self.holder = None;
        self.input_deadline = None;
        self.wake_at = None;
        self.retry_at = None;
        self.active_left = Millis(0);
        self.unparked(now).touched(now).promised(now)
    }
}

/// Why answers that contradict what was taken are refused.
pub(super) const STALE: &str = "these questions have other answers already";

/// Why answers after the input deadline are refused.
pub(super) const LATE: &str = "the questions have run out";

/// `key`, or the first of `key_2`, `key_3`, … that is free.
pub(crate) fn unused(key: &str, used: &HashSet<String>) -> String {
    if !used.contains(key) {
        return key.to_owned();
    }
    let mut n = 2_u64;
    loop {
        let candidate = format!("{key}_{n}");
        if !used.contains(&candidate) {
            return candidate;
        }
        n += 1;
    }
}

fn bounded(mut message: String) -> String {
    let most = TaskRules::STATUS_MESSAGE.as_usize();
    if message.len() > most {
        message.truncate(message.floor_char_boundary(most));
    }
    message
}
