//! Counters of a followed source.

use core::{
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};
use std::{
    io,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use xds_source::SourceError;

/// Counters of a followed source, which the task that follows it updates.
#[derive(Debug, Default)]
pub(crate) struct SourceMetrics {
    unavailable: AtomicU64,
    denied: AtomicU64,
    failed: AtomicU64,
    broken: AtomicUsize,
    is_refused: AtomicBool,
    refusals: AtomicU64,
    /// Time since which the source cannot be read.
    failing_since: Mutex<Option<Instant>>,
    /// Files that the server waits for; none once it is ready.
    waiting: Mutex<Vec<PathBuf>>,
    has_invalid_views: AtomicBool,
    is_rollout_failing: AtomicBool,
}

impl SourceMetrics {
    /// Counts a failure to read or watch the source.
    pub(super) fn note_failure(&self, why: &io::Error) {
        let counter = match why.get_ref().and_then(|why| why.downcast_ref()) {
            Some(SourceError::Unavailable(_)) => &self.unavailable,
            Some(SourceError::Denied(_)) => &self.denied,
            _ if why.kind() == io::ErrorKind::PermissionDenied => &self.denied,
            _ => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        locked(&self.failing_since).get_or_insert_with(Instant::now);
    }

    /// Notes that the source was read.
    pub(super) fn note_success(&self) {
        *locked(&self.failing_since) = None;
    }

    /// Returns the time for which the source could not be read, 0 while it can be.
    pub(crate) fn failing_for(&self) -> Duration {
        locked(&self.failing_since).map(|since| since.elapsed()).unwrap_or_default()
    }

    /// Sets the files that the server waits for.
    pub(super) fn set_waiting(&self, files: Vec<PathBuf>) {
        *locked(&self.waiting) = files;
    }

    /// Returns the files that the server waits for; none once it is ready.
    pub(crate) fn waiting(&self) -> Vec<PathBuf> {
        locked(&self.waiting).clone()
    }

    /// Notes whether the newest file of views is invalid.
    pub(super) fn set_invalid_views(&self, are_invalid: bool) {
        self.has_invalid_views.store(are_invalid, Ordering::Relaxed);
    }

    /// Notes whether a change is not rolled out because the state of rollouts cannot be used.
    pub(super) fn set_rollout_failing(&self, is_failing: bool) {
        self.is_rollout_failing.store(is_failing, Ordering::Relaxed);
    }

    /// Whether a change is not rolled out because the state of rollouts cannot be used.
    pub(crate) fn is_rollout_failing(&self) -> bool {
        self.is_rollout_failing.load(Ordering::Relaxed)
    }

    /// Sets the number of objects whose newest content is not in use.
    pub(super) fn set_broken(&self, objects: usize) {
        self.broken.store(objects, Ordering::Relaxed);
    }

    /// Notes whether guards refuse the newest state, and counts a refused change.
    pub(super) fn note_refused(&self, is_refused: bool) {
        self.is_refused.store(is_refused, Ordering::Relaxed);
        self.refusals.fetch_add(u64::from(is_refused), Ordering::Relaxed);
    }

    /// Whether guards refuse the newest state.
    pub(crate) fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Relaxed)
    }

    /// Returns the number of refused changes.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Returns the number of failures by kind.
    pub(crate) fn failures(&self) -> [(&'static str, u64); 3] {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("unavailable", count(&self.unavailable)),
            ("denied", count(&self.denied)),
            ("failed", count(&self.failed)),
        ]
    }

    /// Returns the number of objects whose newest content is not in use, with the file of views.
    pub(crate) fn broken(&self) -> usize {
        let has_invalid_views = self.has_invalid_views.load(Ordering::Relaxed);
        self.broken.load(Ordering::Relaxed) + usize::from(has_invalid_views)
    }
}

/// Locks a value that a panic cannot leave incomplete.
fn locked<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_kind() {
        let metrics = SourceMetrics::default();
        let why = String::new;
        for error in [
            io::Error::other(SourceError::Unavailable(why())),
            io::Error::other(SourceError::Unavailable(why())),
            io::Error::other(SourceError::Denied(why())),
            io::Error::from(io::ErrorKind::PermissionDenied),
            io::Error::from(io::ErrorKind::NotFound),
        ] {
            metrics.note_failure(&error);
        }
        assert_eq!(metrics.failures(), [("unavailable", 2), ("denied", 2), ("failed", 1)]);
    }
}
