//! Driver task of a client: connects a core [`Client`] to its links, commands and timers.
//!
//! Each iteration takes every available command before it renders a request, so that commands
//! issued together share one request.

use core::{future::poll_fn, task::Poll, time::Duration};
use std::{collections::BTreeMap, sync::Arc, time::Instant};

use tokio::select;
use xds_core::{
    ChannelId, Client, Frame, StatusCode,
    client::{Call, ChannelError, ChannelEvent, ClientConfig, Output, TransportId},
};
use xds_handle::{ApplyOutcome, DriverSide, prepare};

use super::{
    link::{Link, LinkEvent, ReadMode},
    log::Log,
    options::ClientOptions,
    rotation::Rotation,
};
use crate::{
    clock::Clock,
    grpc::{over_size_limit, status_parts},
    runtime::{Alarm, Budget, SharedRuntime},
    zoo::{self, Bug},
};

/// Driver of one client. Owns the core client, its links and the receiving end of the command
/// queue.
pub(crate) struct Driver {
    client: Client,
    side: DriverSide,
    /// One per channel of the core; few.
    links: Vec<Link>,
    options: ClientOptions,
    /// Number of failed attempts per transport, which selects the next service.
    failures: BTreeMap<TransportId, usize>,
    max_response_bytes: usize,
    runtime: SharedRuntime,
    clock: Clock,
    alarm: Alarm,
    budget: Budget,
    log: Log,
    frame: Frame,
    stall: Stall,
    /// Fair polling of the links.
    rotation: Rotation,
}

/// Maximum number of consecutive command batches before requests are rendered.
const MAX_COMMAND_BATCHES: usize = 128;

/// Input of a driver, apart from timeouts.
enum DriverInput {
    Commands,
    /// Event of the link at this position.
    Link(usize, LinkEvent),
}

impl Driver {
    pub(crate) fn new(
        config: ClientConfig,
        options: ClientOptions,
        side: DriverSide,
        runtime: SharedRuntime,
    ) -> Self {
        let clock = Clock::start(runtime.clone());
        let seed = options.seed.unwrap_or_else(|| runtime.runtime().entropy());
        let log = Log::new(Arc::from(config.node.id()), options.printer.clone());
        let max_response_bytes = config.limits.response_bytes;
        let config = prepare(config);
        Self {
            client: Client::new(config, seed, clock.now()),
            side,
            links: Vec::new(),
            options,
            failures: BTreeMap::new(),
            max_response_bytes,
            alarm: Alarm::new(runtime.clone()),
            runtime,
            clock,
            budget: Budget::default(),
            log,
            frame: Frame::default(),
            stall: Stall::default(),
            rotation: Rotation::default(),
        }
    }

    /// Runs until the client is shut down or its last handle and watch are dropped.
    pub(crate) async fn run(mut self) {
        let mut commands_first = false;
        loop {
            self.budget.spend().await;
            self.process_outputs();
            self.transmit();
            self.watch_for_stalls();
            self.log.report_suppressed(self.clock.now());
            let reading = |client: &Client, id| {
                if client.wants_read(id) { ReadMode::Read } else { ReadMode::Pause }
            };
            self.alarm.set(self.due());
            // Commands and links take turns to go first, because the input of either may never end.
            commands_first = !commands_first;
            let input = poll_fn(|cx| {
                if commands_first && self.side.poll_ready(cx).is_ready() {
                    return Poll::Ready(DriverInput::Commands);
                }
                let link_event = self
                    .rotation
                    .poll(&mut self.links, |link| link.poll(reading(&self.client, link.id), cx));
                if let Poll::Ready((at, link_event)) = link_event {
                    return Poll::Ready(DriverInput::Link(at, link_event));
                }
                let is_asked = !commands_first && !zoo::is(Bug::CommandWakerLost);
                if is_asked && self.side.poll_ready(cx).is_ready() {
                    return Poll::Ready(DriverInput::Commands);
                }
                Poll::Pending
            });
            select! {
                biased;
                () = self.alarm.ring() => self.client.handle_timeout(self.clock.now()),
                input = input => match input {
                    DriverInput::Commands => {
                        let has_ended = self.take_commands().await == ApplyOutcome::Ended;
                        if has_ended && !zoo::is(Bug::HandleDropIgnored) {
                            return self.process_outputs();
                        }
                    }
                    DriverInput::Link(at, link_event) => self.handle_link_event(at, link_event),
                },
            }
        }
    }

