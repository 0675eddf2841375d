//! Driver task of a management server: connects a core [`Server`] to its streams, commands and
//! timers.
//!
//! Each iteration takes up to 1,000 inputs from the inbox before it renders responses, so that
//! changes made together are sent together.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use tokio::{
    select,
    sync::{Notify, broadcast},
};
use tonic::{Code, Status, Streaming};
use tonic_health::ServingStatus;
use xds_core::{
    Frame, StreamId,
    server::{
        Admission, CloseReason, Observation, Readiness, Refusal, Server, ServerConfig,
        ServerOutput, StreamEvent, Via,
    },
    service::Variant,
};

use super::{
    authorize::{Applicant, Gatekeeper, Permission},
    body::{ResponseBody, Slot},
    events::{EventQueue, ServerEvent},
    handle::Observed,
    health::Health,
    inbox::{Call, Inbox, Input, Outlet, Target, WeakInbox},
    log::Log,
    options::ServerOptions,
    peer::Peer,
    waits::Waits,
};
use crate::{
    clock::Clock,
    grpc::{over_size_limit, with_causes},
    guard::guard_references,
    runtime::{Alarm, Budget, Shared, Task},
};

/// Driver of one server. Owns the core server and its end of every stream.
pub(crate) struct Driver {
    server: Server,
    outlet: Outlet,
    /// Cloned for streams. Weak, because it must not keep the server alive.
    inbox: WeakInbox,
    waits: Waits,
    events: Arc<EventQueue>,
    event_capacity: usize,
    /// Never iterated in an order that matters.
    streams: HashMap<StreamId, Stream>,
    /// Streams that may have a response to send and space for it.
    writable: Vec<StreamId>,
    /// Streams whose reader waits for permission to read the next request.
    unread: Vec<StreamId>,
    observations: broadcast::Sender<Observed>,
    health: Health,
    /// Status that the health service reports.
    status: ServingStatus,
    phase: Phase,
    gatekeeper: Option<Gatekeeper>,
    runtime: Shared,
    clock: Clock,
    alarm: Alarm,
    budget: Budget,
    log: Log,
    frame: Frame,
}

/// Receivers of the driver's notifications.
pub(crate) struct Audience {
    pub(crate) observations: broadcast::Sender<Observed>,
    pub(crate) events: Arc<EventQueue>,
    pub(crate) health: Health,
}

/// Driver's state of a stream.
pub(crate) struct Stream {
    pub(crate) id: StreamId,
    /// Node id; empty until the client is identified.
    pub(crate) node: Arc<str>,
    pub(crate) peer: Peer,
    pub(crate) variant: Variant,
    slot: Arc<Slot>,
    credit: Arc<Notify>,
    speech: Speech,
    /// Input of the authorizer; `None` after it was called.
    applicant: Option<Box<Applicant>>,
    /// Task that reads requests.
    _reader: Task,
    /// Task that runs the authorizer.
    _decision: Option<Task>,
}

/// Kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Stream of requests.
    Stream,
    /// Unary call with one request and one response.
    Fetch,
}

/// Whether a call has delivered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Nothing,
    Something,
}

/// Whether the client may send further requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speech {
    GoesOn,
    /// The client has half-closed the stream.
    Over,
}

/// Maximum number of inputs per iteration.
const INPUTS_PER_TURN: usize = 1_000;

