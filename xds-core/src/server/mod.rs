//! Management server as a state machine: a store of opaque resources, and streams of clients that
//! are sent changes.
//!
//! # From a change to a response
//!
//! ```text
//!  apply(transaction)                                   a request
//!        |                                                  |
//!  store: changed resources, a revision each        session: ACK or NACK, names, wildcard
//!        |                                                  |
//!        +---- subscribers of these names ----+             |
//!        +---- wildcards of these types ------+-> due <-----+
//!                                             |
//!                                 poll_output: Writable(stream)
//!                                             |
//!                        poll_transmit, whenever the transport has room:
//!                        clusters, endpoints, listeners, routes, ...
//!                                             |
//!                    version, type URL, nonce, errors | resources, removed names
//!                                                             shared bytes
//! ```
//!
//! The cost of a change is proportional to the changed resources, their subscribers, and the
//! wildcard subscriptions of their types. A response is rendered when the transport has room for
//! it. A slow client therefore receives only the newest state, and no other client waits for it.
//!
//! # How to drive it
//!
//! Call [`Server::accept_on`] for each new stream, and pass events of transports to
//! [`Server::handle_event`]. Drain [`Server::poll_output`] before waiting. Read the next request of a
//! stream only while [`Server::wants_read`] is `true`. When a stream is
//! reported as writable, call [`Server::poll_transmit`] whenever its transport has room, until it
//! returns `None`. Call [`Server::handle_timeout`] at the time that [`Server::poll_timeout`]
//! returns.
//!
//! # Life cycle of a stream
//!
//! ```text
//! accept ─▶ (Message, Writable ─▶ poll_transmit)* ─┬▶ Closed, by the driver
//!                                                  ├▶ Close, by the server with a status
//!                                                  └▶ Finished, after the last response
//! ```
//!
//! The id of a stream ends with whichever comes first, and no later output names it. On
//! [`ServerOutput::Close`] or [`ServerOutput::Finished`] the driver ends the transport and has
//! nothing to report; events that are already on their way are ignored and counted.
//!
//! | Observed by the driver | Call |
//! |---|---|
//! | a call of a discovery method | [`Server::accept_on`] with its [`Connection`] and [`StreamKind::of`] its path |
//! | a complete message | [`StreamEvent::Message`] |
//! | a message that cannot be decompressed or parsed as JSON | [`StreamEvent::Undeliverable`] |
//! | a message above the transport's size limit | [`StreamEvent::TooLong`] |
//! | `END_STREAM` of the client | [`StreamEvent::HalfClosed`] |
//! | `RST_STREAM`, lost connection, failed write | [`StreamEvent::Closed`] |
//!
//! No request makes the server panic or fail. A stream that violates the protocol or exceeds a
//! limit is closed with a [`CloseReason`]; other streams continue.
//!
//! # Source layout
//!
//! A folder imports only from folders below it:
//!
//! ```text
//!  timeouts, report          expired timers; reports on clients and views
//!  files at the root         methods of `Server`: requests, responses, admission, fan-out, drain
//!  stream                    state of a stream that its types share
//!  make_before_break         order of changes behind the client's ACKs
//!  session                   one type of a stream: subscriptions, ACK and NACK, responses
//!  store | queue             resources, views and versions | outputs, timers and turns
//!  config | event            settings | inputs, outputs and status
//! ```
// M144: order of the types. IS25: a slow client delays nobody.

mod admission;
mod candidates;
mod config;
pub(crate) mod custom_messages;
mod debounce;
mod deletion_retention;
mod drain;
mod event;
mod fan_out;
mod lifecycle;
pub(crate) mod make_before_break;
pub(crate) mod name_limits;
pub(crate) mod on_demand;
pub(crate) mod parts;
pub(crate) mod queue;
pub(crate) mod report;
pub(crate) mod request_rate;
pub(crate) mod requests;
pub(crate) mod responses;
mod session;
mod source;
mod store;
mod stream;
pub(crate) mod timeouts;

use alloc::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use foldhash::fast::FixedState;

