//! Counters and gauges of a server for operators.
// M240: none of them is kept per node.

use super::{CloseReason, Refusal, ResponseCause, StreamKind};
use crate::{service::Variant, types};

/// Counters since the server was created, and gauges of its current state.
///
/// Fields of type `usize` are gauges; fields of type `u64` are counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// Open streams.
    pub streams: usize,
    /// Open streams in the incremental variant.
    pub incremental_streams: usize,
    /// Open streams of the fetch method, which end with their first response.
    pub fetches: usize,
    /// Open streams on which make before break holds back a change now.
    // M146
    pub blocked_streams: usize,
    /// Subscriptions, one per stream and type.
    pub subscriptions: usize,
    /// Resources, over all types and views.
    pub resources: usize,
    /// Types, over all views: those with resources, and those with subscriptions.
    pub types: usize,
    /// Views, including the default view.
    pub views: usize,
    /// Distinct payloads. Equal resources of several views are stored once.
    pub payloads: usize,
    /// Names: those of resources, and subscribed names without a resource.
    pub names: usize,
    /// Names that count towards [`ServerLimits::names`](crate::server::ServerLimits::names).
    pub held_names: usize,
    /// Streams with a request whose names are not all handled yet
    /// ([`ServerLimits::names_per_call`](crate::server::ServerLimits::names_per_call)).
    pub unfinished_requests: usize,
    /// Subscriptions of closed streams that are not all freed yet, one per stream and type.
    pub unfinished_closes: usize,
    /// Pending waits for convergence
    /// ([`notify_when_converged`](crate::server::Server::notify_when_converged)).
    pub convergence_waits: usize,
    /// Streams with a request that waits until the server has caught up with its source
    /// ([`Server::source_reached`](crate::server::Server::source_reached)).
    pub waiting_for_source: usize,
    /// Requests that had to wait for the source.
    pub source_waits: u64,
    /// Streams that were answered from the last state, because the source could not confirm it.
    pub unconfirmed_streams: u64,
    /// Requests read.
    pub requests: u64,
    /// Bytes of the requests read.
    pub request_bytes: u64,
    /// Names of requests that were handled, and names of closed streams that were freed; see
    /// [`Server::handled_names`](crate::server::Server::handled_names).
    pub handled_names: u64,
    /// Requests that were malformed, undeliverable, or too long for the transport; each ended its
    /// stream.
    pub malformed_requests: u64,
    /// Requests dropped because they answer a response that a newer one had replaced.
    pub stale_requests: u64,
    /// Requests dropped because their nonce was never sent.
    pub bogus_requests: u64,
    /// Requests with resource locators that have dynamic parameters, which the server ignores.
    // M36
    pub ignored_parameters: u64,
    /// Requests that neither changed a subscription nor answered a response. A server that responds
    /// to them can cause a loop of requests and responses.
    // M111, IS4
    pub repeated_requests: u64,
    /// Responses rendered.
    pub responses: u64,
    /// Bytes of the responses rendered, and of custom messages.
    pub response_bytes: u64,
    /// ACKs received.
    pub acks: u64,
    /// NACKs received.
    pub nacks: u64,
    /// NACKs that exceeded the rate limit for observations, and were counted but not reported.
    // M241
    pub unobserved_nacks: u64,
    /// Responses rendered, by reason.
    pub causes: ResponsesByCause,
    /// Streams refused, by reason.
    pub refused: RefusedStreams,
    /// Streams ended, by reason.
    pub closed: ClosedStreams,
    /// Number of times that make before break began to hold back a change on a stream.
    // M146
    pub blocked_changes: u64,
    /// Number of changes that were held back for the configured maximum time.
    // M148
    pub stage_timeouts: u64,
    /// Number of times that the server paused reading a stream because of its request rate.
    // M242
    pub throttled: u64,
    /// Deletions discarded before all incremental clients had been sent them.
    // M231
    pub discarded_deletions: u64,
    /// Events ignored because their stream was closed or unknown.
    // Contract rule 7.
    pub ignored_events: u64,
}

