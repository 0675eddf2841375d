//! Store of resources: one arena per view and type, changed by transactions.
//!
//! The store does not depend on sessions. A transaction returns the resources that it changed,
//! and the server updates the sessions that subscribe to them.

pub(crate) mod arena;
mod candidates;
pub(crate) mod contents;
pub(crate) mod encode;
pub(crate) mod layers;
pub(crate) mod on_demand;
pub(crate) mod payload_pool;
pub(crate) mod resource_options;
pub(crate) mod revision;
pub(crate) mod snapshot;
pub(crate) mod subscription_list;
pub(crate) mod transaction;
pub(crate) mod validate;
pub(crate) mod version;
pub(crate) mod view;

use alloc::{collections::BTreeMap, vec, vec::Vec};
use core::num::NonZeroU64;

use foldhash::fast::FixedState;
use hashbrown::HashSet;

use self::{
    arena::{Arena, ResourceEntry},
    payload_pool::PayloadPool,
    revision::Revision,
    transaction::{Applied, ChangeContent, ResourceChange, Transaction, TransactionError},
    view::View,
};
use super::config::{ServerConfig, UnknownType};
use crate::{
    references::ReferenceExtractor,
    rng::Rng,
    slab::{Key, Slab, Slot},
    text::{TypeUrl, ViewName},
    types,
};

/// All resources of all types in all views.
#[derive(Debug)]
pub(crate) struct Store {
    views: Slab<View>,
    view_names: BTreeMap<ViewName, Slot>,
    default_view: Slot,
    arenas: Slab<Arena>,
    pool: PayloadPool,
    rng: Rng,
    hasher: FixedState,
    /// Number of the newest transaction that changed anything.
    sequence: u64,
    /// Revision of the newest change.
    clock: Revision,
    resources: usize,
    /// Views that may have become used or unused.
    noted_views: Vec<Key>,
    /// Resources shown by arenas that were opened over layers.
    pub(crate) opened_over_layers: Vec<(Slot, Slot, ChangeKind)>,
}

/// Changes made by a transaction, for updating the subscribers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChangeSet {
    /// Changed resources: slots of the arena and the resource, and the kind of change.
    pub(crate) resources: Vec<(Slot, Slot, ChangeKind)>,
    /// Arenas of the changed resources, without duplicates.
    pub(crate) arenas: Vec<Slot>,
    /// Arenas in which only the application-defined version changed.
    // M69
    pub(crate) version_only: Vec<Slot>,
}

/// Kind of change of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// The resource was created, changed or removed, or its error ended.
    Content,
    /// The error was set or changed.
    Error,
    /// The name is an alias and refers to another resource or to none, or the resource lost an
    /// alias. Its own contents are unchanged.
    AliasChanged,
    /// An error was set in answer to a request to the application; nothing was sent before.
    Answer,
    /// The resource was removed together with its error, which also concerns clients that were
    /// sent the error.
    ContentAndError,
}

impl ChangeSet {
    fn add(&mut self, slot: Slot, arena: &mut Arena, sequence: u64, what: (Slot, ChangeKind)) {
        // First, so that the resource is the newest of what is removed together.
        let changed_aliases = arena.take_changed_aliases().into_iter();
        self.resources.extend(changed_aliases.map(|name| (slot, name, ChangeKind::AliasChanged)));
        self.resources.push((slot, what.0, what.1));
        self.add_arena(slot, arena, sequence);
    }

    fn add_arena(&mut self, slot: Slot, arena: &mut Arena, sequence: u64) {
        if arena.sequence != sequence {
            arena.sequence = sequence;
            self.arenas.push(slot);
        }
    }
}

