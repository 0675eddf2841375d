//! Everything that reaches the driver of a server, in one queue.
//!
//! The queue takes all, so that neither the application nor a dropped stream ever waits. It stays
//! short all the same: a stream has at most one request, one question for room and one end in it,
//! and whoever applies a transaction waits for the answer.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tonic::Streaming;
use xds_core::{
    StreamId,
    server::{Applied, Refusal, ServerStats, Transaction, TransactionError},
    service::Variant,
};

use super::{body::ResponseBody, handle::SubscriptionSnapshot};

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
    Apply(Transaction, oneshot::Sender<Result<Applied, TransactionError>>),
    Status(oneshot::Sender<Vec<SubscriptionSnapshot>>),
    Stats(oneshot::Sender<ServerStats>),
    ShutDown,
}

/// A call that wants to become a stream.
#[derive(Debug)]
pub(crate) struct Call {
    /// Of the aggregated service.
    pub(crate) variant: Variant,
    pub(crate) requests: Streaming<Bytes>,
    /// The longest request that `requests` takes, in bytes.
    pub(crate) max_request_bytes: usize,
    pub(crate) peer: Option<SocketAddr>,
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

    /// Waits until the driver is gone.
    pub(crate) async fn ended(&self) {
        self.0.closed().await;
    }
}
