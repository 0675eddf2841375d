//! The cluster as a source of resources.

use core::fmt;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use futures_core::Stream;
use futures_util::stream;
use tracing::warn;
use xds_core::{ResourceName, TypeUrl, ViewName, types};
use xds_format::{Format, Schema, resource_name};
use xds_source::{
    Change, Content, List, Object, ObjectChange, ObjectId, Revision, Source, SourceError,
    WatchError,
};

use crate::{
    client::{EtcdClient, EtcdError},
    endpoint::{Endpoint, Registered, assignment},
    layout::{Layout, ResourceKey},
    proto::mvccpb::{Event, KeyValue, event::EventType},
    range::KeyRange,
    watch::{ProgressRequests, RangeWatch, Restored, Transaction, WatchEnd},
};

/// Resources below a prefix of an etcd cluster, as a [`Source`].
///
/// - `PREFIX/VIEW/TYPE/NAME` contains one resource: as JSON, YAML, text format (with a first line
///   that begins with `# proto-message:`) or as an encoded message. `VIEW` is `default` for the
///   view without a name, and `TYPE` is `clusters`, `endpoints`, `listeners`, `routes` and so on.
/// - `PREFIX/VIEW/endpoints/CLUSTER/ID` with a lease is one [`Endpoint`] of a cluster. All
///   endpoints of a cluster together form its `ClusterLoadAssignment`. An endpoint is removed when
///   its lease expires. If several have the same address and port, the newest is used.
/// - `PREFIX/@current` contains the name of a generation. The keys below `PREFIX/@generations/NAME`
///   are then served instead of those below `PREFIX`. A change that exceeds the limits of a
///   transaction is written as a new generation, which becomes current as a whole.
/// - `PREFIX/@force` has the ids of refused changes to apply anyway ([`Object::forced`]).
///
/// A transaction of etcd is one [`Change`].
#[derive(Clone)]
pub struct EtcdSource {
    client: EtcdClient,
    layout: Layout,
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for EtcdSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdSource")
            .field("client", &self.client)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

/// State that is needed to interpret events.
#[derive(Debug, Default)]
struct State {
    /// Current generation.
    generation: Option<String>,
    /// Revision at which the key that names the current generation was created.
    generations_since: i64,
    /// Whether keys that are not served have been reported.
    has_reported_beside: bool,
    /// Registered endpoints by view and cluster. A cluster whose last registration has ended has an
    /// empty map.
    clusters: BTreeMap<(ViewName, String), BTreeMap<String, Registered>>,
    /// Keys of known registrations. The event of a deletion has no lease, so only this set shows
    /// that the key was a registration.
    registrations: BTreeSet<Bytes>,
    /// Clusters with a `ClusterLoadAssignment` under their own key, which replaces registrations.
    assignments: BTreeSet<(ViewName, String)>,
    /// Newest revision that was read or watched.
    newest: u64,
    /// Requests for the progress of the watch that was opened last.
    progress: Option<ProgressRequests>,
}

impl EtcdSource {
    /// Creates a source of the resources below a prefix, such as `/xds`.
    #[must_use]
    pub fn new(client: EtcdClient, prefix: &str) -> Self {
        Self { client, layout: Layout::new(prefix), state: Arc::default() }
    }