/// Counters of one type since the server was created, over all views
/// ([`Server::stats_of`](crate::server::Server::stats_of)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeStats {
    /// Requests accepted for processing.
    pub requests: u64,
    /// Responses rendered.
    pub responses: u64,
    /// Bytes of the responses rendered.
    pub response_bytes: u64,
    /// ACKs received.
    pub acks: u64,
    /// NACKs received.
    pub nacks: u64,
    /// Requests dropped because they answer a response that a newer one had replaced.
    pub stale_requests: u64,
}

/// Counters by type. Types unknown to this crate are counted together, because clients choose their
/// names.
#[derive(Debug, Default)]
pub(crate) struct StatsByType {
    known: [TypeStats; types::RANKS],
    others: TypeStats,
}

impl StatsByType {
    pub(crate) fn of(&self, rank: u8) -> TypeStats {
        self.known.get(usize::from(rank)).copied().unwrap_or(self.others)
    }

    pub(crate) fn note_response(&mut self, rank: u8, bytes: usize) {
        let counts = self.at(rank);
        counts.responses += 1;
        counts.response_bytes += bytes as u64;
    }

    pub(crate) fn at(&mut self, rank: u8) -> &mut TypeStats {
        self.known.get_mut(usize::from(rank)).unwrap_or(&mut self.others)
    }
}

/// Responses rendered since the server was created, by [`ResponseCause`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResponsesByCause {
    /// Responses that are part of a first answer.
    pub first: u64,
    /// Responses because a resource was created, changed or deleted.
    pub changed: u64,
    /// Responses because the client subscribed to more resources, or again.
    pub resubscribed: u64,
    /// Responses because the client may be warming clusters.
    pub warming: u64,
    /// Custom messages of the application. Other counters of responses exclude them.
    // M21
    pub custom_messages: u64,
    /// Heartbeats that renew a TTL.
    pub heartbeats: u64,
    /// Responses that isolate the invalid resource of a rejected response.
    // M108
    pub recovery: u64,
}

/// Streams refused since the server was created, by [`Refusal`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedStreams {
    /// The server was not ready.
    // M16
    pub not_ready: u64,
    /// The source was unreachable for too long.
    pub stale: u64,
    /// The number of open streams was at its limit.
    pub too_many: u64,
    /// New streams exceeded the rate limit.
    // M17
    pub too_many_new: u64,
    /// The server was draining or shut down.
    // M14
    pub shutting_down: u64,
}

/// Streams ended since the server was created, by [`CloseReason`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClosedStreams {
    /// Ended by the client or the connection to it.
    pub by_clients: u64,
    /// Closed for a protocol violation or an undeliverable request.
    pub invalid: u64,
    /// Closed because of a limit: the sum of `streams_per_node`, `views`, `subscriptions`,
    /// `requests` and `lengths`.
    // M242
    pub limits: u64,
    /// Closed because the node had too many streams.
    pub streams_per_node: u64,
    /// Closed because there would have been too many views.
    pub views: u64,
    /// Closed because of too many names or types.
    pub subscriptions: u64,
    /// Closed because of too many requests, either per second or waiting for a view.
    pub requests: u64,
    /// Closed because a request, or a part of it, was too long.
    pub lengths: u64,
    /// Refused by the application.
    pub refused: u64,
    /// Closed because the application dropped the client's view.
    pub view_dropped: u64,
    /// Closed because the client was too far behind to be sent all deletions.
    // M231
    pub behind: u64,
    /// Closed because the client did not answer a response in time.
    // M65
    pub answer_overdue: u64,
    /// Closed because the stream had no request in time.
    pub no_request: u64,
    /// Closed because the application assigned no view in time.
    pub no_decision: u64,
    /// Closed because the server did not become ready while it held the requests.
    pub not_ready: u64,
    /// Closed because the server lagged behind its source.
    pub behind_source: u64,
    /// Closed because the source was unreachable for too long.
    pub source_unreachable: u64,
    /// Closed at the maximum age.
    // M239
    pub aged: u64,
    /// Closed because the server drained or was shut down.
    // M14
    pub shutting_down: u64,
}

impl ServerStats {
    pub(crate) fn note_opened(&mut self, kind: &StreamKind) {
        self.incremental_streams += usize::from(kind.variant() == Variant::Incremental);
        self.fetches += usize::from(matches!(kind, StreamKind::Fetch { .. }));
    }

