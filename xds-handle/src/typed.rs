//! Watches of decoded resources: those of `watch.rs` with the value taken out.

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

/// A resource, decoded. It is what it holds: fields of `T` are reached through it, whatever they are
/// called.
#[derive(Debug)]
pub struct TypedResource<T> {
    value: Arc<T>,
    resource: Resource,
}

impl<T> TypedResource<T> {
    /// The decoded resource, shared with all its watches.
    #[must_use]
    pub const fn value(&self) -> &Arc<T> {
        &self.value
    }

    /// Its name, version, bytes and what was said beside it.
    #[must_use]
    pub const fn resource(&self) -> &Resource {
        &self.resource
    }
}

// Clones share the value, so `T` need not be `Clone`, which a derived implementation would ask for.
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

/// News of one resource: a [`Notice`] with the resource decoded.
#[derive(Debug)]
#[non_exhaustive]
pub enum TypedNotice<T> {
    /// The resource has a new value, or cannot be had and a value given earlier must no longer be used.
    Changed(Result<TypedResource<T>, WatchError>),
    /// Something is wrong that does not change the use of the value, or, with `None`, no longer is.
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

/// One step of a watch of many resources: a [`Change`] with the resource decoded.
#[derive(Debug)]
#[non_exhaustive]
pub enum TypedChange<T> {
    /// A resource has a new value, or none any more.
    Resource {
        /// The resource's name.
        name: ResourceName,
        /// The value, or why there is none.
        result: Result<TypedResource<T>, WatchError>,
    },
    /// Something is wrong with a resource whose value stays in use, or, with `None`, no longer is.
    Ambient {
        /// The resource's name.
        name: ResourceName,
        /// What is wrong.
        error: Option<WatchError>,
    },
    /// The collection as a whole has been received, or cannot be had. `Ok` follows the resources of the first
    /// response, and comes for an empty collection as well.
    Collection(Result<(), WatchError>),
    /// Something is wrong with the whole collection, whose resources stay in use, or no longer is.
    CollectionAmbient(Option<WatchError>),
    /// The watch fell too far behind: forget all resources, what follows is the complete state.
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

/// Why there is no watch of decoded resources.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidTypedWatch {
    /// There is no watch at all.
    #[error(transparent)]
    Watch(#[from] InvalidWatch),
    /// The client decodes resources of the type to something else, or not at all: its configuration
    /// lacks [`Typed`](crate::Typed) of what is watched for.
    #[error("the client does not decode resources of type {type_url} to {wanted}")]
    NotDecoded {
        /// The type of the resources.
        type_url: TypeUrl,
        /// What they were to be decoded to.
        wanted: &'static str,
    },
}

/// A watch of one resource for its decoded value; see [`Watch`], which it behaves like.
///
/// A watch that could not be made yields one [`InvalidTypedWatch`] and ends.
#[must_use = "dropping a watch ends it"]
pub struct TypedWatch<T> {
    /// `None` once it turned out that nothing can come of it.
    watch: Option<Watch>,
    decodes: PhantomData<fn() -> T>,
}

/// A watch of every resource of a type, or of those that a glob stands for, for its decoded value; see
/// [`WatchAll`], which it behaves like.
///
/// A watch that could not be made yields one [`InvalidTypedWatch`] and ends.
#[must_use = "dropping a watch ends it"]
pub struct TypedWatchAll<T> {
    watch: Option<WatchAll>,
    decodes: PhantomData<fn() -> T>,
}

impl<T: Decode> TypedWatch<T> {
    pub(crate) const fn new(watch: Watch) -> Self {
        Self { watch: Some(watch), decodes: PhantomData }
    }

    /// The next notice; `None` once the client has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<TypedNotice<T>, InvalidTypedWatch>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Says that the last notice is dealt with, without asking for the next one yet.
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

    /// The next change; `None` once the client has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<TypedChange<T>, InvalidTypedWatch>> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Says that the last change is dealt with, without asking for the next one yet.
    pub fn handled(&mut self) {
        if let Some(watch) = &mut self.watch {
            watch.handled();
        }
    }

    /// Whether every change was taken that the client had when it was last asked, as
    /// [`WatchAll::is_caught_up`] has it. A watch that could not be made never is.
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
            wanted: core::any::type_name::<T>(),
        }),
    }
}
