//! What is known of one resource.

use alloc::sync::Arc;

use bytes::Bytes;
use xds_core::client::{Notice, Resource, WatchError};

use super::DependencyError;
use crate::{
    InvalidResource, Rules, cluster::Cluster, endpoint::ClusterLoadAssignment, listener::Listener,
    route::RouteConfiguration,
};

/// What is known of one resource.
#[derive(Clone, Debug)]
pub(super) struct Followed<T> {
    /// `None`: nothing yet.
    pub(super) value: Option<Result<Arc<T>, DependencyError>>,
    /// What is wrong beside it.
    pub(super) ambient: Option<WatchError>,
}

impl<T> Default for Followed<T> {
    fn default() -> Self {
        Self { value: None, ambient: None }
    }
}

/// A notice, read.
#[derive(Debug)]
pub(super) enum News<T> {
    /// There is another value, or none any more. Nothing is wrong beside it, unless that is said next.
    Value(Result<Arc<T>, DependencyError>),
    /// Something is wrong beside the value, or no longer is.
    Ambient(Option<WatchError>),
    /// It is none of one resource.
    Nothing,
}

impl<T> Followed<T> {
    /// Takes news. True if the value is another one.
    pub(super) fn take(&mut self, news: News<T>) -> bool {
        match news {
            News::Value(value) => {
                *self = Self { value: Some(value), ambient: None };
                true
            }
            News::Ambient(error) => {
                self.ambient = error;
                false
            }
            News::Nothing => false,
        }
    }

    /// Whether it is there, or known to be missing rather than unknown for a while.
    pub(super) fn is_certain(&self) -> bool {
        match &self.value {
            None => false,
            Some(Ok(_)) => true,
            Some(Err(error)) => !error.is_transient(),
        }
    }
}

/// A value that resources are decoded to.
pub(super) trait Decoded: Sized + Send + Sync + 'static {
    fn decode(bytes: &Bytes, rules: &Rules) -> Result<Self, InvalidResource>;
}

macro_rules! decoded {
    ($($value:ident),*) => {$(
        impl Decoded for $value {
            fn decode(bytes: &Bytes, rules: &Rules) -> Result<Self, InvalidResource> {
                Self::from_bytes(bytes, rules)
            }
        }
    )*};
}

decoded!(Listener, RouteConfiguration, Cluster, ClusterLoadAssignment);

impl<T: Decoded> News<T> {
    pub(super) fn read(notice: Notice, rules: &Rules) -> Self {
        match notice {
            Notice::Changed(Ok(resource)) => Self::Value(value_of(&resource, rules)),
            Notice::Changed(Err(error)) => Self::Value(Err(error.into())),
            Notice::Ambient(error) => Self::Ambient(error),
            _ => Self::Nothing,
        }
    }
}

/// What the client made of the resource when it judged it; a client that does not know the type has not.
fn value_of<T: Decoded>(resource: &Resource, rules: &Rules) -> Result<Arc<T>, DependencyError> {
    match resource.value.as_ref().and_then(|value| value.downcast::<T>()) {
        Some(value) => Ok(value),
        None => Ok(Arc::new(T::decode(&resource.bytes, rules)?)),
    }
}
