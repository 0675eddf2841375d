//! Warnings about features in configurations that a channel does not support.

use core::fmt;
use std::{collections::BTreeSet, sync::Arc};

use xds_core::ResourceName;
use xds_routing::{
    balancer::can_balance,
    cluster::{Cluster, Discovery, LoadReporting},
    route::{Action, ClusterChoice, HostRewrite, Route, RouteConfiguration, VirtualHost},
};

/// Unsupported feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Feature {
    Policy,
    Plugin,
    HostRewrite,
    OutlierDetection,
    LoadReports,
}

impl Feature {
    /// Returns the name of the feature, for messages.
    const fn what(self) -> &'static str {
        match self {
            Self::Policy => {
                "a load balancing policy other than round robin, least request and pick first"
            }
            Self::Plugin => "a cluster specifier plugin",
            Self::HostRewrite => "authority rewriting",
            Self::OutlierDetection => "outlier detection",
            Self::LoadReports => "load reporting",
        }
    }

    /// Returns the consequence of ignoring the feature, for messages.
    pub(crate) const fn consequence(self) -> &'static str {
        match self {
            Self::Policy | Self::Plugin => "calls that need it fail",
            Self::HostRewrite => "calls have the channel's name as their authority",
            Self::OutlierDetection => "failing endpoints are not ejected",
            Self::LoadReports => "load is not reported",
        }
    }
}

/// Resource that requests an unsupported feature.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FeatureRequest {
    Routes(ResourceName, Feature),
    Cluster(ResourceName, Feature),
}

impl FeatureRequest {
    pub(crate) const fn feature(&self) -> Feature {
        match self {
            Self::Routes(_, feature) | Self::Cluster(_, feature) => *feature,
        }
    }
}

impl fmt::Display for FeatureRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Routes(name, feature) => {
                write!(f, "route configuration `{name}` requests {}", feature.what())
            }
            Self::Cluster(name, feature) => {
                write!(f, "cluster `{name}` requests {}", feature.what())
            }
        }
    }
}

/// Unsupported features requested by the current configuration.
#[derive(Debug, Default)]
pub(crate) struct UnsupportedFeatures {
    /// Requests of the routes, and the route configuration they were computed from.
    routes: Option<(Arc<RouteConfiguration>, BTreeSet<FeatureRequest>)>,
    requests: BTreeSet<FeatureRequest>,
}

impl UnsupportedFeatures {
    /// Updates the current configuration. Returns the requests that are new.
    pub(crate) fn renew<'a>(
        &mut self,
        routes: &Arc<RouteConfiguration>,
        host: &VirtualHost,
        clusters: impl Iterator<Item = &'a Cluster>,
    ) -> Vec<FeatureRequest> {
        let mut requests: BTreeSet<FeatureRequest> = clusters.flat_map(of_cluster).collect();
        let known = self.routes.take().filter(|(known, _)| Arc::ptr_eq(known, routes));
        let (_, of_routes) = self.routes.insert(known.unwrap_or_else(|| {
            let features = host.routes().iter().flat_map(of_route);
            let of_routes =
                features.map(|feature| FeatureRequest::Routes(routes.name().clone(), feature));
            (Arc::clone(routes), of_routes.collect())
        }));
        requests.extend(of_routes.iter().cloned());
        let added = requests.difference(&self.requests).cloned().collect();
        self.requests = requests;
        added
    }
}

fn of_route(route: &Route) -> impl Iterator<Item = Feature> + use<> {
    let features = match &route.action {
        Action::Forward(forward) => [
            matches!(forward.clusters, ClusterChoice::Plugin { .. }).then_some(Feature::Plugin),
            (forward.host_rewrite == HostRewrite::Endpoint).then_some(Feature::HostRewrite),
        ],
        _ => [None; 2],
    };
    features.into_iter().flatten()
}

