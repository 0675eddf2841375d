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

/// A gRPC method of the discovery services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// The aggregated service's stream in a variant: every request says which type it is about (S0.049).
    Aggregated(Variant),
    /// The stream of one type in a variant (S0.047).
    Single {
        /// The type.
        type_url: &'static str,
        /// The variant.
        variant: Variant,
    },
    /// One request and one response, in the state-of-the-world variant.
    Fetch {
        /// The type.
        type_url: &'static str,
    },
}

/// The method at a path of gRPC, as `/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters`.
///
/// `None` if the discovery services have no such method: the aggregated service cannot be fetched
/// from, and that of virtual hosts has its incremental stream alone (S0.042).
#[must_use]
pub fn method_at(path: &str) -> Option<Method> {
    // A variant that a service lacks has an empty path, which is no path of gRPC.
    let path = Some(path).filter(|path| !path.is_empty())?;
    SERVICES.iter().find_map(|service| {
        let stream = |variant| match service.type_url {
            Some(type_url) => Method::Single { type_url, variant },
            None => Method::Aggregated(variant),
        };
        match service {
            _ if path == service.stream => Some(stream(Variant::StateOfTheWorld)),
            _ if path == service.delta => Some(stream(Variant::Incremental)),
            Service { type_url: Some(type_url), fetch, .. } if path == *fetch => {
                Some(Method::Fetch { type_url })
            }
            _ => None,
        }
    })
}

/// The full names of the discovery services, the aggregated one first.
pub fn service_names() -> impl Iterator<Item = &'static str> {
    // Every service has the incremental method.
    SERVICES.iter().filter_map(|service| Some(service.delta.strip_prefix('/')?.rsplit_once('/')?.0))
}

/// The path of the gRPC method that streams one type, or for `None` all types, in a variant of the
/// protocol.
///
/// `None` if there is no such method: the type is not one of the v3 API's, or its service lacks the
/// variant, as that of virtual hosts does (NA-05).
#[must_use]
pub fn grpc_path(type_url: Option<&str>, variant: Variant) -> Option<&'static str> {
    let service = SERVICES.iter().find(|service| service.type_url == type_url)?;
    let path = match variant {
        Variant::StateOfTheWorld => service.stream,
        Variant::Incremental => service.delta,
    };
    Some(path).filter(|path| !path.is_empty())
}

/// A discovery service and the paths of its methods, empty where it has none.
struct Service {
    /// `None` of the aggregated one.
    type_url: Option<&'static str>,
    stream: &'static str,
    delta: &'static str,
    fetch: &'static str,
}

const SERVICES: [Service; 10] = [
    Service {
        type_url: None,
        stream: "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
        delta: "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
        fetch: "",
    },
    Service {
        type_url: Some(types::CLUSTER),
        stream: "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters",
        delta: "/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters",
        fetch: "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters",
    },
    Service {
        type_url: Some(types::CLUSTER_LOAD_ASSIGNMENT),
        stream: "/envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints",
        delta: "/envoy.service.endpoint.v3.EndpointDiscoveryService/DeltaEndpoints",
        fetch: "/envoy.service.endpoint.v3.EndpointDiscoveryService/FetchEndpoints",
    },
    Service {
        type_url: Some(types::LISTENER),
        stream: "/envoy.service.listener.v3.ListenerDiscoveryService/StreamListeners",
        delta: "/envoy.service.listener.v3.ListenerDiscoveryService/DeltaListeners",
        fetch: "/envoy.service.listener.v3.ListenerDiscoveryService/FetchListeners",
    },
    Service {
        type_url: Some(types::ROUTE_CONFIGURATION),
        stream: "/envoy.service.route.v3.RouteDiscoveryService/StreamRoutes",
        delta: "/envoy.service.route.v3.RouteDiscoveryService/DeltaRoutes",
        fetch: "/envoy.service.route.v3.RouteDiscoveryService/FetchRoutes",
    },
    Service {
        type_url: Some(types::SCOPED_ROUTE_CONFIGURATION),
        stream: "/envoy.service.route.v3.ScopedRoutesDiscoveryService/StreamScopedRoutes",
        delta: "/envoy.service.route.v3.ScopedRoutesDiscoveryService/DeltaScopedRoutes",
        fetch: "/envoy.service.route.v3.ScopedRoutesDiscoveryService/FetchScopedRoutes",
    },
    Service {
        type_url: Some(types::VIRTUAL_HOST),
        stream: "",
        delta: "/envoy.service.route.v3.VirtualHostDiscoveryService/DeltaVirtualHosts",
        fetch: "",
    },
    Service {
        type_url: Some(types::SECRET),
        stream: "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets",
        delta: "/envoy.service.secret.v3.SecretDiscoveryService/DeltaSecrets",
        fetch: "/envoy.service.secret.v3.SecretDiscoveryService/FetchSecrets",
    },
    Service {
        type_url: Some(types::EXTENSION_CONFIG),
        stream: "/envoy.service.extension.v3.ExtensionConfigDiscoveryService/StreamExtensionConfigs",
        delta: "/envoy.service.extension.v3.ExtensionConfigDiscoveryService/DeltaExtensionConfigs",
        fetch: "/envoy.service.extension.v3.ExtensionConfigDiscoveryService/FetchExtensionConfigs",
    },
    Service {
        type_url: Some(types::RUNTIME),
        stream: "/envoy.service.runtime.v3.RuntimeDiscoveryService/StreamRuntime",
        delta: "/envoy.service.runtime.v3.RuntimeDiscoveryService/DeltaRuntime",
        fetch: "/envoy.service.runtime.v3.RuntimeDiscoveryService/FetchRuntime",
    },
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

    #[test]
    fn what_a_method_carries_is_what_it_was_found_by() {
        for service in &SERVICES {
            for variant in [Variant::StateOfTheWorld, Variant::Incremental] {
                let Some(path) = grpc_path(service.type_url, variant) else { continue };
                let expected = match service.type_url {
                    Some(type_url) => Method::Single { type_url, variant },
                    None => Method::Aggregated(variant),
                };
                assert_eq!(method_at(path), Some(expected), "{path}");
            }
        }
        let fetch = "/envoy.service.secret.v3.SecretDiscoveryService/FetchSecrets";
        assert_eq!(method_at(fetch), Some(Method::Fetch { type_url: types::SECRET }));
        for path in ["", "/", "/envoy.service.cluster.v3.ClusterDiscoveryService/Clusters"] {
            assert_eq!(method_at(path), None, "{path}");
        }
        assert_eq!(service_names().count(), SERVICES.len());
        assert!(
            service_names().any(|name| name == "envoy.service.secret.v3.SecretDiscoveryService")
        );
    }
}