    /// Applies all queued commands, up to [`MAX_COMMAND_BATCHES`] batches.
    async fn take_commands(&mut self) -> ApplyOutcome {
        for _ in 0..MAX_COMMAND_BATCHES {
            let outcome = self.side.apply(&mut self.client, self.clock.now());
            if outcome != ApplyOutcome::More {
                return outcome;
            }
            self.budget.spend().await;
        }
        ApplyOutcome::More
    }

    fn handle_link_event(&mut self, at: usize, link_event: LinkEvent) {
        let Some(link) = self.links.get_mut(at) else { return };
        let id = link.id;
        let event = match link_event {
            LinkEvent::QueueSpace => return,
            LinkEvent::Opened => {
                self.log.opened(link);
                ChannelEvent::Opened(id)
            }
            LinkEvent::Message(message) => {
                #[cfg(feature = "files")]
                link.is_new_error(None);
                self.log.received(link, &message);
                ChannelEvent::Message(id, message)
            }
            #[cfg(feature = "rest")]
            LinkEvent::Unchanged => {
                self.log.unchanged(link);
                ChannelEvent::Unchanged(id)
            }
            #[cfg(feature = "rest")]
            LinkEvent::Malformed(why) => {
                let link = self.links.swap_remove(at);
                self.log.malformed(&link, &why);
                ChannelEvent::Undeliverable(id, why)
            }
            #[cfg(feature = "rest")]
            LinkEvent::Failed(error) => {
                let link = self.links.swap_remove(at);
                if link.responses == 0 {
                    self.advance_service(&link);
                }
                self.log.failed(&link, &error);
                ChannelEvent::Closed(id, error)
            }
            #[cfg(feature = "files")]
            LinkEvent::Unreadable(why) => {
                let is_new_error = link.is_new_error(Some(&why));
                self.log.unreadable(link, &why, is_new_error);
                ChannelEvent::Undeliverable(id, why)
            }
            LinkEvent::Unreachable(why) => {
                self.log.unreachable(link, &why);
                let link = self.links.swap_remove(at);
                self.advance_service(&link);
                ChannelEvent::Closed(id, ChannelError::Unreachable(why.into()))
            }
            LinkEvent::Ended(status) => {
                let link = self.links.swap_remove(at);
                let too_long = over_size_limit(&status, link.max_response_bytes);
                // A server without a usable answer must not be retried at once: try the next
                // service.
                if link.responses == 0 || too_long.is_some() {
                    self.advance_service(&link);
                }
                match too_long {
                    Some(why) => {
                        self.log.malformed(&link, why);
                        ChannelEvent::Undeliverable(id, why.into())
                    }
                    None => {
                        let (code, message) = status_parts(&status);
                        self.log.ended(&link, code.as_i32(), &message);
                        let message = message.into();
                        ChannelEvent::Closed(id, ChannelError::Status { code, message })
                    }
                }
            }
        };
        self.client.handle_event(event, self.clock.now());
        self.log.v2_resources(&self.client);
    }

    /// Advances to the next service of a transport after a link failed. Several links may have
    /// failed with the same service. A link without a method to call has not tried any.
    fn advance_service(&mut self, failed: &Link) {
        if !failed.has_method() {
            return;
        }
        let failures = self.failures.entry(failed.server.transport.clone()).or_default();
        *failures = (*failures).max(failed.failures.wrapping_add(1));
    }

