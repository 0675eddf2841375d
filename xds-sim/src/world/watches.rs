//! Watches of a client, indexed by id and by name.

use std::collections::BTreeMap;

use xds_core::WatchId;

use super::{
    Watch,
    message::Text,
    names::{SERVER_APART, alias_of, glob_covers, is_alias, is_apart, is_glob},
};

/// The watches of a client.
#[derive(Debug)]
pub(super) struct Watches {
    by_id: BTreeMap<WatchId, Watch>,
    /// Names covered, by type index.
    of_types: Vec<Watched>,
}

impl Watches {
    pub(super) fn new(types: usize) -> Self {
        let of_types = std::iter::repeat_with(Watched::default).take(types).collect();
        Self { by_id: BTreeMap::new(), of_types }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(super) fn count(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (WatchId, &Watch)> {
        self.by_id.iter().map(|(id, watch)| (*id, watch))
    }

    pub(super) fn get(&self, id: WatchId) -> Option<&Watch> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: WatchId) -> Option<&mut Watch> {
        self.by_id.get_mut(&id)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Watch> {
        self.by_id.values_mut()
    }

    pub(super) fn of_type(&self, kind: usize) -> &Watched {
        &self.of_types[kind]
    }

    pub(super) fn insert(&mut self, id: WatchId, watch: Watch) {
        self.of_types[watch.kind].begin(watch.name.as_ref());
        self.by_id.insert(id, watch);
    }

    pub(super) fn remove(&mut self, id: WatchId) -> Option<Watch> {
        let watch = self.by_id.remove(&id)?;
        self.of_types[watch.kind].end(watch.name.as_deref());
        Some(watch)
    }

    /// Ends all watches and returns them.
    pub(super) fn take(&mut self) -> BTreeMap<WatchId, Watch> {
        self.of_types.fill_with(Watched::default);
        std::mem::take(&mut self.by_id)
    }
}

/// Names that a client's watches cover in one type. Lookups by name are fast, because there may be
/// thousands of watches.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// Number of watches of each name.
    names: BTreeMap<Text, usize>,
    /// Number of wildcard watches.
    all: usize,
    /// Number of names that are globs.
    globs: usize,
    /// Number of names that are aliases.
    aliases: usize,
    /// Number of names that belong to the separate authority.
    apart: usize,
}

impl Watched {
    fn begin(&mut self, name: Option<&Text>) {
        let Some(name) = name else {
            self.all += 1;
            return;
        };
        let count = self.names.entry(name.clone()).or_default();
        *count += 1;
        if *count == 1 {
            self.globs += usize::from(is_glob(name));
            self.aliases += usize::from(is_alias(name));
            self.apart += usize::from(is_apart(name));
        }
    }

    fn end(&mut self, name: Option<&str>) {
        let Some(name) = name else {
            self.all -= 1;
            return;
        };
        let Some(count) = self.names.get_mut(name) else { return };
        *count -= 1;
        if *count == 0 {
            self.names.remove(name);
            self.globs -= usize::from(is_glob(name));
            self.aliases -= usize::from(is_alias(name));
            self.apart -= usize::from(is_apart(name));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all == 0 && self.names.is_empty()
    }

    /// Iterates over the watched names, including globs.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Text> {
        self.names.keys()
    }

    /// Number of watched names.
    pub(crate) fn count(&self) -> usize {
        self.names.len()
    }

    /// Whether there is a wildcard watch.
    pub(crate) fn has_all(&self) -> bool {
        self.all > 0
    }

    /// Whether there are neither wildcard nor glob watches.
    pub(crate) fn is_of_single_ones(&self) -> bool {
        self.all == 0 && self.globs == 0
    }

    /// Whether there is a wildcard watch, or a watch of a name that the server serves.
    pub(crate) fn concerns(&self, server: usize) -> bool {
        let names = if server == SERVER_APART { self.apart } else { self.names.len() - self.apart };
        self.has_all() || names > 0
    }

    /// Whether there is a watch of exactly this name, or of the wildcard for `None`.
    pub(crate) fn has(&self, name: Option<&str>) -> bool {
        name.map_or_else(|| self.has_all(), |name| self.names.contains_key(name))
    }

    /// Whether any watch [covers](Watch::covers) a resource.
    pub(crate) fn covers(&self, name: &str) -> bool {
        self.covers_as_such(name) || self.covers_by_alias(name)
    }

    /// Whether a watch of its name, a glob or everything covers a resource.
    pub(crate) fn covers_as_such(&self, name: &str) -> bool {
        self.has_all() && !is_apart(name)
            || self.names.contains_key(name) && !is_alias(name)
            || self.globs > 0 && self.names.keys().any(|own| glob_covers(own, name))
    }

    /// Whether a watch of its alias covers a resource.
    pub(crate) fn covers_by_alias(&self, name: &str) -> bool {
        self.aliases > 0 && self.names.contains_key(&*alias_of(name))
    }

    /// Whether a watch of [one name](Watch::is_of_one) covers a resource.
    pub(crate) fn covers_by_name(&self, name: &str) -> bool {
        self.names.contains_key(name) && !is_alias(name) && !is_glob(name)
            || self.covers_by_alias(name)
    }
}
