//! What makes a run outlive its instance: its journal's commits, parking, giving the task back, and what a resumed run
//! has asked before.

use std::{collections::HashMap, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, oneshot},
    time::Instant,
};

use super::{Driver, open::Answers};
use crate::{
    base::{Fault, Millis, Piece},
    capabilities::{Abort, Asked, HOSTS_OWN, wit_call::InputError},
    config::TaskRules,
    runs::{
        admission::{Permit, Waiting},
        outcome::Outcome,
        park::{self, Wait},
        pressure::Place,
    },
    store::{self, Status},
};

/// The keeping of a run's journal.
#[derive(Default)]
pub(super) struct Durable {
    /// The row has a journal.
    kept: bool,
    /// Pieces that were taken from the journal, and are not committed.
    unsaved: Vec<Piece>,
    /// Effects that wait for the next commit.
    effects: Vec<oneshot::Sender<()>>,
    /// When entries are to be committed.
    flush_at: Option<Instant>,
    /// Others were told that the run cannot be resumed.
    pin_told: bool,
    /// Since when its open questions wait.
    pub(super) asked_at: Option<Instant>,
    /// How often the run was resumed, and how long it had no instance.
    pub(super) resumes: u32,
    pub(super) parked: Millis,
    /// A process may have died of it: nothing else is resumed beside it.
    alone: bool,
    /// It was resumed, and is not live yet.
    replays: bool,
    /// The share of a resumed run that replays now.
    share: Option<OwnedSemaphorePermit>,
    /// What a resumed run replays is not told to its row yet.
    uncharged: bool,
    /// What its replay has come to.
    replay: Option<Replay>,
    /// The last round of the guest's in a resumed run's row.
    round: Vec<store::Question>,
    /// Questions of the host's in a resumed run's row, none of them open, and their answers.
    told: HashMap<String, Option<store::Answer>>,
}

/// A replay that is watched: its guest must do something.
struct Replay {
    /// When it stands still, if it has made no other host call by then.
    until: Instant,
    calls: u64,
    /// How long it may take from one call to the next.
    still: Duration,
}

impl Replay {
    /// True where it stands still.
    fn is_still(&mut self, now: Instant, calls: u64) -> bool {
        if now < self.until {
            return false;
        }
        let same = self.calls == calls;
        (self.until, self.calls) = (now + self.still, calls);
        same
    }
}

/// What a resumed run has beside its row.
pub(in crate::runs) struct Resuming {
    /// The last round of the guest's in its row.
    pub(in crate::runs) round: Vec<store::Question>,
    /// A share of the resumes that may go on at once, given back when it is live.
    pub(in crate::runs) share: OwnedSemaphorePermit,
    /// A process may have died of it: it has all shares.
    pub(in crate::runs) alone: bool,
}

impl Durable {
    /// Of a run with a row that has its header.
    pub(super) fn kept() -> Self {
        Self { kept: true, flush_at: Some(Instant::now() + TaskRules::FLUSH.duration()), ..Self::default() }
    }

    /// True while it replays.
    pub(super) const fn is_resumed(&self) -> bool {
        self.replays
    }

    /// A resumed run has to wait before it can replay, which it needs no share for: true where it has given it up. What a
    /// process may have died of is alone from its claim on, and keeps all shares.
    pub(super) fn lend(&mut self) -> bool {
        if !self.alone {
            self.share = None;
        }
        !self.alone
    }

    /// It has a slot, and a share where it had lent its own.
    pub(super) fn takes_share(&mut self, share: Option<OwnedSemaphorePermit>) {
        if self.share.is_none() {
            self.share = share;
        }
    }

    /// The replay begins now; one that makes no host call for `still` does nothing.
    pub(super) fn watch(&mut self, still: Duration) {
        self.replay = Some(Replay { until: Instant::now() + still, calls: 0, still });
    }

    /// When it must be seen that the replay does something.
    pub(super) fn replay_until(&self) -> Option<Instant> {
        self.replay.as_ref().map(|replay| replay.until)
    }

    /// True where it replays and stands still, after so many host calls.
    pub(super) fn is_still(&mut self, now: Instant, calls: u64) -> bool {
        self.replay.as_mut().is_some_and(|replay| replay.is_still(now, calls))
    }

