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
    limits::Limits,
    policy::{EndpointPolicy, Localities, policies_of},
    priority::{Member, Members, SessionMembers, WeightedPeers},
    ring::Ring,
};
use crate::{
    cluster::Cluster,
    dependencies::{Children, ClusterConfiguration, ResolvedClusters},
    endpoint::{ClusterLoadAssignment, Endpoint, Locality},
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
        let members = priorities.map(|(index, priority)| {
            let mut groups: Vec<EndpointGroup<'_>> = Vec::new();
            for locality in priority {
                let usable = weighted(locality).filter(|it| it.endpoint.health.takes_calls());
                match groups.last_mut().filter(|_| localities_are == Localities::AreOne) {
                    Some(all) => all.endpoints.extend(usable),
                    None => {
                        let (weight, endpoints) = (locality.weight, usable.collect());
                        groups.push(EndpointGroup { weight, endpoints });
                    }
                }
            }
            let (name, limits) = ((self.cluster.name.clone(), index), Arc::clone(limits));
            let localities = groups.iter().map(|group| self.peers(group, connector, &policy, seed));
            let outliers = match policy {
                EndpointPolicy::PickFirst { .. } => None,
                // Without an algorithm there is nothing to evaluate.
                _ => self
                    .cluster
                    .outliers
                    .clone()
                    .filter(|it| it.success_rate.is_some() || it.failure_percentage.is_some()),
            };
            let localities: Vec<_> = localities.collect();
            let sessions =
                self.session_members(priority.iter().flat_map(weighted), connector, &policy);
            let policy = policy.clone();
            Members { name, localities, policy, outliers, limits, sessions, failure: None }
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

/// Returns the endpoints of a locality.
fn weighted(locality: &Locality) -> impl Iterator<Item = WeightedEndpoint<'_>> {
    let name = Arc::new(locality.name.clone());
    locality.endpoints.iter().map(move |endpoint| WeightedEndpoint {
        endpoint,
        weight: u64::from(endpoint.weight) * u64::from(locality.weight),
        locality: Arc::clone(&name),
    })
}

impl Source<'_> {
    fn member(&self, connector: ConnectorId, weighted: &WeightedEndpoint<'_>) -> Member {
        let WeightedEndpoint { endpoint, locality, .. } = weighted;
        Member {
            peer: (connector, endpoint.addresses.clone()),
            hostnames: Hostnames::of([*endpoint]),
            locality: EndpointLocality::One(Arc::clone(locality)),
            takes_sessions: self.cluster.override_host_status.contains(&endpoint.health),
        }
    }

    /// Returns the endpoints of a priority for sessions. Endpoints that get no other calls are only
    /// among them if sessions can use them.
    fn session_members<'a>(
        &self,
        endpoints: impl Iterator<Item = WeightedEndpoint<'a>>,
        connector: ConnectorId,
        policy: &EndpointPolicy,
    ) -> SessionMembers {
        let idle_timeout = self.cluster.idle_timeout;
        let connects_to_each = !matches!(policy, EndpointPolicy::PickFirst { .. });
        let members = endpoints
            .filter(|it| !(connects_to_each && it.endpoint.health.takes_calls()))
            .map(|endpoint| self.member(connector, &endpoint));
        let others = members.filter(|member| member.takes_sessions).collect();
        SessionMembers { idle_timeout, connects_to_each, others }
    }

    fn peers(
        &self,
        group: &EndpointGroup<'_>,
        connector: ConnectorId,
        policy: &EndpointPolicy,
        seed: u64,
    ) -> WeightedPeers {
        let members = || group.endpoints.iter().map(|it| self.member(connector, it)).collect();
        let mut ring = None;
        let members = match policy {
            EndpointPolicy::PickFirst { shuffle } => {
                let endpoints = || group.endpoints.iter().map(|it| it.endpoint);
                let mut all: Vec<_> = endpoints().flat_map(|it| it.addresses.clone()).collect();
                if *shuffle {
                    Random::new(seed).shuffle(&mut all);
                }
                let first = group.endpoints.first().filter(|_| !all.is_empty());
                let member = first.map(|first| Member {
                    peer: (connector, all),
                    hostnames: Hostnames::of(endpoints()),
                    locality: group.localities(&first.locality),
                    takes_sessions: false,
                });
                member.into_iter().collect()
            }
            EndpointPolicy::RingHash(sizes) => {
                let keys = group.endpoints.iter().map(|it| (ring_key(it.endpoint), it.weight));
                ring = Some(Arc::new(Ring::new(*sizes, &keys.collect::<Vec<_>>())));
                members()
            }
            EndpointPolicy::RoundRobin
            | EndpointPolicy::Weighted(_)
            | EndpointPolicy::LeastRequest(_) => members(),
        };
        WeightedPeers { weight: group.weight, endpoints: members, ring }
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
