//! Tasks that this host cannot go on with, and another may: it has not the key that they are sealed under, or not the
//! version that they need.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::{base::TaskId, config::TaskRules};

/// Which, and since when. In memory alone: what is in a row keeps all hosts from a task, the right one too.
#[derive(Default)]
pub(super) struct Foreign(Mutex<BTreeMap<TaskId, Instant>>);

impl Foreign {
    /// Remembers one for [`TaskRules::FOREIGN_RETRY`]; false where there are [`TaskRules::FOREIGN`] already.
    pub(super) fn note(&self, id: TaskId, now: Instant) -> bool {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        forget(&mut tasks, now);
        if tasks.len() >= TaskRules::FOREIGN && !tasks.contains_key(&id) {
            return false;
        }
        tasks.insert(id, now);
        true
    }

    /// Those that are not to be looked for now.
    pub(super) fn tasks(&self, now: Instant) -> Vec<TaskId> {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        forget(&mut tasks, now);
        tasks.keys().copied().collect()
    }
}

fn forget(tasks: &mut BTreeMap<TaskId, Instant>, now: Instant) {
    let life: Duration = TaskRules::FOREIGN_RETRY.duration();
    tasks.retain(|_, since| now.saturating_duration_since(*since) < life);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_remembered_for_so_long() {
        let (foreign, start) = (Foreign::default(), Instant::now());
        let first = TaskId::new();
        assert!(foreign.note(first, start));
        let later = start + Duration::from_secs(1);
        for _ in 1..TaskRules::FOREIGN {
            assert!(foreign.note(TaskId::new(), later));
        }
        assert!(!foreign.note(TaskId::new(), later), "there are enough");
        assert!(foreign.note(first, start), "it is one of them");
        assert_eq!(foreign.tasks(later).len(), TaskRules::FOREIGN);
        let over = start + TaskRules::FOREIGN_RETRY.duration();
        assert!(!foreign.tasks(over).contains(&first));
        assert!(foreign.note(first, over));
    }
}
