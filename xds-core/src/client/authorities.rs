//! Authorities and the servers that they use: which one is relied on, and when that changes (A47, A71).
//!
//! An authority has servers in order of preference. It relies on the *active* one; those before it
//! failed, are still tried, and are subscribed to the same names. The first response of one of them
//! makes it the active one again and ends what comes behind it (FB-08). The next server is turned to
//! when the active one fails while something is wanted of which nothing is known (FB-03 to FB-05).

use alloc::{sync::Arc, vec::Vec};

use super::{
    Client,
    config::{ClientConfig, Fallback, ManagementServer},
    error::InvalidWatch,
    interest::Collection,
    names::KeptName,
    status::EntryState,
    upstream::Link,
};
use crate::{id::ChannelId, text::ResourceName, time::Time};

/// The authority of names that state none.
pub(crate) const DEFAULT: usize = 0;

/// An authority, for the life of the client.
#[derive(Debug)]
pub(crate) struct Authority {
    /// `None` is that of names that state none.
    name: Option<Arc<str>>,
    /// Positions of servers, the preferred first.
    servers: Vec<usize>,
    /// The position in `servers` of the one that is relied on.
    active: usize,
    /// Whether that one has yet to answer since it was turned to. Until then the failure of the one
    /// before it stands.
    is_turning: bool,
}

impl Authority {
    /// The authorities of a configuration, that of names without one first. Servers that are not in
    /// `distinct` yet are added (FE-16).
    pub(crate) fn all(
        config: &ClientConfig,
        distinct: &mut Vec<Arc<ManagementServer>>,
    ) -> Vec<Self> {
        let mut positions = |servers: &[ManagementServer]| {
            let mut found: Vec<usize> = Vec::new();
            let usable = match config.profile.fallback {
                Fallback::On => servers.len(),
                Fallback::Off => 1,
            };
            for server in servers.iter().take(usable) {
                let known = distinct.iter().position(|other| **other == *server);
                let position = known.unwrap_or(distinct.len());
                if known.is_none() {
                    distinct.push(Arc::new(server.clone()));
                }
                if !found.contains(&position) {
                    found.push(position);
                }
            }
            found
        };
        let top_level = positions(&config.servers);
        let mut all = Vec::from([Self {
            name: None,
            servers: top_level.clone(),
            active: 0,
            is_turning: false,
        }]);
        for authority in &config.authorities {
            let own = positions(&authority.servers);
            // An authority without servers uses those of the top level (FE-03).
            let servers = if own.is_empty() { top_level.clone() } else { own };
            let name = Some(Arc::clone(&authority.name));
            all.push(Self { name, servers, active: 0, is_turning: false });
        }
        all
    }

    /// The position of the server that is relied on.
    pub(crate) fn active(&self) -> usize {
        self.servers.get(self.active).copied().unwrap_or(usize::MAX)
    }

    /// Whether names of the authority are subscribed to on a server at present.
    pub(crate) fn uses(&self, upstream: usize) -> bool {
        self.servers.iter().take(self.active + 1).any(|&server| server == upstream)
    }

    fn rank_of(&self, upstream: usize) -> Option<usize> {
        self.servers.iter().position(|&server| server == upstream)
    }
}

impl Client {
    /// The position of the authority that a name states (FE-05).
    pub(super) fn position_of_authority(&self, name: &KeptName<'_>) -> Result<usize, InvalidWatch> {
        let Some(stated) = name.authority.as_deref() else { return Ok(DEFAULT) };
        self.upstreams
            .authorities
            .iter()
            .position(|authority| authority.name.as_deref() == Some(stated))
            .ok_or_else(|| InvalidWatch::UnknownAuthority(ResourceName::from(&*name.name)))
    }

    /// A server has answered. Authorities that had turned to one behind it come back (FB-08, FB-13),
    /// and those that had turned to it are served.
    pub(super) fn prefer(&mut self, upstream: usize, now: Time) {
        for authority in 0..self.upstreams.authorities.len() {
            let Some(state) = self.upstreams.authorities.get_mut(authority) else { continue };
            let Some(rank) = state.rank_of(upstream).filter(|rank| *rank <= state.active) else {
                continue;
            };
            let was_turning = core::mem::take(&mut state.is_turning);
            if rank < state.active {
                self.set_active(authority, rank, now);
                self.tell_of_the_server(authority);
            } else if was_turning {
                self.tell_of_the_server(authority);
            }
        }
    }

