//! How often things happened, and what is held now: for operators (M240: nothing here is kept by node).

use super::{Asked, Cause, CloseReason, Refusal, Via};
use crate::{service::Variant, types};

/// How often things happened since the server was made, and what it holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerStats {
    /// Streams open now.
    pub streams: usize,
    /// Of these, in the incremental variant.
    pub incremental_streams: usize,
    /// Of these, calls that end with their first response.
    pub fetches: usize,
    /// Of these, where something is held back now until another type is accepted (M146).
    pub holding_streams: usize,
    /// Subscriptions held now, one per stream and type.
    pub subscriptions: usize,
    /// Resources held now, over all types and views.
    pub resources: usize,
    /// Types held now, over all views: those with resources, and those somebody subscribes to.
    pub types: usize,
    /// Views held now, the default one included.
    pub views: usize,
    /// Different payloads held now: what several views have in common is stored once.
    pub payloads: usize,
    /// Names held now: those of resources, and those that are subscribed and do not exist.
    pub names: usize,
    /// Calls that wait now to be told that a change is accepted
    /// ([`tell_when_converged`](crate::server::Server::tell_when_converged)).
    pub convergence_waits: usize,
    /// Requests read.
    pub requests: u64,
    /// Bytes of these.
    pub request_bytes: u64,
    /// Requests that could not be read; each ended its stream.
    pub malformed_requests: u64,
    /// Requests dropped because a newer response had replaced the one they answer.
    pub stale_requests: u64,
    /// Requests dropped because their nonce was never given out.
    pub bogus_requests: u64,
    /// Requests with locators that have dynamic parameters, which the server does not look at: each was taken for
    /// its name (M36).
    pub ignored_parameters: u64,
    /// Requests that asked for nothing and answered nothing that was not answered before: what some servers send a
    /// response to, and then are asked again (M111, IS4).
    pub repeated_requests: u64,
    /// Responses rendered.
    pub responses: u64,
    /// Bytes of these, and of the application's own messages.
    pub response_bytes: u64,
    /// Responses accepted.
    pub acks: u64,
    /// Responses rejected.
    pub nacks: u64,
    /// Rejections that were counted and not observed, because too many came (M241).
    pub unobserved_nacks: u64,
    /// Responses rendered, by the reason for them.
    pub causes: Responses,
    /// Streams not taken, by reason.
    pub refused: RefusedStreams,
    /// Streams ended, by reason.
    pub closed: ClosedStreams,
    /// Times that something began to be held back on a stream until another type is accepted (M146).
    pub holds: u64,
    /// Of these, how often that lasted for as long as it may (M148).
    pub overdue_holds: u64,
    /// Times that a stream was read no more for a while, because its requests came too fast (M242).
    pub throttled: u64,
    /// Deletions forgotten before every incremental client was told of them (M231).
    pub forgotten_deletions: u64,
    /// Events of streams that are closed or never were, which are ignored (contract rule 7).
    pub ignored_events: u64,
}

/// What happened on the streams of one type since the server was made, over all views
/// ([`Server::stats_of`](crate::server::Server::stats_of)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TypeStats {
    /// Requests taken.
    pub requests: u64,
    /// Responses rendered.
    pub responses: u64,
    /// Bytes of these.
    pub response_bytes: u64,
    /// Responses accepted.
    pub acks: u64,
    /// Responses rejected.
    pub nacks: u64,
    /// Requests dropped because a newer response had replaced the one they answer.
    pub stale_requests: u64,
}

/// What happened, by type. Types that are not the API's own count together, since their names are the clients'.
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

    /// Of the two, one is from before the request.
    pub(crate) fn note_request(&mut self, rank: u8, before: &ServerStats, after: &ServerStats) {
        let counts = self.at(rank);
        counts.requests += 1;
        counts.acks += after.acks - before.acks;
        counts.nacks += after.nacks - before.nacks;
        counts.stale_requests += after.stale_requests - before.stale_requests;
    }

    fn at(&mut self, rank: u8) -> &mut TypeStats {
        self.known.get_mut(usize::from(rank)).unwrap_or(&mut self.others)
    }
}

/// Responses rendered since the server was made, by [`Cause`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Responses {
    /// Parts of a first answer.
    pub first: u64,
    /// A resource was created, altered or deleted.
    pub changed: u64,
    /// The client asked for more, or again.
    pub resubscribed: u64,
    /// The client may wait for endpoints.
    pub warming: u64,
    /// Messages of the application itself (M21). They are no responses otherwise.
    pub asides: u64,
    /// The client is to go on using what it has.
    pub heartbeats: u64,
    /// The client had rejected it together with others (M108).
    pub recovery: u64,
}

