//! Bounds on tasks: how many live, how much space is left, how often one is polled.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::faults;
use crate::{
    base::{ByteSize, Fault, Millis, Principal, TaskId},
    config::{Config, TaskRules},
};

/// Live tasks, counted in memory and set right from the store now and then: other processes add
/// theirs, so the bounds hold to within what they add in that time.
#[derive(Debug)]
pub(super) struct Live {
    counts: Mutex<Counts>,
    limit: u64,
    /// Of one principal that is told apart from others.
    each: u64,
}

#[derive(Debug, Default)]
struct Counts {
    all: u64,
    of: HashMap<Principal, u64>,
}

impl Live {
    pub(super) fn new(config: &Config) -> Self {
        let (limit, each) = (config.host.live_tasks.into(), config.callers.live_tasks.into());
        Self { counts: Mutex::default(), limit, each }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, counted: Vec<(Principal, u64)>) {
        let all = counted.iter().map(|(_, n)| n).sum();
        *self.counts() = Counts { all, of: counted.into_iter().collect() };
    }

    /// Counts one more of `principal`, or refuses it.
    pub(super) fn begin(&self, principal: &Principal) -> Result<(), Fault> {
        let mut counts = self.counts();
        let mine = counts.of.get(principal).copied().unwrap_or(0);
        if principal.is_proven() && mine >= self.each {
            return Err(faults::too_many_tasks("callers.live-tasks", self.each));
        }
        if counts.all >= self.limit {
            return Err(faults::too_many_tasks("host.live-tasks", self.limit));
        }
        counts.all += 1;
        *counts.of.entry(principal.clone()).or_default() += 1;
        Ok(())
    }

    pub(super) fn ended(&self, principal: &Principal) {
        let mut counts = self.counts();
        counts.all = counts.all.saturating_sub(1);
        if let Some(mine) = counts.of.get_mut(principal) {
            *mine = mine.saturating_sub(1);
            if *mine == 0 {
                counts.of.remove(principal);
            }
        }
    }
}

/// Free space under the data folder, measured at most once in [`TaskRules::FREE_SPACE`].
#[derive(Debug)]
pub(super) struct FreeSpace {
    folder: PathBuf,
    least: ByteSize,
    last: Mutex<Option<(Instant, bool)>>,
}

impl FreeSpace {
    pub(super) fn new(folder: PathBuf, least: ByteSize) -> Self {
        Self { folder, least, last: Mutex::new(None) }
    }

    /// Refuses below the low-water mark. Where the space cannot be told, the database's own word counts.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let enough = match *last {
            Some((at, enough)) if at.elapsed() < TaskRules::FREE_SPACE.duration() => enough,
            _ => {
                let enough = match rustix::fs::statvfs(&self.folder) {
                    Ok(s) => s.f_bavail.saturating_mul(s.f_frsize) >= self.least.0,
                    Err(_) => true,
                };
                *last = Some((Instant::now(), enough));
                enough
            }
        };
        if enough { Ok(()) } else { Err(faults::low_disk_space()) }
    }
}

/// Polls in the present second, by who polls what.
#[derive(Debug, Default)]
pub(super) struct Polls {
    recent: Mutex<HashMap<(Principal, TaskId), (Instant, u32)>>,
}

impl Polls {
    const WINDOW: Duration = Duration::from_secs(1);

    /// Counts a poll, or refuses it with the time until the next is taken.
    pub(super) fn check(&self, principal: &Principal, id: TaskId) -> Result<(), Fault> {
        let now = Instant::now();
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, count)) = recent.get_mut(&(principal.clone(), id)) {
            let age = now.duration_since(*since);
            if age >= Self::WINDOW {
                (*since, *count) = (now, 0);
            } else if *count >= TaskRules::POLLS_PER_SECOND {
                return Err(faults::polling_too_fast(Millis::from(Self::WINDOW - age) + Millis(1)));
            }
            *count += 1;
        } else if recent.len() < TaskRules::POLLED_TASKS {
            recent.insert((principal.clone(), id), (now, 1));
        }
        Ok(())
    }

    /// Forgets whoever has not polled for a second.
    pub(super) fn tidy(&self) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|_, (since, _)| since.elapsed() < Self::WINDOW);
        recent.shrink_to(1024);
    }
}
