//! A cluster as a source of resources.

use core::fmt;
use std::{
    collections::BTreeSet,
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
    scopes::{ScopeEvent, Scopes},
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
/// # Denied permissions
///
/// The first list fails as long as a kind of object in a selected namespace cannot be read: without
/// it, clients would remove the resources that are missing. If a permission is withdrawn later, that
/// kind keeps its last state in that namespace while the others change, and the request is repeated,
/// at least once in 30 seconds. Meanwhile there is an object named like `services in namespace shop`,
/// which is [invalid](xds_source::Content::Invalid) and has the reason. The watch ends with an error if
/// everything is denied.
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
            self.scopes().take_list(scope, read)
        });
        join_all(reads).await.into_iter().collect::<Result<(), _>>()?;
        self.scopes().list()
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
    /// Scopes whose position has expired. They are noted after the events before.
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
            // The state changes and the change is returned without waiting in between: a caller that
            // gives up waiting loses nothing.
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
