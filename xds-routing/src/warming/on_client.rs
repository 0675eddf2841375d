//! Warming on a client core, for drivers that have the core in hand.

use alloc::collections::BTreeSet;

use xds_core::{
    Client, Time, TypeUrl, WatchId,
    client::{Interest, InvalidWatch, Notice},
};

use super::{Warmed, Warming, WarmingOutput};
use crate::dependencies::{Dependency, DependencyKind, Watches};

/// [`Warming`] and its watches at a client core, which asks for all listeners and clusters as a proxy does
/// ([`Profile::envoy`](xds_core::client::Profile::envoy)). The driver hands in every notice; what is not of these
/// watches is handed back. It calls [`handle_timeout`](Self::handle_timeout) when that is due.
#[derive(Debug)]
pub struct ClientWarming {
    warming: Warming,
    /// The watches of all clusters and of all listeners.
    collections: [(WatchId, DependencyKind); 2],
    watches: Watches,
    changed: BTreeSet<Dependency>,
}

impl ClientWarming {
    /// Asks for all listeners and all clusters (S0.023).
    ///
    /// # Errors
    ///
    /// The client does not know the types, or is shut down.
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

    /// Takes a notice, or gives it back if it is of another watch. It is [handled](Client::handled) when this
    /// returns.
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
        self.obey(client, now);
        client.handled(watch, now);
        None
    }

    /// Goes on without what has not come in time. Calling early is harmless.
    pub fn handle_timeout(&mut self, client: &mut Client, now: Time) {
        self.warming.handle_timeout(now);
        self.obey(client, now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.warming.poll_timeout()
    }

    /// The next listener or cluster that is used in another way from now on, as it is now, or, with `None`, is
    /// gone. Clusters come before listeners.
    #[must_use]
    pub fn poll_change(&mut self) -> Option<(Dependency, Option<Warmed>)> {
        let root = self.changed.pop_last()?;
        let warmed = self.warming.warmed(&root);
        Some((root, warmed))
    }

    /// The state, to look at.
    #[must_use]
    pub const fn warming(&self) -> &Warming {
        &self.warming
    }

    /// The routes and endpoints that are watched, in order.
    pub fn watched(&self) -> impl Iterator<Item = &Dependency> {
        self.watches.resources()
    }

    /// Ends all watches.
    pub fn shut_down(self, client: &mut Client, now: Time) {
        self.collections.iter().for_each(|(watch, _)| client.unwatch(*watch, now));
        self.watches.end_all(client, now);
    }

    fn obey(&mut self, client: &mut Client, now: Time) {
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
