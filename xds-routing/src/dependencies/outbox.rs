//! Outputs: watches to start and to end, and configurations.

use alloc::collections::BTreeSet;

use xds_core::ResourceName;

use super::{Configuration, ConfigurationError, Dependency, DependencyKind};

/// Output of a [`DependencyManager`](super::DependencyManager).
#[derive(Clone, Debug, PartialEq)]
#[must_use]
#[non_exhaustive]
pub enum DependencyOutput {
    /// Start this watch, and pass every notice to
    /// [`DependencyManager::handle_notice`](super::DependencyManager::handle_notice).
    Watch(Dependency),
    /// End this watch.
    Unwatch(Dependency),
    /// Use this configuration from now on, or fail all calls with this error. Replaces the previous
    /// one.
    Configuration(Result<Configuration, ConfigurationError>),
}

/// Watch to start or to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WatchChange {
    Start(Dependency),
    End(Dependency),
}

impl From<WatchChange> for DependencyOutput {
    fn from(change: WatchChange) -> Self {
        match change {
            WatchChange::Start(dependency) => Self::Watch(dependency),
            WatchChange::End(dependency) => Self::Unwatch(dependency),
        }
    }
}

/// Set of pending watch outputs. They are returned sorted by kind and name, new watches before
/// ended ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    /// Watches to start.
    starts: BTreeSet<Dependency>,
    /// Watches to end. A dependency in both sets is ended first, then watched again, so the client
    /// reports its current state.
    ends: BTreeSet<Dependency>,
}

impl Outbox {
    pub(crate) fn watch(&mut self, kind: DependencyKind, name: &ResourceName) {
        self.starts.insert(Dependency::new(kind, name.clone()));
    }

    pub(crate) fn unwatch(&mut self, kind: DependencyKind, name: &ResourceName) {
        let dependency = Dependency::new(kind, name.clone());
        if !self.starts.remove(&dependency) {
            self.ends.insert(dependency);
        }
    }

    /// Restarts a watch.
    pub(super) fn renew(&mut self, kind: DependencyKind, name: &ResourceName) {
        let dependency = Dependency::new(kind, name.clone());
        // A watch that has not started yet need not be restarted.
        if self.starts.insert(dependency.clone()) {
            self.ends.insert(dependency);
        }
    }

    pub(crate) fn pop(&mut self) -> Option<WatchChange> {
        if let Some(next) = self.starts.first()
            && !self.ends.contains(next)
        {
            return self.starts.pop_first().map(WatchChange::Start);
        }
        if let Some(next) = self.starts.first() {
            return self.ends.take(next).map(WatchChange::End);
        }
        self.ends.pop_first().map(WatchChange::End)
    }
}
