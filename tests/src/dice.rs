//! Numbers that look random, from a seed.

/// Numbers that look random (splitmix64): the same for the same seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// From this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub const fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// At least `from`, and below `to`.
    pub const fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.roll() % (to - from)
    }

    /// True once in so many, on average.
    pub const fn one_in(&mut self, n: u64) -> bool {
        self.roll().is_multiple_of(n)
    }
}
