//! Between two multi round-trip requests (MCP 2026-07-28, `basic/patterns/mrtr`) a run is its row. This is what leads
//! back to it, and who follows a run in this process that is a row.

mod seal;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::time::Duration;

pub(super) use self::seal::{Named, Seal};
use super::{Answer, Outlet};
use crate::{
    base::{Digest, Fault, TaskId, UnixMillis},
    store::Task,
};

/// All of this process.
pub(super) struct Rounds {
    pub(super) seal: Seal,
    /// Held for a few look-ups, never across an await.
    followed: Mutex<HashMap<TaskId, Followed>>,
}

#[derive(Default)]
struct Followed {
    /// Requests that wait for this run.
    count: u32,
    /// Numbers them.
    next: u64,
    /// Where notices go: to the newest that wants some.
    outlet: Option<(u64, Outlet)>,
}

impl Rounds {
    pub(super) fn new(seal: Seal) -> Arc<Self> {
        Arc::new(Self { seal, followed: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TaskId, Followed>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more request waits for the run with this row.
    pub(super) fn follow(self: &Arc<Self>, task: TaskId, outlet: Option<Outlet>) -> Follower {
        let mut all = self.lock();
        let entry = all.entry(task).or_default();
        entry.count += 1;
        entry.next += 1;
        let number = entry.next;
        if let Some(outlet) = outlet {
            entry.outlet = Some((number, outlet));
        }
        Follower { rounds: self.clone(), task, number, left: false }
    }

    /// Where the notices of a run go that is a row.
    pub(super) fn outlet(&self, task: TaskId) -> Option<Outlet> {
        self.lock().get(&task)?.outlet.as_ref().map(|(_, outlet)| outlet.clone())
    }

    /// The questions that are open in a row, and the state that leads the request with this mark back to them until
    /// they run out.
    pub(super) fn ask(&self, task: &Task, mark: &Digest, now: UnixMillis) -> Answer {
        let requests = task.pending().map(|q| (q.key.clone(), (*q.request).clone())).collect();
        let named = Named { run: task.id.0, round: task.round().unwrap_or_default() };
        let life = task.input_deadline.map_or(Duration::ZERO, |until| until.since(now).duration());
        match self.seal.close(&named, mark, life) {
            Ok(state) => Answer::InputRequired { requests, state },
            Err(e) => {
                tracing::error!("a request state cannot be sealed: {e}");
                Answer::Error(Fault::internal("host_failure", "The state of this request cannot be written."))
            }
        }
    }
}

/// A request's place among those that wait for a run; dropped, it is given up.
pub(super) struct Follower {
    rounds: Arc<Rounds>,
    task: TaskId,
    number: u64,
    left: bool,
}

impl Follower {
    /// Gives the place up: no notice follows. True where it was the last one in this process.
    pub(super) fn leave(&mut self) -> bool {
        if std::mem::replace(&mut self.left, true) {
            return false;
        }
        let mut all = self.rounds.lock();
        let Some(entry) = all.get_mut(&self.task) else { return false };
        entry.count -= 1;
        if entry.count == 0 {
            all.remove(&self.task);
            return true;
        }
        entry.outlet.take_if(|(number, _)| *number == self.number);
        false
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn notices_go_to_the_newest_that_wants_some_and_the_last_is_told() {
        let rounds = Rounds::new(Seal::new(&[7; 32]).unwrap());
        let task = TaskId::new();
        let outlet = |progress| Outlet { notices: tokio::sync::mpsc::channel(1).0, progress, log: None };
        let mut first = rounds.follow(task, Some(outlet(false)));
        let mut second = rounds.follow(task, Some(outlet(true)));
        let mut third = rounds.follow(task, None);
        assert!(rounds.outlet(task).unwrap().progress);
        assert!(!first.leave() && rounds.outlet(task).is_some());
        assert!(!second.leave() && rounds.outlet(task).is_none());
        assert!(third.leave());
        drop((first, second, third));
        assert!(rounds.lock().is_empty());
        drop(rounds.follow(task, None));
        assert!(rounds.lock().is_empty());
    }
}
