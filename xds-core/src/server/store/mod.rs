//! Store of resources: one arena per view and type, changed by transactions.
//!
//! The store does not depend on sessions. A transaction returns the resources that it changed,
//! and the server updates the sessions that subscribe to them.

pub(crate) mod arena;
pub(crate) mod contents;
pub(crate) mod encode;
pub(crate) mod idle_views;
pub(crate) mod layers;
pub(crate) mod on_demand;
pub(crate) mod payload_pool;
pub(crate) mod resource_options;
pub(crate) mod revision;
pub(crate) mod snapshot;
pub(crate) mod subscriber_list;
pub(crate) mod transaction;
pub(crate) mod validate;
pub(crate) mod version;
mod view;
pub(crate) mod view_removal;

use alloc::vec::Vec;
use core::hash::BuildHasher as _;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use self::{
    arena::{Arena, Origin, Resource},
    payload_pool::Pool,
    revision::Stamp,
    transaction::{Applied, Change, Content, Transaction, TransactionError},
    view::{Fate, View},
};
use super::config::{ServerConfig, UnknownType};
use crate::{
    index::NameIndex,
    references::ReferenceExtractor,
    rng::Rng,
    slab::{Key, Slab, Slot},
    text::{TypeUrl, ViewName},
    time::Time,
    types,
};

/// All resources of all types in all views.
#[derive(Debug)]
pub(crate) struct Store {
    views: Slab<View>,
    view_names: NameIndex,
    default_view: Slot,
    arenas: Slab<Arena>,
    pool: Pool,
    rng: Rng,
    hasher: FixedState,
    /// Number of the newest transaction that changed anything.
    sequence: u64,
    /// Revision of the newest change.
    clock: Stamp,
    resources: usize,
    /// Views that may have become used or unused, with their idle time if they were removed.
    noted: Vec<(Key, Option<Time>)>,
    /// Resources shown by arenas that were opened over layers.
    shown: Vec<(Slot, Slot, Touch)>,
}

/// Changes made by a transaction, for updating the subscribers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched {
    /// Changed resources: slots of the arena and the resource, and the kind of change.
    pub(crate) resources: Vec<(Slot, Slot, Touch)>,
    /// Arenas of the changed resources, without duplicates.
    pub(crate) arenas: Vec<Slot>,
    /// Arenas in which only the application-defined version changed.
    // M69
    pub(crate) restated: Vec<Slot>,
}

/// Kind of change of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// The resource was created, changed or removed, or its error ended.
    Content,
    /// The error was set or changed.
    Error,
    /// The name is an alias and refers to another resource or to none, or the resource lost an
    /// alias. Its own contents are unchanged.
    Turned,
    /// An error was set in answer to a request to the application; nothing was sent before.
    Answer,
    /// The resource was removed together with its error, which also concerns clients that were
    /// sent the error.
    Both,
}

