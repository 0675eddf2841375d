//! Requests to servers: ACKs and NACKs in the order of the responses, then changed subscriptions.

use alloc::{sync::Arc, vec::Vec};

use bytes::Bytes;

use super::{
    Client,
    channel::{
        accepted::{Asks, Extent, Over},
        delta,
        polling::Polls,
        request::{Form, Rendered, WildcardStep},
        sotw,
        type_state::Machine,
    },
    config::{
        NodeIn,
        profile::{NackVersion, TimerStart, WildcardForm},
    },
    event::{RequestCause, Transmit, status::EntryState},
    subscription::{Collection, authority::DEFAULT, does_not_exist_timers::Subject},
    upstream::Ack,
};
use crate::{
    frame::Frame,
    id::ChannelId,
    text::{Nonce, Version},
    time::{Deadline, Time, Timer},
    zoo::{self, Bug},
};

/// Result of processing a response, with the error message for a NACK.
pub(crate) enum Outcome {
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
    pub(crate) fn queue_answer(
        &mut self,
        id: ChannelId,
        type_index: usize,
        version: Version,
        nonce: Nonce,
        outcome: Outcome,
        now: Time,
    ) {
        let Some((channel, server)) = self.upstreams.channel_and_server(id) else { return };
        let Some(accepted) = server.accepted.get_mut(type_index) else { return };
        let machine = channel.machine(type_index);
        let of = match machine.is_some_and(Machine::began_with_wildcard) {
            true => Extent::Everything,
            false => Extent::Names,
        };
        let is_polled = channel.polls().is_some();
        // A polling response contains everything that was requested.
        let has_all = is_polled
            && machine.zip(self.types.get(type_index)).is_some_and(|(machine, known)| {
                !machine.is_dirty(&known.interest, server.serves.of(type_index))
            });
        let nack_version = self.config.profile.nack_version;
        match &outcome {
            Outcome::Accepted if has_all => accepted.accept_all(version.clone(), of),
            Outcome::Accepted => accepted.accept(version.clone(), of),
            Outcome::Renewed => accepted.renew(version.clone()),
            Outcome::UsedInPart(_) if nack_version == NackVersion::Newest => {
                accepted.accept(version.clone(), of);
            }
            // A server that returns to the accepted version would conclude that the client has it
            // all.
            Outcome::UsedInPart(_) | Outcome::EndedUse(_) if is_polled => accepted.forget(),
            Outcome::UsedInPart(_) | Outcome::EndedUse(_) | Outcome::Rejected(_) => {
                accepted.reject();
            }
        }
        let rejection = match outcome {
            Outcome::Accepted | Outcome::Renewed => {
                self.stats.acks += 1;
                server.tally.accepted(type_index, now);
                None
            }
            Outcome::UsedInPart(message)
            | Outcome::EndedUse(message)
            | Outcome::Rejected(message) => {
                self.stats.nacks += 1;
                server.tally.rejected(type_index);
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
        channel.queue_answer(ack);
        channel.settle_timers(now);
        self.discard_settled_timers();
        self.announce();
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
        if channel.next_request(types, &server.serves).is_none_or(|at| at > now) {
            channel.announced = false;
            return None;
        }
        let mut ack = channel.take_answer(now);
        channel.settle_timers(now);
        let type_index = match &ack {
            Some(ack) => Some(ack.type_index),
            None if channel.polls().is_some() => channel.machines().next().map(|(index, _)| index),
            None => channel.next_dirty(types, &server.serves),
        };
        let Some(type_index) = type_index else {
            channel.announced = false;
            return None;
        };
        if let Some(bucket) = &mut channel.bucket {
            bucket.take(now);
        }
        if let Some(polls) = channel.polls_mut() {
            ack = polls.take_turn(ack);
        }
        if !channel.is_of_a_file() {
            return self.render(id, type_index, ack, now, frame);
        }
        if let Some(ack) = ack {
            *frame = Frame::default();
            return self.note_judgement(ack);
        }
        // Unsubscribing has no effect on a file.
        let lacks_something = channel
            .machine(type_index)?
            .lacks(&types.get(type_index)?.interest, server.serves.of(type_index));
        let request = self.render(id, type_index, None, now, frame);
        request.filter(|_| lacks_something).or_else(|| self.render_request(id, now, frame))
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
        let scope = server.serves.of(type_index);
        let accepted = server.accepted.get_mut(type_index)?;
        let machine = channel.machine(type_index)?;
        let is_first = !machine.was_requested();
        let over = if channel.polls().is_some() { Over::Poll } else { Over::Stream };
        let version = match &ack {
            Some(ack) if over == Over::Stream => ack.version.clone(),
            // A polled request may be rendered long after the response, and more than once, when
            // less is held.
            _ => {
                let asks = Asks::of(over, machine, &known.interest, scope, &known.cache);
                accepted.state(asks)
            }
        };
        let is_first_message = !core::mem::replace(&mut channel.node_sent, true);
        let names_node = is_first_message || server.server.node_in == NodeIn::EveryRequest;
        let node = names_node.then_some(&*self.node);
        let upstream = channel.upstream;
        let says_only_version = channel.polls().is_some_and(Polls::says_only_version);
        let machine = channel.machine_mut(type_index)?;
        let (nonce, cause) = match ack {
            Some(Ack { nonce, rejection: Some((rejected, message)), .. }) => {
                (nonce, RequestCause::Nack { rejected, message })
            }
            Some(Ack { nonce, .. }) => (nonce, RequestCause::Ack),
            None => (machine.spontaneous_nonce(), RequestCause::Subscription),
        };
        let nonce = if says_only_version { Nonce::default() } else { nonce };
        let type_url = server.server.name_of_type(known.resource_type.type_url());
        let error = match &cause {
            RequestCause::Nack { message, .. } if !says_only_version => {
                Some((profile.nack_code, &**message))
            }
            _ => None,
        };
        let mut message = Vec::new();
        let form = Form { wildcard, is_complete, scope, upstream };
        let (interest, cache) = (&mut known.interest, &known.cache);
        let rendered = match machine {
            Machine::Sotw(sotw) => {
                let (version, nonce) = (&version, &nonce);
                let envelope = sotw::Envelope { node, type_url: &type_url, version, nonce, error };
                sotw.render(&envelope, interest, cache, form, &mut message)
            }
            Machine::Delta(delta) => {
                let nonce = &nonce;
                let envelope = delta::Envelope { node, type_url: &type_url, nonce, error };
                delta.render(&envelope, interest, cache, form, &mut message)
            }
        };
        channel.last_rendered = Some(type_index);
        if rendered.states_held && is_first {
            channel.stated_held.push(type_index);
        }
        *frame = Frame { body: Bytes::from(message), ..Frame::default() };
        self.settle_subscription(id, type_index, &rendered, now);

        Some(Transmit { type_url, version, nonce, cause })
    }

    /// Handles a rendered request: starts timers and removes ended subscriptions.
    // S1.027
    fn settle_subscription(
        &mut self,
        id: ChannelId,
        type_index: usize,
        rendered: &Rendered,
        now: Time,
    ) {
        self.arm_timers(id, type_index, rendered, now);
        self.await_silence(id, type_index, now);
        if rendered.wildcard == WildcardStep::Subscribed {
            self.forget_what_was_rejected(id, type_index);
            self.await_leftovers(id, type_index, now);
        }
        for &slot in &rendered.subscribed {
            self.forget_rejected_members(id, type_index, slot);
            self.await_leftovers_of(id, type_index, slot, now);
        }
        for &slot in &rendered.unsubscribed {
            self.drop_subscription(type_index, slot);
        }
        if rendered.wildcard == WildcardStep::Unsubscribed {
            self.drop_uncovered(type_index);
        }
        self.discard_settled_timers();
    }

    fn arm_timers(&mut self, id: ChannelId, type_index: usize, rendered: &Rendered, now: Time) {
        if self.config.profile.timer_start != TimerStart::Handover {
            return;
        }
        let Some((_, server)) = self.upstreams.channel_and_server(id) else { return };
        let (config, server) = (&self.config, Arc::clone(&server.server));
        let after_of = |authority| config.missing_after(authority, &server, type_index);
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
        if rendered.wildcard == WildcardStep::LeftOut {
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
                .is_some_and(|entry| entry.state == EntryState::Requested);
            if is_unknown {
                subscription.timer = arm(Subject::Subscription(key), subscription.authority);
            }
        }
        let is_collection_unknown = matches!(known.interest.collection, Collection::Requested);
        if rendered.wildcard == WildcardStep::Subscribed
            && known.interest.wants_wildcard()
            && is_collection_unknown
        {
            known.interest.collection_timer = arm(Subject::Collection, DEFAULT);
        }
    }
}

impl Client {
    /// Returns the time at which the first delayed request may be sent.
    pub(crate) fn next_request(&self) -> Option<Deadline> {
        let now = self.clock.now();
        let held_back = self.upstreams.channels.iter().filter_map(|(_, channel)| {
            // Reading resumes at that time, even if the transport has no room for the NACK yet.
            if channel.announced
                && channel.is_open
                && let Some(at) = channel.next_held_nack(now)
            {
                return Some(Deadline { at, why: Timer::RepeatedNack });
            }
            let server = self.upstreams.servers.get(channel.upstream)?;
            let why = match channel.polls() {
                Some(_) => Timer::Poll,
                None if channel.bucket.is_some() => Timer::RequestRate,
                None if channel.has_answers() => Timer::RepeatedNack,
                None => return None,
            };
            let has_to_wait = !channel.announced && channel.is_open;
            let at = has_to_wait.then(|| channel.next_request(&self.types, &server.serves))??;
            Some(Deadline { at, why })
        });
        held_back.min_by_key(|due| (due.at, due.why))
    }
}