    fn lock_state(&self) -> MutexGuard<'_, State> {
        // State that a panic left incomplete does no harm, because the source is listed again.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(&self) -> Result<List, EtcdError> {
        let pointer = KeyRange { first: self.layout.current().into(), end: Bytes::new() };
        let pointer = self.client.read(&pointer, None).await?;
        let generation = pointer.keys.first().map(|it| text_of(&it.value));
        // Registrations are below the prefix itself.
        let mut ranges = self.layout.ranges(None);
        if generation.is_some() {
            ranges.extend(self.layout.ranges(generation.as_deref()));
        }
        ranges.push(KeyRange { first: self.layout.force().into(), end: Bytes::new() });
        let keys = self.client.read_all(&ranges, pointer.revision).await?;
        let generations_since = pointer.keys.first().map_or(0, |it| it.create_revision);
        let mut state = State { generation, generations_since, ..State::default() };
        let mut changes = Changes::default();
        for kv in keys {
            state.take(&self.layout, Event { kv: Some(kv), ..Event::default() }, &mut changes);
        }
        // The end of a cluster's last registration may have been missed between two watches.
        let known: Vec<_> = self.lock_state().clusters.keys().cloned().collect();
        for key in known.into_iter().filter(|key| !state.assignments.contains(key)) {
            state.clusters.entry(key.clone()).or_default();
            changes.clusters.insert(key);
        }
        state.report_beside(&self.layout, &changes);
        let objects = changes.finish(&state, pointer.revision).into_iter();
        let objects = objects.filter_map(|change| match change {
            ObjectChange::Set(object) => Some(object),
            ObjectChange::Delete(_) => None,
        });
        let objects = objects.collect();
        let mut known = self.lock_state();
        state.newest = known.newest.max(pointer.revision);
        *known = state;
        drop(known);
        Ok(List { revision: Revision(pointer.revision), objects })
    }

    /// Converts a transaction. Fails if another generation has become current.
    fn change_of(&self, transaction: Transaction) -> Result<Change, WatchError> {
        let Transaction { revision, events } = transaction;
        let mut state = self.lock_state();
        state.newest = state.newest.max(revision);
        let pointer = self.layout.current();
        let is_pointer =
            |event: &Event| event.kv.as_ref().is_some_and(|kv| kv.key == pointer.as_bytes());
        if events.iter().any(is_pointer) {
            return Err(WatchError::Replaced);
        }
        let mut changes = Changes::default();
        for event in events {
            state.take(&self.layout, event, &mut changes);
        }
        state.report_beside(&self.layout, &changes);
        Ok(Change { revision: Revision(revision), objects: changes.finish(&state, revision) })
    }
}

impl Source for EtcdSource {
    async fn list(&self) -> Result<List, SourceError> {
        Ok(self.read().await?)
    }

    fn watch(
        &self,
        after: Revision,
    ) -> impl Stream<Item = Result<Change, WatchError>> + Send + 'static {
        enum Progress {
            Start(EtcdSource),
            Running(EtcdSource, Box<RangeWatch>),
            Ended,
        }
        stream::unfold(Progress::Start(self.clone()), move |progress| async move {
            let (source, mut watch) = match progress {
                Progress::Start(source) => {
                    let range = KeyRange::of_prefix(&source.layout.all());
                    match RangeWatch::open(&source.client, &range, after.0).await {
                        Ok(watch) => {
                            source.lock_state().progress = Some(watch.progress());
                            (source, Box::new(watch))
                        }
                        Err(why) => return Some((Err(error_of(why)), Progress::Ended)),
                    }
                }
                Progress::Running(source, watch) => (source, watch),
                Progress::Ended => return None,
            };
            let changed = watch.next().await.map_err(error_of);
            match changed.and_then(|transaction| source.change_of(transaction)) {
                Ok(change) => Some((Ok(change), Progress::Running(source, watch))),
                Err(why) => Some((Err(why), Progress::Ended)),
            }
        })
    }

    async fn newest_revision(&self) -> Result<Option<Revision>, SourceError> {
        // The watch may read newer revisions during the call.
        let known = self.lock_state().newest;
        // Not serializable, so a quorum of the members confirms the revision.
        let pointer = KeyRange { first: self.layout.current().into(), end: Bytes::new() };
        let read = self.client.read(&pointer, None).await?;
        Restored::check(read.revision, known)?;
        Ok(Some(Revision(read.revision)))
    }

    fn report_progress(&self) {
        if let Some(progress) = &self.lock_state().progress {
            progress.send();
        }
    }
}

fn error_of(end: WatchEnd) -> WatchError {
    match end {
        WatchEnd::Compacted => WatchError::Compacted,
        WatchEnd::Restored(why) => WatchError::Source(why.into()),
        WatchEnd::Failed(why) => WatchError::Source(why.into()),
    }
}

