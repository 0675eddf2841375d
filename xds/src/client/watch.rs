//! Watches of decoded resources.

use core::{
    future::poll_fn,
    marker::PhantomData,
    pin::Pin,
    task::{Context, Poll},
};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use futures_core::Stream;
use xds_core::{
    ResourceName,
    client::{self, Change, Notice, WatchError},
};
use xds_handle as untyped;

use super::{
    decoder::decode,
    event::{Event, RemovalReason, Resource},
    synced::{Registration, is_answer, is_answer_for_collection},
};
use crate::message::ResourceMessage;

/// Watch of one resource, of all resources of a type, or of those that match a glob.
///
/// It is a stream of [events](Event) that ends with the client. A watch that is not polled delays
/// nothing else: intermediate states are skipped. Dropping it ends the subscription, unless another
/// watch has the same one.
#[derive(Debug)]
#[must_use = "dropping a watch ends it"]
pub struct Watch<T> {
    source: Source,
    /// Events that were derived and not returned yet.
    events: VecDeque<Event<T>>,
    /// Names in the warnings that are not over. `None` stands for the whole collection.
    warned: BTreeSet<Option<ResourceName>>,
    is_synced: bool,
    _registration: Registration,
    decodes: PhantomData<fn() -> T>,
}

#[derive(Debug)]
enum Source {
    One { watch: untyped::Watch, name: ResourceName },
    Many(Collection),
    Ended,
}

#[derive(Debug)]
struct Collection {
    watch: untyped::WatchAll,
    /// Resources with a value.
    applied: BTreeSet<ResourceName>,
    /// Applied resources that were not contained so far in the complete state that is being
    /// received again; `None` at other times.
    unconfirmed: Option<BTreeSet<ResourceName>>,
}

impl<T: ResourceMessage> Watch<T> {
    pub(super) fn one(
        watch: untyped::Watch,
        name: ResourceName,
        registration: Registration,
    ) -> Self {
        Self::new(Source::One { watch, name }, registration)
    }

    pub(super) fn many(watch: untyped::WatchAll, registration: Registration) -> Self {
        let collection = Collection { watch, applied: BTreeSet::new(), unconfirmed: None };
        Self::new(Source::Many(collection), registration)
    }

    fn new(source: Source, registration: Registration) -> Self {
        Self {
            source,
            events: VecDeque::new(),
            warned: BTreeSet::new(),
            is_synced: false,
            _registration: registration,
            decodes: PhantomData,
        }
    }

