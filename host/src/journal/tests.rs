#![allow(clippy::unwrap_used)]
use proptest::prelude::*;

use super::*;

const KEY: [u8; 16] = *b"0123456789abcdef";

#[derive(Clone, Debug)]
enum Step {
    Clock(bool, u64),
    Note(Vec<u8>),
    Again(Vec<u8>, Vec<u8>),
    Exchange(Vec<u8>, u64, Vec<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..300);
    prop_oneof![
        (any::<bool>(), any::<u64>()).prop_map(|(w, n)| Step::Clock(w, n)),
        bytes().prop_map(Step::Note),
        (bytes(), bytes()).prop_map(|(a, b)| Step::Again(a, b)),
        (bytes(), any::<u64>(), bytes()).prop_map(|(a, f, b)| Step::Exchange(a, f, b)),
    ]
}

fn record(key: [u8; 16], steps: &[Step]) -> Recorder {
    let mut r = Recorder::new(key, usize::MAX);
    for s in steps {
        match s {
            Step::Clock(true, n) => r.clock(Call::Wall, *n),
            Step::Clock(false, n) => r.clock(Call::Monotonic, *n),
            Step::Note(request) => r.note("note", request),
            Step::Again(request, answer) => r.again(Call::Ready, request, answer),
            Step::Exchange(request, fuel, answer) => {
                r.start(Call::Input, request, *fuel);
                r.end(answer);
            }
        }
    }
    r
}

proptest! {
    #[test]
    fn entries_come_back(steps in proptest::collection::vec(step(), 0..40)) {
        let r = record(KEY, &steps);
        let mut entries = Entries::of(r.bytes());
        let read: Vec<_> = entries.by_ref().collect();
        prop_assert!(entries.rest().is_empty());
        prop_assert_eq!(read.len() as u64, r.entries());
        let mut read = read.into_iter();
        for s in &steps {
            match s {
                Step::Note(_) => {}
                Step::Clock(w, n) => {
                    let call = if *w { Call::Wall } else { Call::Monotonic };
                    prop_assert_eq!(read.next(), Some(Entry::Clock(call, *n)));
                }
                Step::Again(..) => prop_assert!(matches!(read.next(), Some(Entry::Again(Call::Ready, _)))),
                Step::Exchange(_, fuel, answer) => {
                    let start = read.next();
                    prop_assert!(matches!(start, Some(Entry::Start(Call::Input, m, f)) if f == *fuel && m < 1 << 48));
                    prop_assert_eq!(read.next(), Some(Entry::End(answer.clone())));
                }
            }
        }
    }

    #[test]
    fn a_cut_journal_is_a_prefix(steps in proptest::collection::vec(step(), 0..20), cut in any::<prop::sample::Index>()) {
        let r = record(KEY, &steps);
        let whole: Vec<_> = Entries::of(r.bytes()).collect();
        let cut = cut.index(r.bytes().len() + 1);
        let part: Vec<_> = Entries::of(&r.bytes()[..cut]).collect();
        prop_assert_eq!(&whole[..part.len()], &part[..]);
    }

    #[test]
    fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let entries: Vec<_> = Entries::of(&bytes).collect();
        prop_assert!(entries.len() <= bytes.len());
    }
}

fn marks(r: &Recorder) -> Vec<u64> {
    Entries::of(r.bytes())
        .filter_map(|e| if let Entry::Start(_, m, _) = e { Some(m) } else { None })
        .collect()
}

#[test]
fn marks_cover_request_trail_and_key() {
    let ask = |text: &[u8]| Step::Exchange(text.to_vec(), 0, vec![]);
    let base = marks(&record(KEY, &[ask(b"a"), ask(b"b")]));
    assert_eq!(base, marks(&record(KEY, &[ask(b"a"), ask(b"b")])));
    assert_ne!(base, marks(&record([0; 16], &[ask(b"a"), ask(b"b")])));
    assert_ne!(base[1], marks(&record(KEY, &[ask(b"x"), ask(b"b")]))[1]);
    assert_ne!(base[1], marks(&record(KEY, &[ask(b"a"), Step::Note(vec![]), ask(b"b")]))[1]);
}

#[test]
fn past_its_bound_it_lets_go() {
    let mut r = Recorder::new(KEY, 100);
    for n in 0..100 {
        r.clock(Call::Monotonic, n * 1_000);
    }
    assert!(r.pinned().is_some());
    assert!(r.bytes().is_empty());
    r.start(Call::Input, b"q", 1);
    r.end(b"a");
    assert!(r.bytes().is_empty());
}

#[test]
fn a_clock_loop_is_cheap() {
    let mut r = Recorder::new(KEY, usize::MAX);
    for n in 0..1000 {
        r.clock(Call::Monotonic, 1_000_000_000 + n * 200);
    }
    assert!(r.bytes().len() <= 3_010, "{}", r.bytes().len());
}
