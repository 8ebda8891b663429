//! Admission: slots of the host and of the plugin, and the memory that active runs may use.

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::{
    base::{ByteSize, Fault},
    config::HostLimits,
    plugins::Plugin,
};

/// What active and waiting runs share.
pub(super) struct Slots {
    active: Arc<Semaphore>,
    memory: Arc<Budget>,
    queued: Arc<AtomicU32>,
    queue: u32,
    waiting: Arc<Semaphore>,
    most_waiting: u32,
    /// What the instances of waiting runs may keep, beside what active runs reserve.
    kept: Arc<Budget>,
}

/// Bytes that runs may still reserve.
struct Budget {
    left: AtomicU64,
    total: u64,
    freed: Notify,
}

/// The right to run: dropped, it goes to the next in the queue.
pub(super) struct Permit {
    _active: OwnedSemaphorePermit,
    _plugin: OwnedSemaphorePermit,
    _memory: Reserved,
}

struct Reserved {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.budget.left.fetch_add(self.bytes, Ordering::AcqRel);
        self.budget.freed.notify_waiters();
    }
}

impl Budget {
    fn new(total: u64) -> Self {
        Self { left: AtomicU64::new(total), total, freed: Notify::new() }
    }

    fn try_take(self: &Arc<Self>, bytes: u64) -> Option<Reserved> {
        // A run that is allowed more than the whole host still runs, alone.
        let bytes = bytes.min(self.total);
        self.left
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| left.checked_sub(bytes))
            .ok()
            .map(|_| Reserved { budget: self.clone(), bytes })
    }

    async fn take(self: &Arc<Self>, bytes: u64) -> Reserved {
        loop {
            let freed = self.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(reserved) = self.try_take(bytes) {
                return reserved;
            }
            freed.await;
        }
    }
}

/// Counts one queued admission, also where its future is dropped.
struct Queued(Arc<AtomicU32>);

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Slots {
    pub(super) fn new(limits: &HostLimits) -> Self {
        Self {
            active: Arc::new(Semaphore::new(limits.concurrency as usize)),
            memory: Arc::new(Budget::new(limits.memory.0)),
            queued: Arc::default(),
            queue: limits.queue,
            waiting: Arc::new(Semaphore::new(limits.waiting as usize)),
            most_waiting: limits.waiting,
            kept: Arc::new(Budget::new(limits.memory.0 / 2)),
        }
    }

    /// A permit at once, or none.
    pub(super) fn try_admit(&self, plugin: &Plugin) -> Option<Permit> {
        let plugin_slot = plugin.slots.clone().try_acquire_owned().ok()?;
        let active = self.active.clone().try_acquire_owned().ok()?;
        let memory = self.memory.try_take(plugin.policy.limits.memory.0)?;
        Some(Permit { _active: active, _plugin: plugin_slot, _memory: memory })
    }

    /// A permit, first come first served; the plugin's own slots first, so that a plugin that
    /// waits for itself keeps nobody else waiting.
    ///
    /// # Errors
    /// `host_busy` where the queue is full.
    pub(super) async fn admit(&self, plugin: &Plugin) -> Result<Permit, Fault> {
        if let Some(permit) = self.try_admit(plugin) {
            return Ok(permit);
        }
        if self.queued.fetch_add(1, Ordering::AcqRel) >= self.queue {
            self.queued.fetch_sub(1, Ordering::AcqRel);
            return Err(Fault::internal(
                "host_busy",
                format!(
                    "{} calls wait for a slot already (host.queue). Call again in a few seconds.",
                    self.queue
                ),
            ));
        }
        let _queued = Queued(self.queued.clone());
        self.readmit(plugin).await
    }

    /// The same for a run that was admitted before: it waits, however long the queue.
    pub(super) async fn readmit(&self, plugin: &Plugin) -> Result<Permit, Fault> {
        let stopping = |_| Fault::internal("host_stopping", "The host is shutting down.");
        let plugin_slot = plugin.slots.clone().acquire_owned().await.map_err(stopping)?;
        let active = self.active.clone().acquire_owned().await.map_err(stopping)?;
        let memory = self.memory.take(plugin.policy.limits.memory.0).await;
        Ok(Permit { _active: active, _plugin: plugin_slot, _memory: memory })
    }

    /// The right to wait for an answer, of the host and of the plugin, while the instance keeps `bytes`
    /// of linear memory.
    ///
    /// # Errors
    /// The bound that is reached, and its value.
    pub(super) fn try_wait(&self, plugin: &Plugin, bytes: u64) -> Result<Waiting, (&'static str, String)> {
        let host = self
            .waiting
            .clone()
            .try_acquire_owned()
            .map_err(|_| ("host.waiting", self.most_waiting.to_string()))?;
        let own = plugin
            .waiting
            .clone()
            .try_acquire_owned()
            .map_err(|_| ("limits.parked", plugin.policy.limits.parked.to_string()))?;
        let memory = self
            .kept
            .try_take(bytes)
            .ok_or_else(|| ("host.memory", format!("{} for runs that wait", ByteSize(self.kept.total))))?;
        Ok(Waiting::of((host, own, memory)))
    }
}

/// The right to wait for an answer: dropped, it is given back. What it holds is nobody's to look at.
pub(super) struct Waiting {
    _right: Box<dyn Send + Sync>,
}

impl Waiting {
    pub(super) fn of(right: impl Send + Sync + 'static) -> Self {
        Self { _right: Box::new(right) }
    }
}