pub use self::{
    admission::DropView,
    config::{
        Absence, AbsenceDelay, Admission, AnswerOverdue, Confirmation, DOES_NOT_EXIST_TIMER,
        DrainPlan, Globs, HeartbeatFraction, LegacyWildcard, MakeBeforeBreakPolicy, Missing,
        NackDetection, NackRecovery, NodeChanged, ObserveResponses, OnDemand, OrderingPolicy,
        PerClientLimits, Rate, Readiness, ReconnectTrust, Removals, RequireNode, ServerConfig,
        ServerLimits, SotwResponse, SourcePolicy, StageTimeoutAction, StreamAge, TypeConfig,
        TypeDefaults, UnknownType, VersionMode, WarmedTypes, Warming, WildcardExit, Window,
    },
    custom_messages::CustomMessageError,
    event::{
        BlockedBy, BlockedChange, CloseReason, Connection, Observation, Refusal, ResponseCause,
        ServerEvent, ServerOutput, ServerTransmit, StatusCode, StreamEvent, StreamKind,
        stats::{ClosedStreams, RefusedStreams, ResponsesByCause, ServerStats, TypeStats},
        status::{
            Completeness, RejectionStatus, ResourceSync, SubscribedNames, SubscriptionStatus,
            SyncState,
        },
    },
    queue::fair_queue::FairQueue,
    report::{
        contents::{Preview, ViewCopy},
        convergence::{Convergence, LagReason, LaggingClient, TooManyWaits},
        csds::{ClientResource, ClientStatus},
    },
    source::SourceStatus,
    store::{
        contents::ViewContents,
        layers::LayersError,
        resource_options::ResourceOptions,
        transaction::{Applied, Transaction, TransactionError},
    },
};
use self::{
    debounce::HeldBackChanges,
    deletion_retention::RetentionPeriod,
    event::stats::StatsByType,
    lifecycle::Phase,
    queue::{
        outbox::Outbox,
        timer_queue::{Alarm, Alarms},
    },
    session::subscriptions::Subscriptions,
    stream::{
        Stream, convergence_waits::ConvergenceWait, node_quota::NodeQuotas,
        rejection_log::Rejections, source_wait::SourceProgress,
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
    token_bucket::TokenBucket,
    types,
};

/// Maximum number of undrained observations before the server stops reading requests.
const OBSERVATIONS: usize = 1_024;

/// Management server.
///
/// See the [module documentation](self) for how to drive it.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    clock: Clock,
    phase: Phase,
    streams: Slab<Stream>,
    nodes: NodeQuotas,
    new_streams: TokenBucket,
    /// Source of the random times at which streams end.
    rng: Rng,
    subscriptions: Subscriptions,
    held_back: HeldBackChanges,
    out: Outbox,
    alarms: Alarms,
    /// Periods of retained deletions, oldest first.
    deletion_retention: VecDeque<RetentionPeriod>,
    stats: ServerStats,
    stats_by_type: StatsByType,
    rejections: Rejections,
    /// Registered waits for convergence, by arena and sequence number of the transaction.
    waits: BTreeMap<(Slot, u64), ConvergenceWait>,
    source: SourceProgress,
    /// Streams with an unfinished request, or with held requests that are to be handled, by the
    /// account of their connection. Entries of streams without such requests are skipped.
    unfinished: FairQueue<Slot, StreamId>,
    node_hasher: FixedState,
}

impl Server {
    /// Creates a server without resources.
    ///
    /// `seed` keys the hash tables, so that clients cannot choose colliding names, and determines
    /// the random times at which streams are ended. It has no other effect.
    #[must_use]
    pub fn new(config: ServerConfig, seed: u64, now: Time) -> Self {
        let mut rng = Rng::new(seed);
        Self {
            phase: Phase::at_start(config.readiness),
            clock: Clock::starting_at(now),
            streams: Slab::default(),
            nodes: NodeQuotas::default(),
            new_streams: TokenBucket::default(),
            subscriptions: Subscriptions::new(&mut rng, config.on_demand),
            held_back: HeldBackChanges::default(),
            out: Outbox::default(),
            alarms: Alarms::default(),
            deletion_retention: VecDeque::new(),
            stats: ServerStats::default(),
            stats_by_type: StatsByType::default(),
            rejections: Rejections::default(),
            waits: BTreeMap::new(),
            source: SourceProgress::default(),
            unfinished: FairQueue::default(),
            node_hasher: FixedState::with_seed(rng.next_u64()),
            config,
            rng,
        }
    }

