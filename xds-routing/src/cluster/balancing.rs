//! LB policies of clusters: [gRFC A27], [gRFC A42], [gRFC A48], [gRFC A52] and gRFC A58.
//!
//! [gRFC A27]: https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md
//! [gRFC A42]: https://github.com/grpc/proposal/blob/master/A42-xds-ring-hash-lb-policy.md
//! [gRFC A48]: https://github.com/grpc/proposal/blob/master/A48-xds-least-request-lb-policy.md
//! [gRFC A52]: https://github.com/grpc/proposal/blob/master/A52-xds-custom-lb-policies.md

use alloc::boxed::Box;

use crate::{
    extensions::{ExtensionConfig, decode, judge_extension},
    proto::envoy::{
        config::cluster::v3::{
            self as schema,
            cluster::{LbConfig, LbPolicy, ring_hash_lb_config},
        },
        extensions::load_balancing_policies as policies,
    },
    scalars::judge_duration,
    validation::Judge,
};
use xds_core::proto::{Any, UInt64Value};

/// LB policy of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BalancingPolicy {
    /// Chooses a locality by weight, then applies the inner policy to its endpoints.
    Localities(Box<Self>),
    /// Round robin.
    RoundRobin,
    /// Ring hash (gRFC A42).
    RingHash(RingHash),
    /// Least request: the endpoint with the fewest active calls among this many random ones (gRFC
    /// A48). Default: 2.
    LeastRequest(u32),
    /// Pick first: the first address that accepts a connection.
    PickFirst {
        /// Whether the addresses are shuffled first.
        shuffle: bool,
    },
    /// Client-side weighted round robin, by weights that the endpoints report (gRFC A58).
    Reported(ExtensionConfig),
    /// A policy that only the data plane supports ([`Rules::lb_policies`](crate::Rules)).
    Custom(ExtensionConfig),
}

/// Parameters of ring hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingHash {
    /// Minimum number of entries of the ring. Default: 1,024.
    pub minimum_size: u64,
    /// Maximum number of entries of the ring. Default and upper limit: 8,388,608.
    pub maximum_size: u64,
}

const PACKAGE: &str = "type.googleapis.com/envoy.extensions.load_balancing_policies.";
const LARGEST_RING: u64 = 8 * 1_024 * 1_024;
const USUAL_RING: u64 = 1_024;
/// Maximum nesting depth of policies (gRFC A52).
const DEPTH: usize = 16;

pub(super) fn judge_balancing(
    cluster: &schema::Cluster,
    judge: &mut Judge<'_>,
) -> Option<BalancingPolicy> {
    if let Some(policy) = cluster.load_balancing_policy.as_ref() {
        return judge.field("load_balancing_policy", |judge| judge_policies(policy, DEPTH, judge));
    }
    match LbPolicy::try_from(cluster.lb_policy) {
        Ok(LbPolicy::RoundRobin) => {
            Some(BalancingPolicy::Localities(Box::new(BalancingPolicy::RoundRobin)))
        }
        Ok(LbPolicy::RingHash) => {
            let config = match cluster.lb_config.as_ref() {
                Some(LbConfig::RingHashLbConfig(config)) => *config,
                _ => schema::cluster::RingHashLbConfig::default(),
            };
            judge.field("ring_hash_lb_config", |judge| {
                if config.hash_function != ring_hash_lb_config::HashFunction::XxHash as i32 {
                    judge.fault_in("hash_function", "must be XX_HASH");
                }
                let sizes = (config.minimum_ring_size, config.maximum_ring_size);
                judge_ring(sizes.0.as_ref(), sizes.1.as_ref(), judge)
            })
        }
        Ok(LbPolicy::LeastRequest) => {
            let count = match cluster.lb_config.as_ref() {
                Some(LbConfig::LeastRequestLbConfig(config)) => config.choice_count.as_ref(),
                _ => None,
            };
            judge.field("least_request_lb_config", |judge| {
                judge_choice_count(count.map(|it| it.value), judge)
            })
        }
        _ => {
            judge.fault_in("lb_policy", "must be ROUND_ROBIN, RING_HASH or LEAST_REQUEST");
            None
        }
    }
}

/// Returns the first supported policy of the list. The others are not validated (gRFC A52).
fn judge_policies(
    list: &schema::LoadBalancingPolicy,
    depth: usize,
    judge: &mut Judge<'_>,
) -> Option<BalancingPolicy> {
    let Some(depth) = depth.checked_sub(1) else {
        judge.fault(format_args!("more than {DEPTH} policies inside one another"));
        return None;
    };
    for (index, policy) in list.policies.iter().enumerate() {
        let config = policy.typed_extension_config.as_ref();
        let known = judge.element("policies", index, |judge| {
            judge.field("typed_extension_config.typed_config", |judge| {
                let Some(config) = config.and_then(|it| it.typed_config.as_ref()) else {
                    judge.fault("must be set");
                    return Known::Yes(None);
                };
                judge_policy(config, depth, judge)
            })
        });
        if let Known::Yes(policy) = known {
            return policy;
        }
    }
    judge.fault_in("policies", "none of them is known");
    None
}

