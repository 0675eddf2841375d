//! The management server as a state machine: a store of opaque resources, and streams of clients
//! that are told what changed.
//!
//! # From a change to the wire
//!
//! ```text
//!  apply(transaction)                                   a request
//!        |                                                  |
//!  store: changed resources, a position each        session: ACK or NACK, names, wildcard
//!        |                                                  |
//!        +---- subscribers of these names ----+             |
//!        +---- wildcards of these types ------+-> due <-----+
//!                                             |
//!                                 poll_output: Writable(stream)
//!                                             |
//!                        poll_transmit, whenever the transport has room:
//!                        clusters, endpoints, listeners, routes, ... (M144)
//!                                             |
//!                    version, type URL, nonce, errors | resources, removed names
//!                                                             shared bytes
//! ```
//!
//! A change costs what it touches: the resources it names, their subscribers, and a step for each
//! client that subscribes to everything of the type. A response is made when it can be sent, so a
//! slow client is sent the newest state once, and nobody waits for it (IS25).
//!
//! # How a driver uses it
//!
//! It calls [`Server::accept`] for a new stream and passes news of transports to
//! [`Server::handle_event`]. After every such turn it drains [`Server::poll_output`]. When it is
//! told that a stream is writable, it calls [`Server::poll_transmit`] as long as the transport has
//! room, and again when there is room again, until it returns `None`. It calls
//! [`Server::handle_timeout`] when [`Server::poll_timeout`] says so.
//!
//! Nothing a client sends makes the server panic or fail: a stream that breaks the protocol is
//! closed with a reason, one that asks for too much as well, and all others go on.

mod admission;
mod config;
pub(crate) mod custom_messages;
mod drain;
mod event;
mod fan_out;
mod lifecycle;
pub(crate) mod make_before_break;
pub(crate) mod on_demand;
pub(crate) mod queue;
pub(crate) mod report;
pub(crate) mod request_rate;
pub(crate) mod requests;
pub(crate) mod responses;
mod session;
mod store;
mod stream;
pub(crate) mod timeouts;
pub(crate) mod views;

use alloc::collections::BTreeMap;

use bytes::Bytes;
use foldhash::fast::FixedState;

pub use self::{
    admission::DropView,
    config::{
        Absence, AbsenceGrace, AckGated, Admission, AnswerOverdue, ClientLimits,
        DOES_NOT_EXIST_TIMER, Debounce, DrainPlan, Globs, HeartbeatFraction, LegacyWildcard,
        Missing, NackDetection, NackRecovery, NodeChanged, ObserveResponses, OnDemand, OnStuck,
        OrderingPolicy, Rate, Readiness, ReconnectTrust, Removals, RequireNode, ServerConfig,
        ServerLimits, SotwResponse, StreamAge, TypeConfig, TypeDefaults, UnknownType, VersionMode,
        Warmed, Warming, WildcardExit, Window,
    },
    custom_messages::AsideError,
    event::{
        Cause, CloseReason, HeldBack, HeldBy, Observation, Refusal, ServerOutput, ServerTransmit,
        StatusCode, StreamEvent, Via,
        stats::{ClosedStreams, RefusedStreams, Responses, ServerStats, TypeStats},
        status::{Extent, Interest, Rejection, ResourceSync, SubscriptionStatus, SyncState},
    },
    report::{
        contents::{Preview, ViewCopy},
        convergence::{Convergence, Lag, Laggard, TooManyWaits},
        csds::{ClientResource, ClientStatus},
    },
    store::{
        contents::ViewContents,
        layers::LayersError,
        resource_options::ResourceOptions,
        snapshot::Snapshot,
        transaction::{Applied, Transaction, TransactionError},
    },
};
use self::{
    event::stats::StatsByType,
    lifecycle::Phase,
    queue::{
        outbox::Outbox,
        timer_queue::{Alarm, Alarms},
        token_bucket::Bucket,
    },
    session::subscriptions::Subscriptions,
    stream::{
        Stream, Writable, convergence_waits::Waits, debounce::Debounced, deletion_horizon::Horizon,
        node_quota::Nodes, rejection_log::Rejections,
    },
};
pub use crate::service::Variant;
use crate::{
    frame::Frame,
    id::StreamId,
    rng::Rng,
    slab::{Slab, Slot},
    text::{Version, ViewName},
    time::{Clock, Deadline, Time, Timer},
    types,
};