    /// Handles an event of a transport.
    pub fn handle_event(&mut self, event: StreamEvent, now: Time) {
        self.clock.advance(now);
        let (StreamEvent::Message(stream, _)
        | StreamEvent::Undeliverable(stream, _)
        | StreamEvent::TooLong(stream, _)
        | StreamEvent::HalfClosed(stream)
        | StreamEvent::Closed(stream)) = event;
        if self.streams.get(stream.0).is_none() {
            self.stats.ignored_events += 1;
            return;
        }
        match event {
            StreamEvent::Message(_, message) => match self.charge_request(stream, message.len()) {
                Ok(()) => {
                    self.take_message(stream, &message);
                    self.enforce_total_names();
                }
                Err(reason) => self.close(stream, reason),
            },
            StreamEvent::Undeliverable(_, why) => {
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
                self.remove_stream(stream);
            }
        }
    }

    /// Handles all timers that are due, and a part of [unfinished work](Timer::UnfinishedWork).
    /// Calling it early or without a due timer has no effect.
    pub fn handle_timeout(&mut self, now: Time) {
        let now = self.clock.advance(now);
        while let Some(alarm) = self.alarms.take_due(now) {
            match alarm {
                Alarm::AnswerOverdue(session) => self.answer_is_overdue(session.slot()),
                Alarm::StreamEnd(stream) => self.end_is_due(stream),
                Alarm::ExpireRejections => self.expire_rejections(),
                Alarm::Heartbeat(arena) => self.heartbeat_is_due(arena),
                Alarm::BurstEnd => self.end_burst(),
                Alarm::ViewIdle(view) => self.drop_idle_view(view),
                Alarm::StageTimeout(stream) => self.stage_timed_out(stream),
                Alarm::RequestTimeout(stream) => self.request_timed_out(stream),
                Alarm::DiscardDeletions => self.discard_old_deletions(),
                Alarm::SourceWait(stream) => self.source_wait_is_over(stream),
                // The driver is awake, and asks for the state.
                Alarm::ResumeReading(_) | Alarm::SourceStale => {}
                Alarm::Absence(session) => self.absence_delay_ended(session.slot()),
            }
        }
        self.continue_work();
    }

    /// Returns the next queued output. O(1).
    #[must_use]
    pub fn poll_output(&mut self) -> Option<ServerOutput> {
        self.out.pop()
    }

    /// Renders the next due response of the stream into `frame`. It counts as sent from then on.
    ///
    /// Returns `None` and leaves `frame` unchanged if nothing is due or the stream has ended.
    // M73
    #[must_use]
    pub fn poll_transmit(
        &mut self,
        stream: StreamId,
        now: Time,
        frame: &mut Frame,
    ) -> Option<ServerTransmit> {
        self.clock.advance(now);
        let state = self.streams.get_mut(stream.0)?;
        // Due responses are always announced, and those of a busy stream at the end of its request.
        if state.is_busy() {
            state.is_notified = false;
        }
        if !state.is_notified {
            return None;
        }
        let transmit = self.render_next(stream, frame);
        self.note_rendered(stream);
        self.notify_wanted();
        self.note_polled(stream, transmit.is_some());
        if transmit.is_some() {
            self.finish_fetch(stream);
        }
        self.finish_if_done(stream);
        transmit
    }