impl Touched {
    fn add(&mut self, slot: Slot, arena: &mut Arena, sequence: u64, what: (Slot, Touch)) {
        // First, so that the resource is the newest of what is removed together.
        let turned = arena.take_turned().into_iter();
        self.resources.extend(turned.map(|name| (slot, name, Touch::Turned)));
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
            view_names: NameIndex::new(rng.next_u64()),
            default_view: Slot::NONE,
            arenas: Slab::default(),
            pool: Pool::new(rng),
            hasher: FixedState::with_seed(rng.next_u64()),
            rng: Rng::new(rng.next_u64()),
            sequence: 0,
            clock: Stamp::START,
            resources: 0,
            noted: Vec::new(),
            shown: Vec::new(),
        };
        store.default_view = store.open_view(&ViewName::default()).unwrap_or(Slot::NONE);
        store
    }

    /// Applies a transaction completely, or not at all if any part of it is invalid.
    pub(crate) fn apply(
        &mut self,
        transaction: &Transaction,
        config: &ServerConfig,
    ) -> Result<(Applied, Touched), TransactionError> {
        let (view, changes) = self.vet(transaction, config)?;
        let view = view.or_else(|| self.open_view(transaction.view()));
        let Some(view) = view else {
            return Err(TransactionError::TooManyViews { limit: config.limits.views });
        };

        if let Some(view) = self.views.at_mut(view) {
            view.fate = Fate::Stays;
        }

        let mut touched = Touched::default();
        let (changed, removed) = self.make(view, &changes, config, &mut touched);
        let sequence = self.sequence + 1;
        self.take_versions(view, transaction, sequence, &mut touched);
        if !touched.arenas.is_empty() {
            self.sequence = sequence;
        }
        self.release_view(view);
        Ok((Applied { sequence: self.sequence, changed, removed }, touched))
    }

    /// Makes validated changes. Returns the numbers of changed and of removed resources.
    pub(crate) fn make(
        &mut self,
        view: Slot,
        changes: &[&Change],
        config: &ServerConfig,
        touched: &mut Touched,
    ) -> (usize, usize) {
        let sequence = self.sequence + 1;
        let (mut changed, mut removed) = (0, 0);
        for change in changes {
            let Some(arena_slot) = self.arena_for(view, change, config) else { continue };
            let Some(arena) = self.arenas.at_mut(arena_slot) else { continue };
            let held = arena.held();
            let (now, pool, name) = (self.clock.next(), &mut self.pool, &change.name);
            let (slot, count, touch) = match &change.content {
                Content::Resource(value, options) => {
                    let slot = arena.set(name, (value, options), now, pool);
                    if let (Some(slot), Some(references)) = (slot, references_of(change, config)) {
                        arena.note_needs(slot, references);
                    }
                    (slot, &mut changed, Touch::Content)
                }
                Content::Nothing => {
                    let touch = arena.touch_of_removal(name);
                    (arena.remove(name, now, pool), &mut removed, touch)
                }
                Content::Error(error) => {
                    let touch = if arena.is_asked_for(name) { Touch::Answer } else { Touch::Error };
                    (arena.set_error(name, error), &mut changed, touch)
                }
            };
            let Some(slot) = slot else { continue };
            self.clock = now;
            *count += 1;
            self.resources = self.resources + arena.held() - held;
            touched.add(arena_slot, arena, sequence, (slot, touch));
            self.show_above(arena_slot, name, sequence, touched);
        }
        (changed, removed)
    }

    /// Validates a transaction. Returns its view, if that exists, and the effective changes.
    fn vet<'a>(
        &self,
        transaction: &'a Transaction,
        config: &ServerConfig,
    ) -> Result<(Option<Slot>, Vec<&'a Change>), TransactionError> {
        let changes = self.last_of_each_name(transaction.changes());
        let view = self.find_view(transaction.view());
        if view.and_then(|view| self.views.at(view)).is_some_and(|view| !view.layers.is_empty()) {
            return Err(TransactionError::LayeredView { view: transaction.view().clone() });
        }
        self.check(view, transaction.changes(), &changes, config)?;
        self.check_versions(view, transaction, &changes, config)?;
        Ok((view, changes))
    }

    /// Returns the revision of the newest change.
    pub(crate) fn clock(&self) -> Stamp {
        self.clock
    }

    /// Returns the slot of a view, creating the view if needed. Returns `None` only if no slot is
    /// left.
    pub(crate) fn open_view(&mut self, name: &ViewName) -> Option<Slot> {
        if let Some(slot) = self.find_view(name) {
            return Some(slot);
        }
        let view = View::new(name.clone(), self.rng.next_u64());
        let slot = self.views.push_back(view)?.slot();
        let views = &self.views;
        self.view_names.insert(name.as_str(), slot, |slot| view_in(views, slot));
        self.note_view(slot);
        Some(slot)
    }

    pub(crate) fn find_view(&self, name: &ViewName) -> Option<Slot> {
        self.view_names.find(name.as_str(), |slot| view_in(&self.views, slot))
    }

    pub(crate) fn view(&self, slot: Slot) -> Option<&View> {
        self.views.at(slot)
    }

    /// Returns the view of streams without an assigned view.
    pub(crate) fn default_view(&self) -> Slot {
        self.default_view
    }

    /// Registers a stream that uses the view.
    pub(crate) fn join_view(&mut self, slot: Slot) {
        if let Some(view) = self.views.at_mut(slot) {
            view.streams += 1;
        }
        self.note_view(slot);
    }

    /// Unregisters a stream. A dropped view is removed with its last user.
    pub(crate) fn leave_view(&mut self, slot: Slot) {
        let Some(view) = self.views.at_mut(slot) else { return };
        view.streams -= 1;
        self.settle_fate(slot);
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
        let unknown = match config.names_type(type_url) {
            true => UnknownType::Held,
            false => config.unknown_type,
        };
        let rules = config.type_config(type_url);
        let prefix = config.version_prefix.clone();
        let arena = Arena::new(view, TypeUrl::from(type_url), rules, unknown, prefix, seed);
        let slot = self.arenas.push_back(arena)?.slot();
        let view = self.views.at_mut(view)?;
        view.insert(type_url, slot, &self.arenas);
        if !view.layers.is_empty() {
            // The arena has no subscribers, but its resources may need heartbeats.
            let mut touched = Touched::default();
            self.show_layers(slot, config, &mut touched);
            self.shown.append(&mut touched.resources);
        }
        Some(slot)
    }

    /// Takes the resources of arenas that were opened over layers since the last call.
    pub(crate) fn take_shown(&mut self) -> Vec<(Slot, Slot, Touch)> {
        core::mem::take(&mut self.shown)
    }

    /// Frees an arena without resources and sessions, so that invented types leave nothing
    /// behind.
    pub(crate) fn release_arena(&mut self, slot: Slot) {
        if self.arenas.at(slot).is_some_and(Arena::is_idle)
            && let Some(arena) = self.arenas.remove(slot)
        {
            if let Some(view) = self.views.at_mut(arena.view) {
                view.remove(arena.type_url.as_str(), slot);
            }
            if arena.origin == Origin::Layers {
                arena.empty_into(&mut self.pool);
                self.leave_layers(slot, arena.view, &arena.type_url);
            }
            self.release_view(arena.view);
        }
    }

    pub(crate) fn find_arena(&self, view: Slot, type_url: &str) -> Option<Slot> {
        self.views.at(view)?.find(type_url, &self.arenas)
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
    fn last_of_each_name<'a>(&self, changes: &'a [Change]) -> Vec<&'a Change> {
        let mut seen: HashTable<&Change> = HashTable::with_capacity(changes.len());
        let hash = |change: &Change| self.hasher.hash_one((&change.type_url, &change.name));
        let mut counting: Vec<_> = changes
            .iter()
            .rev()
            .filter(|change| {
                let same = |other: &&Change| {
                    other.name == change.name && other.type_url == change.type_url
                };
                let is_last = seen.find(hash(change), same).is_none();
                if is_last {
                    seen.insert_unique(hash(change), change, |other| hash(other));
                }
                is_last
            })
            .collect();
        counting.reverse();
        counting
    }

    fn check(
        &self,
        view: Option<Slot>,
        all: &[Change],
        counting: &[&Change],
        config: &ServerConfig,
    ) -> Result<(), TransactionError> {
        let limits = &config.limits;
        for (position, change) in all.iter().enumerate() {
            change.check(position, config)?;
        }
        let mut resources = self.resources;
        for change in counting {
            match (self.holds(view, change), &change.content) {
                (false, Content::Resource(..) | Content::Error(_)) => resources += 1,
                (true, Content::Nothing) => resources -= 1,
                (true, _) | (false, Content::Nothing) => {}
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

    fn holds(&self, view: Option<Slot>, change: &Change) -> bool {
        view.and_then(|view| self.find_arena(view, change.type_url.as_str()))
            .and_then(|slot| self.arenas.at(slot))
            .and_then(|arena| arena.at(arena.find(change.name.as_str())?))
            .is_some_and(Resource::is_held)
    }

    /// Returns the arena of a change. `None` if it is a removal from a type without resources.
    fn arena_for(&mut self, view: Slot, change: &Change, config: &ServerConfig) -> Option<Slot> {
        match change.content {
            Content::Resource(..) | Content::Error(_) => {
                self.open_arena(view, change.type_url.as_str(), config)
            }
            Content::Nothing => self.find_arena(view, change.type_url.as_str()),
        }
    }
}

/// Returns the extractor of references, if they are needed for the change.
fn references_of<'a>(
    change: &Change,
    config: &'a ServerConfig,
) -> Option<&'a dyn ReferenceExtractor> {
    let is_cluster = change.type_url == *types::CLUSTER;
    config.ordering.gated().filter(|_| is_cluster)?.references.as_deref()
}

fn view_in(views: &Slab<View>, slot: Slot) -> Option<&str> {
    views.at(slot).map(|view| view.name.as_str())
}
