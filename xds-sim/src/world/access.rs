//! Read access to a world, for scenarios, oracles and applications.

use std::{ptr, time::Duration};

use xds_core::{Client, Time, TypeUrl, client::ResourceStatus, server::Server};

use super::{Link, LinkId, Resources, Watch, Watched, World, parts::Plane};
use crate::{options::Options, tape::Choices, trace::Phase};

impl World {
    /// Current virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// Options of the run.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Choices of the run, for decisions of a scenario.
    pub fn choices(&mut self) -> &mut Choices {
        &mut self.choices
    }

    /// Current phase of the run.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Resource types of the world. Their indexes are called kinds.
    #[must_use]
    pub fn types(&self) -> &[TypeUrl] {
        &self.types
    }

    /// Current resources of the first view. Servers may not know them yet.
    #[must_use]
    pub fn truth(&self) -> &Resources {
        &self.truth[0].has
    }

    /// Current resources of the view that a client sees. Servers may not know them yet.
    ///
    /// # Panics
    ///
    /// Panics if there is no client at the index.
    #[must_use]
    pub fn truth_for(&self, client: usize) -> &Resources {
        &self.truth[self.clients[client].view].has
    }

    /// Index of the view that a client sees.
    ///
    /// # Panics
    ///
    /// Panics if there is no client at the index.
    #[must_use]
    pub fn view_of(&self, client: usize) -> usize {
        self.clients[client].view
    }

    /// Number of clients.
    #[must_use]
    pub fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// Number of servers.
    #[must_use]
    pub fn server_count(&self) -> usize {
        self.servers.len()
    }

    /// Requires that the run has a client at the index.
    #[track_caller]
    pub(super) fn require_client(&self, at: usize) {
        let count = self.client_count();
        assert!(at < count, "there is no client {at}: the run has {count}, see `Options::clients`");
    }

    /// Requires that the run has a server at the index.
    #[track_caller]
    pub(super) fn require_server(&self, at: usize) {
        let count = self.server_count();
        assert!(at < count, "there is no server {at}: the run has {count}, see `Options::servers`");
    }

    /// Requires that the run has a kind of resource.
    #[track_caller]
    pub(super) fn require_kind(&self, kind: usize) {
        let count = self.types.len();
        assert!(kind < count, "there is no kind {kind}: the run has {count}, see `Options::types`");
    }

    /// Core of a client.
    ///
    /// # Panics
    ///
    /// Panics if there is no client at the index.
    #[must_use]
    pub fn client(&self, at: usize) -> &Client {
        &self.clients[at].core
    }

    /// Iterates over a client's resource status, with the index of each type.
    pub(crate) fn status(&self, at: usize) -> impl Iterator<Item = (usize, ResourceStatus<'_>)> {
        let mut newest: Option<(&TypeUrl, usize)> = None;
        self.client(at).status().filter_map(move |it| {
            // The status is sorted by type, and each type shares one URL.
            if newest.is_none_or(|(type_url, _)| !ptr::eq(type_url, it.type_url)) {
                let kind = self.types.iter().position(|known| known == it.type_url);
                newest = kind.map(|kind| (it.type_url, kind));
            }
            Some((newest?.1, it))
        })
    }

    /// Iterates over a client's resource status of one type.
    pub(crate) fn status_of_type(
        &self,
        at: usize,
        kind: usize,
    ) -> impl Iterator<Item = ResourceStatus<'_>> {
        self.client(at).status_of_type(self.types[kind].as_str())
    }

    /// A client's status of one resource, if it is watched.
    pub(crate) fn status_of(
        &self,
        at: usize,
        kind: usize,
        name: &str,
    ) -> Option<ResourceStatus<'_>> {
        self.client(at).status_of(self.types[kind].as_str(), name)
    }

    /// Iterates over the watches of a client, by id.
    ///
    /// # Panics
    ///
    /// Panics if there is no client at the index.
    pub fn watches(&self, at: usize) -> impl Iterator<Item = (xds_core::WatchId, &Watch)> {
        self.clients[at].watches.iter()
    }

    /// Number of watches of a client.
    pub(crate) fn watch_count(&self, at: usize) -> usize {
        self.clients[at].watches.count()
    }

    /// Watch of a client, or `None` if it has ended.
    #[must_use]
    pub fn watch_of(&self, at: usize, watch: xds_core::WatchId) -> Option<&Watch> {
        self.clients.get(at)?.watches.get(watch)
    }

    /// Names that the watches of a client cover in a type.
    ///
    /// # Panics
    ///
    /// Panics if there is no client or no type at the index.
    pub(crate) fn watched(&self, client: usize, kind: usize) -> &Watched {
        self.clients[client].watches.of_type(kind)
    }

    /// Core of a server, or `None` for a user-defined control plane.
    #[must_use]
    pub fn server(&self, at: usize) -> Option<&Server> {
        match &self.servers.get(at)?.core {
            Plane::Core(server) => Some(server),
            Plane::Own(_) => None,
        }
    }

    /// Resources that a server has received in a view.
    ///
    /// # Panics
    ///
    /// Panics if there is no server or no view at the index.
    #[must_use]
    pub fn has(&self, server: usize, view: usize) -> &Resources {
        &self.servers[server].state[view].has
    }

    /// Returns a channel.
    ///
    /// # Panics
    ///
    /// Panics if the id belongs to another world.
    #[must_use]
    pub fn link(&self, link: LinkId) -> &Link {
        &self.links[link.at()]
    }

    /// Whether the server handles a request of the channel in parts, and sends nothing meanwhile.
    pub(crate) fn handles_a_request(&self, link: LinkId) -> bool {
        let link = self.link(link);
        self.server(link.server).is_some_and(|server| {
            link.core_stream().is_some_and(|stream| !server.wants_read(stream))
                && server.stats().unfinished_requests > 0
        })
    }

    /// Iterates over the channels of a client whose end it has not seen.
    ///
    /// # Panics
    ///
    /// Panics if there is no client at the index.
    pub fn links(&self, client: usize) -> impl Iterator<Item = (LinkId, &Link)> {
        self.clients[client].links.iter().map(|(_, link)| (*link, &self.links[link.at()]))
    }

    /// Number of streams, including those of rogue clients, whose end a server has not seen.
    ///
    /// # Panics
    ///
    /// Panics if there is no server at the index.
    #[must_use]
    pub fn streams(&self, server: usize) -> usize {
        let rogue_clients =
            self.rogue_clients.iter().filter(|rogue_client| rogue_client.server == server);
        self.servers[server].links.len() + rogue_clients.count()
    }

    /// Whether a client was shut down.
    ///
    /// # Panics
    ///
    /// Panics if there is no client at the index.
    #[must_use]
    pub fn is_shut_down(&self, client: usize) -> bool {
        self.clients[client].is_shut_down
    }

    /// Total time by which the clock has jumped.
    pub(crate) fn jumped(&self) -> Duration {
        self.jumped
    }

    /// Maximum additional latency during the run.
    pub(crate) fn slowest(&self) -> Duration {
        self.slowest
    }

    /// Whether user-defined applications take part.
    pub(crate) fn has_applications(&self) -> bool {
        self.clients.iter().any(|client| client.application.is_some())
    }

    /// Whether all timers have fired on time and no watcher was slow.
    pub(crate) fn is_punctual(&self) -> bool {
        self.is_punctual && self.options.clock_grain.is_zero()
    }

    /// Whether a rule was broken, which ends the run.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.violation.is_some()
    }
}
