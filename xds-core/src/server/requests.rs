//! Handling of requests: from the stream to the session of their type.

use bytes::Bytes;

use super::{
    Server,
    config::{UnknownType, Warming},
    event::{CloseReason, Observation, RequestEffect, ServerEvent},
    session::{
        nack::rejection::ErrorDetail, peer::Peer, request::ack::RequestContext,
        session_handle::SessionHandle, subscriptions::TypeKnowledge,
    },
    stream::{Stream, check_length, check_lengths, rejection_log::RequestAnswer},
};
use crate::{
    id::StreamId,
    service::Variant,
    slab::Slot,
    text::TypeUrl,
    types::{self, rank},
    wire::request::{Parameters, Request},
};

impl Server {
    /// Handles a request, or holds it until the client has a view.
    // M9
    pub(crate) fn on_message(&mut self, id: StreamId, message: &Bytes) -> Result<(), CloseReason> {
        self.stats.requests += 1;
        self.stats.request_bytes += message.len() as u64;
        let Some(stream) = self.streams.get(id.0) else { return Ok(()) };
        let (variant, limits) = (stream.kind.variant(), stream.limits(&self.config.limits));
        check_length(message, &limits)?;
        self.note_request(id);
        let request = Request::parse(message, variant).map_err(CloseReason::Malformed)?;
        if self.take_custom_message(id, &request, message)? {
            return Ok(());
        }
        let rejection = request
            .error_detail
            .map(ErrorDetail::parse)
            .transpose()
            .map_err(CloseReason::Malformed)?;
        self.identify(id, &request)?;
        let Some(stream) = self.streams.get(id.0) else { return Ok(()) };
        check_lengths(&request, &limits)?;
        let Some(view) = stream.view else {
            return self.hold_request(id, message);
        };
        let kind = stream.kind.clone();
        let type_url = kind.type_of(request.type_url)?;

        let session = match self.session_on(id, view, type_url) {
            Some(session) => session,
            None => self.open_session(id, view, type_url, limits.types_per_stream)?,
        };
        let Some(stream) = self.streams.get(id.0) else { return Ok(()) };
        let limit = limits.names_per_stream;
        if !self.has_room_for(stream, session, &request, limit) {
            return Err(CloseReason::TooManyNames { limit });
        }
        let issued = stream.nonces;
        self.note_parameters(id, session, &request, type_url);
        let now = self.clock.now();
        let grace = self.absence_alarm(session);
        let acks = self.subscriptions.acks(session);
        let (names, _) = self.subscriptions.names(session);
        let is_rejection = rejection.is_some();
        let Some(stream) = self.streams.get_mut(id.0) else { return Ok(()) };
        let Some(mut context) = self.subscriptions.context(session) else { return Ok(()) };
        let stats_before = self.stats;
        let mut ctx = RequestContext {
            now,
            issued,
            config: &self.config,
            accepted: None,
            out: &mut self.out,
            alarms: &mut self.alarms,
            stats: &mut self.stats,
            nacks: &mut stream.nacks,
            rejected: None,
        };
        let effect = context.handle_request(&request, rejection, &mut ctx);
        let accepted = ctx.accepted;
        let answer = match ctx.rejected {
            Some(rejected) => RequestAnswer::Rejected(rejected),
            None if self.subscriptions.acks(session) > acks => RequestAnswer::Accepted,
            None => RequestAnswer::None,
        };
        self.stats.note_request(&stats_before, effect);
        self.stats_by_type.note_request(types::update_rank(type_url), &stats_before, &self.stats);
        let asks_anew = matches!(answer, RequestAnswer::None)
            && !is_rejection
            && self.subscriptions.names(session).0 >= names;
        if !matches!(answer, RequestAnswer::None) {
            self.refund_request(id, message.len());
        }
        self.note_answer(id, session, answer);
        self.note_progress(
            session,
            match effect {
                RequestEffect::Subscribed => 0,
                // The client has already accepted anything else that is due now.
                RequestEffect::None => self.subscriptions.store.sequence() + 1,
            },
        );
        if let Some(stream) = self.streams.get_mut(id.0)
            && let Some(handle) = stream.session_handle(session)
            && let Some(make_before_break) = stream.order.make_before_break()
        {
            make_before_break.note_request(handle, &self.subscriptions);
            if asks_anew && usize::from(handle.rank) == rank::ENDPOINTS {
                make_before_break.note_eds_request();
            }
        }
        self.alarms.replace(grace, self.absence_alarm(session));
        self.notify_if_due(session);
        if accepted.is_some() && self.config.warming == Warming::AfterAcceptedClusters {
            self.warm(id, session, accepted);
            self.notify_if_any_due(id);
        }
        Ok(())
    }

    /// Holds a request until the client has a view.
    fn hold_request(&mut self, id: StreamId, message: &Bytes) -> Result<(), CloseReason> {
        let Some(stream) = self.streams.get_mut(id.0) else { return Ok(()) };
        let is_first = stream.held_requests.is_empty();
        stream.hold_request(message, &self.config.limits)?;
        let node = stream.node().cloned().unwrap_or_default();
        if is_first {
            if self.requires_decision() {
                self.out.event(ServerEvent::Authorize { stream: id, node_id: node.clone() });
            }
            self.await_decision(id);
        }
        let limit = self.config.limits.held_bytes_per_node;
        match self.nodes.hold_bytes(&node, message.len()) > limit {
            true => Err(CloseReason::TooManyHeldBytes { limit }),
            false => Ok(()),
        }
    }

