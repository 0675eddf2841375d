//! Driver task of a management server: connects a core [`Server`] to its streams, commands and
//! timers.
//!
//! ```text
//!                  inputs of the application ──▶ queue ──────────────────────┐
//!   inbox ──▶ sort                                                           ├──▶ core ──▶ responses
//!                  inputs of connections ──▶ queue per connection, in turn ──┘             │
//!                                                                                          ▼
//!                                               transports ◀── queue per connection, in turn
//! ```
//!
//! Each iteration handles the inputs of the application first, up to 1,000, so that changes made
//! together are sent together. Then it handles inputs of connections, requests of client status
//! among them, and renders responses, one of each connection in turn. How many is limited, so that
//! an iteration takes some milliseconds at most: a connection that sends many requests, has many
//! responses to render or closes many streams does not keep the others waiting. The core handles
//! long requests in parts, one per iteration and of each connection in turn.
//!
//! | file | content |
//! |---|---|
//! | `inbox.rs` | inputs of the driver |
//! | `turns.rs` | order in which inputs are handled |
//! | `streams.rs` | streams, from the call to the end |
//! | `requests.rs` | reading of requests |
//! | `decision.rs` | decisions of the authorizer |
//! | `transmit.rs`, `body.rs` | rendering of responses; response bodies with one response at a time |
//! | `waits.rs` | calls that wait until all clients have accepted a change |
//! | `rollouts.rs` | rollouts |
//! | `observations.rs`, `events.rs` | observations; requests to the application |
//! | `log.rs` | log lines and levels |

pub(crate) mod body;
mod decision;
pub(crate) mod events;
pub(crate) mod inbox;
pub(crate) mod log;
pub(crate) mod observations;
pub(crate) mod requests;
pub(crate) mod rollouts;
mod streams;
mod transmit;
pub(crate) mod turns;
mod waits;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use tokio::{select, sync::broadcast};
use tonic::{Code, Status};
use tonic_health::ServingStatus;
use xds_core::{
    Deadline, Frame, StreamId, Timer,
    server::{
        Admission, CloseReason, FairQueue, Observation, Readiness, Server, ServerConfig,
        ServerEvent, ServerOutput, StreamEvent,
    },
};

use self::{
    events::EventQueue,
    inbox::{ConvergenceTarget, Inbox, Input, InputReceiver, WeakInbox},
    log::Log,
    observations::Observed,
    rollouts::HostedRollouts,
    streams::{RequestSide, Stream},
    waits::ConvergenceWaits,
};
use crate::{
    clock::Clock,
    guard::guard_references,
    runtime::{Alarm, Budget, SharedRuntime, yield_now},
    server::{
        access::authorize::SharedAuthorizer,
        calls::health::Health,
        memory::{budgets::TransportBudgets, response_waits::MemoryWaits},
        options::{ServerOptions, limit_advice::LimitAdvice},
    },
    zoo::{self, Bug},
};

/// Driver of one server. Owns the core server and its end of every stream.
pub(crate) struct Driver {
    server: Server,
    rollouts: HostedRollouts,
    receiver: InputReceiver,
    /// Inputs that do not belong to a connection.
    application: VecDeque<Input>,
    /// Inputs of connections.
    connections: FairQueue<u64, Input>,
    /// Cloned for streams. Weak, because it must not keep the server alive.
    inbox: WeakInbox,
    waits: ConvergenceWaits,
    events: Arc<EventQueue>,
    event_capacity: usize,
    /// Never iterated in an order that matters.
    streams: BTreeMap<StreamId, Stream>,
    /// Streams that may have a response to send and space for it.
    writable: FairQueue<u64, StreamId>,
    memory_waits: MemoryWaits,
    /// Streams whose reader waits for permission to read the next request.
    unread: Vec<StreamId>,
    observations: broadcast::Sender<Observed>,
    health: Health,
    /// Status that the health service reports, unless the source is stale.
    status: ServingStatus,
    phase: Phase,
    authorizer: Option<SharedAuthorizer>,
    budgets: TransportBudgets,
    runtime: SharedRuntime,
    clock: Clock,
    alarm: Alarm,
    budget: Budget,
    log: Log,
    advice: LimitAdvice,
    frame: Frame,
}

/// Receivers of the driver's notifications.
pub(crate) struct Reporters {
    pub(crate) observations: broadcast::Sender<Observed>,
    pub(crate) events: Arc<EventQueue>,
    pub(crate) health: Health,
}

/// Lifecycle of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    Draining,
    Ended,
}

