//! Slab storage with keys that are never reused, whose values form a list in an order controlled by
//! the owner.
//!
//! The list makes outputs deterministic without sorting: no hash table is ever iterated.

use alloc::vec::Vec;
use core::fmt;

/// Key of a value: a slot and its generation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    generation: u32,
    slot: Slot,
}

impl Key {
    /// No value.
    pub(crate) const NONE: Self = Self { generation: u32::MAX, slot: Slot::NONE };

    pub(crate) const fn as_u64(self) -> u64 {
        ((self.generation as u64) << 32) | self.slot.0 as u64
    }

    pub(crate) const fn slot(self) -> Slot {
        self.slot
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.slot.0)?;
        if self.generation > 0 { write!(f, ".{}", self.generation) } else { Ok(()) }
    }
}

/// Index of an occupied slot, for owners that know it is occupied.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Slot(u32);

impl Slot {
    /// No slot: the end of a list.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// Returns the index, for tables parallel to the slab.
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the slot with an index from [`index`](Self::index).
    pub(crate) fn at_index(index: usize) -> Self {
        u32::try_from(index).map_or(Self::NONE, Self)
    }

    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::NONE
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() { f.write_str("-") } else { fmt::Debug::fmt(&self.0, f) }
    }
}

#[derive(Clone, Debug)]
struct SlabNode<T> {
    value: Option<T>,
    previous: Slot,
    /// Successor in the list, or the next free slot if there is no value.
    next: Slot,
    generation: u32,
}

/// Number of nodes per chunk. A growing slab moves no values and allocates little more than it
/// needs; a small slab takes no more memory than a vector.
const CHUNK: usize = 1 << 10;

/// Nodes by index, in chunks of which only the first is ever reallocated.
#[derive(Clone, Debug)]
struct SlabNodes<T>(Vec<Vec<SlabNode<T>>>);

impl<T> SlabNodes<T> {
    fn len(&self) -> usize {
        let full = self.0.len().saturating_sub(1) * CHUNK;
        full + self.0.last().map_or(0, Vec::len)
    }

    fn get(&self, index: usize) -> Option<&SlabNode<T>> {
        self.0.get(index / CHUNK)?.get(index % CHUNK)
    }

    fn get_mut(&mut self, index: usize) -> Option<&mut SlabNode<T>> {
        self.0.get_mut(index / CHUNK)?.get_mut(index % CHUNK)
    }

    fn push(&mut self, node: SlabNode<T>) {
        match self.0.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(node),
            last => {
                let room = if last.is_none() { 1 } else { CHUNK };
                let mut chunk = Vec::with_capacity(room);
                chunk.push(node);
                self.0.push(chunk);
            }
        }
    }

    fn iter(&self) -> impl Iterator<Item = &SlabNode<T>> {
        self.0.iter().flatten()
    }
}

/// Values in slots, linked into a list.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    nodes: SlabNodes<T>,
    head: Slot,
    tail: Slot,
    free: Slot,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            nodes: SlabNodes(Vec::new()),
            head: Slot::NONE,
            tail: Slot::NONE,
            free: Slot::NONE,
            len: 0,
        }
    }
}

impl<T> Slab<T> {
    /// Stores `value` at the end of the list. Returns `None` if all 2^32 - 1 slots are in use,
    /// which the configured limits prevent.
    pub(crate) fn push_back(&mut self, value: T) -> Option<Key> {
        let (value, previous, next) = (Some(value), self.tail, Slot::NONE);
        let (slot, generation) = match self.nodes.get_mut(self.free.index()) {
            Some(node) => {
                let (slot, generation) = (self.free, node.generation);
                self.free = node.next;
                *node = SlabNode { value, previous, next, generation };
                (slot, generation)
            }
            None => {
                let slot = Slot(u32::try_from(self.nodes.len()).ok().filter(|&n| n < u32::MAX)?);
                self.nodes.push(SlabNode { value, previous, next, generation: 0 });
                (slot, 0)
            }
        };
        match self.nodes.get_mut(previous.index()) {
            Some(node) => node.next = slot,
            None => self.head = slot,
        }
        self.tail = slot;
        self.len += 1;
        Some(Key { generation, slot })
    }

