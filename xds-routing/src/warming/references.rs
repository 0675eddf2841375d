//! References of listeners and clusters, with their timeouts.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};
use core::time::Duration;

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    ResourceName,
    references::{EnvoyReferences, ReferenceExtractor as _, ReferenceTarget},
};

use super::INITIAL_FETCH_TIMEOUT;
use crate::{
    dependencies::{Dependency, DependencyKind},
    proto::envoy::{
        config::{
            cluster::v3::Cluster,
            core::v3::ConfigSource,
            listener::v3::{Filter, Listener, filter::ConfigType},
        },
        extensions::filters::network::http_connection_manager::v3::{
            HttpConnectionManager, http_connection_manager::RouteSpecifier,
        },
    },
};

/// Reference of a listener or a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TimedDependency {
    pub(super) dependency: Dependency,
    /// Time for which the reference is waited for. `None` means no limit.
    pub(super) timeout: Option<Duration>,
}

/// Returns the references of a listener or a cluster, sorted and without duplicates. Of a malformed
/// resource only those before the error are found: the client has validated it as configured.
pub(super) fn dependencies_of(root: DependencyKind, bytes: &Bytes) -> Vec<TimedDependency> {
    let kind = match root {
        DependencyKind::Listener => DependencyKind::Routes,
        DependencyKind::Cluster => DependencyKind::Endpoints,
        DependencyKind::Routes | DependencyKind::Endpoints => return Vec::new(),
    };
    let mut names: BTreeSet<ResourceName> = BTreeSet::new();
    let mut take = |reference: xds_core::references::Reference<'_>| {
        if let ReferenceTarget::Name(name) = reference.target
            && reference.type_url == kind.type_url()
        {
            names.insert(name.into());
        }
    };
    // References found before a decoding error count.
    let _ = EnvoyReferences.references(root.type_url(), bytes, &mut take);
    let stated = match root {
        DependencyKind::Cluster => timeout_of_cluster(bytes),
        _ => timeouts_of_listener(bytes),
    };
    let needs = names.into_iter().map(|name| {
        let timeout = stated.get(&name).copied().unwrap_or(INITIAL_FETCH_TIMEOUT);
        // Zero means no limit.
        let timeout = Some(timeout).filter(|timeout| !timeout.is_zero());
        TimedDependency { dependency: Dependency::new(kind, name), timeout }
    });
    needs.collect()
}

type Timeouts = BTreeMap<ResourceName, Duration>;

fn timeout_of(source: Option<&ConfigSource>) -> Option<Duration> {
    let stated = source?.initial_fetch_timeout.as_ref()?;
    let (seconds, nanos) = (u64::try_from(stated.seconds), u32::try_from(stated.nanos));
    Some(Duration::new(seconds.ok()?, nanos.ok().filter(|&nanos| nanos < 1_000_000_000)?))
}

fn timeout_of_cluster(bytes: &Bytes) -> Timeouts {
    let Ok(cluster) = Cluster::decode(bytes.clone()) else { return Timeouts::new() };
    let config = cluster.eds_cluster_config.unwrap_or_default();
    let service = match config.service_name.is_empty() {
        true => cluster.name,
        false => config.service_name,
    };
    let timeout = timeout_of(config.eds_config.as_ref());
    timeout.map(|timeout| (service.into(), timeout)).into_iter().collect()
}

/// Returns the timeouts of the HTTP connection managers in the filter chains and in the API
/// listener. Routes named by other filters have the default timeout.
fn timeouts_of_listener(bytes: &Bytes) -> Timeouts {
    let Ok(listener) = Listener::decode(bytes.clone()) else { return Timeouts::new() };
    let chains = listener.filter_chains.iter().chain(listener.default_filter_chain.as_ref());
    let filters = chains.flat_map(|chain| &chain.filters).filter_map(|filter| {
        let Filter { config_type: Some(ConfigType::TypedConfig(config)), .. } = filter else {
            return None;
        };
        Some(config)
    });
    let api = listener.api_listener.as_ref().and_then(|api| api.api_listener.as_ref());
    let managers = filters.chain(api).filter(|config| {
        config.type_url.ends_with(
            "/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        )
    });
    let timeouts = managers.filter_map(|config| {
        let manager = HttpConnectionManager::decode(config.value.clone()).ok()?;
        let Some(RouteSpecifier::Rds(rds)) = manager.route_specifier else { return None };
        let timeout = timeout_of(rds.config_source.as_ref())?;
        Some((ResourceName::from(rds.route_config_name), timeout))
    });
    timeouts.collect()
}
