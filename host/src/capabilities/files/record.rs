//! What folders answered, as the journal keeps it. Never empty, because that says that nothing was done.
//!
//! In the place of a change's end there may be a [`Choice`], where its outcome was unknown. An entry is one byte (whole, only a mark, or an error), the answer, and what was seen of the paths that it
//! is about, where the folder may be written.

use wasmtime_wasi::{
    filesystem::OpenMode,
    p2::bindings::{
        clocks::wall_clock::Datetime,
        filesystem::types::{DescriptorStat, DescriptorType, DirectoryEntry, ErrorCode, MetadataHashValue},
    },
};

use super::seen::Print;
use crate::capabilities::unknown::Choice;

const WHOLE: u8 = 1;
const MARK: u8 = 2;
const ERROR: u8 = 3;

/// Longer answers of folders that are only read are kept as a mark: they can be read again.
pub(super) const WHOLE_UP_TO: usize = 1 << 10;

/// Every error of the interface. Their places are part of the format: never change or reuse one.
const CODES: [ErrorCode; 37] = [
    ErrorCode::Access,
    ErrorCode::WouldBlock,
    ErrorCode::Already,
    ErrorCode::BadDescriptor,
    ErrorCode::Busy,
    ErrorCode::Deadlock,
    ErrorCode::Quota,
    ErrorCode::Exist,
    ErrorCode::FileTooLarge,
    ErrorCode::IllegalByteSequence,
    ErrorCode::InProgress,
    ErrorCode::Interrupted,
    ErrorCode::Invalid,
    ErrorCode::Io,
    ErrorCode::IsDirectory,
    ErrorCode::Loop,
    ErrorCode::TooManyLinks,
    ErrorCode::MessageSize,
    ErrorCode::NameTooLong,
    ErrorCode::NoDevice,
    ErrorCode::NoEntry,
    ErrorCode::NoLock,
    ErrorCode::InsufficientMemory,
    ErrorCode::InsufficientSpace,
    ErrorCode::NotDirectory,
    ErrorCode::NotEmpty,
    ErrorCode::NotRecoverable,
    ErrorCode::Unsupported,
    ErrorCode::NoTty,
    ErrorCode::NoSuchDevice,
    ErrorCode::Overflow,
    ErrorCode::NotPermitted,
    ErrorCode::Pipe,
    ErrorCode::ReadOnly,
    ErrorCode::InvalidSeek,
    ErrorCode::TextFileBusy,
    ErrorCode::CrossDevice,
];

const TYPES: [DescriptorType; 8] = [
    DescriptorType::Unknown,
    DescriptorType::BlockDevice,
    DescriptorType::CharacterDevice,
    DescriptorType::Directory,
    DescriptorType::Fifo,
    DescriptorType::SymbolicLink,
    DescriptorType::RegularFile,
    DescriptorType::Socket,
];

/// Something that a folder answers.
pub(super) trait Answer: Clone + Send + 'static {
    fn put(&self, out: &mut Vec<u8>);
    /// None where the bytes are nothing that [`Answer::put`] makes.
    fn take(from: &mut &[u8]) -> Option<Self>;
    /// What the guest gets where `recorded` is what it got and `now` is what is there; none where the content differs.
    fn settle(recorded: Self, now: Self) -> Option<Self> {
        (bytes_of(&recorded) == bytes_of(&now)).then_some(now)
    }
}

/// What an operation came to.
pub(super) type Outcome<T> = Result<T, ErrorCode>;

/// A recorded outcome.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kept<T> {
    Whole(Outcome<T>),
    /// A hash of the answer, and its length.
    Mark(u64, u64),
}

fn bytes_of<T: Answer>(answer: &T) -> Vec<u8> {
    let mut out = Vec::new();
    answer.put(&mut out);
    out
}

/// The outcome, whole, and what is seen of its paths.
pub(super) fn whole<T: Answer>(outcome: &Outcome<T>, seen: &[Print]) -> Vec<u8> {
    let mut out = Vec::new();
    match outcome {
        Ok(answer) => {
            out.push(WHOLE);
            answer.put(&mut out);
        }
        Err(code) => {
            out.push(ERROR);
            let at = CODES.iter().position(|c| c == code).unwrap_or(13);
            // There are 37.
            out.push(at as u8);
        }
    }
    for print in seen {
        print.put(&mut out);
    }
    out
}

/// The outcome as it is kept where it can be read again: its mark if it is long. `hash` is keyed.
pub(super) fn short<T: Answer>(outcome: &Outcome<T>, hash: impl FnOnce(&[u8]) -> u64) -> Vec<u8> {
    let bytes = whole(outcome, &[]);
    if bytes.len() <= WHOLE_UP_TO {
        return bytes;
    }
    let mut out = vec![MARK];
    out.extend(hash(&bytes).to_le_bytes());
    out.extend((bytes.len() as u64).to_le_bytes());
    out
}