    pub(crate) fn note_ended(&mut self, kind: &StreamKind) {
        self.incremental_streams -= usize::from(kind.variant() == Variant::Incremental);
        self.fetches -= usize::from(matches!(kind, StreamKind::Fetch { .. }));
    }

    /// Updates the hold statistics when a stream starts or stops holding back a change.
    pub(crate) fn note_blocked(&mut self, was_blocked: bool, is_blocked: bool) {
        match (was_blocked, is_blocked) {
            (false, true) => {
                self.blocked_changes += 1;
                self.blocked_streams += 1;
            }
            (true, false) => self.blocked_streams -= 1,
            _ => {}
        }
    }

    pub(crate) fn note_response(&mut self, cause: ResponseCause) {
        if cause != ResponseCause::CustomMessage {
            self.responses += 1;
        }
        let count = match cause {
            ResponseCause::First => &mut self.causes.first,
            ResponseCause::Changed => &mut self.causes.changed,
            ResponseCause::Resubscribed => &mut self.causes.resubscribed,
            ResponseCause::Warming => &mut self.causes.warming,
            ResponseCause::CustomMessage => &mut self.causes.custom_messages,
            ResponseCause::Heartbeat => &mut self.causes.heartbeats,
            ResponseCause::Recovery => &mut self.causes.recovery,
        };
        *count += 1;
    }

    pub(crate) fn note_refusal(&mut self, refusal: Refusal) {
        let count = match refusal {
            Refusal::NotReady => &mut self.refused.not_ready,
            Refusal::Stale { .. } => &mut self.refused.stale,
            Refusal::TooManyStreams { .. } => &mut self.refused.too_many,
            Refusal::TooManyNewStreams { .. } => &mut self.refused.too_many_new,
            Refusal::ShuttingDown => &mut self.refused.shutting_down,
        };
        *count += 1;
    }

    pub(crate) fn note_close(&mut self, reason: &CloseReason) {
        let closed = &mut self.closed;
        let count = match reason {
            CloseReason::Malformed(_)
            | CloseReason::Undeliverable(_)
            | CloseReason::MissingNode
            | CloseReason::NodeChanged
            | CloseReason::UnknownType { .. }
            | CloseReason::MissingTypeUrl
            | CloseReason::WrongTypeUrl { .. } => &mut closed.invalid,
            CloseReason::RequestTooLong(_)
            | CloseReason::NodeTooLong { .. }
            | CloseReason::NameTooLong { .. } => &mut closed.lengths,
            CloseReason::TooManyNames { .. }
            | CloseReason::TooManyNamesOnConnection { .. }
            | CloseReason::TooManyNamesInTotal { .. }
            | CloseReason::TooManyTypes { .. } => &mut closed.subscriptions,
            CloseReason::TooManyHeldRequests { .. }
            | CloseReason::TooManyHeldBytes { .. }
            | CloseReason::RequestRate { .. } => &mut closed.requests,
            CloseReason::TooManyStreamsOfNode { .. } => &mut closed.streams_per_node,
            CloseReason::TooManyViews { .. } => &mut closed.views,
            CloseReason::Refused { .. } => &mut closed.refused,
            CloseReason::ViewDropped => &mut closed.view_dropped,
            CloseReason::Behind => &mut closed.behind,
            CloseReason::AnswerOverdue { .. } => &mut closed.answer_overdue,
            CloseReason::NoRequest { .. } => &mut closed.no_request,
            CloseReason::NoDecision { .. } => &mut closed.no_decision,
            CloseReason::NotReady { .. } => &mut closed.not_ready,
            CloseReason::BehindSource { .. } => &mut closed.behind_source,
            CloseReason::SourceUnreachable { .. } => &mut closed.source_unreachable,
            CloseReason::StreamAge => &mut closed.aged,
            CloseReason::ShuttingDown => &mut closed.shutting_down,
        };
        *count += 1;
        let of_requests = closed.lengths + closed.subscriptions + closed.requests;
        closed.limits = of_requests + closed.streams_per_node + closed.views;
    }
}
