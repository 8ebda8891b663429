//! Admission: slots of the host and of the plugin, and the memory that active runs may use.

use std::sync::{Arc, atomic::AtomicU32};

use super::{
    park::Wait,
    places::{Places, Queued},
    pressure::{Place, Waits},
};
use crate::{
    base::{ByteSize, Class, Fault, Pool, Principal, Taken},
    config::{CallerLimits, HostLimits},
    plugins::Plugin,
};

/// What active and waiting runs share.
pub(super) struct Slots {
    active: Arc<Pool>,
    memory: Arc<Pool>,
    queued: Arc<AtomicU32>,
    queue: u32,
    waiting: Arc<Pool>,
    /// What the instances of waiting runs may keep, beside what active runs reserve.
    kept: Arc<Pool>,
    /// Who may be told to make room.
    waits: Arc<Waits>,
    /// What each caller may have of them.
    places: Places,
}

/// The right to run: dropped, it goes to the next in the queue.
pub(super) struct Permit {
    shared: [Taken; 3],
    /// The caller's own place.
    _place: Option<Taken>,
}

impl Slots {
    pub(super) fn new(limits: &HostLimits, each: &CallerLimits) -> Self {
        Self {
            active: Pool::parted(limits.concurrency.into()),
            memory: Pool::parted(limits.memory.0),
            queued: Arc::default(),
            queue: limits.queue,
            waiting: Pool::whole(limits.waiting.into()),
            kept: Pool::whole(limits.memory.0 / 2),
            waits: Waits::new(limits.park_above),
            places: Places::new(each),
        }
    }

    /// A permit at once, or none.
    pub(super) fn try_admit(&self, plugin: &Plugin, caller: &Principal, class: Class) -> Option<Permit> {
        let place = self.places.try_take(caller, class).ok()?;
        let own = plugin.slots.try_take(class, 1)?;
        let active = self.active.try_take(class, 1)?;
        // A run that is allowed more than the whole host still runs, alone.
        let memory = self.memory.try_take(class, plugin.policy.limits.memory.0)?;
        Some(Permit { shared: [own, active, memory], _place: place })
    }

    /// A permit for a new call, first come first served; the caller's own place first and then the plugin's own slots, so
    /// that who waits for itself keeps nobody else waiting.
    ///
    /// # Errors
    /// `caller_busy` where as many of the caller's calls wait as may; `host_busy` where the queue is full.
    pub(super) async fn admit(&self, plugin: &Plugin, caller: &Principal) -> Result<Permit, Fault> {
        if let Some(permit) = self.try_admit(plugin, caller, Class::New) {
            return Ok(permit);
        }
        let _own = self.places.queue(caller)?;
        let Some(_queued) = Queued::enter(&self.queued, self.queue) else {
            return Err(Fault::internal(
                "host_busy",
                format!(
                    "{} calls wait for a slot already (host.queue). Call again in a few seconds.",
                    self.queue
                ),
            ));
        };
        Ok(self.permit(plugin, caller, Class::New).await)
    }

    /// The same for a run that goes on after a wait: it was admitted before, so it waits however long the queue, and has a
    /// part of the slots that new calls leave to it.
    pub(super) async fn readmit(&self, plugin: &Plugin, caller: &Principal) -> Permit {
        self.permit(plugin, caller, Class::On).await
    }

    async fn permit(&self, plugin: &Plugin, caller: &Principal, class: Class) -> Permit {
        let place = self.places.take(caller, class).await;
        let own = self.take(&plugin.slots, class, 1).await;
        let active = self.take(&self.active, class, 1).await;
        let memory = self.take(&self.memory, class, plugin.policy.limits.memory.0).await;
        Permit { shared: [own, active, memory], _place: place }
    }

    async fn take(&self, pool: &Arc<Pool>, class: Class, units: u64) -> Taken {
        match pool.queue(class, units) {
            Ok(taken) => taken,
            Err(turn) => {
                // Runs that sleep may make room.
                self.waits.relieve(std::iter::once(pool));
                turn.come().await
            }
        }
    }

    /// The right to wait for an answer, of the host and of the plugin, while the instance keeps `bytes`
    /// of linear memory.
    ///
    /// # Errors
    /// The bound that is reached, and its value.
    pub(super) fn try_wait(&self, plugin: &Plugin, bytes: u64) -> Result<Waiting, (&'static str, String)> {
        let right = self.take_wait(plugin, bytes);
        // The next that asks is to find room.
        self.waits.relieve([&self.waiting, &plugin.waiting, &self.kept].into_iter());
        right
    }

    fn take_wait(&self, plugin: &Plugin, bytes: u64) -> Result<Waiting, (&'static str, String)> {
        let new = Class::New;
        let host = self
            .waiting
            .try_take(new, 1)
            .ok_or_else(|| ("host.waiting", self.waiting.total().to_string()))?;
        let own = plugin
            .waiting
            .try_take(new, 1)
            .ok_or_else(|| ("limits.parked", plugin.policy.limits.parked.to_string()))?;
        let memory = self
            .kept
            .try_take(new, bytes)
            .ok_or_else(|| ("host.memory", format!("{} for runs that wait", ByteSize(self.kept.total()))))?;
        Ok(Waiting([host, own, memory]))
    }

    /// A place among the runs that wait with what they hold, and that can be told to let their instance go.
    pub(super) fn enter<'a>(&self, wait: Wait, holds: impl Iterator<Item = &'a Taken>) -> Place {
        self.waits.enter(wait, holds)
    }
}

impl Permit {
    /// What it holds of what all share.
    pub(super) fn holds(&self) -> impl Iterator<Item = &Taken> {
        self.shared.iter()
    }
}

/// The right to wait for an answer: dropped, it is given back.
pub(super) struct Waiting([Taken; 3]);

impl Waiting {
    /// What it holds.
    pub(super) fn holds(&self) -> impl Iterator<Item = &Taken> {
        self.0.iter()
    }
}
