//! Pseudo-random generator with a caller's seed and a fixed sequence (PCG-XSH-RR 64/32).
//!
//! It is implemented here because regression seeds must stay valid when dependencies are upgraded.

use core::time::Duration;

/// Seeded pseudo-random generator; not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    state: u64,
}

const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Self { state: seed.wrapping_add(INCREMENT) };
        rng.next_u32();
        rng
    }

    pub(crate) fn next_u32(&mut self) -> u32 {
        let state = self.state;
        self.state = state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        let folded = (((state >> 18) ^ state) >> 27) as u32;
        folded.rotate_right((state >> 59) as u32)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        (u64::from(self.next_u32()) << 32) | u64::from(self.next_u32())
    }

    /// Returns a uniformly distributed part of `duration`, less than all of it.
    pub(crate) fn part_of(&mut self, duration: Duration) -> Duration {
        let nanos = (duration.as_nanos() * u128::from(self.next_u32())) >> 32;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns `duration` plus or minus a uniformly distributed part of up to `percent` percent.
    pub(crate) fn jitter(&mut self, duration: Duration, percent: u32) -> Duration {
        if percent == 0 {
            return duration;
        }
        // In thousandths of a percent, to avoid floating point.
        let span = u64::from(percent.min(100)) * 1_000;
        let offset = (u64::from(self.next_u32()) * (2 * span + 1)) >> 32;
        let factor = 100_000 + offset - span;
        let nanos = duration.as_nanos() * u128::from(factor) / 100_000;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use crate::rng::*;

    #[test]
    fn same_seed_yields_the_same_sequence() {
        let mut rng = Rng::new(42);
        let drawn = [rng.next_u32(), rng.next_u32(), rng.next_u32()];
        let mut again = Rng::new(42);
        assert_eq!(drawn, [again.next_u32(), again.next_u32(), again.next_u32()]);
        assert_ne!(drawn[0], drawn[1]);
    }

    #[test]
    fn jitter_stays_within_its_percentage() {
        let mut rng = Rng::new(7);
        let base = Duration::from_secs(10);
        for _ in 0..10_000 {
            let jittered = rng.jitter(base, 20);
            assert!(jittered >= Duration::from_secs(8) && jittered <= Duration::from_secs(12));
        }
        assert_eq!(rng.jitter(base, 0), base);
    }
}
