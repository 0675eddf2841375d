//! LB policies of clusters: [gRFC A27], [gRFC A42], [gRFC A48], [gRFC A52] and gRFC A58.
//!
//! [gRFC A27]: https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md
//! [gRFC A42]: https://github.com/grpc/proposal/blob/master/A42-xds-ring-hash-lb-policy.md
//! [gRFC A48]: https://github.com/grpc/proposal/blob/master/A48-xds-least-request-lb-policy.md
//! [gRFC A52]: https://github.com/grpc/proposal/blob/master/A52-xds-custom-lb-policies.md

use alloc::{boxed::Box, string::String, vec::Vec};
use core::{fmt, time::Duration};

use crate::{
    extensions::{ExtensionConfig, decode, validate_extension},
    proto::envoy::{
        config::cluster::v3::{
            self as schema,
            cluster::{LbConfig, LbPolicy, ring_hash_lb_config},
        },
        extensions::load_balancing_policies as policies,
    },
    scalars::validate_duration,
    validation::Validator,
};
use xds_core::proto::{Any, UInt64Value};

/// LB policy of a cluster.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum BalancingPolicy {
    /// Chooses a locality by weight, then applies the inner policy to its endpoints.
    WrrLocality(Box<Self>),
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
    ClientSideWeightedRoundRobin(WeightedRoundRobin),
    /// A policy that only the data plane supports ([`Rules::lb_policies`](crate::Rules)).
    Custom(ExtensionConfig),
}

impl fmt::Display for BalancingPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WrrLocality(inner) => return write!(f, "{inner} in weighted localities"),
            Self::RoundRobin => "round robin",
            Self::RingHash(_) => "ring hash",
            Self::LeastRequest(_) => "least request",
            Self::PickFirst { .. } => "pick first",
            Self::ClientSideWeightedRoundRobin(_) => "weighted round robin",
            Self::Custom(policy) => &policy.type_url,
        })
    }
}

/// Parameters of client-side weighted round robin.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WeightedRoundRobin {
    /// Interval at which endpoints report their load on a separate stream (out of band, gRFC A51).
    /// `None`, the default, means with each response. Default with `enable_oob_load_report`: 10 s.
    pub out_of_band: Option<Duration>,
    /// Time for which an endpoint must have reported its load before its weight is used. Default:
    /// 10 s.
    pub blackout: Duration,
    /// Time after the last report at which the weight is no longer used. Default: 3 min.
    pub expiration: Duration,
    /// Interval at which the weights are renewed. At least 100 ms. Default: 1 s.
    pub update: Duration,
    /// Factor of the share of failed requests, which is added to the utilization. Not negative.
    /// Default: 1.
    pub error_penalty: f32,
    /// Metrics whose maximum is the utilization if the application reports none (gRFC A114). Without
    /// them it is the utilization of the CPU. Names that are not supported are omitted.
    pub utilization_metrics: Vec<UtilizationMetric>,
}

/// Metric of a load report.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UtilizationMetric {
    /// `cpu_utilization`.
    Cpu,
    /// `mem_utilization`.
    Memory,
    /// `application_utilization`.
    Application,
    /// Entry of `named_metrics`.
    Named(String),
}