impl Store {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let mut store = Self {
            views: Slab::default(),
            view_names: BTreeMap::new(),
            default_view: Slot::NONE,
            arenas: Slab::default(),
            pool: PayloadPool::new(rng),
            hasher: FixedState::with_seed(rng.next_u64()),
            rng: Rng::new(rng.next_u64()),
            sequence: 0,
            clock: Revision::START,
            resources: 0,
            noted_views: Vec::new(),
            opened_over_layers: Vec::new(),
        };
        store.default_view = store.open_view(&ViewName::default()).unwrap_or(Slot::NONE);
        store
    }

    /// Applies a transaction completely, or not at all if any part of it is invalid.
    pub(crate) fn apply(
        &mut self,
        transaction: &Transaction,
        config: &ServerConfig,
    ) -> Result<(Applied, ChangeSet), TransactionError> {
        let removals = self.removals_of(transaction)?;
        let (view, changes) = self.validate(transaction, &removals, config)?;
        let view = view.or_else(|| self.open_view(transaction.view()));
        let Some(view) = view else {
            return Err(TransactionError::TooManyViews { limit: config.limits.views });
        };

        if let Some(view) = self.views.at_mut(view) {
            view.is_dropped = false;
        }

        let mut change_set = ChangeSet::default();
        let source = transaction.source_revision;
        let (changed, removed) = self.make_changes(view, &changes, source, config, &mut change_set);
        let sequence = self.sequence + 1;
        self.apply_versions(view, transaction, sequence, &mut change_set);
        if !change_set.arenas.is_empty() {
            self.sequence = sequence;
        }
        self.release_view(view);
        Ok((Applied { sequence: self.sequence, changed, removed }, change_set))
    }

    /// Makes validated changes, at a revision of the source. Returns the numbers of changed and of
    /// removed resources.
    pub(crate) fn make_changes(
        &mut self,
        view: Slot,
        changes: &[&ResourceChange],
        source: Option<NonZeroU64>,
        config: &ServerConfig,
        change_set: &mut ChangeSet,
    ) -> (usize, usize) {
        let sequence = self.sequence + 1;
        let (mut changed, mut removed) = (0, 0);
        for change in changes {
            let type_url = change.type_url.as_str();
            let arena_slot = match change.content {
                ChangeContent::Nothing => self.find_arena(view, type_url),
                _ => self.open_arena(view, type_url, config),
            };
            let Some(arena_slot) = arena_slot else { continue };
            let Some(arena) = self.arenas.at_mut(arena_slot) else { continue };
            let held = arena.held();
            let (now, pool, name) = (self.clock.next(), &mut self.pool, &change.name);
            let source = change.changed_at.or(source);
            let (slot, count, change_kind) = match &change.content {
                ChangeContent::Resource(value, options) => {
                    let slot = arena.set(name, (value, options, source), now, pool);
                    if let (Some(slot), Some(references)) = (slot, references_of(change, config)) {
                        arena.note_endpoint_names(slot, references);
                    }
                    (slot, &mut changed, ChangeKind::Content)
                }
                ChangeContent::Nothing => {
                    let change_kind = arena.removal_change_kind(name);
                    (arena.remove(name, now, pool), &mut removed, change_kind)
                }
                ChangeContent::Error(error) => {
                    let is_requested =
                        arena.entry(name.as_str()).is_some_and(|it| it.is_requested());
                    let change_kind =
                        if is_requested { ChangeKind::Answer } else { ChangeKind::Error };
                    (arena.set_error(name, error), &mut changed, change_kind)
                }
            };
            let Some(slot) = slot else {
                // A rewrite of equal content has a revision all the same.
                if source.is_some() && matches!(change.content, ChangeContent::Resource(..)) {
                    let unchanged = &mut ChangeSet::default();
                    self.show_above(arena_slot, name, self.sequence, unchanged);
                }
                continue;
            };
            if !matches!(change.content, ChangeContent::Error(_)) {
                arena.note_source_revision(source);
            }
            self.clock = now;
            *count += 1;
            self.resources = self.resources + arena.held() - held;
            change_set.add(arena_slot, arena, sequence, (slot, change_kind));
            self.show_above(arena_slot, name, sequence, change_set);
        }
        (changed, removed)
    }

    /// Validates a transaction. Returns its view, if that exists, and the effective changes,
    /// including `removals`.
    fn validate<'a>(
        &self,
        transaction: &'a Transaction,
        removals: &'a [ResourceChange],
        config: &ServerConfig,
    ) -> Result<(Option<Slot>, Vec<&'a ResourceChange>), TransactionError> {
        let mut changes = self.last_of_each_name(&transaction.changes);
        changes.splice(..0, removals);
        let view = self.find_view(transaction.view());
        if view.and_then(|view| self.views.at(view)).is_some_and(|view| !view.layers.is_empty()) {
            return Err(TransactionError::LayeredView { view: transaction.view().clone() });
        }
        self.check(view, &transaction.changes, &changes, config)?;
        self.check_versions(view, transaction, &changes, config)?;
        Ok((view, changes))
    }

    /// Returns the revision of the newest change.
    pub(crate) fn clock(&self) -> Revision {
        self.clock
    }

    /// Returns the arena of a type, creating it if needed. Returns `None` only if no slot is
    /// left.
    pub(crate) fn open_arena(
        &mut self,
        view: Slot,
        type_url: &str,
        config: &ServerConfig,
    ) -> Option<Slot> {
        if let Some(slot) = self.find_arena(view, type_url) {
            return Some(slot);
        }
        let seed = self.rng.next_u64();
        let unknown = match config.knows_type(type_url) {
            true => UnknownType::Hold,
            false => config.unknown_type,
        };
        let rules = config.type_config(type_url);
        let prefix = config.version_prefix.clone();
        let type_name = TypeUrl::from(type_url);
        let arena = Arena::new(view, type_name.clone(), rules, unknown, prefix, seed);
        let slot = self.arenas.push_back(arena)?.slot();
        let view = self.views.at_mut(view)?;
        view.arenas.insert(type_name, slot);
        let stable = view.stands_for;
        if !view.layers.is_empty() {
            // The arena has no subscribers, but its resources may need heartbeats.
            let mut change_set = ChangeSet::default();
            self.show_layers(slot, config, &mut change_set);
            self.opened_over_layers.append(&mut change_set.resources);
        }
        if let Some(stable) = stable {
            self.open_arena(stable, type_url, config);
        }
        Some(slot)
    }

    /// Frees an arena without resources and sessions, so that invented types leave nothing
    /// behind.
    pub(crate) fn release_arena(&mut self, slot: Slot) {
        let is_idle =
            |it: &Arena| it.is_idle() && !self.is_for_candidate(it.view, it.type_url.as_str());
        if self.arenas.at(slot).is_some_and(is_idle)
            && let Some(arena) = self.arenas.remove(slot)
        {
            let mut stable = None;
            if let Some(view) = self.views.at_mut(arena.view) {
                view.arenas.remove(&arena.type_url);
                stable = view.stands_for;
            }
            if let Some(stable) = stable.and_then(|it| self.find_arena(it, arena.type_url.as_str()))
            {
                self.release_arena(stable);
            }
            if arena.shows_layers {
                arena.empty_into(&mut self.pool);
                self.leave_layers(slot, arena.view, &arena.type_url);
                self.update_retention(arena.view);
            }
            self.release_view(arena.view);
        }
    }

    pub(crate) fn find_arena(&self, view: Slot, type_url: &str) -> Option<Slot> {
        self.views.at(view)?.arenas.get(type_url).copied()
    }

    /// Returns the arenas of a view, by type.
    pub(crate) fn arenas_in(&self, view: Slot) -> impl Iterator<Item = &Arena> {
        let slots = self.views.at(view).into_iter().flat_map(|view| view.arenas.values());
        slots.filter_map(|&slot| self.arenas.at(slot))
    }

    fn arenas_of(&self, view: Slot) -> Vec<Slot> {
        self.views.at(view).map(|view| view.arenas.values().copied().collect()).unwrap_or_default()
    }

    /// Returns the entry of a name in a view.
    pub(crate) fn entry(&self, view: Slot, type_url: &str, name: &str) -> Option<&ResourceEntry> {
        self.arenas.at(self.find_arena(view, type_url)?)?.entry(name)
    }

    /// Returns the entry of the name that a transaction changes, before the change.
    fn entry_of(&self, view: Option<Slot>, change: &ResourceChange) -> Option<&ResourceEntry> {
        self.entry(view?, change.type_url.as_str(), change.name.as_str())
    }

    pub(crate) fn arena(&self, slot: Slot) -> Option<&Arena> {
        self.arenas.at(slot)
    }

    /// Returns all arenas in the order in which they were opened.
    pub(crate) fn arenas(&self) -> impl Iterator<Item = &Arena> {
        self.arenas.iter().map(|(_, arena)| arena)
    }

    pub(crate) fn arena_key(&self, slot: Slot) -> Option<Key> {
        self.arenas.key(slot)
    }

    pub(crate) fn arena_mut(&mut self, slot: Slot) -> Option<&mut Arena> {
        self.arenas.at_mut(slot)
    }

    /// Returns the number of the newest transaction that changed anything.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Number of resources and errors over all types and views.
    pub(crate) fn resources(&self) -> usize {
        self.resources
    }

    /// Number of distinct payloads.
    pub(crate) fn payloads(&self) -> usize {
        self.pool.len()
    }

    /// Number of arenas over all views.
    pub(crate) fn types(&self) -> usize {
        self.arenas.len()
    }

    /// Number of views, including the default one.
    pub(crate) fn views(&self) -> usize {
        self.views.len()
    }

    /// Number of names in all arenas, including names without a resource.
    pub(crate) fn names(&self) -> usize {
        self.arenas.iter().map(|(_, arena)| arena.names()).sum()
    }

    /// Returns the effective changes in order. A repeated name has its last one.
    // M219
    fn last_of_each_name<'a>(&self, changes: &'a [ResourceChange]) -> Vec<&'a ResourceChange> {
        if let [only] = changes {
            return vec![only];
        }
        let mut seen = HashSet::with_capacity_and_hasher(changes.len(), self.hasher.clone());
        let latest_first = changes.iter().rev();
        let mut counting: Vec<_> =
            latest_first.filter(|change| seen.insert((&change.type_url, &change.name))).collect();
        counting.reverse();
        counting
    }

    fn check(
        &self,
        view: Option<Slot>,
        all: &[ResourceChange],
        counting: &[&ResourceChange],
        config: &ServerConfig,
    ) -> Result<(), TransactionError> {
        let limits = &config.limits;
        for (position, change) in all.iter().enumerate() {
            change.check(position, config)?;
        }
        let mut resources = self.resources;
        for change in counting {
            let is_held = self.entry_of(view, change).is_some_and(ResourceEntry::is_held);
            match (is_held, &change.content) {
                (false, ChangeContent::Resource(..) | ChangeContent::Error(_)) => resources += 1,
                (true, ChangeContent::Nothing) => resources -= 1,
                (true, _) | (false, ChangeContent::Nothing) => {}
            }
        }
        if view.is_none() && self.views.len() >= limits.views {
            return Err(TransactionError::TooManyViews { limit: limits.views });
        }
        // Shrinking is always allowed.
        if resources > limits.resources.max(self.resources) {
            return Err(TransactionError::TooManyResources { resources, limit: limits.resources });
        }
        Ok(())
    }
}

/// Returns the extractor of references, if they are needed for the change.
fn references_of<'a>(
    change: &ResourceChange,
    config: &'a ServerConfig,
) -> Option<&'a dyn ReferenceExtractor> {
    let is_cluster = change.type_url == *types::CLUSTER;
    config.ordering.make_before_break().filter(|_| is_cluster)?.references.as_deref()
}
