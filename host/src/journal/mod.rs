//! Recording and replaying host calls. Pure: bytes in, bytes out. In this version it only records, in memory.
//!
//! A run can be resumed elsewhere because its guest sees the outside only through host calls, and the
//! host keeps what it answered. Calls whose answer follows from the run's header (randomness,
//! environment) and calls that answer nothing (progress, log) leave no entry, but they do leave a
//! trace in the *trail*, a rolling hash that every mark covers: a guest that does otherwise is found out.

mod codec;

use std::hash::Hasher;

pub use codec::{Call, Entry};
use siphasher::sip::SipHasher13;

use codec::{Clocks, MARK_BITS};

/// Records one run.
pub struct Recorder {
    key: (u64, u64),
    trail: u64,
    clocks: Clocks,
    bytes: Vec<u8>,
    limit: usize,
    entries: u64,
    pinned: Option<&'static str>,
}

impl Recorder {
    /// A recorder whose marks are hashes under `key` (one per run), and which gives up past `limit` bytes.
    pub fn new(key: [u8; 16], limit: usize) -> Self {
        let key = u128::from_le_bytes(key);
        Self {
            key: (key as u64, (key >> 64) as u64),
            trail: 0,
            clocks: Clocks::default(),
            bytes: Vec::new(),
            limit,
            entries: 0,
            pinned: None,
        }
    }

    /// A call without an entry: its name and request become part of what later marks cover.
    pub fn note(&mut self, call: &'static str, request: &[u8]) {
        if self.pinned.is_none() {
            self.trail = self.hash(call.as_bytes(), request);
        }
    }

    /// A reading of `call`, in nanoseconds.
    pub fn clock(&mut self, call: Call, ns: u64) {
        self.put(&Entry::Clock(call, ns));
    }

    /// `request` was read, with this `answer`, and can be read again and compared.
    pub fn again(&mut self, call: Call, request: &[u8], answer: &[u8]) {
        if self.pinned.is_none() {
            self.trail = self.hash(&[call as u8], request);
            let hash = self.hash(answer, &[]) as u32;
            self.put(&Entry::Again(call, hash));
        }
    }

    /// `call` begins, with `fuel` left (0: not known). Its answer is the next [`end`](Self::end).
    pub fn start(&mut self, call: Call, request: &[u8], fuel: u64) {
        if self.pinned.is_none() {
            self.trail = self.hash(&[call as u8], request);
            let mark = self.trail & ((1 << MARK_BITS) - 1);
            self.put(&Entry::Start(call, mark, fuel));
        }
    }

    /// The call that began last has this answer.
    pub fn end(&mut self, answer: &[u8]) {
        if self.pinned.is_none() {
            self.put(&Entry::End(answer.to_vec()));
        }
    }

    /// The run can no longer be resumed, because of `why`: nothing more is recorded, and what was is let go.
    pub fn pin(&mut self, why: &'static str) {
        if self.pinned.is_none() {
            self.pinned = Some(why);
            self.bytes = Vec::new();
        }
    }

    /// Why the run cannot be resumed, if it cannot.
    pub fn pinned(&self) -> Option<&'static str> {
        self.pinned
    }

    /// The entries so far, encoded; empty once pinned.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many entries were recorded.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    fn put(&mut self, entry: &Entry) {
        if self.pinned.is_some() {
            return;
        }
        codec::encode(&mut self.bytes, &mut self.clocks, entry);
        self.entries += 1;
        if self.bytes.len() > self.limit {
            self.pin("its journal is over the limit `journal`");
        }
    }

    /// Hash of the trail so far, `head` and `tail`, under the run's key.
    fn hash(&self, head: &[u8], tail: &[u8]) -> u64 {
        let mut h = SipHasher13::new_with_keys(self.key.0, self.key.1);
        h.write(&self.trail.to_le_bytes());
        h.write(&(head.len() as u64).to_le_bytes());
        h.write(head);
        h.write(tail);
        h.finish()
    }
}

/// Reads entries back; ends at the first that is not whole (a crash may cut a journal anywhere).
pub struct Entries<'a> {
    bytes: &'a [u8],
    clocks: Clocks,
}

impl<'a> Entries<'a> {
    /// The entries in `bytes`.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { bytes, clocks: Clocks::default() }
    }

    /// What is left: empty, unless the bytes end within an entry or are damaged.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let (mut bytes, mut clocks) = (self.bytes, self.clocks);
        let entry = codec::decode(&mut bytes, &mut clocks)?;
        (self.bytes, self.clocks) = (bytes, clocks);
        Some(entry)
    }
}

#[cfg(test)]
mod tests;
