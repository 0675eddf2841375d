//! State of one watched resource.

use alloc::sync::Arc;

use bytes::Bytes;
use xds_core::client::{Notice, Resource, WatchError};

use super::DependencyError;
use crate::{
    InvalidResource, Rules, cluster::Cluster, endpoint::ClusterLoadAssignment, listener::Listener,
    route::RouteConfiguration,
};

/// State of one watched resource.
#[derive(Clone, Debug)]
pub(crate) struct WatchedResource<T> {
    /// Newest value or error. `None` before the first notice.
    pub(crate) value: Option<Result<Arc<T>, DependencyError>>,
    /// Ambient error: an error while the value stays in use.
    pub(super) ambient: Option<WatchError>,
}

impl<T> Default for WatchedResource<T> {
    fn default() -> Self {
        Self { value: None, ambient: None }
    }
}

/// Decoded notice of a watch.
#[derive(Debug)]
pub(crate) enum WatchUpdate<T> {
    /// The value changed or was lost. Clears the ambient error.
    Value(Result<Arc<T>, DependencyError>),
    /// The ambient error changed or was cleared.
    Ambient(Option<WatchError>),
    /// The notice is not about one resource.
    Nothing,
}

impl<T> WatchedResource<T> {
    /// Applies a notice. Returns whether the value changed.
    pub(crate) fn take(&mut self, update: WatchUpdate<T>) -> bool {
        match update {
            WatchUpdate::Value(value) => {
                *self = Self { value: Some(value), ambient: None };
                true
            }
            WatchUpdate::Ambient(error) => {
                self.ambient = error;
                false
            }
            WatchUpdate::Nothing => false,
        }
    }

    /// Whether the resource is present or known to be missing, as opposed to transiently
    /// unavailable.
    pub(super) fn is_certain(&self) -> bool {
        match &self.value {
            None => false,
            Some(Ok(_)) => true,
            Some(Err(error)) => !error.is_transient(),
        }
    }
}

/// Value that a resource is decoded to.
pub(crate) trait Decoded: Sized + Send + Sync + 'static {
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

impl<T: Decoded> WatchUpdate<T> {
    pub(crate) fn read(notice: Notice, rules: &Rules) -> Self {
        match notice {
            Notice::Changed(Ok(resource)) => Self::Value(value_of(&resource, rules)),
            Notice::Changed(Err(error)) => Self::Value(Err(error.into())),
            Notice::Ambient(error) => Self::Ambient(error),
            _ => Self::Nothing,
        }
    }
}

/// Returns the value that the client decoded, or decodes the resource if the client does not know
/// the type.
fn value_of<T: Decoded>(resource: &Resource, rules: &Rules) -> Result<Arc<T>, DependencyError> {
    match resource.value.as_ref().and_then(|value| value.downcast::<T>()) {
        Some(value) => Ok(value),
        None => Ok(Arc::new(T::decode(&resource.bytes, rules)?)),
    }
}
