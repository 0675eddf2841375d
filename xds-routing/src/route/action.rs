//! Actions of routes.

use alloc::{string::String, vec::Vec};
use core::time::Duration;

use xds_core::{ResourceName, proto::BoolValue};

use super::{
    SkipReason,
    hash::{HashPolicy, combined_hash, validate_hash},
    retry::{RetryPolicy, validate_retry},
    weights::{WeightedClusters, validate_weights},
};
use crate::{
    extensions::ExtensionConfig,
    pattern::Headers,
    proto::envoy::config::route::v3::{self as schema},
    rules::UnknownClusters,
    scalars::{duration, validate_duration},
    validation::{Trust, Validator},
};
use schema::route_action::{ClusterSpecifier, HostRewriteSpecifier};

/// Action for the calls of a route.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "nearly all values are the large variant")]
#[non_exhaustive]
pub enum Action {
    /// Forwards the calls to a cluster.
    Forward(Forward),
    /// `non_forwarding_action`: the server handles the call. On a client the call fails with
    /// UNAVAILABLE (gRFC A36).
    NonForwarding,
    /// An action that gRPC does not support. The call fails with UNAVAILABLE (gRFC A36).
    Unsupported,
}

/// Forwarding of calls to a cluster.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Forward {
    /// Choice of the cluster.
    pub clusters: ClusterChoice,
    /// Maximum duration of a call (`max_stream_duration`), if the route sets one. Zero means no
    /// limit (gRFC A31).
    pub max_stream_duration: Option<Duration>,
    /// Upper bound for the timeout that the client sets (`grpc_timeout_header_max`). Zero means no
    /// bound (gRFC A31).
    pub timeout_header_max: Option<Duration>,
    /// Retry policy of the route or, if it has none, of the virtual host (gRFC A44).
    pub retry: Option<RetryPolicy>,
    /// Hash policies for session affinity, in order (gRFC A42).
    pub hash_policies: Vec<HashPolicy>,
    /// Authority that calls ask for (gRFC A81).
    pub host_rewrite: HostRewrite,
}

impl Forward {
    /// Returns the hash of a call, from which ring hash chooses an endpoint. `None` if no policy
    /// produces one; then the choice is random. `channel` is an arbitrary number that identifies the
    /// channel.
    ///
    /// Texts are hashed with XXH64 and seed 0. Several hashes are combined in order.
    // B33a
    #[must_use]
    pub fn hash(&self, headers: &(impl Headers + ?Sized), channel: u64) -> Option<u64> {
        combined_hash(&self.hash_policies, headers, channel)
    }
}

/// Choice of the cluster of a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClusterChoice {
    /// This cluster.
    // S2.096
    Cluster(ResourceName),
    /// One of these clusters, chosen at random by weight.
    // S2.097
    Weighted(WeightedClusters),
    /// The cluster chosen by a cluster specifier plugin.
    Plugin {
        /// Name of the plugin in the route configuration.
        name: String,
        /// Configuration of the plugin.
        config: ExtensionConfig,
    },
}

impl ClusterChoice {
    /// Returns the cluster with this name, if calls of the route can go to it.
    pub(crate) fn get(&self, name: &str) -> Option<&ResourceName> {
        match self {
            Self::Cluster(cluster) => Some(cluster).filter(|it| it.as_str() == name),
            Self::Weighted(weights) => {
                let mut names = weights.clusters().iter().map(|it| &it.name);
                names.find(|it| it.as_str() == name)
            }
            Self::Plugin { .. } => None,
        }
    }
}

/// Authority that a call asks its endpoint for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostRewrite {
    /// Authority of the channel.
    #[default]
    Keep,
    /// Hostname of the endpoint, if it has one (`auto_host_rewrite`). Only a trusted server can set
    /// this.
    Endpoint,
}

/// Cluster specifier plugins by name. `None` is an optional plugin that is not supported.
pub(crate) type Plugins = alloc::collections::BTreeMap<String, Option<ExtensionConfig>>;

