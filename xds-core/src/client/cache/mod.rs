//! Cache of the resources of one type, in order of change.
//!
//! There is a [`CacheEntry`] for every subscribed name and, under a wildcard or a glob, for every
//! name that a server has mentioned. The cursors of wildcard watches are markers in the same list:
//! the entries after a marker have not been reported to its watch. Moving entries does not move the
//! marker.

pub(crate) mod cursor;
pub(crate) mod entry;
pub(crate) mod glob_index;
pub(crate) mod response_marks;
pub(crate) mod response_versions;
pub(crate) mod retained_frames;
pub(crate) mod wrapper_fields;

use alloc::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;

pub(crate) use self::response_marks::{EffectOnOthers, Occurrence};
use self::{
    cursor::Cursor, entry::CacheEntry, glob_index::GlobIndex, response_versions::ResponseVersions,
    retained_frames::RetainedFrames,
};
use super::{config::resource_type::Value, event::status::ResourceState};
use crate::{
    index::NameIndex,
    slab::{Key, Slab, Slot},
    text::{ResourceName, Version},
    time::Time,
};

/// All entries of a type.
#[derive(Debug)]
pub(crate) struct Cache {
    nodes: Slab<ListNode>,
    index: NameIndex,
    frames: RetainedFrames,
    /// Number of the newest change.
    sequence: u64,
    /// Position of the server whose response is in progress.
    source: u32,
    /// Effect of the response in progress on resources held from other servers.
    effect_on_others: EffectOnOthers,
    /// Total number of occurrences of entries in responses.
    occurrences: u64,
    /// Value of `occurrences` when the response in progress began.
    occurrences_before: u64,
    versions: ResponseVersions,
    entries: usize,
    /// Number of static resources, which no response contains.
    static_resources: usize,
    /// Total size of the resources in use in bytes.
    bytes: usize,
    /// Number of resources whose use has ended.
    drops: u64,
    /// Deleted entries that some wildcard watch has not seen yet, oldest first.
    tombstones: VecDeque<(u64, Key)>,
    /// Subscribed globs, each with its members in order of change.
    pub(crate) globs: GlobIndex,
    /// Expiry times of resources with a TTL, the earliest first.
    // B09
    pub(crate) expiries: BTreeSet<(Time, Slot)>,
}

#[derive(Debug)]
enum ListNode {
    Entry(CacheEntry),
    Cursor,
}

