//! Index of names by path, which finds the members of a glob and the globs that cover a name.
//!
//! A glob is a subscribed name like any other. The index orders names such that all names below a
//! directory with the same context parameters, which are the members of a glob, are adjacent. The
//! globs that cover a name are looked up by the directories in the name, and only at depths at
//! which globs exist. Subscribers are not consulted.
// TP1

use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

use super::Arena;
use crate::{
    glob_depths::GlobDepths, server::config::Globs, slab::Slot, text::ResourceName, xdstp,
};

/// Globs of one type, and names that may be members of globs.
#[derive(Debug, Default)]
pub(crate) struct GlobIndex {
    names: BTreeMap<Path, Slot>,
    /// Number of globs by the number of slashes in their directory.
    depths: GlobDepths,
}

/// Resource name, ordered by context parameters and then by path. Most names have no context
/// parameters, and are their paths.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Path {
    context: ResourceName,
    path: ResourceName,
}

impl Path {
    fn of(name: &ResourceName) -> Self {
        match split(name.as_str()) {
            (_, "") => Self { context: ResourceName::default(), path: name.clone() },
            (path, context) => Self { context: context.into(), path: path.into() },
        }
    }
}

/// Splits a name from its context parameters, which only `xdstp:` names have.
fn split(name: &str) -> (&str, &str) {
    match xdstp::is_xdstp(name) {
        true => name.split_once('?').unwrap_or((name, "")),
        false => (name, ""),
    }
}

/// Returns the common prefix of a glob's members.
fn directory(name: &str) -> Option<&str> {
    split(name).0.strip_suffix('*').filter(|directory| directory.ends_with('/'))
}

impl Globs {
    /// Whether the name may be a glob or a member of one.
    fn admits(self, name: &ResourceName) -> bool {
        match xdstp::is_xdstp(name.as_str()) {
            true => xdstp::canonical(name).is_ok_and(|canonical| canonical == *name),
            false => self == Self::AnyName,
        }
    }

    /// Whether the name is a glob.
    pub(crate) fn is_glob(self, name: &ResourceName) -> bool {
        directory(name.as_str()).is_some() && self.admits(name)
    }
}

impl GlobIndex {
    pub(crate) fn add(&mut self, name: &ResourceName, slot: Slot, globs: Globs) {
        if !globs.admits(name) {
            return;
        }
        if let Some(directory) = directory(name.as_str()) {
            self.depths.add(directory);
        }
        self.names.insert(Path::of(name), slot);
    }

    pub(crate) fn remove(&mut self, name: &ResourceName, slot: Slot) {
        let path = Path::of(name);
        if self.names.get(&path) != Some(&slot) {
            return;
        }
        self.names.remove(&path);
        if let Some(directory) = directory(name.as_str()) {
            self.depths.remove(directory);
        }
    }

    fn is_glob(&self, name: &ResourceName) -> bool {
        directory(name.as_str()).is_some() && self.names.contains_key(&Path::of(name))
    }

    /// Returns the names below a glob's directory that have the glob's context parameters.
    fn below<'s>(&'s self, glob: &'s str) -> impl Iterator<Item = Slot> + use<'s> {
        let context = split(glob).1;
        let directory = directory(glob).unwrap_or(glob);
        let start = Path { context: context.into(), path: directory.into() };
        self.names
            .range(start..)
            .take_while(move |(it, _)| {
                it.context == context && it.path.as_str().starts_with(directory)
            })
            .filter(move |(it, _)| it.path != directory && !it.path.as_str().ends_with("/*"))
            .map(|(_, &slot)| slot)
    }

    /// Returns the names of the possible globs for a name, widest first.
    fn above(&self, name: &str) -> Vec<String> {
        let (path, context) = split(name);
        if path.ends_with("/*") {
            return Vec::new();
        }
        let separator = if context.is_empty() { "" } else { "?" };
        let glob = |directory| format!("{directory}*{separator}{context}");
        self.depths.directories(path).map(glob).collect()
    }
}

