//! What to do with the calls of a route.

use alloc::{string::String, vec::Vec};
use core::time::Duration;

use xds_core::{ResourceName, proto::BoolValue};

use super::{
    WhyPassedOver,
    retry::{RetryPolicy, judge_retry},
    weights::{WeightedClusters, judge_weights},
};
use crate::{
    extensions::ExtensionConfig,
    judge::{Judge, Trust},
    pattern::Rewrite,
    proto::envoy::config::route::v3::{self as schema},
    rules::UnknownClusters,
    scalars::{duration, judge_duration},
};
use schema::route_action::{ClusterSpecifier, HostRewriteSpecifier, hash_policy::PolicySpecifier};

/// What to do with the calls of a route.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly all of them are the large one")]
#[non_exhaustive]
pub enum Action {
    /// Send them to a cluster.
    Forward(Forward),
    /// Take them in: this is the server. A call of a client fails with UNAVAILABLE (A36).
    TakeIn,
    /// Something that gRPC does not do: the call fails with UNAVAILABLE (A36).
    Unsupported,
}

/// How calls get to a cluster.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Forward {
    /// Which cluster.
    pub clusters: ClusterChoice,
    /// How long a call may take, if the route says so; zero is without limit (A31).
    pub max_stream_duration: Option<Duration>,
    /// How long it may take at most of what its client allows; zero is all of that (A31).
    pub timeout_header_max: Option<Duration>,
    /// When it is tried again: as the route has it, else the virtual host (A44).
    pub retry: Option<RetryPolicy>,
    /// What calls to the same endpoint have in common, in turn (A42).
    pub hash_policies: Vec<HashPolicy>,
    /// What name is asked for (A81).
    pub host_rewrite: HostRewrite,
}

/// Which cluster.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClusterChoice {
    /// This one (S2.096).
    Cluster(ResourceName),
    /// One of these, by weight (S2.097).
    Weighted(WeightedClusters),
    /// Whichever an extension says.
    Plugin {
        /// The extension's name in the route configuration.
        name: String,
        /// Its configuration.
        config: ExtensionConfig,
    },
}

/// What name a call asks its endpoint for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostRewrite {
    /// The channel's.
    Keep,
    /// The endpoint's, if it has one and the server that sent the route is trusted.
    Endpoint,
}

/// A part of a call that is hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HashPolicy {
    /// What is hashed.
    pub source: HashSource,
    /// Whether those after it are left out if this one was there.
    pub is_terminal: bool,
}

/// What of a call is hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HashSource {
    /// A header's value, after all that the expression fits was replaced.
    Header {
        /// The header's name, in lower case.
        name: String,
        /// What is replaced in its value, and by what.
        rewrite: Option<Rewrite>,
    },
    /// The channel.
    Channel,
}

const CHANNEL_ID: &str = "io.grpc.channel_id";

/// Extensions that choose clusters, by name: known ones, and `None` for optional ones that are not.
pub(crate) type Plugins = alloc::collections::BTreeMap<String, Option<ExtensionConfig>>;

/// An action, or why its route is passed over. A fault has been told in the second case of the inner
/// option.
pub(crate) fn judge_forward(
    action: &schema::RouteAction,
    of_host: Option<&RetryPolicy>,
    plugins: &Plugins,
    judge: &mut Judge<'_>,
) -> Result<Option<Forward>, WhyPassedOver> {
    let retry = match action.retry_policy.as_ref() {
        None => of_host.cloned(),
        Some(policy) => judge.field("retry_policy", |judge| judge_retry(policy, judge)),
    };
    let limits = action.max_stream_duration.as_ref();
    let mut limit = |name, duration: &_| {
        judge.field("max_stream_duration", |judge| {
            judge.field(name, |judge| judge_duration(duration, judge))
        })
    };
    let of_header = limits.and_then(|it| it.grpc_timeout_header_max.as_ref());
    let of_stream = limits.and_then(|it| it.max_stream_duration.as_ref());
    let timeout_header_max = of_header.and_then(|it| limit("grpc_timeout_header_max", it));
    let max_stream_duration = match of_header {
        // It does not count, so that it may be whatever it is.
        Some(_) => of_stream.and_then(duration),
        None => of_stream.and_then(|it| limit("max_stream_duration", it)),
    };
    let mut hash_policies = Vec::new();
    for (index, policy) in action.hash_policy.iter().enumerate() {
        let judged = judge.element("hash_policy", index, |judge| judge_hash(policy, judge));
        hash_policies.extend(judged);
    }
    let host_rewrite = match action.host_rewrite_specifier.as_ref() {
        // From a server that is not trusted it is as if it were not there (A81).
        Some(HostRewriteSpecifier::AutoHostRewrite(BoolValue { value: true }))
            if judge.trust == Trust::Trusted =>
        {
            HostRewrite::Endpoint
        }
        _ => HostRewrite::Keep,
    };
    // Last, since what else is wrong is wrong in a route that is passed over, too.
    let clusters = judge_choice(action, plugins, judge)?;
    Ok(clusters.map(|clusters| Forward {
        clusters,
        max_stream_duration,
        timeout_header_max,
        retry,
        hash_policies,
        host_rewrite,
    }))
}