/// Validates a forwarding action. `Err` is the reason for skipping the route. `Ok(None)` means that
/// an error was recorded.
pub(crate) fn validate_forward(
    action: &schema::RouteAction,
    of_host: Option<&RetryPolicy>,
    plugins: &Plugins,
    validator: &mut Validator<'_>,
) -> Result<Option<Forward>, SkipReason> {
    let retry = match action.retry_policy.as_ref() {
        None => of_host.cloned(),
        Some(policy) => {
            validator.field("retry_policy", |validator| validate_retry(policy, validator))
        }
    };
    let limits = action.max_stream_duration.as_ref();
    let mut limit = |name, duration: &_| {
        validator.field("max_stream_duration", |validator| {
            validator.field(name, |validator| validate_duration(duration, validator))
        })
    };
    let of_header = limits.and_then(|it| it.grpc_timeout_header_max.as_ref());
    let of_stream = limits.and_then(|it| it.max_stream_duration.as_ref());
    let timeout_header_max = of_header.and_then(|it| limit("grpc_timeout_header_max", it));
    let max_stream_duration = match of_header {
        // `grpc_timeout_header_max` takes precedence, so this value is unused and may be invalid.
        Some(_) => of_stream.and_then(duration),
        None => of_stream.and_then(|it| limit("max_stream_duration", it)),
    };
    let mut hash_policies = Vec::new();
    for (index, policy) in action.hash_policy.iter().enumerate() {
        let validated =
            validator.element("hash_policy", index, |validator| validate_hash(policy, validator));
        hash_policies.extend(validated);
    }
    let host_rewrite = match action.host_rewrite_specifier.as_ref() {
        // Ignored if the server is not trusted (A81).
        Some(HostRewriteSpecifier::AutoHostRewrite(BoolValue { value: true }))
            if validator.trust() == Trust::Trusted =>
        {
            HostRewrite::Endpoint
        }
        _ => HostRewrite::Keep,
    };
    // Last, because errors elsewhere in the route count even if the route is skipped.
    let clusters = validate_choice(action, plugins, validator)?;
    Ok(clusters.map(|clusters| Forward {
        clusters,
        max_stream_duration,
        timeout_header_max,
        retry,
        hash_policies,
        host_rewrite,
    }))
}

fn validate_choice(
    action: &schema::RouteAction,
    plugins: &Plugins,
    validator: &mut Validator<'_>,
) -> Result<Option<ClusterChoice>, SkipReason> {
    match action.cluster_specifier.as_ref() {
        Some(ClusterSpecifier::Cluster(name)) => {
            if name.is_empty() {
                validator.error_in("cluster", "must not be empty");
            }
            Ok(Some(ClusterChoice::Cluster(ResourceName::from(name.as_str()))))
        }
        Some(ClusterSpecifier::WeightedClusters(weights)) => {
            let weights = validator
                .field("weighted_clusters", |validator| validate_weights(weights, validator));
            Ok(weights.map(ClusterChoice::Weighted))
        }
        Some(ClusterSpecifier::ClusterHeader(_)) => Err(SkipReason::ClusterHeader),
        Some(ClusterSpecifier::ClusterSpecifierPlugin(name)) => match plugins.get(name) {
            Some(Some(config)) => {
                Ok(Some(ClusterChoice::Plugin { name: name.clone(), config: config.clone() }))
            }
            Some(None) => Err(SkipReason::OptionalPlugin),
            None => {
                let why = format_args!("plugin `{name}` is not defined");
                validator.error_in("cluster_specifier_plugin", why);
                Ok(None)
            }
        },
        Some(ClusterSpecifier::InlineClusterSpecifierPlugin(_)) | None => {
            if validator.rules.unknown_clusters == UnknownClusters::Rejected {
                validator.error_in("cluster_specifier", "must be cluster or weighted_clusters");
            }
            Err(SkipReason::UnknownClusterSpecifier)
        }
    }
}