impl Cache {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            nodes: Slab::default(),
            index: NameIndex::new(seed),
            frames: RetainedFrames::default(),
            sequence: 0,
            source: u32::MAX,
            effect_on_others: EffectOnOthers::None,
            occurrences: 0,
            occurrences_before: 0,
            versions: ResponseVersions::default(),
            entries: 0,
            static_resources: 0,
            bytes: 0,
            drops: 0,
            tombstones: VecDeque::new(),
            globs: GlobIndex::new(seed),
            expiries: BTreeSet::new(),
        }
    }

    /// Returns the number of entries that are neither tombstones nor globs.
    pub(crate) fn live(&self) -> usize {
        let tombstones = self.tombstones.len() + self.globs.tombstones();
        self.entries.saturating_sub(tombstones + self.globs.len())
    }

    /// Returns the total size of the resources in use if the one at `slot` had this length.
    pub(crate) fn bytes_with(&self, slot: Slot, length: usize) -> usize {
        let replaced = self.get(slot).and_then(|entry| entry.bytes.as_ref()).map_or(0, Bytes::len);
        self.bytes.saturating_sub(replaced).saturating_add(length)
    }

    /// Returns the total size of the resources in use in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of resources whose use has ended, including replaced ones.
    pub(crate) fn drop_count(&self) -> u64 {
        self.drops
    }

    /// Returns the number of entries already found in the response in progress.
    pub(crate) fn occurred(&self) -> usize {
        usize::try_from(self.occurrences - self.occurrences_before).unwrap_or(usize::MAX)
    }

    /// Returns the number of the newest change.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn find(&self, name: &str) -> Option<Slot> {
        self.index.find(name, |slot| Some(self.get(slot)?.name.as_str()))
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&CacheEntry> {
        match self.nodes.at(slot)? {
            ListNode::Entry(entry) => Some(entry),
            ListNode::Cursor => None,
        }
    }

    /// Returns the entry with this key, unless it was removed.
    pub(crate) fn at_key(&self, key: Key) -> Option<&CacheEntry> {
        match self.nodes.get(key)? {
            ListNode::Entry(entry) => Some(entry),
            ListNode::Cursor => None,
        }
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut CacheEntry> {
        match self.nodes.at_mut(slot)? {
            ListNode::Entry(entry) => Some(entry),
            ListNode::Cursor => None,
        }
    }

    /// Returns all entries, including tombstones, in slot order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &CacheEntry)> {
        self.nodes.in_slot_order().filter_map(|(slot, node)| match node {
            ListNode::Entry(entry) => Some((slot, entry)),
            ListNode::Cursor => None,
        })
    }

    /// Returns the first entry in order of change, where a repetition of the last response begins.
    pub(crate) fn first(&self) -> Slot {
        self.skip_cursors(self.nodes.first())
    }

    /// Returns the entry after `slot` in order of change.
    pub(crate) fn following(&self, slot: Slot) -> Slot {
        self.skip_cursors(self.nodes.next(slot))
    }

    fn skip_cursors(&self, mut slot: Slot) -> Slot {
        while let Some(ListNode::Cursor) = self.nodes.at(slot) {
            slot = self.nodes.next(slot);
        }
        slot
    }

    /// Creates an empty entry for `name`, which must not have one.
    pub(crate) fn create(&mut self, name: ResourceName) -> Option<Slot> {
        let entry = CacheEntry {
            name: name.clone(),
            state: ResourceState::Requested,
            bytes: None,
            version: Slot::NONE,
            source: u32::MAX,
            changed: 0,
            has_authority: false,
            is_glob: false,
            subscription: Slot::NONE,
            frame: Slot::NONE,
            occurrence: 0,
            is_wrapped: false,
            detail: None,
        };
        let slot = self.nodes.push_back(ListNode::Entry(entry))?.slot();
        let nodes = &self.nodes;
        self.index.insert(name.as_str(), slot, |other| name_at(nodes, other));
        self.entries += 1;
        Some(slot)
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        self.drop_resource(slot);
        if let Some(ListNode::Entry(entry)) = self.nodes.at(slot) {
            if entry.has_authority {
                self.globs.note_removal(entry.name.as_str(), entry.last_change());
            }
            self.index.remove(entry.name.as_str(), slot);
            self.nodes.remove(slot);
            self.entries -= 1;
        }
    }

    /// Notes a change that watchers must see: the entry moves to the end of the list.
    pub(crate) fn touch(&mut self, slot: Slot) {
        self.note_move(slot, |entry, number| entry.changed = number);
    }

    /// Notes a change of the error of a resource that stays in use.
    pub(crate) fn touch_ambient(&mut self, slot: Slot) {
        self.note_move(slot, |entry, number| entry.detail().ambient = number);
    }

    fn note_move(&mut self, slot: Slot, number: impl FnOnce(&mut CacheEntry, u64)) {
        self.sequence += 1;
        if let Some(ListNode::Entry(entry)) = self.nodes.at_mut(slot) {
            let before = entry.last_change();
            number(entry, self.sequence);
            if entry.has_authority {
                self.globs.note_change(entry.name.as_str(), slot, before, self.sequence);
            }
        }
        self.nodes.move_to_back(slot);
    }

    /// Stores a resource as the one in use. `frame` is the retained frame that contains it, unless
    /// it was copied.
    pub(crate) fn accept(&mut self, slot: Slot, bytes: Bytes, value: Option<Value>, frame: Slot) {
        self.note_effect_on_others(slot);
        self.drop_resource(slot);
        if !frame.is_none() {
            self.frames.add_member(frame, slot, bytes.len());
        }
        self.renew(slot);
        let length = bytes.len();
        let Some(entry) = self.get_mut(slot) else { return };
        entry.state = ResourceState::Acked;
        entry.bytes = Some(bytes);
        entry.frame = frame;
        entry.clear_error();
        if value.is_some() || entry.detail.is_some() {
            entry.detail().value = value;
        }
        self.bytes = self.bytes.saturating_add(length);
    }

    /// Ends the use of the entry's resource, if any.
    pub(crate) fn drop_resource(&mut self, slot: Slot) {
        self.unwrap(slot);
        let Some(entry) = self.get_mut(slot) else { return };
        let (bytes, frame) = (entry.bytes.take(), entry.frame);
        entry.frame = Slot::NONE;
        let version = core::mem::replace(&mut entry.version, Slot::NONE);
        if let Some(detail) = &mut entry.detail {
            detail.value = None;
        }
        self.versions.release(version, 1);
        let Some(bytes) = bytes else { return };
        self.drops += 1;
        self.bytes = self.bytes.saturating_sub(bytes.len());
        if self.frames.remove_member(frame, bytes.len()) {
            self.copy_members(frame);
        }
    }

    /// Retains a response's frame for resources that are slices of it.
    pub(crate) fn retain_frame(&mut self, bytes: usize) -> Slot {
        self.frames.retain(bytes)
    }

    /// Copies the resources that still use the frame, so that it can be freed.
    fn copy_members(&mut self, frame: Slot) {
        for slot in self.frames.release(frame) {
            let Some(entry) = self.get_mut(slot).filter(|entry| entry.frame == frame) else {
                continue;
            };
            entry.frame = Slot::NONE;
            entry.bytes = entry.bytes.as_deref().map(Bytes::copy_from_slice);
        }
    }

    /// Returns the version of the response that last contained the resource; empty if there is
    /// none.
    pub(crate) fn version_of(&self, entry: &CacheEntry) -> &Version {
        self.versions.get(entry.version)
    }

    /// Returns the arrival time of the response that last contained the resource.
    pub(crate) fn updated(&self, entry: &CacheEntry) -> Option<Time> {
        self.versions.received(entry.version)
    }

    /// Returns the identifier of the control plane that last sent the resource; empty if unknown.
    pub(crate) fn control_plane_of(&self, entry: &CacheEntry) -> Arc<str> {
        self.versions.control_plane(entry.version)
    }

    pub(crate) fn has_static_resources(&self) -> bool {
        self.static_resources > 0
    }

    /// Counts another static resource.
    pub(crate) fn note_static_resource(&mut self) {
        self.static_resources += 1;
    }

    // Wildcard watches.

    /// Adds a marker at the start of the list.
    pub(crate) fn add_cursor(&mut self) -> Option<Slot> {
        let slot = self.nodes.push_back(ListNode::Cursor)?.slot();
        self.nodes.move_to_front(slot);
        Some(slot)
    }

    pub(crate) fn remove_cursor(&mut self, cursor: Slot) {
        if let Some(ListNode::Cursor) = self.nodes.at(cursor) {
            self.nodes.remove(cursor);
        }
    }

    pub(crate) fn rewind(&mut self, cursor: Slot) {
        self.nodes.move_to_front(cursor);
    }

    /// Returns the next entry that a cursor has not passed, if any.
    pub(crate) fn next_after_cursor(&self, cursor: Slot) -> Option<Slot> {
        Some(self.following(cursor)).filter(|slot| !slot.is_none())
    }

    /// Moves a cursor past the entry.
    pub(crate) fn pass(&mut self, cursor: &mut Cursor, slot: Slot) {
        self.nodes.move_after(cursor.marker, slot);
        cursor.reported.remove(&slot);
        cursor.passed = cursor.passed.max(self.get(slot).map_or(0, CacheEntry::last_change));
    }

    /// Keeps a deleted entry as a tombstone until every watch has passed it.
    pub(crate) fn add_tombstone(&mut self, slot: Slot) {
        let Some((key, entry)) = self.nodes.key(slot).zip(self.get(slot)) else { return };
        if !entry.has_authority {
            let changed = entry.changed;
            self.tombstones.push_back((changed, key));
            return;
        }
        let (name, last) = (entry.name.clone(), entry.last_change());
        if !self.globs.add_tombstone(name.as_str(), last, key) {
            self.remove(slot);
        }
    }

    pub(crate) fn tombstones(&self) -> usize {
        self.tombstones.len()
    }

    /// Removes the tombstones that every wildcard watch has seen; `seen` is the newest change that
    /// all of them have seen.
    pub(crate) fn sweep(&mut self, seen: u64) {
        while let Some(&(changed, key)) = self.tombstones.front().filter(|(at, _)| *at <= seen) {
            self.tombstones.pop_front();
            let is_dead = match self.nodes.get(key) {
                // The number shows whether the name came back, and perhaps was deleted again, since
                // then.
                Some(ListNode::Entry(entry)) => entry.changed == changed && entry.is_tombstone(),
                _ => false,
            };
            if is_dead {
                self.remove(key.slot());
            }
        }
    }
}

fn name_at(nodes: &Slab<ListNode>, slot: Slot) -> Option<&str> {
    match nodes.at(slot)? {
        ListNode::Entry(entry) => Some(entry.name.as_str()),
        ListNode::Cursor => None,
    }
}
