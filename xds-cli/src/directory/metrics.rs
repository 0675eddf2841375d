//! Counters of a followed source.

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::io;

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

    /// Returns the number of objects whose newest content is not in use.
    pub(crate) fn broken(&self) -> usize {
        self.broken.load(Ordering::Relaxed)
    }
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
