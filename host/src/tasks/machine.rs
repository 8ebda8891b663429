//! The state machine: every move of a task is [`Task::apply`], pure. The store persists what it returns.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::ttl;
use crate::{
    base::{BootId, Millis, UnixMillis},
    config::TaskRules,
    store::{Answer, End, Question, Refused, Status, Task},
};

/// One thing that happens to a task. `fence` is the writer's; a holder that has lost the task is refused.
#[derive(Clone, Debug)]
pub enum Event {
    /// The run puts questions, as one round.
    Ask {
        /// The holder's.
        fence: u64,
        /// Keys as the plugin gave them; rounds are counted here.
        questions: Vec<Question>,
        /// How long they wait.
        wait: Millis,
        /// What happens when no answer comes.
        resume_on_timeout: bool,
        /// True for the host's own questions, whose keys are under `layby/`.
        by_host: bool,
        /// New poll interval.
        poll_interval: Millis,
    },
    /// Answers came, each valid or with the reason why it is not.
    Answers {
        /// By key.
        answers: BTreeMap<String, Result<Answer, String>>,
        /// New poll interval, where this completes the round.
        poll_interval: Millis,
    },
    /// The input deadline passed for a tool that goes on then.
    TimeOut {
        /// The holder's.
        fence: u64,
        /// New poll interval.
        poll_interval: Millis,
    },
    /// The run says how far it has come.
    Progress {
        /// The holder's.
        fence: u64,
        /// For people.
        message: String,
    },
    /// Somebody asks for cancellation.
    Cancel,
    /// A keyed run is handed out as a task.
    Reveal,
    /// The holder ends the task.
    Settle {
        /// The holder's.
        fence: u64,
        /// How.
        end: End,
    },
    /// Somebody ends a task whose holder is gone: compare and set.
    Abandon {
        /// Holder and fence as they were when it was found to be gone.
        holder: Option<BootId>,
        /// The same.
        fence: u64,
        /// How.
        end: End,
    },
}

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
            Event::Ask { fence, questions, wait, resume_on_timeout, by_host, poll_interval } => {
                let mut next = self.fenced(fence)?.asked(questions, by_host)?;
                next.status = Status::InputRequired;
                next.input_deadline = Some(now + wait);
                next.resume_on_timeout = resume_on_timeout;
                next.poll_interval = poll_interval;
                Ok(next.touched(now).promised(now))
            }
            Event::Answers { answers, poll_interval } => self.answered(answers, poll_interval, now),
            Event::TimeOut { fence, poll_interval } => self.fenced(fence)?.timed_out(poll_interval, now),
            Event::Progress { fence, message } => {
                let mut next = self.fenced(fence)?;
                let message = Some(bounded(message));
                if next.status_message == message {
                    return Err(Refused::Unchanged);
                }
                next.status_message = message;
                Ok(next.touched(now))
            }
            Event::Cancel if self.cancel_requested.is_some() => Err(Refused::Unchanged),
            Event::Cancel => Ok(Self { cancel_requested: Some(now), ..self }.touched(now)),
            Event::Reveal if self.revealed => Err(Refused::Unchanged),
            Event::Reveal => Ok(Self { revealed: true, ..self }.touched(now)),
            Event::Settle { fence, end } => Ok(self.fenced(fence)?.ended(end, now)),
            Event::Abandon { holder, fence, end } => {
                if self.holder == holder {
                    Ok(self.fenced(fence)?.ended(end, now))
                } else {
                    Err(Refused::Fenced)
                }
            }
        }
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
        if questions.is_empty() {
            return Err(Refused::NotNow("a round needs a question"));
        }
        let mut used: HashSet<String> = self.questions.iter().map(|q| q.key.clone()).collect();
        let round = self.round().map_or(0, |r| r + 1);
        for mut question in questions {
            if question.key.starts_with("layby/") != by_host {
                return Err(Refused::NotNow("keys under layby/ are the host's, and only they"));
            }
            question.key = unused(&question.key, &used);
            question.round = round;
            question.answer = None;
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
        self.active_left = Millis(0);
        self.touched(now).promised(now)
    }
}

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