    /// Of a run that is resumed.
    pub(super) fn resumed(resuming: Resuming, task: &store::Task) -> Self {
        Self {
            kept: true,
            resumes: task.resumed,
            parked: task.parked_ms,
            flush_at: Some(Instant::now() + TaskRules::RESUMING.duration()),
            replays: true,
            alone: resuming.alone,
            share: Some(resuming.share),
            uncharged: true,
            round: resuming.round,
            told: task
                .questions
                .iter()
                .filter(|q| q.key.starts_with(HOSTS_OWN))
                .map(|q| (q.key.clone(), q.answer.clone()))
                .collect(),
            ..Self::default()
        }
    }

    /// What became of a question of the host's that was put before the run was resumed; none where it was not.
    pub(super) fn told(&self, key: &str) -> Option<Answers> {
        self.told.get(key).map(|answer| answer.clone().map(|answer| vec![answer]).ok_or(InputError::TimedOut))
    }
}

impl Driver {
    /// What the row's journal lacks, to be committed with whatever comes next. Stays to be asked for again until
    /// [`Driver::saved`].
    pub(super) fn pieces(&mut self) -> Vec<Piece> {
        let past = &self.run.past;
        if past.journal.pinned().is_some() && !self.durable.kept {
            // There is nothing that a header could lead to.
            return Vec::new();
        }
        let (run, request) = (&self.run, &self.request);
        let now = self.runs.tasks.now();
        let head = past.journal.head(|| past.header(&run.work, request, run.client, now, &self.runs.vault));
        self.durable.unsaved.extend(head);
        self.durable.unsaved.extend(past.journal.take());
        self.durable.unsaved.clone()
    }

    /// What [`Driver::pieces`] gave is committed.
    pub(super) fn saved(&mut self) {
        self.durable.kept |= !self.durable.unsaved.is_empty();
        self.durable.unsaved.clear();
        self.durable.flush_at = Some(Instant::now() + TaskRules::FLUSH.duration());
    }

    /// A question is committed: the row says as well that the run is live, where it was resumed.
    pub(super) fn has_asked(&mut self) {
        self.saved();
        self.went_live();
    }

    /// What it has done is done, and what it does now is its own.
    fn went_live(&mut self) {
        self.durable.replays = false;
        self.durable.share = None;
        self.durable.replay = None;
        if self.guest.is_some() && self.open.is_none() && self.permit.is_some() {
            self.active.start();
        }
    }

    /// The row gets to know of a resumed run's replay with the next write.
    pub(super) fn charge(&mut self) {
        let Some(held) = self.held.as_ref().filter(|_| self.durable.uncharged) else { return };
        self.durable.uncharged = false;
        if let Some(left) = self.run.past.journal.replayed_to() {
            held.replayed(self.run.work.plugin.policy.limits.fuel.saturating_sub(left));
        }
    }

    /// Active time that is left.
    pub(super) fn active_left(&self) -> Millis {
        Millis::from(self.active.left())
    }

    /// Commits what the journal has new, where the run is a task. Some outcome where the run is another's now.
    pub(super) async fn flush(&mut self) -> Option<Outcome> {
        let done = self.commit().await;
        let next = if self.durable.is_resumed() { TaskRules::RESUMING } else { TaskRules::FLUSH };
        self.durable.flush_at = Some(Instant::now() + next.duration());
        match done {
            Err(fault) if is_lost(&fault) => Some(Outcome::Lost(fault)),
            // The store does not work now: it is tried again, and no effect starts before.
            Err(fault) => {
                tracing::warn!(work = %self.run.work, "the journal was not committed; trying again: {fault}");
                None
            }
            Ok(()) => {
                // One that has gone meanwhile sends nothing.
                for effect in self.durable.effects.drain(..) {
                    let _ = effect.send(());
                }
                None
            }
        }
    }

    /// What the journal has new is to be committed, with the next effect if that comes soon.
    pub(super) fn commit_soon(&mut self) {
        let soon = Instant::now() + TaskRules::SHARED.duration();
        self.durable.flush_at = Some(self.durable.flush_at.map_or(soon, |at| at.min(soon)));
    }

