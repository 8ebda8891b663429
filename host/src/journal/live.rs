//! The journal while its run lives: the cursor over what was kept, and what is new.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::Hasher,
    sync::Arc,
};

use siphasher::sip::SipHasher13;
use tokio::sync::Notify;

use super::{
    Call, Entry, Header, Kept, Mismatch, Recalled, Started, Watcher,
    codec::{self, Blobs, Clocks, MARK_BITS},
    mismatch::Deed,
    pieces::Sealer,
};
use crate::base::{Blob, Piece};

/// Why a journal that grew too large is no longer kept.
const TOO_LARGE: &str = "its journal is over the limit `journal`";

pub(super) struct Inner {
    key: (u64, u64),
    trail: u64,
    limit: usize,
    /// Entries so far, replayed and recorded.
    entries: u64,
    /// The number of the entry that the last call was compared with.
    step: u64,
    /// Host calls so far, those without an entry as well.
    calls: u64,
    /// Bytes of all entries, and of what is kept apart.
    size: usize,
    pinned: Option<&'static str>,
    /// What is left to replay.
    replay: Option<Replay>,
    clocks: Clocks,
    /// Entries that were not taken yet.
    news: Vec<u8>,
    /// Answers that they name.
    blobs: Vec<Blob>,
    /// Names of all answers that are kept apart: an equal one is kept once.
    known: BTreeSet<[u8; 32]>,
    /// The number of the first of them.
    first: u64,
    sealer: Sealer,
    /// What was kept of exchanges, by number.
    exchanges: BTreeMap<u32, Exchange>,
    /// The fuel left at the last call that was replayed and knew it.
    replayed_to: Option<u64>,
    /// All is replayed, or was from the first.
    lives: Arc<Notify>,
    /// Told of each call; and then nothing new happens.
    watcher: Option<Box<dyn Watcher>>,
}

/// What was kept of one exchange.
struct Exchange {
    /// The number of its entry.
    step: u64,
    recalled: Recalled,
    /// It began, and stopped before anything was sent: as if it had not.
    unsent: bool,
}

struct Replay {
    bytes: Vec<u8>,
    blobs: Blobs,
    at: usize,
    clocks: Clocks,
    compare_fuel: bool,
}

impl Replay {
    fn next(&mut self) -> Option<Entry> {
        let mut rest = &self.bytes[self.at..];
        let entry = codec::decode(&mut rest, &mut self.clocks, &self.blobs);
        self.at = self.bytes.len() - rest.len();
        entry.ok()
    }

    fn is_keyed_next(&self) -> bool {
        codec::is_keyed(&self.bytes[self.at..])
    }
}

impl Inner {
    pub(super) fn new(key: [u8; 16], limit: usize) -> Self {
        let key = u128::from_le_bytes(key);
        Self {
            key: (key as u64, (key >> 64) as u64),
            trail: 0,
            limit,
            entries: 0,
            step: 0,
            calls: 0,
            size: 0,
            pinned: None,
            replay: None,
            clocks: Clocks::default(),
            news: Vec::new(),
            blobs: Vec::new(),
            known: BTreeSet::new(),
            first: 0,
            sealer: Sealer::default(),
            exchanges: BTreeMap::new(),
            replayed_to: None,
            lives: Arc::default(),
            watcher: None,
        }
    }

    pub(super) fn watched(&mut self, watcher: Box<dyn Watcher>) {
        self.watcher = Some(watcher);
    }

    pub(super) fn speaks(&self) -> bool {
        self.is_live() || self.watcher.is_some()
    }

    pub(super) fn replay(&mut self, kept: Kept, compare_fuel: bool) {
        self.size = kept.entries.len() + kept.blobs.values().map(Vec::len).sum::<usize>();
        self.known = kept.blobs.keys().copied().collect();
        for (step, entry) in (0..).zip(super::Entries::of(&kept.entries, &kept.blobs)) {
            match entry {
                Entry::Sent(k, hash, at) => {
                    let starts = self.exchanges.get(&k).map_or(0, |there| there.recalled.starts);
                    let recalled = Recalled { hash, at, starts: starts.saturating_add(1), answer: None };
                    self.exchanges.insert(k, Exchange { step, recalled, unsent: false });
                }
                Entry::Answered(k, answer) => {
                    if let Some(there) = self.exchanges.get_mut(&k) {
                        there.unsent = answer.is_empty();
                        there.recalled.answer = (!there.unsent).then_some(answer);
                    }
                }
                _ => {}
            }
        }
        self.sealer = kept.sealer;
        let Kept { entries: bytes, blobs, .. } = kept;
        self.replay = Some(Replay { bytes, blobs, at: 0, clocks: Clocks::default(), compare_fuel });
        self.settle();
    }

