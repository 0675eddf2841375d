//! Handling of requests: from the stream to the session of their type.

use bytes::Bytes;

use super::{
    Server,
    config::{UnknownType, Warming},
    event::{CloseReason, Observation},
    session::{
        nack::error_detail::ErrorDetail,
        peer::Peer,
        request::ack::{RequestContext, RequestKind},
        session_handle::SessionHandle,
    },
    stream::{
        EndReason, check_length, check_lengths, node_quota::NodeKey,
        unfinished_request::OpenRequest,
    },
};
use crate::{
    id::StreamId,
    slab::Slot,
    text::TypeUrl,
    types::{self, rank},
    wire::request::{Parameters, Request},
};

impl Server {
    /// Handles a request or, if it is long, the first part of it. Holds it until the client has a view
    /// and the request before is finished.
    // M9
    pub(crate) fn on_message(&mut self, id: StreamId, message: &Bytes) -> Result<(), CloseReason> {
        self.stats.requests += 1;
        self.stats.request_bytes += message.len() as u64;
        let Some(stream) = self.streams.get(id.0) else { return Ok(()) };
        let (variant, limits) = (stream.kind.variant(), stream.limits(&self.config.limits));
        check_length(message, &limits)?;
        self.cancel_end(id, EndReason::NoRequest);
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
        let Some(view) = stream.view.filter(|_| !stream.is_busy() && !stream.awaits_source())
        else {
            return self.hold_request(id, message);
        };
        let kind = stream.kind.clone();
        let type_url = kind.type_of(request.type_url)?;

        let session = match self.session_on(id, view, type_url) {
            Some(session) => session,
            None if self.await_source(id, &request, message)? => return Ok(()),
            None => self.open_session(id, view, type_url, limits.types_per_stream)?,
        };
        self.check_room(id, session, &request, &limits)?;
        self.note_parameters(id, session, &request, type_url);
        let Some(open) = self.begin_request(id, session, &request, rejection, message) else {
            return Ok(());
        };
        self.apply_part(id, open, self.part())
    }

    /// Begins a request: applies the ACK or NACK in it.
    fn begin_request(
        &mut self,
        id: StreamId,
        session: Slot,
        request: &Request<'_>,
        rejection: Option<ErrorDetail>,
        message: &Bytes,
    ) -> Option<OpenRequest> {
        let (stream_names_before, _) = self.names_of(id);
        let (names_before, _) = self.subscriptions.names(session);
        let stream = self.streams.get_mut(id.0)?;
        let rank = stream.session_handle(session)?.rank;
        let mut context = self.subscriptions.context(session)?;
        let type_stats = self.stats_by_type.at(rank);
        type_stats.requests += 1;
        let mut ctx = RequestContext {
            now: self.clock.now(),
            issued: stream.nonces,
            config: &self.config,
            out: &mut self.out,
            alarms: &mut self.alarms,
            stats: &mut self.stats,
            type_stats,
            nacks: &mut stream.nacks,
            rejected: None,
        };
        let progress = context.begin_request(request, rejection, &mut ctx);
        let rejected = ctx.rejected;
        if progress.kind.is_answer() {
            self.refund_request(id, message.len());
        }
        if let Some(rejected) = rejected {
            self.add_rejection(id, session, rejected);
        }
        Some(OpenRequest {
            session,
            progress,
            names_before,
            stream_names_before,
            message: message.clone(),
        })
    }

    /// Completes a request whose names were all applied. `asks` is whether it subscribes to something.
    pub(crate) fn end_request(&mut self, id: StreamId, open: &OpenRequest, asks: bool) {
        let session = open.session;
        let kind = &open.progress.kind;
        if !asks && matches!(kind, RequestKind::Names) {
            self.stats.repeated_requests += 1;
        }
        let asks_anew = !kind.is_answer()
            && !open.progress.is_rejection
            && self.subscriptions.names(session).0 >= open.names_before;
        self.review_rejection(id, session, kind);
        // The client has already accepted anything that is due now for another reason.
        let change = if asks { 0 } else { self.subscriptions.store.sequence() + 1 };
        self.note_progress(session, change);
        if let Some(stream) = self.streams.get_mut(id.0)
            && let Some(handle) = stream.session_handle(session)
            && let Some(make_before_break) = stream.order.make_before_break()
        {
            make_before_break.note_request(handle, &stream.sessions, &self.subscriptions);
            if asks_anew && usize::from(handle.rank) == rank::ENDPOINTS {
                make_before_break.note_eds_request();
            }
        }
        self.notify_if_due(session);
        if let Some(accepted) = kind.accepted()
            && self.config.warming == Warming::AfterAcceptedClusters
        {
            self.warm(id, session, accepted);
            self.notify_all_due(id);
        }
    }

