//! What a replay found to be otherwise.

use std::fmt;

use super::{CHANGES, Call, Entry};

/// The guest did something else than what its journal has: step, expected and actual.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("step {step}: the journal has {expected}, the plugin did {actual}")]
pub struct Mismatch {
    /// The journal is used up: the guest did all that it has, and goes on.
    pub at_end: bool,
    /// The number of the entry, from 0.
    pub step: u64,
    /// What was recorded.
    pub expected: String,
    /// What happened.
    pub actual: String,
}

impl Mismatch {
    pub(super) fn new(step: u64, had: &Had, done: &Done) -> Self {
        let at_end = matches!(had, Had::Nothing);
        Self { at_end, step, expected: had.to_string(), actual: done.to_string() }
    }
}

/// What a journal has at some step, for people.
pub(super) enum Had {
    Clock(Call),
    Again(Call, u32),
    Start(Call, u64, u64),
    End(usize),
    Sent(u32, u64),
    Answered(u32),
    /// It ends here.
    Nothing,
}

impl Had {
    pub(super) fn of(entry: &Entry) -> Self {
        match entry {
            Entry::Clock(call, _) => Self::Clock(*call),
            Entry::Again(call, hash) => Self::Again(*call, *hash),
            Entry::Start(call, mark, fuel) => Self::Start(*call, *mark, *fuel),
            Entry::End(answer, _) => Self::End(answer.len()),
            Entry::Sent(k, hash, _) => Self::Sent(*k, *hash),
            Entry::Answered(k, _) => Self::Answered(*k),
        }
    }
}

impl fmt::Display for Had {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clock(call) => write!(f, "`{call}`"),
            Self::Again(call, hash) => write!(f, "`{call}` (answer {hash:08x})"),
            Self::Start(call, mark, fuel) => begun(f, *call, *mark, *fuel),
            Self::End(len) => write!(f, "an answer of {len} bytes"),
            Self::Sent(k, hash) => exchange(f, *k, *hash),
            Self::Answered(k) => match k.checked_sub(CHANGES) {
                Some(n) => write!(f, "the end of change {n} of a file"),
                None => write!(f, "the answer of request {k}"),
            },
            Self::Nothing => f.write_str("nothing more"),
        }
    }
}

/// What a guest does, for people.
pub(super) enum Done {
    Clock(Call),
    Again(Call, u32),
    Start(Call, u64, u64),
    /// The call that began was to be answered next.
    End,
    Sent(u32, u64),
    Returned,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clock(call) => write!(f, "`{call}`"),
            Self::Again(call, hash) => write!(f, "`{call}` (answer {hash:08x})"),
            Self::Start(call, mark, fuel) => begun(f, *call, *mark, *fuel),
            Self::End => f.write_str("a call that waits for its answer"),
            Self::Sent(k, hash) => exchange(f, *k, *hash),
            Self::Returned => f.write_str("return"),
        }
    }
}

fn begun(f: &mut fmt::Formatter<'_>, call: Call, mark: u64, fuel: u64) -> fmt::Result {
    write!(f, "`{call}` #{mark:012x}")?;
    if fuel > 0 { write!(f, " with {fuel} fuel left") } else { Ok(()) }
}

fn exchange(f: &mut fmt::Formatter<'_>, k: u32, hash: u64) -> fmt::Result {
    match k.checked_sub(CHANGES) {
        Some(n) => write!(f, "change {n} of a file #{hash:016x}"),
        None => write!(f, "request {k} by HTTP #{hash:016x}"),
    }
}