impl Arena {
    /// Whether the name in this slot is a glob.
    pub(crate) fn is_glob(&self, slot: Slot) -> bool {
        self.at(slot).is_some_and(|resource| self.glob_index.is_glob(&resource.name))
    }

    /// Returns the names below a glob, whether or not they have a resource.
    pub(crate) fn names_below(&self, glob: &str) -> Vec<Slot> {
        self.glob_index.below(glob).collect()
    }

    /// Whether the slot has a glob with existing members.
    pub(crate) fn has_members(&self, slot: Slot) -> bool {
        self.at(slot).is_some_and(|glob| {
            self.glob_index.is_glob(&glob.name)
                && self
                    .glob_index
                    .below(glob.name.as_str())
                    .any(|member| self.payload(member).is_some())
        })
    }

    /// Returns the subscribed globs that cover a name.
    pub(crate) fn globs_over(&self, name: &str) -> Vec<Slot> {
        self.glob_index.above(name).iter().filter_map(|glob| self.find(glob)).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::server::store::arena::glob_index::*;
    use crate::xdstp::XdstpName;

    // M138, M141: the index agrees with the comparison of every pair of names.
    #[test]
    fn index_finds_all_members_of_a_glob() {
        let mut names = Vec::new();
        for authority in ["a", "b", ""] {
            for path in ["", "x/", "x/y/", "xy/", "x//", "x/%2A/"] {
                for last in ["*", "n", "n*", "%2A", "y"] {
                    for context in ["", "?k=1", "?k=1&l=", "?k=12"] {
                        let name = format!("xdstp://{authority}/T/{path}{last}{context}");
                        names.push(XdstpName::parse(&name).unwrap());
                    }
                }
            }
        }
        names.sort();
        names.dedup();
        let mut glob_index = GlobIndex::default();
        for (slot, name) in names.iter().enumerate() {
            glob_index.add(name.as_name(), Slot::at_index(slot), Globs::Xdstp);
        }
        for glob in names.iter().filter(|name| name.is_glob()) {
            assert!(glob_index.is_glob(glob.as_name()));
            let mut below: Vec<_> = glob_index.below(glob.as_str()).map(Slot::index).collect();
            below.sort_unstable();
            let covered = names.iter().enumerate().filter(|(_, name)| glob.covers(name));
            assert_eq!(below, covered.map(|(slot, _)| slot).collect::<Vec<_>>(), "{glob}");
        }
        for name in names.iter().filter(|name| !name.is_glob()) {
            let above = glob_index.above(name.as_str());
            let above = above.iter().filter(|it| glob_index.is_glob(&(***it).into())).count();
            let covering = names.iter().filter(|glob| glob.covers(name)).count();
            assert_eq!(above, covering, "{name}");
        }
        for (slot, name) in names.iter().enumerate() {
            glob_index.remove(name.as_name(), Slot::at_index(slot));
        }
        assert!(glob_index.names.is_empty() && glob_index.depths.is_empty());
    }

    #[test]
    fn plain_names_are_members_if_the_type_has_any_name_globs() {
        let mut glob_index = GlobIndex::default();
        for (slot, name) in
            ["g/*", "g/a", "g/a?b", "g", "ga", "xdstp:bad", "xdstp://a/T/x"].into_iter().enumerate()
        {
            glob_index.add(&name.into(), Slot::at_index(slot), Globs::AnyName);
        }
        let below: Vec<_> = glob_index.below("g/*").map(Slot::index).collect();
        assert_eq!(below, [1, 2]);
        assert_eq!(glob_index.above("g/a?b"), ["g/*"]);
        assert_eq!(glob_index.names.len(), 6, "what is malformed has no place");
        assert!(!Globs::Xdstp.is_glob(&"g/*".into()));
    }
}
