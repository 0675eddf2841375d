//! Progress and counts of rollouts, for metrics.

use std::sync::{Mutex, MutexGuard, PoisonError};

use xds_core::rollout::{RolloutPhase, RolloutProgress};

/// Newest progress, and numbers of ended rollouts, which the observer updates.
#[derive(Debug, Default)]
pub(crate) struct RolloutCounts(Mutex<Counts>);

#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    /// Progress of the newest rollout.
    pub(crate) progress: Option<RolloutProgress>,
    pub(crate) completed: u64,
    pub(crate) rolled_back: u64,
}

impl RolloutCounts {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, progress: &RolloutProgress) {
        let mut counts = self.lock();
        match progress.phase {
            RolloutPhase::Completed => counts.completed += 1,
            RolloutPhase::RolledBack => counts.rolled_back += 1,
            _ => {}
        }
        // A superseded rollout may end after the newer one has begun.
        if counts.progress.as_ref().is_none_or(|it| it.id <= progress.id) {
            counts.progress = Some(progress.clone());
        }
    }

    pub(crate) fn read(&self) -> Counts {
        self.lock().clone()
    }
}
