//! Resource messages: Protocol Buffers messages that know their type URL and their name.

use prost::{
    Message,
    encoding::{DecodeContext, WireType, decode_key, skip_field},
};

/// Message that is an xDS resource.
///
/// With the feature `envoy-types` it is implemented for the resources of the Envoy API, which
/// `xds::resources` lists. Implement it for your own messages with
/// [`resource_message!`](crate::resource_message).
pub trait ResourceMessage: Message + Default + 'static {
    /// Type URL, such as `type.googleapis.com/envoy.config.cluster.v3.Cluster`.
    const TYPE_URL: &'static str;

    /// Returns the name of the resource, which the message contains.
    fn resource_name(&self) -> &str;

    /// Returns the number of the field with the name; 1 by default.
    fn name_field() -> u32 {
        1
    }
}

/// Implements [`ResourceMessage`] for a message: `resource_message!(TYPE, TYPE_URL, NAME_FIELD)`.
///
/// ```
/// /// The fields of a cluster that a program needs.
/// #[derive(Clone, PartialEq, prost::Message)]
/// struct Cluster {
///     #[prost(string, tag = "1")]
///     name: String,
///     #[prost(string, tag = "28")]
///     alt_stat_name: String,
/// }
///
/// xds::resource_message!(Cluster, xds::types::CLUSTER, name);
///
/// # use xds::ResourceMessage;
/// let cluster = Cluster { name: "web".into(), ..Cluster::default() };
/// assert_eq!(cluster.resource_name(), "web");
/// ```
#[macro_export]
macro_rules! resource_message {
    ($message:ty, $type_url:expr, $name:ident) => {
        impl $crate::ResourceMessage for $message {
            const TYPE_URL: &'static str = $type_url;

            fn resource_name(&self) -> &str {
                &self.$name
            }

            fn name_field() -> u32 {
                $crate::number_of_field(|message: &mut Self, value| message.$name = value.into())
            }
        }
    };
}

/// Returns the number of the string field that a function sets, or 1 if it is not found in the
/// encoded message. Part of [`resource_message!`](crate::resource_message).
#[doc(hidden)]
#[must_use]
pub fn number_of_field<T: ResourceMessage>(set: impl Fn(&mut T, &str)) -> u32 {
    const VALUE: &str = "the name";
    let mut message = T::default();
    set(&mut message, VALUE);
    let encoded = message.encode_to_vec();
    let mut rest = encoded.as_slice();
    while let Ok((number, kind)) = decode_key(&mut rest) {
        let start = rest;
        if skip_field(kind, number, &mut rest, DecodeContext::default()).is_err() {
            break;
        }
        // The name is preceded by its length.
        let field = start.len().checked_sub(rest.len()).and_then(|len| start.get(1..len));
        if kind == WireType::LengthDelimited && field == Some(VALUE.as_bytes()) {
            return number;
        }
    }
    1
}

/// Resources of the Envoy API, from the crate [`envoy_types`].
#[cfg(feature = "envoy-types")]
pub mod resources {
    pub use envoy_types::pb::envoy::{
        config::{
            cluster::v3::Cluster,
            core::v3::TypedExtensionConfig,
            endpoint::v3::ClusterLoadAssignment,
            listener::v3::Listener,
            route::v3::{RouteConfiguration, ScopedRouteConfiguration},
        },
        extensions::transport_sockets::tls::v3::Secret,
        service::runtime::v3::Runtime,
    };
    use xds_core::types;

    resource_message!(Listener, types::LISTENER, name);
    resource_message!(RouteConfiguration, types::ROUTE_CONFIGURATION, name);
    resource_message!(ScopedRouteConfiguration, types::SCOPED_ROUTE_CONFIGURATION, name);
    resource_message!(Cluster, types::CLUSTER, name);
    resource_message!(ClusterLoadAssignment, types::CLUSTER_LOAD_ASSIGNMENT, cluster_name);
    resource_message!(Secret, types::SECRET, name);
    resource_message!(Runtime, types::RUNTIME, name);
    resource_message!(TypedExtensionConfig, types::EXTENSION_CONFIG, name);
}
