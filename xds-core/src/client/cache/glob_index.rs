//! Globs and their members, in order of change.
//!
//! A glob is subscribed by name, so it has an entry and a subscription like any other name. This
//! module stores its members, ordered by the number of their last change, so that the cursor of a
//! watch is a number and only visits members.
//!
//! The globs that match a name are found by the [directories](GlobDepths) of the name.
// TP1, FE-22

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};
use core::hash::BuildHasher as _;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::{Cache, entry::CacheEntry};
use crate::{
    client::event::status::ResourceState,
    glob_depths::GlobDepths,
    slab::{Key, Slab, Slot},
    text::ResourceName,
};

/// Globs of one type.
#[derive(Debug)]
pub(crate) struct GlobIndex {
    globs: Slab<Glob>,
    by_path: HashTable<Slot>,
    hasher: FixedState,
    depths: GlobDepths,
    /// Globs with a member that has changed since watches were last notified.
    changed: Vec<Slot>,
    /// Globs that the response in progress mentions, by a member or by name.
    present: Vec<Slot>,
    tombstones: usize,
}

/// One glob.
#[derive(Debug)]
pub(crate) struct Glob {
    name: ResourceName,
    pub(crate) subscription: Slot,
    /// Whether the server has sent members or reported that there are none.
    pub(crate) is_received: bool,
    /// Number of watches.
    pub(crate) watches: usize,
    /// Token of the timer for members sent earlier by another server; zero if it is not running.
    pub(crate) unconfirmed_timer: u64,
    /// Members by the number of their last change. Entries that never changed are not included.
    members: BTreeMap<u64, Slot>,
    /// Deleted members that some watch has not seen yet, oldest first.
    tombstones: VecDeque<(u64, Key)>,
    has_changed: bool,
    is_present: bool,
}

/// Directory and context parameters of a glob.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct GlobPath<'n> {
    /// Directory with a trailing slash.
    directory: &'n str,
    context: &'n str,
}

/// Splits a canonical name into its path and its context parameters.
fn split(name: &str) -> (&str, &str) {
    name.split_once('?').unwrap_or((name, ""))
}

impl Glob {
    /// Returns whether there are deleted members that some watch may not have seen.
    pub(crate) fn has_tombstones(&self) -> bool {
        !self.tombstones.is_empty()
    }

    fn path_and_context(&self) -> GlobPath<'_> {
        let (path, context) = split(self.name.as_str());
        GlobPath { directory: path.strip_suffix('*').unwrap_or(path), context }
    }

    /// Returns the member with the first change after `passed`.
    pub(crate) fn after(&self, passed: u64) -> Option<Slot> {
        self.members.range(passed.checked_add(1)?..).next().map(|(_, &slot)| slot)
    }

    /// Returns the members in order of change, oldest change first.
    pub(crate) fn members(&self) -> impl Iterator<Item = Slot> {
        self.members.values().copied()
    }

    pub(crate) fn set_members(&mut self, members: BTreeMap<u64, Slot>) {
        self.members = members;
    }

    /// Returns whether `number` is the last change of a member.
    pub(crate) fn has_change(&self, number: u64) -> bool {
        self.members.contains_key(&number)
    }
}

