//! Warnings about features in configurations that a channel does not support.

use core::fmt;
use std::{collections::BTreeSet, sync::Arc};

use xds_core::ResourceName;
use xds_routing::{
    balancer::can_balance,
    cluster::{Cluster, Discovery, LoadReporting},
    route::{Action, ClusterChoice, Forward, HostRewrite, Route, RouteConfiguration, VirtualHost},
};

/// Unsupported feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lack {
    Policy,
    Plugin,
    Retries,
    HostRewrite,
    OutlierDetection,
    LoadReports,
}

impl Lack {
    /// Returns the name of the feature, for messages.
    const fn what(self) -> &'static str {
        match self {
            Self::Policy => "another policy than round robin",
            Self::Plugin => "a cluster that a plugin chooses",
            Self::Retries => "retries",
            Self::HostRewrite => "the endpoint's name in place of the channel's",
            Self::OutlierDetection => "outlier detection",
            Self::LoadReports => "load reports",
        }
    }

    /// Returns the consequence of ignoring the feature, for messages.
    pub(crate) const fn consequence(self) -> &'static str {
        match self {
            Self::Policy | Self::Plugin => "calls that need it fail",
            Self::Retries => "a call fails with what its endpoint first says",
            Self::HostRewrite => "calls have the channel's name",
            Self::OutlierDetection => "endpoints get calls whatever came of those before",
            Self::LoadReports => "nobody is told of the load",
        }
    }
}

/// Resource that requests an unsupported feature.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asked {
    Routes(ResourceName, Lack),
    Cluster(ResourceName, Lack),
}

impl Asked {
    pub(crate) const fn lack(&self) -> Lack {
        match self {
            Self::Routes(_, lack) | Self::Cluster(_, lack) => *lack,
        }
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Routes(name, lack) => {
                write!(f, "route configuration `{name}` asks for {}", lack.what())
            }
            Self::Cluster(name, lack) => write!(f, "cluster `{name}` asks for {}", lack.what()),
        }
    }
}

/// Unsupported features requested by the current configuration.
#[derive(Debug, Default)]
pub(crate) struct Lacks {
    /// Requests of the routes, and the route configuration they were computed from.
    routes: Option<(Arc<RouteConfiguration>, BTreeSet<Asked>)>,
    asked: BTreeSet<Asked>,
}

impl Lacks {
    /// Updates the current configuration. Returns the requests that are new.
    pub(crate) fn renew<'a>(
        &mut self,
        routes: &Arc<RouteConfiguration>,
        host: &VirtualHost,
        clusters: impl Iterator<Item = &'a Cluster>,
    ) -> Vec<Asked> {
        let mut asked: BTreeSet<Asked> = clusters.flat_map(of_cluster).collect();
        let known = self.routes.take().filter(|(known, _)| Arc::ptr_eq(known, routes));
        let (_, of_them) = self.routes.insert(known.unwrap_or_else(|| {
            let lacks = host.routes().iter().flat_map(of_route);
            let of_them = lacks.map(|lack| Asked::Routes(routes.name().clone(), lack));
            (Arc::clone(routes), of_them.collect())
        }));
        asked.extend(of_them.iter().cloned());
        let news = asked.difference(&self.asked).cloned().collect();
        self.asked = asked;
        news
    }
}

fn of_route(route: &Route) -> impl Iterator<Item = Lack> + use<> {
    let lacks = match &route.action {
        Action::Forward(forward) => [
            matches!(forward.clusters, ClusterChoice::Plugin { .. }).then_some(Lack::Plugin),
            is_tried_again(forward).then_some(Lack::Retries),
            (forward.host_rewrite == HostRewrite::Endpoint).then_some(Lack::HostRewrite),
        ],
        _ => [None; 3],
    };
    lacks.into_iter().flatten()
}

fn is_tried_again(forward: &Forward) -> bool {
    forward.retry.as_ref().is_some_and(|retry| !retry.statuses.is_empty())
}

fn of_cluster(cluster: &Cluster) -> impl Iterator<Item = Asked> + use<> {
    // Aggregate clusters are balanced by the policies of their members (gRFC A75).
    let is_balanced = matches!(cluster.discovery, Discovery::Aggregate(_)) || can_balance(cluster);
    let lacks = [
        (!is_balanced).then_some(Lack::Policy),
        cluster.outliers.is_some().then_some(Lack::OutlierDetection),
        (cluster.load_reporting == LoadReporting::SameServer).then_some(Lack::LoadReports),
    ];
    let name = cluster.name.clone();
    lacks.into_iter().flatten().map(move |lack| Asked::Cluster(name.clone(), lack))
}

#[cfg(test)]
mod tests;
