//! Recording and replaying host calls. Pure: bytes in, bytes out.
//!
//! A run can be resumed elsewhere because its guest sees the outside only through host calls, and the
//! host keeps what it answered. A [`Journal`] first answers from what it holds (*replay*), comparing each
//! call with the one that was recorded, and then records (*live*). Calls whose answer follows from the run's
//! header (randomness, environment) and calls that answer nothing (progress, log) leave no entry, but they
//! do leave a trace in the *trail*, a rolling hash that every mark covers: a guest that does otherwise is
//! found out.
//!
//! What is kept of a journal are *pieces*: the first is its [`Header`], each later one holds the entries of
//! one commit, under a checksum that covers all pieces before it. Answers over 64 KiB are kept beside their piece, which
//! has their hash.

mod codec;
mod header;
mod live;
mod mismatch;
mod pieces;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use codec::{Call, Entry};
pub use header::{Header, Start};
pub use mismatch::Mismatch;
pub use pieces::{Damaged, Kept};

use codec::{Blobs, Clocks};
use live::Inner;

use crate::base::Piece;

/// Effects from this number on are changes of files, and those below it exchanges by HTTP: each kind is numbered from 0.
pub const CHANGES: u32 = 1 << 31;

/// One run's journal: shared by the instance that makes the calls and the driver that commits them. Its lock
/// is held for single entries only.
#[derive(Clone)]
pub struct Journal(Arc<Mutex<Inner>>);

impl Journal {
    /// An empty one, whose marks are hashes under `key` (one per run), and which gives up past `limit` bytes.
    pub fn record(key: [u8; 16], limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Inner::new(key, limit))))
    }

    /// One that replays what was `kept`, then records. `compare_fuel`: the same compiled code runs as when it
    /// was recorded, so that fuel must be equal at each call that knows it.
    pub fn replay(key: [u8; 16], limit: usize, kept: Kept, compare_fuel: bool) -> Self {
        let mut inner = Inner::new(key, limit);
        inner.replay(kept, compare_fuel);
        Self(Arc::new(Mutex::new(inner)))
    }

    /// A panic while it was locked can only have lost an entry, and ends the run.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same for whoever wants to see what happened: `watcher` is told of each call, the guest may speak all the
    /// while, and where the journal ends the guest is stopped, so that nothing happens that had not happened.
    pub fn show(key: [u8; 16], kept: Kept, compare_fuel: bool, watcher: Box<dyn Watcher>) -> Self {
        let mut inner = Inner::new(key, usize::MAX);
        inner.watched(watcher);
        inner.replay(kept, compare_fuel);
        Self(Arc::new(Mutex::new(inner)))
    }

    /// True where what the guest says (progress, logs, standard streams) is to be passed on.
    pub fn speaks(&self) -> bool {
        self.lock().speaks()
    }

    /// True once all that it held has been replayed: what the guest does now has not happened before.
    pub fn is_live(&self) -> bool {
        self.lock().is_live()
    }

    /// A call without an entry: its name and request become part of what later marks cover.
    pub fn note(&self, call: &'static str, request: &[u8]) {
        self.lock().note(call, request);
    }

    /// A reading of `call`, in nanoseconds: the recorded one, or else what `read` says now.
    ///
    /// # Errors
    /// The guest does something else than what was recorded.
    pub fn clock(&self, call: Call, read: impl FnOnce() -> u64) -> Result<u64, Mismatch> {
        self.lock().clock(call, read)
    }

    /// `request` was read, with this `answer`, and can be read again and compared.
    ///
    /// # Errors
    /// The answer or the call is not what was recorded.
    pub fn again(&self, call: Call, request: &[u8], answer: &[u8]) -> Result<(), Mismatch> {
        self.lock().again(call, request, answer)
    }

    /// `call` begins, with `fuel` left (0: not known).
    ///
    /// # Errors
    /// The guest does something else than what was recorded.
    pub fn start(&self, call: Call, request: &[u8], fuel: u64) -> Result<Started, Mismatch> {
        self.lock().start(call, request, fuel)
    }

    /// The call that began last has this answer, at the run time `at` in nanoseconds.
    pub fn end(&self, answer: &[u8], at: u64) {
        self.lock().end(answer, at);
    }

    /// What was kept of the exchange numbered `k`, whose request is now this `hash`.
    ///
    /// # Errors
    /// It was another request.
    pub fn recall(&self, k: u32, hash: u64) -> Result<Option<Recalled>, Mismatch> {
        self.lock().recall(k, hash)
    }

    /// An effect that the guest waits for, numbered `k`, may begin: all that it did before is replayed.
    ///
    /// # Errors
    /// The journal has something else next, or somebody only watches.
    pub fn may_begin(&self, k: u32, hash: u64) -> Result<(), Mismatch> {
        self.lock().may_begin(k, hash)
    }

    /// The exchange numbered `k` is about to be sent, at `at` (milliseconds since 1970).
    pub fn sent(&self, k: u32, hash: u64, at: u64) {
        self.lock().sent(k, hash, at);
    }

    /// The exchange numbered `k` has this answer; an empty one says that nothing of it was sent.
    pub fn answered(&self, k: u32, answer: &[u8]) {
        self.lock().answered(k, answer);
    }

    /// A hash of `parts` under the run's key: equal for equal parts of the same run, in every process.
    pub fn keyed(&self, parts: &[&[u8]]) -> u64 {
        self.lock().keyed(parts)
    }

    /// Returns once something new may happen; never where somebody only watches. Cancel-safe.
    pub async fn live(&self) {
        let lives = self.lock().lives();
        loop {
            let notified = lives.notified();
            tokio::pin!(notified);
            // Before the look, so that nothing is missed in between.
            notified.as_mut().enable();
            if self.lock().may_act() {
                return;
            }
            notified.await;
        }
    }

    /// The guest has returned: nothing may be left to replay.
    ///
    /// # Errors
    /// The entry that is left over.
    pub fn finish(&self) -> Result<(), Mismatch> {
        self.lock().finish()
    }

    /// The run can no longer be resumed, because of `why`: nothing more is recorded.
    pub fn pin(&self, why: &'static str) {
        self.lock().pin(why);
    }

    /// Why the run cannot be resumed, if it cannot.
    pub fn pinned(&self) -> Option<&'static str> {
        self.lock().pinned()
    }

    /// The first piece, which must be taken before all others; `None` for one that replays, whose header is kept
    /// already, and for one that is pinned, whose header would lead to nothing.
    pub fn head(&self, header: impl FnOnce() -> Header) -> Option<Piece> {
        self.lock().head(header)
    }

    /// The entries since the last call, as a piece to be kept; none where there are none. Who takes a piece must
    /// keep it before any later one.
    pub fn take(&self) -> Option<Piece> {
        self.lock().take()
    }

    /// True where entries wait to be taken.
    pub fn has_news(&self) -> bool {
        self.lock().has_news()
    }

    /// The fuel left at the last call that was replayed and knew it; none where nothing was.
    pub fn replayed_to(&self) -> Option<u64> {
        self.lock().replayed_to()
    }

    /// How many host calls it was told of, those that leave no entry as well.
    pub fn calls(&self) -> u64 {
        self.lock().calls()
    }

    /// How many entries it has, replayed and recorded.
    pub fn entries(&self) -> u64 {
        self.lock().entries()
    }
}

