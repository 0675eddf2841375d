//! Requests to servers: ACKs and NACKs in the order of the responses, then changed subscriptions.

use alloc::{sync::Arc, vec::Vec};

use bytes::Bytes;

use super::{
    Client,
    channel::{
        accepted_version::{RequestTransport, SubscriptionScope, VersionConditions},
        delta,
        polling::PollState,
        request::{RenderEffects, RequestForm, WildcardChange},
        sotw,
        type_state::TypeState,
    },
    config::{
        SendNode,
        profile::{NackVersion, TimerStart, WildcardForm},
    },
    event::{RequestCause, Transmit, status::ResourceState},
    subscription::{Collection, authority::DEFAULT, does_not_exist_timers::TimerSubject},
    upstream::Ack,
};
use crate::{
    frame::Frame,
    id::ChannelId,
    text::{Nonce, Version},
    time::{Deadline, Time, Timer},
    zoo::{self, Bug},
};

/// Initial capacity for the encoding of a request, which most requests do not exceed.
const USUAL_LEN: usize = 256;

/// Result of processing a response, with the error message for a NACK.
pub(crate) enum ResponseOutcome {
    Accepted,
    /// Accepted, but consists of heartbeats and thus does not define the contents of its version.
    Renewed,
    /// Rejected in part, while other resources were valid and subscribed.
    UsedInPart(Arc<str>),
    /// Rejected completely, and the data-error policy dropped a resource.
    EndedUse(Arc<str>),
    Rejected(Arc<str>),
}

impl Client {
    /// Queues the ACK or NACK of a response, exactly one for each. Only an ACK changes the accepted
    /// version, except with [`NackVersion::Newest`], where the NACK of a partially accepted
    /// response does as well.
    // IC1, S0.087, S0.088, D1, X09
    pub(crate) fn queue_ack(
        &mut self,
        id: ChannelId,
        type_index: usize,
        version: Version,
        nonce: Nonce,
        outcome: ResponseOutcome,
        now: Time,
    ) {
        let Some((channel, server)) = self.upstreams.channel_and_server(id) else { return };
        let Some(accepted) = server.accepted.get_mut(type_index) else { return };
        let type_state = channel.type_state(type_index);
        let of = match type_state.is_some_and(TypeState::began_with_wildcard) {
            true => SubscriptionScope::Everything,
            false => SubscriptionScope::Names,
        };
        let is_polled = channel.poll_state().is_some();
        // A polling response contains everything that was requested.
        let has_all = is_polled
            && type_state.zip(self.types.get(type_index)).is_some_and(|(type_state, known)| {
                !type_state.is_dirty(&known.interest, server.scopes.of(type_index))
            });
        let nack_version = self.config.profile.nack_version;
        match &outcome {
            ResponseOutcome::Accepted if has_all => accepted.accept_all(version.clone(), of),
            ResponseOutcome::Accepted => accepted.accept(version.clone(), of),
            ResponseOutcome::Renewed => accepted.renew(version.clone()),
            ResponseOutcome::UsedInPart(_) if nack_version == NackVersion::Newest => {
                accepted.accept(version.clone(), of);
            }
            // A server that returns to the accepted version would conclude that the client has it
            // all.
            ResponseOutcome::UsedInPart(_) | ResponseOutcome::EndedUse(_) if is_polled => {
                accepted.forget()
            }
            ResponseOutcome::UsedInPart(_)
            | ResponseOutcome::EndedUse(_)
            | ResponseOutcome::Rejected(_) => {
                accepted.reject();
            }
        }
        let rejection = match outcome {
            ResponseOutcome::Accepted | ResponseOutcome::Renewed => {
                self.stats.acks += 1;
                server.counters.note_accepted(type_index, now);
                None
            }
            ResponseOutcome::UsedInPart(message)
            | ResponseOutcome::EndedUse(message)
            | ResponseOutcome::Rejected(message) => {
                self.stats.nacks += 1;
                server.counters.note_rejected(type_index);
                if zoo::is(Bug::VersionOfRejected) {
                    accepted.accept(version.clone(), of);
                }
                Some((version, message))
            }
        };
        let ack = Ack { type_index, version: accepted.version().clone(), nonce, rejection };
        if let Some(kept) = server.nonces.get_mut(type_index) {
            kept.keep(&ack.nonce);
        }
        channel.queue_ack(ack);
        channel.update_timers(now);
        self.discard_stopped_timers();
        self.signal_writable();
    }

