//! Hash table of slots that grows a little at a time.
//!
//! An ordinary hash table moves all of its entries when it grows, so a single insertion into a
//! large table can take as long as a million others. This table consists of small tables. Each time
//! it has grown by the average number of entries of a small table, it splits one of them (linear
//! hashing). An insertion therefore moves about as many entries as a small table has.
// IS25

use alloc::vec::Vec;

use hashbrown::HashTable;

use crate::slab::Slot;

/// Entries per small table, on average.
const ENTRIES: usize = 1 << 10;

/// Hash table of slots. The owner stores the keys of the slots and hashes them. The table is never
/// iterated.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotTable {
    first: HashTable<Slot>,
    others: Vec<HashTable<Slot>>,
    len: usize,
}

impl SlotTable {
    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(&Slot) -> bool) -> Option<Slot> {
        self.table(self.index_of(hash))?.find(hash, is_it).copied()
    }

    /// Adds a slot, which must not be in the table. `hash_of` returns the hash of another one.
    pub(crate) fn insert(&mut self, hash: u64, slot: Slot, hash_of: impl Fn(Slot) -> u64) {
        if let Some(table) = self.table_mut(self.index_of(hash)) {
            table.insert_unique(hash, slot, |&other| hash_of(other));
            self.len += 1;
        }
        if self.len > ENTRIES * self.tables() {
            self.split(hash_of);
        }
    }

    pub(crate) fn remove(&mut self, hash: u64, is_it: impl FnMut(&Slot) -> bool) {
        let table = self.table_mut(self.index_of(hash));
        if let Some(Ok(entry)) = table.map(|table| table.find_entry(hash, is_it)) {
            entry.remove();
            self.len -= 1;
        }
    }

    /// Splits the next table, in the order of the table numbers.
    fn split(&mut self, hash_of: impl Fn(Slot) -> u64) {
        let (to, level) = (self.tables(), self.tables().ilog2());
        let from = to - (1 << level);
        let mut moved = Vec::new();
        self.others.push(HashTable::new());
        let index_of = |hash| index_among(to + 1, hash);
        if let Some(table) = self.table_mut(from) {
            table.retain(|&mut slot| {
                let hash = hash_of(slot);
                let stays = index_of(hash) == from;
                if !stays {
                    moved.push((hash, slot));
                }
                stays
            });
        }
        if let Some(table) = self.table_mut(to) {
            table.reserve(moved.len(), |&slot| hash_of(slot));
            for (hash, slot) in moved {
                table.insert_unique(hash, slot, |&other| hash_of(other));
            }
        }
    }

    fn tables(&self) -> usize {
        1 + self.others.len()
    }

    fn index_of(&self, hash: u64) -> usize {
        if self.others.is_empty() { 0 } else { index_among(self.tables(), hash) }
    }

    fn table(&self, index: usize) -> Option<&HashTable<Slot>> {
        match index.checked_sub(1) {
            None => Some(&self.first),
            Some(index) => self.others.get(index),
        }
    }

    fn table_mut(&mut self, index: usize) -> Option<&mut HashTable<Slot>> {
        match index.checked_sub(1) {
            None => Some(&mut self.first),
            Some(index) => self.others.get_mut(index),
        }
    }
}

/// Returns the number of the table for a hash, among this many tables. The tables themselves use
/// the lowest and the highest bits of the hash.
fn index_among(tables: usize, hash: u64) -> usize {
    let bits = usize::try_from((hash >> 32) & 0x00ff_ffff).unwrap_or_default();
    let level = 1_usize << tables.ilog2();
    let index = bits & (2 * level - 1);
    if index < tables { index } else { index & (level - 1) }
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use core::hash::BuildHasher as _;

    use foldhash::fast::FixedState;

    use crate::slot_table::*;

    #[test]
    fn insertions_find_every_slot_and_move_few_others() {
        let (hasher, hashed) = (FixedState::with_seed(1), Cell::new(0));
        let hash = |slot: Slot| hasher.hash_one(slot);
        let mut table = SlotTable::default();
        let slots = || (0..40 * ENTRIES).map(Slot::at_index);
        let mut most = 0;
        for slot in slots() {
            hashed.set(0);
            table.insert(hash(slot), slot, |other| {
                hashed.set(hashed.get() + 1);
                hash(other)
            });
            most = most.max(hashed.get());
        }
        assert_eq!(table.tables(), 40);
        assert!(most <= 4 * ENTRIES, "{most} entries were hashed at once");
        assert!(most > ENTRIES / 2, "{most}: tables were split");
        for slot in slots() {
            assert_eq!(table.find(hash(slot), |&other| other == slot), Some(slot));
        }
        for slot in slots().step_by(2) {
            table.remove(hash(slot), |&other| other == slot);
            table.remove(hash(slot), |&other| other == slot);
        }
        assert_eq!(table.len, 20 * ENTRIES);
        for (n, slot) in slots().enumerate() {
            let found = table.find(hash(slot), |&other| other == slot);
            assert_eq!(found.is_some(), n % 2 == 1, "{n}");
        }
    }
}