    /// Returns the time at which [`handle_timeout`](Self::handle_timeout) is due: now while outputs
    /// are queued or work is unfinished. O(1).
    ///
    /// A driver should handle events of transports between two parts of unfinished work.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Deadline> {
        let now = |why| Some(Deadline { at: self.clock.now(), why });
        match self.out.is_empty() {
            false => now(Timer::QueuedOutput),
            true if self.has_work() => now(Timer::UnfinishedWork),
            true => self.alarms.next(),
        }
    }

    /// Returns whether the next request of the stream should be read from the transport. Changes are
    /// not signalled: ask again before each wait, because inputs change the answer, and also
    /// [`poll_output`](Self::poll_output) and [`poll_transmit`](Self::poll_transmit).
    #[must_use]
    pub fn wants_read(&self, stream: StreamId) -> bool {
        let (now, limits) = (self.clock.now(), &self.config.limits);
        let wants_read = |stream: &Stream| stream.wants_read(limits, now);
        self.streams.get(stream.0).is_some_and(wants_read) && self.out.observations() < OBSERVATIONS
    }

    /// Returns the status of all subscriptions, by stream in the order of their opening, and within
    /// a stream in the order in which types are sent.
    pub fn status(&self) -> impl Iterator<Item = SubscriptionStatus<'_>> {
        let subscriptions = &self.subscriptions;
        self.open_streams().flat_map(move |(_, stream)| {
            stream
                .sessions
                .iter()
                .filter_map(|handle| subscriptions.status(handle.session, stream.node_id()))
        })
    }

    /// Returns the bytes of a resource of the default view, as they were set.
    #[must_use]
    pub fn resource(&self, type_url: &str, name: &str) -> Option<&Bytes> {
        self.resource_in(&ViewName::default(), type_url, name)
    }

    /// Returns the bytes of a resource of a view, as they were set.
    #[must_use]
    pub fn resource_in(&self, view: &ViewName, type_url: &str, name: &str) -> Option<&Bytes> {
        self.subscriptions.store.resource_in(view, type_url, name)
    }

    /// Returns the version that responses state for a type in the default view; `None` if it has no
    /// resource of the type.
    #[must_use]
    pub fn version(&self, type_url: &str) -> Option<Version> {
        self.version_in(&ViewName::default(), type_url)
    }

    /// Returns the version that responses state for a type in a view. With counted versions, a view
    /// made of layers has a version of a type only while a client subscribes to the type there.
    #[must_use]
    pub fn version_in(&self, view: &ViewName, type_url: &str) -> Option<Version> {
        self.subscriptions.store.version_in(view, type_url)
    }

    /// Returns the counters and gauges of the server.
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
            waiting_for_source: self.source.waiting.len(),
            held_names: self.subscriptions.usage.total(),
            unfinished_closes: self.subscriptions.closed(),
            ..self.stats
        }
    }

    /// Returns the number of names of requests that were handled, and of names of closed streams that
    /// were freed, since the server was created. O(1).
    ///
    /// Its increase measures the work of calls: a driver can handle events until it has increased by
    /// some thousand, and then send responses.
    #[must_use]
    pub fn handled_names(&self) -> u64 {
        self.stats.handled_names
    }

    /// Returns the counters of a type, over all views. Types unknown to this crate are counted
    /// together, because clients choose their names.
    #[must_use]
    pub fn stats_of(&self, type_url: &str) -> TypeStats {
        self.stats_by_type.of(types::update_rank(type_url))
    }

    /// Handles a request. Closes a stream that violates the protocol or exceeds a limit.
    fn take_message(&mut self, stream: StreamId, message: &Bytes) {
        if let Err(reason) = self.on_message(stream, message) {
            if matches!(reason, CloseReason::Malformed(_)) {
                self.stats.malformed_requests += 1;
            }
            self.close(stream, reason);
        }
        self.notify_wanted();
        self.end_if_answered(stream);
    }
}

#[cfg(test)]
mod tests {
    use alloc::{string::String, vec};

    use prost::Message as _;

    use crate::proto::{DiscoveryRequest, Node};
    use crate::server::*;

    fn ask(names: &[&str]) -> Bytes {
        let request = DiscoveryRequest {
            node: Some(Node { id: String::from("n"), ..Node::default() }),
            type_url: types::CLUSTER.into(),
            resource_names: names.iter().map(|&name| name.into()).collect(),
            ..DiscoveryRequest::default()
        };
        request.encode_to_vec().into()
    }

    // IS23
    /// A client that disconnects or ends its wildcard leaves no entry in any list.
    #[test]
    fn disconnect_or_end_of_wildcard_removes_its_list_entry() {
        let now = Time::ZERO;
        let mut server = Server::new(ServerConfig::default(), 1, now);
        let mut kept = Transaction::new();
        kept.set(types::CLUSTER, "a", vec![1]);
        assert!(server.apply(kept, now).is_ok());
        for names in [&[][..], &["*"], &["*", "a"]] {
            let stream =
                server.accept(StreamKind::Aggregated(Variant::StateOfTheWorld), now).unwrap();
            server.handle_event(StreamEvent::Message(stream, ask(names)), now);
            server.handle_event(StreamEvent::Message(stream, ask(names)), now);
            let wildcards = |server: &Server| {
                let store = &server.subscriptions.store;
                let arena = store.find_arena(store.default_view(), types::CLUSTER);
                store.arena(arena?).map(|arena| arena.wildcards.len())
            };
            assert_eq!(wildcards(&server), Some(1));
            if names.len() == 1 {
                server.handle_event(StreamEvent::Message(stream, ask(&["a"])), now);
                assert_eq!(wildcards(&server), Some(0));
            }
            server.handle_event(StreamEvent::Closed(stream), now);
            assert_eq!(wildcards(&server), Some(0));
        }
    }
}
