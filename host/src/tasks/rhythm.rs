//! How often a client should poll: about as often as the tool's tasks change their status.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use crate::{base::Millis, config::TaskRules};

/// Measured intervals by tool. In memory: a restart measures anew.
#[derive(Debug, Default)]
pub(super) struct Rhythm {
    /// Moving averages, in milliseconds.
    tools: Mutex<HashMap<String, f64>>,
}

impl Rhythm {
    /// Weight of the newest interval: half of what is known comes from the last two or three.
    const NEWEST: f64 = 0.25;

    /// A task of `tool` changed its status after `interval` in the one before. Time that a question
    /// waited for a person says nothing of the tool, and is not to be reported.
    pub(super) fn observe(&self, tool: &str, interval: Millis) {
        // Longer waits than the longest poll interval would only take longer to forget.
        #[expect(clippy::cast_precision_loss, reason = "bounded by 30,000")]
        let newest = interval.0.min(TaskRules::POLL_MAX.0) as f64;
        let mut tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(average) = tools.get_mut(tool) {
            *average += Self::NEWEST * (newest - *average);
        } else if tools.len() < TaskRules::RHYTHMS {
            tools.insert(tool.to_owned(), newest);
        }
    }

    /// The interval to tell clients while a task of `tool` works.
    pub(super) fn working(&self, tool: &str) -> Millis {
        let tools = self.tools.lock().unwrap_or_else(PoisonError::into_inner);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 30,000")]
        let measured = tools.get(tool).map(|ms| Millis(*ms as u64));
        measured.unwrap_or(TaskRules::POLL_FIRST).clamp(TaskRules::POLL_MIN, TaskRules::POLL_MAX)
    }

    /// The interval while it waits for answers.
    pub(super) fn waiting(&self, tool: &str) -> Millis {
        self.working(tool).min(TaskRules::POLL_WAITING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_what_is_measured_within_its_bounds() {
        let rhythm = Rhythm::default();
        assert_eq!(rhythm.working("t"), Millis(1000));
        (0..30).for_each(|_| rhythm.observe("t", Millis(10)));
        assert_eq!(rhythm.working("t"), Millis(500));
        (0..60).for_each(|_| rhythm.observe("t", Millis(8000)));
        assert!((7900..=8000).contains(&rhythm.working("t").0), "{:?}", rhythm.working("t"));
        assert_eq!(rhythm.waiting("t"), Millis(2000));
        (0..60).for_each(|_| rhythm.observe("t", Millis::from_secs(3600)));
        assert!((29_900..=30_000).contains(&rhythm.working("t").0));
        assert_eq!(rhythm.working("other"), Millis(1000));
    }
}