impl Driver {
    pub(crate) fn new(
        mut config: ServerConfig,
        options: &ServerOptions,
        inbox: &Inbox,
        receiver: InputReceiver,
        reporters: Reporters,
        budgets: TransportBudgets,
        runtime: SharedRuntime,
    ) -> Self {
        let Reporters { observations, events, health } = reporters;
        guard_references(&mut config);
        if options.authorizer.is_some() {
            config.admission = Admission::ByApplication;
        }
        let status = match config.readiness {
            Readiness::Ready => ServingStatus::Serving,
            _ => ServingStatus::NotServing,
        };
        let clock = Clock::start(runtime.clone());
        let seed = options.seed.unwrap_or_else(|| runtime.runtime().entropy());
        Self {
            server: Server::new(config, seed, clock.now()),
            rollouts: HostedRollouts::new(options.node_detail, options.rollout_sharing),
            receiver,
            application: VecDeque::new(),
            connections: FairQueue::default(),
            inbox: inbox.downgrade(),
            waits: ConvergenceWaits::default(),
            events,
            event_capacity: options.event_capacity.max(1),
            streams: BTreeMap::new(),
            writable: FairQueue::default(),
            memory_waits: MemoryWaits::new(budgets.responses.clone()),
            unread: Vec::new(),
            observations,
            health,
            status,
            phase: Phase::Serving,
            authorizer: options.authorizer.clone(),
            budgets,
            alarm: Alarm::new(runtime.clone()),
            runtime,
            clock,
            budget: Budget::default(),
            log: Log::new(options.printer.clone()),
            advice: options.limit_advice.clone(),
            frame: Frame::default(),
        }
    }

    /// Runs until the server is shut down or nothing can reach it any more.
    pub(crate) async fn run(mut self) {
        loop {
            self.budget.spend().await;
            self.health.set(self.serving_status()).await;
            self.log.report_suppressed(self.clock.now());
            let next = self.server.poll_timeout();
            if self.has_work(next) {
                // Connections are served between two parts of the work.
                yield_now().await;
            } else {
                self.wait(next).await;
            }
            self.handle_timeout();
            self.process_outputs();
            self.take_inputs();
            self.handle_inputs();
            if self.phase == Phase::Ended {
                return;
            }
            self.transmit();
            for connection in self.memory_waits.relieve(self.clock.now()) {
                self.end_connection(connection);
            }
            self.permit_reads();
        }
    }

    /// Whether the next iteration begins without a further input or timeout.
    fn has_work(&self, next: Option<Deadline>) -> bool {
        next.is_some_and(|next| next.why == Timer::UnfinishedWork)
            || !self.application.is_empty()
            || !self.connections.is_empty()
            || !self.writable.is_empty()
    }

    /// Waits until an input arrives or a timeout is due. `next` is that of the core.
    async fn wait(&mut self, next: Option<Deadline>) {
        let core = next.map(|next| next.at);
        let rollouts = self.rollouts.poll_timeout();
        let others = [self.log.due(), self.memory_waits.due(), rollouts];
        let due = others.into_iter().chain([core]).flatten().min();
        self.alarm.set(due.map(|due| self.clock.instant(due)));
        select! {
            biased;
            () = self.alarm.ring() => {}
            input = self.receiver.recv() => match input {
                Some(input) => self.queue_input(input),
                None => self.end(),
            }
        }
    }

    fn handle_timeout(&mut self) {
        let now = self.clock.now();
        self.server.handle_timeout(now);
        self.rollouts.handle_timeout(&mut self.server, now);
    }

    /// Status that the health service reports: new clients are refused while the source has been
    /// unreachable for too long.
    fn serving_status(&self) -> ServingStatus {
        match self.server.is_stale(self.clock.now()) {
            true => ServingStatus::NotServing,
            false => self.status,
        }
    }