    /// Goes live where everything is replayed that has a place in the order of calls.
    fn settle(&mut self) {
        while self.replay.as_ref().is_some_and(Replay::is_keyed_next) {
            self.next();
        }
        if let Some(replay) = &self.replay
            && replay.at == replay.bytes.len()
        {
            self.clocks = replay.clocks;
            self.first = self.entries;
            self.replay = None;
            self.lives.notify_waiters();
        }
    }

    pub(super) fn lives(&self) -> Arc<Notify> {
        self.lives.clone()
    }

    /// True where something new may happen.
    pub(super) fn may_act(&self) -> bool {
        self.is_live() && self.watcher.is_none()
    }

    pub(super) fn recall(&self, k: u32, hash: u64) -> Result<Option<Recalled>, Mismatch> {
        let Some(there) = self.exchanges.get(&k).filter(|there| !there.unsent) else { return Ok(None) };
        let had = &there.recalled;
        if had.hash == hash {
            return Ok(Some(had.clone()));
        }
        Err(Mismatch::new(there.step, &Deed::Sent(k, had.hash), &Deed::Sent(k, hash)))
    }

    pub(super) fn may_begin(&mut self, k: u32, hash: u64) -> Result<(), Mismatch> {
        match self.had() {
            None => self.may_go_on(&Deed::Sent(k, hash)),
            Some(other) => Err(self.mismatch(&other, Deed::Sent(k, hash))),
        }
    }

    pub(super) fn sent(&mut self, k: u32, hash: u64, at: u64) {
        self.put(&Entry::Sent(k, hash, at));
    }

    pub(super) fn answered(&mut self, k: u32, answer: &[u8]) {
        self.put(&Entry::Answered(k, answer.to_vec()));
    }

    /// A hash under the run's key alone.
    pub(super) fn keyed(&self, parts: &[&[u8]]) -> u64 {
        let mut h = SipHasher13::new_with_keys(self.key.0, self.key.1);
        for part in parts {
            h.write(&(part.len() as u64).to_le_bytes());
            h.write(part);
        }
        h.finish()
    }

    pub(super) fn is_live(&self) -> bool {
        self.replay.is_none()
    }

    pub(super) fn note(&mut self, call: &'static str, request: &[u8]) {
        self.calls += 1;
        if self.pinned.is_none() {
            self.trail = self.hash(call.as_bytes(), request);
        }
        if let Some(watcher) = &mut self.watcher {
            watcher.note(call, request);
        }
    }

    pub(super) fn clock(&mut self, call: Call, read: impl FnOnce() -> u64) -> Result<u64, Mismatch> {
        self.calls += 1;
        match self.had() {
            None => {
                self.may_go_on(&Deed::Clock(call))?;
                let ns = read();
                self.put(&Entry::Clock(call, ns));
                Ok(ns)
            }
            Some(Entry::Clock(had, ns)) if had == call => Ok(ns),
            Some(other) => Err(self.mismatch(&other, Deed::Clock(call))),
        }
    }

    pub(super) fn again(&mut self, call: Call, request: &[u8], answer: &[u8]) -> Result<(), Mismatch> {
        self.calls += 1;
        if self.pinned.is_some() {
            return Ok(());
        }
        self.trail = self.hash(&[call as u8], request);
        let hash = self.hash(answer, &[]) as u32;
        match self.had() {
            None => {
                self.may_go_on(&Deed::Again(call, hash))?;
                self.put(&Entry::Again(call, hash));
                Ok(())
            }
            Some(Entry::Again(had, before)) if had == call && before == hash => Ok(()),
            Some(other) => Err(self.mismatch(&other, Deed::Again(call, hash))),
        }
    }