impl UtilizationMetric {
    /// Parses a name such as `named_metrics.queue`. Returns `None` if it is not supported.
    fn read(name: &str) -> Option<Self> {
        match (name, name.split_once('.')) {
            ("cpu_utilization", _) => Some(Self::Cpu),
            ("mem_utilization", _) => Some(Self::Memory),
            ("application_utilization", _) => Some(Self::Application),
            (_, Some(("named_metrics", key))) => Some(Self::Named(key.into())),
            _ => None,
        }
    }
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
/// Shortest interval at which weights are renewed (gRFC A58).
const SHORTEST_UPDATE: Duration = Duration::from_millis(100);
/// Maximum nesting depth of policies (gRFC A52).
const DEPTH: usize = 16;

pub(super) fn validate_balancing(
    cluster: &schema::Cluster,
    validator: &mut Validator<'_>,
) -> Option<BalancingPolicy> {
    if let Some(policy) = cluster.load_balancing_policy.as_ref() {
        return validator.field("load_balancing_policy", |validator| {
            validate_policies(policy, DEPTH, validator)
        });
    }
    match LbPolicy::try_from(cluster.lb_policy) {
        Ok(LbPolicy::RoundRobin) => {
            Some(BalancingPolicy::WrrLocality(Box::new(BalancingPolicy::RoundRobin)))
        }
        Ok(LbPolicy::RingHash) => {
            let config = match cluster.lb_config.as_ref() {
                Some(LbConfig::RingHashLbConfig(config)) => *config,
                _ => schema::cluster::RingHashLbConfig::default(),
            };
            validator.field("ring_hash_lb_config", |validator| {
                if config.hash_function != ring_hash_lb_config::HashFunction::XxHash as i32 {
                    validator.error_in("hash_function", "must be XX_HASH");
                }
                let sizes = (config.minimum_ring_size, config.maximum_ring_size);
                validate_ring(sizes.0.as_ref(), sizes.1.as_ref(), validator)
            })
        }
        Ok(LbPolicy::LeastRequest) => {
            let count = match cluster.lb_config.as_ref() {
                Some(LbConfig::LeastRequestLbConfig(config)) => config.choice_count.as_ref(),
                _ => None,
            };
            validator.field("least_request_lb_config", |validator| {
                validate_choice_count(count.map(|it| it.value), validator)
            })
        }
        _ => {
            validator.error_in("lb_policy", "must be ROUND_ROBIN, RING_HASH or LEAST_REQUEST");
            None
        }
    }
}

/// Returns the first supported policy of the list. The others are not validated (gRFC A52).
fn validate_policies(
    list: &schema::LoadBalancingPolicy,
    depth: usize,
    validator: &mut Validator<'_>,
) -> Option<BalancingPolicy> {
    let Some(depth) = depth.checked_sub(1) else {
        validator.error(format_args!("policies are nested more than {DEPTH} levels deep"));
        return None;
    };
    for (index, policy) in list.policies.iter().enumerate() {
        let config = policy.typed_extension_config.as_ref();
        let known = validator.element("policies", index, |validator| {
            validator.field("typed_extension_config.typed_config", |validator| {
                let Some(config) = config.and_then(|it| it.typed_config.as_ref()) else {
                    validator.error("must be set");
                    return Known::Yes(None);
                };
                validate_policy(config, depth, validator)
            })
        });
        if let Known::Yes(policy) = known {
            return policy;
        }
    }
    validator.error_in("policies", "none of the policies is known");
    None
}

enum Known {
    Yes(Option<BalancingPolicy>),
    No,
}

fn validate_policy(config: &Any, depth: usize, validator: &mut Validator<'_>) -> Known {
    use policies::{
        client_side_weighted_round_robin::v3::ClientSideWeightedRoundRobin,
        least_request::v3::LeastRequest, pick_first::v3::PickFirst,
        ring_hash::v3::RingHash as Ring, wrr_locality::v3::WrrLocality,
    };
    let name = config.type_url.strip_prefix(PACKAGE).unwrap_or_default();
    let policy = match name {
        "round_robin.v3.RoundRobin" => Some(BalancingPolicy::RoundRobin),
        "wrr_locality.v3.WrrLocality" => {
            decode::<WrrLocality>(&config.value, validator).and_then(|it| {
                validator.field("endpoint_picking_policy", |validator| {
                    let Some(policy) = it.endpoint_picking_policy.as_ref() else {
                        validator.error("must be set");
                        return None;
                    };
                    let policy = validate_policies(policy, depth, validator)?;
                    Some(BalancingPolicy::WrrLocality(Box::new(policy)))
                })
            })
        }
        "ring_hash.v3.RingHash" => decode::<Ring>(&config.value, validator).and_then(|ring| {
            // The default hash function is xxHash too.
            if ring.hash_function > 1 {
                validator.error_in("hash_function", "must be XX_HASH");
            }
            let (least, most) = (ring.minimum_ring_size, ring.maximum_ring_size);
            validate_ring(least.as_ref(), most.as_ref(), validator)
        }),
        "least_request.v3.LeastRequest" => decode::<LeastRequest>(&config.value, validator)
            .and_then(|it| validate_choice_count(it.choice_count.map(|it| it.value), validator)),
        "pick_first.v3.PickFirst" => decode::<PickFirst>(&config.value, validator)
            .map(|it| BalancingPolicy::PickFirst { shuffle: it.shuffle_address_list }),
        "client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin" => {
            decode::<ClientSideWeightedRoundRobin>(&config.value, validator)
                .and_then(|it| validate_client_side_wrr(&it, validator))
                .map(BalancingPolicy::ClientSideWeightedRoundRobin)
        }
        _ => {
            let Some(extension) = validate_extension(config, validator) else {
                return Known::Yes(None);
            };
            if !validator.rules.lb_policies.contains(&extension.type_url) {
                return Known::No;
            }
            Some(BalancingPolicy::Custom(extension))
        }
    };
    Known::Yes(policy)
}

/// Validates the periods and the error penalty of A58.
fn validate_client_side_wrr(
    config: &policies::client_side_weighted_round_robin::v3::ClientSideWeightedRoundRobin,
    validator: &mut Validator<'_>,
) -> Option<WeightedRoundRobin> {
    let mut period = |name, stated: &Option<_>, default| match stated {
        None => Some(default),
        Some(period) => validator.field(name, |validator| validate_duration(period, validator)),
    };
    let seconds = Duration::from_secs;
    let interval = period("oob_reporting_period", &config.oob_reporting_period, seconds(10));
    let is_out_of_band = config.enable_oob_load_report.as_ref().is_some_and(|it| it.value);
    let blackout = period("blackout_period", &config.blackout_period, seconds(10));
    let expiration =
        period("weight_expiration_period", &config.weight_expiration_period, seconds(180));
    let update = period("weight_update_period", &config.weight_update_period, seconds(1));
    let error_penalty = config.error_utilization_penalty.as_ref().map_or(1.0, |it| it.value);
    if error_penalty < 0.0 || error_penalty.is_nan() {
        validator.error_in("error_utilization_penalty", "must not be negative");
    }
    let metrics = config.metric_names_for_computing_utilization.iter();
    Some(WeightedRoundRobin {
        out_of_band: Some(interval?).filter(|_| is_out_of_band),
        blackout: blackout?,
        expiration: expiration?,
        update: update?.max(SHORTEST_UPDATE),
        error_penalty,
        utilization_metrics: metrics.filter_map(|it| UtilizationMetric::read(it)).collect(),
    })
}

fn validate_ring(
    least: Option<&UInt64Value>,
    most: Option<&UInt64Value>,
    validator: &mut Validator<'_>,
) -> Option<BalancingPolicy> {
    let minimum_size = least.map_or(USUAL_RING, |it| it.value);
    let maximum_size = most.map_or(LARGEST_RING, |it| it.value);
    for (name, size) in [("minimum_ring_size", minimum_size), ("maximum_ring_size", maximum_size)] {
        if !(1..=LARGEST_RING).contains(&size) {
            validator.error_in(name, format_args!("must be from 1 to {LARGEST_RING}"));
        }
    }
    if minimum_size > maximum_size {
        validator.error_in("minimum_ring_size", "must not be above maximum_ring_size");
    }
    Some(BalancingPolicy::RingHash(RingHash { minimum_size, maximum_size }))
}

fn validate_choice_count(
    count: Option<u32>,
    validator: &mut Validator<'_>,
) -> Option<BalancingPolicy> {
    let count = count.unwrap_or(2);
    if count < 2 {
        validator.error_in("choice_count", "must be at least 2");
    }
    Some(BalancingPolicy::LeastRequest(count))
}
