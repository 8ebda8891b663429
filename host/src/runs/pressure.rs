//! Who waits with an instance that could go, and who is told to let it go because others need its room.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::{sync::Notify, time::Instant};

use super::park::{self, Units, Wait};
use crate::{
    base::{Pool, Taken},
    config::TaskRules,
};

/// All runs of this process that wait with an instance, and could be resumed.
pub(super) struct Waits {
    park_above: u32,
    /// Held for plain look-ups, never across an await.
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    next: u64,
    places: BTreeMap<u64, Entry>,
}

struct Entry {
    wait: Wait,
    gives: Units,
    pools: Vec<Arc<Pool>>,
    told: Arc<Told>,
}

#[derive(Default)]
struct Told {
    is: AtomicBool,
    now: Notify,
}

/// A run's place among those that wait; dropped, it waits no more, or has let its instance go.
pub(super) struct Place {
    waits: Arc<Waits>,
    number: u64,
    wait: Wait,
    told: Arc<Told>,
}

impl Waits {
    /// `park_above`: percent of what waiting runs may hold (`host.park-above`).
    pub(super) fn new(park_above: u32) -> Arc<Self> {
        Arc::new(Self { park_above, all: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run waits that gives `holds` back when its instance goes.
    pub(super) fn enter<'a>(self: &Arc<Self>, wait: Wait, holds: impl Iterator<Item = &'a Taken>) -> Place {
        let (mut gives, mut pools, told) = (Units::new(), Vec::new(), Arc::<Told>::default());
        for taken in holds {
            gives.extend(taken.gives());
            pools.push(taken.pool().clone());
        }
        let mut all = self.lock();
        let number = all.next;
        all.next += 1;
        all.places.insert(number, Entry { wait, gives, pools: pools.clone(), told: told.clone() });
        drop(all);
        // Others may have waited for just this.
        self.relieve(pools.iter());
        Place { waits: self.clone(), number, wait, told }
    }

    /// Tells as many to go as it takes, where these pools are short of something.
    pub(super) fn relieve<'a>(&self, pools: impl Iterator<Item = &'a Arc<Pool>>) {
        let mut short: Units = pools.flat_map(|pool| pool.short(self.park_above)).collect();
        if short.is_empty() {
            return;
        }
        let all = self.lock();
        // What is on its way back already.
        for leaving in all.places.values().filter(|entry| entry.told.is()) {
            park::relieved(&mut short, &leaving.gives);
        }
        let stay: Vec<&Entry> = all.places.values().filter(|entry| !entry.told.is()).collect();
        let waits: Vec<(Wait, Units)> = stay.iter().map(|entry| (entry.wait, entry.gives.clone())).collect();
        let least = TaskRules::WORTH_PARKING.duration();
        for at in park::chosen(Instant::now(), &waits, short, least) {
            stay[at].told.tell();
        }
    }
}

impl Told {
    fn is(&self) -> bool {
        self.is.load(Ordering::Acquire)
    }

    fn tell(&self) {
        self.is.store(true, Ordering::Release);
        self.now.notify_one();
    }
}

impl Place {
    /// The wait that it is for.
    pub(super) const fn wait(&self) -> Wait {
        self.wait
    }

    /// True where the run is to park now.
    pub(super) fn is_told(&self) -> bool {
        self.told.is()
    }

    /// Comes when the run is told to. Cancel-safe.
    pub(super) fn told(&self) -> impl Future<Output = ()> + '_ {
        self.told.now.notified()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let entry = self.waits.lock().places.remove(&self.number);
        // Where it goes on instead, somebody else may have to go.
        if let Some(entry) = entry.filter(|entry| entry.told.is()) {
            self.waits.relieve(entry.pools.iter());
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use super::*;
    use crate::base::Class;

    fn asks(since: Instant) -> Wait {
        Wait { since, until: None, spent: Duration::ZERO }
    }

    #[tokio::test]
    async fn past_the_mark_those_that_wait_longest_are_told() {
        let (waits, pool) = (Waits::new(80), Pool::whole(10));
        let now = Instant::now();
        let mut places = Vec::new();
        for n in 0..8 {
            let right = pool.try_take(Class::New, 1).unwrap();
            // The newest first.
            let place = waits.enter(asks(now - Duration::from_secs(n)), [&right].into_iter());
            places.push((place, right));
        }
        assert!(places.iter().all(|(place, _)| !place.is_told()), "80 percent are no pressure");
        let ninth = pool.try_take(Class::New, 1).unwrap();
        waits.relieve([&pool].into_iter());
        let told =
            |places: &[(Place, Taken)]| places.iter().map(|(place, _)| place.is_told()).collect::<Vec<_>>();
        assert_eq!(told(&places), [false, false, false, false, false, false, false, true]);
        waits.relieve([&pool].into_iter());
        assert_eq!(told(&places).iter().filter(|told| **told).count(), 1, "it is on its way");
        places[7].0.told().await;
        let (place, right) = places.pop().unwrap();
        drop(right);
        drop(place);
        assert!(!places[6].0.is_told(), "one was enough");
        let tenth = pool.try_take(Class::New, 1).unwrap();
        waits.relieve([&pool].into_iter());
        assert!(places[6].0.is_told());
        // It goes on instead, and holds what it held.
        let (place, right) = places.pop().unwrap();
        drop(place);
        assert!(places[5].0.is_told());
        drop((ninth, tenth, right));
    }

    #[tokio::test]
    async fn whoever_finds_no_room_has_sleepers_told() {
        let (waits, pool) = (Waits::new(80), Pool::parted(4));
        let now = Instant::now();
        let sleeps =
            |until| Wait { since: now, until: Some(now + Duration::from_secs(until)), spent: Duration::ZERO };
        let held: Vec<Taken> = (0..3).map(|_| pool.try_take(Class::New, 1).unwrap()).collect();
        let places: Vec<Place> = held
            .iter()
            .zip([1, 60, 60])
            .map(|(t, until)| waits.enter(sleeps(until), [t].into_iter()))
            .collect();
        assert!(places.iter().all(|place| !place.is_told()), "nobody is short of anything");
        let turn = pool.queue(Class::New, 1).unwrap_err();
        waits.relieve([&pool].into_iter());
        let told: Vec<bool> = places.iter().map(Place::is_told).collect();
        assert_eq!(told, [false, true, false], "one is enough, and a short sleep stays");
        drop((held, places));
        turn.come().await;
        // Who waits already has those told that come later.
        let all: Vec<Taken> = (0..3).filter_map(|_| pool.try_take(Class::New, 1)).collect();
        let turn = pool.queue(Class::New, 1).unwrap_err();
        let place = waits.enter(sleeps(60), all.first().into_iter());
        assert!(place.is_told());
        drop((all, place, turn));
    }
}
