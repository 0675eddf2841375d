//! The four types of resources, for a client: each is decoded and judged when it arrives, so that what is
//! invalid is rejected with a NACK that names the field, and what is watched is a value to match on.

use alloc::sync::Arc;

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    TypeUrl,
    client::{Context, Held, Rejection, ResourceType, ServerFeature, Value},
    types,
};

use crate::{
    cluster::{Cluster, judge_cluster},
    endpoint::{ClusterLoadAssignment, judge_endpoints},
    judge::{InvalidResource, Judge, Trust},
    listener::{Listener, judge_listener},
    proto::envoy::config,
    route::{RouteConfiguration, judge_route_configuration},
    rules::Rules,
};

fn trust_in(context: &Context<'_>) -> Trust {
    match context.server.features.contains(ServerFeature::TrustedXdsServer) {
        true => Trust::Trusted,
        false => Trust::Untrusted,
    }
}

macro_rules! resource_type {
    (
        $(#[$doc:meta])* $name:ident of $value:ident,
        $url:ident, $schema:ty, $judge:ident $(, $after:ident)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            type_url: TypeUrl,
            rules: Arc<Rules>,
        }

        impl $name {
            /// Judged by these rules.
            #[must_use]
            pub fn new(rules: impl Into<Arc<Rules>>) -> Self {
                Self { type_url: TypeUrl::from(types::$url), rules: rules.into() }
            }
        }

        impl Default for $name {
            /// Judged by gRPC's rules.
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
                context: &Context<'_>,
            ) -> Result<Option<Value>, Rejection> {
                let trust = trust_in(context);
                Ok(Some(Value::new($value::of_server(resource, &self.rules, trust)?)))
            }

            $(
                fn validate_after(
                    &self,
                    held: Held<'_>,
                    resource: &Bytes,
                    context: &Context<'_>,
                ) -> Result<Option<Value>, Rejection> {
                    let Some(value) = held.value.downcast::<$value>() else {
                        return self.validate(resource, context);
                    };
                    let (held, trust) = ((held.bytes, &*value), trust_in(context));
                    Ok(Some(Value::new($value::$after(held, resource, &self.rules, trust)?)))
                }
            )?
        }

        impl $value {
            /// Decodes a resource and judges it. What the schema does not know is passed over, and stays in
            /// the bytes that a watcher gets beside the value. What only a trusted server may say is as if it
            /// were not there (B46), since it is not known who sent it.
            ///
            /// # Errors
            ///
            /// All that is wrong with it, field by field.
            pub fn from_bytes(resource: &Bytes, rules: &Rules) -> Result<Self, InvalidResource> {
                Self::of_server(resource, rules, Trust::default())
            }

            pub(crate) fn of_server(
                resource: &Bytes,
                rules: &Rules,
                trust: Trust,
            ) -> Result<Self, InvalidResource> {
                let schema = <$schema>::decode(resource.clone())
                    .map_err(|why| InvalidResource::unreadable(&why))?;
                Self::judged(&schema, rules, trust)
            }

            /// Judges a resource, which it is not known who sent.
            ///
            /// # Errors
            ///
            /// All that is wrong with it, field by field.
            pub fn from_schema(schema: &$schema, rules: &Rules) -> Result<Self, InvalidResource> {
                Self::judged(schema, rules, Trust::default())
            }

            fn judged(
                schema: &$schema,
                rules: &Rules,
                trust: Trust,
            ) -> Result<Self, InvalidResource> {
                let mut judge = Judge::new(rules, trust);
                let value = $judge(schema, &mut judge);
                judge.finish(value)
            }
        }
    };
}

resource_type! {
    /// Listeners; their value is a [`Listener`].
    Listeners of Listener, LISTENER, config::listener::v3::Listener, judge_listener
}

resource_type! {
    /// Route configurations; their value is a [`RouteConfiguration`].
    RouteConfigurations of RouteConfiguration,
    ROUTE_CONFIGURATION, config::route::v3::RouteConfiguration, judge_route_configuration,
    of_server_after
}

resource_type! {
    /// Clusters; their value is a [`Cluster`].
    Clusters of Cluster, CLUSTER, config::cluster::v3::Cluster, judge_cluster
}

resource_type! {
    /// The endpoints of clusters; their value is a [`ClusterLoadAssignment`].
    ClusterLoadAssignments of ClusterLoadAssignment,
    CLUSTER_LOAD_ASSIGNMENT, config::endpoint::v3::ClusterLoadAssignment, judge_endpoints
}