    /// Returns the next event, or `None` after the client has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Event<T>> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    /// Waits until everything that exists now was received. Cancel safe.
    ///
    /// The events up to [`Event::Synced`] are kept for [`next`](Self::next). Returns at once if
    /// `Synced` was received before.
    ///
    /// A missing resource or collection counts as received once the server, or
    /// [`Profile::does_not_exist_timeout`](client::Profile), says that it does not exist. An error of
    /// the connection does not count. However, with [`Profile::envoy`](client::Profile::envoy) the
    /// initial fetch timeout also counts, as in Envoy, even if no server was reached.
    ///
    /// A collection counts as received with the first response, although a server may split it into
    /// several: see [`Change::Collection`](client::Change::Collection).
    ///
    /// # Errors
    ///
    /// Returns an error if the watch or the client has ended.
    pub async fn synced(&mut self) -> Result<(), WatchEnded> {
        poll_fn(|cx| {
            while !self.is_synced {
                match self.poll_source(cx) {
                    Poll::Ready(true) => {}
                    Poll::Ready(false) => return Poll::Ready(Err(WatchEnded)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event<T>>> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Poll::Ready(Some(event));
            }
            match self.poll_source(cx) {
                Poll::Ready(true) => {}
                Poll::Ready(false) => return Poll::Ready(None),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Derives the events of the next item. Returns `false` at the end of the watch.
    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let ended = match &mut self.source {
            Source::Ended => return Poll::Ready(false),
            Source::One { watch, name } => match Pin::new(watch).poll_next(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(notice))) => {
                    let name = name.clone();
                    self.on_notice(name, notice);
                    return Poll::Ready(true);
                }
                Poll::Ready(Some(Err(error))) => Some(error),
                Poll::Ready(None) => None,
            },
            Source::Many(collection) => match Pin::new(&mut collection.watch).poll_next(cx) {
                Poll::Pending => {
                    return if self.end_resync() { Poll::Ready(true) } else { Poll::Pending };
                }
                Poll::Ready(Some(Ok(change))) => {
                    self.on_change(change);
                    return Poll::Ready(true);
                }
                Poll::Ready(Some(Err(error))) => Some(error),
                Poll::Ready(None) => None,
            },
        };
        self.source = Source::Ended;
        self.events.extend(ended.map(Event::Invalid));
        Poll::Ready(!self.events.is_empty())
    }

    fn on_notice(&mut self, name: ResourceName, notice: Notice) {
        let is_answer = is_answer(&notice);
        match notice {
            Notice::Changed(Ok(raw)) => self.apply(raw),
            Notice::Changed(Err(error)) => self.remove(name, error.into()),
            Notice::Ambient(error) => self.warn(Some(name), error),
            _ => {}
        }
        if is_answer {
            self.set_synced();
        }
    }

    fn on_change(&mut self, change: Change) {
        let is_answer = is_answer_for_collection(&change);
        match change {
            Change::Resource { name, result } => {
                if let Source::Many(collection) = &mut self.source {
                    collection.note(&name, result.is_ok());
                }
                match result {
                    Ok(raw) => self.apply(raw),
                    Err(error) => self.remove(name, error.into()),
                }
            }
            Change::Ambient { name, error } => self.warn(Some(name), error),
            Change::Collection(Ok(())) => self.recover(None),
            Change::Collection(Err(error)) => self.warn(None, Some(error)),
            Change::CollectionAmbient(error) => self.warn(None, error),
            Change::Resync => {
                if let Source::Many(collection) = &mut self.source {
                    collection.unconfirmed = Some(collection.applied.clone());
                }
                self.recover_resources();
            }
            _ => {}
        }
        if is_answer {
            self.set_synced();
        }
    }

    /// Removes the resources that the complete state, received again, did not contain.
    /// Returns whether there are events.
    fn end_resync(&mut self) -> bool {
        let Source::Many(collection) = &mut self.source else { return false };
        if collection.unconfirmed.is_none() || !collection.watch.is_caught_up() {
            return false;
        }
        let gone = collection.unconfirmed.take().unwrap_or_default();
        collection.applied.retain(|name| !gone.contains(name));
        for name in gone {
            self.remove(name, RemovalReason::Gone);
        }
        !self.events.is_empty()
    }

    fn apply(&mut self, raw: client::Resource) {
        let decoded = raw.value.as_ref().and_then(client::Value::downcast::<T>);
        let value = decoded.map_or_else(|| decode::<T>(&raw.bytes).map(Arc::new), Ok);
        match value {
            Ok(value) => {
                self.recover(Some(raw.name.clone()));
                self.events.push_back(Event::Applied(Resource::new(value, raw)));
            }
            Err(rejection) => self.remove(raw.name, RemovalReason::NotDecoded(rejection)),
        }
    }

    fn remove(&mut self, name: ResourceName, reason: RemovalReason) {
        self.recover(Some(name.clone()));
        self.events.push_back(Event::Removed { name, reason });
    }

    fn warn(&mut self, name: Option<ResourceName>, error: Option<WatchError>) {
        match error {
            Some(error) => {
                self.warned.insert(name.clone());
                self.events.push_back(Event::Warning { name, error });
            }
            None => self.recover(name),
        }
    }

    /// Ends the warning of a resource or, with `None`, of the collection, if there is one.
    fn recover(&mut self, name: Option<ResourceName>) {
        if self.warned.remove(&name) {
            self.events.push_back(Event::Recovered { name });
        }
    }

    /// Ends the warnings of all resources at a resync, after which the client reports every resource
    /// again with its error. The warning of the collection stays, because the client does not repeat
    /// it.
    fn recover_resources(&mut self) {
        let is_collection_warned = self.warned.remove(&None);
        let names = core::mem::take(&mut self.warned);
        self.events.extend(names.into_iter().map(|name| Event::Recovered { name }));
        if is_collection_warned {
            self.warned.insert(None);
        }
    }

    fn set_synced(&mut self) {
        if !core::mem::replace(&mut self.is_synced, true) {
            self.events.push_back(Event::Synced);
        }
    }
}

impl Collection {
    fn note(&mut self, name: &ResourceName, has_value: bool) {
        if let Some(unconfirmed) = &mut self.unconfirmed {
            unconfirmed.remove(name);
        }
        if has_value {
            self.applied.insert(name.clone());
        } else {
            self.applied.remove(name);
        }
    }
}

impl<T: ResourceMessage> Stream for Watch<T> {
    type Item = Event<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event<T>>> {
        self.poll_event(cx)
    }
}

/// The watch or its client has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the watch has ended")]
pub struct WatchEnded;

#[cfg(all(test, feature = "tokio"))]
mod tests {
    use super::*;

    #[derive(Clone, PartialEq, prost::Message)]
    struct Cluster {
        #[prost(string, tag = "1")]
        name: String,
    }

    crate::resource_message!(Cluster, xds_core::types::CLUSTER, name);

    #[tokio::test]
    async fn resync_ends_the_warnings_of_resources_and_keeps_that_of_the_collection() {
        let client = crate::Client::connect("127.0.0.1:1").node_id("test").start().unwrap();
        let mut watch = client.watch_all::<Cluster>();
        // No server listens.
        let Some(Event::Warning { name: None, error }) = watch.next().await else { panic!() };
        let warned = ResourceName::from("web");
        watch.on_change(Change::Ambient { name: warned.clone(), error: Some(error) });
        watch.on_change(Change::Resync);
        watch.on_change(Change::Ambient { name: warned.clone(), error: None });
        watch.on_change(Change::CollectionAmbient(None));
        watch.on_change(Change::CollectionAmbient(None));
        let recovered = watch.events.iter().filter_map(|event| match event {
            Event::Recovered { name } => Some(name.clone()),
            _ => None,
        });
        assert_eq!(recovered.collect::<Vec<_>>(), [Some(warned), None]);
    }
}