/// How many observations may wait to be polled before the server asks to read no more.
const OBSERVATIONS: usize = 1_024;

/// A management server.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    clock: Clock,
    phase: Phase,
    streams: Slab<Stream>,
    nodes: Nodes,
    new_streams: Bucket,
    /// For moments that are to differ.
    rng: Rng,
    subscriptions: Subscriptions,
    held_back: Debounced,
    out: Outbox,
    alarms: Alarms,
    horizon: Horizon,
    /// The alarms of arenas.
    heartbeats: BTreeMap<Slot, Time>,
    stats: ServerStats,
    stats_by_type: StatsByType,
    rejections: Rejections,
    waits: Waits,
    node_hasher: FixedState,
}

impl Server {
    /// A server without resources. `seed` keys its hash tables, so that clients cannot choose names that
    /// collide, and draws the moments at which streams end that are ended by plan; nothing else depends on
    /// it.
    #[must_use]
    pub fn new(config: ServerConfig, seed: u64, now: Time) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            phase: Phase::at_start(config.readiness),
            clock: Clock::starting_at(now),
            streams: Slab::default(),
            nodes: Nodes::default(),
            new_streams: Bucket::default(),
            subscriptions: Subscriptions::new(&mut rng, config.on_demand),
            held_back: Debounced::default(),
            out: Outbox::default(),
            alarms: Alarms::default(),
            horizon: Horizon::default(),
            heartbeats: BTreeMap::new(),
            stats: ServerStats::default(),
            stats_by_type: StatsByType::default(),
            rejections: Rejections::default(),
            waits: Waits::default(),
            node_hasher: FixedState::with_seed(rng.next_u64()),
            config,
            rng,
        }
    }

    /// Changes resources, all or nothing, and makes what changed due to whoever subscribes to it.
    ///
    /// A resource set to the bytes it has is no change (M104).
    ///
    /// # Errors
    ///
    /// A change without a name or type, with one that no client can ask for, or beyond the limits;
    /// then nothing is applied.
    pub fn apply(
        &mut self,
        transaction: Transaction,
        now: Time,
    ) -> Result<Applied, TransactionError> {
        self.clock.advance(now);
        let (applied, touched) = self.subscriptions.store.apply(&transaction, &self.config)?;
        self.tell(touched);
        self.watch_views();
        Ok(applied)
    }

    /// Makes these the resources of a view, all or nothing: what it has and the snapshot has not is
    /// removed. The view is compared with the snapshot once, whatever the number of clients.
    ///
    /// # Errors
    ///
    /// As for [`apply`](Self::apply), or a name occurs twice; then nothing is applied.
    pub fn set_snapshot(
        &mut self,
        view: &ViewName,
        snapshot: Snapshot,
        now: Time,
    ) -> Result<Applied, TransactionError> {
        let transaction = snapshot.difference(view, &self.subscriptions.store)?;
        self.apply(transaction, now)
    }

    /// Takes news of a transport.
    pub fn handle_event(&mut self, event: StreamEvent, now: Time) {
        self.clock.advance(now);
        let (StreamEvent::Message(stream, _)
        | StreamEvent::Malformed(stream, _)
        | StreamEvent::TooLong(stream, _)
        | StreamEvent::HalfClosed(stream)
        | StreamEvent::Closed(stream)) = event;
        if self.streams.get(stream.0).is_none() {
            self.stats.ignored_events += 1;
            return;
        }
        match event {
            StreamEvent::Message(_, message) => match self.charge_request(stream, message.len()) {
                Ok(()) => self.take_message(stream, &message),
                Err(reason) => self.close(stream, reason),
            },
            StreamEvent::Malformed(_, why) => {
                self.stats.malformed_requests += 1;
                self.close(stream, CloseReason::Undeliverable(why));
            }
            StreamEvent::TooLong(_, why) => {
                self.stats.malformed_requests += 1;
                self.close(stream, CloseReason::RequestTooLong(why));
            }
            StreamEvent::HalfClosed(_) => self.half_closed(stream),
            StreamEvent::Closed(_) => {
                self.stats.closed.by_clients += 1;
                self.forget(stream);
            }
        }
    }

    /// Lets time pass. Calling early or for nothing is harmless.
    pub fn handle_timeout(&mut self, now: Time) {
        let now = self.clock.advance(now);
        while let Some(alarm) = self.alarms.take_due(now) {
            match alarm {
                Alarm::AnswerOverdue(session) => self.answer_is_overdue(session.slot()),
                Alarm::StreamEnd(stream) => self.end_is_due(stream),
                Alarm::ReadAgain(stream) => self.read_again(stream),
                Alarm::ForgetRejections => self.forget_rejections(),
                Alarm::Heartbeat(arena) => self.heartbeat_is_due(arena),
                Alarm::Debounced => self.tell_held_back(),
                Alarm::ViewIdle(view) => self.drop_idle_view(view),
                Alarm::Held(stream) => self.held_too_long(stream),
                Alarm::Unanswered(stream) => self.asked_too_long(stream),
                Alarm::Horizon => self.forget_old_deletions(),
                Alarm::Absence(session) => self.grace_is_over(session.slot()),
            }
        }
    }

    /// What to do next, if anything. O(1).
    #[must_use]
    pub fn poll_output(&mut self) -> Option<ServerOutput> {
        self.out.pop()
    }

    /// Renders the one response that is due next on the stream into `frame`; it counts as sent from
    /// then on (M73). `None` if nothing is due, or the stream is gone: then `frame` is untouched.
    #[must_use]
    pub fn poll_transmit(
        &mut self,
        stream: StreamId,
        now: Time,
        frame: &mut Frame,
    ) -> Option<ServerTransmit> {
        self.clock.advance(now);
        // What becomes due is announced.
        if self.streams.get(stream.0)?.writable == Writable::NotTold {
            return None;
        }
        let transmit = self.render_next(stream, frame);
        self.note_rendered(stream);
        self.tell_wants();
        self.note_polled(stream, transmit.is_some());
        if transmit.is_some() {
            self.finish_fetch(stream);
        }
        self.finish_if_over(stream);
        transmit
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due: at once while outputs are queued. O(1).
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Deadline> {
        if self.out.is_empty() {
            return self.alarms.next();
        }
        Some(Deadline { at: self.clock.now(), why: Timer::QueuedOutput })
    }

    /// Whether a request of the stream would be welcome now. Level-triggered: ask again after
    /// draining the outputs.
    #[must_use]
    pub fn wants_read(&self, stream: StreamId) -> bool {
        let (now, limits) = (self.clock.now(), &self.config.limits);
        let wants_read = |stream: &Stream| stream.wants_read(limits, now);
        self.streams.get(stream.0).is_some_and(wants_read) && self.out.observations() < OBSERVATIONS
    }

    /// All subscriptions: streams in the order in which they came, the types of each in the order in
    /// which they are sent.
    pub fn status(&self) -> impl Iterator<Item = SubscriptionStatus<'_>> {
        let subscriptions = &self.subscriptions;
        self.streams.iter().flat_map(move |(_, stream)| {
            stream
                .sessions
                .iter()
                .filter_map(|seat| subscriptions.status(seat.session, stream.node_id()))
        })
    }

    /// The bytes of a resource of the default view, as they were set.
    #[must_use]
    pub fn resource(&self, type_url: &str, name: &str) -> Option<&Bytes> {
        self.resource_in(&ViewName::default(), type_url, name)
    }

    /// The bytes of a resource of a view, as they were set.
    #[must_use]
    pub fn resource_in(&self, view: &ViewName, type_url: &str, name: &str) -> Option<&Bytes> {
        self.subscriptions.store.resource_in(view, type_url, name)
    }

    /// The version of a type's resources in the default view, as responses state it; `None` if it has
    /// no resource of the type.
    #[must_use]
    pub fn version(&self, type_url: &str) -> Option<Version> {
        self.version_in(&ViewName::default(), type_url)
    }

    /// The version of a type's resources in a view. Where versions are counted, a view made of layers has one
    /// only while somebody subscribes to the type there.
    #[must_use]
    pub fn version_in(&self, view: &ViewName, type_url: &str) -> Option<Version> {
        self.subscriptions.store.version_in(view, type_url)
    }

    /// How often things happened, and what is held now.
    #[must_use]
    pub fn stats(&self) -> ServerStats {
        ServerStats {
            streams: self.streams.len(),
            subscriptions: self.subscriptions.sessions.len(),
            resources: self.subscriptions.store.resources(),
            types: self.subscriptions.store.types(),
            names: self.subscriptions.store.names(),
            views: self.subscriptions.store.views(),
            payloads: self.subscriptions.store.payloads(),
            convergence_waits: self.waits.len(),
            ..self.stats
        }
    }

    /// How often things happened to a type, over all views. All types that are not the API's own are counted
    /// together, since clients make up their names.
    #[must_use]
    pub fn stats_of(&self, type_url: &str) -> TypeStats {
        self.stats_by_type.of(types::update_rank(type_url))
    }

    /// Takes a request; a stream that breaks the protocol is closed.
    fn take_message(&mut self, stream: StreamId, message: &Bytes) {
        if let Err(reason) = self.on_message(stream, message) {
            if matches!(reason, CloseReason::Malformed(_)) {
                self.stats.malformed_requests += 1;
            }
            self.close(stream, reason);
        }
        self.tell_wants();
        self.end_if_answered(stream);
    }
}

