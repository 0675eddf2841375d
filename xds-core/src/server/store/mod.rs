//! The resources: one arena per view and type, changed by transactions.
//!
//! The store knows nothing of sessions. A transaction leaves a list of what it touched, and the
//! server tells the subscribers of exactly those.

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
    /// The number of the newest transaction that changed anything.
    sequence: u64,
    /// The position of the newest change.
    clock: Stamp,
    resources: usize,
    /// Views of which it may have changed who sees them, with their time if they are gone.
    noted: Vec<(Key, Option<Time>)>,
    /// Arenas that were opened showing what layers have, and the resources that they show.
    shown: Vec<(Slot, Slot, Touch)>,
}

/// What a transaction left to tell subscribers about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched {
    /// Arena and slot of what was touched.
    pub(crate) resources: Vec<(Slot, Slot, Touch)>,
    /// The arenas they are in, each once.
    pub(crate) arenas: Vec<Slot>,
    /// Those of them in which nothing changed but the version that the application gives them (M69).
    pub(crate) restated: Vec<Slot>,
}

/// What happened to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// It was created, altered or deleted, or an error is over.
    Content,
    /// An error stands for it, or another one.
    Error,
    /// It is an alias, which stands for another resource now or for none; or it has lost such a name. What
    /// it is itself has not changed.
    Turned,
    /// An error stands for it, and nobody has been told anything before: the application had been asked for it.
    Answer,
    /// It was deleted together with an error that stood for it, of which is told who was told that.
    Both,
}

impl Touched {
    fn add(&mut self, slot: Slot, arena: &mut Arena, sequence: u64, what: (Slot, Touch)) {
        // Before what changed itself, so that of what is deleted together the resource is the newest.
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

    /// Applies all of a transaction or, if any of it is wrong, nothing.
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

    /// Makes changes that were found to be good; says how many resources changed, and how many are gone.
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

    /// Whether a transaction can be applied; and then its view, if that exists, and the changes that count.
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

    /// The position of the newest change.
    pub(crate) fn clock(&self) -> Stamp {
        self.clock
    }

    /// The slot of a view, made if there is none. `None` only if no slot is left.
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

    /// The view of streams that nobody assigned one to.
    pub(crate) fn default_view(&self) -> Slot {
        self.default_view
    }

    /// One stream more sees the view.
    pub(crate) fn join_view(&mut self, slot: Slot) {
        if let Some(view) = self.views.at_mut(slot) {
            view.streams += 1;
        }
        self.note_view(slot);
    }

    /// One stream less sees the view. A doomed one goes with the last.
    pub(crate) fn leave_view(&mut self, slot: Slot) {
        let Some(view) = self.views.at_mut(slot) else { return };
        view.streams -= 1;
        self.settle_fate(slot);
    }

    /// The arena of a type, made if there is none. `None` only if no slot is left.
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
            // Nobody is there to be told, but what it shows may have to be renewed.
            let mut touched = Touched::default();
            self.show_layers(slot, config, &mut touched);
            self.shown.append(&mut touched.resources);
        }
        Some(slot)
    }

    /// What arenas show that were opened over layers since this was asked last.
    pub(crate) fn take_shown(&mut self) -> Vec<(Slot, Slot, Touch)> {
        core::mem::take(&mut self.shown)
    }

    /// Frees an arena that has neither resources nor sessions, so that made-up types leave nothing
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

    /// All of them, in the order in which they came.
    pub(crate) fn arenas(&self) -> impl Iterator<Item = &Arena> {
        self.arenas.iter().map(|(_, arena)| arena)
    }

    pub(crate) fn arena_key(&self, slot: Slot) -> Option<Key> {
        self.arenas.key(slot)
    }

    pub(crate) fn arena_mut(&mut self, slot: Slot) -> Option<&mut Arena> {
        self.arenas.at_mut(slot)
    }

    /// The number of the newest transaction that changed anything.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// How many resources exist, over all types and views.
    pub(crate) fn resources(&self) -> usize {
        self.resources
    }

    /// How many different payloads they have.
    pub(crate) fn payloads(&self) -> usize {
        self.pool.len()
    }

    /// How many types are held, over all views.
    pub(crate) fn types(&self) -> usize {
        self.arenas.len()
    }

    /// How many views there are, the default one included.
    pub(crate) fn views(&self) -> usize {
        self.views.len()
    }

    /// How many names are held: more than there are resources if some are only asked for.
    pub(crate) fn names(&self) -> usize {
        self.arenas.iter().map(|(_, arena)| arena.names()).sum()
    }

    /// The changes that count, in order: a repeated name has its last one (M219).
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

    /// Where a change goes; nowhere if it deletes from a type without resources.
    fn arena_for(&mut self, view: Slot, change: &Change, config: &ServerConfig) -> Option<Slot> {
        match change.content {
            Content::Resource(..) | Content::Error(_) => {
                self.open_arena(view, change.type_url.as_str(), config)
            }
            Content::Nothing => self.find_arena(view, change.type_url.as_str()),
        }
    }
}

/// Who finds what a change refers to, if it matters.
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
