//! Authorities and the servers that they use: which one is relied on, and when that changes (A47, A71).
//!
//! An authority has servers in order of preference. It relies on the *active* one; those before it
//! failed, are still tried, and are subscribed to the same names. The first response of one of them
//! makes it the active one again and ends what comes behind it (FB-08). The next server is turned to
//! when the active one fails while something is wanted of which nothing is known (FB-03 to FB-05).
//! Where they [take turns](Fallback::Failover) instead, the active one is the only one that is used.
//!
//! Names without an authority may have other servers for some types than for the rest, as every type of a
//! proxy has a source of its own (S0.052).

use alloc::{collections::BTreeSet, vec::Vec};
use core::time::Duration;

use super::{
    Client,
    config::Fallback,
    event::{error::InvalidWatch, status::EntryState},
    resource::canonical_name::KeptName,
    subscription::{
        Collection,
        authority::{Authority, DEFAULT, Names, Reliance},
    },
    upstream::{Channel, Link},
};
use crate::{
    id::ChannelId,
    service::Variant,
    text::ResourceName,
    time::Time,
    zoo::{self, Bug},
};

impl Client {
    /// The position of the authority that a name states (FE-05).
    pub(crate) fn position_of_authority(&self, name: &KeptName<'_>) -> Result<usize, InvalidWatch> {
        let Some(stated) = name.authority.as_deref() else { return Ok(DEFAULT) };
        let all = &self.upstreams.authorities;
        let answers = |authority: &Authority| match &authority.answers_for {
            Names::Unqualified => false,
            Names::Of(name) => **name == *stated,
            // It is the last one.
            Names::OfOthers => true,
        };
        all.iter()
            .position(answers)
            .ok_or_else(|| InvalidWatch::UnknownAuthority(ResourceName::from(&*name.name)))
    }

    /// The server of a lane has answered. Authorities that had turned to one behind it come back
    /// (FB-08, FB-13), and those that had turned to it are served.
    pub(crate) fn prefer(&mut self, lane: usize, now: Time) {
        let Some(state) = self.upstreams.lanes.get(lane) else { return };
        let (upstream, carried) = (state.upstream, state.types(self.types.len()));
        for authority in 0..self.upstreams.authorities.len() {
            let mut taken_over = Vec::new();
            for type_index in carried.clone() {
                let Some(state) = self.upstreams.authorities.get_mut(authority) else { break };
                let Some(rank) = state.rank_of(upstream, type_index) else { continue };
                let Some(reliance) = state.reliance_mut(type_index) else { continue };
                let was_turning = reliance.is_turning && rank <= reliance.active;
                if rank < reliance.active && !zoo::is(Bug::NoWayBack) {
                    self.set_active(authority, type_index, rank, now);
                } else if was_turning {
                    reliance.is_turning = false;
                } else {
                    continue;
                }
                taken_over.push(type_index);
            }
            if !taken_over.is_empty() {
                self.connect_if_wanted(now);
                self.announce();
                self.tell_of_the_server(authority, &taken_over);
            }
            if let Some(id) = self.upstreams.on_lane(lane) {
                for &type_index in &taken_over {
                    if authority == DEFAULT {
                        self.await_leftovers(id, type_index, now);
                    }
                    self.await_leftovers_of_globs(id, type_index, authority, now);
                }
            }
        }
    }

    /// A server has changed something: the version of the whole that another one gave says no longer what is held.
    pub(crate) fn outdate_versions_of_others(
        &mut self,
        upstream: usize,
        type_index: usize,
        now: Time,
    ) {
        for other in self.others_beside(upstream, type_index, Variant::StateOfTheWorld) {
            self.outdate_version(other, type_index, now);
        }
    }

    /// The version of the whole that a server gave says no longer what is held.
    fn outdate_version(&mut self, upstream: usize, type_index: usize, now: Time) {
        let server = self.upstreams.servers.get_mut(upstream);
        if let Some(accepted) = server.and_then(|server| server.accepted.get_mut(type_index)) {
            accepted.outdate();
        }
        self.start_over_if_stated(upstream, type_index, now);
    }

    /// A server has sent what was held from others, changed or not, or what is held from them has ended with it.
    /// Single resources that were stated to one of these are not held from it any more.
    pub(crate) fn start_over_where_resources_were_stated(
        &mut self,
        upstream: usize,
        type_index: usize,
        now: Time,
    ) {
        for other in self.others_beside(upstream, type_index, Variant::Incremental) {
            self.start_over_if_stated(other, type_index, now);
        }
    }

