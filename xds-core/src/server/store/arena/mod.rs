//! Arena: all resources of one type in one view, in the order of their last change.
//!
//! | file | contents |
//! |---|---|
//! | `arena/changes_since.rs` | resources changed after a revision |
//! | `arena/past.rs` | versions that ended, and resources removed after a revision |
//! | `arena/encoded_changes.rs` | response bodies, built once for all clients |
//! | `arena/resource.rs` | one name with its resource or error |

pub(crate) mod aliases;
pub(crate) mod changes_since;
pub(crate) mod encoded_changes;
pub(crate) mod endpoint_names;
pub(crate) mod glob_index;
pub(crate) mod heartbeat_schedule;
pub(crate) mod past;
mod resource;

use alloc::{
    boxed::Box,
    collections::{BTreeSet, VecDeque},
    format,
    vec::Vec,
};
use core::num::NonZeroU64;

use bytes::Bytes;

pub(crate) use self::resource::{EffectiveContents, ResourceEntry};
use self::{
    aliases::AliasIndex,
    changes_since::ResumePoint,
    encoded_changes::{EncodedChanges, ResourceSet},
    glob_index::GlobIndex,
    heartbeat_schedule::HeartbeatSchedule,
    past::Past,
};
use super::{
    ChangeKind,
    encode::body::{Payload, ResponseBody, Ttls, entry_len},
    payload_pool::PayloadPool,
    resource_options::ResourceOptions,
    revision::Revision,
    transaction::ResourceError,
    version::{
        VersionState,
        content::{ContentHash, TypeVersion},
    },
};
use crate::{
    cost_probe,
    index::NameIndex,
    server::{
        config::{Missing, Removals, SotwResponse, TypeConfig, UnknownType},
        event::StatusCode,
    },
    slab::{Slab, Slot},
    text::{ResourceName, TypeUrl, VersionPrefix},
};

/// All resources of one type in one view.
///
/// The list of the slab starts with names that are subscribed but do not exist, continues with
/// the resource that has been unchanged for longest, and ends with the one changed last. The
/// changes that a wildcard client lacks are therefore the tail of the list, however many
/// resources there are. The removals that a client lacks are the tail of the tombstones.
// S0.133
#[derive(Debug)]
pub(crate) struct Arena {
    /// View to which the arena belongs.
    pub(crate) view: Slot,
    pub(crate) type_url: TypeUrl,
    pub(crate) config: TypeConfig,
    /// Error for names that do not exist.
    not_found: Option<Box<ResourceError>>,
    pub(crate) version: TypeVersion,
    /// Sessions with a wildcard, in the order in which they subscribed to it.
    pub(crate) wildcards: Slab<Slot>,
    /// Heartbeat schedule of resources with a TTL.
    pub(crate) heartbeats: HeartbeatSchedule,
    /// Number of sessions for the type.
    pub(crate) sessions: usize,
    /// Whether the resources are those of the view's layers, kept while there are subscribers.
    pub(crate) shows_layers: bool,
    /// Whether clients are sent changes only once the current burst has ended.
    // M225
    pub(crate) is_held_back: bool,
    /// Arenas of layered views that show these resources.
    pub(crate) above: BTreeSet<Slot>,
    /// Number of the newest transaction that changed this arena.
    pub(crate) sequence: u64,
    /// Versions that ended, and removals.
    pub(crate) past: Past,
    pub(super) resources: Slab<ResourceEntry>,
    names: NameIndex,
    pub(crate) glob_index: GlobIndex,
    pub(crate) alias_index: AliasIndex,
    existing: usize,
    /// Number of names with a resource or an error.
    held: usize,
    framed_bytes: usize,
    /// Maximum size of all resources in incremental responses, in bytes.
    pub(super) entry_bytes: usize,
    /// Number of resources with a TTL.
    timed: usize,
    revision: Revision,
    /// Encoded full states, by version.
    full_bodies: Vec<(TypeVersion, Ttls, ResponseBody)>,
    /// Full states, by version.
    resource_sets: Vec<(TypeVersion, ResourceSet)>,
    /// Recently used tails, oldest first.
    encoded_changes: VecDeque<EncodedChanges>,
    /// Position at which the last walk ran out of room, so that the next one need not search.
    resume_point: ResumePoint,
    pub(crate) versions: VersionState,
}

