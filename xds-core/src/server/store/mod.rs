//! The resources: one arena per type, changed by transactions.
//!
//! The store knows nothing of sessions. A transaction leaves a list of what it touched, and the
//! server tells the subscribers of exactly those.

pub(crate) mod arena;
pub(crate) mod body;
pub(crate) mod transaction;
pub(crate) mod version;

use alloc::vec::Vec;
use core::hash::BuildHasher as _;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use self::{
    arena::{Arena, Stamp},
    transaction::{Applied, Change, Transaction, TransactionError},
};
use super::config::{ServerConfig, ServerLimits};
use crate::{
    index::NameIndex,
    rng::Rng,
    slab::{Slab, Slot},
    text::TypeUrl,
};

/// All resources of all types.
#[derive(Debug)]
pub(crate) struct Store {
    arenas: Slab<Arena>,
    types: NameIndex,
    rng: Rng,
    hasher: FixedState,
    /// The number of the newest transaction that changed anything.
    sequence: u64,
    /// The position of the newest change.
    clock: Stamp,
    resources: usize,
}

/// What a transaction left to tell subscribers about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touched {
    /// Resources that were created, altered or deleted, as arena and slot.
    pub(crate) resources: Vec<(Slot, Slot)>,
    /// The arenas they are in, each once.
    pub(crate) arenas: Vec<Slot>,
}

impl Store {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        Self {
            arenas: Slab::default(),
            types: NameIndex::new(rng.next_u64()),
            hasher: FixedState::with_seed(rng.next_u64()),
            rng: Rng::new(rng.next_u64()),
            sequence: 0,
            clock: Stamp::START,
            resources: 0,
        }
    }

    /// Applies all of a transaction or, if any of it is wrong, nothing.
    pub(crate) fn apply(
        &mut self,
        transaction: &Transaction,
        config: &ServerConfig,
    ) -> Result<(Applied, Touched), TransactionError> {
        let changes = self.last_of_each_name(transaction.changes());
        self.check(transaction.changes(), &changes, &config.limits)?;

        let sequence = self.sequence + 1;
        let mut touched = Touched::default();
        let (mut changed, mut removed) = (0, 0);
        for change in changes {
            let Some(arena_slot) = self.arena_for(change, config) else { continue };
            let Some(arena) = self.arenas.at_mut(arena_slot) else { continue };
            let existing = arena.existing();
            let now = self.clock.next();
            let (slot, count) = match &change.payload {
                Some(payload) => (arena.set(&change.name, payload, now), &mut changed),
                None => (arena.remove(&change.name, now), &mut removed),
            };
            let Some(slot) = slot else { continue };
            self.clock = now;
            *count += 1;
            self.resources = self.resources + arena.existing() - existing;
            touched.resources.push((arena_slot, slot));
            if arena.sequence != sequence {
                arena.sequence = sequence;
                touched.arenas.push(arena_slot);
            }
        }
        if changed + removed > 0 {
            self.sequence = sequence;
        }
        Ok((Applied { sequence: self.sequence, changed, removed }, touched))
    }

    /// The arena of a type, made if there is none. `None` only if no slot is left.
    pub(crate) fn open_arena(&mut self, type_url: &str, config: &ServerConfig) -> Option<Slot> {
        if let Some(slot) = self.find_arena(type_url) {
            return Some(slot);
        }
        let arena =
            Arena::new(TypeUrl::from(type_url), config.type_config(type_url), self.rng.next_u64());
        let slot = self.arenas.push_back(arena)?.slot();
        let arenas = &self.arenas;
        self.types.insert(type_url, slot, |slot| type_in(arenas, slot));
        Some(slot)
    }

    /// Frees an arena that has neither resources nor sessions, so that made-up types leave nothing
    /// behind.
    pub(crate) fn release_arena(&mut self, slot: Slot) {
        if self.arenas.at(slot).is_some_and(Arena::is_idle)
            && let Some(arena) = self.arenas.remove(slot)
        {
            self.types.remove(arena.type_url.as_str(), slot);
        }
    }

    pub(crate) fn find_arena(&self, type_url: &str) -> Option<Slot> {
        self.types.find(type_url, |slot| type_in(&self.arenas, slot))
    }

    pub(crate) fn arena(&self, slot: Slot) -> Option<&Arena> {
        self.arenas.at(slot)
    }

    /// The arena of a type, by its URL.
    pub(crate) fn arena_of(&self, type_url: &str) -> Option<&Arena> {
        self.arenas.at(self.find_arena(type_url)?)
    }

    pub(crate) fn arena_mut(&mut self, slot: Slot) -> Option<&mut Arena> {
        self.arenas.at_mut(slot)
    }

    /// How many resources exist, over all types.
    pub(crate) fn resources(&self) -> usize {
        self.resources
    }

    /// How many types are held.
    pub(crate) fn types(&self) -> usize {
        self.arenas.len()
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
        all: &[Change],
        counting: &[&Change],
        limits: &ServerLimits,
    ) -> Result<(), TransactionError> {
        for (position, change) in all.iter().enumerate() {
            change.check(position, limits)?;
        }
        let mut resources = self.resources;
        for change in counting {
            match (self.exists(change), &change.payload) {
                (false, Some(_)) => resources += 1,
                (true, None) => resources -= 1,
                (true, Some(_)) | (false, None) => {}
            }
        }
        // Shrinking is always allowed.
        if resources > limits.resources.max(self.resources) {
            return Err(TransactionError::TooManyResources { resources, limit: limits.resources });
        }
        Ok(())
    }

    fn exists(&self, change: &Change) -> bool {
        self.find_arena(change.type_url.as_str())
            .and_then(|slot| self.arenas.at(slot))
            .and_then(|arena| arena.payload(arena.find(change.name.as_str())?))
            .is_some()
    }

    /// Where a change goes; nowhere if it deletes from a type without resources.
    fn arena_for(&mut self, change: &Change, config: &ServerConfig) -> Option<Slot> {
        match change.payload {
            Some(_) => self.open_arena(change.type_url.as_str(), config),
            None => self.find_arena(change.type_url.as_str()),
        }
    }
}

impl Change {
    fn check(&self, change: usize, limits: &ServerLimits) -> Result<(), TransactionError> {
        let limit = limits.name_bytes;
        let bytes = self.name.as_str().len().max(self.type_url.as_str().len());
        if self.type_url.is_empty() {
            return Err(TransactionError::EmptyTypeUrl { change });
        }
        if self.name.is_empty() {
            return Err(TransactionError::EmptyName { change });
        }
        if self.name == "*" {
            return Err(TransactionError::WildcardName { change });
        }
        if bytes > limit {
            return Err(TransactionError::NameTooLong { change, bytes, limit });
        }
        match &self.payload {
            Some(payload) if payload.len() > limits.resource_bytes => {
                Err(TransactionError::ResourceTooLong {
                    change,
                    bytes: payload.len(),
                    limit: limits.resource_bytes,
                })
            }
            _ => Ok(()),
        }
    }
}

fn type_in(arenas: &Slab<Arena>, slot: Slot) -> Option<&str> {
    arenas.at(slot).map(|arena| arena.type_url.as_str())
}
