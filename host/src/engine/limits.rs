//! Bounds on what one store may allocate: memory over all linear memories, tables, instances.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use wasmtime::ResourceLimiter;

/// Linear memories of a run. Far above any known toolchain; bounds bookkeeping.
const MEMORIES: usize = 32;
/// Tables of a run.
const TABLES: usize = 64;
/// Core and component instances of a run.
const INSTANCES: usize = 512;
/// Table elements of a run, over all tables: 8 MiB of pointers.
const TABLE_ELEMENTS: usize = 1 << 20;

/// Why an allocation ended the run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The run's own memory limit: wanted this many bytes over all memories.
    #[error("the guest wanted {wanted} bytes of memory")]
    Memory {
        /// Bytes over all memories, had it been given.
        wanted: u64,
    },
    /// The host could not give what the limit allows.
    #[error("the host has no more memory: {0}")]
    Host(String),
}

/// Counts what a store has, and ends the run (by a trap) at its limit. A guest is never told "no":
/// it would go on in a state that only this limit explains, and a replay under another would differ.
#[derive(Debug)]
pub struct Limiter {
    limit: u64,
    now: u64,
    /// `now`, for whoever accounts for the run while it waits.
    meter: Arc<AtomicU64>,
    peak: u64,
    elements: usize,
    refusal: Option<Refusal>,
}

impl Limiter {
    /// Allows `limit` bytes over all linear memories; `meter` always holds the present sum.
    pub fn new(limit: u64, meter: Arc<AtomicU64>) -> Self {
        Self { limit, now: 0, meter, peak: 0, elements: 0, refusal: None }
    }

    /// The largest sum of memories so far, in bytes.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// The limit, in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// What ended the run, if an allocation did.
    pub fn refusal(&self) -> Option<&Refusal> {
        self.refusal.as_ref()
    }

    fn refuse<T>(&mut self, refusal: Refusal) -> wasmtime::Result<T> {
        self.refusal.get_or_insert_with(|| refusal.clone());
        Err(refusal.into())
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // A maximum that the module itself declares is part of its program: the growth fails on any host.
        if maximum.is_some_and(|m| desired > m && (m as u64) < self.limit) {
            return Ok(false);
        }
        let wanted = self.now.saturating_add((desired - current) as u64);
        if wanted > self.limit {
            return self.refuse(Refusal::Memory { wanted });
        }
        self.now = wanted;
        self.meter.store(wanted, Ordering::Relaxed);
        self.peak = self.peak.max(wanted);
        Ok(true)
    }

    fn memory_grow_failed(&mut self, error: wasmtime::Error) -> wasmtime::Result<()> {
        let text = format!("{error:#}");
        // wasmtime's only failure that it does not ask `memory_growing` about: more than 32 bits address.
        if text.contains("exceeds memory type's limits") {
            return self.refuse(Refusal::Memory { wanted: u64::MAX });
        }
        self.refuse(Refusal::Host(text))
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let elements = self.elements.saturating_add(desired.saturating_sub(current));
        if elements > TABLE_ELEMENTS || maximum.is_some_and(|m| desired > m) {
            return Ok(false);
        }
        self.elements = elements;
        Ok(true)
    }

    fn instances(&self) -> usize {
        INSTANCES
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn memories(&self) -> usize {
        MEMORIES
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PAGE: usize = 64 << 10;

    #[test]
    fn the_sum_over_all_memories_counts() {
        let mut l = Limiter::new(3 * PAGE as u64, Arc::default());
        assert!(l.memory_growing(0, 2 * PAGE, None).unwrap());
        assert!(l.memory_growing(0, PAGE, None).unwrap());
        assert_eq!(l.refusal(), None);
        assert!(l.memory_growing(PAGE, 2 * PAGE, None).is_err());
        assert_eq!(l.refusal(), Some(&Refusal::Memory { wanted: 4 * PAGE as u64 }));
        assert_eq!(l.peak(), 3 * PAGE as u64);
    }

    #[test]
    fn a_declared_maximum_is_no_limit_of_ours() {
        let mut l = Limiter::new(100 * PAGE as u64, Arc::default());
        assert!(!l.memory_growing(PAGE, 3 * PAGE, Some(2 * PAGE)).unwrap());
        assert_eq!(l.refusal(), None);
    }

    #[test]
    fn a_failure_of_the_host_is_told_apart() {
        let mut l = Limiter::new(u64::MAX, Arc::default());
        assert!(l.memory_grow_failed(wasmtime::Error::msg("out of memory")).is_err());
        assert!(matches!(l.refusal(), Some(Refusal::Host(_))));
    }
}