    /// Removes a value. Its key becomes invalid.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        let value = self.take(slot)?;
        self.free(slot);
        Some(value)
    }

    /// Removes a value, but does not use its slot again before [`free`](Self::free).
    pub(crate) fn take(&mut self, slot: Slot) -> Option<T> {
        self.nodes.get(slot.index())?.value.as_ref()?;
        self.unlink(slot);
        self.len -= 1;
        self.nodes.get_mut(slot.index())?.value.take()
    }

    /// Frees the slot of a value that was [taken](Self::take). Call it once.
    pub(crate) fn free(&mut self, slot: Slot) {
        let free = self.free;
        // A slot whose generations are exhausted is not used again.
        if let Some(node) = self.nodes.get_mut(slot.index())
            && let Some(generation) = node.generation.checked_add(1)
        {
            node.generation = generation;
            node.next = free;
            self.free = slot;
        }
    }

    /// Moves the value to the end of the list.
    pub(crate) fn move_to_back(&mut self, slot: Slot) {
        if slot != self.tail && self.at(slot).is_some() {
            self.unlink(slot);
            self.link_after(self.tail, slot);
        }
    }

    /// Moves the value to the start of the list.
    pub(crate) fn move_to_front(&mut self, slot: Slot) {
        if slot != self.head && self.at(slot).is_some() {
            self.unlink(slot);
            self.link_after(Slot::NONE, slot);
        }
    }

    /// Moves the value of `slot` directly after that of `anchor`.
    pub(crate) fn move_after(&mut self, slot: Slot, anchor: Slot) {
        if slot != anchor && self.at(slot).is_some() && self.at(anchor).is_some() {
            self.unlink(slot);
            self.link_after(anchor, slot);
        }
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        self.nodes
            .get(key.slot.index())
            .filter(|node| node.generation == key.generation)
            .and_then(|node| node.value.as_ref())
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.nodes
            .get_mut(key.slot.index())
            .filter(|node| node.generation == key.generation)
            .and_then(|node| node.value.as_mut())
    }

    pub(crate) fn at(&self, slot: Slot) -> Option<&T> {
        self.nodes.get(slot.index())?.value.as_ref()
    }

    pub(crate) fn at_mut(&mut self, slot: Slot) -> Option<&mut T> {
        self.nodes.get_mut(slot.index())?.value.as_mut()
    }

    /// Returns the key of an occupied slot.
    pub(crate) fn key(&self, slot: Slot) -> Option<Key> {
        let node = self.nodes.get(slot.index())?;
        node.value.as_ref()?;
        Some(Key { generation: node.generation, slot })
    }

    pub(crate) fn first(&self) -> Slot {
        self.head
    }

    pub(crate) fn last(&self) -> Slot {
        self.tail
    }

    pub(crate) fn next(&self, slot: Slot) -> Slot {
        self.nodes.get(slot.index()).map_or(Slot::NONE, |node| node.next)
    }

    pub(crate) fn previous(&self, slot: Slot) -> Slot {
        self.nodes.get(slot.index()).map_or(Slot::NONE, |node| node.previous)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns all values in list order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &T)> {
        self.slots().filter_map(|slot| Some((slot, self.at(slot)?)))
    }

    /// Returns all values in slot order, which is the order of creation if none was removed.
    pub(crate) fn in_slot_order(&self) -> impl Iterator<Item = (Slot, &T)> {
        (0u32..)
            .zip(self.nodes.iter())
            .filter_map(|(n, node)| Some((Slot(n), node.value.as_ref()?)))
    }

    fn slots(&self) -> impl Iterator<Item = Slot> {
        core::iter::successors(Some(self.head), |&slot| Some(self.next(slot)))
            .take_while(|slot| !slot.is_none())
    }

    fn link_after(&mut self, anchor: Slot, slot: Slot) {
        let next = if anchor.is_none() { self.head } else { self.next(anchor) };
        if let Some(node) = self.nodes.get_mut(slot.index()) {
            node.previous = anchor;
            node.next = next;
        }
        match self.nodes.get_mut(anchor.index()) {
            Some(node) => node.next = slot,
            None => self.head = slot,
        }
        match self.nodes.get_mut(next.index()) {
            Some(node) => node.previous = slot,
            None => self.tail = slot,
        }
    }

    fn unlink(&mut self, slot: Slot) {
        let (previous, next) = (self.previous(slot), self.next(slot));
        match self.nodes.get_mut(previous.index()) {
            Some(node) => node.next = next,
            None => self.head = next,
        }
        match self.nodes.get_mut(next.index()) {
            Some(node) => node.previous = previous,
            None => self.tail = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use crate::slab::*;

    fn values(slab: &Slab<u32>) -> Vec<u32> {
        slab.iter().map(|(_, &value)| value).collect()
    }

    #[test]
    fn key_of_a_removed_value_stays_invalid() {
        let mut slab = Slab::default();
        let first = slab.push_back(1u32).unwrap();
        assert_eq!(slab.remove(first.slot()), Some(1));
        let second = slab.push_back(2).unwrap();
        assert_eq!(first.slot(), second.slot());
        assert_ne!(first, second);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.get(second), Some(&2));
        assert_eq!(slab.remove(first.slot()), Some(2), "a slot alone does not tell tenants apart");
        assert_eq!(slab.remove(first.slot()), None);
        assert_eq!(slab.len(), 0);
    }

    #[test]
    fn slot_of_a_taken_value_is_not_used_until_it_is_free() {
        let mut slab = Slab::default();
        let [one, two] = [1u32, 2].map(|value| slab.push_back(value).unwrap());
        assert_eq!(slab.take(one.slot()), Some(1));
        assert_eq!((slab.get(one), slab.at(one.slot()), slab.len()), (None, None, 1));
        assert_ne!(slab.push_back(3).unwrap().slot(), one.slot());
        assert_eq!((slab.take(one.slot()), values(&slab)), (None, vec![2, 3]));
        slab.free(one.slot());
        let four = slab.push_back(4).unwrap();
        assert_eq!(four.slot(), one.slot());
        assert_ne!(four, one);
        assert_eq!((slab.get(two), slab.len()), (Some(&2), 3));
    }

    #[test]
    fn slots_of_later_chunks_are_found_and_reused() {
        let mut slab = Slab::default();
        let count = u32::try_from(3 * CHUNK + 1).unwrap_or_default();
        let keys: Vec<_> = (0..count).filter_map(|n| slab.push_back(n)).collect();
        assert_eq!(values(&slab), (0..count).collect::<Vec<_>>());
        for (n, key) in (0..count).zip(&keys) {
            assert_eq!((slab.get(*key), key.slot().index()), (Some(&n), n as usize));
        }
        let in_the_middle = keys[CHUNK];
        assert_eq!(slab.remove(in_the_middle.slot()), Some(1024));
        assert_eq!(slab.push_back(7).map(Key::slot), Some(in_the_middle.slot()));
        assert_eq!(slab.len(), keys.len());
    }

    #[test]
    fn list_keeps_the_order_set_by_its_moves() {
        let mut slab = Slab::default();
        let keys: Vec<_> = (0..5u32).filter_map(|n| slab.push_back(n)).collect();
        slab.move_to_back(keys[1].slot());
        slab.move_to_back(keys[1].slot());
        assert_eq!(values(&slab), vec![0, 2, 3, 4, 1]);
        slab.move_after(keys[0].slot(), keys[3].slot());
        assert_eq!(values(&slab), vec![2, 3, 0, 4, 1]);
        slab.remove(keys[2].slot());
        slab.remove(keys[1].slot());
        assert_eq!(values(&slab), vec![3, 0, 4]);
        assert_eq!(slab.last(), keys[4].slot());
        assert_eq!(slab.previous(slab.first()), Slot::NONE);
        assert_eq!(slab.len(), 3);
    }
}
