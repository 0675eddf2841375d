//! The order of the folders of each crate, lowest first.
//!
//! ```text
//! [xds-core]
//! .
//! wire
//! client/cache/**
//! ```
//!
//! `.` is `src` itself. `client/cache/**` is a folder with its subfolders as one unit, except those
//! with a line of their own. A file may import files of its own folder and of the folders above it
//! in the list.

use std::collections::BTreeMap;

use crate::repository::{BadLine, entries};

/// Order of the folders of all crates.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FolderOrders(BTreeMap<String, FolderOrder>);

/// Folders of a crate, lowest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FolderOrder(Vec<Unit>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Unit {
    folder: String,
    has_subfolders: bool,
}

impl FolderOrders {
    pub(crate) fn parse(text: &str) -> Result<Self, BadLine> {
        let mut orders: BTreeMap<String, FolderOrder> = BTreeMap::new();
        let mut current: Option<&str> = None;
        for (line, text) in entries(text) {
            let bad = |why: String| BadLine { line, why };
            if let Some(name) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
                if orders.insert(name.to_owned(), FolderOrder::default()).is_some() {
                    return Err(bad(format!("{name} is listed twice")));
                }
                current = Some(name);
                continue;
            }
            let order = current.and_then(|name| orders.get_mut(name));
            let order = order.ok_or_else(|| bad("no [CRATE] line precedes it".into()))?;
            let unit = match text.strip_suffix("/**") {
                Some(folder) => Unit { folder: folder.to_owned(), has_subfolders: true },
                None => Unit { folder: text.to_owned(), has_subfolders: false },
            };
            if order.0.iter().any(|it| it.folder == unit.folder) {
                return Err(bad(format!("{text} is listed twice")));
            }
            order.0.push(unit);
        }
        Ok(Self(orders))
    }

    /// Returns the order of a crate. A crate that is not listed has one folder.
    pub(crate) fn of(&self, name: &str) -> FolderOrder {
        let root = Unit { folder: ".".into(), has_subfolders: false };
        self.0.get(name).cloned().unwrap_or_else(|| FolderOrder(vec![root]))
    }

    pub(crate) fn crates(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl FolderOrder {
    /// Returns the position of the unit of a folder, 0 for the lowest.
    pub(crate) fn position(&self, folder: &str) -> Option<usize> {
        let matches = |unit: &Unit| {
            let rest = folder.strip_prefix(unit.folder.as_str());
            rest.is_some_and(|it| it.is_empty() || (unit.has_subfolders && it.starts_with('/')))
        };
        let matching = self.0.iter().enumerate().filter(|(_, unit)| matches(unit));
        matching.max_by_key(|(_, unit)| unit.folder.len()).map(|(position, _)| position)
    }

    pub(crate) fn name(&self, position: usize) -> &str {
        &self.0[position].folder
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|unit| unit.folder.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[a]\n.\nwire\nclient/cache/**\nclient\n[b]\nx\n.\n";

    #[test]
    fn folder_belongs_to_its_own_line_or_to_a_unit() {
        let order = FolderOrders::parse(TEXT).unwrap().of("a");
        assert_eq!(order.position("."), Some(0));
        assert_eq!(order.position("client/cache"), Some(2));
        assert_eq!(order.position("client/cache/x/y"), Some(2));
        assert_eq!(order.position("client"), Some(3));
        assert_eq!(order.position("client/watch"), None);
        assert_eq!(order.position("wired"), None);
    }

    #[test]
    fn crate_without_a_list_has_one_folder() {
        let order = FolderOrders::parse(TEXT).unwrap().of("c");
        assert_eq!(order.position("."), Some(0));
        assert_eq!(order.position("x"), None);
    }

    #[test]
    fn invalid_line_is_named() {
        let why = |text: &str| FolderOrders::parse(text).unwrap_err().why;
        assert_eq!(why(".\n"), "no [CRATE] line precedes it");
        assert_eq!(why("[a]\n[a]\n"), "a is listed twice");
        assert_eq!(why("[a]\nx\nx/**\n"), "x/** is listed twice");
    }
}
