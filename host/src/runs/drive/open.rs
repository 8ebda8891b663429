//! A question that waits for its answers, or answers that wait for a slot.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::{sync::oneshot, time::Instant};

use crate::{
    capabilities::wit_call,
    runs::{admission::Waiting, rounds::Place},
    store::{Answer, Question, QuestionKind},
};

pub(super) type Answers = Result<Vec<Answer>, wit_call::InputError>;

/// One round of the guest's.
pub(super) struct Open {
    reply: oneshot::Sender<Answers>,
    /// In the order in which the guest asked; some are answered already.
    pub(super) slots: Vec<Slot>,
    /// What the guest gets once it has a slot again.
    ready: Option<Answers>,
    way: Way,
    /// The right to wait, kept until the guest goes on, where its place does not hold it.
    right: Option<Waiting>,
}

/// One question.
pub(super) struct Slot {
    /// Unique over the run's life.
    pub(super) key: String,
    pub(super) kind: QuestionKind,
    pub(super) request: Arc<Value>,
    pub(super) answer: Option<Answer>,
}

impl Slot {
    /// As a row.
    pub(super) fn question(&self, round: u32) -> Question {
        let (key, request, answer) = (self.key.clone(), self.request.clone(), self.answer.clone());
        Question { key, round, kind: self.kind, request, answer }
    }
}

/// How the caller is asked.
pub(super) enum Way {
    /// Through its task.
    Task,
    /// By an `InputRequiredResult`; a retry brings the answers. `until`: the input deadline, where no row has it.
    Retry { place: Place, until: Option<Instant>, expires: Instant },
    /// Over the open stream of a client of an older revision.
    Push(BoxFuture<'static, Answers>),
    /// Not any more: the answers are there.
    Done,
}

impl Open {
    /// `right` is the right to wait, where `way` has none of its own.
    pub(super) const fn new(
        reply: oneshot::Sender<Answers>,
        slots: Vec<Slot>,
        way: Way,
        right: Option<Waiting>,
    ) -> Self {
        Self { reply, slots, ready: None, way, right }
    }

    /// When the questions run out, where no row has that.
    pub(super) const fn until(&self) -> Option<Instant> {
        match &self.way {
            Way::Retry { until, .. } => *until,
            _ => None,
        }
    }

    /// When a state that leads to this round expires.
    pub(super) const fn expires(&self) -> Option<Instant> {
        match &self.way {
            Way::Retry { expires, .. } => Some(*expires),
            _ => None,
        }
    }

    /// True while a task's row is to bring answers.
    pub(super) const fn waits_in_task(&self) -> bool {
        matches!(self.way, Way::Task) && self.ready.is_none()
    }

    /// True while a retry is to bring answers.
    pub(super) const fn awaits_retry(&self) -> bool {
        matches!(self.way, Way::Retry { .. })
    }

    /// The answers that a client of an older revision gives. Cancel-safe.
    pub(super) async fn pushed(&mut self) -> Answers {
        match &mut self.way {
            Way::Push(answers) => answers.await,
            _ => std::future::pending().await,
        }
    }

    /// Takes the answers to the questions that were still open, in their order, or to all of them; the guest gets them
    /// once it has a slot.
    pub(super) fn complete(&mut self, answers: Answers) {
        if let Way::Retry { place, .. } = std::mem::replace(&mut self.way, Way::Done) {
            self.right = place.answered();
        }
        self.ready = Some(answers.and_then(|answers| {
            let all = answers.len() == self.slots.len();
            let mut missing = self.slots.iter_mut().filter(|slot| all || slot.answer.is_none());
            for answer in answers {
                if let Some(slot) = missing.next() {
                    slot.answer = Some(answer);
                }
            }
            whole(&self.slots).ok_or(wit_call::InputError::TimedOut)
        }));
    }

    /// Hands the guest its answers, with its slot.
    pub(super) fn finish(self) {
        let answers = self.ready.unwrap_or(Err(wit_call::InputError::Cancelled));
        let _ = self.reply.send(answers);
    }

    /// Hands the guest something else.
    pub(super) fn give(self, answers: Answers) {
        // A guest that has ended meanwhile needs none.
        let _ = self.reply.send(answers);
    }
}

/// Every answer; none while one is missing.
pub(super) fn whole(slots: &[Slot]) -> Option<Vec<Answer>> {
    slots.iter().map(|slot| slot.answer.clone()).collect()
}
