//! Connection that carries the streams of many simulated clients, driven by one task.

use core::{
    error::Error as _,
    future::{Future, pending},
    pin::Pin,
};
use std::{collections::BTreeSet, sync::Arc, time::Instant};

use bytes::Bytes;
use futures_util::{
    StreamExt as _,
    future::{AbortHandle, Abortable},
    stream::{self, FuturesUnordered},
};
use tokio::{
    select,
    sync::{Mutex, Notify, mpsc},
    time::sleep_until,
};
use tonic::{Code, Status, Streaming};
use xds_core::{
    ChannelId, Frame, StatusCode, Time,
    client::{ChannelError, ChannelEvent, RequestCause},
};
use xds_tokio::{
    ClientOptions,
    client::{CallConnection, Service, Unreachable, open_calls},
};

use super::client::{ClientAction, SimulatedClient};
use crate::{resource_events::explained, tls_advice::TlsOptions};

/// Event of a client that is measured.
#[derive(Clone, Debug)]
pub(super) enum Observation {
    /// The stream was requested. It waits until the server accepts it: also in this process, if the
    /// server allows fewer streams on a connection.
    Requested,
    /// The server accepted the stream: its response headers arrived.
    Opened,
    /// The stream ended, or the attempt to open it.
    Ended(EndedStream),
    /// A response of this size arrived.
    Response(usize),
    /// A response was ACKed.
    Ack,
    /// A response was NACKed.
    Nack,
}

/// Stream that ended.
#[derive(Clone, Debug)]
pub(super) struct EndedStream {
    pub(super) state: StreamState,
    /// Whether the server ended it before its first response.
    pub(super) is_refused: bool,
    pub(super) why: String,
}

/// State of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamState {
    /// The connection is being established.
    Connecting,
    /// The stream was requested, and the server has not accepted it yet.
    Waiting,
    Open,
}

/// Time and observation.
pub(super) type Observed = (Instant, Observation);

/// Address of the server, and how to connect to it.
#[derive(Debug)]
pub(super) struct Dialer {
    pub(super) service: Service,
    pub(super) options: ClientOptions,
    /// Path of the method.
    pub(super) path: &'static str,
    /// Time zero of the clients.
    pub(super) start: Instant,
}

/// Connection, which is established again when it is lost.
#[derive(Debug, Default)]
struct Link(Mutex<Option<Arc<CallConnection>>>);

impl Link {
    async fn get(&self, dialer: &Dialer) -> Result<Arc<CallConnection>, Unreachable> {
        let mut connection = self.0.lock().await;
        if let Some(connection) = &*connection {
            return Ok(Arc::clone(connection));
        }
        let new = Arc::new(open_calls(dialer.service.clone(), &dialer.options).await?);
        *connection = Some(Arc::clone(&new));
        Ok(new)
    }

    /// Forgets a lost connection.
    async fn forget(&self, lost: &Arc<CallConnection>) {
        self.0.lock().await.take_if(|connection| Arc::ptr_eq(connection, lost));
    }
}

/// Stream of a client.
#[derive(Debug)]
struct ClientStream {
    channel: ChannelId,
    requests: mpsc::UnboundedSender<Bytes>,
    /// Connection that carries it; `None` while there is none.
    connection: Option<Arc<CallConnection>>,
    /// Ends the future that opens the stream or reads from it.
    reader: AbortHandle,
    /// Responses that are not read for now.
    unread: Option<Streaming<Bytes>>,
    state: StreamState,
    has_response: bool,
}

/// Side that ended a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndedBy {
    Server,
    /// The simulated client, or the network.
    Other,
}

impl ClientStream {
    fn ended(&self, by: EndedBy, why: String) -> Observation {
        let is_refused = by == EndedBy::Server && !self.has_response;
        Observation::Ended(EndedStream { state: self.state, is_refused, why })
    }
}

#[derive(Debug)]
struct Slot {
    client: SimulatedClient,
    stream: Option<ClientStream>,
    /// Time under which it is listed in the timers.
    due: Option<Time>,
}

/// Result of a future that opens a stream or reads from it.
enum Event {
    Dialed(Result<Arc<CallConnection>, Unreachable>, mpsc::UnboundedReceiver<Bytes>),
    /// The server has begun to respond.
    Responding(Streaming<Bytes>),
    Message(Streaming<Bytes>, Bytes),
    Ended(Status),
}

type EventFuture = Pin<Box<dyn Future<Output = Option<(usize, ChannelId, Event)>> + Send>>;

