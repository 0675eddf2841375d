//! The discovery services: which methods there are, and what each carries (S0.164-S0.180).

use crate::proto::services::{SERVICES, Service};

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

/// The type of which resources are fetched over plain HTTP, with a POST to the path, as
/// `/v3/discovery:clusters` (S4.023, B17).
#[must_use]
pub fn rest_type_at(path: &str) -> Option<&'static str> {
    let path = Some(path).filter(|path| !path.is_empty())?;
    SERVICES.iter().find(|service| service.rest == path)?.type_url
}

/// The path over plain HTTP at which resources of a type are fetched.
///
/// `None` if there is no such path: the type is not one of the v3 API's, or its service has the incremental
/// method alone, as that of virtual hosts does (X44).
#[must_use]
pub fn rest_path(type_url: &str) -> Option<&'static str> {
    let service = SERVICES.iter().find(|service| service.type_url == Some(type_url))?;
    Some(service.rest).filter(|path| !path.is_empty())
}

/// The path of the gRPC method that fetches resources of a type with one request and one response.
///
/// `None` where there is no [`rest_path`] either.
#[must_use]
pub fn fetch_path(type_url: &str) -> Option<&'static str> {
    let service = SERVICES.iter().find(|service| service.type_url == Some(type_url))?;
    Some(service.fetch).filter(|path| !path.is_empty())
}

/// The full names of the discovery services.
pub fn service_names() -> impl Iterator<Item = &'static str> {
    SERVICES.iter().map(|service| service.name)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types;

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
    fn a_type_has_one_path_over_http_or_none() {
        for (url, path) in [
            (types::CLUSTER, "/v3/discovery:clusters"),
            (types::SCOPED_ROUTE_CONFIGURATION, "/v3/discovery:scoped-routes"),
            (types::EXTENSION_CONFIG, "/v3/discovery:extension_configs"),
        ] {
            assert_eq!(rest_path(url), Some(path));
            assert_eq!(rest_type_at(path), Some(url));
            let fetch = fetch_path(url).expect("what has a path has a method");
            assert_eq!(method_at(fetch), Some(Method::Fetch { type_url: url }));
        }
        assert_eq!(fetch_path(types::VIRTUAL_HOST), None);
        assert_eq!(rest_path(types::VIRTUAL_HOST), None);
        assert_eq!(rest_type_at(""), None);
        assert_eq!(rest_type_at("/v3/discovery:everything"), None);
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