    pub(super) fn start(&mut self, call: Call, request: &[u8], fuel: u64) -> Result<Started, Mismatch> {
        self.calls += 1;
        if self.pinned.is_some() {
            return Ok(Started::Fresh);
        }
        if self.replay.is_some() && fuel > 0 {
            self.replayed_to = Some(fuel);
        }
        self.trail = self.hash(&[call as u8], request);
        let mark = self.trail & ((1 << MARK_BITS) - 1);
        let compare = self.replay.as_ref().is_some_and(|r| r.compare_fuel);
        match self.had() {
            None => {
                self.may_go_on(&Deed::Start(call, mark, fuel))?;
                self.put(&Entry::Start(call, mark, fuel));
                Ok(Started::Fresh)
            }
            Some(Entry::Start(had, was, then))
                if had == call && was == mark && (!compare || fuel == 0 || then == fuel) =>
            {
                match self.had() {
                    Some(Entry::End(answer, _)) => Ok(Started::Replayed(answer)),
                    None => {
                        self.may_go_on(&Deed::Waits)?;
                        Ok(Started::Again)
                    }
                    Some(other) => Err(self.mismatch(&other, Deed::Waits)),
                }
            }
            Some(other) => Err(self.mismatch(&other, Deed::Start(call, mark, fuel))),
        }
    }

    pub(super) fn end(&mut self, answer: &[u8], at: u64) {
        self.put(&Entry::End(answer.to_vec(), at));
    }

    /// Where somebody only watches, nothing happens that has not happened before.
    fn may_go_on(&self, done: &Deed) -> Result<(), Mismatch> {
        match self.watcher {
            Some(_) => Err(Mismatch::new(self.entries, &Deed::Nothing, done)),
            None => Ok(()),
        }
    }

    pub(super) fn finish(&mut self) -> Result<(), Mismatch> {
        match self.had() {
            None => Ok(()),
            Some(other) => Err(self.mismatch(&other, Deed::Returned)),
        }
    }

    pub(super) fn pin(&mut self, why: &'static str) {
        if self.pinned.is_none() {
            self.pinned = Some(why);
            (self.news, self.blobs) = (Vec::new(), Vec::new());
        }
    }

    pub(super) fn pinned(&self) -> Option<&'static str> {
        self.pinned
    }

    pub(super) fn head(&mut self, header: impl FnOnce() -> Header) -> Option<Piece> {
        (self.pinned.is_none() && self.sealer.is_new()).then(|| self.sealer.head(&header()).into())
    }

    pub(super) fn take(&mut self) -> Option<Piece> {
        if !self.has_news() {
            return None;
        }
        let bytes = self.sealer.piece(self.first, &self.news);
        self.news.clear();
        self.first = self.entries;
        Some(Piece { bytes, blobs: std::mem::take(&mut self.blobs) })
    }

    pub(super) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    pub(super) const fn replayed_to(&self) -> Option<u64> {
        self.replayed_to
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// The next entry to replay that has a place in the order of calls; none once live.
    fn had(&mut self) -> Option<Entry> {
        self.step = self.entries;
        let entry = self.next()?;
        // Exchanges that stand here are passed over.
        self.settle();
        Some(entry)
    }

    fn next(&mut self) -> Option<Entry> {
        let entry = self.replay.as_mut()?.next()?;
        if let Some(watcher) = &mut self.watcher {
            watcher.entry(self.entries, &entry);
        }
        self.entries += 1;
        Some(entry)
    }

    fn mismatch(&self, had: &Entry, done: Deed) -> Mismatch {
        Mismatch::new(self.step, &Deed::of(had), &done)
    }

    fn put(&mut self, entry: &Entry) {
        if self.pinned.is_some() {
            return;
        }
        let before = self.news.len();
        let blob = codec::encode(&mut self.news, &mut self.clocks, entry);
        self.size += self.news.len() - before;
        if let Some(blob) = blob.filter(|blob| self.known.insert(blob.digest)) {
            self.size += blob.bytes.len();
            self.blobs.push(blob);
        }
        self.entries += 1;
        if self.size > self.limit {
            self.pin(TOO_LARGE);
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
