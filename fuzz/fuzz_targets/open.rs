//! Any bytes as a journal: nothing but an error comes of damage, and what can be read can be written and replayed.
//!
//! Input: a byte whose lowest bit says whether checksums are put right; then for each piece a byte (even: a piece of a
//! short's many bytes; odd: a large blob of the next byte, of 64 KiB and a short's many bytes).
#![no_main]

use layby_fuzz::{
    Input,
    base::{Blob, Piece},
    journal::{Call, Entry, Journal, Kept, Mismatch},
    seal,
};
use libfuzzer_sys::fuzz_target;

const INLINE: usize = 64 << 10;

fuzz_target!(|data: &[u8]| {
    let mut input = Input(data);
    let sealed = input.byte() & 1 == 1;
    let mut pieces: Vec<Piece> = Vec::new();
    while !input.is_empty() && pieces.len() < 20 {
        if input.byte() % 2 == 0 {
            let len = input.short();
            pieces.push(input.bytes(len.into()).to_vec().into());
        } else {
            let blob = Blob::of(vec![input.byte(); INLINE + usize::from(input.short())]);
            match pieces.last_mut() {
                Some(piece) if piece.blobs.len() < 4 => piece.blobs.push(blob),
                _ => {}
            }
        }
    }
    if sealed {
        seal(&mut pieces);
    }
    match Kept::open(&pieces) {
        Ok(kept) => readable(&kept),
        Err(damaged) => assert!(!damaged.to_string().is_empty()),
    }
});

fn readable(kept: &Kept) {
    let entries = kept.entries();
    let again = Kept::open(&kept.with(&kept.header)).expect("what was written can be read");
    assert_eq!((&again.header, again.entries()), (&kept.header, entries.clone()));
    let journal = Journal::replay([7; 16], usize::MAX, again, true);
    for entry in &entries {
        match follow(&journal, entry) {
            // Marks and hashes are another run's.
            Err(mismatch) => {
                assert!(mismatch.step <= entries.len() as u64 && !mismatch.to_string().is_empty());
                break;
            }
            Ok(()) => assert!(journal.entries() <= entries.len() as u64),
        }
    }
    if journal.is_live() {
        assert_eq!(journal.entries(), entries.len() as u64);
        assert!(journal.finish().is_ok() && !journal.has_news());
    } else {
        assert!(journal.finish().is_err());
    }
}

/// Does what the entry says, as far as that can be told.
fn follow(journal: &Journal, entry: &Entry) -> Result<(), Mismatch> {
    if journal.is_live() {
        return Ok(());
    }
    match entry {
        Entry::Clock(call, ns) => {
            let read = journal.clock(*call, || unreachable!("it is replayed"))?;
            assert_eq!(read, *ns);
        }
        Entry::Again(call, _) => journal.again(*call, b"", b"")?,
        Entry::Start(call, _, fuel) => drop(journal.start(*call, b"", *fuel)?),
        Entry::End(..) => drop(journal.start(Call::Input, b"", 0)?),
        Entry::Sent(k, hash, _) => drop(journal.recall(*k, *hash)?),
        Entry::Answered(k, _) => drop(journal.recall(*k, 0)),
    }
    Ok(())
}
