#![allow(clippy::unwrap_used)]
use proptest::prelude::*;

use super::*;

const KEY: [u8; 16] = *b"0123456789abcdef";

#[derive(Clone, Debug)]
enum Step {
    Clock(bool, u64),
    Note(Vec<u8>),
    Again(Vec<u8>, Vec<u8>),
    Call(Vec<u8>, u64, Vec<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..300);
    // Some around the bound from which on they are kept apart, and some of them alike.
    let large = (0_u8..3, codec::INLINE - 1..codec::INLINE + 3).prop_map(|(byte, len)| vec![byte; len]);
    let answer = prop_oneof![5 => bytes(), 1 => large];
    prop_oneof![
        (any::<bool>(), any::<u64>()).prop_map(|(w, n)| Step::Clock(w, n)),
        bytes().prop_map(Step::Note),
        (bytes(), bytes()).prop_map(|(a, b)| Step::Again(a, b)),
        (bytes(), any::<u64>(), answer).prop_map(|(a, f, b)| Step::Call(a, f, b)),
    ]
}

fn header() -> Header {
    Header {
        digest: [3; 32],
        semantics: 1,
        code: 2,
        seed: [4; 32],
        start: Start { wall: 1_900_000_000_000_000_000, boot: [5; 16], boottime: 77 },
        tool: "tool".into(),
        arguments: r#"{"a":1}"#.into(),
        client: 3,
        policy: "{}".into(),
    }
}

fn empty() -> Journal {
    Journal::record(KEY, usize::MAX)
}

/// Does `step`: what the guest sees of it. `live` says what a live host would answer.
fn run(journal: &Journal, step: &Step) -> Result<Vec<u8>, Mismatch> {
    let seen = |ns: u64| ns.to_le_bytes().to_vec();
    match step {
        Step::Clock(true, n) => journal.clock(Call::Wall, || *n).map(seen),
        Step::Clock(false, n) => journal.clock(Call::Monotonic, || *n).map(seen),
        Step::Note(request) => {
            journal.note("note", request);
            Ok(vec![])
        }
        Step::Again(request, answer) => journal.again(Call::Ready, request, answer).map(|()| answer.clone()),
        Step::Call(request, fuel, answer) => match journal.start(Call::Input, request, *fuel)? {
            Started::Replayed(answer) => Ok(answer),
            Started::Again | Started::Fresh => {
                journal.end(answer, 1_000);
                Ok(answer.clone())
            }
        },
    }
}

/// What is kept of `steps` that were committed after each of `commits`, and at the end.
fn kept(steps: &[Step], commits: &[usize]) -> Vec<Piece> {
    let journal = empty();
    let mut pieces = vec![journal.head(header).unwrap()];
    for (n, step) in steps.iter().enumerate() {
        run(&journal, step).unwrap();
        if commits.contains(&n) {
            pieces.extend(journal.take());
        }
    }
    pieces.extend(journal.take());
    assert!(journal.take().is_none() && !journal.has_news());
    pieces
}

fn replay(pieces: &[Piece]) -> Journal {
    Journal::replay(KEY, usize::MAX, Kept::open(pieces).unwrap(), true)
}

/// The same with another clock, and answers that nobody gave.
fn otherwise(step: &Step) -> Step {
    match step {
        Step::Clock(w, n) => Step::Clock(*w, n.wrapping_add(1)),
        Step::Call(request, fuel, _) => Step::Call(request.clone(), *fuel, b"otherwise".to_vec()),
        step => step.clone(),
    }
}

proptest! {
    #[test]
    fn what_was_recorded_is_replayed(
        steps in proptest::collection::vec(step(), 0..40),
        commits in proptest::collection::vec(0_usize..40, 0..6),
    ) {
        let pieces = kept(&steps, &commits);
        let open = Kept::open(&pieces).unwrap();
        prop_assert_eq!(&open.header, &header());
        let journal = Journal::replay(KEY, usize::MAX, open, true);
        for step in &steps {
            // The world has changed: the guest must not see it.
            let seen = run(&journal, &otherwise(step)).unwrap();
            prop_assert_eq!(seen, run(&empty(), step).unwrap());
        }
        prop_assert!(journal.is_live());
        prop_assert!(journal.finish().is_ok());
        prop_assert!(journal.head(header).is_none() && !journal.has_news());
    }

    #[test]
    fn from_any_commit_on_it_goes_on_to_the_same_journal(
        steps in proptest::collection::vec(step(), 1..30),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(steps.len());
        let whole = Kept::open(&kept(&steps, &[])).unwrap();
        let mut pieces = kept(&steps[..cut], &[]);
        let journal = replay(&pieces);
        for step in &steps {
            run(&journal, step).unwrap();
        }
        pieces.extend(journal.take());
        let resumed = Kept::open(&pieces).unwrap();
        prop_assert_eq!(resumed.entries(), whole.entries());
        prop_assert_eq!(journal.entries(), whole.entries().len() as u64);
    }

    #[test]
    fn every_changed_byte_is_found(
        steps in proptest::collection::vec(step(), 1..10),
        at in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        let mut pieces = kept(&steps, &[2, 5]);
        let mut parts: Vec<&mut Vec<u8>> = Vec::new();
        for piece in &mut pieces {
            parts.push(&mut piece.bytes);
            parts.extend(piece.blobs.iter_mut().map(|blob| &mut blob.bytes));
        }
        let part = at.index(parts.len());
        let at = at.index(parts[part].len());
        parts[part][at] ^= 1 << bit;
        prop_assert!(Kept::open(&pieces).is_err());
    }

    #[test]
    fn any_bytes_are_read_without_harm(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        rest in proptest::collection::vec(any::<u8>(), 0..50),
    ) {
        let entries: Vec<_> = Entries::of(&bytes, &Blobs::new()).collect();
        prop_assert!(entries.len() <= bytes.len());
        prop_assert!(Kept::open(&[bytes.into(), rest.into()]).is_err());
    }
}

