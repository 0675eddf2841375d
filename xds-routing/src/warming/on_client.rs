//! Warming on a client core, for drivers that own the core.

use alloc::collections::BTreeSet;

use xds_core::{
    Client, Time, TypeUrl, WatchId,
    client::{Interest, InvalidWatch, Notice},
};

use super::{Warmed, Warming, WarmingOutput};
use crate::dependencies::{Dependency, DependencyKind, Watches};

/// [`Warming`] with its watches on a client core, which subscribes to all listeners and clusters as
/// a proxy does ([`Profile::envoy`](xds_core::client::Profile::envoy)).
///
/// The driver passes every notice; notices of other watches are returned. It calls
/// [`handle_timeout`](Self::handle_timeout) when due.
#[derive(Debug)]
pub struct ClientWarming {
    warming: Warming,
    /// Watches of all clusters and all listeners.
    collections: [(WatchId, DependencyKind); 2],
    watches: Watches,
    changed: BTreeSet<Dependency>,
}

impl ClientWarming {
    /// Subscribes to all listeners and clusters.
    ///
    /// # Errors
    ///
    /// Returns an error if the client does not know the types or is shut down.
    // S0.023
    pub fn new(client: &mut Client, now: Time) -> Result<Self, InvalidWatch> {
        let mut watch = |kind: DependencyKind| {
            let type_url = TypeUrl::from(kind.type_url());
            client.watch(&type_url, Interest::Wildcard, now).map(|watch| (watch, kind))
        };
        let clusters = watch(DependencyKind::Cluster)?;
        let listeners = watch(DependencyKind::Listener);
        let listeners = listeners.inspect_err(|_| client.unwatch(clusters.0, now))?;
        Ok(Self {
            warming: Warming::new(),
            collections: [clusters, listeners],
            watches: Watches::default(),
            changed: BTreeSet::new(),
        })
    }

    /// Handles a notice. Returns it if it belongs to another watch. The notice is
    /// [handled](Client::handled) when this function returns.
    #[must_use]
    pub fn handle_notice(
        &mut self,
        watch: WatchId,
        notice: Notice,
        client: &mut Client,
        now: Time,
    ) -> Option<Notice> {
        if let Some(&(_, kind)) = self.collections.iter().find(|(id, _)| *id == watch) {
            while let Some(change) = client.next_change(watch) {
                self.warming.handle_change(kind, change, now);
            }
            self.warming.handle_caught_up(kind, now);
        } else if let Some(dependency) = self.watches.resource(watch) {
            self.warming.handle_notice(dependency, notice, now);
        } else {
            return Some(notice);
        }
        self.apply_outputs(client, now);
        client.handled(watch, now);
        None
    }

    /// Gives up waiting for dependencies whose timeout has expired. Calling early is harmless.
    pub fn handle_timeout(&mut self, client: &mut Client, now: Time) {
        self.warming.handle_timeout(now);
        self.apply_outputs(client, now);
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.warming.poll_timeout()
    }

    /// Returns the next listener or cluster that changed, with the version to use from now on, or
    /// `None` if it was removed. Clusters precede listeners.
    #[must_use]
    pub fn poll_change(&mut self) -> Option<(Dependency, Option<Warmed>)> {
        let root = self.changed.pop_last()?;
        let warmed = self.warming.warmed(&root);
        Some((root, warmed))
    }

    /// Returns the state machine, for inspection.
    #[must_use]
    pub const fn warming(&self) -> &Warming {
        &self.warming
    }

    /// Returns the watched routes and endpoints, sorted.
    pub fn watched(&self) -> impl Iterator<Item = &Dependency> {
        self.watches.resources()
    }

    /// Ends all watches.
    pub fn shut_down(self, client: &mut Client, now: Time) {
        self.collections.iter().for_each(|(watch, _)| client.unwatch(*watch, now));
        self.watches.end_all(client, now);
    }

    fn apply_outputs(&mut self, client: &mut Client, now: Time) {
        while let Some(output) = self.warming.poll_output() {
            match output {
                WarmingOutput::Watch(dependency) => {
                    if let Err(why) = self.watches.start(&dependency, client, now) {
                        self.warming.handle_refusal(&dependency, why, now);
                    }
                }
                WarmingOutput::Unwatch(dependency) => {
                    self.watches.end(&dependency, client, now);
                }
                WarmingOutput::Use(Warmed { root, .. }) | WarmingOutput::Drop(root) => {
                    self.changed.insert(root);
                }
            }
        }
    }
}
