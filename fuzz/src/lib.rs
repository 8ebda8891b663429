//! What the fuzz targets share.
//!
//! The journal's room is taken in by path, with the one type of `base` that it uses, and so is what decides about requests by HTTP:
//! the host itself would bring wasmtime, to be compiled with coverage. That it compiles here shows that it is as pure as it says.

pub mod capabilities;

// A part of the host, of which the targets use a part.
#[allow(dead_code)]
#[path = "../../host/src/journal/mod.rs"]
pub mod journal;
#[allow(dead_code)]
#[path = "../../host/src/base/piece.rs"]
mod piece;

/// As the journal's room finds it in the host.
pub mod base {
    pub use crate::piece::{Blob, Piece};
}

use base::Piece;
use sha2::{Digest as _, Sha256};

/// Reads an input from its begin to its end, and then zeros.
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// True where there is nothing left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// The next two bytes, the lower one first.
    pub fn short(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// At most `len` bytes.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}

/// Puts the checksums under pieces that have none, so that what is behind them is reached. By the format's description
/// and not by the host's code.
pub fn seal(pieces: &mut [Piece]) {
    let mut last = [0; 8];
    for piece in pieces {
        let whole = Sha256::new().chain_update(last).chain_update(&piece.bytes).finalize();
        last.copy_from_slice(&whole[..8]);
        piece.bytes.extend(last);
    }
}