/// Is told what a replayed run does. Called for each call in turn, with the journal locked: must not use it.
pub trait Watcher: Send {
    /// The guest did what the entry of this number has.
    fn entry(&mut self, step: u64, entry: &Entry);
    /// The guest made a call that leaves no entry.
    fn note(&mut self, call: &'static str, request: &[u8]);
}

/// What was kept of an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// Of its request.
    pub hash: u64,
    /// When it was about to be sent last, in milliseconds since 1970.
    pub at: u64,
    /// How often it was, from 1.
    pub starts: u32,
    /// Its answer; none where the run was last seen before there was one.
    pub answer: Option<Vec<u8>>,
}

/// How a call begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// It was recorded whole: its answer.
    Replayed(Vec<u8>),
    /// It had begun when the run was last seen, and was not answered: it begins again.
    Again,
    /// It has never happened before.
    Fresh,
}

/// Reads entries back; ends at the first that is not whole.
struct Entries<'a> {
    bytes: &'a [u8],
    blobs: &'a Blobs,
    clocks: Clocks,
}

impl<'a> Entries<'a> {
    fn of(bytes: &'a [u8], blobs: &'a Blobs) -> Self {
        Self { bytes, blobs, clocks: Clocks::default() }
    }
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        let (mut bytes, mut clocks) = (self.bytes, self.clocks);
        let entry = codec::decode(&mut bytes, &mut clocks, self.blobs).ok()?;
        (self.bytes, self.clocks) = (bytes, clocks);
        Some(entry)
    }
}

#[cfg(test)]
mod tests;
