//! Queue of all inputs of a server's driver.
//!
//! The queue is unbounded, so that neither the application nor a dropped stream has to wait. It
//! stays short nevertheless: each stream has at most one request, one readiness notification and
//! one end in it, and application calls wait for their results. The driver empties it in each
//! iteration, and decides which inputs to handle first.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::{mpsc, oneshot};
use xds_core::{
    StreamId, Time, TypeUrl, ViewName,
    server::{DrainPlan, Refusal, Server, StreamKind, TooManyWaits},
};

use super::{body::ResponseBody, requests::RequestLimit, rollouts::HostedRollouts};
use crate::server::{
    access::{authorize::AuthorizationDecision, peer::Peer},
    calls::message_reader::MessageReader,
    memory::responses::ConnectionResponses,
};

#[derive(Debug)]
pub(crate) enum Input {
    /// A client makes a call.
    Accept {
        call: Box<IncomingCall>,
        reply: oneshot::Sender<Result<ResponseBody, Refusal>>,
    },
    Request(StreamId, Bytes),
    /// A request cannot be decoded.
    Malformed(StreamId, Arc<str>),
    /// A request exceeds the size limit.
    TooLong(StreamId, Arc<str>),
    /// The transport of a stream is ready for a response.
    SlotFree(StreamId),
    /// Memory of responses was released, or is exhausted.
    ResponseMemory,
    Closed(StreamId),
    /// The server ends the connection of a stream.
    Evicted(StreamId),
    /// The client has half-closed the stream and can still receive responses.
    HalfClosed(StreamId),
    /// Decision of the authorizer.
    Decided(StreamId, AuthorizationDecision),
    /// Call into the core server and its rollouts.
    Command(Command),
    /// The application has set its resources.
    Ready(oneshot::Sender<()>),
    /// The application waits until all clients have accepted a change.
    Converge {
        target: ConvergenceTarget,
        reply: oneshot::Sender<Result<(), TooManyWaits>>,
    },
    /// An event was read, and the driver waited for space.
    EventsRead,
    /// The first reader of events subscribed.
    EventsSubscribed,
    Drain(DrainPlan),
    ShutDown,
}

impl Input {
    /// Returns the open stream that the input belongs to.
    pub(crate) fn stream(&self) -> Option<StreamId> {
        match self {
            Self::Request(id, _)
            | Self::Malformed(id, _)
            | Self::TooLong(id, _)
            | Self::SlotFree(id)
            | Self::Closed(id)
            | Self::Evicted(id)
            | Self::HalfClosed(id)
            | Self::Decided(id, _) => Some(*id),
            Self::Accept { .. }
            | Self::ResponseMemory
            | Self::Command(_)
            | Self::Ready(_)
            | Self::Converge { .. }
            | Self::EventsRead
            | Self::EventsSubscribed
            | Self::Drain(_)
            | Self::ShutDown => None,
        }
    }
}

/// Change of a type in a view.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConvergenceTarget {
    pub(crate) view: ViewName,
    pub(crate) type_url: TypeUrl,
    pub(crate) sequence: u64,
}

/// Function that the driver calls with the rollouts and the core server.
pub(crate) struct Command {
    /// Connection on whose behalf it is called; `None` for the application.
    pub(crate) caller: Option<u64>,
    work: Box<dyn Work>,
}

trait Work: Send {
    /// Whether the caller still waits for the result.
    fn is_awaited(&self) -> bool;

    fn run(self: Box<Self>, rollouts: &mut HostedRollouts, server: &mut Server, now: Time);
}

/// Function whose result is sent to the caller.
struct Call<T, F> {
    function: F,
    reply: oneshot::Sender<T>,
}

impl<T, F> Work for Call<T, F>
where
    T: Send,
    F: FnOnce(&mut HostedRollouts, &mut Server, Time) -> T + Send,
{
    fn is_awaited(&self) -> bool {
        !self.reply.is_closed()
    }

    fn run(self: Box<Self>, rollouts: &mut HostedRollouts, server: &mut Server, now: Time) {
        // The caller may have dropped the future.
        let _ = self.reply.send((self.function)(rollouts, server, now));
    }
}

impl Command {
    /// Whether the caller still waits for the result.
    pub(crate) fn is_awaited(&self) -> bool {
        self.work.is_awaited()
    }

    /// Calls the function. One of a connection is skipped if its call has ended.
    pub(crate) fn run(self, rollouts: &mut HostedRollouts, server: &mut Server, now: Time) {
        if self.caller.is_none() || self.is_awaited() {
            self.work.run(rollouts, server, now);
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Command")
    }
}

/// Call to be accepted as a stream.
#[derive(Debug)]
pub(crate) struct IncomingCall {
    pub(crate) via: StreamKind,
    pub(crate) requests: MessageReader,
    /// Maximum size of a request, as enforced by `requests`.
    pub(crate) request_limit: RequestLimit,
    /// Memory of the responses of the connection.
    pub(crate) responses: ConnectionResponses,
    pub(crate) peer: Peer,
    pub(crate) metadata: HeaderMap,
}

/// Sender of the queue.
#[derive(Clone, Debug)]
pub(crate) struct Inbox(mpsc::UnboundedSender<Input>);

/// Sender that does not keep the driver alive.
#[derive(Clone, Debug)]
pub(crate) struct WeakInbox(mpsc::WeakUnboundedSender<Input>);

impl WeakInbox {
    pub(crate) fn upgrade(&self) -> Option<Inbox> {
        self.0.upgrade().map(Inbox)
    }
}

/// Receiver of the queue.
pub(crate) type InputReceiver = mpsc::UnboundedReceiver<Input>;

impl Inbox {
    pub(crate) fn new() -> (Self, InputReceiver) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    pub(crate) fn downgrade(&self) -> WeakInbox {
        WeakInbox(self.0.downgrade())
    }

    /// Queues an input. If the driver has ended, the input is dropped, which cancels a waiting
    /// call.
    pub(crate) fn send(&self, input: Input) {
        let _ = self.0.send(input);
    }

    /// Sends an input with a reply channel and waits for the reply; `None` if the driver has ended.
    pub(crate) async fn call<T>(
        &self,
        input: impl FnOnce(oneshot::Sender<T>) -> Input,
    ) -> Option<T> {
        let (reply, response) = oneshot::channel();
        self.send(input(reply));
        response.await.ok()
    }

    /// Calls a function with the rollouts and the core server, on behalf of a connection or of the
    /// application, and returns its result; `None` if the driver has ended.
    pub(crate) async fn command<T: Send + 'static>(
        &self,
        caller: Option<u64>,
        command: impl FnOnce(&mut HostedRollouts, &mut Server, Time) -> T + Send + 'static,
    ) -> Option<T> {
        self.call(|reply| {
            Input::Command(Command { caller, work: Box::new(Call { function: command, reply }) })
        })
        .await
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.0.is_closed()
    }

    /// Waits until the driver has ended.
    pub(crate) async fn ended(&self) {
        self.0.closed().await;
    }
}