    fn dial(&self, id: ChannelId, call: Call) -> Link {
        let failures = self.failures.get(&call.server.transport).copied().unwrap_or_default();
        Link::dial(id, call, &self.options, &self.runtime, self.max_response_bytes, failures)
    }

    /// Processes the core's outputs: opens and closes links, and delivers events to their watches.
    fn process_outputs(&mut self) {
        while let Some(output) = self.side.poll_output(&mut self.client, self.clock.now()) {
            match output {
                Output::Open(id, call) => {
                    let link = self.dial(id, call);
                    self.log.dialing(&link);
                    self.links.push(link);
                }
                Output::Close(id, fault) => {
                    if let Some(at) = self.links.iter().position(|link| link.id == id) {
                        let link = self.links.swap_remove(at);
                        self.log.closed(&link, fault.as_ref());
                        if fault.is_some() {
                            self.advance_service(&link);
                        }
                    }
                }
                Output::Writable(id) => {
                    if let Some(link) = self.links.iter_mut().find(|link| link.id == id) {
                        link.has_requests = true;
                    }
                }
                _ => {}
            }
        }
    }

    /// Renders requests into the free queues of links.
    fn transmit(&mut self) {
        let mut at = 0;
        while let Some(link) = self.links.get_mut(at) {
            at += 1;
            while link.has_requests && link.has_queue_space() {
                let now = self.clock.now();
                let Some(transmit) = self.client.poll_transmit(link.id, now, &mut self.frame)
                else {
                    link.has_requests = false;
                    break;
                };
                let message = self.frame.to_bytes();
                let (bytes, limit) = (message.len(), self.options.max_request_bytes);
                if bytes > limit {
                    self.log.request_too_long(link, bytes, limit);
                    let id = link.id;
                    at -= 1;
                    self.links.swap_remove(at);
                    self.client.handle_event(too_long(id, bytes, limit), now);
                    break;
                }
                self.log.sent(link, &transmit, &message, now);
                #[cfg(feature = "files")]
                if link.is_file() {
                    link.read_if_subscribed(&transmit.cause);
                    continue;
                }
                link.send(message);
            }
        }
    }

    /// Warns once if responses have not been read for [`STALL`].
    fn watch_for_stalls(&mut self) {
        let client = &self.client;
        let stalled =
            self.links.iter().find(|link| link.is_streaming() && !client.wants_read(link.id));
        match stalled {
            Some(link) => {
                if self.stall.is_due(self.clock.now_instant()) {
                    self.log.stalled(link, STALL.as_secs(), client);
                }
            }
            None => self.stall = Stall::default(),
        }
    }

    /// Returns the time of the next timeout.
    fn due(&self) -> Option<Instant> {
        let core = self.client.poll_timeout().map(|deadline| deadline.at);
        let due = [core, self.log.due()].into_iter().flatten().min();
        let due = due.map(|due| self.clock.instant(due));
        [due, self.stall.alarm].into_iter().flatten().min()
    }
}

/// Time without reading after which a warning is logged. Usually a watcher has failed to report an
/// event as handled.
// B52
const STALL: Duration = Duration::from_secs(5);

/// State of the warning about unread responses.
#[derive(Debug, Default)]
struct Stall {
    since: Option<Instant>,
    /// Time of the warning; `None` after it was logged.
    alarm: Option<Instant>,
}

impl Stall {
    fn is_due(&mut self, now: Instant) -> bool {
        if self.since.is_none() {
            self.since = Some(now);
            self.alarm = now.checked_add(STALL);
        }
        let is_due = self.alarm.is_some_and(|alarm| alarm <= now);
        if is_due {
            self.alarm = None;
        }
        is_due
    }
}

fn too_long(id: ChannelId, bytes: usize, limit: usize) -> ChannelEvent {
    let message = format!("request of {bytes} bytes exceeds the limit of {limit} bytes");
    let code = StatusCode::ResourceExhausted;
    ChannelEvent::Closed(id, ChannelError::Status { code, message: message.into() })
}
