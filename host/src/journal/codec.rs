//! The bytes of a journal: one tag, then what the entry holds. Integers are LEB128; clock readings are
//! the zigzag difference to the reading before, so a busy loop over a clock costs 2 to 5 bytes a turn. An answer over
//! [`INLINE`] is kept apart, and its entry has length and SHA-256 of it.

use std::collections::BTreeMap;

use crate::base::Blob;

/// The largest answer that stands in its entry, in bytes: a commit writes all entries since the last one, and a page of
/// a database holds some thousand bytes.
pub(super) const INLINE: usize = 64 << 10;

/// Answers that are kept apart, by their SHA-256.
pub(super) type Blobs = BTreeMap<[u8; 32], Vec<u8>>;

/// A host call that leaves an entry. The numbers are part of the format: never change or reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Call {
    /// `wasi:clocks/wall-clock.now`: a read.
    Wall = 1,
    /// `wasi:clocks/monotonic-clock.now`: a read.
    Monotonic = 2,
    /// `wasi:io/poll.poll` and `pollable.block`: a wait where all are timers, else a read.
    Poll = 3,
    /// `pollable.ready`: a read.
    Ready = 4,
    /// `request-input`: a wait.
    Input = 5,
    /// `supports`: a read of the caller's capabilities.
    Supports = 6,
    /// Opening a file or folder, where nothing is made or emptied by it: a read.
    FileOpen = 7,
    /// Content of a file or link: a read.
    FileRead = 8,
    /// A folder's entries: a read.
    FileList = 9,
    /// What a path is: a read.
    FileStat = 10,
    /// All else that changes nothing: a read.
    FileLook = 11,
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Wall => "wall-clock.now",
            Self::Monotonic => "monotonic-clock.now",
            Self::Poll => "poll",
            Self::Ready => "pollable.ready",
            Self::Input => "request-input",
            Self::Supports => "supports",
            Self::FileOpen => "file open",
            Self::FileRead => "file read",
            Self::FileList => "folder list",
            Self::FileStat => "file stat",
            Self::FileLook => "file look",
        })
    }
}

impl Call {
    fn from_u8(n: u8) -> Option<Self> {
        let all = [
            Self::Wall,
            Self::Monotonic,
            Self::Poll,
            Self::Ready,
            Self::Input,
            Self::Supports,
            Self::FileOpen,
            Self::FileRead,
            Self::FileList,
            Self::FileStat,
            Self::FileLook,
        ];
        all.into_iter().find(|&c| c as u8 == n)
    }

    /// True for what is asked of a granted folder.
    pub fn is_of_files(self) -> bool {
        matches!(self, Self::FileOpen | Self::FileRead | Self::FileList | Self::FileStat | Self::FileLook)
    }
}

/// One entry of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A clock was read: nanoseconds.
    Clock(Call, u64),
    /// Something was read that can be read again: 32 bits of a hash of the answer.
    Again(Call, u32),
    /// A call began: 48 bits of a keyed hash over the request and all calls before it, and the fuel left
    /// (0 where the call does not know it).
    Start(Call, u64, u64),
    /// The call that began last has this answer, given at this run time in nanoseconds: for people, a guest never sees
    /// it.
    End(Vec<u8>, u64),
    /// The exchange of this number was about to be sent: a keyed hash of the request, and the milliseconds since 1970,
    /// for people. It stands wherever the guest was by then.
    Sent(u32, u64, u64),
    /// The exchange of this number has this answer. It stands wherever the guest was by then.
    Answered(u32, Vec<u8>),
}

/// True where the next entry belongs to an exchange, and not to a place in the order of calls.
pub(super) fn is_keyed(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|tag| matches!(*tag, SENT | ANSWERED | ANSWERED_APART))
}

/// Why there is no next entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// The bytes hold no whole, well-formed entry.
    Malformed,
    /// Its answer of this length is kept apart, and is not there.
    Lost(u64),
}

/// The bits that a mark keeps of its hash.
pub(super) const MARK_BITS: u32 = 48;

const CLOCK: u8 = 0x10;
const AGAIN: u8 = 0x20;
const START: u8 = 0x30;
const END: u8 = 0x40;
const SENT: u8 = 0x50;
const ANSWERED: u8 = 0x60;
const END_APART: u8 = 0x70;
const ANSWERED_APART: u8 = 0x80;

/// The readings that the next ones are encoded against.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clocks {
    wall: u64,
    monotonic: u64,
}

impl Clocks {
    fn of(&mut self, call: Call) -> &mut u64 {
        if call == Call::Wall { &mut self.wall } else { &mut self.monotonic }
    }
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

pub(super) fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&b, rest) = bytes.split_first()?;
        *bytes = rest;
        if shift == 63 && b > 1 {
            return None;
        }
        n |= u64::from(b & 0x7f) << shift;
        if b < 0x80 {
            // One number has one form.
            return (b != 0 || shift == 0).then_some(n);
        }
    }
    None
}

pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend(bytes);
}

pub(super) fn bytes<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(varint(from)?).ok()?;
    let (bytes, rest) = from.split_at_checked(len)?;
    *from = rest;
    Some(bytes)
}

fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

fn unzigzag(n: u64) -> i64 {
    (n >> 1) as i64 ^ -((n & 1) as i64)
}

/// The difference to the reading before.
fn put_clock(out: &mut Vec<u8>, last: &mut u64, ns: u64) {
    put_varint(out, zigzag(ns.wrapping_sub(*last) as i64));
    *last = ns;
}

