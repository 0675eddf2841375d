//! Index of slots by the names stored in them.

use core::hash::BuildHasher as _;

use foldhash::fast::FixedState;

use crate::{slab::Slot, slot_table::SlotTable};

/// Index of slots by name. The names are stored by the owner, and the table is never iterated.
///
/// The hasher is keyed with the seed of the core, so that a peer cannot choose colliding names, and
/// no output depends on the hash order.
#[derive(Clone, Debug)]
pub(crate) struct NameIndex {
    slots: SlotTable,
    hasher: FixedState,
}

impl NameIndex {
    pub(crate) fn new(seed: u64) -> Self {
        Self { slots: SlotTable::default(), hasher: FixedState::with_seed(seed) }
    }

    pub(crate) fn find<'a>(
        &self,
        name: &str,
        name_of: impl Fn(Slot) -> Option<&'a str>,
    ) -> Option<Slot> {
        self.slots.find(self.hash(name), |&slot| name_of(slot) == Some(name))
    }

    /// Adds `slot` under `name`, which must not be in the index.
    pub(crate) fn insert<'a>(
        &mut self,
        name: &str,
        slot: Slot,
        name_of: impl Fn(Slot) -> Option<&'a str>,
    ) {
        let hasher = &self.hasher;
        let hash_of = |other| name_of(other).map_or(0, |name| hasher.hash_one(name));
        self.slots.insert(hasher.hash_one(name), slot, hash_of);
    }

    pub(crate) fn remove(&mut self, name: &str, slot: Slot) {
        self.slots.remove(self.hash(name), |&other| other == slot);
    }

    fn hash(&self, name: &str) -> u64 {
        self.hasher.hash_one(name)
    }
}