impl GlobIndex {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            globs: Slab::default(),
            by_path: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            depths: GlobDepths::default(),
            changed: Vec::new(),
            present: Vec::new(),
            tombstones: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.globs.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Slot, &Glob)> {
        self.globs.iter()
    }

    pub(crate) fn at(&self, slot: Slot) -> Option<&Glob> {
        self.globs.at(slot)
    }

    pub(crate) fn at_mut(&mut self, slot: Slot) -> Option<&mut Glob> {
        self.globs.at_mut(slot)
    }

    pub(crate) fn get(&self, key: Key) -> Option<&Glob> {
        self.globs.get(key)
    }

    pub(crate) fn key(&self, slot: Slot) -> Option<Key> {
        self.globs.key(slot)
    }

    /// Returns the number of tombstones, each counted once per glob.
    pub(crate) fn tombstones(&self) -> usize {
        self.tombstones
    }

    /// Returns the glob with this canonical name.
    pub(crate) fn find(&self, name: &str) -> Option<Slot> {
        let (path, context) = split(name);
        self.at_path(GlobPath { directory: path.strip_suffix('*')?, context })
    }

    /// Returns the globs that match a canonical resource name, the widest first.
    pub(crate) fn covering<'s>(
        &'s self,
        name: &'s str,
    ) -> impl Iterator<Item = (Slot, &'s Glob)> + use<'s> {
        let (path, context) = split(name);
        self.depths.directories(path).filter_map(move |directory| {
            let slot = self.at_path(GlobPath { directory, context })?;
            Some((slot, self.at(slot)?))
        })
    }

    fn at_path(&self, path_and_context: GlobPath<'_>) -> Option<Slot> {
        let is_there = |&slot: &Slot| {
            self.at(slot).is_some_and(|glob| glob.path_and_context() == path_and_context)
        };
        self.by_path.find(self.hasher.hash_one(path_and_context), is_there).copied()
    }

    /// Adds a glob without members, which must not exist yet.
    pub(crate) fn add(&mut self, name: ResourceName, subscription: Slot) -> Option<Slot> {
        let glob = Glob {
            name,
            subscription,
            is_received: false,
            watches: 0,
            unconfirmed_timer: 0,
            members: BTreeMap::new(),
            tombstones: VecDeque::new(),
            has_changed: false,
            is_present: false,
        };
        let hash = self.hasher.hash_one(glob.path_and_context());
        let slot = self.globs.push_back(glob)?.slot();
        let (globs, hasher) = (&self.globs, &self.hasher);
        self.depths.add(globs.at(slot)?.path_and_context().directory);
        self.by_path.insert_unique(hash, slot, |&other| {
            globs.at(other).map_or(0, |glob| hasher.hash_one(glob.path_and_context()))
        });
        Some(slot)
    }

    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Glob> {
        let glob = self.globs.at(slot)?;
        let hash = self.hasher.hash_one(glob.path_and_context());
        self.depths.remove(glob.path_and_context().directory);
        if let Ok(entry) = self.by_path.find_entry(hash, |&other| other == slot) {
            entry.remove();
        }
        self.changed.retain(|&changed| changed != slot);
        self.present.retain(|&present| present != slot);
        let glob = self.globs.remove(slot)?;
        self.tombstones -= glob.tombstones.len();
        Some(glob)
    }

    /// Notes that the last change of the resource at `member` is now `new` instead of `old`.
    pub(crate) fn note_change(&mut self, name: &str, member: Slot, old: u64, new: u64) {
        let covering: Vec<Slot> = self.covering(name).map(|(slot, _)| slot).collect();
        for slot in covering {
            let Some(glob) = self.globs.at_mut(slot) else { continue };
            glob.members.remove(&old);
            glob.members.insert(new, member);
            if !core::mem::replace(&mut glob.has_changed, true) {
                self.changed.push(slot);
            }
        }
    }

    /// Notes the removal of the resource whose last change is `last`.
    pub(crate) fn note_removal(&mut self, name: &str, last: u64) {
        let covering: Vec<Slot> = self.covering(name).map(|(slot, _)| slot).collect();
        for slot in covering {
            if let Some(glob) = self.globs.at_mut(slot) {
                glob.members.remove(&last);
            }
        }
    }

    /// Returns the globs with a member that has changed since the last call.
    pub(crate) fn take_changed(&mut self) -> Vec<Slot> {
        let changed = core::mem::take(&mut self.changed);
        for &slot in &changed {
            if let Some(glob) = self.globs.at_mut(slot) {
                glob.has_changed = false;
            }
        }
        changed
    }

    /// Notes that the response in progress contains the resource.
    pub(crate) fn note_present(&mut self, name: &str) {
        let covering: Vec<Slot> = self.covering(name).map(|(slot, _)| slot).collect();
        for slot in covering {
            self.note_mentioned(slot);
        }
    }

    /// Notes that the response in progress mentions the glob.
    pub(crate) fn note_mentioned(&mut self, slot: Slot) {
        if let Some(glob) = self.globs.at_mut(slot)
            && !core::mem::replace(&mut glob.is_present, true)
        {
            self.present.push(slot);
        }
    }

    /// Returns the globs that the response in progress mentions.
    pub(crate) fn take_present(&mut self) -> Vec<Slot> {
        let present = core::mem::take(&mut self.present);
        for &slot in &present {
            if let Some(glob) = self.globs.at_mut(slot) {
                glob.is_present = false;
            }
        }
        present
    }

    /// Notes that the change `last` deleted a member. Returns whether some watch has not seen the
    /// deletion yet.
    pub(crate) fn add_tombstone(&mut self, name: &str, last: u64, member: Key) -> bool {
        let watching = |(slot, glob): (Slot, &Glob)| {
            (glob.watches > 0 && glob.has_change(last)).then_some(slot)
        };
        let covering: Vec<Slot> = self.covering(name).filter_map(watching).collect();
        for &slot in &covering {
            if let Some(glob) = self.globs.at_mut(slot) {
                glob.tombstones.push_back((last, member));
                self.tombstones += 1;
            }
        }
        !covering.is_empty()
    }

    /// Removes and returns the oldest tombstone of a glob if all its watches have seen it; `seen`
    /// is the newest change that all of them have seen.
    pub(crate) fn pop_tombstone(&mut self, slot: Slot, seen: u64) -> Option<(u64, Key)> {
        let glob = self.globs.at_mut(slot)?;
        let &(last, member) = glob.tombstones.front().filter(|(last, _)| *last <= seen)?;
        glob.tombstones.pop_front();
        self.tombstones -= 1;
        if glob.members.get(&last) == Some(&member.slot()) {
            glob.members.remove(&last);
        }
        Some((last, member))
    }

    /// Returns the globs with tombstones.
    pub(crate) fn with_tombstones(&self) -> Vec<Slot> {
        let has_some = |(_, glob): &(Slot, &Glob)| !glob.tombstones.is_empty();
        self.globs.iter().filter(has_some).map(|(slot, _)| slot).collect()
    }
}

