//! Periods after which retained deletions are discarded.

use alloc::collections::{BTreeSet, VecDeque};

use crate::{server::store::revision::Revision, slab::Slot, time::Time};

/// Number of periods into which the retention time of deletions is divided.
pub(crate) const PERIODS: u32 = 8;

/// Periods of retained deletions, oldest first.
#[derive(Debug, Default)]
pub(crate) struct DeletionRetention(pub(crate) VecDeque<RetentionPeriod>);

/// Deletions of one period, which are discarded together.
#[derive(Debug)]
pub(crate) struct RetentionPeriod {
    /// Time at which they are discarded.
    pub(crate) end: Time,
    /// Time at which the period ends and no more deletions are added.
    pub(crate) full: Time,
    /// Revision of the last deletion of the period.
    pub(crate) until: Revision,
    pub(crate) arenas: BTreeSet<Slot>,
}
