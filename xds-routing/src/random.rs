//! The one source of chance, seeded by the caller.

use rand_pcg::{Pcg32, rand_core::Rng as _};

/// A seeded generator of numbers; not for secrets. The same seed gives the same numbers for ever.
#[derive(Clone, Debug)]
pub struct Random(Pcg32);

impl Random {
    /// Starts with a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Pcg32::new(seed, 0))
    }

    /// A number from zero up to but not including `end`, each as likely as the others but for one part
    /// in four billion; zero if `end` is.
    pub fn below(&mut self, end: u32) -> u32 {
        let drawn = (u64::from(self.0.next_u32()) * u64::from(end)) >> 32;
        u32::try_from(drawn).unwrap_or_default()
    }

    /// A number that has nothing to do with any other.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}
