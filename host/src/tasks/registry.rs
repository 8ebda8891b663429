//! The live tasks of this process: where to signal their runs, and what was signalled already.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::{sync::mpsc, time::Instant};

use super::{Held, Signal};
use crate::{
    base::{Millis, Principal, TaskId},
    config::TaskRules,
    store::{End, Question, Status, Task},
};

/// All of them. Its lock is held for a few look-ups, never across an await.
#[derive(Debug, Default)]
pub(super) struct Registry {
    entries: Mutex<HashMap<TaskId, Entry>>,
    /// Tasks with progress that is not written yet. Locked after the entries, never before.
    dirty: Mutex<HashSet<TaskId>>,
}

/// What a live task of this process asks, so that an answer to it needs no look into the database first.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) principal: Principal,
    pub(super) tool: String,
    /// As far as this process has seen.
    pub(super) revealed: bool,
    pub(super) questions: Vec<Question>,
}

impl Open {
    pub(super) fn of(task: &Task) -> Self {
        Self {
            principal: task.principal.clone(),
            tool: task.tool.clone(),
            revealed: task.revealed,
            questions: task.pending().cloned().collect(),
        }
    }

    pub(super) fn asks(&self, key: &str) -> bool {
        self.questions.iter().any(|q| q.key == key)
    }
}

#[derive(Debug)]
struct Entry {
    /// As last seen.
    open: Open,
    signals: mpsc::Sender<Signal>,
    fence: u64,
    /// False until its row is committed.
    committed: bool,
    /// Status as last seen, and since when.
    status: Status,
    since: Instant,
    /// The last round whose answers went out.
    answered: Option<u32>,
    cancelled: bool,
    stopped: bool,
    progress: Option<String>,
    /// When the next progress may be written.
    progress_due: Instant,
}

/// Progress that is due.
pub(super) struct Due {
    pub(super) id: TaskId,
    pub(super) fence: u64,
    pub(super) message: String,
}

impl Registry {
    /// More than a run can have waiting: one set of answers or time-out, one cancel, one stop.
    const SIGNALS: usize = 8;

    fn entries(&self) -> MutexGuard<'_, HashMap<TaskId, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes room for signals before the row is committed: an answer may follow at once.
    pub(super) fn add(&self, task: &Task) -> Held {
        let (held, entry) = Self::entry(task);
        self.entries().insert(task.id, entry);
        held
    }

    /// The same for a task that is about to be claimed; none where a run of this process has it already.
    pub(super) fn add_free(&self, task: &Task) -> Option<Held> {
        let mut entries = self.entries();
        if entries.get(&task.id).is_some_and(|e| !e.signals.is_closed()) {
            return None;
        }
        let (held, entry) = Self::entry(task);
        entries.insert(task.id, entry);
        Some(held)
    }

    fn entry(task: &Task) -> (Held, Entry) {
        let (signals, receiver) = mpsc::channel(Self::SIGNALS);
        let entry = Entry {
            open: Open::of(task),
            signals,
            fence: task.fence,
            committed: false,
            status: task.status,
            since: Instant::now(),
            // A round that is over by now the run reads from the row.
            answered: task.round().filter(|_| task.status == Status::Working),
            cancelled: false,
            stopped: false,
            progress: None,
            progress_due: Instant::now(),
        };
        (
            Held {
                id: task.id,
                fence: task.fence,
                signals: receiver,
                replayed: std::sync::atomic::AtomicU64::default(),
            },
            entry,
        )
    }

    pub(super) fn committed(&self, id: TaskId) {
        if let Some(entry) = self.entries().get_mut(&id) {
            entry.committed = true;
        }
    }

    pub(super) fn remove(&self, id: TaskId) {
        self.entries().remove(&id);
    }

    /// The same for the holder with this fence alone: the task may have been claimed again since.
    pub(super) fn remove_held(&self, id: TaskId, fence: u64) {
        let mut entries = self.entries();
        if entries.get(&id).is_some_and(|e| e.fence == fence) {
            entries.remove(&id);
        }
    }

    /// Takes note of a committed row; the time that it had worked, where it does so no more.
    pub(super) fn note(&self, task: &Task) -> Option<Millis> {
        let mut entries = self.entries();
        let entry = entries.get_mut(&task.id)?;
        entry.open.questions = task.pending().cloned().collect();
        entry.open.revealed = task.revealed;
        if entry.status == task.status {
            return None;
        }
        let worked = (entry.status == Status::Working).then(|| Millis::from(entry.since.elapsed()));
        (entry.status, entry.since) = (task.status, Instant::now());
        if task.status.is_terminal() {
            entries.remove(&task.id);
        }
        worked
    }