    /// Commits what effects wait for. Where the store does not work now, they wait on.
    pub(super) async fn commit_for_effects(&mut self) -> Option<Outcome> {
        self.durable.effects.extend(self.run.take_commits());
        self.flush().await
    }

    async fn commit(&mut self) -> Result<(), Fault> {
        let runs = self.runs.clone();
        let journal = self.run.past.journal.clone();
        let (news, left) = (journal.has_news() || !self.durable.unsaved.is_empty(), self.active_left());
        let pieces = if news { self.pieces() } else { Vec::new() };
        if self.durable.is_resumed() && journal.is_live() {
            self.charge();
            if let Some(held) = &self.held {
                runs.tasks.live(held).await?;
            }
            self.went_live();
        }
        let Some(held) = &self.held else { return Ok(()) };
        if let Some(why) = self.unpinned() {
            runs.tasks.pin(held, why.to_owned()).await?;
            self.durable.pin_told = true;
        }
        if !pieces.is_empty() {
            runs.tasks.commit(held, left, pieces).await?;
            self.saved();
        }
        Ok(())
    }

    /// When the journal is to be committed next. A run that waits does nothing that would need it, but others must know
    /// of one that cannot be resumed.
    pub(super) fn flushes_at(&self) -> Option<Instant> {
        self.durable.flush_at.filter(|_| {
            let replays = self.durable.is_resumed() && self.guest.is_some();
            let waits = !self.active.goes() && !replays && self.durable.effects.is_empty();
            self.held.is_some() && (!waits || self.unpinned().is_some())
        })
    }