fn of_cluster(cluster: &Cluster) -> impl Iterator<Item = FeatureRequest> + use<> {
    // Aggregate clusters are balanced by the policies of their members (gRFC A75).
    let is_balanced = matches!(cluster.discovery, Discovery::Aggregate(_)) || can_balance(cluster);
    let features = [
        (!is_balanced).then_some(Feature::Policy),
        cluster.outliers.is_some().then_some(Feature::OutlierDetection),
        (cluster.load_reporting == LoadReporting::SameServer).then_some(Feature::LoadReports),
    ];
    let name = cluster.name.clone();
    features
        .into_iter()
        .flatten()
        .map(move |feature| FeatureRequest::Cluster(name.clone(), feature))
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use xds_core::{
        client::{
            Profile, ResourceType as _, ServerAddress, ServerFeature, ServerFeatures,
            ValidationContext,
        },
        proto::BoolValue,
    };
    use xds_routing::{
        RouteConfigurations, Rules,
        proto::envoy::config::{
            cluster::v3::{
                self as cds, OutlierDetection,
                cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig, LbPolicy},
            },
            route::v3::{RouteAction, route_action::HostRewriteSpecifier},
        },
    };

    use super::*;
    use crate::support::{action, ads, cluster, prefix, route_to, table};

    fn eds(name: &str) -> cds::Cluster {
        cds::Cluster {
            name: name.into(),
            cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)),
            eds_cluster_config: Some(EdsClusterConfig {
                eds_config: ads(),
                ..EdsClusterConfig::default()
            }),
            ..cds::Cluster::default()
        }
    }

    /// Returns a route configuration of a trusted server, which may request authority rewriting.
    fn routes(rewrites: bool) -> Arc<RouteConfiguration> {
        let rewrite = HostRewriteSpecifier::AutoHostRewrite(BoolValue { value: rewrites });
        let action = RouteAction { host_rewrite_specifier: Some(rewrite), ..action(cluster("c")) };
        let bytes = table(vec![route_to(prefix(""), action)]).encode_to_vec().into();
        let features = ServerFeatures::NONE.with(ServerFeature::TrustedXdsServer);
        let (server, profile) = (ServerAddress::new("s").with_features(features), Profile::grpc());
        let context = ValidationContext::new(&server, &profile);
        let value = RouteConfigurations::default().validate(&bytes, &context);
        value.expect("valid").expect("a value").downcast().expect("a table")
    }

    /// A request for an unsupported feature is reported when it first appears, and again if it was
    /// absent in between.
    #[test]
    fn unsupported_feature_is_reported_when_it_appears() {
        let mut features = UnsupportedFeatures::default();
        let mut told = |routes: &Arc<RouteConfiguration>, clusters: &[cds::Cluster]| {
            let clusters: Vec<_> = clusters
                .iter()
                .map(|it| Cluster::from_schema(it, &Rules::default()).expect("a cluster"))
                .collect();
            let added = features.renew(routes, &routes.virtual_hosts()[0], clusters.iter());
            added.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let (plain, rewriting) = (routes(false), routes(true));
        assert_eq!(told(&plain, &[eds("c")]), [] as [&str; 0]);

        let ring = cds::Cluster { lb_policy: LbPolicy::RingHash as i32, ..eds("ring") };
        let ejecting =
            cds::Cluster { outlier_detection: Some(OutlierDetection::default()), ..eds("c") };
        let of_ring = "cluster `ring` requests a load balancing policy other than round robin, least \
                       request and pick first";
        let of_c = "cluster `c` requests outlier detection";
        assert_eq!(told(&plain, &[ejecting.clone(), ring.clone()]), [of_c, of_ring]);
        let of_routes = "route configuration `routes` requests authority rewriting";
        assert_eq!(told(&rewriting, &[ejecting.clone(), ring.clone()]), [of_routes]);
        assert_eq!(told(&rewriting, std::slice::from_ref(&ejecting)), [] as [&str; 0]);
        assert_eq!(told(&plain, &[ejecting, ring]), [of_ring]);
        assert_eq!(told(&rewriting, &[]), [of_routes]);
    }
}
