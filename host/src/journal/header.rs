//! What a run starts with: all that its guest can see before its first host call, and what a resume must have equal.

use super::codec::{bytes, put_bytes, put_varint, varint};

/// The first piece of a journal, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// SHA-256 of the component.
    pub digest: [u8; 32],
    /// Names the engine's settings that a guest can see (NaN bits, features): equal at a resume, or there is none.
    pub semantics: u64,
    /// Names the compiled code: where it differs, fuel is not compared.
    pub code: u64,
    /// Of everything random.
    pub seed: [u8; 32],
    /// When it began.
    pub start: Start,
    /// The plugin's own name of the tool.
    pub tool: String,
    /// The arguments, as JSON.
    pub arguments: String,
    /// What the caller's client declared, as bits.
    pub client: u8,
    /// Limits, settings and grants that the run began with, as whoever drives it writes them.
    pub policy: String,
}

/// The moment at which a run began, by clocks that outlive its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Start {
    /// Nanoseconds since 1970.
    pub wall: u64,
    /// The operating system's boot.
    pub boot: [u8; 16],
    /// Nanoseconds since that boot, time in which the machine slept included.
    pub boottime: u64,
}

impl Header {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.digest);
        out.extend(self.semantics.to_le_bytes());
        out.extend(self.code.to_le_bytes());
        out.extend(self.seed);
        put_varint(out, self.start.wall);
        out.extend(self.start.boot);
        put_varint(out, self.start.boottime);
        out.push(self.client);
        for text in [&self.tool, &self.arguments, &self.policy] {
            put_bytes(out, text.as_bytes());
        }
    }

    /// `None` where the bytes are not exactly one header.
    pub(super) fn decode(mut from: &[u8]) -> Option<Self> {
        let from = &mut from;
        let header = Self {
            digest: array(from)?,
            semantics: u64::from_le_bytes(array(from)?),
            code: u64::from_le_bytes(array(from)?),
            seed: array(from)?,
            start: Start { wall: varint(from)?, boot: array(from)?, boottime: varint(from)? },
            client: array::<1>(from)?[0],
            tool: text(from)?,
            arguments: text(from)?,
            policy: text(from)?,
        };
        from.is_empty().then_some(header)
    }
}

fn array<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = from.split_first_chunk::<N>()?;
    *from = rest;
    Some(*array)
}

fn text(from: &mut &[u8]) -> Option<String> {
    String::from_utf8(bytes(from)?.to_vec()).ok()
}