    /// The servers of a variant from which something may be held for the authorities that use this one for a type at
    /// present.
    fn others_beside(
        &self,
        upstream: usize,
        type_index: usize,
        variant: Variant,
    ) -> BTreeSet<usize> {
        if self.upstreams.servers.len() < 2 {
            return BTreeSet::new();
        }
        let authorities = self.upstreams.authorities.iter();
        let concerned = authorities.filter(|it| it.uses(upstream, type_index));
        let is_meant = |other: &usize| {
            let server = self.upstreams.servers.get(*other);
            *other != upstream && server.is_some_and(|it| it.server.variant == variant)
        };
        concerned.flat_map(|it| it.servers(type_index)).copied().filter(is_meant).collect()
    }

    /// What came from a server has expired: no version that another one gave for the same authority stands for all that
    /// it says, nor does its own.
    pub(crate) fn outdate_versions_with(&mut self, upstream: usize, type_index: usize, now: Time) {
        let authorities = self.upstreams.authorities.iter();
        let concerned = authorities.map(|it| it.servers(type_index));
        let concerned = concerned.filter(|it| it.contains(&upstream));
        let all: BTreeSet<usize> = concerned.flatten().copied().collect();
        for server in all {
            self.outdate_version(server, type_index, now);
        }
    }

    /// Nothing follows from the silence of a server that was told that something is held which is not, or not from
    /// it: its stream starts over, unless it has answered.
    fn start_over_if_stated(&mut self, upstream: usize, type_index: usize, now: Time) {
        let Some(lane) = self.upstreams.lane_of(upstream, type_index) else { return };
        let channel = self.upstreams.on_lane(lane).and_then(|id| self.upstreams.channel(id));
        let is_meant =
            |it: &Channel| it.stated_held.contains(&type_index) && it.responded.is_none();
        if channel.is_some_and(is_meant) {
            self.close_lane(lane, now);
            self.connect_if_wanted(now);
        }
    }

    /// The types of an authority that rely on what a lane carries.
    pub(crate) fn relying_on(&self, lane: usize, authority: usize) -> Vec<usize> {
        let authority = self.upstreams.authorities.get(authority);
        let Some((lane, authority)) = self.upstreams.lanes.get(lane).zip(authority) else {
            return Vec::new();
        };
        let carried = lane.types(self.types.len());
        carried.filter(|&type_index| authority.active(type_index) == lane.upstream).collect()
    }

    /// The server that an authority relies on for these types has failed: turns to the next one that
    /// has not, if something is wanted of which nothing is known.
    pub(crate) fn fall_back(&mut self, authority: usize, types: &[usize], now: Time) {
        let may_turn = |&type_index: &usize| self.has_next_server(authority, type_index);
        let lacks = |type_index| self.lacks_something(authority, type_index);
        if self.config.profile.fallback != Fallback::On
            || !types
                .iter()
                .copied()
                .filter(may_turn)
                .any(|type_index| lacks(type_index) || zoo::is(Bug::FallbackThoughCached))
        {
            return;
        }
        let mut has_turned = false;
        for &type_index in types {
            while let Some(state) = self.upstreams.authorities.get(authority)
                && let next = state.reliance(type_index).active + 1
                && next < state.servers(type_index).len()
            {
                has_turned = true;
                self.set_active(authority, type_index, next, now);
                let active = self.upstreams.active(authority, type_index);
                if active.is_some_and(|(_, lane)| lane.error.is_none()) {
                    break;
                }
            }
        }
        if has_turned {
            self.connect_if_wanted(now);
            self.announce();
        }
    }

    /// Whether there is a server behind the one that an authority relies on for a type.
    pub(crate) fn has_next_server(&self, authority: usize, type_index: usize) -> bool {
        self.upstreams.authorities.get(authority).is_some_and(|authority| {
            authority.reliance(type_index).active + 1 < authority.servers(type_index).len()
        })
    }

    /// A stream of the lane has ended. Where servers take turns, the next one has its own if nobody has to
    /// wait for this one (FB-22 to FB-24).
    pub(crate) fn fail_over(&mut self, lane: usize, now: Time) {
        for authority in 0..self.upstreams.authorities.len() {
            for type_index in self.relying_on(lane, authority) {
                let Some(state) = self.upstreams.authorities.get(authority) else { return };
                let first = state.servers(type_index).first().copied().unwrap_or(usize::MAX);
                let first = self.upstreams.lane_of(first, type_index);
                let Some(first) = first.and_then(|lane| self.upstreams.lanes.get(lane)) else {
                    continue;
                };
                let (has_answered, failures) = (first.has_answered, first.failures);
                if let Some(next) = state.next_in_turn(type_index, has_answered, failures) {
                    self.set_active(authority, type_index, next, now);
                }
            }
        }
    }

