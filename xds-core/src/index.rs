//! Index of slots by the names stored in them.

use core::hash::BuildHasher as _;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use crate::slab::Slot;

/// Index of slots by name. The names are stored by the owner, and the table is never iterated.
///
/// The hasher is keyed with the seed of the core, so that a peer cannot choose colliding names, and
/// no output depends on the hash order.
#[derive(Clone, Debug)]
pub(crate) struct NameIndex {
    slots: HashTable<Slot>,
    hasher: FixedState,
}

impl NameIndex {
    pub(crate) fn new(seed: u64) -> Self {
        Self { slots: HashTable::new(), hasher: FixedState::with_seed(seed) }
    }

    pub(crate) fn find<'a>(
        &self,
        name: &str,
        name_of: impl Fn(Slot) -> Option<&'a str>,
    ) -> Option<Slot> {
        self.slots.find(self.hash(name), |&slot| name_of(slot) == Some(name)).copied()
    }

    /// Reserves space for this many more names.
    pub(crate) fn reserve<'a>(
        &mut self,
        additional: usize,
        name_of: impl Fn(Slot) -> Option<&'a str>,
    ) {
        let hasher = &self.hasher;
        self.slots
            .reserve(additional, |&slot| name_of(slot).map_or(0, |name| hasher.hash_one(name)));
    }

    /// Adds `slot` under `name`, which must not be in the index.
    pub(crate) fn insert<'a>(
        &mut self,
        name: &str,
        slot: Slot,
        name_of: impl Fn(Slot) -> Option<&'a str>,
    ) {
        let hasher = &self.hasher;
        self.slots.insert_unique(self.hash(name), slot, |&other| {
            name_of(other).map_or(0, |name| hasher.hash_one(name))
        });
    }

    pub(crate) fn remove(&mut self, name: &str, slot: Slot) {
        if let Ok(entry) = self.slots.find_entry(self.hash(name), |&other| other == slot) {
            entry.remove();
        }
    }

    fn hash(&self, name: &str) -> u64 {
        self.hasher.hash_one(name)
    }
}