fn call(request: &[u8], fuel: u64) -> Step {
    Step::Call(request.to_vec(), fuel, b"yes".to_vec())
}

#[test]
fn a_guest_that_does_otherwise_is_told_where() {
    let steps = [Step::Clock(false, 5), call(b"a", 100), Step::Again(b"r".to_vec(), b"x".to_vec())];
    let cases: [(&[Step], u64, &str); 6] = [
        (&[Step::Clock(true, 5)], 0, "the plugin did `wall-clock.now`"),
        (&[Step::Clock(false, 5), call(b"b", 100)], 1, "the plugin did `request-input` #"),
        (&[Step::Clock(false, 5), call(b"a", 99)], 1, "with 99 fuel left"),
        (&[Step::Clock(false, 5), Step::Note(vec![]), call(b"a", 100)], 1, "request-input"),
        (
            &[Step::Clock(false, 5), call(b"a", 100), Step::Again(b"r".to_vec(), b"y".to_vec())],
            3,
            "pollable.ready",
        ),
        (&steps[..2], 3, "the plugin did return"),
    ];
    for (done, step, says) in cases {
        let journal = replay(&kept(&steps, &[]));
        let mut ended = Ok(());
        for step in done {
            ended = run(&journal, step).map(|_| ());
        }
        let mismatch = ended.and_then(|()| journal.finish()).unwrap_err();
        assert_eq!(mismatch.step, step, "{mismatch}");
        assert!(mismatch.to_string().contains(says), "{mismatch}");
    }
}

#[test]
fn fuel_of_other_code_is_not_compared() {
    let pieces = kept(&[call(b"a", 100)], &[]);
    let journal = Journal::replay(KEY, usize::MAX, Kept::open(&pieces).unwrap(), false);
    assert_eq!(run(&journal, &call(b"a", 99)), Ok(b"yes".to_vec()));
}

#[test]
fn a_call_without_its_answer_begins_again() {
    let journal = empty();
    let mut pieces = vec![journal.head(header).unwrap()];
    assert_eq!(journal.start(Call::Input, b"q", 9), Ok(Started::Fresh));
    pieces.extend(journal.take());
    // Killed here.
    let journal = replay(&pieces);
    assert!(!journal.is_live());
    assert_eq!(journal.start(Call::Input, b"q", 9), Ok(Started::Again));
    assert!(journal.is_live() && !journal.has_news());
    journal.end(b"a", 5);
    pieces.extend(journal.take());
    let entries = Kept::open(&pieces).unwrap().entries();
    assert!(
        matches!(&entries[..], [Entry::Start(Call::Input, _, 9), Entry::End(a, 5)] if a == b"a"),
        "{entries:?}"
    );
}

#[test]
fn damage_is_named() {
    let steps: Vec<_> = (0..4).map(|n| call(&[n], 0)).collect();
    let pieces = kept(&steps, &[0, 1, 2]);
    assert_eq!(pieces.len(), 5);
    assert_eq!(Kept::open(&[]).unwrap_err(), Damaged::Header);
    let with = |n: usize, change: fn(&mut Piece)| {
        let mut pieces = pieces.clone();
        change(&mut pieces[n]);
        Kept::open(&pieces).unwrap_err()
    };
    assert_eq!(with(0, |p| p.bytes.truncate(20)), Damaged::Header);
    assert_eq!(with(2, |p| p.bytes[3] ^= 1), Damaged::Piece { piece: 2, entry: 2 });
    // A piece that is missing, or stands in another's place.
    let mut missing = pieces.clone();
    missing.remove(2);
    assert_eq!(Kept::open(&missing).unwrap_err(), Damaged::Piece { piece: 2, entry: 2 });
    let mut swapped = pieces.clone();
    swapped.swap(2, 3);
    assert_eq!(Kept::open(&swapped).unwrap_err(), Damaged::Piece { piece: 2, entry: 2 });
    // The last one cut off is no damage: its commit never was.
    assert!(Kept::open(&pieces[..4]).is_ok());
}

