//! What one transaction does to tasks, in memory: the rows that it concerns are read at once, changed one
//! after the other, and written at once. The number of statements does not grow with the batch.

use std::collections::{HashMap, hash_map::Entry};

use super::{
    Admitted, Question, Refused, StoreError, Task, Updated,
    work::{Done, Work, run},
};
use crate::base::{Piece, TaskId};

/// A task as the database has it, and as it will be.
struct Slot {
    stored: Option<Task>,
    changed: Option<Task>,
}

impl Slot {
    /// One of the two is always there.
    fn now(&self) -> Option<&Task> {
        self.changed.as_ref().or(self.stored.as_ref())
    }
}

/// Principal, tool and idempotency key.
pub(super) type Key = (String, String, String);

fn key_of(task: &Task) -> Option<Key> {
    let key = task.key.as_ref()?;
    Some((task.principal.as_str().to_owned(), task.tool.clone(), key.key.clone()))
}

/// What a transaction must read before it changes anything.
#[derive(Default)]
pub(super) struct Wanted {
    /// Tasks that it changes.
    pub(super) ids: Vec<TaskId>,
    /// Keys that it admits by.
    pub(super) keys: Vec<Key>,
    /// Tasks that need not be read.
    pub(super) known: Vec<Task>,
}

/// The tasks of one transaction.
#[derive(Default)]
pub(super) struct Batch<'a> {
    slots: HashMap<TaskId, Slot>,
    keys: HashMap<Key, TaskId>,
    /// In the order they came, so that lists show them so.
    new: Vec<TaskId>,
    bury: Vec<TaskId>,
    /// New pieces of journals, with their numbers.
    pieces: Vec<(TaskId, u32, &'a Piece)>,
}

impl<'a> Batch<'a> {
    /// What `work` needs to have read. Tasks that are `known` as they are now are taken from there.
    pub(super) fn wanted<'k>(
        work: &[&Work],
        known: impl Fn(&TaskId) -> Option<&'k Task>,
    ) -> Result<Wanted, StoreError> {
        let mut wanted = Wanted::default();
        for work in work {
            match work {
                Work::Update(id, ..) => match known(id) {
                    Some(task) => wanted.known.push(task.clone()),
                    None => wanted.ids.push(*id),
                },
                Work::Admit(task, _) => wanted.keys.push(key_of(task).ok_or_else(|| {
                    StoreError::Other("a task without a key cannot be admitted by it".into())
                })?),
                _ => {}
            }
        }
        Ok(wanted)
    }

    /// Takes note of a task as the database has it.
    pub(super) fn read(&mut self, task: Task) {
        if let Some(key) = key_of(&task) {
            self.keys.insert(key, task.id);
        }
        self.slots.entry(task.id).or_insert(Slot { stored: Some(task), changed: None });
    }

    /// Does all of `work` that is of tasks; the rest is answered as written.
    pub(super) fn apply(&mut self, work: &[&'a Work]) -> Result<Vec<Done>, StoreError> {
        let apply = |work: &&'a Work| {
            Ok(match work {
                Work::Insert(task, pieces) => self.insert(task, pieces).map(|()| Done::Written)?,
                Work::Admit(task, pieces) => Done::Admitted(self.admit(task, pieces)?),
                Work::Update(id, change, pieces) => {
                    Done::Updated(Box::new(self.update(*id, |t| run(change, t), pieces)?))
                }
                _ => Done::Written,
            })
        };
        work.iter().map(apply).collect()
    }

    fn insert(&mut self, task: &Task, pieces: &'a [Piece]) -> Result<(), StoreError> {
        match self.slots.entry(task.id) {
            Entry::Occupied(_) => Err(StoreError::Other("a task with this id is there already".into())),
            Entry::Vacant(free) => {
                let pieces = append(&mut self.pieces, task.id, 0, pieces)?;
                free.insert(Slot { stored: None, changed: Some(Task { pieces, ..task.clone() }) });
                self.new.push(task.id);
                Ok(())
            }
        }
    }

    fn admit(&mut self, task: &Task, pieces: &'a [Piece]) -> Result<Admitted, StoreError> {
        let key = key_of(task).ok_or(StoreError::Closed)?;
        if let Some(there) = self.keys.get(&key).and_then(|id| self.slots.get(id)).and_then(Slot::now) {
            if there.end.is_none() || there.created_at + there.ttl > task.created_at {
                return Ok(Admitted::Exists(Box::new(there.clone())));
            }
            // Its TTL is over: it frees its key.
            self.bury.push(there.id);
        }
        self.insert(task, pieces)?;
        self.keys.insert(key, task.id);
        Ok(Admitted::Fresh)
    }

    fn update(
        &mut self,
        id: TaskId,
        change: impl FnOnce(Task) -> Result<Result<Task, Refused>, StoreError>,
        pieces: &'a [Piece],
    ) -> Result<Updated, StoreError> {
        let Some(slot) = self.slots.get_mut(&id) else { return Ok(Updated::Unknown) };
        let Some(now) = slot.now().cloned() else { return Ok(Updated::Unknown) };
        Ok(match change(now.clone())? {
            Ok(mut changed) => {
                changed.pieces = append(&mut self.pieces, id, now.pieces, pieces)?;
                slot.changed = Some(changed.clone());
                Updated::Done(changed)
            }
            Err(refused) => Updated::Refused(refused, now),
        })
    }

    /// Tasks past their TTL whose keys are taken: they become tombstones first.
    pub(super) fn buried(&self) -> &[TaskId] {
        &self.bury
    }

    /// Rows to insert, in order.
    pub(super) fn new_tasks(&self) -> impl Iterator<Item = &Task> {
        self.new.iter().filter_map(|id| self.slots.get(id)?.changed.as_ref())
    }

    /// Rows to update, each as it was read and as it is to be.
    pub(super) fn changed_tasks(&self) -> impl Iterator<Item = (&Task, &Task)> {
        self.slots.values().filter_map(|slot| Some((slot.stored.as_ref()?, slot.changed.as_ref()?)))
    }

    /// Questions that are new (true), or answered since they were read, with their positions.
    pub(super) fn questions(&self) -> impl Iterator<Item = (TaskId, usize, &Question, bool)> {
        let changed =
            self.slots.values().filter_map(|slot| Some((slot.stored.as_ref(), slot.changed.as_ref()?)));
        changed.flat_map(|(stored, task)| {
            let was = stored.map_or(&[][..], |t| &t.questions[..]);
            task.questions.iter().enumerate().filter_map(move |(position, question)| {
                match was.get(position) {
                    None => Some((task.id, position, question, true)),
                    Some(before) if before.answer.is_none() && question.answer.is_some() => {
                        Some((task.id, position, question, false))
                    }
                    Some(_) => None,
                }
            })
        })
    }

    /// Pieces of journals to insert, with their numbers.
    pub(super) fn pieces(&self) -> &[(TaskId, u32, &'a Piece)] {
        &self.pieces
    }

    /// Every task that was written, as it is now.
    pub(super) fn into_written(self) -> impl Iterator<Item = Task> {
        self.slots.into_values().filter_map(|slot| slot.changed)
    }
}

/// Numbers `pieces` from `first` on; returns how many the journal has then.
fn append<'a>(
    all: &mut Vec<(TaskId, u32, &'a Piece)>,
    id: TaskId,
    first: u32,
    pieces: &'a [Piece],
) -> Result<u32, StoreError> {
    let mut n = first;
    for piece in pieces {
        all.push((id, n, piece));
        n = n.checked_add(1).ok_or_else(|| StoreError::Other("a journal has too many pieces".into()))?;
    }
    Ok(n)
}
