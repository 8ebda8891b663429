//! The exchanges of a run that are under way, and what they have to say to whoever drives it.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use tokio::sync::Notify;

use crate::capabilities::Abort;

/// Counts them. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Flights(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    under_way: AtomicU32,
    ended: Notify,
    /// Bytes of bodies that were sent.
    out: AtomicU64,
    abort: OnceLock<Abort>,
    aborted: Notify,
}

/// One exchange, until it is dropped.
pub(super) struct Flight(Flights);

/// One exchange that waits on somebody's word, with nothing sent: until this is dropped it is not under way.
pub(super) struct Grounded<'a>(&'a Flights);

impl Flights {
    pub(super) fn enter(&self) -> Flight {
        self.0.under_way.fetch_add(1, Ordering::AcqRel);
        Flight(self.clone())
    }

    /// One that has entered is not under way for a while.
    pub(super) fn grounded(&self) -> Grounded<'_> {
        self.left();
        Grounded(self)
    }

    fn left(&self) {
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
        self.0.ended.notify_waiters();
    }

    /// Counts bytes that were sent.
    pub(super) fn sent(&self, bytes: usize) {
        self.0.out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes of requests' bodies that were sent.
    pub fn bytes_out(&self) -> u64 {
        self.0.out.load(Ordering::Relaxed)
    }

    /// The run ends with `abort`, whatever its guest makes of it. Only the first counts.
    pub(super) fn end_run(&self, abort: Abort) {
        let _ = self.0.abort.set(abort);
        self.0.aborted.notify_one();
    }

    /// Why the run is to end, once an exchange says so. Cancel-safe.
    pub(in crate::capabilities) async fn run_ends(&self) -> Abort {
        loop {
            if let Some(abort) = self.0.abort.get() {
                return abort.clone();
            }
            self.0.aborted.notified().await;
        }
    }

    /// True while there is one.
    pub fn any(&self) -> bool {
        self.0.under_way.load(Ordering::Acquire) > 0
    }

    /// Returns once there is none. Cancel-safe.
    pub async fn ended(&self) {
        loop {
            let ended = self.0.ended.notified();
            tokio::pin!(ended);
            // Before the look, so that no end is missed in between.
            ended.as_mut().enable();
            if !self.any() {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.0.left();
    }
}

impl Drop for Grounded<'_> {
    fn drop(&mut self) {
        self.0.0.under_way.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_ends_with_the_last() {
        let flights = Flights::default();
        flights.ended().await;
        let (one, two) = (flights.enter(), flights.clone().enter());
        let ended = tokio::spawn({
            let flights = flights.clone();
            async move { flights.ended().await }
        });
        drop(one);
        assert!(flights.any());
        let waits = flights.grounded();
        assert!(!flights.any());
        drop(waits);
        assert!(flights.any());
        drop(two);
        assert!(ended.await.is_ok() && !flights.any());
    }
}
