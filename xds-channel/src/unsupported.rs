//! Warnings about features in configurations that a channel does not support.

use core::fmt;
use std::{collections::BTreeSet, sync::Arc};

use xds_core::ResourceName;
use xds_routing::{
    balancer::can_balance,
    cluster::{Cluster, Discovery},
    route::{Action, ClusterChoice, Route, RouteConfiguration, VirtualHost},
};

/// Unsupported feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Feature {
    Policy,
    Plugin,
    LoadReports,
}

impl Feature {
    /// Returns the name of the feature, for messages.
    const fn what(self) -> &'static str {
        match self {
            Self::Policy => "a load balancing policy that is not implemented",
            Self::Plugin => "a cluster specifier plugin",
            Self::LoadReports => "load reporting",
        }
    }

    /// Returns the consequence of ignoring the feature, for messages.
    pub(crate) const fn consequence(self) -> &'static str {
        match self {
            Self::Policy | Self::Plugin => "calls that need it fail",
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
    /// Whether the channel reports its load.
    reports_load: bool,
}

impl UnsupportedFeatures {
    /// Creates the state of a channel that reports its load or not.
    pub(crate) fn of_channel(reports_load: bool) -> Self {
        Self { reports_load, ..Self::default() }
    }

    /// Updates the current configuration. Returns the requests that are new.
    pub(crate) fn renew<'a>(
        &mut self,
        routes: &Arc<RouteConfiguration>,
        host: &VirtualHost,
        clusters: impl Iterator<Item = &'a Cluster>,
    ) -> Vec<FeatureRequest> {
        let mut requests: BTreeSet<FeatureRequest> = clusters.flat_map(of_cluster).collect();
        if self.reports_load {
            requests.retain(|request| request.feature() != Feature::LoadReports);
        }
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

fn of_route(route: &Route) -> Option<Feature> {
    match &route.action {
        Action::Forward(forward) if matches!(forward.clusters, ClusterChoice::Plugin { .. }) => {
            Some(Feature::Plugin)
        }
        _ => None,
    }
}

fn of_cluster(cluster: &Cluster) -> impl Iterator<Item = FeatureRequest> + use<> {
    // Aggregate clusters are balanced by the policies of their members (gRFC A75).
    let is_balanced = matches!(cluster.discovery, Discovery::Aggregate(_)) || can_balance(cluster);
    let features = [
        (!is_balanced).then_some(Feature::Policy),
        cluster.load_reporting.as_ref().map(|_| Feature::LoadReports),
    ];
    let name = cluster.name.clone();
    features
        .into_iter()
        .flatten()
        .map(move |feature| FeatureRequest::Cluster(name.clone(), feature))
}

#[cfg(test)]
mod tests {
    use xds_core::proto::Any;
    use xds_routing::{
        Rules,
        proto::envoy::config::{
            cluster::v3::{
                self as cds,
                cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig},
            },
            core::v3::{
                ConfigSource, SelfConfigSource, TypedExtensionConfig,
                config_source::ConfigSourceSpecifier,
            },
            route::v3::{ClusterSpecifierPlugin, route_action::ClusterSpecifier},
        },
    };

    use super::*;
    use crate::support::{ads, cluster, prefix, route, table, unsupported_policy};

    const PLUGIN: &str = "type.googleapis.com/plugin.Config";

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

    /// Returns routes to a cluster, or to that of a plugin.
    fn routes(specifier: ClusterSpecifier) -> Arc<RouteConfiguration> {
        let mut schema = table(vec![route(prefix(""), specifier)]);
        let config = Any { type_url: PLUGIN.into(), ..Any::default() };
        let extension = TypedExtensionConfig { name: "p".into(), typed_config: Some(config) };
        schema.cluster_specifier_plugins =
            vec![ClusterSpecifierPlugin { extension: Some(extension), is_optional: false }];
        let mut rules = Rules::default();
        rules.cluster_specifiers.push(PLUGIN.into());
        Arc::new(RouteConfiguration::from_schema(&schema, &rules).expect("a route configuration"))
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
        let plain = routes(cluster("c"));
        let plugged = routes(ClusterSpecifier::ClusterSpecifierPlugin("p".into()));
        assert_eq!(told(&plain, &[eds("c")]), [] as [&str; 0]);

        let odd = cds::Cluster { load_balancing_policy: unsupported_policy(), ..eds("odd") };
        let itself = ConfigSource {
            config_source_specifier: Some(ConfigSourceSpecifier::Self_(SelfConfigSource {})),
            ..ConfigSource::default()
        };
        let reported = cds::Cluster { lrs_server: Some(itself), ..eds("c") };
        let of_odd = "cluster `odd` requests a load balancing policy that is not implemented";
        let of_c = "cluster `c` requests load reporting";
        assert_eq!(told(&plain, &[reported.clone(), odd.clone()]), [of_c, of_odd]);
        let of_routes = "route configuration `routes` requests a cluster specifier plugin";
        assert_eq!(told(&plugged, &[reported.clone(), odd.clone()]), [of_routes]);
        assert_eq!(told(&plugged, std::slice::from_ref(&reported)), [] as [&str; 0]);
        assert_eq!(told(&plain, &[reported.clone(), odd]), [of_odd]);
        assert_eq!(told(&plugged, &[]), [of_routes]);
        let mut features = UnsupportedFeatures::of_channel(true);
        let reported = Cluster::from_schema(&reported, &Rules::default()).expect("a cluster");
        let added = features.renew(&plain, &plain.virtual_hosts()[0], core::iter::once(&reported));
        assert_eq!(added, [], "the channel reports its load");
    }
}
