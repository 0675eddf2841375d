//! Clusters and endpoints that calls are balanced over.

use alloc::{
    string::{String, ToString as _},
    sync::Arc,
    vec::Vec,
};

use xds_core::proto::Locality as LocalityName;

use super::{
    ConnectorId,
    by_address::{ByAddress, EndpointLocality, Hostnames},
    picker::Limits,
    policy::{EndpointPolicy, Localities, policies_of},
    priority::{Member, Members, WeightedPeers},
    ring::Ring,
};
use crate::{
    cluster::Cluster,
    dependencies::{Children, ClusterConfiguration, ResolvedClusters},
    endpoint::{ClusterLoadAssignment, Endpoint},
    random::Random,
};

/// Returns the leaf clusters that calls to a cluster go to, in order: the cluster itself, or the
/// members of an aggregate.
#[must_use]
pub fn leaves<'a>(
    clusters: &'a ResolvedClusters,
    cluster: &'a Arc<ClusterConfiguration>,
) -> Vec<&'a Arc<ClusterConfiguration>> {
    match &cluster.children {
        Children::Leaf(_) => Vec::from([cluster]),
        Children::Aggregate(names) => {
            let found = names.iter().filter_map(|name| clusters.cluster(name).ok());
            found.filter(|leaf| matches!(leaf.children, Children::Leaf(_))).collect()
        }
    }
}

/// Cluster that calls are balanced over.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Source<'a> {
    /// Cluster.
    pub cluster: &'a Cluster,
    /// Endpoints of the cluster.
    pub endpoints: &'a ClusterLoadAssignment,
    /// Connector for the endpoints, or the reason why there is none.
    pub connector: Result<ConnectorId, String>,
}

impl<'a> Source<'a> {
    /// Creates a source with the default connector.
    #[must_use]
    pub const fn new(cluster: &'a Cluster, endpoints: &'a ClusterLoadAssignment) -> Self {
        Self { cluster, endpoints, connector: Ok(ConnectorId(0)) }
    }

    /// Sets the connector for the endpoints, or the reason why there is none.
    #[must_use]
    pub fn with_connector(self, connector: Result<ConnectorId, String>) -> Self {
        Self { connector, ..self }
    }

    /// Returns the priorities in order, or one that fails if the cluster cannot be used.
    /// Equal addresses are shuffled equally with the same seed, so that they keep their connection.
    pub(super) fn priorities(&self, limits: &Arc<Limits>, seed: u64) -> Vec<Members> {
        let (connector, localities_are, policy) = match self.usable() {
            Ok(usable) => usable,
            Err(why) => {
                let (name, limits) = ((self.cluster.name.clone(), 0), Arc::clone(limits));
                return Vec::from([Members::failing(name, limits, why)]);
            }
        };
        let priorities = self.endpoints.priorities.iter().enumerate();
        let members = priorities.map(|(index, localities)| {
            let mut groups: Vec<EndpointGroup<'_>> = Vec::new();
            for locality in localities {
                let usable = locality.endpoints.iter().filter(|it| it.health.takes_calls());
                let weight = u64::from(locality.weight);
                let name = Arc::new(locality.name.clone());
                let weighted = usable.map(|endpoint| WeightedEndpoint {
                    endpoint,
                    weight: u64::from(endpoint.weight) * weight,
                    locality: Arc::clone(&name),
                });
                match groups.last_mut().filter(|_| localities_are == Localities::AreOne) {
                    Some(all) => all.endpoints.extend(weighted),
                    None => {
                        let (weight, endpoints) = (locality.weight, weighted.collect());
                        groups.push(EndpointGroup { weight, endpoints });
                    }
                }
            }
            let (name, limits) = ((self.cluster.name.clone(), index), Arc::clone(limits));
            let localities = groups.iter().map(|group| group.peers(connector, &policy, seed));
            let outliers = match policy {
                EndpointPolicy::PickFirst { .. } => None,
                // Without an algorithm there is nothing to evaluate.
                _ => self
                    .cluster
                    .outliers
                    .clone()
                    .filter(|it| it.success_rate.is_some() || it.failure_percentage.is_some()),
            };
            let localities = localities.collect();
            let policy = policy.clone();
            Members { name, localities, policy, outliers, limits, failure: None }
        });
        members.collect()
    }

    fn usable(&self) -> Result<(ConnectorId, Localities, EndpointPolicy), String> {
        let (localities, policy) = policies_of(self.cluster)?;
        Ok((self.connector.clone()?, localities, policy))
    }
}

/// Endpoints of a locality, or of all localities of a priority.
struct EndpointGroup<'a> {
    weight: u32,
    endpoints: Vec<WeightedEndpoint<'a>>,
}

struct WeightedEndpoint<'a> {
    endpoint: &'a Endpoint,
    /// Weight of the endpoint, multiplied by that of its locality.
    weight: u64,
    locality: Arc<LocalityName>,
}

impl EndpointGroup<'_> {
    fn peers(&self, connector: ConnectorId, policy: &EndpointPolicy, seed: u64) -> WeightedPeers {
        let members = || {
            let member = |it: &WeightedEndpoint<'_>| Member {
                peer: (connector, it.endpoint.addresses.clone()),
                hostnames: Hostnames::of([it.endpoint]),
                locality: EndpointLocality::One(Arc::clone(&it.locality)),
            };
            self.endpoints.iter().map(member).collect()
        };
        let mut ring = None;
        let members = match policy {
            EndpointPolicy::PickFirst { shuffle } => {
                let endpoints = || self.endpoints.iter().map(|it| it.endpoint);
                let mut all: Vec<_> = endpoints().flat_map(|it| it.addresses.clone()).collect();
                if *shuffle {
                    Random::new(seed).shuffle(&mut all);
                }
                let first = self.endpoints.first().filter(|_| !all.is_empty());
                let member = first.map(|first| Member {
                    peer: (connector, all),
                    hostnames: Hostnames::of(endpoints()),
                    locality: self.localities(&first.locality),
                });
                member.into_iter().collect()
            }
            EndpointPolicy::RingHash(sizes) => {
                let keys = self.endpoints.iter().map(|it| (ring_key(it.endpoint), it.weight));
                ring = Some(Arc::new(Ring::new(*sizes, &keys.collect::<Vec<_>>())));
                members()
            }
            EndpointPolicy::RoundRobin
            | EndpointPolicy::Weighted(_)
            | EndpointPolicy::LeastRequest(_) => members(),
        };
        WeightedPeers { weight: self.weight, endpoints: members, ring }
    }

    /// Returns the localities of all endpoints.
    fn localities(&self, first: &Arc<LocalityName>) -> EndpointLocality {
        match self.endpoints.iter().all(|it| it.locality == *first) {
            true => EndpointLocality::One(Arc::clone(first)),
            false => {
                let all = self.endpoints.iter().map(|it| (it.endpoint, Arc::clone(&it.locality)));
                EndpointLocality::Several(Arc::clone(first), ByAddress::new(all))
            }
        }
    }
}

/// Returns the text whose hashes are the endpoint's positions on a ring: its hash key ([gRFC A76])
/// or else its first address.
///
/// [gRFC A76]: https://github.com/grpc/proposal/blob/master/A76-ring-hash-improvements.md
fn ring_key(endpoint: &Endpoint) -> String {
    match (endpoint.hash_key.is_empty(), endpoint.addresses.first()) {
        (true, Some(address)) => address.to_string(),
        _ => endpoint.hash_key.clone(),
    }
}