    /// Holds a request until the client has a view and the request before is finished.
    fn hold_request(&mut self, id: StreamId, message: &Bytes) -> Result<(), CloseReason> {
        let Some(stream) = self.streams.get_mut(id.0) else { return Ok(()) };
        let is_first = stream.held_count() == 0 && stream.view.is_none();
        stream.hold_last(message, &self.config.limits)?;
        if is_first {
            if self.requires_decision() {
                self.request_decision(id);
            }
            self.await_decision(id);
        }
        self.note_held(id, message)
    }

    /// Counts the bytes of a request that is held.
    pub(crate) fn note_held(&mut self, id: StreamId, message: &Bytes) -> Result<(), CloseReason> {
        let limit = self.config.limits.held_bytes_per_node;
        match self.nodes.hold_bytes(self.node_key(id), message.len()) > limit {
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

    /// Reads the client's node if the request has the first one, or compares it with the first one.
    pub(crate) fn identify(
        &mut self,
        id: StreamId,
        request: &Request<'_>,
    ) -> Result<(), CloseReason> {
        let Some(stream) = self.streams.get_mut(id.0) else { return Ok(()) };
        let (was_known, has_view) = (stream.node().is_some(), stream.view.is_some());
        stream.identify(id, request, &self.config, &self.node_hasher, &mut self.out)?;
        if was_known || stream.node().is_none() {
            return Ok(());
        }
        let (held_bytes, key) = (stream.held_bytes(), self.node_key(id));
        self.nodes.release_bytes(&key.without_node(), held_bytes);
        self.nodes.hold_bytes(key, held_bytes);
        // A stream without a view is counted later, when its limits are known.
        if has_view {
            return self.join_node(id);
        }
        Ok(())
    }

    /// Counts a stream that now has both a node and a view.
    pub(crate) fn join_node(&mut self, id: StreamId) -> Result<(), CloseReason> {
        let Some(stream) = self.streams.get(id.0) else { return Ok(()) };
        if stream.node().is_none() {
            return Ok(());
        }
        let limit = stream.limits(&self.config.limits).streams_per_node;
        match self.nodes.join(self.node_key(id)) > limit {
            true => Err(CloseReason::TooManyStreamsOfNode { limit }),
            false => Ok(()),
        }
    }

    /// Returns the client that a stream is counted for.
    pub(crate) fn node_key(&self, id: StreamId) -> NodeKey {
        let (account, stream) = (self.subscriptions.usage.of(id), self.streams.get(id.0));
        let principal = account.and_then(|account| account.principal().cloned());
        let node_id = stream.and_then(|stream| stream.node().cloned());
        NodeKey::new(principal.unwrap_or_default(), node_id.unwrap_or_default())
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
        let send_order = stream.order.send_order(rank, &self.config.ordering);
        let lifetime = stream.kind.lifetime();
        let peer = Peer { stream: id, view, variant, lifetime, features, send_order };
        let opened = self.subscriptions.open(peer, type_url, &self.config);
        let (arena, session) = opened.ok_or(too_many)?;
        stream.add_session(SessionHandle { rank, arena, session });
        let has_resources =
            self.subscriptions.store.arena(arena).is_some_and(|it| it.existing() > 0);
        // M8
        if !has_resources && !self.config.knows_type(type_url) {
            let type_url = TypeUrl::from(type_url);
            self.out.observe(Observation::UnknownType { stream: id, type_url: type_url.clone() });
            if self.config.unknown_type == UnknownType::Close {
                return Err(CloseReason::UnknownType { type_url });
            }
        }
        self.update_heartbeat_alarm(arena);
        Ok(session)
    }
}
