//! Fallback: the active server of each authority and its changes.
//!
//! See [gRFC A71](https://github.com/grpc/proposal/blob/master/A71-xds-fallback.md).
//!
//! An authority has servers in order of preference, one of which is *active*. The servers before it
//! have failed; the client keeps trying to reach them and subscribes to the same names there. The
//! first response of one of them makes it active again and ends the use of those after it. The next
//! server becomes active when the active one fails while a watched resource is not cached. With
//! [`Fallback::Failover`], only the active server is used.
//!
//! For names without an authority, each type may have its own servers, like the separate config
//! sources of each type in Envoy.
// A47, FB-03 to FB-05, FB-08, S0.052

use alloc::{collections::BTreeSet, vec::Vec};
use core::time::Duration;

use super::{
    Client,
    config::Fallback,
    event::{error::InvalidWatch, status::ResourceState},
    resource::canonical_name::CanonicalName,
    subscription::{
        Collection,
        authority::{ActiveServer, AuthorityNames, AuthorityState, DEFAULT},
    },
    upstream::{Channel, Connection},
};
use crate::{
    id::ChannelId,
    service::Variant,
    text::ResourceName,
    time::Time,
    zoo::{self, Bug},
};

impl Client {
    /// Returns the position of the authority of a name.
    // FE-05
    pub(crate) fn position_of_authority(
        &self,
        name: &CanonicalName<'_>,
    ) -> Result<usize, InvalidWatch> {
        let Some(stated) = name.authority.as_deref() else { return Ok(DEFAULT) };
        let all = &self.upstreams.authorities;
        let answers = |authority: &AuthorityState| match &authority.names {
            AuthorityNames::WithoutAuthority => false,
            AuthorityNames::Authority(name) => **name == *stated,
            // Last in the list.
            AuthorityNames::OtherAuthorities => true,
        };
        all.iter()
            .position(answers)
            .ok_or_else(|| InvalidWatch::UnknownAuthority(ResourceName::from(&*name.name)))
    }

    /// Handles a response on a stream slot. Its server becomes active for authorities that had
    /// fallen back from it, and a switch to it is complete.
    // FB-08, FB-13
    pub(crate) fn activate_preferred(&mut self, stream_slot: usize, now: Time) {
        let Some(state) = self.upstreams.stream_slots.get(stream_slot) else { return };
        let (upstream, carried) = (state.upstream, state.types(self.types.len()));
        for authority in 0..self.upstreams.authorities.len() {
            let mut taken_over = Vec::new();
            for type_index in carried.clone() {
                let Some(state) = self.upstreams.authorities.get_mut(authority) else { break };
                let Some(rank) = state.rank_of(upstream, type_index) else { continue };
                let Some(active_server) = state.active_server_mut(type_index) else { continue };
                let was_switching = active_server.is_switching && rank <= active_server.active;
                if rank < active_server.active && !zoo::is(Bug::FallbackNeverEnds) {
                    self.set_active(authority, type_index, rank, now);
                } else if was_switching {
                    active_server.is_switching = false;
                } else {
                    continue;
                }
                taken_over.push(type_index);
            }
            if !taken_over.is_empty() {
                self.open_needed_channels(now);
                self.signal_writable();
                self.notify_connection_error(authority, &taken_over);
            }
            if let Some(id) = self.upstreams.channel_of_slot(stream_slot) {
                for &type_index in &taken_over {
                    if authority == DEFAULT {
                        self.start_unconfirmed_timer(id, type_index, now);
                    }
                    self.start_unconfirmed_timers_of_globs(id, type_index, authority, now);
                }
            }
        }
    }

    /// Handles changes of resources by a server: versions accepted from other servers become stale.
    pub(crate) fn mark_other_versions_stale(
        &mut self,
        upstream: usize,
        type_index: usize,
        now: Time,
    ) {
        for other in self.other_servers(upstream, type_index, Variant::StateOfTheWorld) {
            self.mark_version_stale(other, type_index, now);
        }
    }

    /// Marks the version accepted from a server as stale.
    fn mark_version_stale(&mut self, upstream: usize, type_index: usize, now: Time) {
        let server = self.upstreams.servers.get_mut(upstream);
        if let Some(accepted) = server.and_then(|server| server.accepted.get_mut(type_index)) {
            accepted.mark_stale();
        }
        self.restart_stream_if_stated(upstream, type_index, now);
    }

    /// Handles a server that has sent or ended resources held from other servers. Restarts the
    /// streams of other incremental servers to which the client stated that it holds resources,
    /// because it may not hold them from these servers any more.
    pub(crate) fn restart_streams_with_stated_versions(
        &mut self,
        upstream: usize,
        type_index: usize,
        now: Time,
    ) {
        for other in self.other_servers(upstream, type_index, Variant::Incremental) {
            self.restart_stream_if_stated(other, type_index, now);
        }
    }

