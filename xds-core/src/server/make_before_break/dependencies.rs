//! Table of the types that each type waits for.

use crate::types::rank;

/// Types that one type waits for.
pub(crate) struct Dependencies {
    /// Types that are waited for before a resource is sent, because their resources are sent first.
    pub(crate) before_additions: &'static [usize],
    /// Types that are waited for before a deletion is sent, because they may refer to the resource.
    pub(crate) before_deletions: &'static [usize],
}

impl Dependencies {
    /// Returns the types that a type waits for. The table is documented at [`MakeBeforeBreakPolicy`] and has no
    /// cycles.
    pub(crate) const fn of(rank: usize) -> Self {
        use rank::{
            CLUSTERS, ENDPOINTS, EXTENSIONS, LISTENERS, ROUTES, SCOPED_ROUTES, SECRETS,
            VIRTUAL_HOSTS,
        };

        const REFER_TO_CLUSTERS: &[usize] =
            &[LISTENERS, ROUTES, SCOPED_ROUTES, VIRTUAL_HOSTS, EXTENSIONS];
        const UP_TO_SECRETS: &[usize] = &[CLUSTERS, ENDPOINTS, SECRETS];
        const UP_TO_LISTENERS: &[usize] = &[CLUSTERS, ENDPOINTS, SECRETS, LISTENERS];
        const UP_TO_ROUTES: &[usize] = &[CLUSTERS, ENDPOINTS, SECRETS, LISTENERS, ROUTES];
        const UP_TO_SCOPES: &[usize] =
            &[CLUSTERS, ENDPOINTS, SECRETS, LISTENERS, ROUTES, SCOPED_ROUTES];
        let (before_additions, before_deletions): (&[usize], &[usize]) = match rank {
            CLUSTERS => (&[], REFER_TO_CLUSTERS),
            ENDPOINTS => (&[], &[CLUSTERS]),
            SECRETS => (&[], &[CLUSTERS, LISTENERS, EXTENSIONS]),
            LISTENERS => (UP_TO_SECRETS, &[]),
            EXTENSIONS => (UP_TO_SECRETS, &[LISTENERS]),
            ROUTES => (UP_TO_LISTENERS, &[LISTENERS, SCOPED_ROUTES]),
            SCOPED_ROUTES => (UP_TO_ROUTES, &[LISTENERS]),
            VIRTUAL_HOSTS => (UP_TO_SCOPES, &[ROUTES]),
            _ => (&[], &[]),
        };
        Self { before_additions, before_deletions }
    }
}