    /// What is asked for and not concluded; non-existence and a rejection are conclusions (FB-05).
    fn lacks_something(&self, authority: usize, type_index: usize) -> bool {
        let Some(known) = self.types.get(type_index) else { return false };
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
    }

    /// Starts over with the preferred server once nothing is wanted of the authority any more.
    pub(crate) fn reset_if_unused(&mut self, authority: usize, now: Time) {
        if self.types.iter().any(|known| known.interest.is_wanted_by(authority)) {
            return;
        }
        for type_index in 0..self.types.len() {
            let Some(state) = self.upstreams.authorities.get_mut(authority) else { return };
            let Some(reliance) = state.reliance_mut(type_index) else { return };
            if reliance.active == 0 {
                continue;
            }
            self.set_active(authority, type_index, 0, now);
            // It may take itself to be asked for everything still, by whoever comes back before it is told
            // otherwise.
            let preferred =
                self.upstreams.authorities.get(authority).map(|it| it.active(type_index));
            let lane = preferred.and_then(|server| self.upstreams.lane_of(server, type_index));
            let id = lane.and_then(|lane| self.upstreams.on_lane(lane));
            if let Some(id) = id.filter(|_| authority == DEFAULT) {
                self.await_leftovers(id, type_index, now);
            }
        }
        self.connect_if_wanted(now);
        self.announce();
    }

    fn set_active(&mut self, authority: usize, type_index: usize, rank: usize, now: Time) {
        let state = self.upstreams.authorities.get_mut(authority);
        let Some(state) = state.and_then(|state| state.reliance_mut(type_index)) else {
            return;
        };
        *state = Reliance { active: rank, is_turning: rank > state.active };
        for upstream in 0..self.upstreams.servers.len() {
            let Some(state) = self.upstreams.authorities.get(authority) else { return };
            let uses = state.uses(upstream, type_index);
            let Some(server) = self.upstreams.servers.get_mut(upstream) else { return };
            if server.serves.set(type_index, authority, uses) {
                self.rescope(upstream, type_index, authority, now);
            }
        }
    }

    /// Other authorities use the server than before: its stream is asked for other names, or for
    /// nothing any more, which ends it at once.
    fn rescope(&mut self, upstream: usize, type_index: usize, authority: usize, now: Time) {
        let Some(lane) = self.upstreams.lane_of(upstream, type_index) else { return };
        if !self.is_lane_wanted(lane) {
            self.close_lane(lane, now);
            return;
        }
        let Some(id) = self.upstreams.on_lane(lane) else { return };
        if let Some(known) = self.types.get(type_index)
            && let Some((channel, server)) = self.upstreams.channel_and_server(id)
            && let scope = server.serves.of(type_index)
            && let Some(machine) = channel.machine_mut(type_index)
        {
            // The server was never told that it had stopped being asked for what it is asked for again,
            // and would not repeat what it said before then.
            if scope.get(authority) == Some(&true) && machine.knows_of(&known.interest, authority) {
                self.close_lane(lane, now);
            } else {
                let is_given_up = scope.get(authority) != Some(&true);
                machine.sent_mut().recount(&known.interest, scope);
                if is_given_up {
                    self.hand_over_timers_of(id, authority, type_index);
                }
            }
        }
    }

    /// Ends the stream of a lane on which nothing is wanted any more.
    pub(crate) fn close_lane(&mut self, lane: usize, now: Time) {
        if let Some(id) = self.upstreams.on_lane(lane)
            && let Some(next) = self.end_silently(id, now)
        {
            let link = if next > now { Link::BackingOff(next) } else { Link::Idle };
            if let Some(lane) = self.upstreams.lanes.get_mut(lane) {
                lane.link = link;
            }
        }
    }

    /// Closes a channel on our own account. Returns when the next one may be opened.
    fn end_silently(&mut self, id: ChannelId, now: Time) -> Option<Time> {
        let mut channel = self.upstreams.end_channel(id)?;
        self.outbox.close(id, None);
        self.forget_what_was_sent(&mut channel);
        let policy = &self.config.profile.backoff;
        let lane = self.upstreams.lanes.get_mut(channel.lane)?;
        lane.pauses.note_closed(channel.end(policy, now));
        // Nobody has to be spared where there is nobody to connect to.
        let server = self.upstreams.servers.get(channel.upstream)?;
        let pause = match server.server.exchange.is_of_files() {
            true => Duration::ZERO,
            false => policy.initial,
        };
        Some(channel.started.after(pause))
    }
}
