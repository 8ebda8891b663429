//! A number of rights that runs share: first come, first served, with a part kept for each class of them.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::oneshot;

/// Who takes a right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// What begins.
    New,
    /// What goes on after a wait, here or from its journal.
    On,
}

/// A part of a pool: what its holders of one class, or of all, may have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// Names the pool within this process.
    pub pool: u64,
    /// None for all classes together.
    pub class: Option<Class>,
}

/// A number of units that holders take and give back.
#[derive(Debug)]
pub struct Pool {
    id: u64,
    /// One of so many units is kept for each class; 0 for none.
    kept: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    total: u64,
    /// By class.
    used: [u64; 2],
    queues: [VecDeque<Waiter>; 2],
    wanted: [u64; 2],
    /// Numbers those that wait.
    next: u64,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    units: u64,
    give: oneshot::Sender<Taken>,
}

/// Whether units can be had now, and else what is in the way.
#[derive(PartialEq)]
enum Fit {
    Now,
    /// The class has all that it may.
    NotOfClass,
    Not,
}

/// Units that are held; dropped, they go to whoever waits.
#[derive(Debug)]
pub struct Taken {
    pool: Arc<Pool>,
    class: Class,
    units: u64,
}

/// A place in the queue of a pool; dropped, it is given up.
#[derive(Debug)]
pub struct Turn {
    pool: Arc<Pool>,
    class: Class,
    number: u64,
    given: oneshot::Receiver<Taken>,
}

impl Pool {
    /// `total` units, of which one of four is kept for each class: whatever one class does, the other has that much.
    pub fn parted(total: u64) -> Arc<Self> {
        Self::with(total, 4)
    }

    /// `total` units for whoever comes.
    pub fn whole(total: u64) -> Arc<Self> {
        Self::with(total, 0)
    }

    fn with(total: u64, kept: u64) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { id, kept, state: Mutex::new(State { total, ..State::default() }) })
    }

    /// A poisoned lock only means that another thread panicked between two plain writes.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on there are `total`. Where more are held, they come back by and by.
    pub fn resize(self: &Arc<Self>, total: u64) {
        let mut state = self.lock();
        state.total = total;
        self.give(state);
    }

    /// All units.
    pub fn total(&self) -> u64 {
        self.lock().total
    }

    /// Units at once, or none. Whoever wants more than there are gets all.
    pub fn try_take(self: &Arc<Self>, class: Class, units: u64) -> Option<Taken> {
        self.try_locked(&mut self.lock(), class, units)
    }

    fn try_locked(self: &Arc<Self>, state: &mut State, class: Class, units: u64) -> Option<Taken> {
        let units = state.bounded(units);
        // Whoever waits is first; but the other class is not in the way where it only waits for its own part.
        let others = state.queues[class.other() as usize].front();
        let waits = others
            .is_some_and(|first| state.fit(self.kept, class.other(), state.bounded(first.units)) == Fit::Not);
        if waits || !state.queues[class as usize].is_empty() || state.fit(self.kept, class, units) != Fit::Now
        {
            return None;
        }
        state.used[class as usize] += units;
        Some(Taken { pool: self.clone(), class, units })
    }

    /// Units for what is not held back: they are counted, also where there are no more, and come back as others do.
    pub fn count(self: &Arc<Self>, class: Class, units: u64) -> Taken {
        self.lock().used[class as usize] += units;
        Taken { pool: self.clone(), class, units }
    }

    /// Units at once, or a place in the queue.
    ///
    /// # Errors
    /// The place.
    pub fn queue(self: &Arc<Self>, class: Class, units: u64) -> Result<Taken, Turn> {
        let mut state = self.lock();
        if let Some(taken) = self.try_locked(&mut state, class, units) {
            return Ok(taken);
        }
        let units = state.bounded(units);
        let (give, given) = oneshot::channel();
        let number = state.next;
        state.next += 1;
        state.wanted[class as usize] += units;
        state.queues[class as usize].push_back(Waiter { number, units, give });
        drop(state);
        Err(Turn { pool: self.clone(), class, number, given })
    }

    /// Gives what is free to those that wait.
    fn give(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        let mut due = Vec::new();
        while let Some((class, units, waiter)) = state.due(self.kept) {
            due.push((waiter.give, Taken { pool: self.clone(), class, units }));
        }
        drop(state);
        for (give, taken) in due {
            // Whoever has left meanwhile gives it back by dropping it: not under the lock.
            let _ = give.send(taken);
        }
    }

    /// What must come back until nobody waits, and until no more than `percent` of a pool without parts is held: by part.
    pub fn short(&self, percent: u32) -> Vec<(Part, u64)> {
        let state = self.lock();
        let part = |class| Part { pool: self.id, class };
        let cap = state.cap(self.kept);
        let mark = match self.kept {
            0 => (state.total.saturating_mul(percent.into()) / 100).max(1),
            _ => state.total,
        };
        let asked = |class: Class| state.used[class as usize].saturating_add(state.wanted[class as usize]);
        let mut short = Vec::new();
        let mut all = 0_u64;
        for class in [Class::New, Class::On] {
            let over = if state.wanted[class as usize] == 0 { 0 } else { asked(class).saturating_sub(cap) };
            if over > 0 && self.kept > 0 {
                short.push((part(Some(class)), over));
            }
            all = all.saturating_add(asked(class).min(cap.max(state.used[class as usize])));
        }
        let over = all.saturating_sub(mark);
        let waits = self.kept == 0 || state.wanted != [0, 0];
        if over > 0 && waits {
            short.push((part(None), over));
        }
        short
    }
}