    /// The active server of an authority has failed: turns to the next one that has not, if
    /// something is wanted of which nothing is known. `false` if there is none to turn to.
    pub(super) fn fall_back(&mut self, authority: usize, now: Time) -> bool {
        if !self.lacks_something(authority) {
            return false;
        }
        loop {
            let Some(state) = self.upstreams.authorities.get(authority) else { return false };
            let next = state.active + 1;
            let Some(&upstream) = state.servers.get(next) else { return false };
            self.set_active(authority, next, now);
            if self.upstreams.servers.get(upstream).is_some_and(|server| server.error.is_none()) {
                return true;
            }
        }
    }

    /// What is asked for and not concluded; non-existence and a rejection are conclusions (FB-05).
    fn lacks_something(&self, authority: usize) -> bool {
        self.types.iter().any(|known| {
            let lacks_name = known.interest.subscriptions.iter().any(|(_, subscription)| {
                let is_unknown = || {
                    let entry = known.cache.get(subscription.entry);
                    entry.is_some_and(|entry| entry.state == EntryState::Requested)
                };
                subscription.authority == authority && subscription.is_wanted() && is_unknown()
            });
            let lacks_collection = authority == DEFAULT
                && known.interest.wants_wildcard()
                && matches!(known.interest.collection, Collection::Requested);
            lacks_name || lacks_collection
        })
    }

    /// Starts over with the preferred server once nothing is wanted of the authority any more.
    pub(super) fn reset_if_unused(&mut self, authority: usize, now: Time) {
        let is_behind = |state: &Authority| state.active > 0;
        if self.upstreams.authorities.get(authority).is_some_and(is_behind)
            && !self.types.iter().any(|known| known.interest.is_wanted_by(authority))
        {
            self.set_active(authority, 0, now);
        }
    }

    fn set_active(&mut self, authority: usize, rank: usize, now: Time) {
        let Some(state) = self.upstreams.authorities.get_mut(authority) else { return };
        state.is_turning = rank > state.active;
        state.active = rank;
        for upstream in 0..self.upstreams.servers.len() {
            let Some(state) = self.upstreams.authorities.get(authority) else { return };
            let uses = state.uses(upstream);
            let Some(server) = self.upstreams.servers.get_mut(upstream) else { return };
            let Some(serves) = server.serves.get_mut(authority) else { return };
            if core::mem::replace(serves, uses) != uses {
                self.rescope(upstream, now);
            }
        }
        self.connect_if_wanted(now);
        self.announce();
    }

    /// Other authorities use the server than before: its streams are asked for other names, or for
    /// nothing any more, which ends them at once.
    fn rescope(&mut self, upstream: usize, now: Time) {
        for lane in 0..self.upstreams.lanes.len() {
            if self.upstreams.lanes.get(lane).is_none_or(|lane| lane.upstream != upstream) {
                continue;
            }
            if !self.is_lane_wanted(lane) {
                self.close_lane(lane, now);
                continue;
            }
            let Some(id) = self.upstreams.on_lane(lane) else { continue };
            for (type_index, known) in self.types.iter().enumerate() {
                if let Some((channel, server)) = self.upstreams.channel_and_server(id)
                    && let Some(machine) = channel.machine_mut(type_index)
                {
                    machine.sent_mut().recount(&known.interest, &server.serves);
                }
            }
        }
    }

    /// Ends the stream of a lane on which nothing is wanted any more.
    pub(super) fn close_lane(&mut self, lane: usize, now: Time) {
        if let Some(id) = self.upstreams.on_lane(lane)
            && let Some(next) = self.end_silently(id)
        {
            let link = if next > now { Link::BackingOff(next) } else { Link::Idle };
            if let Some(lane) = self.upstreams.lanes.get_mut(lane) {
                lane.link = link;
            }
        }
    }

    /// Closes a channel on our own account. Returns when the next one may be opened.
    fn end_silently(&mut self, id: ChannelId) -> Option<Time> {
        let mut channel = self.upstreams.end_channel(id)?;
        self.outbox.close(id, None);
        self.forget_what_was_sent(&mut channel);
        Some(channel.started.after(self.config.profile.backoff.initial))
    }
}
