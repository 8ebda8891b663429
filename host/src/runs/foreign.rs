//! Tasks that this host cannot go on with, and another may: it has not the key that they are sealed under, or not the
//! version that they need.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use crate::{base::TaskId, config::TaskRules};

/// Which, and since when, oldest first. In memory alone: what is in a row keeps all hosts from a task, the right one too.
#[derive(Default)]
pub(super) struct Foreign(Mutex<VecDeque<(Instant, TaskId)>>);

impl Foreign {
    /// Remembers one for [`TaskRules::FOREIGN_RETRY`], and forgets the oldest where there are [`TaskRules::FOREIGN`].
    pub(super) fn note(&self, id: TaskId, now: Instant) {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tasks.len() >= TaskRules::FOREIGN {
            tasks.pop_front();
        }
        tasks.push_back((now, id));
    }

    /// Those that are not to be looked for now.
    pub(super) fn tasks(&self, now: Instant) -> Vec<TaskId> {
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let life = TaskRules::FOREIGN_RETRY.duration();
        while tasks.front().is_some_and(|(since, _)| now.saturating_duration_since(*since) >= life) {
            tasks.pop_front();
        }
        tasks.iter().map(|(_, id)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn so_many_are_remembered_for_so_long() {
        let (foreign, start) = (Foreign::default(), Instant::now());
        let [first, second] = [TaskId::new(), TaskId::new()];
        foreign.note(first, start);
        let later = start + Duration::from_secs(1);
        foreign.note(second, later);
        assert_eq!(foreign.tasks(later), [first, second]);
        let over = start + TaskRules::FOREIGN_RETRY.duration();
        assert_eq!(foreign.tasks(over), [second]);
        for _ in 0..TaskRules::FOREIGN {
            foreign.note(TaskId::new(), over);
        }
        let kept = foreign.tasks(over);
        assert!(kept.len() == TaskRules::FOREIGN && !kept.contains(&second), "the oldest went");
    }
}
