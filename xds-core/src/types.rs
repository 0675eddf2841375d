//! Names of the API's resource types in version 3, and their names in version 2. The cores also
//! accept any other type.

/// The type URL of a listener (LDS).
pub const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
/// The type URL of a route configuration (RDS).
pub const ROUTE_CONFIGURATION: &str =
    "type.googleapis.com/envoy.config.route.v3.RouteConfiguration";
/// The type URL of a scoped route configuration (SRDS).
pub const SCOPED_ROUTE_CONFIGURATION: &str =
    "type.googleapis.com/envoy.config.route.v3.ScopedRouteConfiguration";
/// The type URL of a virtual host (VHDS).
pub const VIRTUAL_HOST: &str = "type.googleapis.com/envoy.config.route.v3.VirtualHost";
/// The type URL of a cluster (CDS).
pub const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";
/// The type URL of a cluster's endpoints (EDS).
pub const CLUSTER_LOAD_ASSIGNMENT: &str =
    "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
/// The type URL of a secret (SDS).
pub const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
/// The type URL of a runtime layer (RTDS).
pub const RUNTIME: &str = "type.googleapis.com/envoy.service.runtime.v3.Runtime";
/// The type URL of an extension's configuration (ECDS).
pub const EXTENSION_CONFIG: &str = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";

/// Resource type of the API: the short name of its discovery service, its type URL, and its type
/// URL in version 2, which is empty if it did not exist then.
struct KnownType {
    short: &'static str,
    url: &'static str,
    v2_url: &'static str,
}

const fn known(short: &'static str, url: &'static str, v2_url: &'static str) -> KnownType {
    KnownType { short, url, v2_url }
}

/// Known types, in the order in which changes must be sent so that a client never routes to an
/// unknown resource.
// S0.161-S0.165, M144
const KNOWN: [KnownType; 9] = [
    known("cds", CLUSTER, "type.googleapis.com/envoy.api.v2.Cluster"),
    known("eds", CLUSTER_LOAD_ASSIGNMENT, "type.googleapis.com/envoy.api.v2.ClusterLoadAssignment"),
    known("lds", LISTENER, "type.googleapis.com/envoy.api.v2.Listener"),
    known("rds", ROUTE_CONFIGURATION, "type.googleapis.com/envoy.api.v2.RouteConfiguration"),
    known(
        "srds",
        SCOPED_ROUTE_CONFIGURATION,
        "type.googleapis.com/envoy.api.v2.ScopedRouteConfiguration",
    ),
    known("vhds", VIRTUAL_HOST, "type.googleapis.com/envoy.api.v2.route.VirtualHost"),
    known("sds", SECRET, "type.googleapis.com/envoy.api.v2.auth.Secret"),
    known("ecds", EXTENSION_CONFIG, ""),
    known("rtds", RUNTIME, "type.googleapis.com/envoy.service.discovery.v2.Runtime"),
];

impl KnownType {
    /// Returns the type with this type URL in any version of the API.
    fn of(type_url: &str) -> Option<&'static Self> {
        let is_it = |known: &&Self| known.url == type_url || known.v2_url == type_url;
        KNOWN.iter().find(is_it).filter(|_| !type_url.is_empty())
    }
}

/// Returns the version 3 type URL of a version 2 type, and any other type URL unchanged.
// S4.051
#[must_use]
pub fn v3_type_url(type_url: &str) -> &str {
    KnownType::of(type_url).map_or(type_url, |known| known.url)
}

/// Returns the version 2 type URL of a version 3 type; `None` if it did not exist in version 2.
#[must_use]
pub fn v2_type_url(type_url: &str) -> Option<&'static str> {
    let known = KnownType::of(type_url).filter(|known| known.url == type_url)?;
    Some(known.v2_url).filter(|v2_url| !v2_url.is_empty())
}

/// Returns the type URL for the short name of a discovery service, such as `cds`; case is ignored.
#[must_use]
pub fn by_short_name(name: &str) -> Option<&'static str> {
    KNOWN.iter().find(|known| known.short.eq_ignore_ascii_case(name)).map(|known| known.url)
}