    fn handle_input(&mut self, input: Input) {
        let now = self.clock.now();
        match input {
            Input::Accept { call, reply } => {
                // If the caller is gone, the dropped body closes the stream.
                let _ = reply.send(self.accept(*call));
            }
            Input::Request(id, message) => self.handle_request(id, message),
            Input::Malformed(id, _) | Input::TooLong(id, _) if !self.streams.contains_key(&id) => {}
            Input::Malformed(id, why) => {
                self.server.handle_event(StreamEvent::Undeliverable(id, why), now);
            }
            Input::TooLong(id, why) => {
                self.server.handle_event(StreamEvent::TooLong(id, why), now);
            }
            Input::SlotFree(id) => self.note_writable(id),
            Input::ResponseMemory => {
                let responses = |id| self.streams.get(&id).map(|stream| &stream.responses);
                let connection = |id| responses(id).map(|it| (it.id(), it.held()));
                let waiting = self.memory_waits.take(connection);
                waiting.into_iter().for_each(|id| self.note_writable(id));
            }
            Input::Closed(_) if zoo::is(Bug::CloseNotReported) => {}
            Input::Closed(id) => self.close(id),
            Input::Evicted(id) => self.remove_evicted(id),
            Input::HalfClosed(_) if zoo::is(Bug::HalfCloseIgnored) => {}
            Input::HalfClosed(id) => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.request_side = RequestSide::HalfClosed;
                    self.server.handle_event(StreamEvent::HalfClosed(id), now);
                }
            }
            Input::Decided(id, decision) => self.apply_decision(id, decision),
            Input::Command(command) => command.run(&mut self.rollouts, &mut self.server, now),
            Input::Ready(reply) => {
                self.rollouts.set_ready(&mut self.server, now);
                if self.phase == Phase::Serving {
                    self.status = ServingStatus::Serving;
                }
                let _ = reply.send(());
            }
            Input::Converge { target, reply } => {
                self.waits.add(&mut self.server, target, reply, now);
            }
            Input::EventsRead => {}
            Input::EventsSubscribed => {
                let open_requests = self.server.unanswered_events();
                self.events.begin(open_requests);
            }
            Input::Drain(plan) => {
                self.phase = Phase::Draining;
                self.status = ServingStatus::NotServing;
                self.server.drain(plan, now);
            }
            Input::ShutDown => self.end(),
        }
        // Observations of a stream are logged before the stream is removed.
        self.process_outputs();
    }

    fn end(&mut self) {
        self.waits.end();
        self.server.shut_down(self.clock.now());
        self.phase = Phase::Ended;
    }

    /// Processes the core's outputs: closes streams and forwards observations and events.
    fn process_outputs(&mut self) {
        while let Some(output) = self.server.poll_output() {
            if self.rollouts.needs_outputs() {
                self.rollouts.handle_output(&mut self.server, &output, self.clock.now());
            }
            match output {
                ServerOutput::Writable(id) => self.note_writable(id),
                ServerOutput::Close(id, reason) => {
                    if let Some(stream) = self.streams.remove(&id) {
                        self.log.closed(&stream, &reason, self.clock.now());
                        let code = Code::from_i32(reason.code().as_i32());
                        let status = Status::new(code, self.advice.explain(&reason));
                        match reason {
                            CloseReason::ShuttingDown | CloseReason::StreamAge => {
                                stream.slot.end(status);
                            }
                            _ => stream.slot.abort(status),
                        }
                    }
                }
                ServerOutput::Finished(id) => {
                    if let Some(stream) = self.streams.remove(&id) {
                        if stream.request_side == RequestSide::HalfClosed {
                            self.log.disconnected(&stream);
                        }
                        stream.slot.end(Status::ok(""));
                    }
                }
                ServerOutput::Observed(observation) => self.observe(observation),
                ServerOutput::Event(ServerEvent::Authorize { stream, .. })
                    if self.authorizer.is_some() =>
                {
                    self.authorize(stream);
                }
                ServerOutput::Converged { view, type_url, sequence } => {
                    self.waits.converged(&ConvergenceTarget { view, type_url, sequence });
                }
                ServerOutput::Drained => self.phase = Phase::Ended,
                ServerOutput::Event(event) => self.events.push(event),
                _ => {}
            }
        }
    }

    fn observe(&mut self, observation: Observation) {
        let now = self.clock.now();
        let stream = self.streams.get_mut(&observation.stream());
        if let Some(stream) = stream {
            if let Observation::Identified { node_id, node, .. } = &observation {
                stream.node = Arc::clone(node_id);
                if let Some(authorization_request) = &mut stream.authorization_request {
                    authorization_request.node_id = Arc::clone(node_id);
                    authorization_request.encoded_node = node.clone();
                }
            }
            self.log.observed(stream, &observation, now);
        }
        if self.observations.receiver_count() > 0 {
            // The last receiver may have been dropped just now.
            let _ = self.observations.send(Observed::Event(observation));
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.events.end();
        self.health.end();
        // Streams remain only if the driver was dropped while running.
        for stream in self.streams.values() {
            stream.slot.end(Status::unavailable("the server has ended"));
        }
    }
}
