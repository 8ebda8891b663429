//! Bounds on tasks: how many live, how much space is left, how often one is polled.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::faults;
use crate::{
    base::{ByteSize, Fault, Millis, Principal, TaskId},
    config::TaskRules,
};

/// Live tasks, counted in memory and set right from the store now and then: other processes add
/// theirs, so the bound holds to within what they add in that time.
#[derive(Debug)]
pub(super) struct Live {
    count: AtomicU64,
    limit: u64,
}

impl Live {
    pub(super) fn new(limit: u32) -> Self {
        Self { count: AtomicU64::new(0), limit: limit.into() }
    }

    pub(super) fn set(&self, count: u64) {
        self.count.store(count, Ordering::Relaxed);
    }

    /// Counts one more, or refuses it.
    pub(super) fn begin(&self) -> Result<(), Fault> {
        let room = |n: u64| (n < self.limit).then_some(n + 1);
        match self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room) {
            Ok(_) => Ok(()),
            Err(_) => Err(faults::too_many_tasks(self.limit)),
        }
    }

    pub(super) fn ended(&self) {
        let _ = self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
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