/// True where `outcome` is what the mark was made of.
pub(super) fn fits<T: Answer>(
    outcome: &Outcome<T>,
    mark: (u64, u64),
    hash: impl FnOnce(&[u8]) -> u64,
) -> bool {
    let bytes = whole(outcome, &[]);
    mark == (hash(&bytes), bytes.len() as u64)
}

/// What is in a recorded entry; none where it is damaged.
pub(super) fn decode<T: Answer>(mut from: &[u8]) -> Option<(Kept<T>, Vec<Print>)> {
    let from = &mut from;
    let kept = match byte(from)? {
        WHOLE => Kept::Whole(Ok(T::take(from)?)),
        ERROR => Kept::Whole(Err(*CODES.get(usize::from(byte(from)?))?)),
        MARK => Kept::Mark(u64::take(from)?, u64::take(from)?),
        _ => return None,
    };
    let mut seen = Vec::new();
    while !from.is_empty() {
        seen.push(Print::take(from)?);
    }
    Some((kept, seen))
}

/// A recorded entry, for people: without the content.
pub(super) fn describe(bytes: &[u8]) -> String {
    if let Some(choice) = Choice::decode(bytes) {
        return choice.describe();
    }
    match bytes.split_first() {
        None => "nothing was done".to_owned(),
        Some((&ERROR, rest)) => rest
            .first()
            .and_then(|at| CODES.get(usize::from(*at)))
            .map_or_else(|| "an unknown error".to_owned(), |code| format!("error: {}", code.message())),
        Some((&MARK, rest)) => rest
            .get(8..16)
            .and_then(|n| n.try_into().ok())
            .map_or_else(|| "a mark".to_owned(), |n| format!("{} bytes, as a mark", u64::from_le_bytes(n))),
        Some((_, rest)) => format!("{} bytes", rest.len()),
    }
}

pub(super) fn byte(from: &mut &[u8]) -> Option<u8> {
    let (&byte, rest) = from.split_first()?;
    *from = rest;
    Some(byte)
}

impl Answer for () {
    fn put(&self, _: &mut Vec<u8>) {}

    fn take(_: &mut &[u8]) -> Option<Self> {
        Some(())
    }
}

impl Answer for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        match byte(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Answer for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.to_le_bytes());
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (bytes, rest) = from.split_first_chunk::<8>()?;
        *from = rest;
        Some(Self::from_le_bytes(*bytes))
    }
}

/// Content.
impl Answer for Vec<u8> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        out.extend_from_slice(self);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let len = usize::try_from(u64::take(from)?).ok()?;
        let (bytes, rest) = from.split_at_checked(len)?;
        *from = rest;
        Some(bytes.to_vec())
    }
}

impl Answer for String {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_bytes().to_vec().put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Self::from_utf8(Vec::take(from)?).ok()
    }
}

impl Answer for DescriptorType {
    fn put(&self, out: &mut Vec<u8>) {
        // There are 8, and all are in the list.
        out.push(TYPES.iter().position(|t| t == self).unwrap_or(0) as u8);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        TYPES.get(usize::from(byte(from)?)).copied()
    }
}

impl Answer for Option<Datetime> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(time) = self {
            time.seconds.put(out);
            u64::from(time.nanoseconds).put(out);
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        if !bool::take(from)? {
            return Some(None);
        }
        Some(Some(Datetime { seconds: u64::take(from)?, nanoseconds: u64::take(from)?.try_into().ok()? }))
    }
}

impl Answer for DescriptorStat {
    fn put(&self, out: &mut Vec<u8>) {
        self.type_.put(out);
        self.link_count.put(out);
        self.size.put(out);
        self.data_access_timestamp.put(out);
        self.data_modification_timestamp.put(out);
        self.status_change_timestamp.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(Self {
            type_: DescriptorType::take(from)?,
            link_count: u64::take(from)?,
            size: u64::take(from)?,
            data_access_timestamp: Answer::take(from)?,
            data_modification_timestamp: Answer::take(from)?,
            status_change_timestamp: Answer::take(from)?,
        })
    }

    /// Times are no content: reading a file or copying a folder changes them.
    fn settle(recorded: Self, now: Self) -> Option<Self> {
        let is_file = recorded.type_ == DescriptorType::RegularFile;
        let same = recorded.type_ == now.type_ && (!is_file || recorded.size == now.size);
        same.then_some(recorded)
    }
}

impl Answer for MetadataHashValue {
    fn put(&self, out: &mut Vec<u8>) {
        self.lower.put(out);
        self.upper.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(Self { lower: u64::take(from)?, upper: u64::take(from)? })
    }
}

