//! Client that watches a listener and the resources it refers to, and unwatches resources
//! without a reference.

use core::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_core::Stream as _;
use serde_json::Value as Json;
use xds_core::{client::Notice, types};
use xds_tokio::{ClientHandle, Watch};

use crate::{directory::Key, facts, failure::DemoFailure, resource_types::json};

pub(crate) struct ReferenceWatcher {
    client: ClientHandle,
    root: Option<Key>,
    watched: BTreeMap<Key, WatchedResource>,
}

struct WatchedResource {
    watch: Watch,
    resource: ClientResource,
}

/// State of a watched resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClientResource {
    /// Value in use.
    pub(crate) json: Option<Arc<Json>>,
    /// Reason why there is no value, or error of a newer one.
    pub(crate) problem: Option<String>,
}

impl ReferenceWatcher {
    pub(crate) fn new(client: ClientHandle) -> Self {
        Self { client, root: None, watched: BTreeMap::new() }
    }

    /// Follows all resources that a listener depends on.
    pub(crate) fn start(&mut self, listener: &str) {
        self.root = Some(Key { type_url: types::LISTENER.into(), name: listener.into() });
        self.update_watches();
    }

    /// Processes the next notification of a watch. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<(), DemoFailure> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    pub(crate) fn resources(&self) -> BTreeMap<Key, ClientResource> {
        self.watched.iter().map(|(key, it)| (key.clone(), it.resource.clone())).collect()
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), DemoFailure>> {
        for watched in self.watched.values_mut() {
            match Pin::new(&mut watched.watch).poll_next(cx) {
                Poll::Pending => {}
                Poll::Ready(Some(Ok(notice))) => {
                    watched.resource.take(notice);
                    self.update_watches();
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(Err(DemoFailure::Ended)),
            }
        }
        Poll::Pending
    }

    fn update_watches(&mut self) {
        let mut needed = BTreeSet::new();
        let mut queue: Vec<Key> = self.root.iter().cloned().collect();
        while let Some(key) = queue.pop() {
            let json = self.watched.get(&key).and_then(|it| it.resource.json.as_deref());
            queue.extend(json.map(|json| references(&key, json)).unwrap_or_default());
            needed.insert(key);
        }
        self.watched.retain(|key, _| needed.contains(key));
        for key in needed {
            if !self.watched.contains_key(&key) {
                let watch = self.client.watch_untyped(key.type_url.clone(), key.name.clone());
                self.watched
                    .insert(key, WatchedResource { watch, resource: ClientResource::default() });
            }
        }
    }
}

impl ClientResource {
    fn take(&mut self, notice: Notice) {
        match notice {
            Notice::Changed(Ok(resource)) => {
                *self = Self { json: Some(json(&resource)), problem: None };
            }
            Notice::Changed(Err(error)) => {
                *self = Self { json: None, problem: Some(error.kind().to_string()) };
            }
            Notice::Ambient(error) => {
                self.problem = error.map(|error| error.kind().to_string());
            }
            _ => {}
        }
    }
}

/// Returns the resources that a listener, route configuration or cluster refers to.
pub(crate) fn references(key: &Key, json: &Json) -> Vec<Key> {
    let (type_url, names) = match key.type_url.as_str() {
        types::LISTENER => (types::ROUTE_CONFIGURATION, facts::route_configurations(json)),
        types::ROUTE_CONFIGURATION => {
            let routes = facts::routes(json).into_iter();
            (types::CLUSTER, routes.flat_map(|route| route.clusters).collect())
        }
        types::CLUSTER => {
            (types::CLUSTER_LOAD_ASSIGNMENT, facts::endpoints_name(json).into_iter().collect())
        }
        _ => return Vec::new(),
    };
    names.into_iter().map(|name| Key { type_url: type_url.into(), name: name.into() }).collect()
}
