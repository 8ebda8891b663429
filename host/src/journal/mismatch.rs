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
    pub(super) fn new(step: u64, had: &Deed, done: &Deed) -> Self {
        let at_end = matches!(had, Deed::Nothing);
        Self { at_end, step, expected: had.to_string(), actual: done.to_string() }
    }
}

/// What a journal has at some step, or a guest does, for people.
pub(super) enum Deed {
    Clock(Call),
    Again(Call, u32),
    Start(Call, u64, u64),
    Sent(u32, u64),
    /// Recorded: an answer of so many bytes.
    End(usize),
    /// Recorded: the end of an effect.
    Answered(u32),
    /// The journal ends here.
    Nothing,
    /// Done: the call that began was to be answered next.
    Waits,
    /// Done.
    Returned,
}

impl Deed {
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

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clock(call) => write!(f, "`{call}`"),
            Self::Again(call, hash) => write!(f, "`{call}` (answer {hash:08x})"),
            Self::Start(call, mark, fuel) => begun(f, *call, *mark, *fuel),
            Self::Sent(k, hash) => exchange(f, *k, *hash),
            Self::End(len) => write!(f, "an answer of {len} bytes"),
            Self::Answered(k) => match k.checked_sub(CHANGES) {
                Some(n) => write!(f, "the end of change {n} of a file"),
                None => write!(f, "the answer of request {k}"),
            },
            Self::Nothing => f.write_str("nothing more"),
            Self::Waits => f.write_str("a call that waits for its answer"),
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
