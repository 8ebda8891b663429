//! The places of each caller that says who it is: how many of its runs hold a slot, and how many of its calls wait for
//! one. Runs that go on after a wait are counted, and never held back: they were let in when they began.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use crate::{
    base::{Class, Fault, Pool, Principal, Taken},
    config::CallerLimits,
};

/// Callers after which those that hold nothing are forgotten.
const FORGET_AFTER: usize = 1024;
/// How long a caller is told to wait where all its places are taken, in milliseconds: most calls end within it.
const RETRY: u64 = 1000;

/// All callers' places.
pub(super) struct Places {
    of: Mutex<HashMap<Principal, Own>>,
    running: u32,
    queued: u32,
}

/// One caller's.
#[derive(Clone)]
struct Own {
    running: Arc<Pool>,
    queued: Arc<AtomicU32>,
}

impl Own {
    fn is_idle(&self) -> bool {
        // Whoever holds a place, or waits for one, holds its count too.
        Arc::strong_count(&self.running) == 1 && Arc::strong_count(&self.queued) == 1
    }
}

/// One call in a queue: dropped, it has left it.
pub(super) struct Queued(Arc<AtomicU32>);

impl Queued {
    /// One more, where fewer than `most` are.
    pub(super) fn enter(count: &Arc<AtomicU32>, most: u32) -> Option<Self> {
        let entered = Self(count.clone());
        // Dropped, it is taken back.
        (count.fetch_add(1, Ordering::AcqRel) < most).then_some(entered)
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Places {
    pub(super) fn new(limits: &CallerLimits) -> Self {
        Self { of: Mutex::default(), running: limits.running, queued: limits.queued }
    }

    /// The caller's own; none for who does not say who it is: all of them are one, and have the host's bounds alone.
    fn own(&self, principal: &Principal) -> Option<Own> {
        if !principal.is_proven() {
            return None;
        }
        let mut all = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = all.get(principal) {
            return Some(own.clone());
        }
        if all.len() >= FORGET_AFTER {
            all.retain(|_, own| !own.is_idle());
        }
        let own = Own { running: Pool::whole(self.running.into()), queued: Arc::default() };
        all.insert(principal.clone(), own.clone());
        Some(own)
    }

    /// A place to run at once; `Err` where the caller has none left.
    pub(super) fn try_take(&self, principal: &Principal, class: Class) -> Result<Option<Taken>, ()> {
        let Some(own) = self.own(principal) else { return Ok(None) };
        match class {
            Class::New => own.running.try_take(class, 1).map(Some).ok_or(()),
            Class::On => Ok(Some(own.running.count(class, 1))),
        }
    }

    /// A place to run, when there is one.
    pub(super) async fn take(&self, principal: &Principal, class: Class) -> Option<Taken> {
        let own = self.own(principal)?;
        Some(match class {
            Class::On => own.running.count(class, 1),
            Class::New => match own.running.queue(class, 1) {
                Ok(taken) => taken,
                Err(turn) => turn.come().await,
            },
        })
    }

    /// A place in the queue.
    ///
    /// # Errors
    /// `caller_busy`, with `data.limit`, `data.value` and `data.retryAfterMs`.
    pub(super) fn queue(&self, principal: &Principal) -> Result<Option<Queued>, Fault> {
        let Some(own) = self.own(principal) else { return Ok(None) };
        Queued::enter(&own.queued, self.queued).map(Some).ok_or_else(|| {
            let text = format!(
                "{} of your calls wait for a slot already (callers.queued). Call again in {RETRY} ms.",
                self.queued
            );
            Fault::invalid("caller_busy", text)
                .with("limit", "callers.queued".into())
                .with("value", self.queued.into())
                .with("retryAfterMs", RETRY.into())
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn places(running: u32, queued: u32) -> Places {
        Places::new(&CallerLimits { running, queued, ..CallerLimits::default() })
    }

    #[test]
    fn each_caller_has_its_own() {
        let places = places(2, 1);
        let [one, two] = ["one", "two"].map(Principal::token);
        let held = [0; 2].map(|_| places.try_take(&one, Class::New).unwrap());
        assert!(places.try_take(&one, Class::New).is_err());
        assert!(places.try_take(&two, Class::New).is_ok());
        let queued = places.queue(&one).unwrap();
        let refused = places.queue(&one).err().unwrap();
        assert_eq!((refused.code, &refused.data["limit"]), ("caller_busy", &"callers.queued".into()));
        assert!(places.queue(&two).is_ok());
        drop((held, queued));
        assert!(places.queue(&one).is_ok() && places.try_take(&one, Class::New).is_ok());
        // Nobody is told apart here.
        for _ in 0..9 {
            assert!(matches!(places.try_take(&Principal::local(), Class::New), Ok(None)));
        }
    }

    #[tokio::test]
    async fn what_goes_on_is_counted_and_never_waits() {
        let places = places(1, 1);
        let one = Principal::token("one");
        let first = places.try_take(&one, Class::New).unwrap();
        let on = places.take(&one, Class::On).await.unwrap();
        drop(first);
        assert!(places.try_take(&one, Class::New).is_err(), "it has the one place");
        let mut next = Box::pin(places.take(&one, Class::New));
        assert!(futures::poll!(&mut next).is_pending());
        drop(on);
        assert!(next.await.is_some());
    }

    #[test]
    fn who_holds_nothing_is_forgotten() {
        let places = places(1, 1);
        let held = places.try_take(&Principal::token("held"), Class::New).unwrap();
        for n in 0..2 * FORGET_AFTER {
            drop(places.try_take(&Principal::token(&n.to_string()), Class::New).unwrap());
        }
        assert!(places.of.lock().unwrap().len() <= FORGET_AFTER);
        assert!(places.try_take(&Principal::token("held"), Class::New).is_err());
        drop(held);
    }
}