/// Objects that a transaction changes.
#[derive(Debug, Default)]
struct Changes {
    objects: BTreeMap<ObjectId, ObjectChange>,
    /// Clusters whose registrations have changed.
    clusters: BTreeSet<(ViewName, String)>,
    /// Keys below the prefix itself that have a resource, while a generation is current.
    beside: BTreeSet<ObjectId>,
}

impl Changes {
    fn set(&mut self, object: Object) {
        self.objects.insert(object.id.clone(), ObjectChange::Set(object));
    }

    fn delete(&mut self, id: ObjectId) {
        self.objects.insert(id.clone(), ObjectChange::Delete(id));
    }

    /// Adds the resources of the clusters with changed registrations.
    fn finish(mut self, state: &State, revision: u64) -> Vec<ObjectChange> {
        for (view, cluster) in core::mem::take(&mut self.clusters) {
            let key = (view, cluster);
            let id = registrations_id(&key);
            let Some(endpoints) = state.clusters.get(&key) else { continue };
            let (view, cluster) = key;
            let content = Content::Document {
                format: Format::Json,
                bytes: assignment(&cluster, endpoints),
                only: Some((types::CLUSTER_LOAD_ASSIGNMENT.into(), cluster.as_str().into())),
            };
            self.set(Object::new(id, view, Revision(revision), content));
        }
        self.objects.into_values().collect()
    }
}

impl State {
    /// Warns once about keys that are not served. A program that does not know of generations writes
    /// them.
    fn report_beside(&mut self, layout: &Layout, changes: &Changes) {
        let Some(first) = changes.beside.first().filter(|_| !self.has_reported_beside) else {
            return;
        };
        self.has_reported_beside = true;
        let current = layout.current();
        let of_generation = layout.resources(self.generation.as_deref());
        let (keys, are) = match changes.beside.len() {
            1 => ("1 key".to_owned(), "is"),
            many => (format!("{many} keys"), "are"),
        };
        warn!(
            key = %first,
            "{keys} {are} not served, because {current} names a generation, whose keys are below \
             {of_generation}: write with `EtcdStore` or `xds apply`"
        );
    }

    /// Takes one event into account. Keys of other generations are ignored.
    fn take(&mut self, layout: &Layout, event: Event, changes: &mut Changes) {
        let is_deleted = event.r#type() == EventType::Delete;
        let Some(kv) = event.kv else { return };
        let id = ObjectId::from(String::from_utf8_lossy(&kv.key).into_owned());
        if kv.key == layout.force().as_bytes() {
            if is_deleted {
                return changes.delete(id);
            }
            let (view, content) = (ViewName::default(), Content::Documents(Vec::new()));
            let mut object = Object::new(id, view, revision_of(&kv), content);
            object.forced = text_of(&kv.value);
            return changes.set(object);
        }
        let was_registered = self.registrations.remove(&kv.key);
        if was_registered || kv.lease != 0 {
            let rest = layout.of_generation(None, &kv.key).map(ResourceKey::parse);
            let registration = rest.and_then(Result::ok).and_then(|key| {
                let (cluster, endpoint) = key.registration()?;
                Some(((key.view.clone(), cluster.to_owned()), endpoint.to_owned()))
            });
            if let Some((key, endpoint)) = registration {
                let value = (!is_deleted && kv.lease != 0).then(|| Endpoint::parse(&kv.value));
                self.take_registration(key, endpoint, &kv, value, id.clone(), changes);
                if is_deleted || kv.lease != 0 {
                    return;
                }
            }
        }
        let Some(rest) = layout.of_generation(self.generation.as_deref(), &kv.key) else {
            // The writer of the first generation removes older ones.
            let is_newer = !is_deleted && kv.mod_revision > self.generations_since;
            if is_newer && layout.of_generation(None, &kv.key).is_some() {
                changes.beside.insert(id);
            }
            return;
        };
        let parsed = ResourceKey::parse(rest);
        if let Ok(ResourceKey { view, type_url, name }) = &parsed
            && type_url.as_str() == types::CLUSTER_LOAD_ASSIGNMENT
        {
            let key = (view.clone(), name.as_str().to_owned());
            if is_deleted {
                self.assignments.remove(&key);
            } else {
                self.assignments.insert(key.clone());
                self.prefer_assignment(&key, changes);
            }
        }
        if is_deleted {
            return changes.delete(id);
        }
        let revision = revision_of(&kv);
        let (view, content) = match parsed {
            Ok(ResourceKey { view, type_url, name }) => {
                (view, content_of_value(&type_url, &name, kv.value))
            }
            Err(fault) => (ViewName::default(), Content::Invalid(fault.to_string())),
        };
        changes.set(Object::new(id, view, revision, content));
    }

