//! Resources as the application wants them: decoded when they arrive, once, for all their watches.

use core::{any::Any, fmt, marker::PhantomData};

use bytes::Bytes;
use prost::{Message, Name};
use xds_core::{
    TypeUrl,
    client::{Context, Rejection, ResourceType, Value},
};

use crate::guarded::rejecting_panics;

/// What a resource is decoded to.
///
/// Every message that prost generates with its name is one, as those of `envoy-types`; what does not
/// decode is rejected. Implement it for a type of your own to validate more than that, or to keep less.
pub trait Decode: Any + Send + Sync + Sized {
    /// The type of the resources, as in `type.googleapis.com/envoy.config.cluster.v3.Cluster`.
    fn type_url() -> TypeUrl;

    /// Decodes a resource and validates it, as [`ResourceType::validate`] has it.
    ///
    /// # Errors
    ///
    /// The reason for which the resource is rejected; it reaches the server in a NACK. A panic rejects the
    /// resource as well (AN-12), where panics unwind.
    fn decode(resource: &Bytes, context: &Context<'_>) -> Result<Self, Rejection>;
}

impl<T: Message + Name + Default + Any> Decode for T {
    fn type_url() -> TypeUrl {
        format!("type.googleapis.com/{}", T::full_name()).into()
    }

    fn decode(resource: &Bytes, _: &Context<'_>) -> Result<Self, Rejection> {
        // A shallow copy: messages may keep slices of it.
        <T as Message>::decode(resource.clone()).map_err(|why| Rejection::new(why.to_string()))
    }
}

/// The type of resource that is decoded to `T`. A client needs it to be
/// [watched](crate::ClientHandle::watch) for `T`:
///
/// ```
/// use prost::{Message, Name};
/// use xds_core::client::{ClientConfig, ManagementServer, Node};
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
/// let server = ManagementServer::new("127.0.0.1:18000");
/// let config = ClientConfig::new(Node::new("n"), server).with_type(Typed::<Cluster>::new());
/// # assert_eq!(config.types[0].type_url().as_str(), xds_core::types::CLUSTER);
/// ```
pub struct Typed<T> {
    type_url: TypeUrl,
    decodes: PhantomData<fn() -> T>,
}

impl<T: Decode> Typed<T> {
    /// The type.
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
        context: &Context<'_>,
    ) -> Result<Option<Value>, Rejection> {
        // One resource that a decoder cannot stand must not take all the others with it (AN-12).
        let decoded = rejecting_panics("the decoder", || T::decode(resource, context));
        decoded.map(|decoded| Some(Value::new(decoded)))
    }
}
