//! What is kept of a journal: pieces under a chain of checksums, so that one that is damaged, missing or of another
//! journal is found.
//!
//! A piece is one byte of version, then (the header's first) the header, or the number of its first entry and
//! entries, then 8 bytes of SHA-256 over all of it and the checksum of the piece before. Every later version keeps the
//! first byte and the checksum as they are, so that a version and damage can be told apart.
//!
//! Large answers are kept beside the pieces. Their entries have the SHA-256 of them, so that the chain covers them too.

use sha2::{Digest as _, Sha256};

use super::{
    Entry, Header,
    codec::{self, Blobs, Clocks, Unreadable, put_varint, varint},
};
use crate::base::{Blob, Piece};

/// The version that is written, and the newest that is read.
const VERSION: u8 = 1;
/// Bytes of a checksum: damage is found, whoever could forge one can write the database anyway.
const CHECKSUM: usize = 8;

type Checksum = [u8; CHECKSUM];

/// Why a journal cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Damaged {
    /// Written by a newer program.
    #[error(
        "the journal's piece {piece} has version {found}, and this program knows up to {VERSION}: use a newer layby"
    )]
    Version {
        /// The piece, from 0 (the header).
        piece: usize,
        /// Its version.
        found: u8,
    },
    /// The header is not whole.
    #[error("the journal's header is damaged")]
    Header,
    /// A piece is not as it was written.
    #[error("the journal's piece {piece} is damaged: entries from {entry} on are lost")]
    Piece {
        /// The piece, from 1.
        piece: usize,
        /// The number of the first entry that is lost.
        entry: u64,
    },
    /// An entry is none that this program knows, although its piece is as it was written.
    #[error("the journal's entry {entry} cannot be read")]
    Entry {
        /// Its number, from 0.
        entry: u64,
    },
    /// The answer of an entry is not as it was written, or is gone, although the entry is as it was.
    #[error("the answer of {length} bytes that the journal's entry {entry} names is damaged or missing")]
    Blob {
        /// The entry's number, from 0.
        entry: u64,
        /// What the answer had, in bytes.
        length: u64,
    },
}

/// What was kept of a journal, checked.
#[derive(Clone, Debug)]
pub struct Kept {
    /// The first piece.
    pub header: Header,
    /// All entries, encoded.
    pub(super) entries: Vec<u8>,
    /// Answers that are kept apart.
    pub(super) blobs: Blobs,
    pub(super) sealer: Sealer,
}

impl Kept {
    /// Checks and joins all pieces of a journal. It does not matter which of them has a blob.
    ///
    /// # Errors
    /// A newer version, or the first thing that is damaged.
    pub fn open(pieces: &[Piece]) -> Result<Self, Damaged> {
        let (first, rest) = pieces.split_first().ok_or(Damaged::Header)?;
        let mut sealer = Sealer::default();
        let body = sealer.check(&first.bytes, 0)?.ok_or(Damaged::Header)?;
        let header = Header::decode(body).ok_or(Damaged::Header)?;
        let all = pieces.iter().flat_map(|piece| &piece.blobs);
        // One that is damaged is as good as gone: the entry that wants it tells.
        let blobs =
            all.filter(|blob| blob.is_whole()).map(|blob| (blob.digest, blob.bytes.clone())).collect();
        let (mut entries, mut clocks, mut count) = (Vec::new(), Clocks::default(), 0_u64);
        for (n, piece) in rest.iter().enumerate() {
            let damaged = Damaged::Piece { piece: n + 1, entry: count };
            let mut body = sealer.check(&piece.bytes, n + 1)?.ok_or_else(|| damaged.clone())?;
            if varint(&mut body) != Some(count) {
                return Err(damaged);
            }
            entries.extend_from_slice(body);
            while !body.is_empty() {
                codec::decode(&mut body, &mut clocks, &blobs).map_err(|why| match why {
                    Unreadable::Malformed => Damaged::Entry { entry: count },
                    Unreadable::Lost(length) => Damaged::Blob { entry: count, length },
                })?;
                count += 1;
            }
        }
        Ok(Self { header, entries, blobs, sealer })
    }

    /// The same under another header, as pieces.
    pub fn with(&self, header: &Header) -> Vec<Piece> {
        let mut sealer = Sealer::default();
        let mut pieces = vec![sealer.head(header).into()];
        if !self.entries.is_empty() {
            let blobs =
                self.blobs.iter().map(|(digest, bytes)| Blob { digest: *digest, bytes: bytes.clone() });
            pieces.push(Piece { bytes: sealer.piece(0, &self.entries), blobs: blobs.collect() });
        }
        pieces
    }

    /// Its entries, decoded.
    pub fn entries(&self) -> Vec<Entry> {
        super::Entries::of(&self.entries, &self.blobs).collect()
    }
}

/// Writes pieces, each under the checksum of the one before.
#[derive(Clone, Debug, Default)]
pub(super) struct Sealer {
    last: Option<Checksum>,
}

impl Sealer {
    /// True before the header.
    pub(super) const fn is_new(&self) -> bool {
        self.last.is_none()
    }

    pub(super) fn head(&mut self, header: &Header) -> Vec<u8> {
        let mut piece = vec![VERSION];
        header.encode(&mut piece);
        self.seal(piece)
    }

    /// A piece of `entries`, whose first has the number `first`.
    pub(super) fn piece(&mut self, first: u64, entries: &[u8]) -> Vec<u8> {
        let mut piece = Vec::with_capacity(entries.len() + CHECKSUM + 10);
        piece.push(VERSION);
        put_varint(&mut piece, first);
        piece.extend_from_slice(entries);
        self.seal(piece)
    }

    /// A piece of the next version.
    #[cfg(test)]
    pub(super) fn newer(&mut self) -> Vec<u8> {
        self.seal(vec![VERSION + 1])
    }

    fn seal(&mut self, mut piece: Vec<u8>) -> Vec<u8> {
        let sum = self.sum(&piece);
        piece.extend(sum);
        self.last = Some(sum);
        piece
    }

    fn sum(&self, body: &[u8]) -> Checksum {
        let whole = Sha256::new().chain_update(self.last.unwrap_or_default()).chain_update(body).finalize();
        let mut sum = [0; CHECKSUM];
        sum.copy_from_slice(&whole[..CHECKSUM]);
        sum
    }

    /// What is in the next piece, without version and checksum; `None` where it is damaged.
    fn check<'a>(&mut self, piece: &'a [u8], n: usize) -> Result<Option<&'a [u8]>, Damaged> {
        let Some((body, sum)) = piece.split_last_chunk::<CHECKSUM>() else { return Ok(None) };
        if self.sum(body) != *sum {
            return Ok(None);
        }
        self.last = Some(*sum);
        match body.split_first() {
            Some((&VERSION, body)) => Ok(Some(body)),
            Some((&found, _)) => Err(Damaged::Version { piece: n, found }),
            None => Ok(None),
        }
    }
}