    fn take_registration(
        &mut self,
        key: (ViewName, String),
        endpoint: String,
        kv: &KeyValue,
        value: Option<Result<Endpoint, String>>,
        id: ObjectId,
        changes: &mut Changes,
    ) {
        match value {
            Some(Ok(value)) => {
                self.registrations.insert(kv.key.clone());
                let value = Registered { revision: revision_of(kv).0, endpoint: value };
                self.clusters.entry(key.clone()).or_default().insert(endpoint, value);
                // It may have been invalid before.
                changes.delete(id);
            }
            // The last valid registration stays in use until its key is deleted.
            Some(Err(fault)) => {
                self.registrations.insert(kv.key.clone());
                let content = Content::Invalid(fault);
                changes.set(Object::new(id, key.0.clone(), revision_of(kv), content));
            }
            None => {
                // Without endpoints, the resource stays and is empty, because in state of the world
                // a server cannot report that endpoints do not exist.
                if let Some(endpoints) = self.clusters.get_mut(&key) {
                    endpoints.remove(&endpoint);
                }
                changes.delete(id);
                self.prefer_assignment(&key, changes);
            }
        }
        changes.clusters.insert(key);
    }

    /// Forgets the registrations of a cluster once all have ended, if the cluster has a resource
    /// under its own key, which then defines the endpoints.
    fn prefer_assignment(&mut self, key: &(ViewName, String), changes: &mut Changes) {
        let have_ended = self.clusters.get(key).is_some_and(BTreeMap::is_empty);
        if have_ended && self.assignments.contains(key) {
            self.clusters.remove(key);
            changes.delete(registrations_id(key));
        }
    }
}

/// Returns the id of the object with the registrations of a cluster.
fn registrations_id((view, cluster): &(ViewName, String)) -> ObjectId {
    let segment = if view.as_str().is_empty() { "default" } else { view.as_str() };
    ObjectId::from(format!("{segment}/endpoints/{cluster} (registrations)"))
}

fn revision_of(kv: &KeyValue) -> Revision {
    Revision(u64::try_from(kv.mod_revision).unwrap_or(0))
}

/// Returns the content of a key with a whole resource: text, whose format is detected from its
/// beginning, or an encoded message.
#[must_use]
pub fn content_of_value(type_url: &TypeUrl, name: &ResourceName, value: Bytes) -> Content {
    match format_of(type_url, name, &value) {
        Some(format) => {
            let only = Some((type_url.clone(), name.clone()));
            Content::Document { format, bytes: value, only }
        }
        None => Content::Resources(vec![(type_url.clone(), name.clone(), value)]),
    }
}

/// First characters of a document in the text format.
const TEXT_MARK: &str = "# proto-message:";

/// Returns the format of a value, or `None` for an encoded message.
fn format_of(type_url: &TypeUrl, name: &ResourceName, value: &[u8]) -> Option<Format> {
    let text = core::str::from_utf8(value).ok()?;
    let is_printable = |it: char| !it.is_control() || matches!(it, '\n' | '\r' | '\t');
    // An encoded message may happen to look like text. Its name field then has the name in the key.
    let encoded_name = resource_name(Schema::envoy(), type_url.as_str(), value);
    if !text.chars().all(is_printable) || encoded_name.is_ok_and(|it| it == name.as_str()) {
        return None;
    }
    Some(match text.trim_start() {
        text if text.starts_with(TEXT_MARK) => Format::Text,
        text if text.starts_with('{') => Format::Json,
        _ => Format::Yaml,
    })
}

fn text_of(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim().to_owned()
}