#[cfg(test)]
mod tests {
    use alloc::{string::String, vec};

    use prost::Message as _;

    use super::*;
    use crate::proto::{DiscoveryRequest, Node};

    fn ask(names: &[&str]) -> Bytes {
        let request = DiscoveryRequest {
            node: Some(Node { id: String::from("n"), ..Node::default() }),
            type_url: types::CLUSTER.into(),
            resource_names: names.iter().map(|&name| name.into()).collect(),
            ..DiscoveryRequest::default()
        };
        request.encode_to_vec().into()
    }

    /// IS23: not even a place in a list is left of who has gone or left the wildcard.
    #[test]
    fn places_among_the_wildcards_are_given_up() {
        let now = Time::ZERO;
        let mut server = Server::new(ServerConfig::default(), 1, now);
        let mut kept = Transaction::new();
        kept.set(types::CLUSTER, "a", vec![1]);
        assert!(server.apply(kept, now).is_ok());
        for names in [&[][..], &["*"], &["*", "a"]] {
            let stream = server.accept(Via::Aggregated(Variant::StateOfTheWorld), now).unwrap();
            server.handle_event(StreamEvent::Message(stream, ask(names)), now);
            server.handle_event(StreamEvent::Message(stream, ask(names)), now);
            let seats = |server: &Server| {
                let store = &server.subscriptions.store;
                let arena = store.find_arena(store.default_view(), types::CLUSTER);
                store.arena(arena?).map(|arena| arena.wildcards.len())
            };
            assert_eq!(seats(&server), Some(1));
            if names.len() == 1 {
                server.handle_event(StreamEvent::Message(stream, ask(&["a"])), now);
                assert_eq!(seats(&server), Some(0));
            }
            server.handle_event(StreamEvent::Closed(stream), now);
            assert_eq!(seats(&server), Some(0));
        }
    }
}