enum Known {
    Yes(Option<BalancingPolicy>),
    No,
}

fn judge_policy(config: &Any, depth: usize, judge: &mut Judge<'_>) -> Known {
    use policies::{
        client_side_weighted_round_robin::v3::ClientSideWeightedRoundRobin,
        least_request::v3::LeastRequest, pick_first::v3::PickFirst,
        ring_hash::v3::RingHash as Ring, wrr_locality::v3::WrrLocality,
    };
    let name = config.type_url.strip_prefix(PACKAGE).unwrap_or_default();
    let policy = match name {
        "round_robin.v3.RoundRobin" => Some(BalancingPolicy::RoundRobin),
        "wrr_locality.v3.WrrLocality" => {
            decode::<WrrLocality>(&config.value, judge).and_then(|it| {
                judge.field("endpoint_picking_policy", |judge| {
                    let Some(policy) = it.endpoint_picking_policy.as_ref() else {
                        judge.fault("must be set");
                        return None;
                    };
                    let policy = judge_policies(policy, depth, judge)?;
                    Some(BalancingPolicy::Localities(Box::new(policy)))
                })
            })
        }
        "ring_hash.v3.RingHash" => decode::<Ring>(&config.value, judge).and_then(|ring| {
            // The default hash function is xxHash too.
            if ring.hash_function > 1 {
                judge.fault_in("hash_function", "must be XX_HASH");
            }
            let (least, most) = (ring.minimum_ring_size, ring.maximum_ring_size);
            judge_ring(least.as_ref(), most.as_ref(), judge)
        }),
        "least_request.v3.LeastRequest" => decode::<LeastRequest>(&config.value, judge)
            .and_then(|it| judge_choice_count(it.choice_count.map(|it| it.value), judge)),
        "pick_first.v3.PickFirst" => decode::<PickFirst>(&config.value, judge)
            .map(|it| BalancingPolicy::PickFirst { shuffle: it.shuffle_address_list }),
        "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin" => {
            decode::<ClientSideWeightedRoundRobin>(&config.value, judge).and_then(|it| {
                judge_reported(&it, judge);
                judge_extension(config, judge).map(BalancingPolicy::Reported)
            })
        }
        _ => {
            let Some(extension) = judge_extension(config, judge) else {
                return Known::Yes(None);
            };
            if !judge.rules.lb_policies.contains(&extension.type_url) {
                return Known::No;
            }
            Some(BalancingPolicy::Custom(extension))
        }
    };
    Known::Yes(policy)
}

/// Validates the periods and the error penalty of A58.
fn judge_reported(
    config: &policies::client_side_weighted_round_robin::v3::ClientSideWeightedRoundRobin,
    judge: &mut Judge<'_>,
) {
    for (name, period) in [
        ("oob_reporting_period", &config.oob_reporting_period),
        ("blackout_period", &config.blackout_period),
        ("weight_expiration_period", &config.weight_expiration_period),
        ("weight_update_period", &config.weight_update_period),
    ] {
        if let Some(period) = period {
            judge.field(name, |judge| judge_duration(period, judge));
        }
    }
    if config.error_utilization_penalty.as_ref().is_some_and(|it| it.value < 0.0) {
        judge.fault_in("error_utilization_penalty", "must not be below zero");
    }
}

fn judge_ring(
    least: Option<&UInt64Value>,
    most: Option<&UInt64Value>,
    judge: &mut Judge<'_>,
) -> Option<BalancingPolicy> {
    let minimum_size = least.map_or(USUAL_RING, |it| it.value);
    let maximum_size = most.map_or(LARGEST_RING, |it| it.value);
    for (name, size) in [("minimum_ring_size", minimum_size), ("maximum_ring_size", maximum_size)] {
        if !(1..=LARGEST_RING).contains(&size) {
            judge.fault_in(name, format_args!("must be from 1 to {LARGEST_RING}"));
        }
    }
    if minimum_size > maximum_size {
        judge.fault_in("minimum_ring_size", "must not be above maximum_ring_size");
    }
    Some(BalancingPolicy::RingHash(RingHash { minimum_size, maximum_size }))
}

fn judge_choice_count(count: Option<u32>, judge: &mut Judge<'_>) -> Option<BalancingPolicy> {
    let count = count.unwrap_or(2);
    if count < 2 {
        judge.fault_in("choice_count", "must be at least 2");
    }
    Some(BalancingPolicy::LeastRequest(count))
}