impl Arena {
    pub(crate) fn new(
        view: Slot,
        type_url: TypeUrl,
        config: TypeConfig,
        unknown: UnknownType,
        prefix: VersionPrefix,
        seed: u64,
    ) -> Self {
        let reports = config.missing == Missing::NotFound || unknown == UnknownType::NotFound;
        let not_found = reports.then(|| {
            let message = format!("no such resource of type {type_url}").into();
            Box::new(ResourceError { code: StatusCode::NotFound, message })
        });
        Self {
            not_found,
            view,
            type_url,
            config,
            version: TypeVersion::default(),
            wildcards: Slab::default(),
            heartbeats: HeartbeatSchedule::default(),
            sessions: 0,
            shows_layers: false,
            is_held_back: false,
            above: BTreeSet::new(),
            sequence: 0,
            past: Past::default(),
            resources: Slab::default(),
            names: NameIndex::new(seed),
            glob_index: GlobIndex::default(),
            alias_index: AliasIndex::default(),
            existing: 0,
            held: 0,
            framed_bytes: 0,
            entry_bytes: 0,
            timed: 0,
            revision: Revision::START,
            full_bodies: Vec::new(),
            resource_sets: Vec::new(),
            encoded_changes: VecDeque::new(),
            resume_point: ResumePoint::default(),
            versions: VersionState::new(config.versions, prefix),
        }
    }

    /// Whether absence of a resource from a state-of-the-world response removes it.
    pub(crate) fn absence_deletes(&self) -> bool {
        self.config.sotw_response == SotwResponse::FullState
    }

    /// Whether incremental clients are sent removals.
    pub(crate) fn sends_removals(&self) -> bool {
        self.config.removals == Removals::Send
    }

    /// Returns the error for every name that does not exist, if it is to be sent.
    pub(crate) fn missing_error(&self) -> Option<&ResourceError> {
        let is_reported = self.config.missing == Missing::NotFound || self.existing == 0;
        self.not_found.as_deref().filter(|_| is_reported)
    }

    /// Stores a resource that was changed at a revision of the source. Returns `None` if it is
    /// unchanged, apart from that revision.
    // M104, M68
    pub(crate) fn set(
        &mut self,
        name: &ResourceName,
        (value, options, source): (&Bytes, &ResourceOptions, Option<NonZeroU64>),
        now: Revision,
        pool: &mut PayloadPool,
    ) -> Option<Slot> {
        let slot = self.slot_of(name.clone())?;
        let resource = self.resources.at_mut(slot)?;
        let is_same = resource.payload.as_ref().is_some_and(|payload| payload.is(value, options));
        let error = resource.error.take();
        resource.answer();
        if is_same {
            self.rewrite(slot, source);
            return error.map(|_| slot);
        }
        self.held += usize::from(resource.payload.is_none() && error.is_none());
        let mut payload = pool.take(&self.type_url, value, options);
        payload.source_revision = source;
        let (hash, framed, entry) = (payload.hash, payload.framed.len(), entry_len(name, &payload));
        self.timed += usize::from(payload.ttl().is_some());
        let replaced = resource.payload.replace(payload);
        if let Some(replaced) = &replaced {
            self.past.replace((slot, now), resource, replaced);
        } else {
            self.past.note_recreated(resource.revision);
            resource.note_created(now);
        }
        resource.before = if replaced.is_some() { resource.revision } else { now };
        resource.revision = now;
        if let Some(replaced) = &replaced {
            pool.release(replaced);
        }
        self.forget(name, replaced.as_ref(), now);
        self.version.add(name.as_str(), hash);
        self.existing += 1;
        self.framed_bytes += framed;
        self.entry_bytes += entry;
        self.resources.move_to_back(slot);
        if replaced.is_none() {
            self.index_name(name);
        }
        let before = replaced.as_ref().map(|payload| &*payload.options().aliases);
        self.index_aliases((name, slot), before.unwrap_or_default(), &options.aliases);
        Some(slot)
    }

