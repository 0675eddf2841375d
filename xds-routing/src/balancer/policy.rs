//! LB policies that the balancer implements.

use alloc::{format, string::String, sync::Arc};

use crate::cluster::{BalancingPolicy, Cluster, RingHash, WeightedRoundRobin};

/// Treatment of localities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Localities {
    ByWeight,
    AreOne,
}

/// Choice of an endpoint of a locality.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum EndpointPolicy {
    RoundRobin,
    /// The endpoint with the fewest active calls among this many random ones.
    LeastRequest(u32),
    /// Round robin by weights that the endpoints report.
    Weighted(Arc<WeightedRoundRobin>),
    /// The endpoint at the hash of the call on a ring of hashes, or the next one that is ready.
    RingHash(RingHash),
    /// One connection, to the first address of the locality that answers.
    PickFirst {
        shuffle: bool,
    },
}

/// Largest number of random endpoints that are compared ([gRFC A48]).
///
/// [gRFC A48]: https://github.com/grpc/proposal/blob/master/A48-xds-least-request-lb-policy.md
const MOST_CHOICES: u32 = 10;

/// Whether the LB policy of a cluster is implemented. Otherwise its calls fail.
#[must_use]
pub fn can_balance(cluster: &Cluster) -> bool {
    policies_of(cluster).is_ok()
}

impl EndpointPolicy {
    /// Returns the parameters of weighted round robin, if it is the policy.
    pub(super) const fn weighted(&self) -> Option<&Arc<WeightedRoundRobin>> {
        match self {
            Self::Weighted(rules) => Some(rules),
            _ => None,
        }
    }

    /// Returns the parameters of weighted round robin, if its load reports are in responses.
    pub(super) fn weighted_by_responses(&self) -> Option<&Arc<WeightedRoundRobin>> {
        self.weighted().filter(|rules| rules.out_of_band.is_none())
    }
}

pub(super) fn policies_of(cluster: &Cluster) -> Result<(Localities, EndpointPolicy), String> {
    let (localities, policy) = match &cluster.balancing {
        BalancingPolicy::WrrLocality(inner) => (Localities::ByWeight, &**inner),
        policy => (Localities::AreOne, policy),
    };
    match policy {
        BalancingPolicy::RoundRobin => Ok((localities, EndpointPolicy::RoundRobin)),
        BalancingPolicy::LeastRequest(choices) => {
            Ok((localities, EndpointPolicy::LeastRequest((*choices).min(MOST_CHOICES))))
        }
        BalancingPolicy::ClientSideWeightedRoundRobin(rules) => {
            Ok((localities, EndpointPolicy::Weighted(Arc::new(rules.clone()))))
        }
        BalancingPolicy::RingHash(sizes) => Ok((localities, EndpointPolicy::RingHash(*sizes))),
        BalancingPolicy::PickFirst { shuffle } => {
            Ok((localities, EndpointPolicy::PickFirst { shuffle: *shuffle }))
        }
        _ => {
            let (name, policy) = (&cluster.name, &cluster.balancing);
            Err(format!("the LB policy of cluster `{name}` is not supported: {policy}"))
        }
    }
}