fn clock(from: &mut &[u8], last: &mut u64) -> Option<u64> {
    *last = last.wrapping_add(unzigzag(varint(from)?) as u64);
    Some(*last)
}

/// The tag, then what `before` writes, then the answer, which is returned where it is to be kept apart.
fn put_answer(
    out: &mut Vec<u8>,
    (inline, apart): (u8, u8),
    answer: &[u8],
    before: impl FnOnce(&mut Vec<u8>),
) -> Option<Blob> {
    if answer.len() <= INLINE {
        out.push(inline);
        before(out);
        put_bytes(out, answer);
        return None;
    }
    out.push(apart);
    before(out);
    let blob = Blob::of(answer.to_vec());
    put_varint(out, answer.len() as u64);
    out.extend(blob.digest);
    Some(blob)
}

/// An answer that is kept apart.
fn apart(from: &mut &[u8], blobs: &Blobs) -> Result<Vec<u8>, Unreadable> {
    let len = varint(from).ok_or(Unreadable::Malformed)?;
    let (digest, rest) = from.split_first_chunk::<32>().ok_or(Unreadable::Malformed)?;
    *from = rest;
    if len <= INLINE as u64 {
        // One answer has one form.
        return Err(Unreadable::Malformed);
    }
    blobs.get(digest).filter(|blob| blob.len() as u64 == len).cloned().ok_or(Unreadable::Lost(len))
}

/// Appends `entry`. What is returned must be kept beside it.
pub(super) fn encode(out: &mut Vec<u8>, clocks: &mut Clocks, entry: &Entry) -> Option<Blob> {
    match entry {
        Entry::Clock(call, ns) => {
            out.push(CLOCK | *call as u8);
            put_clock(out, clocks.of(*call), *ns);
        }
        Entry::Again(call, hash) => {
            out.push(AGAIN | *call as u8);
            out.extend(hash.to_le_bytes());
        }
        Entry::Start(call, mark, fuel) => {
            out.push(START | *call as u8);
            out.extend(&mark.to_le_bytes()[..MARK_BITS as usize / 8]);
            put_varint(out, *fuel);
        }
        Entry::End(answer, at) => {
            return put_answer(out, (END, END_APART), answer, |out| {
                put_clock(out, &mut clocks.monotonic, *at);
            });
        }
        Entry::Sent(k, hash, at) => {
            out.push(SENT);
            put_varint(out, u64::from(*k));
            out.extend(hash.to_le_bytes());
            put_varint(out, *at);
        }
        Entry::Answered(k, answer) => {
            return put_answer(out, (ANSWERED, ANSWERED_APART), answer, |out| put_varint(out, u64::from(*k)));
        }
    }
    None
}

/// Takes the next entry off `bytes`.
///
/// # Errors
/// There is no whole, well-formed one, or its answer is not among `blobs`.
pub(super) fn decode(bytes: &mut &[u8], clocks: &mut Clocks, blobs: &Blobs) -> Result<Entry, Unreadable> {
    match bytes.first() {
        Some(&END_APART) => {
            *bytes = &bytes[1..];
            let at = clock(bytes, &mut clocks.monotonic).ok_or(Unreadable::Malformed)?;
            Ok(Entry::End(apart(bytes, blobs)?, at))
        }
        Some(&ANSWERED_APART) => {
            *bytes = &bytes[1..];
            let k = varint(bytes).and_then(|k| u32::try_from(k).ok()).ok_or(Unreadable::Malformed)?;
            Ok(Entry::Answered(k, apart(bytes, blobs)?))
        }
        _ => whole(bytes, clocks).ok_or(Unreadable::Malformed),
    }
}

/// An entry that holds all of itself.
fn whole(bytes: &mut &[u8], clocks: &mut Clocks) -> Option<Entry> {
    let (&tag, rest) = bytes.split_first()?;
    *bytes = rest;
    let call = || Call::from_u8(tag & 0x0f);
    match tag & 0xf0 {
        CLOCK => {
            let call = call().filter(|c| matches!(c, Call::Wall | Call::Monotonic))?;
            Some(Entry::Clock(call, clock(bytes, clocks.of(call))?))
        }
        AGAIN => {
            let (hash, rest) = bytes.split_first_chunk::<4>()?;
            *bytes = rest;
            Some(Entry::Again(call()?, u32::from_le_bytes(*hash)))
        }
        START => {
            let (mark, rest) = bytes.split_first_chunk::<{ MARK_BITS as usize / 8 }>()?;
            *bytes = rest;
            let mut whole = [0; 8];
            whole[..mark.len()].copy_from_slice(mark);
            Some(Entry::Start(call()?, u64::from_le_bytes(whole), varint(bytes)?))
        }
        END if tag == END => {
            let at = clock(bytes, &mut clocks.monotonic)?;
            Some(Entry::End(self::bytes(bytes)?.to_vec(), at))
        }
        SENT if tag == SENT => {
            let k = u32::try_from(varint(bytes)?).ok()?;
            let (hash, rest) = bytes.split_first_chunk::<8>()?;
            *bytes = rest;
            Some(Entry::Sent(k, u64::from_le_bytes(*hash), varint(bytes)?))
        }
        ANSWERED if tag == ANSWERED => {
            let k = u32::try_from(varint(bytes)?).ok()?;
            Some(Entry::Answered(k, self::bytes(bytes)?.to_vec()))
        }
        _ => None,
    }
}
