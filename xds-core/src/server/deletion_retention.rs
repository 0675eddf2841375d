//! Retention time of deletions for clients that have not been sent them.
//!
//! Deletions are grouped by period and discarded together; the number of periods is small,
//! independent of the number of deletions.
// M231

use alloc::collections::BTreeSet;

use super::{Server, event::CloseReason, queue::timer_queue::Alarm, store::revision::Revision};
use crate::{slab::Slot, time::Time};

/// Number of periods into which the retention time of deletions is divided.
const PERIODS: u32 = 8;

/// Deletions of one period, which are discarded together.
#[derive(Debug)]
pub(crate) struct RetentionPeriod {
    /// Time at which they are discarded.
    end: Time,
    /// Time at which the period ends and no more deletions are added.
    full: Time,
    /// Revision of the last deletion of the period.
    until: Revision,
    arenas: BTreeSet<Slot>,
}

impl Server {
    /// Starts the retention time of new deletions, if any are retained.
    pub(crate) fn retain_deletions(&mut self, arena: Slot) {
        let store = &self.subscriptions.store;
        let Some(time) = self.config.limits.deletion_retention else { return };
        if store.arena(arena).is_none_or(|arena| arena.tombstones() == 0) {
            return;
        }
        let (now, until) = (self.clock.now(), store.clock());
        if let Some(last) = self.deletion_retention.back_mut().filter(|last| now < last.full) {
            last.until = until;
            last.arenas.insert(arena);
            return;
        }
        let full = now.after(time / PERIODS);
        let end = full.after(time);
        if self.deletion_retention.is_empty() {
            self.alarms.set(Alarm::DiscardDeletions, end);
        }
        let arenas = BTreeSet::from([arena]);
        self.deletion_retention.push_back(RetentionPeriod { end, full, until, arenas });
    }

    /// Discards the deletions of the oldest period.
    pub(crate) fn discard_old_deletions(&mut self) {
        let Some(oldest) = self.deletion_retention.pop_front() else { return };
        if let Some(next) = self.deletion_retention.front() {
            self.alarms.set(Alarm::DiscardDeletions, next.end);
        }
        // The slot may be in use for another arena, which may have no deletion as old as that.
        for arena in oldest.arenas {
            let forgotten = &mut self.stats.discarded_deletions;
            let behind = self.subscriptions.drop_tombstones_until(arena, oldest.until, forgotten);
            for stream in behind {
                self.close(stream, CloseReason::Behind);
            }
            self.subscriptions.store.release_arena(arena);
        }
    }
}
