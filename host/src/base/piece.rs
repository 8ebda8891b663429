//! What is kept of a journal at once: opaque to the store, and here so that neither room knows the other.

use sha2::{Digest as _, Sha256};

/// A piece of a journal, with the large contents that it names and does not hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// What only the journal's own code reads.
    pub bytes: Vec<u8>,
    /// Kept beside it, each once in a journal.
    pub blobs: Vec<Blob>,
}

impl From<Vec<u8>> for Piece {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, blobs: Vec::new() }
    }
}

/// A large content under its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// SHA-256 of the content, when it was made; whoever reads it back compares.
    pub digest: [u8; 32],
    /// The content.
    pub bytes: Vec<u8>,
}

impl Blob {
    /// A content under its own name.
    pub fn of(bytes: Vec<u8>) -> Self {
        Self { digest: Sha256::digest(&bytes).into(), bytes }
    }

    /// True where it is what its name says.
    pub fn is_whole(&self) -> bool {
        Sha256::digest(&self.bytes)[..] == self.digest
    }
}