    pub(crate) fn render_request(
        &mut self,
        id: ChannelId,
        now: Time,
        frame: &mut Frame,
    ) -> Option<Transmit> {
        let types = &self.types;
        let (channel, server) = self.upstreams.channel_and_server(id)?;
        if !channel.is_open {
            return None;
        }
        if channel.next_request(types, &server.scopes).is_none_or(|at| at > now) {
            channel.is_writable_signalled = false;
            return None;
        }
        let mut ack = channel.take_ack(now);
        channel.update_timers(now);
        let type_index = match &ack {
            Some(ack) => Some(ack.type_index),
            None if channel.poll_state().is_some() => {
                channel.type_states().next().map(|(index, _)| index)
            }
            None => channel.next_dirty(types, &server.scopes),
        };
        let Some(type_index) = type_index else {
            channel.is_writable_signalled = false;
            return None;
        };
        if let Some(bucket) = &mut channel.bucket {
            bucket.take(now);
        }
        if let Some(poll_state) = channel.poll_state_mut() {
            ack = poll_state.start_request(ack);
        }
        if !channel.is_file() {
            return self.render(id, type_index, ack, now, frame);
        }
        if let Some(ack) = ack {
            *frame = Frame::default();
            return self.report_file_verdict(ack);
        }
        // Unsubscribing has no effect on a file.
        let has_unsent = channel
            .type_state(type_index)?
            .has_unsent(&types.get(type_index)?.interest, server.scopes.of(type_index));
        let request = self.render(id, type_index, None, now, frame);
        request.filter(|_| has_unsent).or_else(|| self.render_request(id, now, frame))
    }

    fn render(
        &mut self,
        id: ChannelId,
        type_index: usize,
        ack: Option<Ack>,
        now: Time,
        frame: &mut Frame,
    ) -> Option<Transmit> {
        let profile = &self.config.profile;
        let known = self.types.get_mut(type_index)?;
        let is_complete = known.resource_type.full_state_in_sotw();
        let wildcard = if is_complete { profile.wildcard } else { WildcardForm::Explicit };
        let (channel, server) = self.upstreams.channel_and_server(id)?;
        let scope = server.scopes.of(type_index);
        let accepted = server.accepted.get_mut(type_index)?;
        let type_state = channel.type_state(type_index)?;
        let is_first = !type_state.was_requested();
        let transport = if channel.poll_state().is_some() {
            RequestTransport::Poll
        } else {
            RequestTransport::Stream
        };
        let version = match &ack {
            Some(ack) if transport == RequestTransport::Stream => ack.version.clone(),
            // A polled request may be rendered long after the response, and more than once, when
            // less is held.
            _ => {
                let conditions = VersionConditions::of(
                    transport,
                    type_state,
                    &known.interest,
                    scope,
                    &known.cache,
                );
                accepted.version_to_state(conditions)
            }
        };
        let is_first_message = !core::mem::replace(&mut channel.node_sent, true);
        let names_node = is_first_message || server.server.send_node == SendNode::EveryRequest;
        let node = names_node.then_some(&*self.node);
        let upstream = channel.upstream;
        let is_version_only = channel.poll_state().is_some_and(PollState::is_version_only);
        let type_state = channel.type_state_mut(type_index)?;
        let (nonce, cause) = match ack {
            Some(Ack { nonce, rejection: Some((rejected, message)), .. }) => {
                (nonce, RequestCause::Nack { rejected, message })
            }
            Some(Ack { nonce, .. }) => (nonce, RequestCause::Ack),
            None => (type_state.spontaneous_nonce(), RequestCause::Subscription),
        };
        let nonce = if is_version_only { Nonce::default() } else { nonce };
        let type_url = server.server.name_of_type(known.resource_type.type_url());
        let error = match &cause {
            RequestCause::Nack { message, .. } if !is_version_only => {
                Some((profile.nack_code.as_i32(), &**message))
            }
            _ => None,
        };
        let mut message = Vec::with_capacity(USUAL_LEN);
        let form = RequestForm { wildcard, is_complete, scope, upstream };
        let (interest, cache) = (&mut known.interest, &known.cache);
        let rendered = match type_state {
            TypeState::Sotw(sotw) => {
                let (version, nonce) = (&version, &nonce);
                let fields =
                    sotw::SotwRequestFields { node, type_url: &type_url, version, nonce, error };
                sotw.render(&fields, interest, cache, form, &mut message)
            }
            TypeState::Delta(delta) => {
                let nonce = &nonce;
                let fields = delta::DeltaRequestFields { node, type_url: &type_url, nonce, error };
                delta.render(&fields, interest, cache, form, &mut message)
            }
        };
        channel.last_rendered = Some(type_index);
        if rendered.states_versions && is_first {
            channel.types_with_stated_versions.push(type_index);
        }
        *frame = Frame { body: Bytes::from(message), ..Frame::default() };
        self.finish_request(id, type_index, &rendered, now);

        Some(Transmit { type_url, version, nonce, cause })
    }

