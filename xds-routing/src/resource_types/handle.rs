//! Decoding of resources for the typed watches of `xds-handle`.

use bytes::Bytes;
use xds_core::{
    TypeUrl,
    client::{Rejection, ValidationContext},
    types,
};
use xds_handle::Decode;

use crate::{
    Rules, cluster::Cluster, endpoint::ClusterLoadAssignment, listener::Listener,
    route::RouteConfiguration,
};

macro_rules! decode {
    ($value:ident, $url:ident) => {
        /// Validates by gRPC's rules. For other rules, register the resource type with the client.
        impl Decode for $value {
            fn type_url() -> TypeUrl {
                TypeUrl::from(types::$url)
            }

            fn decode(resource: &Bytes, _: &ValidationContext<'_>) -> Result<Self, Rejection> {
                Ok(Self::from_bytes(resource, &Rules::default())?)
            }
        }
    };
}

decode!(Listener, LISTENER);
decode!(RouteConfiguration, ROUTE_CONFIGURATION);
decode!(Cluster, CLUSTER);
decode!(ClusterLoadAssignment, CLUSTER_LOAD_ASSIGNMENT);
