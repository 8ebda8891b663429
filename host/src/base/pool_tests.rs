#![allow(clippy::unwrap_used)]
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use proptest::prelude::*;

use super::*;

type Coming = Pin<Box<dyn Future<Output = Taken>>>;

fn poll(coming: &mut Coming) -> Option<Taken> {
    match coming.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(taken) => Some(taken),
        Poll::Pending => None,
    }
}

fn takes(pool: &Arc<Pool>, class: Class, units: u64) -> usize {
    std::iter::from_fn(|| pool.try_take(class, units)).take(1000).collect::<Vec<_>>().len()
}

#[test]
fn a_quarter_is_left_to_the_other_class() {
    for (total, most) in [(1, 1), (2, 2), (3, 3), (4, 3), (8, 6), (64, 48), (65, 49)] {
        for class in [Class::New, Class::On] {
            let pool = Pool::parted(total);
            let held: Vec<_> = std::iter::from_fn(|| pool.try_take(class, 1)).collect();
            assert_eq!(held.len(), most, "{total}");
            assert_eq!(takes(&pool, class.other(), 1), total as usize - most, "{total}");
        }
    }
    assert_eq!(takes(&Pool::whole(8), Class::New, 1), 8);
    assert_eq!(takes(&Pool::whole(0), Class::New, 0), 0);
}

#[test]
fn whoever_wants_too_much_has_all_alone() {
    let pool = Pool::parted(8);
    let one = pool.try_take(Class::On, 1).unwrap();
    assert!(pool.try_take(Class::New, 100).is_none());
    drop(one);
    let all = pool.try_take(Class::New, 100).unwrap();
    assert_eq!((takes(&pool, Class::On, 1), takes(&pool, Class::New, 1)), (0, 0));
    drop(all);
    assert_eq!(takes(&pool, Class::On, 1), 6);
}

#[test]
fn a_large_one_is_not_passed_for_ever() {
    let pool = Pool::parted(8);
    let held: Vec<_> = (0..4).map(|_| pool.try_take(Class::New, 1).unwrap()).collect();
    let mut large: Coming = Box::pin(pool.queue(Class::On, 5).unwrap_err().come());
    assert!(poll(&mut large).is_none());
    assert!(pool.try_take(Class::New, 1).is_none(), "there is room, but somebody waits for it");
    drop(held);
    assert!(poll(&mut large).is_some());
}

#[test]
fn what_is_short_says_what_would_help() {
    let pool = Pool::parted(8);
    let all = Part { pool: pool.id, class: None };
    let new = Part { pool: pool.id, class: Some(Class::New) };
    let held: Vec<_> = (0..6).map(|_| pool.try_take(Class::New, 1).unwrap()).collect();
    assert_eq!(pool.short(1), [], "nobody waits");
    let first = pool.queue(Class::New, 1).unwrap_err();
    assert_eq!(pool.short(1), [(new, 1)], "only one of its own class would help");
    assert_eq!(held[0].gives(), [(all, 1), (new, 1)]);
    drop(first);
    assert_eq!(pool.short(1), []);
    drop(held);
    let held: Vec<_> =
        (0..4).flat_map(|_| [Class::New, Class::On]).map(|c| pool.try_take(c, 1).unwrap()).collect();
    let _waits = (pool.queue(Class::New, 1).unwrap_err(), pool.queue(Class::On, 1).unwrap_err());
    assert_eq!(pool.short(1), [(all, 2)]);
    drop(held);

    let pool = Pool::whole(10);
    let held: Vec<_> = (0..9).map(|_| pool.try_take(Class::New, 1).unwrap()).collect();
    assert_eq!(pool.short(80), [(Part { pool: pool.id, class: None }, 1)]);
    assert_eq!(pool.short(90), []);
    drop(held);
    let _one = pool.try_take(Class::New, 1).unwrap();
    assert_eq!(pool.short(1), [], "one may always stay");
}

#[derive(Clone, Debug)]
enum Step {
    Take(Class, u64),
    Drop(usize),
    Leave(usize),
    Resize(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let class = || prop_oneof![Just(Class::New), Just(Class::On)];
    prop_oneof![
        4 => (class(), 1_u64..6).prop_map(|(class, units)| Step::Take(class, units)),
        3 => any::<usize>().prop_map(Step::Drop),
        1 => any::<usize>().prop_map(Step::Leave),
        1 => (0_u64..20).prop_map(Step::Resize),
    ]
}

proptest! {
    #[test]
    fn nothing_is_lost_and_nobody_is_left_waiting(
        total in 1_u64..20, parted: bool, steps in proptest::collection::vec(step(), 1..60),
    ) {
        let pool = if parted { Pool::parted(total) } else { Pool::whole(total) };
        let (mut total, mut held, mut waits): (u64, Vec<Taken>, Vec<(Class, Coming)>) = (total, vec![], vec![]);
        for step in steps {
            let mut came = 0;
            match step {
                Step::Take(class, units) => match pool.queue(class, units) {
                    Ok(taken) => {
                        held.push(taken);
                        came += 1;
                    }
                    Err(turn) => waits.push((class, Box::pin(turn.come()))),
                },
                Step::Drop(at) if !held.is_empty() => drop(held.swap_remove(at % held.len())),
                Step::Leave(at) if !waits.is_empty() => drop(waits.remove(at % waits.len())),
                Step::Resize(to) => {
                    total = to;
                    pool.resize(to);
                }
                Step::Drop(_) | Step::Leave(_) => {}
            }
            // First come, first served: within a class, none has its turn before one that came earlier.
            let mut still = Vec::new();
            for (class, mut coming) in waits {
                match poll(&mut coming) {
                    Some(taken) => {
                        prop_assert!(!still.iter().any(|(c, _)| *c == class), "it was passed");
                        held.push(taken);
                        came += 1;
                    }
                    None => still.push((class, coming)),
                }
            }
            waits = still;
            let of = |class| held.iter().filter(|t| t.class == class).map(|t| t.units).sum::<u64>();
            let used = [of(Class::New), of(Class::On)];
            prop_assert_eq!(pool.lock().used, used);
            // There may be fewer than are held, but then none is given.
            prop_assert!(came == 0 || used[0] + used[1] <= total);
        }
        // Whatever is given back at last goes to everybody in turn.
        pool.resize(total.max(1));
        held.clear();
        for _ in 0..waits.len() {
            let at = waits.iter_mut().position(|(_, coming)| poll(coming).is_some());
            prop_assert!(at.is_some(), "somebody waits for ever");
            drop(waits.remove(at.unwrap_or(0)));
        }
        drop(waits);
        let state = pool.lock();
        prop_assert_eq!((state.used, state.wanted), ([0, 0], [0, 0]));
        prop_assert!(state.queues.iter().all(VecDeque::is_empty));
    }

    #[test]
    fn each_class_has_its_part_whatever_the_other_does(total in 4_u64..80, others in 0_usize..200) {
        let pool = Pool::parted(total);
        let _held: Vec<_> = (0..others).filter_map(|_| pool.try_take(Class::New, 1)).collect();
        let _waits: Vec<_> = (0..10).filter_map(|_| pool.queue(Class::New, 1).err()).collect();
        prop_assert!(takes(&pool, Class::On, 1) as u64 >= total / 4);
    }
}
