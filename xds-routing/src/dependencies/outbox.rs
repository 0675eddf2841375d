//! Which watches to start and to end.

use alloc::collections::BTreeSet;

use super::{Dependency, DependencyKind, DependencyOutput};
use xds_core::ResourceName;

/// What is to be watched, and how far that has been said. What is said comes in the order of kinds and names,
/// watches before ends of watches.
#[derive(Clone, Debug, Default)]
pub(super) struct Outbox {
    /// To be started.
    starts: BTreeSet<Dependency>,
    /// To be ended. What is in both sets is to be ended and then started: whoever watches anew has
    /// forgotten what it knew, and is told again.
    ends: BTreeSet<Dependency>,
}

impl Outbox {
    pub(super) fn watch(&mut self, kind: DependencyKind, name: &ResourceName) {
        self.starts.insert(Dependency::new(kind, name.clone()));
    }

    pub(super) fn unwatch(&mut self, kind: DependencyKind, name: &ResourceName) {
        let dependency = Dependency::new(kind, name.clone());
        if !self.starts.remove(&dependency) {
            self.ends.insert(dependency);
        }
    }

    /// Watches anew what is watched.
    pub(super) fn renew(&mut self, kind: DependencyKind, name: &ResourceName) {
        let dependency = Dependency::new(kind, name.clone());
        // A watch that is yet to be started is new.
        if self.starts.insert(dependency.clone()) {
            self.ends.insert(dependency);
        }
    }

    pub(super) fn pop(&mut self) -> Option<DependencyOutput> {
        if let Some(next) = self.starts.first()
            && !self.ends.contains(next)
        {
            return self.starts.pop_first().map(DependencyOutput::Watch);
        }
        if let Some(next) = self.starts.first() {
            return self.ends.take(next).map(DependencyOutput::Unwatch);
        }
        self.ends.pop_first().map(DependencyOutput::Unwatch)
    }
}
