//! Everything that reaches the driver of a server, in one queue.
//!
//! The queue takes all, so that neither the application nor a dropped stream ever waits. It stays
//! short all the same: a stream has at most one request, one question for room and one end in it,
//! and whoever applies a transaction waits for the answer.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::{mpsc, oneshot};
use tonic::Streaming;
use xds_core::{
    StreamId, Time, TypeUrl, ViewName,
    server::{DrainPlan, Refusal, Server, TooManyWaits, Via},
};

use super::{authorize::Permission, body::ResponseBody, peer::Peer};

#[derive(Debug)]
pub(crate) enum Input {
    /// A client calls.
    Accept {
        call: Box<Call>,
        answer: oneshot::Sender<Result<ResponseBody, Refusal>>,
    },
    Request(StreamId, Bytes),
    /// A request that cannot be read.
    Undeliverable(StreamId, Arc<str>),
    /// A request is over the size limit.
    TooLong(StreamId, Arc<str>),
    /// The transport of the stream has room for the response it was asked about.
    Room(StreamId),
    Closed(StreamId),
    /// The client has nothing more to say, and may still listen.
    HalfClosed(StreamId),
    /// What the authorizer says of the client.
    Decided(StreamId, Permission),
    /// The application wants something of the core.
    Command(Command),
    /// The application has loaded its resources.
    Ready(oneshot::Sender<()>),
    /// The application waits until all clients have accepted a change.
    Converge {
        target: Target,
        answer: oneshot::Sender<Result<(), TooManyWaits>>,
    },
    /// Events were read that the driver waited for.
    EventsRead,
    /// Somebody reads events, after nobody did.
    EventsWanted,
    Drain(DrainPlan),
    ShutDown,
}

/// A change of a type in a view.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    pub(crate) view: ViewName,
    pub(crate) type_url: TypeUrl,
    pub(crate) sequence: u64,
}

/// Something that is done with the core in the driver's turn.
pub(crate) struct Command(Box<Work>);

type Work = dyn FnOnce(&mut Server, Time) + Send;

impl Command {
    pub(crate) fn carry_out(self, server: &mut Server, now: Time) {
        (self.0)(server, now);
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Command")
    }
}

/// A call that wants to become a stream.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) via: Via,
    pub(crate) requests: Streaming<Bytes>,
    /// The longest request that `requests` takes, in bytes.
    pub(crate) max_request_bytes: usize,
    pub(crate) peer: Peer,
    pub(crate) metadata: HeaderMap,
}

/// The way into the queue.
#[derive(Clone, Debug)]
pub(crate) struct Inbox(mpsc::UnboundedSender<Input>);

/// A way into the queue that does not keep the driver alive.
#[derive(Clone, Debug)]
pub(crate) struct WeakInbox(mpsc::WeakUnboundedSender<Input>);

impl WeakInbox {
    pub(crate) fn upgrade(&self) -> Option<Inbox> {
        self.0.upgrade().map(Inbox)
    }
}

/// The driver's end of the queue.
pub(crate) type Outlet = mpsc::UnboundedReceiver<Input>;

impl Inbox {
    pub(crate) fn new() -> (Self, Outlet) {
        let (sender, outlet) = mpsc::unbounded_channel();
        (Self(sender), outlet)
    }

    pub(crate) fn downgrade(&self) -> WeakInbox {
        WeakInbox(self.0.downgrade())
    }

    /// Queues an input. With the driver gone it is dropped, which tells whoever waits for an answer.
    pub(crate) fn send(&self, input: Input) {
        let _ = self.0.send(input);
    }

    /// Asks the driver something; `None` if it is gone.
    pub(crate) async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> Input,
    ) -> Option<T> {
        let (answer, reply) = oneshot::channel();
        self.send(question(answer));
        reply.await.ok()
    }

    /// Has something done with the core, and answers with what it came to; `None` if the driver is gone.
    pub(crate) async fn with_server<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Server, Time) -> T + Send + 'static,
    ) -> Option<T> {
        self.ask(|answer| {
            Input::Command(Command(Box::new(|server, now| {
                // Whoever asked may have gone.
                let _ = answer.send(command(server, now));
            })))
        })
        .await
    }

    /// Waits until the driver is gone.
    pub(crate) async fn ended(&self) {
        self.0.closed().await;
    }
}