/// Clients that share a connection.
pub(super) struct Connection {
    dialer: Arc<Dialer>,
    link: Arc<Link>,
    slots: Vec<Slot>,
    events: FuturesUnordered<EventFuture>,
    timers: BTreeSet<(Time, usize)>,
    frame: Frame,
    observed: mpsc::UnboundedSender<Observed>,
}

impl Connection {
    pub(super) fn new(
        dialer: Arc<Dialer>,
        clients: impl IntoIterator<Item = SimulatedClient>,
        observed: mpsc::UnboundedSender<Observed>,
    ) -> Self {
        let slots = clients.into_iter().map(|client| Slot { client, stream: None, due: None });
        Self {
            dialer,
            link: Arc::default(),
            slots: slots.collect(),
            events: FuturesUnordered::new(),
            timers: BTreeSet::new(),
            frame: Frame::default(),
            observed,
        }
    }

    /// Drives the clients until the future is dropped. Each notification breaks the connection.
    pub(super) async fn run(mut self, break_now: Arc<Notify>) {
        for at in 0..self.slots.len() {
            self.drive(at);
        }
        loop {
            let due = self.timers.first().map(|(due, _)| *due);
            let start = self.dialer.start;
            select! {
                biased;
                () = break_now.notified() => self.break_off().await,
                Some(event) = self.events.next(), if !self.events.is_empty() => {
                    if let Some((at, channel, event)) = event {
                        self.on_event(at, channel, event).await;
                        self.drive(at);
                    }
                }
                () = wait_until(due, start) => self.on_timers(),
            }
        }
    }

    fn now(&self) -> Time {
        Time::ZERO.after(self.dialer.start.elapsed())
    }

    fn observe(&self, observation: Observation) {
        // Nobody receives it once the command ends.
        let _ = self.observed.send((Instant::now(), observation));
    }

    fn on_timers(&mut self) {
        let now = self.now();
        while let Some(&(due, at)) = self.timers.first().filter(|(due, _)| *due <= now) {
            self.timers.remove(&(due, at));
            if let Some(slot) = self.slots.get_mut(at) {
                slot.due = None;
            }
            self.drive(at);
        }
    }

    /// Performs what a client wants.
    fn drive(&mut self, at: usize) {
        let now = self.now();
        while let Some(action) = self.slots.get_mut(at).and_then(|slot| slot.client.poll(now)) {
            match action {
                ClientAction::Open(channel) => self.open(at, channel),
                ClientAction::Close(channel) => {
                    let Some(slot) = self.slots.get_mut(at) else { return };
                    if let Some(stream) = slot.stream.take_if(|it| it.channel == channel) {
                        stream.reader.abort();
                        let why = "closed by the client".to_owned();
                        self.observe(stream.ended(EndedBy::Other, why));
                    }
                }
                ClientAction::Transmit(channel) => self.transmit(at, channel, now),
            }
        }
        let Some(slot) = self.slots.get_mut(at) else { return };
        if let Some(stream) = &mut slot.stream
            && slot.client.wants_read(stream.channel)
            && let Some(responses) = stream.unread.take()
        {
            let channel = stream.channel;
            stream.reader = start(&self.events, at, channel, read(responses));
        }
        let due = slot.client.due();
        if due != slot.due {
            if let Some(old) = core::mem::replace(&mut slot.due, due) {
                self.timers.remove(&(old, at));
            }
            self.timers.extend(due.map(|due| (due, at)));
        }
    }

    fn open(&mut self, at: usize, channel: ChannelId) {
        let (requests, queued) = mpsc::unbounded_channel();
        let (link, dialer) = (Arc::clone(&self.link), Arc::clone(&self.dialer));
        let dialed = async move { Event::Dialed(link.get(&dialer).await, queued) };
        let reader = start(&self.events, at, channel, dialed);
        if let Some(slot) = self.slots.get_mut(at) {
            slot.stream = Some(ClientStream {
                channel,
                requests,
                connection: None,
                reader,
                unread: None,
                state: StreamState::Connecting,
                has_response: false,
            });
        }
    }

    fn transmit(&mut self, at: usize, channel: ChannelId, now: Time) {
        let Some(slot) = self.slots.get_mut(at) else { return };
        let mut answers = Vec::new();
        while let Some(cause) = slot.client.poll_transmit(channel, now, &mut self.frame) {
            answers.extend(match cause {
                RequestCause::Ack => Some(Observation::Ack),
                RequestCause::Nack { .. } => Some(Observation::Nack),
                _ => None,
            });
            if let Some(stream) = slot.stream.as_ref().filter(|it| it.channel == channel) {
                // The stream has ended if it is not received; an event reports that.
                let _ = stream.requests.send(self.frame.to_bytes());
            }
        }
        answers.into_iter().for_each(|answer| self.observe(answer));
    }