/// Streams not taken since the server was made, by [`Refusal`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RefusedStreams {
    /// The server had not been told that it is ready (M16).
    pub not_ready: u64,
    /// As many were open as the server holds.
    pub too_many: u64,
    /// They came too fast (M17).
    pub too_fast: u64,
    /// The server was draining or shut down (M14).
    pub shutting_down: u64,
}

/// Streams ended since the server was made, by [`CloseReason`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClosedStreams {
    /// The client, or the connection to it, ended them.
    pub by_clients: u64,
    /// The client broke the protocol, or a request did not arrive whole.
    pub invalid: u64,
    /// A limit was reached (M242): all those of the group below, together.
    pub limits: u64,
    /// Of these, because the node had too many streams.
    pub streams_per_node: u64,
    /// Of these, because there would have been too many views.
    pub views: u64,
    /// Of these, because of too many names or types.
    pub subscriptions: u64,
    /// Of these, because of too many requests, at once or while no view was assigned.
    pub requests: u64,
    /// Of these, because something in a request, or all of it, was too long.
    pub lengths: u64,
    /// The application refused the client.
    pub refused: u64,
    /// The application dropped what it saw.
    pub view_dropped: u64,
    /// It was too far behind to be told what is gone (M231).
    pub behind: u64,
    /// It did not answer a response in time (M65).
    pub answer_overdue: u64,
    /// It asked for nothing in time.
    pub no_request: u64,
    /// Nobody decided in time whether its client is served.
    pub no_decision: u64,
    /// The server did not become ready while it held their requests.
    pub not_ready: u64,
    /// The stream reached the age at which clients spread again (M239).
    pub aged: u64,
    /// The server drained or was shut down (M14).
    pub shutting_down: u64,
}

impl ServerStats {
    pub(crate) fn note_opened(&mut self, via: &Via) {
        self.incremental_streams += usize::from(via.variant() == Variant::Incremental);
        self.fetches += usize::from(matches!(via, Via::Fetch { .. }));
    }

    pub(crate) fn note_gone(&mut self, via: &Via) {
        self.incremental_streams -= usize::from(via.variant() == Variant::Incremental);
        self.fetches -= usize::from(matches!(via, Via::Fetch { .. }));
    }

    /// A request was taken that asks for something, or not.
    pub(crate) fn note_request(&mut self, before: &Self, asked: Asked) {
        let answers = |it: &Self| it.acks + it.nacks + it.stale_requests + it.bogus_requests;
        if asked == Asked::Nothing && answers(self) == answers(before) {
            self.repeated_requests += 1;
        }
    }

    /// Something is held back on a stream now, or not, and was before, or was not.
    pub(crate) fn note_held(&mut self, was_held: bool, is_held: bool) {
        match (was_held, is_held) {
            (false, true) => {
                self.holds += 1;
                self.holding_streams += 1;
            }
            (true, false) => self.holding_streams -= 1,
            _ => {}
        }
    }

    pub(crate) fn note_response(&mut self, cause: Cause) {
        if cause != Cause::Aside {
            self.responses += 1;
        }
        let count = match cause {
            Cause::First => &mut self.causes.first,
            Cause::Changed => &mut self.causes.changed,
            Cause::Resubscribed => &mut self.causes.resubscribed,
            Cause::Warming => &mut self.causes.warming,
            Cause::Aside => &mut self.causes.asides,
            Cause::Heartbeat => &mut self.causes.heartbeats,
            Cause::Recovery => &mut self.causes.recovery,
        };
        *count += 1;
    }

    pub(crate) fn note_refusal(&mut self, refusal: Refusal) {
        let count = match refusal {
            Refusal::NotReady => &mut self.refused.not_ready,
            Refusal::TooManyStreams { .. } => &mut self.refused.too_many,
            Refusal::TooManyNewStreams { .. } => &mut self.refused.too_fast,
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
            | CloseReason::ForeignTypeUrl { .. } => &mut closed.invalid,
            CloseReason::RequestTooLong(_)
            | CloseReason::NodeTooLong { .. }
            | CloseReason::NameTooLong { .. } => &mut closed.lengths,
            CloseReason::TooManyNames { .. } | CloseReason::TooManyTypes { .. } => {
                &mut closed.subscriptions
            }
            CloseReason::TooManyRequests { .. }
            | CloseReason::TooManyLatchedBytes { .. }
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
            CloseReason::StreamAge => &mut closed.aged,
            CloseReason::ShuttingDown => &mut closed.shutting_down,
        };
        *count += 1;
        let of_requests = closed.lengths + closed.subscriptions + closed.requests;
        closed.limits = of_requests + closed.streams_per_node + closed.views;
    }
}
