//! Weighted round robin of endpoints ([gRFC A58]): a sequence number decides, so picks need no lock.
//!
//! [gRFC A58]: https://github.com/grpc/proposal/blob/master/A58-client-side-weighted-round-robin-lb-policy.md

use alloc::{sync::Arc, vec::Vec};
use core::sync::atomic::{AtomicU32, Ordering};

/// Weighted choice among endpoints by their indices.
#[derive(Debug)]
pub(super) struct Stride {
    /// Weights relative to the largest one, which is [`FULL`].
    weights: Vec<u16>,
    /// Number of the next place. The endpoints have places in turn, and use a part of them that is
    /// proportional to their weight. Shared with the earlier and later weights of the locality: with
    /// a random place for each of a few calls, the endpoints that follow one with a low weight would
    /// get its places too.
    next: Arc<AtomicU32>,
}

const FULL: u16 = u16::MAX;
/// Largest weight in relation to the mean.
const MOST: f64 = 10.0;
/// Smallest weight in relation to the mean.
const LEAST: f64 = 0.1;

impl Stride {
    /// Creates the choice among endpoints with these weights, from place `next` on. Endpoints with
    /// the weight zero have the mean of the others. Returns `None` if fewer than two have a weight.
    pub(super) fn new(weights: &[f64], next: &Arc<AtomicU32>) -> Option<Self> {
        let is_known = |weight: f64| weight > 0.0 && weight.is_finite();
        let known = || weights.iter().copied().filter(|weight| is_known(*weight));
        let count = known().count();
        if count < 2 {
            return None;
        }
        let mean = known().sum::<f64>() / count as f64;
        let bounded = |weight: f64| match is_known(weight) {
            true => weight.clamp(mean * LEAST, mean * MOST),
            false => mean,
        };
        let largest = weights.iter().copied().map(bounded).fold(0.0, f64::max);
        let scaled = |weight| (bounded(weight) / largest * f64::from(FULL) + 0.5) as u16;
        let weights = weights.iter().map(|weight| scaled(*weight)).collect();
        Some(Self { weights, next: Arc::clone(next) })
    }

    /// Returns the index of the next endpoint. Of any sequence of as many places as there are
    /// endpoints, at least one is used.
    pub(super) fn pick(&self) -> Option<usize> {
        let count = u32::try_from(self.weights.len()).ok()?;
        loop {
            let place = self.next.fetch_add(1, Ordering::Relaxed);
            let (round, index) = (place.checked_div(count)?, place.checked_rem(count)?);
            let weight = u32::from(*self.weights.get(index as usize)?);
            // Endpoints begin at different parts of their period.
            let offset = index.wrapping_mul(u32::from(FULL / 2));
            let part = weight.wrapping_mul(round).wrapping_add(offset) % u32::from(FULL);
            if part >= u32::from(FULL).saturating_sub(weight) {
                return Some(index as usize);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn from(first: u32) -> Arc<AtomicU32> {
        Arc::new(AtomicU32::new(first))
    }

    fn counts(weights: &[f64], picks: u32) -> Vec<u32> {
        let stride = Stride::new(weights, &from(7)).expect("two weights");
        let mut counts = vec![0; weights.len()];
        (0..picks).for_each(|_| counts[stride.pick().expect("an endpoint")] += 1);
        counts
    }

    #[test]
    fn picks_are_proportional_to_weights() {
        for (weights, expected) in [
            (&[1.0, 3.0][..], &[2_500, 7_500][..]),
            (&[5.0, 5.0, 5.0, 5.0], &[2_500, 2_500, 2_500, 2_500]),
            // The mean of the others for an endpoint without a weight
            (&[100.0, 0.0, 300.0], &[1_667, 3_333, 5_000]),
            // Bounds of a tenth of the mean and ten times the mean
            (&[0.000_1, 1.0, 1.0], &[333, 4_833, 4_833]),
            // Not a number that can be compared with others
            (&[f64::INFINITY, 1.0, 1.0, f64::NAN], &[2_500, 2_500, 2_500, 2_500]),
        ] {
            for (count, expected) in counts(weights, 10_000).into_iter().zip(expected) {
                assert!(
                    count.abs_diff(*expected) < 60,
                    "{weights:?}: {:?}",
                    counts(weights, 10_000)
                );
            }
        }
    }

    #[test]
    fn fewer_than_two_weights_give_no_choice() {
        for weights in [&[][..], &[1.0], &[0.0, 0.0], &[0.0, 7.0]] {
            assert!(Stride::new(weights, &from(0)).is_none(), "{weights:?}");
        }
    }

    #[test]
    fn places_wrap_around() {
        let stride = Stride::new(&[1.0, 1.0, 1.0], &from(u32::MAX - 1)).expect("three weights");
        assert_eq!((0..6).filter_map(|_| stride.pick()).count(), 6);
    }
}