/// A folder's entries, each or why it has no name.
impl Answer for Vec<Outcome<DirectoryEntry>> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u64).put(out);
        for entry in self {
            match entry {
                Ok(entry) => {
                    out.push(WHOLE);
                    entry.type_.put(out);
                    entry.name.put(out);
                }
                Err(code) => out.extend(whole::<()>(&Err(*code), &[])),
            }
        }
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let count = u64::take(from)?;
        (0..count)
            .map(|_| match byte(from)? {
                WHOLE => {
                    Some(Ok(DirectoryEntry { type_: DescriptorType::take(from)?, name: String::take(from)? }))
                }
                ERROR => Some(Err(*CODES.get(usize::from(byte(from)?))?)),
                _ => None,
            })
            .collect()
    }
}

/// What was opened. The descriptor itself is not kept: it is opened again.
#[derive(Clone)]
pub(super) struct Opened {
    pub(super) folder: bool,
    pub(super) mode: OpenMode,
    pub(super) descriptor: Option<wasmtime_wasi::filesystem::Descriptor>,
}

impl Answer for Opened {
    fn put(&self, out: &mut Vec<u8>) {
        self.folder.put(out);
        // Two bits.
        out.push(self.mode.bits() as u8);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let folder = bool::take(from)?;
        let mode = OpenMode::from_bits(usize::from(byte(from)?))?;
        Some(Self { folder, mode, descriptor: None })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::fmt::Debug;

    use super::*;

    fn back<T: Answer + Debug>(outcome: Outcome<T>) {
        let there = Print::There { kind: 6, size: 3, modified: u64::MAX, content: None };
        let seen = [Print::Absent, there, there.with(Some(u64::MAX))];
        let bytes = whole(&outcome, &seen);
        let (kept, saw) = decode::<T>(&bytes).unwrap();
        assert_eq!(format!("{kept:?}"), format!("{:?}", Kept::Whole(outcome)));
        assert_eq!(saw, seen);
        for end in 0..bytes.len() {
            let cut = decode::<T>(&bytes[..end]);
            assert!(cut.is_none_or(|(_, saw)| saw.len() < 3), "{end}");
        }
        assert!(!describe(&bytes).is_empty());
    }

    #[test]
    fn every_answer_comes_back() {
        let time = Some(Datetime { seconds: u64::MAX, nanoseconds: 999_999_999 });
        back(Ok(()));
        back(Ok(true));
        back(Ok(7_u64));
        back(Ok(vec![1_u8, 2, 3]));
        back(Ok("n\u{e4}me".to_owned()));
        for of in TYPES {
            back(Ok(of));
        }
        back(Ok(DescriptorStat {
            type_: DescriptorType::RegularFile,
            link_count: 1,
            size: 5,
            data_access_timestamp: time,
            data_modification_timestamp: None,
            status_change_timestamp: time,
        }));
        back(Ok(MetadataHashValue { lower: 1, upper: 2 }));
        let entry = DirectoryEntry { type_: DescriptorType::Directory, name: "a".into() };
        back(Ok(vec![Ok(entry), Err(ErrorCode::IllegalByteSequence)]));
        for code in CODES {
            back::<u64>(Err(code));
        }
    }

    #[test]
    fn what_is_long_is_a_mark() {
        let hash = |bytes: &[u8]| bytes.iter().map(|b| u64::from(*b)).sum();
        for len in [0, WHOLE_UP_TO, 1 << 16] {
            let answer: Outcome<Vec<u8>> = Ok(vec![7; len]);
            let bytes = short(&answer, hash);
            match decode::<Vec<u8>>(&bytes).unwrap().0 {
                Kept::Whole(kept) => assert!(kept == answer && len < WHOLE_UP_TO),
                Kept::Mark(h, n) => {
                    assert!(bytes.len() < 20 && fits(&answer, (h, n), hash));
                    let other: Outcome<Vec<u8>> = Ok(vec![8; len]);
                    assert!(!fits(&other, (h, n), hash));
                }
            }
        }
    }

    #[test]
    fn times_are_no_content() {
        let stat = |size, at: u64| DescriptorStat {
            type_: DescriptorType::RegularFile,
            link_count: 1,
            size,
            data_access_timestamp: None,
            data_modification_timestamp: Some(Datetime { seconds: at, nanoseconds: 0 }),
            status_change_timestamp: None,
        };
        let settled = DescriptorStat::settle(stat(3, 1), stat(3, 2)).unwrap();
        assert_eq!(settled.data_modification_timestamp.unwrap().seconds, 1, "as it was seen");
        assert!(DescriptorStat::settle(stat(3, 1), stat(4, 1)).is_none());
    }
}
