//! A cluster as a source of resources.

use core::fmt;
use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_core::Stream;
use futures_util::{
    StreamExt as _,
    future::{Either, select, try_join_all},
    stream::{self, BoxStream, SelectAll},
};
use tokio::time::sleep;
use xds_source::{Change, List, Revision, Source, SourceError, WatchError};

use crate::{
    api::{KubeClient, KubeError, KubeErrorKind, Scope, WatchItem},
    objects::Observed,
    state::ClusterState,
};

/// Objects of a Kubernetes cluster, as a [`Source`].
///
/// - A `ConfigMap` with the label `xds-resources: "true"` has resources: each key that ends like the
///   name of a resource file is a document. The documents of a `ConfigMap` are used together or not
///   at all.
/// - A Service with the annotation `xds-service: "true"` is reachable for gRPC clients by
///   `xds:///NAME.NAMESPACE:PORT`, without a proxy: a listener, a route configuration, a cluster and
///   its endpoints follow from it and from its `EndpointSlices`.
/// - The annotation `xds-view` names the view of either.
///
/// # Revisions
///
/// Each kind of object is read and watched on its own and has its own position, so a watch resumes
/// without a gap, and a kind whose position has expired is read again without the others. The
/// [`Revision`] of a change is the greatest resource version in it, or one more than that of the
/// change before.
///
/// Kubernetes guarantees an order of the resource versions of one kind only. In practice they are the
/// revisions of the one etcd behind the API server, and so this type compares those of different
/// kinds. It also waits for a few milliseconds after an event, so that events of different kinds
/// which were made together become one change. Yet a replica at a revision may lack, for the time
/// that an event needs to arrive, a change of another kind with a lower one.
#[derive(Clone)]
pub struct KubeSource {
    client: KubeClient,
    scopes: Arc<[Scope]>,
    shared: Arc<Mutex<Shared>>,
}

impl fmt::Debug for KubeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeSource").field("client", &self.client).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: ClusterState,
    /// Resource version up to which each scope is known. Scopes to be read have none.
    positions: BTreeMap<Scope, u64>,
    /// Revision that was reported last.
    revision: u64,
}

/// Event of a scope, or the end of its watch.
type ScopeEvent = (Scope, Option<Result<(WatchItem<Observed>, u64), KubeError>>);

impl KubeSource {
    /// Creates a source of the objects that a client's options select.
    #[must_use]
    pub fn new(client: KubeClient) -> Self {
        let scopes = client.scopes().into();
        Self { client, scopes, shared: Arc::default() }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the scopes whose position is not known.
    async fn read(&self) -> Result<List, KubeError> {
        let missing: Vec<_> = {
            let shared = self.shared();
            let is_missing = |scope: &&Scope| !shared.positions.contains_key(*scope);
            self.scopes.iter().filter(is_missing).cloned().collect()
        };
        let read = missing.into_iter().map(|scope| async move {
            let (objects, position) = self.client.list(&scope).await?;
            let mut shared = self.shared();
            shared.state.replace(scope.kind, scope.namespace.as_deref(), objects);
            shared.positions.insert(scope, position);
            Ok::<_, KubeError>(())
        });
        try_join_all(read).await?;
        let mut shared = self.shared();
        let newest = shared.positions.values().copied().max().unwrap_or(0);
        shared.revision = shared.revision.max(newest);
        Ok(List { revision: Revision(shared.revision), objects: shared.state.objects() })
    }

    /// Starts a watch of each scope. Fails if the caller is not at the revision reported last: the
    /// change in between is lost, and everything must be read again.
    fn watches(
        &self,
        after: Revision,
    ) -> Result<SelectAll<BoxStream<'static, ScopeEvent>>, WatchError> {
        let mut shared = self.shared();
        if shared.positions.len() < self.scopes.len() || shared.revision != after.0 {
            shared.positions.clear();
            return Err(WatchError::Replaced);
        }
        let watch = |(scope, position): (&Scope, &u64)| -> BoxStream<'static, ScopeEvent> {
            let ended = scope.clone();
            let scope = scope.clone();
            let events = self.client.watch(scope.clone(), *position);
            let events = events.map(move |event| (scope.clone(), Some(event)));
            events.chain(stream::once(async move { (ended, None) })).boxed()
        };
        Ok(shared.positions.iter().map(watch).collect())
    }

    /// Takes events that arrived together. Returns their change, if there is one to report.
    fn change_of(&self, events: Vec<(Scope, WatchItem<Observed>, u64)>) -> Option<Change> {
        let mut shared = self.shared();
        let newest = events.iter().map(|(_, _, version)| *version).max()?;
        for (scope, item, version) in events {
            match item {
                WatchItem::Set(object) => shared.state.set(object),
                WatchItem::Delete(object) => {
                    let metadata = object.metadata();
                    shared.state.delete(scope.kind, &metadata.namespace, &metadata.name);
                }
                WatchItem::Bookmark => {}
            }
            shared.positions.insert(scope, version);
        }
        let objects = shared.state.take_changes();
        let revision = if objects.is_empty() {
            // All scopes are known up to the lowest of their positions.
            shared.positions.values().copied().min().filter(|it| *it > shared.revision)?
        } else {
            newest.max(shared.revision + 1)
        };
        shared.revision = revision;
        Some(Change { revision: Revision(revision), objects })
    }

    /// Notes that the positions of scopes have expired.
    fn expired(&self, scopes: &[Scope]) {
        let mut shared = self.shared();
        for scope in scopes {
            shared.positions.remove(scope);
        }
    }
}