    /// The tool of a live task of this process.
    pub(super) fn tool(&self, id: TaskId) -> Option<String> {
        self.entries().get(&id).map(|e| e.open.tool.clone())
    }

    /// What a live, committed task of this process asks.
    pub(super) fn open(&self, id: TaskId) -> Option<Open> {
        self.entries().get(&id).filter(|e| e.committed).map(|e| e.open.clone())
    }

    /// True where `task` has a complete round whose answers its run has not got yet.
    pub(super) fn is_new_round(&self, task: &Task) -> bool {
        let complete = task.status == Status::Working && task.round_answers().is_some();
        complete && self.entries().get(&task.id).is_some_and(|e| e.answered != task.round())
    }

    /// Hands the answers of a complete round to the run, once.
    pub(super) fn answered(&self, task: &Task) {
        if task.status != Status::Working {
            return;
        }
        let (Some(round), Some(answers)) = (task.round(), task.round_answers()) else { return };
        if let Some(entry) = self.entries().get_mut(&task.id)
            && entry.answered != Some(round)
        {
            entry.answered = Some(round);
            send(entry, task.id, Signal::Answers(answers));
        }
    }

    /// Tells the run that its questions ran out.
    pub(super) fn timed_out(&self, task: &Task) {
        if let Some(entry) = self.entries().get_mut(&task.id) {
            entry.answered = task.round();
            send(entry, task.id, Signal::TimedOut);
        }
    }

    /// Tells the run to stop because somebody asked, once; false where no run listens.
    pub(super) fn cancel(&self, id: TaskId) -> bool {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(&id) else { return false };
        if !std::mem::replace(&mut entry.cancelled, true) {
            send(entry, id, Signal::Cancel);
        }
        !entry.signals.is_closed()
    }

    /// Tells the run to stop and end with `end`, once.
    pub(super) fn stop(&self, id: TaskId, end: End) {
        if let Some(entry) = self.entries().get_mut(&id)
            && !std::mem::replace(&mut entry.stopped, true)
        {
            send(entry, id, Signal::Stop(end));
        }
    }

    /// Tells every run that this process's lease is over, once; those that cannot be resumed end with `end`.
    pub(super) fn unleased(&self, end: &End) {
        for (id, entry) in self.entries().iter_mut() {
            if !std::mem::replace(&mut entry.stopped, true) {
                send(entry, *id, Signal::Unleased(end.clone()));
            }
        }
    }

    /// True while a run of this process listens.
    pub(super) fn has(&self, id: TaskId) -> bool {
        self.entries().get(&id).is_some_and(|e| !e.signals.is_closed())
    }

    /// Tasks whose run has gone without an end, with its fence, after a while in which a commit that was
    /// still queued then has come through.
    pub(super) fn left(&self) -> Vec<(TaskId, u64)> {
        let settled = |e: &Entry| e.committed || e.since.elapsed() > TaskRules::LEFT_UNCOMMITTED.duration();
        let entries = self.entries();
        let left = entries.iter().filter(|(_, e)| e.signals.is_closed() && settled(e));
        left.map(|(id, e)| (*id, e.fence)).collect()
    }

    fn dirty(&self) -> MutexGuard<'_, HashSet<TaskId>> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps progress until it is due; a later one takes its place.
    pub(super) fn progress(&self, id: TaskId, message: String) {
        let mut entries = self.entries();
        if let Some(entry) = entries.get_mut(&id)
            && entry.progress.replace(message).is_none()
        {
            self.dirty().insert(id);
        }
    }

    /// Takes progress that is not written yet, so that it is not written later.
    pub(super) fn take_progress(&self, id: TaskId) -> Option<String> {
        self.entries().get_mut(&id)?.progress.take()
    }

    /// Progress that may be written now; the next of a task only after `interval` of its tool.
    pub(super) fn due(&self, all: bool, interval: impl Fn(&str) -> Millis) -> Vec<Due> {
        let now = Instant::now();
        let mut due = Vec::new();
        let mut entries = self.entries();
        self.dirty().retain(|id| {
            let Some(entry) = entries.get_mut(id) else { return false };
            if !all && (entry.progress_due > now || !entry.committed) {
                return true;
            }
            if let Some(message) = entry.progress.take() {
                entry.progress_due = now + interval(&entry.open.tool).duration();
                due.push(Due { id: *id, fence: entry.fence, message });
            }
            false
        });
        due
    }
}

fn send(entry: &Entry, id: TaskId, signal: Signal) {
    if let Err(mpsc::error::TrySendError::Full(_)) = entry.signals.try_send(signal) {
        tracing::error!(task = %id, "a run does not take its signals");
    }
}