fn judge_choice(
    action: &schema::RouteAction,
    plugins: &Plugins,
    judge: &mut Judge<'_>,
) -> Result<Option<ClusterChoice>, WhyPassedOver> {
    match action.cluster_specifier.as_ref() {
        Some(ClusterSpecifier::Cluster(name)) => {
            if name.is_empty() {
                judge.fault_in("cluster", "must not be empty");
            }
            Ok(Some(ClusterChoice::Cluster(ResourceName::from(name.as_str()))))
        }
        Some(ClusterSpecifier::WeightedClusters(weights)) => {
            let weights = judge.field("weighted_clusters", |judge| judge_weights(weights, judge));
            Ok(weights.map(ClusterChoice::Weighted))
        }
        Some(ClusterSpecifier::ClusterHeader(_)) => Err(WhyPassedOver::ClusterHeader),
        Some(ClusterSpecifier::ClusterSpecifierPlugin(name)) => match plugins.get(name) {
            Some(Some(config)) => {
                Ok(Some(ClusterChoice::Plugin { name: name.clone(), config: config.clone() }))
            }
            Some(None) => Err(WhyPassedOver::OptionalPlugin),
            None => {
                let why = format_args!("`{name}` is not among the plugins");
                judge.fault_in("cluster_specifier_plugin", why);
                Ok(None)
            }
        },
        Some(ClusterSpecifier::InlineClusterSpecifierPlugin(_)) | None => {
            if judge.rules.unknown_clusters == UnknownClusters::Rejected {
                judge.fault_in("cluster_specifier", "must be cluster or weighted_clusters");
            }
            Err(WhyPassedOver::UnknownClusterSpecifier)
        }
    }
}

fn judge_hash(
    policy: &schema::route_action::HashPolicy,
    judge: &mut Judge<'_>,
) -> Option<HashPolicy> {
    let source = match policy.policy_specifier.as_ref()? {
        PolicySpecifier::Header(header) => judge.field("header", |judge| {
            if header.header_name.is_empty() {
                judge.fault_in("header_name", "must not be empty");
            }
            let name = header.header_name.to_ascii_lowercase();
            let Some(rewrite) = header.regex_rewrite.as_ref() else {
                return Some(HashSource::Header { name, rewrite: None });
            };
            judge.field("regex_rewrite.pattern", |judge| {
                let Some(pattern) = rewrite.pattern.as_ref() else {
                    judge.fault("must be set");
                    return None;
                };
                judge.field("regex", |judge| {
                    if pattern.regex.is_empty() {
                        judge.fault("must not be empty");
                        return None;
                    }
                    let rewrite = judge.rewrite(&pattern.regex, &rewrite.substitution)?;
                    Some(HashSource::Header { name, rewrite: Some(rewrite) })
                })
            })
        })?,
        PolicySpecifier::FilterState(state) if state.key == CHANNEL_ID => HashSource::Channel,
        // Other kinds mean nothing to gRPC.
        PolicySpecifier::FilterState(_) => return None,
    };
    Some(HashPolicy { source, is_terminal: policy.terminal })
}