    /// Reports dynamic parameters of resource locators, which are ignored.
    // M36
    fn note_parameters(&mut self, id: StreamId, session: Slot, request: &Request<'_>, ty: &str) {
        if request.parameters == Parameters::None {
            return;
        }
        self.stats.ignored_parameters += 1;
        let session = self.subscriptions.sessions.at_mut(session);
        if session.is_some_and(|session| session.note_parameters(request.parameters)) {
            let type_url = TypeUrl::from(ty);
            self.out.observe(Observation::ParametersIgnored { stream: id, type_url });
        }
    }

    /// Whether the stream has room for the names that a request lists. Costs one step per type of
    /// the stream or, near the limit, per name of the request.
    fn has_room_for(
        &self,
        stream: &Stream,
        session: Slot,
        request: &Request<'_>,
        limit: usize,
    ) -> bool {
        let (mut subscribed, mut others, mut held) = (0, 0, 0);
        for handle in &stream.sessions {
            let (names, all) = self.subscriptions.names(handle.session);
            subscribed += names;
            held += all;
            others += if handle.session == session { 0 } else { names };
        }
        // The same number of names may be retained. This bound keeps a client from accumulating
        // them behind a response that it never answers.
        let most = limit.saturating_mul(2);
        // A reconnecting client states versions of names that it subscribes to; they count once.
        let listed = request.name_count.max(request.version_count);
        let fits = |added: usize| subscribed + added <= limit && held + added <= most;
        match stream.kind.variant() {
            // No client has more names to unsubscribe from.
            Variant::Incremental if request.unsubscribed_count > most => false,
            Variant::StateOfTheWorld => others + listed <= limit && held <= most,
            Variant::Incremental if fits(listed) => true,
            Variant::Incremental => {
                // Names that it already subscribes to do not count (M96).
                let added = self.subscriptions.names_added(session, request);
                added == 0 || fits(added)
            }
        }
    }

    /// Reads the client's node if the request has the first one, or compares it with the first one.
    pub(crate) fn identify(
        &mut self,
        id: StreamId,
        request: &Request<'_>,
    ) -> Result<(), CloseReason> {
        let Some(stream) = self.streams.get_mut(id.0) else { return Ok(()) };
        let was_known = stream.node().is_some();
        stream.identify(id, request, &self.config, &self.node_hasher, &mut self.out)?;
        if !was_known && let Some(node) = stream.node() {
            let held_bytes = stream.held_bytes();
            self.nodes.release_bytes("", held_bytes);
            self.nodes.hold_bytes(node, held_bytes);
        }
        // A stream without a view is counted later, when its limits are known.
        if !was_known && stream.node().is_some() && stream.view.is_some() {
            return self.join_node(id);
        }
        Ok(())
    }

    /// Counts a stream that now has both a node and a view.
    pub(crate) fn join_node(&mut self, id: StreamId) -> Result<(), CloseReason> {
        let Some(stream) = self.streams.get(id.0) else { return Ok(()) };
        let Some(node) = stream.node() else { return Ok(()) };
        let limit = stream.limits(&self.config.limits).streams_per_node;
        match self.nodes.join(node) > limit {
            true => Err(CloseReason::TooManyStreamsOfNode { limit }),
            false => Ok(()),
        }
    }

    fn session_on(&self, id: StreamId, view: Slot, type_url: &str) -> Option<Slot> {
        let arena = self.subscriptions.store.find_arena(view, type_url)?;
        self.streams.get(id.0)?.session_on(arena)
    }

    fn open_session(
        &mut self,
        id: StreamId,
        view: Slot,
        type_url: &str,
        limit: usize,
    ) -> Result<Slot, CloseReason> {
        let too_many = CloseReason::TooManyTypes { limit };
        let Some(stream) = self.streams.get_mut(id.0).filter(|s| s.sessions.len() < limit) else {
            return Err(too_many);
        };
        let (variant, features) = (stream.kind.variant(), stream.features());
        let rank = types::update_rank(type_url);
        let send_order = stream.order.send_order(rank);
        let lifetime = stream.kind.lifetime();
        let peer = Peer { stream: id, view, variant, lifetime, features, send_order };
        let opened = self.subscriptions.open(peer, type_url, &self.config).ok_or(too_many)?;
        stream.add_session(SessionHandle { rank, arena: opened.arena, session: opened.session });
        if opened.knowledge == TypeKnowledge::Unknown {
            let type_url = TypeUrl::from(type_url);
            self.out.observe(Observation::UnknownType { stream: id, type_url: type_url.clone() });
            if self.config.unknown_type == UnknownType::Close {
                return Err(CloseReason::UnknownType { type_url });
            }
        }
        self.update_heartbeat_alarm(opened.arena);
        Ok(opened.session)
    }
}