    /// Returns the other servers with this variant that currently share an authority with the
    /// server for a type.
    fn other_servers(
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

    /// Handles the expiry of a server's resource: the versions accepted from all servers of the
    /// same authorities, including its own, become stale.
    pub(crate) fn mark_authority_versions_stale(
        &mut self,
        upstream: usize,
        type_index: usize,
        now: Time,
    ) {
        let authorities = self.upstreams.authorities.iter();
        let concerned = authorities.map(|it| it.servers(type_index));
        let concerned = concerned.filter(|it| it.contains(&upstream));
        let all: BTreeSet<usize> = concerned.flatten().copied().collect();
        for server in all {
            self.mark_version_stale(server, type_index, now);
        }
    }

    /// Restarts the stream of a server that has not responded since the client stated a version of
    /// held resources. If these are not held any more, its silence has no meaning.
    fn restart_stream_if_stated(&mut self, upstream: usize, type_index: usize, now: Time) {
        let Some(stream_slot) = self.upstreams.stream_slot_of(upstream, type_index) else { return };
        let channel =
            self.upstreams.channel_of_slot(stream_slot).and_then(|id| self.upstreams.channel(id));
        let is_meant = |it: &Channel| {
            it.types_with_stated_versions.contains(&type_index) && it.responded.is_none()
        };
        if channel.is_some_and(is_meant) {
            self.close_stream_slot(stream_slot, now);
            self.open_needed_channels(now);
        }
    }

    /// Returns the types of an authority whose active server uses the stream slot.
    pub(crate) fn types_active_on(&self, stream_slot: usize, authority: usize) -> Vec<usize> {
        let authority = self.upstreams.authorities.get(authority);
        let Some((stream_slot, authority)) =
            self.upstreams.stream_slots.get(stream_slot).zip(authority)
        else {
            return Vec::new();
        };
        let carried = stream_slot.types(self.types.len());
        carried.filter(|&type_index| authority.active(type_index) == stream_slot.upstream).collect()
    }

    /// Handles the failure of the authority's active server for these types: falls back to the next
    /// server without an error, if a watched resource is not cached.
    pub(crate) fn fall_back(&mut self, authority: usize, types: &[usize], now: Time) {
        let may_switch = |&type_index: &usize| self.has_next_server(authority, type_index);
        let lacks = |type_index| self.has_unknown(authority, type_index);
        if self.config.profile.fallback != Fallback::On
            || !types
                .iter()
                .copied()
                .filter(may_switch)
                .any(|type_index| lacks(type_index) || zoo::is(Bug::FallbackDespiteCache))
        {
            return;
        }
        let mut has_switched = false;
        for &type_index in types {
            while let Some(state) = self.upstreams.authorities.get(authority)
                && let next = state.active_server(type_index).active + 1
                && next < state.servers(type_index).len()
            {
                has_switched = true;
                self.set_active(authority, type_index, next, now);
                let active = self.upstreams.active(authority, type_index);
                if active.is_some_and(|(_, stream_slot)| stream_slot.error.is_none()) {
                    break;
                }
            }
        }
        if has_switched {
            self.open_needed_channels(now);
            self.signal_writable();
        }
    }

    /// Returns whether the authority has a server after the active one for a type.
    pub(crate) fn has_next_server(&self, authority: usize, type_index: usize) -> bool {
        self.upstreams.authorities.get(authority).is_some_and(|authority| {
            authority.active_server(type_index).active + 1 < authority.servers(type_index).len()
        })
    }

    /// Handles the end of a stream with [`Fallback::Failover`]: switches to the next server if the
    /// rules of Envoy's failover allow it.
    // FB-22 to FB-24
    pub(crate) fn fail_over(&mut self, stream_slot: usize, now: Time) {
        for authority in 0..self.upstreams.authorities.len() {
            for type_index in self.types_active_on(stream_slot, authority) {
                let Some(state) = self.upstreams.authorities.get(authority) else { return };
                let first = state.servers(type_index).first().copied().unwrap_or(usize::MAX);
                let first = self.upstreams.stream_slot_of(first, type_index);
                let Some(first) =
                    first.and_then(|stream_slot| self.upstreams.stream_slots.get(stream_slot))
                else {
                    continue;
                };
                let (has_responded, failures) = (first.has_responded, first.failures);
                if let Some(next) = state.next_failover(type_index, has_responded, failures) {
                    self.set_active(authority, type_index, next, now);
                }
            }
        }
    }

    /// Returns whether the state of a subscribed resource or collection of the authority is
    /// unknown. A nonexistent or rejected resource is known.
    // FB-05
    fn has_unknown(&self, authority: usize, type_index: usize) -> bool {
        let Some(known) = self.types.get(type_index) else { return false };
        let lacks_name = known.interest.subscriptions.iter().any(|(_, subscription)| {
            let is_unknown = || {
                let entry = known.cache.get(subscription.entry);
                entry.is_some_and(|entry| entry.state == ResourceState::Requested)
            };
            subscription.authority == authority && subscription.is_subscribed() && is_unknown()
        });
        let lacks_collection = authority == DEFAULT
            && known.interest.is_wildcard_subscribed()
            && matches!(known.interest.collection, Collection::Requested);
        lacks_name || lacks_collection
    }

    /// Returns to the preferred server once nothing of the authority is subscribed any more.
    pub(crate) fn reset_if_unused(&mut self, authority: usize, now: Time) {
        if self.types.iter().any(|known| known.interest.is_subscribed_by(authority)) {
            return;
        }
        for type_index in 0..self.types.len() {
            let Some(state) = self.upstreams.authorities.get_mut(authority) else { return };
            let Some(active_server) = state.active_server_mut(type_index) else { return };
            if active_server.active == 0 {
                continue;
            }
            self.set_active(authority, type_index, 0, now);
            // The server may still consider a wildcard subscribed, if it is watched again before
            // the server has been told of its end.
            let preferred =
                self.upstreams.authorities.get(authority).map(|it| it.active(type_index));
            let stream_slot =
                preferred.and_then(|server| self.upstreams.stream_slot_of(server, type_index));
            let id =
                stream_slot.and_then(|stream_slot| self.upstreams.channel_of_slot(stream_slot));
            if let Some(id) = id.filter(|_| authority == DEFAULT) {
                self.start_unconfirmed_timer(id, type_index, now);
            }
        }
        self.open_needed_channels(now);
        self.signal_writable();
    }

    fn set_active(&mut self, authority: usize, type_index: usize, rank: usize, now: Time) {
        let state = self.upstreams.authorities.get_mut(authority);
        let Some(state) = state.and_then(|state| state.active_server_mut(type_index)) else {
            return;
        };
        *state = ActiveServer { active: rank, is_switching: rank > state.active };
        for upstream in 0..self.upstreams.servers.len() {
            let Some(state) = self.upstreams.authorities.get(authority) else { return };
            let uses = state.uses(upstream, type_index);
            let Some(server) = self.upstreams.servers.get_mut(upstream) else { return };
            if server.scopes.set(type_index, authority, uses) {
                self.update_scope(upstream, type_index, authority, now);
            }
        }
    }

    /// Updates the stream to a server after a change of the authorities that use it: the stream
    /// requests other names, or is closed if it has no subscriptions any more.
    fn update_scope(&mut self, upstream: usize, type_index: usize, authority: usize, now: Time) {
        let Some(stream_slot) = self.upstreams.stream_slot_of(upstream, type_index) else { return };
        if !self.has_subscriptions(stream_slot) {
            self.close_stream_slot(stream_slot, now);
            return;
        }
        let Some(id) = self.upstreams.channel_of_slot(stream_slot) else { return };
        if let Some(known) = self.types.get(type_index)
            && let Some((channel, server)) = self.upstreams.channel_and_server(id)
            && let scope = server.scopes.of(type_index)
            && let Some(type_state) = channel.type_state_mut(type_index)
        {
            // The server was never told that these subscriptions had ended, so it would not send
            // their resources again.
            if scope.get(authority) == Some(&true)
                && type_state.knows_of(&known.interest, authority)
            {
                self.close_stream_slot(stream_slot, now);
            } else {
                let is_given_up = scope.get(authority) != Some(&true);
                type_state.sent_mut().recount(&known.interest, scope);
                if is_given_up {
                    self.move_timers_of(id, authority, type_index);
                }
            }
        }
    }

    /// Closes the channel of a stream slot without subscriptions.
    pub(crate) fn close_stream_slot(&mut self, stream_slot: usize, now: Time) {
        if let Some(id) = self.upstreams.channel_of_slot(stream_slot)
            && let Some(next) = self.close_without_error(id, now)
        {
            let connection =
                if next > now { Connection::BackingOff(next) } else { Connection::Idle };
            if let Some(stream_slot) = self.upstreams.stream_slots.get_mut(stream_slot) {
                stream_slot.connection = connection;
            }
        }
    }

    /// Closes a channel for reasons of the client. Returns the time at which the next one may be
    /// opened.
    fn close_without_error(&mut self, id: ChannelId, now: Time) -> Option<Time> {
        let mut channel = self.upstreams.end_channel(id)?;
        self.outbox.close(id, None);
        self.forget_channel_state(&mut channel);
        let policy = &self.config.profile.backoff;
        let stream_slot = self.upstreams.stream_slots.get_mut(channel.stream_slot)?;
        stream_slot.backoff.note_closed(channel.end(policy, now));
        // A file needs no delay between attempts.
        let server = self.upstreams.servers.get(channel.upstream)?;
        let pause = match server.server.transport_kind.is_file() {
            true => Duration::ZERO,
            false => policy.initial,
        };
        Some(channel.started.after(pause))
    }
}
