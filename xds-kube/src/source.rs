//! A cluster as a source of resources.

use core::fmt;
use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_core::Stream;
use futures_util::{
    StreamExt as _,
    future::{Either, join_all, select},
    stream::{self, SelectAll},
};
use tokio::time::sleep;
use xds_source::{Change, List, Revision, Source, SourceError, WatchError};

use crate::{
    api::{KubeClient, KubeError, KubeErrorKind, Scope, ScopeWatch},
    objects::Kind,
    scopes::{ScopeEvent, Scopes},
};

/// Objects of a Kubernetes cluster, as a [`Source`].
///
/// - A `ConfigMap` with the label `xds-resources: "true"` contains resources. Each key with the
///   suffix of a resource file, such as `.yaml`, is a document. The documents of a `ConfigMap` are
///   valid or invalid together.
/// - A Service with the annotation `xds-service: "true"` can be called by gRPC clients as
///   `xds:///NAME.NAMESPACE:PORT`, without a proxy. Its listener, route configuration, cluster and
///   endpoints are generated from the Service and its `EndpointSlices`.
/// - The annotation `xds-view` of both kinds of object sets the view of their resources.
///
/// # Denied permissions
///
/// The first list fails as long as one of the selected kinds cannot be read in one of the selected
/// namespaces. Otherwise clients would remove the missing resources.
///
/// If a permission is withdrawn later, that kind of object keeps its last state in that namespace
/// while everything else continues to change. The request is retried at least once in 30 seconds.
/// Meanwhile, an [invalid](xds_source::Content::Invalid) object with a name such as `services in
/// namespace shop` reports the reason. The watch ends with an error if everything is denied.
///
/// # Revisions
///
/// Each kind of object is listed and watched separately and has its own position. So a watch
/// resumes without a gap, and a kind whose position has expired is listed again without the others.
/// The [`Revision`] of a change is the greatest resource version in it, or the revision of the
/// preceding change plus one.
///
/// Kubernetes only guarantees an order of the resource versions of one kind. In practice, they are
/// the revisions of the single etcd behind the API server, so this type compares resource versions
/// of different kinds. After an event it waits for a few milliseconds, so that events of different
/// kinds that were made together become one change. Even so, a replica that has reached a revision
/// may briefly lack an earlier change of another kind, until that event arrives.
#[derive(Clone)]
pub struct KubeSource {
    client: KubeClient,
    /// Scopes that the client's options select.
    selected: Arc<[Scope]>,
    scopes: Arc<Mutex<Scopes>>,
}

impl fmt::Debug for KubeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeSource").field("client", &self.client).finish_non_exhaustive()
    }
}

impl KubeSource {
    /// Creates a source of the objects that a client's options select.
    #[must_use]
    pub fn new(client: KubeClient) -> Self {
        let selected = client.scopes().into();
        Self { client, selected, scopes: Arc::default() }
    }

    pub(crate) const fn client(&self) -> &KubeClient {
        &self.client
    }

    pub(crate) fn scopes(&self) -> MutexGuard<'_, Scopes> {
        self.scopes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the scopes whose position is not known.
    async fn read(&self) -> Result<List, KubeError> {
        let unread: Vec<_> = {
            let scopes = self.scopes();
            self.selected.iter().filter(|it| scopes.is_unread(it)).cloned().collect()
        };
        let reads = unread.into_iter().map(|scope| async move {
            let read = self.client.list(&scope).await;
            let found = (scope.clone(), read.as_ref().map_or(0, |(objects, _)| objects.len()));
            self.scopes().take_list(scope, read)?;
            Ok(found)
        });
        let found = join_all(reads).await.into_iter().collect::<Result<Vec<_>, KubeError>>()?;
        for namespace in without_objects(&found) {
            tracing::warn!(namespace, "no objects to serve in this namespace: does it exist?");
        }
        self.scopes().list()
    }
}

/// Returns the selected namespaces that have no objects of any kind, if all kinds were read.
fn without_objects(found: &[(Scope, usize)]) -> impl Iterator<Item = &str> {
    let mut read = BTreeMap::<&str, (usize, usize)>::new();
    for (scope, objects) in found {
        let Some(namespace) = &scope.namespace else { continue };
        let (kinds, all) = read.entry(namespace).or_default();
        *kinds += 1;
        *all += objects;
    }
    let is_empty = |(kinds, objects): &(usize, usize)| *kinds == Kind::ALL.len() && *objects == 0;
    read.into_iter().filter(move |(_, counts)| is_empty(counts)).map(|(namespace, _)| namespace)
}

