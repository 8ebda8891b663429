//! `wasi:random`, all three interfaces. Grant: none needed. Class: derived from the run's seed.
//! Records: no entry; the trail has each call.

use chacha20::{
    ChaCha20Rng,
    rand_core::{Rng, SeedableRng},
};
use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};

use super::State;

/// Bytes of one call. Guests' libraries ask for at most a few KiB; the host allocates what they ask for.
const MOST_BYTES: u64 = 4 << 20;
/// Streams of the seed, one per use, so that none tells of another.
const SECURE_STREAM: u64 = 0;
const INSECURE_STREAM: u64 = 1;
const SEED_STREAM: u64 = 2;
/// The stream that the journal's key comes from.
pub(super) const KEY_STREAM: u64 = 3;

/// The random streams of one run. ChaCha20 is a fixed function: the same seed gives the same bytes in
/// every version of this program.
pub(super) struct Random {
    secure: ChaCha20Rng,
    insecure: ChaCha20Rng,
    seed: (u64, u64),
}

impl Random {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        let stream = |n| {
            let mut rng = ChaCha20Rng::from_seed(seed);
            rng.set_stream(n);
            rng
        };
        let mut seeds = stream(SEED_STREAM);
        Self {
            secure: stream(SECURE_STREAM),
            insecure: stream(INSECURE_STREAM),
            seed: (seeds.next_u64(), seeds.next_u64()),
        }
    }
}

fn bytes(rng: &mut ChaCha20Rng, len: u64) -> wasmtime::Result<Vec<u8>> {
    if len > MOST_BYTES {
        wasmtime::bail!("{len} random bytes were asked for at once; the host gives up to {MOST_BYTES}");
    }
    let mut out = vec![0; len as usize];
    rng.fill_bytes(&mut out);
    Ok(out)
}

impl random::Host for State {
    fn get_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.journal.note("random-bytes", &len.to_le_bytes());
        bytes(&mut self.random().secure, len)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        self.journal.note("random-u64", &[]);
        Ok(self.random().secure.next_u64())
    }
}

impl insecure::Host for State {
    fn get_insecure_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.journal.note("insecure-bytes", &len.to_le_bytes());
        bytes(&mut self.random().insecure, len)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        self.journal.note("insecure-u64", &[]);
        Ok(self.random().insecure.next_u64())
    }
}

impl insecure_seed::Host for State {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        self.journal.note("insecure-seed", &[]);
        Ok(self.random().seed)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_seed_decides_and_streams_differ() {
        let (mut a, mut b) = (Random::new([1; 32]), Random::new([1; 32]));
        assert_eq!(bytes(&mut a.secure, 100).unwrap(), bytes(&mut b.secure, 100).unwrap());
        assert_eq!(a.seed, b.seed);
        assert_ne!(a.secure.next_u64(), a.insecure.next_u64());
        assert_ne!(a.seed, Random::new([2; 32]).seed);
        assert!(bytes(&mut a.secure, MOST_BYTES + 1).is_err());
    }
}