    /// Handles a rendered request: starts timers and removes ended subscriptions.
    // S1.027
    fn finish_request(
        &mut self,
        id: ChannelId,
        type_index: usize,
        rendered: &RenderEffects,
        now: Time,
    ) {
        self.arm_timers(id, type_index, rendered, now);
        self.start_recovery_timer(id, type_index, now);
        if rendered.wildcard == WildcardChange::Subscribed {
            self.forget_rejected_origins(id, type_index);
            self.start_unconfirmed_timer(id, type_index, now);
        }
        for &slot in &rendered.subscribed {
            self.forget_rejected_member_origins(id, type_index, slot);
            self.start_unconfirmed_timer_of_glob(id, type_index, slot, now);
        }
        for &slot in &rendered.unsubscribed {
            self.drop_subscription(type_index, slot);
        }
        if rendered.wildcard == WildcardChange::Unsubscribed {
            self.drop_uncovered(type_index);
        }
        self.discard_stopped_timers();
    }

    fn arm_timers(
        &mut self,
        id: ChannelId,
        type_index: usize,
        rendered: &RenderEffects,
        now: Time,
    ) {
        if self.config.profile.timer_start != TimerStart::RequestSent {
            return;
        }
        let Some((_, server)) = self.upstreams.channel_and_server(id) else { return };
        let (config, server) = (&self.config, Arc::clone(&server.server));
        let after_of = |authority| config.does_not_exist_timeout(authority, &server, type_index);
        let mostly = after_of(DEFAULT);
        let Some(known) = self.types.get_mut(type_index) else { return };
        let last_timer = &mut self.upstreams.last_timer;
        let Some(channel) = self.upstreams.channels.get_mut(id.0) else { return };
        let mut arm = |subject, authority| {
            let after = if authority == DEFAULT { mostly } else { after_of(authority) };
            let Some(after) = after else { return 0 };
            *last_timer += 1;
            channel.timers.arm(type_index, subject, after, now, *last_timer)
        };
        // The timers of names that the next request subscribes again start with that request.
        if rendered.wildcard == WildcardChange::LeftOut {
            known.interest.collection_timer = 0;
        }
        for &slot in &rendered.left_out {
            if let Some(subscription) = known.interest.subscriptions.at_mut(slot) {
                subscription.timer = 0;
            }
        }
        for &slot in &rendered.subscribed {
            let Some(key) = known.interest.subscriptions.key(slot) else { continue };
            let Some(subscription) = known.interest.subscriptions.get_mut(key) else { continue };
            // IC24, D11: no timer for a resource that is cached or already known not to exist.
            let is_unknown = known
                .cache
                .get(subscription.entry)
                .is_some_and(|entry| entry.state == ResourceState::Requested);
            if is_unknown {
                subscription.timer = arm(TimerSubject::Subscription(key), subscription.authority);
            }
        }
        let is_collection_unknown = matches!(known.interest.collection, Collection::Requested);
        if rendered.wildcard == WildcardChange::Subscribed
            && known.interest.is_wildcard_subscribed()
            && is_collection_unknown
        {
            known.interest.collection_timer = arm(TimerSubject::Collection, DEFAULT);
        }
    }
}

impl Client {
    /// Returns the time at which the first delayed request may be sent.
    pub(crate) fn next_request(&self) -> Option<Deadline> {
        let now = self.clock.now();
        let held_back = self.upstreams.channels.iter().filter_map(|(_, channel)| {
            // Reading resumes at that time, even if the transport has no room for the NACK yet.
            if channel.is_writable_signalled
                && channel.is_open
                && let Some(at) = channel.next_delayed_nack(now)
            {
                return Some(Deadline { at, why: Timer::RepeatedNack });
            }
            let server = self.upstreams.servers.get(channel.upstream)?;
            let why = match channel.poll_state() {
                Some(_) => Timer::Poll,
                None if channel.bucket.is_some() => Timer::RequestRate,
                None if channel.has_queued_acks() => Timer::RepeatedNack,
                None => return None,
            };
            let has_to_wait = !channel.is_writable_signalled && channel.is_open;
            let at = has_to_wait.then(|| channel.next_request(&self.types, &server.scopes))??;
            Some(Deadline { at, why })
        });
        held_back.min_by_key(|due| (due.at, due.why))
    }
}
