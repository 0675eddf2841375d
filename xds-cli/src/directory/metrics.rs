//! Counters of a followed source.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::io;

use xds_source::SourceError;

/// Counters of a followed source, which the task that follows it updates.
#[derive(Debug, Default)]
pub(crate) struct SourceMetrics {
    unavailable: AtomicU64,
    denied: AtomicU64,
    failed: AtomicU64,
    broken: AtomicUsize,
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