#[test]
fn a_large_answer_is_kept_apart_once() {
    let large = |byte| vec![byte; codec::INLINE + 1];
    let journal = empty();
    let mut pieces = vec![journal.head(header).unwrap()];
    journal.start(Call::Input, b"q", 9).unwrap();
    journal.end(&large(1), 5);
    journal.sent(0, 7, 1000);
    pieces.extend(journal.take());
    journal.answered(0, &large(1));
    journal.start(Call::Input, b"r", 8).unwrap();
    journal.end(&large(2), 6);
    pieces.extend(journal.take());
    assert!(pieces.iter().all(|piece| piece.bytes.len() < 300), "pieces stay small");
    assert_eq!(pieces.iter().map(|piece| piece.blobs.len()).collect::<Vec<_>>(), [0, 1, 1]);
    let again = replay(&pieces);
    assert_eq!(again.start(Call::Input, b"q", 9), Ok(Started::Replayed(large(1))));
    assert_eq!(again.start(Call::Input, b"r", 8), Ok(Started::Replayed(large(2))));
    assert_eq!(again.recall(0, 7).unwrap().unwrap().answer.unwrap(), large(1));
    // What is known from before is not kept again either.
    again.start(Call::Input, b"s", 7).unwrap();
    again.end(&large(2), 7);
    assert_eq!(again.take().unwrap().blobs, []);
    // An export has all of them under another header.
    let kept = Kept::open(&pieces).unwrap();
    let other = Header { policy: "other".into(), ..header() };
    let exported = Kept::open(&kept.with(&other)).unwrap();
    assert_eq!((exported.header.policy.as_str(), exported.entries()), ("other", kept.entries()));
    // Damage names the first entry that wants it.
    for (piece, entry) in [(1, 1), (2, 5)] {
        let length = codec::INLINE as u64 + 1;
        let lost = Damaged::Blob { entry, length };
        let mut damaged = pieces.clone();
        damaged[piece].blobs[0].bytes[70] ^= 1;
        assert_eq!(Kept::open(&damaged).unwrap_err(), lost);
        damaged[piece].blobs.clear();
        assert_eq!(Kept::open(&damaged).unwrap_err(), lost);
        assert!(lost.to_string().contains(&format!("65537 bytes that the journal's entry {entry} names")));
    }
}

#[test]
fn what_is_kept_apart_counts() {
    let journal = Journal::record(KEY, codec::INLINE * 2);
    journal.start(Call::Input, b"q", 1).unwrap();
    journal.end(&[1; codec::INLINE + 1], 5);
    assert!(journal.pinned().is_none());
    let mut pieces = vec![journal.head(header).unwrap()];
    pieces.extend(journal.take());
    let resumed = Journal::replay(KEY, codec::INLINE * 2, Kept::open(&pieces).unwrap(), true);
    for journal in [journal, resumed] {
        let _ = journal.start(Call::Input, b"q", 1);
        journal.start(Call::Input, b"r", 1).unwrap();
        journal.end(&[2; codec::INLINE + 1], 5);
        assert!(journal.pinned().is_some() && journal.take().is_none());
    }
}

#[test]
fn a_newer_version_is_not_guessed_at() {
    let mut sealer = pieces::Sealer::default();
    let newer = sealer.newer();
    let found = Kept::open(&[newer.into()]).unwrap_err();
    assert_eq!(found, Damaged::Version { piece: 0, found: 2 });
    assert!(found.to_string().contains("use a newer layby"));
}

struct Seen(Arc<Mutex<Vec<String>>>);

impl Watcher for Seen {
    fn entry(&mut self, step: u64, entry: &Entry) {
        self.0.lock().unwrap().push(format!("{step} {entry:?}"));
    }
    fn note(&mut self, call: &'static str, _: &[u8]) {
        self.0.lock().unwrap().push(call.to_owned());
    }
}

