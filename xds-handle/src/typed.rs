//! Watches of decoded resources, based on the untyped ones.

use core::{
    fmt,
    future::poll_fn,
    marker::PhantomData,
    ops::Deref,
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::sync::Arc;

use futures_core::Stream;
use thiserror::Error;
use xds_core::{
    ResourceName, TypeUrl,
    client::{Change, InvalidWatch, Notice, Resource, Value, WatchError},
};

use crate::{
    decode::Decode,
    watch::{Watch, WatchAll},
};

/// Decoded resource. It dereferences to the value.
#[derive(Debug)]
pub struct TypedResource<T> {
    value: Arc<T>,
    resource: Resource,
}

impl<T> TypedResource<T> {
    /// Returns the decoded value, shared by all watches of the resource.
    #[must_use]
    pub const fn value(&self) -> &Arc<T> {
        &self.value
    }

    /// Returns the resource with its name, version, bytes and metadata.
    #[must_use]
    pub const fn resource(&self) -> &Resource {
        &self.resource
    }
}

// Implemented by hand, because a derived implementation would require `T: Clone`.
impl<T> Clone for TypedResource<T> {
    fn clone(&self) -> Self {
        Self { value: Arc::clone(&self.value), resource: self.resource.clone() }
    }
}

impl<T> Deref for TypedResource<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// Notice about one resource: a [`Notice`] with the resource decoded.
#[derive(Debug)]
#[non_exhaustive]
pub enum TypedNotice<T> {
    /// The resource has a new value, or none, in which case an earlier value must no longer be
    /// used.
    Changed(Result<TypedResource<T>, WatchError>),
    /// Error that does not affect the value in use; `None` if it is over.
    Ambient(Option<WatchError>),
}

impl<T> Clone for TypedNotice<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Changed(result) => Self::Changed(result.clone()),
            Self::Ambient(error) => Self::Ambient(error.clone()),
        }
    }
}

/// Change of a watched collection: a [`Change`] with the resource decoded.
#[derive(Debug)]
#[non_exhaustive]
pub enum TypedChange<T> {
    /// A resource has a new value, or has no value any more.
    Resource {
        /// Resource name.
        name: ResourceName,
        /// Value, or the reason why there is none.
        result: Result<TypedResource<T>, WatchError>,
    },
    /// Error of a resource whose value stays in use.
    Ambient {
        /// Resource name.
        name: ResourceName,
        /// The error; `None` if it is over.
        error: Option<WatchError>,
    },
    /// The whole collection was received, or is unavailable. `Ok` follows the resources of the
    /// first response, even if the collection is empty.
    Collection(Result<(), WatchError>),
    /// Error of the whole collection, whose resources stay in use; `None` if it is over.
    CollectionAmbient(Option<WatchError>),
    /// The watch has fallen too far behind. Discard all resources: the complete state follows.
    Resync,
}

impl<T> Clone for TypedChange<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Resource { name, result } => {
                Self::Resource { name: name.clone(), result: result.clone() }
            }
            Self::Ambient { name, error } => {
                Self::Ambient { name: name.clone(), error: error.clone() }
            }
            Self::Collection(result) => Self::Collection(result.clone()),
            Self::CollectionAmbient(error) => Self::CollectionAmbient(error.clone()),
            Self::Resync => Self::Resync,
        }
    }
}

/// Reason why a watch of decoded resources is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidTypedWatch {
    /// The watch is invalid.
    #[error(transparent)]
    Watch(#[from] InvalidWatch),
    /// The client does not decode the resources to the requested type, because its configuration
    /// lacks the matching [`Typed`](crate::Typed).
    #[error("the client does not decode resources of type {type_url} as {requested}")]
    NotDecoded {
        /// Resource type.
        type_url: TypeUrl,
        /// Name of the requested Rust type.
        requested: &'static str,
    },
}

/// Watch of one resource, decoded to `T`. It behaves like [`Watch`].
///
/// An invalid watch yields one [`InvalidTypedWatch`] and ends.
#[must_use = "dropping a watch ends it"]
pub struct TypedWatch<T> {
    /// `None` after an error ended the watch.
    watch: Option<Watch>,
    decodes: PhantomData<fn() -> T>,
}

