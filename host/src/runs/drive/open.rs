//! A question that waits for its answers, or answers that wait for a slot.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::{
    capabilities::wit_call,
    runs::admission::Waiting,
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
    /// The right to wait with an instance, kept until the guest goes on; none where it is to go at once.
    pub(super) right: Option<Waiting>,
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
    /// Through its row, whose answers a task's client or a retry brings.
    Row,
    /// Over the open stream of a client of an older revision.
    Push(BoxFuture<'static, Answers>),
    /// Not any more: the answers are there.
    Done,
}

impl Open {
    pub(super) const fn new(
        reply: oneshot::Sender<Answers>,
        slots: Vec<Slot>,
        way: Way,
        right: Option<Waiting>,
    ) -> Self {
        Self { reply, slots, ready: None, way, right }
    }

    /// True while its row is to bring answers.
    pub(super) const fn waits_in_row(&self) -> bool {
        matches!(self.way, Way::Row) && self.ready.is_none()
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
        self.way = Way::Done;
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
