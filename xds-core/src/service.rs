//! The discovery services: which methods there are, and what each carries (S0.164-S0.180).

use crate::types;

/// A variant of the protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Variant {
    /// State of the world: every request lists all names.
    #[default]
    StateOfTheWorld,
    /// Incremental, also called delta: requests and responses tell what changed.
    Incremental,
}

/// The path of the gRPC method that streams one type, or for `None` all types, in a variant of the
/// protocol.
///
/// `None` if there is no such method: the type is not one of the v3 API's, or its service lacks the
/// variant, as that of virtual hosts does (NA-05).
#[must_use]
pub fn grpc_path(type_url: Option<&str>, variant: Variant) -> Option<&'static str> {
    let (_, state_of_the_world, incremental) =
        METHODS.iter().find(|(known, ..)| *known == type_url.unwrap_or_default())?;
    let path = match variant {
        Variant::StateOfTheWorld => state_of_the_world,
        Variant::Incremental => incremental,
    };
    Some(*path).filter(|path| !path.is_empty())
}

/// Type, method for the state of the world, incremental method.
const METHODS: [(&str, &str, &str); 10] = [
    (
        "",
        "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
        "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
    ),
    (
        types::CLUSTER,
        "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters",
        "/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters",
    ),
    (
        types::CLUSTER_LOAD_ASSIGNMENT,
        "/envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints",
        "/envoy.service.endpoint.v3.EndpointDiscoveryService/DeltaEndpoints",
    ),
    (
        types::LISTENER,
        "/envoy.service.listener.v3.ListenerDiscoveryService/StreamListeners",
        "/envoy.service.listener.v3.ListenerDiscoveryService/DeltaListeners",
    ),
    (
        types::ROUTE_CONFIGURATION,
        "/envoy.service.route.v3.RouteDiscoveryService/StreamRoutes",
        "/envoy.service.route.v3.RouteDiscoveryService/DeltaRoutes",
    ),
    (
        types::SCOPED_ROUTE_CONFIGURATION,
        "/envoy.service.route.v3.ScopedRoutesDiscoveryService/StreamScopedRoutes",
        "/envoy.service.route.v3.ScopedRoutesDiscoveryService/DeltaScopedRoutes",
    ),
    (
        types::VIRTUAL_HOST,
        "",
        "/envoy.service.route.v3.VirtualHostDiscoveryService/DeltaVirtualHosts",
    ),
    (
        types::SECRET,
        "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets",
        "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets",
    ),
    (
        types::EXTENSION_CONFIG,
        "/envoy.service.extension.v3.ExtensionConfigDiscoveryService/StreamExtensionConfigs",
        "/envoy.service.extension.v3.ExtensionConfigDiscoveryService/DeltaExtensionConfigs",
    ),
    (
        types::RUNTIME,
        "/envoy.service.runtime.v3.RuntimeDiscoveryService/StreamRuntime",
        "/envoy.service.runtime.v3.RuntimeDiscoveryService/DeltaRuntime",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_exist_where_the_api_has_them() {
        for (short, state_of_the_world) in [("cds", true), ("vhds", false), ("rtds", true)] {
            let url = types::by_short_name(short);
            assert_eq!(grpc_path(url, Variant::StateOfTheWorld).is_some(), state_of_the_world);
            assert!(grpc_path(url, Variant::Incremental).is_some());
        }
        assert_eq!(grpc_path(Some("type.googleapis.com/x"), Variant::Incremental), None);
        assert!(grpc_path(None, Variant::Incremental).is_some());
    }
}