/// Globs and their entries.
impl Cache {
    /// Turns the entry into that of a glob, with the existing matching entries as members.
    pub(crate) fn add_glob(&mut self, slot: Slot, subscription: Slot) -> Option<Slot> {
        let entry = self.get_mut(slot)?;
        entry.is_glob = true;
        let name = entry.name.clone();
        let glob = self.globs.add(name, subscription)?;
        let is_member = |entry: &CacheEntry| {
            let has_changed = entry.last_change() > 0 && !entry.is_tombstone();
            let mut covering = self.globs.covering(entry.name.as_str());
            entry.has_authority && has_changed && covering.any(|(covering, _)| covering == glob)
        };
        let members = self.iter().filter(|(_, entry)| is_member(entry));
        let members = members.map(|(slot, entry)| (entry.last_change(), slot)).collect();
        self.globs.at_mut(glob)?.set_members(members);
        Some(glob)
    }

    /// Marks the glob with this entry as received if a resource of a member is in use. Returns
    /// whether it did.
    pub(crate) fn mark_received_if_nonempty(&mut self, slot: Slot) -> bool {
        let Some(entry) = self.get(slot).filter(|entry| entry.is_glob) else { return false };
        let Some(glob) = self.globs.find(entry.name.as_str()) else { return false };
        let is_in_use = |slot| {
            let in_use = |entry: &CacheEntry| entry.state != ResourceState::DoesNotExist;
            self.get(slot).filter(|entry| entry.bytes.is_some()).is_some_and(in_use)
        };
        if !self.globs.at(glob).is_some_and(|glob| glob.members().any(is_in_use)) {
            return false;
        }
        if let Some(glob) = self.globs.at_mut(glob) {
            glob.is_received = true;
        }
        if let Some(entry) = self.get_mut(slot) {
            entry.state = ResourceState::Acked;
        }
        true
    }

    /// Removes the tombstones of a glob that all its watches have seen; `seen` is the newest change
    /// that all of them have seen. `is_awaited` returns whether a watch of another glob has not
    /// seen a change yet.
    pub(crate) fn sweep_glob(
        &mut self,
        glob: Slot,
        seen: u64,
        is_awaited: impl Fn(&Glob, u64) -> bool,
    ) {
        while let Some((last, key)) = self.globs.pop_tombstone(glob, seen) {
            let Some(entry) = self.at_key(key) else { continue };
            let is_dead = entry.last_change() == last && entry.is_tombstone();
            let awaits = |(_, other): (Slot, &Glob)| is_awaited(other, last);
            if is_dead && !self.globs.covering(entry.name.as_str()).any(awaits) {
                self.remove(key.slot());
            }
        }
    }

