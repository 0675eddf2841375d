//! Decoding of resources. Each resource is decoded once for all its watches.

use core::{any::Any, fmt, marker::PhantomData};

use bytes::Bytes;
use prost::{Message, Name};
use xds_core::{
    TypeUrl,
    client::{Rejection, ResourceType, ValidationContext, Value},
};

use crate::guarded::rejecting_panics;

/// Type into which resources are decoded.
///
/// Implemented for every message with a name that prost generates, such as those of `envoy-types`;
/// a resource that does not decode is rejected. Implement it for another type to validate more or
/// to keep less data.
pub trait Decode: Any + Send + Sync + Sized {
    /// Returns the type URL of the resources, such as
    /// `type.googleapis.com/envoy.config.cluster.v3.Cluster`.
    fn type_url() -> TypeUrl;

    /// Decodes and validates a resource. See [`ResourceType::validate`].
    ///
    /// # Errors
    ///
    /// Returns the reason why the resource is rejected, which is sent to the server in a NACK. A
    /// panic also rejects the resource if panics unwind.
    // AN-12
    fn decode(resource: &Bytes, context: &ValidationContext<'_>) -> Result<Self, Rejection>;
}

impl<T: Message + Name + Default + Any> Decode for T {
    fn type_url() -> TypeUrl {
        format!("type.googleapis.com/{}", T::full_name()).into()
    }

    fn decode(resource: &Bytes, _: &ValidationContext<'_>) -> Result<Self, Rejection> {
        // A cheap clone: messages may keep slices of the bytes.
        <T as Message>::decode(resource.clone()).map_err(|why| Rejection::new(why.to_string()))
    }
}

/// Resource type whose resources are decoded to `T`. Register it with a client to
/// [watch](crate::ClientHandle::watch) resources as `T`:
///
/// ```
/// use prost::{Message, Name};
/// use xds_core::client::{ClientConfig, ServerAddress, Node};
/// use xds_handle::Typed;
///
/// /// Of a cluster, only what this program needs.
/// #[derive(Clone, PartialEq, Message)]
/// struct Cluster {
///     #[prost(string, tag = "1")]
///     name: String,
/// }
///
/// impl Name for Cluster {
///     const PACKAGE: &'static str = "envoy.config.cluster.v3";
///     const NAME: &'static str = "Cluster";
/// }
///
/// let server = ServerAddress::new("127.0.0.1:18000");
/// let config = ClientConfig::new(Node::new("n"), server).with_type(Typed::<Cluster>::new());
/// # assert_eq!(config.types[0].type_url().as_str(), xds_core::types::CLUSTER);
/// ```
pub struct Typed<T> {
    type_url: TypeUrl,
    decodes: PhantomData<fn() -> T>,
}

impl<T: Decode> Typed<T> {
    /// Creates the resource type.
    #[must_use]
    pub fn new() -> Self {
        Self { type_url: T::type_url(), decodes: PhantomData }
    }
}

impl<T: Decode> Default for Typed<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Typed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Typed").field(&self.type_url).finish()
    }
}

impl<T: Decode> ResourceType for Typed<T> {
    fn type_url(&self) -> &TypeUrl {
        &self.type_url
    }

    fn validate(
        &self,
        resource: &Bytes,
        context: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        // AN-12: a panic of the decoder rejects only this resource.
        let decoded = rejecting_panics("the decoder", || T::decode(resource, context));
        decoded.map(|decoded| Some(Value::new(decoded)))
    }
}
