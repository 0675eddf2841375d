//! Counters of failed writes.

use core::sync::atomic::{AtomicU64, Ordering};

/// Number of failed writes since the start, by what was written.
#[derive(Debug, Default)]
pub(super) struct WriteFailures {
    /// Exports of the resources to files.
    export: AtomicU64,
    /// Rejections, refusals and errors, written to the objects of the source.
    feedback: AtomicU64,
}

impl WriteFailures {
    pub(super) fn note_export(&self) {
        self.export.fetch_add(1, Ordering::Relaxed);
    }

    #[cfg(any(feature = "etcd", feature = "kube"))]
    pub(super) fn note_feedback(&self) {
        self.feedback.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counters with their names.
    pub(super) fn counts(&self) -> [(&'static str, u64); 2] {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [("export", count(&self.export)), ("feedback", count(&self.feedback))]
    }
}
