//! Discovery services, their methods and paths.
// S0.164-S0.180

use crate::{
    proto::services::{SERVICES, Service},
    types,
};

/// Variant of the [xDS protocol][spec].
///
/// [spec]: https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Variant {
    /// State of the world: every request lists all names.
    #[default]
    StateOfTheWorld,
    /// Incremental, also called delta: requests and responses contain only changes.
    Incremental,
}

/// Version of the API, which determines the names of services, paths and types. The encoding of the
/// transport messages is the same in both.
// S4.014, S4.051
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ApiVersion {
    /// Version 2, which current peers no longer support.
    V2,
    /// Version 3.
    #[default]
    V3,
}

/// gRPC method of the discovery services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Method {
    /// Stream of the aggregated service. Every request states its type.
    // S0.049
    Aggregated(Variant),
    /// Stream of one type.
    // S0.047
    Single {
        /// Type of the service.
        type_url: &'static str,
        /// Protocol variant.
        variant: Variant,
    },
    /// Single request and response of one type, in the state-of-the-world variant.
    Fetch {
        /// Type of the service.
        type_url: &'static str,
    },
}

/// Returns the method with a gRPC path such as
/// `/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters`. Its type URL is that of the
/// path's API version.
///
/// Returns `None` if the discovery services have no such method: the aggregated service has no
/// fetch method, and the service of virtual hosts has only the incremental stream.
// S0.042
#[must_use]
pub fn method_at(path: &str) -> Option<Method> {
    // A service has an empty path for a variant that it lacks; requests have no empty path.
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

/// Returns the type whose resources are fetched by an HTTP POST to a path such as
/// `/v3/discovery:clusters`.
// S4.023, B17
#[must_use]
pub fn rest_type_at(path: &str) -> Option<&'static str> {
    let path = Some(path).filter(|path| !path.is_empty())?;
    SERVICES.iter().find(|service| service.rest == path)?.type_url
}

/// Returns the path at which resources of a type are fetched over plain HTTP, in a version of the
/// API. The type URL may be of either version.
///
/// Returns `None` if the type does not exist in that version, or if its service has only the
/// incremental method, as that of virtual hosts.
// X44
#[must_use]
pub fn rest_path(type_url: &str, api: ApiVersion) -> Option<&'static str> {
    service_of(Some(type_url), api).map(|service| service.rest).filter(|path| !path.is_empty())
}

/// Returns the path of the gRPC method that corresponds to an HTTP POST to a path:
/// `/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters` for `/v3/discovery:clusters`.
///
/// Returns `None` if the path is not that of a fetch method.
#[must_use]
pub fn fetch_path_at(rest_path: &str) -> Option<&'static str> {
    let rest_path = Some(rest_path).filter(|path| !path.is_empty())?;
    SERVICES.iter().find(|service| service.rest == rest_path).map(|service| service.fetch)
}

/// Returns the full names of the discovery services.
pub fn service_names() -> impl Iterator<Item = &'static str> {
    SERVICES.iter().map(|service| service.name)
}

/// Returns the path of the gRPC method that streams one type, or all types for `None`, in a variant
/// of the protocol and a version of the API. The type URL may be of either version.
///
/// Returns `None` if the type does not exist in that version, or if its service lacks the variant,
/// as that of virtual hosts lacks the state of the world.
// NA-05
#[must_use]
pub fn grpc_path(
    type_url: Option<&str>,
    variant: Variant,
    api: ApiVersion,
) -> Option<&'static str> {
    let service = service_of(type_url, api)?;
    let path = match variant {
        Variant::StateOfTheWorld => service.stream,
        Variant::Incremental => service.delta,
    };
    Some(path).filter(|path| !path.is_empty())
}

/// Returns the service of a type, or the aggregated service for `None`.
fn service_of(type_url: Option<&str>, api: ApiVersion) -> Option<&'static Service> {
    let current = type_url.map(types::v3_type_url);
    SERVICES
        .iter()
        .find(|service| service.api == api && service.type_url.map(types::v3_type_url) == current)
}

#[cfg(test)]
mod tests {
    use crate::service::*;
    use crate::types;

    #[test]
    fn grpc_paths_exist_only_for_methods_of_the_api() {
        for (short, state_of_the_world) in [("cds", true), ("vhds", false), ("rtds", true)] {
            let url = types::by_short_name(short);
            for api in [ApiVersion::V2, ApiVersion::V3] {
                let path = |variant| grpc_path(url, variant, api);
                assert_eq!(path(Variant::StateOfTheWorld).is_some(), state_of_the_world);
                assert!(path(Variant::Incremental).is_some());
                assert!(grpc_path(None, Variant::Incremental, api).is_some());
            }
        }
        let unknown = Some("type.googleapis.com/x");
        assert_eq!(grpc_path(unknown, Variant::Incremental, ApiVersion::V3), None);
        // ECDS exists since version 3.
        let extensions = Some(types::EXTENSION_CONFIG);
        assert_eq!(grpc_path(extensions, Variant::Incremental, ApiVersion::V2), None);
    }

    #[test]
    fn each_type_has_at_most_one_rest_path() {
        for (url, path) in [
            (types::CLUSTER, "/v3/discovery:clusters"),
            (types::SCOPED_ROUTE_CONFIGURATION, "/v3/discovery:scoped-routes"),
            (types::EXTENSION_CONFIG, "/v3/discovery:extension_configs"),
        ] {
            assert_eq!(rest_path(url, ApiVersion::V3), Some(path));
            assert_eq!(rest_type_at(path), Some(url));
            let fetch = fetch_path_at(path).expect("what has a path has a method");
            assert_eq!(method_at(fetch), Some(Method::Fetch { type_url: url }));
        }
        for api in [ApiVersion::V2, ApiVersion::V3] {
            assert_eq!(rest_path(types::VIRTUAL_HOST, api), None);
        }
        let older = rest_path(types::CLUSTER, ApiVersion::V2);
        assert_eq!(older, Some("/v2/discovery:clusters"));
        assert_eq!(older.and_then(rest_type_at), types::v2_type_url(types::CLUSTER));
        assert_eq!((rest_type_at(""), fetch_path_at("")), (None, None));
        assert_eq!(rest_type_at("/v3/discovery:everything"), None);
    }

    #[test]
    fn method_lookup_inverts_the_grpc_path() {
        for service in &SERVICES {
            for variant in [Variant::StateOfTheWorld, Variant::Incremental] {
                let Some(path) = grpc_path(service.type_url, variant, service.api) else {
                    continue;
                };
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