    /// Returns the effect that removing a resource has on its subscribers.
    pub(crate) fn removal_change_kind(&self, name: &ResourceName) -> ChangeKind {
        match self.entry(name.as_str()).is_some_and(|it| it.payload.is_some() && it.error.is_some())
        {
            true => ChangeKind::ContentAndError,
            false => ChangeKind::Content,
        }
    }

    /// Removes a resource. Its slot is kept while the name has subscribers or a tombstone.
    pub(crate) fn remove(
        &mut self,
        name: &ResourceName,
        now: Revision,
        pool: &mut PayloadPool,
    ) -> Option<Slot> {
        let slot = self.find(name.as_str())?;
        let resource = self.resources.at_mut(slot)?;
        if resource.error.take().is_some() && resource.payload.is_none() {
            self.held -= 1;
            self.release(slot);
            return Some(slot);
        }
        let removed = resource.payload.take()?;
        self.held -= 1;
        self.past.remove((slot, now), resource, &removed);
        resource.revision = now;
        pool.release(&removed);
        self.forget(name, Some(&removed), now);
        self.resources.move_to_front(slot);
        self.index_aliases((name, slot), &removed.options().aliases, &[]);
        self.release(slot);
        self.index_name(name);
        Some(slot)
    }

    /// Sets the error sent to subscribers of a name. Returns `None` if it is unchanged.
    // M171
    pub(crate) fn set_error(&mut self, name: &ResourceName, error: &ResourceError) -> Option<Slot> {
        let slot = self.slot_of(name.clone())?;
        let resource = self.resources.at_mut(slot)?;
        if resource.error.as_deref() == Some(error) {
            return None;
        }
        resource.answer();
        let is_new = resource.payload.is_none() && resource.error.is_none();
        self.held += usize::from(is_new);
        resource.error = Some(Box::new(error.clone()));
        Some(slot)
    }

    /// Sets the resource and the error shown under a name. Returns `None` if they are unchanged.
    pub(crate) fn show(
        &mut self,
        name: &ResourceName,
        contents: EffectiveContents,
        now: Revision,
        pool: &mut PayloadPool,
    ) -> Option<(Slot, ChangeKind)> {
        let EffectiveContents { payload, endpoint_names, error } = contents;
        let current = self.entry(name.as_str());
        let is_same = match (current.and_then(|it| it.payload.as_ref()), &payload) {
            (Some(current), Some(contents)) => current.is(&contents.value, contents.options()),
            (None, None) => true,
            _ => false,
        };
        let change = match payload {
            _ if is_same && error.is_some() => None,
            Some(contents) => {
                let source = contents.source_revision;
                let content = (&contents.value, contents.options(), source);
                let slot = self.set(name, content, now, pool);
                if let Some(resource) = slot.and_then(|slot| self.at_mut(slot)) {
                    resource.set_endpoint_names(endpoint_names);
                }
                slot.map(|slot| (slot, ChangeKind::Content))
            }
            None => {
                let change_kind = self.removal_change_kind(name);
                self.remove(name, now, pool).map(|slot| (slot, change_kind))
            }
        };
        let Some(error) = error else { return change };
        let error_change = self.set_error(name, &error).map(|slot| (slot, ChangeKind::Error));
        match (change, error_change) {
            // A slot freed by the removal has been replaced by another one.
            (Some(_), Some((slot, _))) => Some((slot, ChangeKind::Content)),
            (change, error_change) => error_change.or(change),
        }
    }

    /// Releases all payloads of the arena.
    pub(crate) fn empty_into(&self, pool: &mut PayloadPool) {
        let payloads = self.resources.iter().filter_map(|(_, it)| it.payload.as_ref());
        payloads.for_each(|payload| pool.release(payload));
    }

    /// Returns the slot of a name, adding the name if needed, whether or not its resource exists.
    /// Returns `None` only if no slot is left.
    pub(crate) fn slot_of(&mut self, name: impl Into<ResourceName> + AsRef<str>) -> Option<Slot> {
        if let Some(slot) = self.find(name.as_ref()) {
            return Some(slot);
        }
        let name = name.into();
        let resource = ResourceEntry { name: name.clone(), ..ResourceEntry::default() };
        let slot = self.resources.push_back(resource)?.slot();
        self.resources.move_to_front(slot);
        let resources = &self.resources;
        self.names.insert(name.as_str(), slot, |slot| name_in(resources, slot));
        self.glob_index.add(&name, slot, self.config.globs);
        Some(slot)
    }

