//! What there is to see of a world: for scenarios, oracles and applications.

use std::{ptr, time::Duration};

use xds_core::{Client, Time, TypeUrl, client::ResourceStatus, server::Server};

use super::{Link, LinkId, Resources, Watch, Watched, World, parts::Plane};
use crate::{options::Options, tape::Choices, trace::Phase};

impl World {
    /// The present.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// What kind of run it is.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What answers the questions of the run: a scenario that leaves something open asks here.
    pub fn choices(&mut self) -> &mut Choices {
        &mut self.choices
    }

    /// The part of the run.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The types of the world. Their positions are what is called a kind.
    #[must_use]
    pub fn types(&self) -> &[TypeUrl] {
        &self.types
    }

    /// What is true, whichever server knows of it yet, in the first view.
    #[must_use]
    pub fn truth(&self) -> &Resources {
        &self.truth[0].has
    }

    /// The same in the view that a client sees.
    ///
    /// # Panics
    ///
    /// If there is no client at the position.
    #[must_use]
    pub fn truth_for(&self, client: usize) -> &Resources {
        &self.truth[self.clients[client].view].has
    }

    /// The position of the view that a client sees.
    ///
    /// # Panics
    ///
    /// If there is no client at the position.
    #[must_use]
    pub fn view_of(&self, client: usize) -> usize {
        self.clients[client].view
    }

    /// How many clients there are.
    #[must_use]
    pub fn client_count(&self) -> usize {
        self.clients.len()
    }

    /// How many servers there are.
    #[must_use]
    pub fn server_count(&self) -> usize {
        self.servers.len()
    }

    /// A client's state machine.
    ///
    /// # Panics
    ///
    /// If there is no client at the position.
    #[must_use]
    pub fn client(&self, at: usize) -> &Client {
        &self.clients[at].core
    }

    /// What a client knows of resources, with the position of the type of each.
    pub(crate) fn status(&self, at: usize) -> impl Iterator<Item = (usize, ResourceStatus<'_>)> {
        let mut newest: Option<(&TypeUrl, usize)> = None;
        self.client(at).status().filter_map(move |it| {
            // They come type by type, and each has one URL.
            if newest.is_none_or(|(type_url, _)| !ptr::eq(type_url, it.type_url)) {
                let kind = self.types.iter().position(|known| known == it.type_url);
                newest = kind.map(|kind| (it.type_url, kind));
            }
            Some((newest?.1, it))
        })
    }

    /// What a client knows of resources of a type.
    pub(crate) fn status_of(
        &self,
        at: usize,
        kind: usize,
    ) -> impl Iterator<Item = ResourceStatus<'_>> {
        self.status(at).filter(move |(of, _)| *of == kind).map(|(_, it)| it)
    }

    /// The watches of a client, by id.
    ///
    /// # Panics
    ///
    /// If there is no client at the position.
    pub fn watches(&self, at: usize) -> impl Iterator<Item = (xds_core::WatchId, &Watch)> {
        self.clients[at].watches.iter()
    }

    /// How many watches a client has.
    pub(crate) fn watch_count(&self, at: usize) -> usize {
        self.clients[at].watches.count()
    }

    /// A watch of a client, unless it has ended.
    #[must_use]
    pub fn watch_of(&self, at: usize, watch: xds_core::WatchId) -> Option<&Watch> {
        self.clients.get(at)?.watches.get(watch)
    }

    /// What the watches of a client ask for of a type.
    ///
    /// # Panics
    ///
    /// If there is no client or no type at the position.
    pub(crate) fn watched(&self, client: usize, kind: usize) -> &Watched {
        self.clients[client].watches.of_type(kind)
    }

    /// A server's state machine, if it is ours.
    #[must_use]
    pub fn server(&self, at: usize) -> Option<&Server> {
        match &self.servers.get(at)?.core {
            Plane::Core(server) => Some(server),
            Plane::Own(_) => None,
        }
    }

    /// What a server was told to have in a view.
    ///
    /// # Panics
    ///
    /// If there is no server or no view at the position.
    #[must_use]
    pub fn has(&self, server: usize, view: usize) -> &Resources {
        &self.servers[server].state[view].has
    }

    /// A stream.
    ///
    /// # Panics
    ///
    /// If the id is of another world.
    #[must_use]
    pub fn link(&self, link: LinkId) -> &Link {
        &self.links[link.at()]
    }

    /// The streams of a client that it has not seen end.
    ///
    /// # Panics
    ///
    /// If there is no client at the position.
    pub fn links(&self, client: usize) -> impl Iterator<Item = (LinkId, &Link)> {
        self.clients[client].links.iter().map(|(_, link)| (*link, &self.links[link.at()]))
    }

    /// How many streams a server has not seen end.
    ///
    /// # Panics
    ///
    /// If there is no server at the position.
    #[must_use]
    pub fn streams(&self, server: usize) -> usize {
        let strangers = self.strangers.iter().filter(|stranger| stranger.server == server);
        self.servers[server].links.len() + strangers.count()
    }

    /// Whether a client was shut down.
    ///
    /// # Panics
    ///
    /// If there is no client at the position.
    #[must_use]
    pub fn is_shut_down(&self, client: usize) -> bool {
        self.clients[client].is_shut_down
    }

    /// By how much the clock has jumped so far.
    pub(crate) fn jumped(&self) -> Duration {
        self.jumped
    }

    /// By how much messages took longer than they mostly do when they took longest.
    pub(crate) fn slowest(&self) -> Duration {
        self.slowest
    }

    /// Whether applications of the caller's take part.
    pub(crate) fn has_applications(&self) -> bool {
        self.clients.iter().any(|client| client.application.is_some())
    }

    /// Whether timers have come when they were due so far, and watchers were quick.
    pub(crate) fn is_punctual(&self) -> bool {
        self.is_punctual && self.options.clock_grain.is_zero()
    }

    /// Whether a rule was broken: then nothing happens any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.violation.is_some()
    }
}