impl State {
    /// Whoever wants more than there are gets all, alone.
    fn bounded(&self, units: u64) -> u64 {
        units.min(self.total).max(1)
    }

    /// What one class may have at most.
    fn cap(&self, kept: u64) -> u64 {
        self.total - self.total.checked_div(kept).unwrap_or(0)
    }

    fn fit(&self, kept: u64, class: Class, units: u64) -> Fit {
        let own = self.used[class as usize];
        let cap = self.cap(kept);
        if own > 0 && own.saturating_add(units) > cap {
            Fit::NotOfClass
        } else if own.saturating_add(self.used[class.other() as usize]).saturating_add(units) > self.total {
            Fit::Not
        } else {
            Fit::Now
        }
    }

    /// The next that has its turn, taken from its queue and counted, with what it gets.
    fn due(&mut self, kept: u64) -> Option<(Class, u64, Waiter)> {
        let number =
            |class: Class| self.queues[class as usize].front().map_or(u64::MAX, |first| first.number);
        let first = if number(Class::New) <= number(Class::On) { Class::New } else { Class::On };
        for class in [first, first.other()] {
            let Some(waiter) = self.queues[class as usize].front() else { continue };
            // There may be fewer than when it came.
            let units = self.bounded(waiter.units);
            match self.fit(kept, class, units) {
                Fit::Now => {
                    let waiter = self.queues[class as usize].pop_front()?;
                    self.wanted[class as usize] -= waiter.units;
                    self.used[class as usize] += units;
                    return Some((class, units, waiter));
                }
                Fit::NotOfClass => {}
                // Nobody passes one that only waits for room, or a large one would wait for ever.
                Fit::Not => return None,
            }
        }
        None
    }
}

impl Class {
    const fn other(self) -> Self {
        match self {
            Self::New => Self::On,
            Self::On => Self::New,
        }
    }
}

impl Taken {
    /// The pool.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// What comes back to which parts when it is dropped.
    pub fn gives(&self) -> [(Part, u64); 2] {
        let pool = self.pool.id;
        [None, Some(self.class)].map(|class| (Part { pool, class }, self.units))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.used[self.class as usize] -= self.units;
        self.pool.give(state);
    }
}

impl Turn {
    /// The units, when it is their turn. Cancel-safe: dropped, the place is given up, and units that have just come go on.
    pub async fn come(mut self) -> Taken {
        match (&mut self.given).await {
            Ok(taken) => taken,
            // Its sender stays in the queue of a pool that it keeps alive.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        let queue = &mut state.queues[self.class as usize];
        let Ok(at) = queue.binary_search_by_key(&self.number, |waiter| waiter.number) else { return };
        let Some(waiter) = queue.remove(at) else { return };
        state.wanted[self.class as usize] -= waiter.units;
        // It may have been in the way of others.
        self.pool.give(state);
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