/// Time to wait for further events after one.
const SETTLE: Duration = Duration::from_millis(20);
/// Time to wait for other scopes whose position has expired, after one whose position has.
const EXPIRY: Duration = Duration::from_millis(250);
/// Number of events that are reported without waiting for more.
const BATCH: usize = 10_000;

impl Source for KubeSource {
    async fn list(&self) -> Result<List, SourceError> {
        Ok(self.read().await?)
    }

    fn watch(
        &self,
        after: Revision,
    ) -> impl Stream<Item = Result<Change, WatchError>> + Send + 'static {
        let watches = self.watches(after);
        let source = self.clone();
        let (watches, failed) = match watches {
            Ok(watches) => (watches, None),
            Err(error) => (SelectAll::new(), Some(error)),
        };
        let watch = Watch { source, watches, ended: failed.map(Some), expired: Vec::new() };
        stream::unfold(watch, |mut watch| async move {
            let item = watch.next().await?;
            Some((item, watch))
        })
    }
}

struct Watch {
    source: KubeSource,
    watches: SelectAll<BoxStream<'static, ScopeEvent>>,
    /// Reason for the end, to be reported after the events before it. `Some(None)` ends the stream.
    ended: Option<Option<WatchError>>,
    /// Scopes whose position has expired. They are noted after the events before.
    expired: Vec<Scope>,
}

impl Watch {
    async fn next(&mut self) -> Option<Result<Change, WatchError>> {
        loop {
            if let Some(error) = &mut self.ended {
                self.source.expired(&self.expired);
                // The stream ends after the error.
                return error.take().map(Err);
            }
            let events = self.events().await;
            // The state changes and the change is returned without waiting in between: a caller that
            // gives up waiting loses nothing.
            if let Some(change) = self.source.change_of(events) {
                return Some(Ok(change));
            }
        }
    }

    /// Waits for events, and for those that follow shortly after.
    async fn events(&mut self) -> Vec<(Scope, WatchItem<Observed>, u64)> {
        let mut events = Vec::new();
        let first = self.watches.next().await;
        let mut settled = pin!(sleep(SETTLE));
        let mut next = first;
        loop {
            match next {
                Some((scope, Some(Ok((item, version))))) => events.push((scope, item, version)),
                Some((scope, Some(Err(error)))) => {
                    self.ended = Some(Some(self.failed(&scope, error).await));
                    return events;
                }
                Some((_, None)) | None => {
                    self.ended = Some(None);
                    return events;
                }
            }
            if events.len() >= BATCH {
                return events;
            }
            next = match select(self.watches.next(), settled.as_mut()).await {
                Either::Left((next, _)) => next,
                Either::Right(_) => return events,
            };
        }
    }

    /// Returns the reason for the end of the watch. If the position of a scope has expired, those of
    /// others often have too, and they are read again together.
    async fn failed(&mut self, scope: &Scope, error: KubeError) -> WatchError {
        if error.kind() != KubeErrorKind::Expired {
            return WatchError::Source(error.into());
        }
        self.expired.push(scope.clone());
        let mut settled = pin!(sleep(EXPIRY));
        // Events are dropped. They come again, because the positions stay.
        while let Either::Left((Some((scope, event)), _)) =
            select(self.watches.next(), settled.as_mut()).await
        {
            if let Some(Err(error)) = event
                && error.kind() == KubeErrorKind::Expired
            {
                self.expired.push(scope);
            }
        }
        WatchError::Compacted
    }
}
