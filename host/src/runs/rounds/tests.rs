#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;

use super::*;
use crate::base::{ByteSize, Fault, Millis};

fn rounds(waiting: u32, outcomes: u32, bytes: u64) -> Arc<Rounds> {
    let limits = HostLimits {
        mrtr_waiting: waiting,
        mrtr_outcomes: outcomes,
        mrtr_outcome_bytes: ByteSize(bytes),
        mrtr_outcome_age: Millis::from_secs(60),
        ..HostLimits::default()
    };
    Rounds::new(Seal::new(&[7; 32]).unwrap(), &limits)
}

fn answer(text: &str) -> Answer {
    Answer::Error(Fault::internal("host_failure", text))
}

/// A right that counts itself.
fn right(count: &Arc<AtomicU32>) -> Waiting {
    struct Counted(Arc<AtomicU32>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    count.fetch_add(1, Ordering::SeqCst);
    Waiting::of(Counted(count.clone()))
}

fn is_live(rounds: &Rounds, id: Uuid) -> bool {
    matches!(rounds.find(id), Some(Found::Live(..)))
}

fn is_kept(rounds: &Rounds, id: Uuid) -> bool {
    matches!(rounds.find(id), Some(Found::Ended(_)))
}

#[test]
fn a_run_is_found_while_it_lives_and_its_answer_after() {
    let rounds = rounds(10, 10, 1 << 20);
    let task = TaskId::new();
    let seat = rounds.enter(Arc::default(), Some(task));
    let id = seat.id();
    assert!(is_live(&rounds, id) && rounds.of_task(task).is_some());
    seat.keep(&answer("x"));
    drop(seat);
    assert!(is_kept(&rounds, id) && rounds.of_task(task).is_none());
    let seat = rounds.enter(Arc::default(), None);
    let id = seat.id();
    drop(seat);
    assert!(rounds.find(id).is_none(), "nothing is kept of a run that was dropped");
}

#[test]
fn outcomes_are_bounded_in_number_bytes_and_age() {
    let end = |rounds: &Arc<Rounds>, text: &str| {
        let seat = rounds.enter(Arc::default(), None);
        seat.keep(&answer(text));
        seat.id()
    };
    let few = rounds(10, 2, 1 << 20);
    let ids: Vec<Uuid> = (0..3).map(|_| end(&few, "x")).collect();
    assert_eq!(ids.iter().map(|id| is_kept(&few, *id)).collect::<Vec<_>>(), [false, true, true]);
    let small = rounds(10, 10, 6000);
    let ids: Vec<Uuid> = (0..3).map(|_| end(&small, &"x".repeat(700))).collect();
    assert_eq!(ids.iter().map(|id| is_kept(&small, *id)).collect::<Vec<_>>(), [false, true, true]);
    let large = end(&small, &"x".repeat(9000));
    assert!(!is_kept(&small, large) && is_kept(&small, ids[2]), "what is too large drives nobody out");
    let limits = HostLimits { mrtr_outcome_age: Millis(0), ..HostLimits::default() };
    let brief = Rounds::new(Seal::new(&[7; 32]).unwrap(), &limits);
    let id = end(&brief, "x");
    assert!(!is_kept(&brief, id));
}

#[tokio::test]
async fn the_longest_waiting_is_told_and_its_right_goes_at_once() {
    let (rounds, count) = (rounds(2, 10, 1 << 20), Arc::default());
    let mut seats: Vec<Seat> = (0..3).map(|_| rounds.enter(Arc::default(), None)).collect();
    let places: Vec<Place> = seats.iter_mut().map(|seat| seat.wait("p", right(&count))).collect();
    assert_eq!(count.load(Ordering::SeqCst), 2);
    seats[0].evict.notified().await;
    let mut places = places.into_iter();
    assert!(places.next().unwrap().answered().is_none(), "it is too late for the first");
    let kept = places.next().unwrap().answered();
    assert!(kept.is_some(), "the second has its answers, and keeps its right until it goes on");
    assert_eq!(count.load(Ordering::SeqCst), 2);
    drop((kept, places.next()));
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[test]
fn what_came_too_late_for_one_round_does_not_end_the_next() {
    use futures::FutureExt as _;
    let (rounds, count) = (rounds(1, 10, 1 << 20), Arc::default());
    let mut seat = rounds.enter(Arc::default(), None);
    let place = seat.wait("p", right(&count));
    let mut other = rounds.enter(Arc::default(), None);
    let others = other.wait("p", right(&count));
    // Its answers were taken before it heard of that.
    assert!(place.answered().is_none());
    drop(others);
    let _place = seat.wait("p", right(&count));
    assert!(seat.evict.notified().now_or_never().is_none());
}

proptest! {
    /// Whoever comes and goes in whatever order: never more wait than may, each right is given back once, and
    /// only those that have waited longest give way.
    #[test]
    fn rights_balance(most in 1u32..4, steps in prop::collection::vec((0usize..6, 0u8..3), 1..60)) {
        let (rounds, count) = (rounds(most, 4, 1 << 20), Arc::<AtomicU32>::default());
        let mut seats: Vec<Option<(Seat, Option<Place>)>> = (0..6).map(|_| None).collect();
        let mut order: Vec<usize> = Vec::new();
        for (who, what) in steps {
            match (what, seats[who].take()) {
                (0, None) => {
                    let mut seat = rounds.enter(Arc::default(), None);
                    let place = seat.wait("p", right(&count));
                    order.push(who);
                    if order.len() > most as usize {
                        order.remove(0);
                    }
                    seats[who] = Some((seat, Some(place)));
                }
                (1, Some((seat, place))) => {
                    let waits = order.contains(&who);
                    let had = place.is_some();
                    let kept = place.and_then(Place::answered);
                    prop_assert_eq!(kept.is_some(), had && waits);
                    order.retain(|other| *other != who);
                    seats[who] = Some((seat, None));
                }
                (2, Some((seat, place))) => {
                    let id = seat.id();
                    drop((seat, place));
                    order.retain(|other| *other != who);
                    prop_assert!(rounds.find(id).is_none());
                }
                (_, other) => seats[who] = other,
            }
            prop_assert_eq!(count.load(Ordering::SeqCst) as usize, order.len());
            prop_assert!(order.len() <= most as usize);
        }
    }
}
