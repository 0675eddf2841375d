//! The four resource types for a client. Each decodes and validates a resource on arrival: an
//! invalid one is NACKed with the paths of its invalid fields, a valid one reaches watchers as a
//! typed value.

#[cfg(feature = "handle")]
mod handle;

use alloc::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    TypeUrl,
    client::{CachedResource, Rejection, ResourceType, ServerAddress, ValidationContext, Value},
    types,
};

use crate::{
    cluster::{Cluster, validate_cluster},
    endpoint::{ClusterLoadAssignment, validate_endpoints},
    listener::{Listener, validate_listener},
    proto::envoy::config,
    route::{RouteConfiguration, validate_route_configuration},
    rules::Rules,
    validation::{InvalidResource, Validator},
};

macro_rules! resource_type {
    (
        $(#[$doc:meta])* $name:ident of $value:ident,
        $url:ident, $schema:ty, $validator:ident $(, $after:ident)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            type_url: TypeUrl,
            rules: Arc<Rules>,
        }

        impl $name {
            /// Creates the resource type with these validation rules.
            #[must_use]
            pub fn new(rules: impl Into<Arc<Rules>>) -> Self {
                Self { type_url: TypeUrl::from(types::$url), rules: rules.into() }
            }
        }

        impl Default for $name {
            /// Creates the resource type with gRPC's validation rules.
            fn default() -> Self {
                Self::new(Rules::default())
            }
        }

        impl ResourceType for $name {
            fn type_url(&self) -> &TypeUrl {
                &self.type_url
            }

            fn validate(
                &self,
                resource: &Bytes,
                context: &ValidationContext<'_>,
            ) -> Result<Option<Value>, Rejection> {
                let server = Some(context.server);
                Ok(Some(Value::new($value::of_server(resource, &self.rules, server)?)))
            }

            $(
                fn validate_update(
                    &self,
                    held: CachedResource<'_>,
                    resource: &Bytes,
                    context: &ValidationContext<'_>,
                ) -> Result<Option<Value>, Rejection> {
                    let Some(value) = held.value.downcast::<$value>() else {
                        return self.validate(resource, context);
                    };
                    let (held, server) = ((held.bytes, &*value), Some(context.server));
                    Ok(Some(Value::new($value::$after(held, resource, &self.rules, server)?)))
                }
            )?
        }

        impl $value {
            /// Decodes and validates a resource.
            ///
            /// Unknown fields are ignored. They remain in the bytes that a watcher gets along with
            /// the value. The sender is unknown here, so fields that require a trusted server are
            /// ignored.
            ///
            /// # Errors
            ///
            /// Returns an error that lists the invalid fields.
            // B46
            pub fn from_bytes(resource: &Bytes, rules: &Rules) -> Result<Self, InvalidResource> {
                Self::of_server(resource, rules, None)
            }

            pub(crate) fn of_server(
                resource: &Bytes,
                rules: &Rules,
                server: Option<&ServerAddress>,
            ) -> Result<Self, InvalidResource> {
                let schema = <$schema>::decode(resource.clone())
                    .map_err(|why| InvalidResource::unreadable(&why))?;
                Self::validated(&schema, rules, server)
            }

            /// Validates a decoded resource. The sender is unknown here, so fields that require a
            /// trusted server are ignored.
            ///
            /// # Errors
            ///
            /// Returns an error that lists the invalid fields.
            pub fn from_schema(schema: &$schema, rules: &Rules) -> Result<Self, InvalidResource> {
                Self::validated(schema, rules, None)
            }

            fn validated(
                schema: &$schema,
                rules: &Rules,
                server: Option<&ServerAddress>,
            ) -> Result<Self, InvalidResource> {
                let mut validator = Validator::new(rules, server);
                let value = $validator(schema, &mut validator);
                validator.finish(value)
            }
        }
    };
}

resource_type! {
    /// Resource type of listeners (LDS). Values are of type [`Listener`].
    Listeners of Listener, LISTENER, config::listener::v3::Listener, validate_listener
}

resource_type! {
    /// Resource type of route configurations (RDS). Values are of type [`RouteConfiguration`].
    RouteConfigurations of RouteConfiguration,
    ROUTE_CONFIGURATION, config::route::v3::RouteConfiguration, validate_route_configuration,
    of_server_after
}

resource_type! {
    /// Resource type of clusters (CDS). Values are of type [`Cluster`].
    Clusters of Cluster, CLUSTER, config::cluster::v3::Cluster, validate_cluster
}

resource_type! {
    /// Resource type of endpoints (EDS). Values are of type [`ClusterLoadAssignment`].
    ClusterLoadAssignments of ClusterLoadAssignment,
    CLUSTER_LOAD_ASSIGNMENT, config::endpoint::v3::ClusterLoadAssignment, validate_endpoints
}