#[test]
fn who_watches_sees_all_that_happened_and_nothing_more_happens() {
    let steps = [Step::Clock(false, 5), Step::Note(vec![]), call(b"a", 100)];
    let seen = Arc::new(Mutex::new(vec![]));
    let open = Kept::open(&kept(&steps, &[])).unwrap();
    let journal = Journal::show(KEY, open, true, Box::new(Seen(seen.clone())));
    for step in &steps {
        run(&journal, step).unwrap();
    }
    assert!(journal.speaks() && journal.finish().is_ok());
    let seen = seen.lock().unwrap().join("; ");
    assert!(seen.starts_with("0 Clock(Monotonic, 5); note; 1 Start(Input, "), "{seen}");
    assert!(seen.ends_with("2 End([121, 101, 115], 1000)"), "{seen}");
    let more = run(&journal, &call(b"b", 90)).unwrap_err();
    assert!(more.at_end && more.step == 3, "{more}");
    assert!(more.to_string().starts_with("step 3: the journal has nothing more"), "{more}");
}

#[test]
fn past_its_bound_it_lets_go() {
    let journal = Journal::record(KEY, 100);
    for n in 0..100 {
        journal.clock(Call::Monotonic, || n * 1_000).unwrap();
    }
    assert!(journal.pinned().is_some());
    assert!(journal.head(header).is_none() && journal.take().is_none());
    assert_eq!(journal.start(Call::Input, b"q", 1), Ok(Started::Fresh));
    journal.end(b"a", 5);
    assert!(journal.take().is_none());
}

#[test]
fn a_clock_loop_is_cheap() {
    let journal = empty();
    for n in 0..1000 {
        journal.clock(Call::Monotonic, || 1_000_000_000 + n * 200).unwrap();
    }
    let piece = journal.take().unwrap().bytes;
    assert!(piece.len() <= 3_020, "{}", piece.len());
}

/// Entries of exchanges stand anywhere: the calls around them replay as without them, and the journal is live where
/// only they are left.
#[test]
fn exchanges_are_found_by_number_and_not_by_place() {
    let journal = empty();
    let mut pieces = vec![journal.head(header).unwrap()];
    journal.sent(0, 7, 1000);
    journal.clock(Call::Wall, || 5).unwrap();
    journal.start(Call::Poll, b"a", 9).unwrap();
    journal.sent(1, 8, 1001);
    journal.answered(0, b"zero");
    journal.end(b"ready", 3);
    journal.sent(2, 9, 1002);
    journal.answered(2, b"");
    pieces.extend(journal.take());
    journal.sent(3, 1, 1003);
    pieces.extend(journal.take());
    let again = replay(&pieces);
    assert!(!again.is_live());
    let recalled = |answer: Option<&[u8]>, hash, at| Recalled {
        hash,
        at,
        starts: 1,
        answer: answer.map(<[u8]>::to_vec),
    };
    assert_eq!(again.recall(0, 7), Ok(Some(recalled(Some(b"zero"), 7, 1000))));
    assert_eq!(again.recall(1, 8), Ok(Some(recalled(None, 8, 1001))));
    assert_eq!(again.recall(2, 9), Ok(None), "nothing of it was sent");
    assert_eq!(again.recall(4, 9), Ok(None));
    let other = again.recall(1, 9).unwrap_err();
    assert_eq!(other.step, 3);
    let otherwise = replay(&pieces).clock(Call::Monotonic, || 6).unwrap_err();
    assert_eq!(otherwise.step, 1, "{otherwise}");
    assert_eq!(again.clock(Call::Wall, || 6), Ok(5));
    let later = replay(&pieces);
    later.clock(Call::Wall, || 6).unwrap();
    let otherwise = later.start(Call::Poll, b"b", 9).unwrap_err();
    assert_eq!((otherwise.step, later.finish().map_err(|m| m.step)), (2, Err(5)), "{otherwise}");
    assert!(other.expected.contains("request 1") && other.actual.contains("request 1"), "{other}");
    assert_eq!(again.start(Call::Poll, b"a", 9), Ok(Started::Replayed(b"ready".to_vec())));
    assert!(again.is_live(), "only exchanges are left");
    assert_eq!(again.entries(), journal.entries());
    again.answered(3, b"three");
    pieces.extend(again.take());
    let last = replay(&pieces);
    assert_eq!(last.recall(3, 1).unwrap().unwrap().answer.unwrap(), b"three");
    // It begins anew, stops before it is sent, and begins again.
    again.sent(3, 1, 1004);
    again.answered(3, b"");
    again.sent(3, 1, 1005);
    pieces.extend(again.take());
    let third = replay(&pieces).recall(3, 1).unwrap().unwrap();
    assert_eq!(third, Recalled { hash: 1, at: 1005, starts: 3, answer: None });
}

#[test]
fn hashes_are_the_runs_own() {
    let journal = empty();
    assert_eq!(journal.keyed(&[b"a", b"b"]), empty().keyed(&[b"a", b"b"]));
    assert_ne!(journal.keyed(&[b"a", b"b"]), journal.keyed(&[b"ab", b""]));
    assert_ne!(journal.keyed(&[b"a"]), Journal::record([1; 16], 9).keyed(&[b"a"]));
}