/// Returns the short name of a known type, such as `cds`, for the type URL of any API version.
#[must_use]
pub fn short_name(type_url: &str) -> Option<&'static str> {
    KnownType::of(type_url).map(|known| known.short)
}

/// Returns whether a state-of-the-world response of this type is the complete state, which is so
/// for listeners and clusters.
// S0.112
#[must_use]
pub fn is_full_state_in_sotw(type_url: &str) -> bool {
    [LISTENER, CLUSTER].contains(&v3_type_url(type_url))
}

/// Whether a wrapper without a resource is a heartbeat for this type. For virtual hosts, which are
/// requested on demand, it means that the resource does not exist.
// NA-05
pub(crate) fn has_heartbeats(type_url: &str) -> bool {
    v3_type_url(type_url) != VIRTUAL_HOST
}

/// Number of types with a position in the make-before-break order.
pub(crate) const RANKS: usize = KNOWN.len();

/// Returns the type at a position of the make-before-break order.
pub(crate) fn by_rank(rank: usize) -> Option<&'static str> {
    KNOWN.get(rank).map(|known| known.url)
}

/// Positions of types in the make-before-break order.
pub(crate) mod rank {
    pub(crate) const CLUSTERS: usize = 0;
    pub(crate) const ENDPOINTS: usize = 1;
    pub(crate) const LISTENERS: usize = 2;
    pub(crate) const ROUTES: usize = 3;
    pub(crate) const SCOPED_ROUTES: usize = 4;
    pub(crate) const VIRTUAL_HOSTS: usize = 5;
    pub(crate) const SECRETS: usize = 6;
    pub(crate) const EXTENSIONS: usize = 7;
}

/// Returns the position of a type in the make-before-break order; unknown types are last.
pub(crate) fn update_rank(type_url: &str) -> u8 {
    let type_url = v3_type_url(type_url);
    let mut ranks = (0..).zip(&KNOWN);
    ranks.find_map(|(rank, known)| (known.url == type_url).then_some(rank)).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use crate::types::*;

    #[test]
    fn short_names_and_type_urls_map_to_each_other() {
        for KnownType { short, url, .. } in &KNOWN {
            assert_eq!(by_short_name(short), Some(*url));
            assert_eq!(short_name(url), Some(*short));
        }
        assert_eq!(by_short_name("EDS"), Some(CLUSTER_LOAD_ASSIGNMENT));
        assert_eq!(by_short_name("xyz"), None);
        assert!(update_rank(CLUSTER) < update_rank(LISTENER));
        assert_eq!(by_rank(rank::CLUSTERS), Some(CLUSTER));
        assert_eq!(by_rank(rank::ENDPOINTS), Some(CLUSTER_LOAD_ASSIGNMENT));
        assert_eq!(by_rank(rank::LISTENERS), Some(LISTENER));
        assert_eq!(by_rank(rank::ROUTES), Some(ROUTE_CONFIGURATION));
        assert_eq!(by_rank(rank::SCOPED_ROUTES), Some(SCOPED_ROUTE_CONFIGURATION));
        assert_eq!(by_rank(rank::VIRTUAL_HOSTS), Some(VIRTUAL_HOST));
        assert_eq!(by_rank(rank::SECRETS), Some(SECRET));
        assert_eq!(by_rank(rank::EXTENSIONS), Some(EXTENSION_CONFIG));
        assert!(update_rank("t/custom") > update_rank(RUNTIME));
    }

    #[test]
    fn v2_type_url_maps_to_its_v3_type_url() {
        for KnownType { short, url, v2_url } in &KNOWN {
            assert_eq!(v2_type_url(url).unwrap_or_default(), *v2_url);
            assert_eq!(v3_type_url(url), *url);
            if v2_url.is_empty() {
                continue;
            }
            assert_eq!(v3_type_url(v2_url), *url);
            assert_eq!(short_name(v2_url), Some(*short));
            assert_eq!(v2_type_url(v2_url), None);
            assert_eq!(is_full_state_in_sotw(v2_url), is_full_state_in_sotw(url));
            assert_eq!(update_rank(v2_url), update_rank(url));
        }
        assert_eq!(v3_type_url("t/custom"), "t/custom");
        assert_eq!(v3_type_url(""), "");
        assert_eq!(short_name(""), None);
    }
}