/// Time to wait for further events after one.
const SETTLE: Duration = Duration::from_millis(20);
/// Time to wait, after the position of a scope has expired, for other scopes whose positions expire
/// too.
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
        let positions = self.scopes().positions(self.selected.len(), after);
        let ended = positions.is_none().then_some(Some(WatchError::Replaced));
        let positions = positions.unwrap_or_default();
        let unanswered = positions.keys().cloned().collect();
        let watches = positions
            .into_iter()
            .map(|(scope, position)| self.client.watch_while_denied(scope, position))
            .collect();
        let source = self.clone();
        let watch = Watch { source, watches, unanswered, ended, expired: Vec::new() };
        stream::unfold(watch, |mut watch| async move {
            let item = watch.next().await?;
            Some((item, watch))
        })
    }
}

struct Watch {
    source: KubeSource,
    watches: SelectAll<ScopeWatch>,
    /// Scopes whose watches have neither begun nor been denied yet.
    unanswered: BTreeSet<Scope>,
    /// Reason for the end, to be reported after the events before it. `Some(None)` ends the stream.
    ended: Option<Option<WatchError>>,
    /// Scopes whose positions have expired. They are recorded after the preceding events.
    expired: Vec<Scope>,
}

impl Watch {
    async fn next(&mut self) -> Option<Result<Change, WatchError>> {
        loop {
            if let Some(error) = &mut self.ended {
                self.source.scopes().note_expired(&self.expired);
                // The stream ends after the error.
                return error.take().map(Err);
            }
            let events = self.events().await;
            // No await between updating the state and returning the change, so a cancelled caller
            // loses nothing.
            if let Some(change) = self.take(events) {
                return Some(Ok(change));
            }
        }
    }

    /// Takes events that arrived together. Returns their change, if there is one to report.
    fn take(&mut self, events: Vec<ScopeEvent>) -> Option<Change> {
        let had_begun = self.unanswered.is_empty();
        for (scope, _) in &events {
            self.unanswered.remove(scope);
        }
        let mut scopes = self.source.scopes();
        let newest = scopes.take_events(events);
        let have_answered = self.unanswered.is_empty();
        if have_answered && self.ended.is_none() {
            let denial = scopes.denial().cloned();
            self.ended = denial.map(|why| Some(WatchError::Source(why.into())));
        }
        let have_begun = have_answered && !had_begun && self.ended.is_none();
        scopes.take_change(newest, have_begun)
    }

    /// Waits for events, and for those that follow shortly after.
    async fn events(&mut self) -> Vec<ScopeEvent> {
        let mut events = Vec::new();
        let first = self.watches.next().await;
        let mut settled = pin!(sleep(SETTLE));
        let mut next = first;
        loop {
            match next {
                Some((scope, Some(Err(error)))) if error.kind() != KubeErrorKind::Forbidden => {
                    self.ended = Some(Some(self.failed(&scope, error).await));
                    return events;
                }
                Some((scope, Some(event))) => events.push((scope, event)),
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

    /// Returns the reason for the end of the watch. If the position of one scope has expired,
    /// others often have expired too. These are collected, so that they are read again together.
    async fn failed(&mut self, scope: &Scope, error: KubeError) -> WatchError {
        if error.kind() != KubeErrorKind::Expired {
            return WatchError::Source(error.into());
        }
        self.expired.push(scope.clone());
        let mut settled = pin!(sleep(EXPIRY));
        // The events are dropped. They arrive again, because the positions are unchanged.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selected_namespaces_without_objects_are_found() {
        let of =
            |kind, namespace: Option<&str>| Scope { kind, namespace: namespace.map(Into::into) };
        let mut found = Vec::new();
        for kind in Kind::ALL {
            found.push((of(kind, Some("shop")), usize::from(kind == Kind::Service)));
            found.push((of(kind, Some("typo")), 0));
            found.push((of(kind, None), 0));
        }
        // Only one kind of this namespace was read again.
        found.push((of(Kind::Service, Some("again")), 0));
        assert_eq!(without_objects(&found).collect::<Vec<_>>(), ["typo"]);
    }
}