/// Maximum bytes of requests per iteration; the last request may exceed it. Afterwards responses
/// are sent. The cost of a request is proportional to its length.
const BYTES_PER_TURN: usize = 256 << 10;

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
        outlet: Outlet,
        audience: Audience,
        runtime: Shared,
    ) -> Self {
        let Audience { observations, events, health } = audience;
        guard_references(&mut config);
        if options.authorizer.is_some() {
            config.admission = Admission::Asked;
        }
        let status = match config.readiness {
            Readiness::Ready => ServingStatus::Serving,
            _ => ServingStatus::NotServing,
        };
        let clock = Clock::start(runtime.clone());
        let seed = options.seed.unwrap_or_else(crate::clock::entropy);
        Self {
            server: Server::new(config, seed, clock.now()),
            outlet,
            inbox: inbox.downgrade(),
            waits: Waits::default(),
            events,
            event_capacity: options.event_capacity.max(1),
            streams: HashMap::new(),
            writable: Vec::new(),
            unread: Vec::new(),
            observations,
            health,
            status,
            phase: Phase::Serving,
            gatekeeper: options.authorizer.clone(),
            alarm: Alarm::new(runtime.clone()),
            runtime,
            clock,
            budget: Budget::default(),
            log: Log::new(options.printer.clone()),
            frame: Frame::default(),
        }
    }

    /// Runs until the server is shut down or nothing can reach it any more.
    pub(crate) async fn run(mut self) {
        let mut inputs = Vec::new();
        // Inputs left from the previous iteration.
        let mut rest = VecDeque::new();
        loop {
            self.budget.spend().await;
            self.health.set(self.status).await;
            self.log.left_out(self.clock.now());
            if rest.is_empty() {
                let core = self.server.poll_timeout().map(|due| due.at);
                let due = [core, self.log.due()].into_iter().flatten().min();
                self.alarm.set(due.map(|due| self.clock.instant(due)));
                let count = select! {
                    count = self.outlet.recv_many(&mut inputs, INPUTS_PER_TURN) => Some(count),
                    () = self.alarm.ring() => None,
                };
                match count {
                    Some(0) => self.end(),
                    Some(_) => rest.extend(inputs.drain(..)),
                    None => self.server.handle_timeout(self.clock.now()),
                }
            } else {
                self.server.handle_timeout(self.clock.now());
            }
            self.take_some(&mut rest);
            self.obey();
            if self.phase == Phase::Ended {
                return;
            }
            self.transmit();
            self.read_on();
        }
    }

    fn take_some(&mut self, inputs: &mut VecDeque<Input>) {
        let mut bytes = 0;
        while bytes < BYTES_PER_TURN
            && let Some(input) = inputs.pop_front()
        {
            if let Input::Request(_, message) = &input {
                bytes += message.len();
            }
            self.take(input);
            // Observations of a stream are logged before the stream is removed.
            self.obey();
        }
    }

    fn take(&mut self, input: Input) {
        let now = self.clock.now();
        match input {
            Input::Accept { call, answer } => {
                // If the caller is gone, the dropped body closes the stream.
                let _ = answer.send(self.accept(*call));
            }
            Input::Request(id, message) => self.take_request(id, message),
            Input::Undeliverable(id, why) => {
                if self.streams.contains_key(&id) {
                    self.server.handle_event(StreamEvent::Malformed(id, why), now);
                }
            }
            Input::TooLong(id, why) => {
                if self.streams.contains_key(&id) {
                    self.server.handle_event(StreamEvent::TooLong(id, why), now);
                }
            }
            Input::Room(id) => self.writable.push(id),
            Input::Closed(id) => self.close(id),
            Input::HalfClosed(id) => {
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.speech = Speech::Over;
                    self.server.handle_event(StreamEvent::HalfClosed(id), now);
                }
            }
            Input::Decided(id, permission) => self.decided(id, permission),
            Input::Command(command) => command.carry_out(&mut self.server, now),
            Input::Ready(answer) => {
                self.server.set_ready(now);
                if self.phase == Phase::Serving {
                    self.status = ServingStatus::Serving;
                }
                let _ = answer.send(());
            }
            Input::Converge { target, answer } => {
                self.waits.add(&mut self.server, target, answer, now);
            }
            Input::EventsRead => {}
            Input::EventsWanted => {
                let questions = self.server.open_questions().filter_map(ServerEvent::of);
                self.events.begin(questions);
            }
            Input::Drain(plan) => {
                self.phase = Phase::Draining;
                self.status = ServingStatus::NotServing;
                self.server.drain(plan, now);
            }
            Input::ShutDown => self.end(),
        }
    }

    fn end(&mut self) {
        self.waits.end();
        self.server.shut_down(self.clock.now());
        self.phase = Phase::Ended;
    }

    /// Handles the end of a stream by the client.
    fn close(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.remove(&id) {
            self.log.gone(&stream);
            stream.slot.end(Status::ok(""));
            self.server.handle_event(StreamEvent::Closed(id), self.clock.now());
        }
    }

    fn accept(&mut self, call: Call) -> Result<ResponseBody, Refusal> {
        let variant = call.via.variant();
        let kind = if matches!(call.via, Via::Fetch { .. }) { Kind::Fetch } else { Kind::Stream };
        let now = self.clock.now();
        let id = self
            .server
            .accept(call.via, now)
            .inspect_err(|refusal| self.log.refused(&call.peer, refusal, now))?;
        // The sender of the call holds an inbox, unless it is gone. Then the stream is not needed.
        let Some(inbox) = self.inbox.upgrade() else {
            self.server.handle_event(StreamEvent::Closed(id), self.clock.now());
            return Err(Refusal::ShuttingDown);
        };
        let (slot, credit) = (Arc::new(Slot::default()), Arc::new(Notify::new()));
        let reader = read(
            id,
            kind,
            call.requests,
            call.max_request_bytes,
            Arc::clone(&credit),
            inbox.clone(),
        );
        let applicant = self.gatekeeper.is_some().then(|| {
            Box::new(Applicant {
                stream: id,
                node_id: Arc::default(),
                encoded_node: Bytes::new(),
                peer: call.peer.clone(),
                metadata: call.metadata,
            })
        });
        let stream = Stream {
            id,
            node: Arc::default(),
            peer: call.peer,
            variant,
            slot: Arc::clone(&slot),
            credit,
            speech: Speech::GoesOn,
            applicant,
            _reader: self.runtime.start(reader),
            _decision: None,
        };
        self.streams.insert(id, stream);
        self.unread.push(id);
        Ok(ResponseBody::new(id, slot, inbox))
    }

    fn take_request(&mut self, id: StreamId, message: Bytes) {
        let Some(stream) = self.streams.get(&id) else { return };
        self.log.received(stream, &message);
        self.unread.push(id);
        self.server.handle_event(StreamEvent::Message(id, message), self.clock.now());
    }

    /// Processes the core's outputs: closes streams and forwards observations and events.
    fn obey(&mut self) {
        while let Some(output) = self.server.poll_output() {
            match output {
                ServerOutput::Writable(id) => self.writable.push(id),
                ServerOutput::Close(id, reason) => {
                    if let Some(stream) = self.streams.remove(&id) {
                        self.log.closed(&stream, &reason, self.clock.now());
                        let code = Code::from_i32(reason.code().as_i32());
                        let status = Status::new(code, reason.to_string());
                        match reason {
                            CloseReason::ShuttingDown | CloseReason::StreamAge => {
                                stream.slot.end(status);
                            }
                            _ => stream.slot.cut(status),
                        }
                    }
                }
                ServerOutput::Finished(id) => {
                    if let Some(stream) = self.streams.remove(&id) {
                        if stream.speech == Speech::Over {
                            self.log.gone(&stream);
                        }
                        stream.slot.end(Status::ok(""));
                    }
                }
                ServerOutput::Observed(observation) => self.observe(observation),
                ServerOutput::Authorize { stream, .. } if self.gatekeeper.is_some() => {
                    self.authorize(stream);
                }
                ServerOutput::Converged { view, type_url, sequence } => {
                    self.waits.converged(&Target { view, type_url, sequence });
                }
                ServerOutput::Drained => self.phase = Phase::Ended,
                output => {
                    if let Some(event) = ServerEvent::of(output) {
                        self.events.push(event);
                    }
                }
            }
        }
    }

    fn observe(&mut self, observation: Observation) {
        let stream = self.streams.get_mut(&observation.stream());
        if let Some(stream) = stream {
            if let Observation::Identified { node_id, node, .. } = &observation {
                stream.node = Arc::clone(node_id);
                if let Some(applicant) = &mut stream.applicant {
                    applicant.node_id = Arc::clone(node_id);
                    applicant.encoded_node = node.clone();
                }
            }
            self.log.observed(stream, &observation);
        }
        if self.observations.receiver_count() > 0 {
            // The last receiver may have been dropped just now.
            let _ = self.observations.send(Observed::Event(observation));
        }
    }

    /// Starts the authorizer for a stream.
    fn authorize(&mut self, id: StreamId) {
        let Some(gatekeeper) = self.gatekeeper.clone() else { return };
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let (Some(applicant), Some(inbox)) = (stream.applicant.take(), self.inbox.upgrade()) else {
            return;
        };
        stream._decision = Some(self.runtime.start(gatekeeper.decide(*applicant, inbox)));
    }

    fn decided(&mut self, id: StreamId, permission: Permission) {
        if !self.streams.contains_key(&id) {
            return;
        }
        let now = self.clock.now();
        match permission {
            Ok(admitted) => {
                if let Some(limits) = admitted.limits {
                    self.server.limit_client(id, limits, now);
                }
                self.server.assign(id, &admitted.view, now);
            }
            Err(why) => self.server.refuse(id, why.code, why.message, now),
        }
    }

    /// Renders responses for streams that are ready for one.
    fn transmit(&mut self) {
        while !self.writable.is_empty() {
            let mut writable = core::mem::take(&mut self.writable);
            writable.drain(..).for_each(|id| self.transmit_to(id));
            // Rendering may cause observations.
            self.obey();
        }
    }

    fn transmit_to(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get(&id) else { return };
        while stream.slot.has_room() {
            let now = self.clock.now();
            let Some(transmit) = self.server.poll_transmit(id, now, &mut self.frame) else {
                return;
            };
            let bytes = self.frame.len();
            if u32::try_from(bytes).is_err() {
                let why = format!("a response of {bytes} bytes is longer than gRPC can carry");
                stream.slot.end(Status::resource_exhausted(why));
                self.streams.remove(&id);
                return self.server.handle_event(StreamEvent::Closed(id), now);
            }
            self.log.sent(stream, &transmit, &self.frame);
            stream.slot.put(&mut self.frame);
        }
    }

    /// Permits the readers to read whose requests the core wants.
    fn read_on(&mut self) {
        if self.events.is_full(self.event_capacity) {
            return;
        }
        let (streams, server) = (&self.streams, &self.server);
        self.unread.retain(|id| match streams.get(id) {
            Some(stream) if server.wants_read(*id) => {
                stream.credit.notify_one();
                false
            }
            Some(_) => true,
            None => false,
        });
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

/// Reads a stream's requests, one per permission.
async fn read(
    id: StreamId,
    kind: Kind,
    mut requests: Streaming<Bytes>,
    limit: usize,
    credit: Arc<Notify>,
    inbox: Inbox,
) {
    let mut asked = Asked::Nothing;
    loop {
        credit.notified().await;
        match requests.message().await {
            Ok(Some(message)) => {
                asked = Asked::Something;
                inbox.send(Input::Request(id, message));
            }
            Ok(None) if (kind, asked) == (Kind::Fetch, Asked::Nothing) => {
                return inbox.send(Input::Undeliverable(id, "a fetch without a request".into()));
            }
            // The response may still be pending. If the client disconnects, the response body is
            // dropped.
            Ok(None) if kind == Kind::Fetch => return,
            Ok(None) => return inbox.send(Input::HalfClosed(id)),
            Err(status) => return inbox.send(unreadable(id, &status, limit)),
        }
    }
}

/// Maps an error of the request stream to an input: an invalid message or a closed stream.
fn unreadable(id: StreamId, status: &Status, limit: usize) -> Input {
    if let Some(why) = over_size_limit(status, limit) {
        return Input::TooLong(id, why.into());
    }
    // An error without a source is about the message, otherwise about the connection.
    match (status.code(), core::error::Error::source(status)) {
        (Code::Internal, None) => Input::Undeliverable(id, with_causes(status).into()),
        _ => Input::Closed(id),
    }
}
