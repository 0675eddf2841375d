//! States of the files that are not served, though each file is good by itself.

use super::parse::Key;
use crate::text::type_name;

/// How many of the resources that would be removed are named.
const MOST_NAMED: usize = 3;

/// Why a state of the files is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// So many references would lead nowhere.
    Dangling(usize),
    /// More resources would be removed than may be at once.
    Removal(Removal),
}

/// A removal of more resources at once than is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    /// How many would be removed.
    pub(crate) removed: usize,
    /// How many are served.
    pub(crate) served: usize,
    /// The share that is allowed, in per cent.
    pub(crate) allowed: u8,
    /// The first of the resources, as in ``cds `a` ``.
    pub(crate) first: Vec<String>,
}

/// The share of the served resources that one change of the files may remove, in per cent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaxRemoval(pub(crate) u8);

impl MaxRemoval {
    /// The removal, if it is too large.
    pub(super) fn exceeded_by(self, removed: &[Key], served: usize) -> Option<Removal> {
        if removed.len() * 100 <= usize::from(self.0) * served {
            return None;
        }
        let named = |key: &Key| format!("{} `{}`", type_name(key.type_url.as_str()), key.name);
        let first = removed.iter().take(MOST_NAMED).map(named).collect();
        Some(Removal { removed: removed.len(), served, allowed: self.0, first })
    }
}

#[cfg(test)]
mod tests {
    use xds_core::types;

    use super::*;

    #[test]
    fn a_removal_may_be_as_large_as_the_share_and_no_larger() {
        let keys: Vec<_> = ["a", "b", "c", "d"]
            .map(|name| Key { type_url: types::CLUSTER.into(), name: name.into() })
            .into();
        for (percent, removed, served, is_exceeded) in [
            (0, 0, 4, false),
            (0, 1, 4, true),
            (50, 2, 4, false),
            (50, 3, 4, true),
            (33, 1, 3, true),
            (34, 1, 3, false),
            (100, 4, 4, false),
            (0, 0, 0, false),
        ] {
            let exceeded = MaxRemoval(percent).exceeded_by(&keys[..removed], served);
            assert_eq!(exceeded.is_some(), is_exceeded, "{percent} % of {served}: {removed}");
        }
        let removal = MaxRemoval(10).exceeded_by(&keys, 5);
        let first = removal.map(|it| it.first.join(", "));
        assert_eq!(first.as_deref(), Some("cds `a`, cds `b`, cds `c`"));
    }
}