    /// Frees the slot of a name without resource, error, subscribers, tombstone and past versions.
    // M243
    pub(crate) fn release(&mut self, slot: Slot) {
        let idle = |it: &&ResourceEntry| !it.is_held() && it.subscribers.is_empty();
        let Some(resource) = self.resources.at(slot).filter(idle) else { return };
        self.settle((slot, resource.revision));
        if !self.past.has(slot)
            && let Some(resource) = self.resources.remove(slot)
        {
            self.names.remove(resource.name.as_str(), slot);
            self.glob_index.remove(&resource.name, slot);
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<Slot> {
        self.names.find(name, |slot| name_in(&self.resources, slot))
    }

    pub(crate) fn entry(&self, name: &str) -> Option<&ResourceEntry> {
        self.at(self.find(name)?)
    }

    pub(crate) fn at(&self, slot: Slot) -> Option<&ResourceEntry> {
        cost_probe::note();
        self.resources.at(slot)
    }

    pub(crate) fn at_mut(&mut self, slot: Slot) -> Option<&mut ResourceEntry> {
        self.resources.at_mut(slot)
    }

    pub(crate) fn payload(&self, slot: Slot) -> Option<&Payload> {
        self.at(slot)?.payload.as_ref()
    }

    /// Number of existing resources.
    pub(crate) fn existing(&self) -> usize {
        self.existing
    }

    /// Whether any resource has a TTL.
    pub(crate) fn has_ttls(&self) -> bool {
        self.timed > 0
    }

    /// Number of names with a resource or an error.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Returns the names with a resource or an error.
    pub(crate) fn held_names(&self) -> impl Iterator<Item = &ResourceName> {
        self.held_resources().map(|it| &it.name)
    }

    /// Returns the entries with a resource or an error.
    pub(crate) fn held_resources(&self) -> impl Iterator<Item = &ResourceEntry> {
        self.resources.iter().map(|(_, it)| it).filter(|it| it.is_held())
    }

    /// Number of names in the arena, with or without a resource.
    pub(crate) fn names(&self) -> usize {
        self.resources.len()
    }

    /// Whether there is no reason to keep the arena.
    pub(crate) fn is_idle(&self) -> bool {
        let held = if self.shows_layers { 0 } else { self.held };
        held + self.sessions + self.above.len() == 0
    }

    /// Whether the resource exists with this content.
    pub(crate) fn has(&self, name: &ResourceName, content: ContentHash) -> bool {
        let payload = self.entry(name.as_str()).and_then(|entry| entry.payload.as_ref());
        payload.is_some_and(|payload| payload.hash == content)
    }

    /// Returns the slots of all names: those without a resource first, then by last change,
    /// oldest first.
    pub(crate) fn slots(&self) -> impl Iterator<Item = Slot> {
        self.resources.iter().map(|(slot, _)| slot)
    }

    /// Returns the revision of the source at which a resource was changed or removed last.
    pub(crate) fn source_revision(&self) -> Option<NonZeroU64> {
        self.versions.source_revision
    }

    fn forget(&mut self, name: &ResourceName, payload: Option<&Payload>, now: Revision) {
        self.revision = now;
        self.resource_sets.clear();
        self.forget_bodies();
        if let Some(payload) = payload {
            self.version.subtract(name.as_str(), payload.hash);
            self.existing -= 1;
            self.framed_bytes -= payload.framed.len();
            self.entry_bytes -= entry_len(name, payload);
            self.timed -= usize::from(payload.ttl().is_some());
        }
    }

    /// Forgets encoded bodies of responses.
    pub(crate) fn forget_bodies(&mut self) {
        self.full_bodies.clear();
        self.encoded_changes.clear();
    }
}

fn name_in(resources: &Slab<ResourceEntry>, slot: Slot) -> Option<&str> {
    resources.at(slot).map(|resource| resource.name.as_str())
}
