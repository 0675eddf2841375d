//! States of the files that are rejected although each file is valid.

use super::parse::Key;
use crate::text::type_name;

/// Number of removed resources that an error names.
const MOST_NAMED: usize = 3;

/// Reason why a state of the files is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rejected {
    /// Number of references that would be dangling.
    Dangling(usize),
    /// Removal of more resources at once than is allowed.
    Removal(Removal),
}

/// Removal of more resources at once than is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removal {
    /// Number of resources that would be removed.
    pub(crate) removed: usize,
    /// Number of resources that are served.
    pub(crate) served: usize,
    /// Allowed share, in percent.
    pub(crate) allowed: u8,
    /// First removed resources, such as ``cds `a` ``.
    pub(crate) first: Vec<String>,
}

/// Share of the served resources that one change of the files may remove, in percent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaxRemoval(pub(crate) u8);

impl MaxRemoval {
    /// Returns the removal if it exceeds this share.
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
    fn removal_is_limited_to_the_configured_share() {
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