/// Watch of all resources of a type, or of those that match a glob, decoded to `T`. It behaves like
/// [`WatchAll`].
///
/// An invalid watch yields one [`InvalidTypedWatch`] and ends.
#[must_use = "dropping a watch ends it"]
pub struct TypedWatchAll<T> {
    watch: Option<WatchAll>,
    decodes: PhantomData<fn() -> T>,
}

impl<T: Decode> TypedWatch<T> {
    pub(crate) const fn new(watch: Watch) -> Self {
        Self { watch: Some(watch), decodes: PhantomData }
    }

    /// Returns the next notice, or `None` after the client has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<TypedNotice<T>, InvalidTypedWatch>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Marks the last notice as handled without polling for the next one.
    pub fn handled(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.handled();
        }
    }
}

impl<T: Decode> Stream for TypedWatch<T> {
    type Item = Result<TypedNotice<T>, InvalidTypedWatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(watch) = &mut self.watch else { return Poll::Ready(None) };
            let item = match ready!(Pin::new(watch).poll_next(cx)) {
                None => return Poll::Ready(None),
                Some(Err(why)) => Err(why.into()),
                Some(Ok(Notice::Changed(result))) => typed(result).map(TypedNotice::Changed),
                Some(Ok(Notice::Ambient(error))) => Ok(TypedNotice::Ambient(error)),
                Some(Ok(_)) => continue,
            };
            if item.is_err() {
                self.watch = None;
            }
            return Poll::Ready(Some(item));
        }
    }
}

impl<T: Decode> TypedWatchAll<T> {
    pub(crate) const fn new(watch: WatchAll) -> Self {
        Self { watch: Some(watch), decodes: PhantomData }
    }

    /// Returns the next change, or `None` after the client has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<TypedChange<T>, InvalidTypedWatch>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Marks the last change as handled without polling for the next one.
    pub fn handled(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.handled();
        }
    }

    /// Whether all changes have been returned. See [`WatchAll::is_caught_up`]. Always `false` for
    /// an invalid watch.
    #[must_use]
    pub fn is_caught_up(&self) -> bool {
        self.watch.as_ref().is_some_and(WatchAll::is_caught_up)
    }
}

impl<T: Decode> Stream for TypedWatchAll<T> {
    type Item = Result<TypedChange<T>, InvalidTypedWatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(watch) = &mut self.watch else { return Poll::Ready(None) };
            let item = match ready!(Pin::new(watch).poll_next(cx)) {
                None => return Poll::Ready(None),
                Some(Err(why)) => Err(why.into()),
                Some(Ok(Change::Resource { name, result })) => {
                    typed(result).map(|result| TypedChange::Resource { name, result })
                }
                Some(Ok(Change::Ambient { name, error })) => {
                    Ok(TypedChange::Ambient { name, error })
                }
                Some(Ok(Change::Collection(result))) => Ok(TypedChange::Collection(result)),
                Some(Ok(Change::CollectionAmbient(error))) => {
                    Ok(TypedChange::CollectionAmbient(error))
                }
                Some(Ok(Change::Resync)) => Ok(TypedChange::Resync),
                Some(Ok(_)) => continue,
            };
            if item.is_err() {
                self.watch = None;
            }
            return Poll::Ready(Some(item));
        }
    }
}

impl<T> fmt::Debug for TypedWatch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedWatch").field(&self.watch).finish()
    }
}

impl<T> fmt::Debug for TypedWatchAll<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedWatchAll").field(&self.watch).finish()
    }
}

type TypedResult<T> = Result<TypedResource<T>, WatchError>;

fn typed<T: Decode>(
    result: Result<Resource, WatchError>,
) -> Result<TypedResult<T>, InvalidTypedWatch> {
    let resource = match result {
        Ok(resource) => resource,
        Err(error) => return Ok(Err(error)),
    };
    match resource.value.as_ref().and_then(Value::downcast::<T>) {
        Some(value) => Ok(Ok(TypedResource { value, resource })),
        None => Err(InvalidTypedWatch::NotDecoded {
            type_url: T::type_url(),
            requested: core::any::type_name::<T>(),
        }),
    }
}