    /// Removes the glob with this entry, and those of its members that nothing else covers.
    pub(crate) fn remove_glob(&mut self, entry: Slot) {
        let name = self.get(entry).map(|entry| entry.name.clone());
        let glob = name.and_then(|name| self.globs.find(name.as_str()));
        self.remove(entry);
        let Some(glob) = glob.and_then(|glob| self.globs.remove(glob)) else { return };
        for slot in glob.members() {
            let Some(entry) = self.get(slot) else { continue };
            // A tombstone that all watches of another glob have seen is not a member of it.
            let (is_ended, last) = (entry.is_tombstone(), entry.last_change());
            let keeps = |(_, other): (Slot, &Glob)| !is_ended || other.has_change(last);
            let is_covered = self.globs.covering(entry.name.as_str()).any(keeps);
            if entry.subscription.is_none() && !is_covered {
                self.remove(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{format, string::String, vec::Vec};

    use crate::client::cache::glob_index::*;
    use crate::xdstp::XdstpName;

    /// Names with up to three path segments, some of them similar.
    fn names(last: &[&str]) -> Vec<String> {
        let mut names = Vec::new();
        for authority in ["a", "b", ""] {
            for path in ["", "x/", "x/y/", "xy/", "x//", "x/%2A/", "x/*/"] {
                for last in last {
                    for context in ["", "?k=1", "?k=1&l=", "?k=12"] {
                        names.push(format!("xdstp://{authority}/T/{path}{last}{context}"));
                    }
                }
            }
        }
        names
    }

    #[test]
    fn covering_yields_every_glob_that_matches_the_name_widest_first() {
        // FE-22: the index finds the globs that the comparison of names finds, the widest first.
        let parse = |name: &String| XdstpName::parse(name).unwrap();
        let mut globs: Vec<_> = names(&["*"]).iter().map(parse).collect();
        globs.sort();
        globs.dedup();
        let mut index = GlobIndex::new(7);
        let slots: Vec<_> = globs
            .iter()
            .map(|glob| index.add(glob.as_name().clone(), Slot::NONE).unwrap())
            .collect();
        for (glob, slot) in globs.iter().zip(&slots) {
            assert_eq!(index.find(glob.as_str()), Some(*slot));
        }
        for name in names(&["n", "y", "n*", "%2A"]).iter().map(parse) {
            let found: Vec<_> = index.covering(name.as_str()).map(|(slot, _)| slot).collect();
            let mut expected: Vec<_> =
                globs.iter().zip(&slots).filter(|(glob, _)| glob.covers(&name)).collect();
            expected.sort_by_key(|(glob, _)| glob.as_str().len());
            let expected: Vec<_> = expected.into_iter().map(|(_, slot)| *slot).collect();
            assert_eq!(found, expected, "{name}");
        }
        for slot in slots {
            index.remove(slot);
        }
        assert!(index.len() == 0 && index.by_path.is_empty() && index.depths.is_empty());
    }

    #[test]
    fn lookup_of_a_deep_name_checks_only_directories_with_globs() {
        let mut index = GlobIndex::new(7);
        index.add("xdstp://a/T/x/*".into(), Slot::NONE).unwrap();
        let deep = format!("xdstp://a/T/x/{}", "/".repeat(4_000));
        assert_eq!(index.covering(&deep).count(), 1);
        let looked_up = index.depths.directories(&deep).count();
        assert_eq!(looked_up, 1, "of its four thousand directories one is looked up");
        assert_eq!(index.covering("plain").count(), 0);
        assert_eq!(index.covering("xdstp://a/T/x/").count(), 0, "a directory is not in itself");
    }

    #[test]
    fn glob_members_are_ordered_by_their_last_change() {
        let mut index = GlobIndex::new(7);
        let glob = index.add("xdstp://a/T/x/*".into(), Slot::NONE).unwrap();
        let (one, two) = (Slot::at_index(1), Slot::at_index(2));
        index.note_change("xdstp://a/T/x/1", one, 0, 1);
        index.note_change("xdstp://a/T/x/2", two, 0, 2);
        index.note_change("xdstp://a/T/y/3", two, 0, 3);
        index.note_change("xdstp://a/T/x/1", one, 1, 4);
        assert_eq!(index.take_changed(), [glob]);
        assert_eq!(index.take_changed(), []);
        let state = index.at(glob).unwrap();
        assert_eq!(state.members().collect::<Vec<_>>(), [two, one]);
        assert_eq!((state.after(0), state.after(2), state.after(4)), (Some(two), Some(one), None));
        assert_eq!(state.after(u64::MAX), None);
        index.note_removal("xdstp://a/T/x/2", 2);
        assert_eq!(index.at(glob).unwrap().members().collect::<Vec<_>>(), [one]);
    }
}
