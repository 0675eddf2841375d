//! Seeded random number generator, the only source of randomness in this crate.

use core::time::Duration;

use rand_pcg::{Pcg32, rand_core::Rng as _};

/// Seeded random number generator, not suitable for secrets. Equal seeds give equal sequences, also
/// in future versions.
#[derive(Clone, Debug)]
pub struct Random(Pcg32);

impl Random {
    /// Creates a generator from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Pcg32::new(seed, 0))
    }

    /// Returns a number in `0..end`, or 0 if `end` is 0. The bias is at most one in four billion.
    pub fn below(&mut self, end: u32) -> u32 {
        let drawn = (u64::from(self.0.next_u32()) * u64::from(end)) >> 32;
        u32::try_from(drawn).unwrap_or_default()
    }

    /// Returns a time from 80 to 120 percent of this one.
    pub fn jittered(&mut self, time: Duration) -> Duration {
        let fifth = time / 5;
        (fifth * 4).saturating_add(fifth.saturating_mul(self.below(2_001)) / 1_000)
    }

    /// Puts the first 2³² items into a random order.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for (last, end) in (1..=u32::MAX).zip(1..items.len()) {
            items.swap(end, self.below(last.saturating_add(1)) as usize);
        }
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}