    /// Why the run cannot be resumed, where its row does not have that yet.
    fn unpinned(&self) -> Option<&'static str> {
        self.run.past.journal.pinned().filter(|_| self.durable.kept && !self.durable.pin_told)
    }

    /// True where another instance, here or elsewhere, could go on with this run.
    pub(super) fn is_resumable(&self) -> bool {
        self.held.is_some()
            && self.durable.kept
            && self.run.past.journal.pinned().is_none()
            && !self.run.is_cancelled()
    }

    /// What the run waits for, where its instance could go meanwhile: nobody waits for the run itself.
    fn wait(&self) -> Option<Wait> {
        if !self.is_resumable() || self.guest.is_none() || self.reply.is_some() || self.run.flights.any() {
            return None;
        }
        let (since, until) = match (&self.open, self.run.sleeps()) {
            (Some(open), _) => (self.durable.asked_at.filter(|_| open.waits_in_row())?, None),
            (None, Some((since, until))) => (since, Some(until)),
            (None, None) => return None,
        };
        let limit = self.run.work.plugin.policy.limits.active_time.duration();
        Some(Wait { since, until, spent: limit.saturating_sub(self.active.left_before()) })
    }

    /// Keeps its place among the runs that wait with an instance.
    pub(super) fn keep_place(&mut self) {
        let wait = self.wait();
        if self.place.as_ref().map(Place::wait) == wait {
            return;
        }
        self.place = None;
        let Some(wait) = wait else { return };
        let asking = self.open.iter().filter_map(|open| open.right.as_ref()).flat_map(Waiting::holds);
        let holds = asking.chain(self.permit.iter().flat_map(Permit::holds));
        self.place = Some(self.runs.slots.enter(wait, holds));
    }

    /// When the instance goes, if the run waits.
    pub(super) fn parks_at(&self) -> Option<Instant> {
        let wait = self.wait()?;
        let no_room = self.open.as_ref().is_some_and(|open| open.right.is_none());
        if no_room || self.place.as_ref().is_some_and(Place::is_told) {
            return Some(wait.since);
        }
        park::parks_at(wait, self.run.work.policy().linger.duration())
    }

    /// The outcome of a failure that says nothing about the run.
    pub(super) fn host_failed(&self, why: &str) -> Option<Outcome> {
        if !self.is_resumable() {
            return None;
        }
        let task = self.held.as_ref().map(|held| held.id);
        tracing::error!(plugin = %self.run.work.plugin.name, work = %self.run.work, task = ?task,
            "the host failed; the task goes on later: {why}");
        Some(Outcome::HandsBack { retry: Some(TaskRules::HOST_RETRY) })
    }

    /// Gives up the instance and, where the outcome says so, the task: none where that was all there was to do.
    pub(super) async fn leave(&mut self, outcome: Outcome) -> Option<Outcome> {
        let wake_at = match &outcome {
            Outcome::Parks => self.wake_at(),
            Outcome::HandsBack { .. } => None,
            Outcome::Lost(fault) => {
                tracing::warn!(work = %self.run.work, "the task is another process's: {fault}");
                self.held = None;
                return None;
            }
            _ => return Some(outcome),
        };
        // In this order: nobody may resume a run whose instance is still there.
        self.guest = None;
        self.permit = None;
        self.charge();
        let pieces = self.pieces();
        let left = self.active_left();
        let held = self.held.take()?;
        let mut retry = None;
        let held = match outcome {
            Outcome::Parks => match self.runs.tasks.park(held, wake_at, left, pieces).await {
                Ok(_) => return None,
                // Its answers came in between, or the store does not work: another instance goes on.
                Err((held, fault)) => {
                    tracing::debug!(task = %held.id, "not parked: {fault}");
                    held
                }
            },
            Outcome::HandsBack { retry: pause } => {
                retry = pause.map(|pause| self.runs.tasks.now() + pause);
                if let Err(fault) = self.runs.tasks.commit(&held, left, pieces).await {
                    tracing::warn!(task = %held.id, "the journal's end is lost, and happens again: {fault}");
                }
                held
            }
            _ => return None,
        };
        let id = held.id;
        match self.runs.tasks.hand_back(held, retry, true).await {
            Ok(_) => self.runs.tasks.resume_hint().notify_one(),
            // Who looks after tasks gives it back a little later, or ends it where that was asked for.
            Err(fault) => tracing::debug!(task = %id, "not handed back: {fault}"),
        }
        None
    }

    /// The end of the guest's sleep, by the clock that others go by.
    fn wake_at(&self) -> Option<crate::base::UnixMillis> {
        let (_, until) = self.run.sleeps().filter(|_| self.open.is_none())?;
        Some(self.runs.tasks.now() + Millis::from(until.saturating_duration_since(Instant::now())))
    }

    /// What became of questions that the run had asked before it was resumed; none where it had not.
    pub(super) fn asked_before(&mut self, requests: &[Asked]) -> Option<Answers> {
        let round = std::mem::take(&mut self.durable.round);
        if round.is_empty() {
            return None;
        }
        let same = round.len() == requests.len()
            && round.iter().zip(requests).all(|(row, asked)| *row.request == asked.request);
        // A round that is over without all answers has run out.
        same.then(|| {
            round.into_iter().map(|row| row.answer).collect::<Option<_>>().ok_or(InputError::TimedOut)
        })
    }
}

/// True where the run must stop and may settle nothing.
pub(super) fn is_lost(fault: &Fault) -> bool {
    matches!(fault.code, "task_fenced" | "task_ended" | "task_unknown")
}

/// The last round of the guest's in a row, where it is not open any more.
pub(in crate::runs) fn last_round(task: &store::Task) -> Vec<store::Question> {
    let own = || task.questions.iter().filter(|q| !q.key.starts_with(HOSTS_OWN));
    let round = own().next_back().map(|q| q.round).filter(|_| task.status == Status::Working);
    own().filter(|q| Some(q.round) == round).cloned().collect()
}

/// The host's own failure, where `ended` is one.
pub(super) fn host_failure<T>(ended: &Result<T, Abort>) -> Option<&str> {
    match ended {
        Err(Abort::Host(why)) => Some(why),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_that_makes_calls_does_not_stand_still() {
        let (begin, still) = (Instant::now(), Duration::from_secs(60));
        let mut replay = Replay { until: begin + still, calls: 0, still };
        // seconds, calls by then, still
        for (at, calls, stands) in [
            (59, 0, false),
            (60, 1, false),
            (119, 1, false),
            (121, 2, false),
            (180, 2, false),
            (181, 2, true),
        ] {
            assert_eq!(replay.is_still(begin + Duration::from_secs(at), calls), stands, "after {at} s");
        }
    }
}