    async fn on_event(&mut self, at: usize, channel: ChannelId, event: Event) {
        let now = self.now();
        let Some(slot) = self.slots.get_mut(at) else { return };
        let Some(stream) = slot.stream.as_mut() else { return };
        match event {
            Event::Dialed(Err(why), _) => {
                let why = ChannelError::Unreachable(why.to_string().into());
                self.ended(at, channel, why, EndedBy::Other);
            }
            Event::Dialed(Ok(connection), requests) => {
                let responding = respond(Arc::clone(&connection), self.dialer.path, requests);
                stream.reader = start(&self.events, at, channel, responding);
                stream.connection = Some(connection);
                stream.state = StreamState::Waiting;
                slot.client.handle_event(ChannelEvent::Opened(channel), now);
                self.observe(Observation::Requested);
            }
            Event::Responding(responses) => {
                stream.unread = Some(responses);
                stream.state = StreamState::Open;
                self.observe(Observation::Opened);
            }
            Event::Message(responses, message) => {
                stream.unread = Some(responses);
                stream.has_response = true;
                let bytes = message.len();
                slot.client.handle_event(ChannelEvent::Message(channel, message), now);
                self.observe(Observation::Response(bytes));
            }
            Event::Ended(status) => {
                // The connection may be lost: the next attempt makes a new one.
                let connection = stream.connection.clone();
                if let Some(lost) = connection.filter(|_| status.code() == Code::Unavailable) {
                    self.link.forget(&lost).await;
                }
                // An error of the connection has a source; a status of the server has none.
                let by = status.source().map_or(EndedBy::Server, |_| EndedBy::Other);
                self.ended(at, channel, error(&status), by);
            }
        }
    }

    /// Reports the end of a stream, or of the attempt to open it.
    fn ended(&mut self, at: usize, channel: ChannelId, why: ChannelError, by: EndedBy) {
        let now = self.now();
        let Some(slot) = self.slots.get_mut(at) else { return };
        let Some(stream) = slot.stream.take() else { return };
        stream.reader.abort();
        let text = match &why {
            ChannelError::Status { code, message } => explained(&why.to_string(), *code, message),
            _ => TlsOptions::Server.named_in(&why.to_string()),
        };
        slot.client.handle_event(ChannelEvent::Closed(channel, why), now);
        self.observe(stream.ended(by, text));
    }

    /// Breaks the connection. The clients reconnect after their backoff.
    async fn break_off(&mut self) {
        self.link.0.lock().await.take();
        for at in 0..self.slots.len() {
            let stream = self.slots.get(at).and_then(|slot| slot.stream.as_ref());
            let Some(channel) = stream.map(|stream| stream.channel) else { continue };
            let why = error(&Status::unavailable("broken by --reconnect-every"));
            self.ended(at, channel, why, EndedBy::Other);
            self.drive(at);
        }
    }
}

/// Adds a future to the events.
fn start(
    events: &FuturesUnordered<EventFuture>,
    at: usize,
    channel: ChannelId,
    future: impl Future<Output = Event> + Send + 'static,
) -> AbortHandle {
    let (handle, registration) = AbortHandle::new_pair();
    let future = Abortable::new(future, registration);
    events.push(Box::pin(async move { Some((at, channel, future.await.ok()?)) }));
    handle
}

/// Starts the call, and waits until the server responds.
async fn respond(
    connection: Arc<CallConnection>,
    path: &'static str,
    requests: mpsc::UnboundedReceiver<Bytes>,
) -> Event {
    let requests =
        stream::unfold(requests, async |mut requests| Some((requests.recv().await?, requests)));
    connection.stream(path, requests).await.map_or_else(Event::Ended, Event::Responding)
}

async fn read(mut responses: Streaming<Bytes>) -> Event {
    match responses.message().await {
        Ok(Some(message)) => Event::Message(responses, message),
        Ok(None) => Event::Ended(Status::ok("the stream ended")),
        Err(status) => Event::Ended(status),
    }
}

fn error(status: &Status) -> ChannelError {
    let code = StatusCode::from_i32(status.code().into());
    ChannelError::Status { code, message: status.message().into() }
}

async fn wait_until(due: Option<Time>, start: Instant) {
    match due {
        Some(due) => sleep_until((start + due.since(Time::ZERO)).into()).await,
        None => pending().await,
    }
}
