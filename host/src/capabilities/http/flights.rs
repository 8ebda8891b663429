//! The exchanges of a run that are under way.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use tokio::sync::Notify;

/// Counts them. Clones count together.
#[derive(Clone, Debug, Default)]
pub struct Flights(Arc<Count>);

#[derive(Debug, Default)]
struct Count {
    under_way: AtomicU32,
    ended: Notify,
}

/// One exchange, until it is dropped.
pub(super) struct Flight(Flights);

impl Flights {
    pub(super) fn enter(&self) -> Flight {
        self.0.under_way.fetch_add(1, Ordering::AcqRel);
        Flight(self.clone())
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
        self.0.0.under_way.fetch_sub(1, Ordering::AcqRel);
        self.0.0.ended.notify_waiters();
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
        drop(two);
        assert!(ended.await.is_ok() && !flights.any());
    }
}
