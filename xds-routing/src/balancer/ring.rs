//! Ring of hashes, for consistent choices of endpoints ([gRFC A42], [gRFC A76]).
//!
//! [gRFC A42]: https://github.com/grpc/proposal/blob/master/A42-xds-ring-hash-lb-policy.md
//! [gRFC A76]: https://github.com/grpc/proposal/blob/master/A76-ring-hash-improvements.md

use alloc::{format, string::String, vec::Vec};

use crate::{cluster::RingHash, text_hash::hash_text};

/// Default of gRPC's `ring_size_cap`, the upper limit of both configured sizes.
const SIZE_CAP: u64 = 4_096;

/// Hashes in ascending order, each with the index of its endpoint. The number of hashes of an
/// endpoint is proportional to its weight.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ring(Vec<(u64, u32)>);

impl Ring {
    /// Creates the ring of endpoints with these keys and weights. Positions are computed in floating
    /// point, as in gRPC, so that all clients agree.
    // B33a
    pub(super) fn new(sizes: RingHash, endpoints: &[(String, u64)]) -> Self {
        let weights = || endpoints.iter().map(|(_, weight)| *weight);
        let sum = weights().fold(0_u64, u64::saturating_add) as f64;
        let least = weights().min().unwrap_or_default() as f64 / sum;
        let minimum_size = sizes.minimum_size.min(SIZE_CAP) as f64;
        let maximum_size = sizes.maximum_size.min(SIZE_CAP) as f64;
        let scale = (ceil(least * minimum_size) / least).min(maximum_size);
        let mut ring = Vec::new();
        let mut target = 0.0;
        for ((key, weight), endpoint) in endpoints.iter().zip(0..) {
            target += scale * (*weight as f64 / sum);
            let mut number = 0_u32;
            while (ring.len() as f64) < target {
                ring.push((hash_text(&format!("{key}_{number}")), endpoint));
                number = number.saturating_add(1);
            }
        }
        ring.sort_unstable();
        Self(ring)
    }

    /// Returns the indices of the endpoints of all hashes, from the first one that is not less than
    /// this hash, once around the ring.
    pub(super) fn from(&self, hash: u64) -> impl Iterator<Item = usize> + '_ {
        let start = self.0.partition_point(|(of_endpoint, _)| *of_endpoint < hash);
        let (after, before) = (self.0.get(start..), self.0.get(..start));
        let all = after.into_iter().chain(before).flatten();
        all.map(|(_, endpoint)| *endpoint as usize)
    }
}

/// Returns the least integer that is not less than a positive number.
fn ceil(number: f64) -> f64 {
    let floor = number as u64 as f64;
    if floor < number { floor + 1.0 } else { floor }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;

    fn ring(minimum_size: u64, maximum_size: u64, weights: &[u64]) -> Ring {
        let endpoints = weights.iter().zip(1..).map(|(it, port)| (format!("10.0.0.1:{port}"), *it));
        Ring::new(RingHash { minimum_size, maximum_size }, &endpoints.collect::<Vec<_>>())
    }

    fn counts(ring: &Ring) -> Vec<usize> {
        let mut counts = BTreeMap::new();
        ring.0.iter().for_each(|(_, endpoint)| *counts.entry(*endpoint).or_default() += 1);
        counts.into_values().collect()
    }

    #[test]
    fn hashes_are_proportional_to_weights() {
        assert_eq!(counts(&ring(1_024, 4_096, &[1, 1])), [512, 512]);
        assert_eq!(counts(&ring(16, 4_096, &[6, 3, 6, 2])), [6, 3, 6, 2]);
        assert_eq!(counts(&ring(1, 4_096, &[1, 2, 3])), [1, 2, 3]);
        // The ring is limited, so the weights are only approximate.
        assert_eq!(counts(&ring(4, 8, &[1, 99])), [1, 7]);
        assert_eq!(counts(&ring(8_388_608, 8_388_608, &[1, 3])), [1_024, 3_072]);
        assert_eq!(counts(&ring(1_024, 4_096, &[])), [] as [usize; 0]);
    }

    #[test]
    fn choice_begins_at_the_hash_and_goes_around() {
        let ring = ring(4, 16, &[2, 3]);
        let hashes: Vec<u64> = ring.0.iter().map(|(hash, _)| *hash).collect();
        let endpoints: Vec<usize> = ring.0.iter().map(|(_, it)| *it as usize).collect();
        assert!(hashes.is_sorted() && hashes.len() == 5);
        for (start, &hash) in hashes.iter().enumerate() {
            let mut expected = endpoints.clone();
            expected.rotate_left(start);
            assert_eq!(ring.from(hash).collect::<Vec<_>>(), expected);
            assert_eq!(ring.from(hash - 1).collect::<Vec<_>>(), expected);
        }
        assert_eq!(ring.from(u64::MAX).collect::<Vec<_>>(), endpoints);
    }

    /// An endpoint that disappears changes only the choices that were for it.
    #[test]
    fn other_choices_stay_when_an_endpoint_disappears() {
        let keys: Vec<_> = (0..10).map(|it| (format!("10.0.0.{it}:80"), 1)).collect();
        let sizes = RingHash { minimum_size: 1_024, maximum_size: 4_096 };
        let (all, fewer) = (Ring::new(sizes, &keys), Ring::new(sizes, &keys[..9]));
        let mut moved = 0;
        for call in 0..10_000 {
            let hash = hash_text(&format!("user-{call}"));
            let (before, after) = (all.from(hash).next(), fewer.from(hash).next());
            moved += u32::from(before != Some(9) && before != after);
        }
        // The number of hashes of an endpoint is rounded, so it differs a little between the rings.
        assert!(moved < 1_500, "{moved} of 10,000 calls moved");
    }
}
