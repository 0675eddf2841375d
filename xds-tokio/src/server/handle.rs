//! The application's way to its management server.

use core::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use thiserror::Error;
use tokio::sync::broadcast::{self, error::RecvError};
use xds_core::{
    StreamId, TypeUrl, Version,
    server::{
        Applied, Interest, Observation, ServerStats, SubscriptionStatus, SyncState, Transaction,
        TransactionError,
    },
};

use super::inbox::{Inbox, Input};

/// The application's way to a running management server. Clones are cheap and reach the same one.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    inbox: Inbox,
    observations: broadcast::WeakSender<Observation>,
}

/// The server has been shut down, or its driver was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the server has ended")]
pub struct ServerEnded;

/// Why a transaction was not applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The transaction is wrong; nothing of it was applied.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// There is no server to apply it to.
    #[error(transparent)]
    Ended(#[from] ServerEnded),
}

impl ServerHandle {
    pub(crate) fn new(inbox: Inbox, observations: broadcast::WeakSender<Observation>) -> Self {
        Self { inbox, observations }
    }

    /// Changes resources, all or nothing, and starts telling whoever subscribes to them.
    ///
    /// Once the future has been polled, dropping it does not take the transaction back.
    ///
    /// # Errors
    ///
    /// The transaction is wrong, or the server has ended.
    pub async fn apply(&self, transaction: Transaction) -> Result<Applied, ApplyError> {
        let answer = self.inbox.ask(|answer| Input::Apply(transaction, answer)).await;
        Ok(answer.ok_or(ServerEnded)??)
    }

    /// All subscriptions: streams in the order in which they came, the types of each in the order in
    /// which they are sent.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub async fn status(&self) -> Result<Vec<SubscriptionSnapshot>, ServerEnded> {
        self.inbox.ask(Input::Status).await.ok_or(ServerEnded)
    }

    /// How often things happened, and what is held now.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub async fn stats(&self) -> Result<ServerStats, ServerEnded> {
        self.inbox.ask(Input::Stats).await.ok_or(ServerEnded)
    }

    /// What happens on streams from now on: who connects, subscribes, accepts and rejects.
    pub fn observations(&self) -> Observations {
        let receiver = match self.observations.upgrade() {
            Some(sender) => sender.subscribe(),
            // A channel whose sender is gone at once: the stream ends.
            None => broadcast::channel(1).1,
        };
        Observations { next: Box::pin(receive(receiver)) }
    }

    /// Ends every stream with `UNAVAILABLE`, takes no more, and returns when that is done; listeners
    /// then close (M14). Once the future has been polled, dropping it does not stop the shut-down.
    pub async fn shut_down(&self) {
        self.inbox.send(Input::ShutDown);
        self.ended().await;
    }

    /// Waits until the server has ended, whoever ended it.
    pub async fn ended(&self) {
        self.inbox.ended().await;
    }
}

/// One subscription, one stream and one type, at the moment of the question.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriptionSnapshot {
    /// The stream.
    pub stream: StreamId,
    /// The id of the client's node; empty if it gave none.
    pub node_id: String,
    /// The type.
    pub type_url: TypeUrl,
    /// What is subscribed.
    pub interest: Interest,
    /// How far the client is.
    pub state: SyncState,
    /// The version of the newest response.
    pub sent_version: Option<Version>,
    /// The version the client accepted last.
    pub acked_version: Option<Version>,
    /// Responses sent.
    pub responses: u64,
    /// Responses accepted.
    pub acks: u64,
    /// Responses rejected.
    pub nacks: u64,
    /// What the client last rejected a response for, until it accepts one.
    pub last_error: Option<String>,
}

impl From<SubscriptionStatus<'_>> for SubscriptionSnapshot {
    fn from(status: SubscriptionStatus<'_>) -> Self {
        Self {
            stream: status.stream,
            node_id: status.node_id.to_owned(),
            type_url: status.type_url.clone(),
            interest: status.interest,
            state: status.state,
            sent_version: status.sent_version,
            acked_version: status.acked_version,
            responses: status.responses,
            acks: status.acks,
            nacks: status.nacks,
            last_error: status.last_error.map(|error| error.to_string()),
        }
    }
}

/// What happens on a server's streams; ends with the server.
///
/// A reader that falls behind by more than
/// [`observation_capacity`](super::ServerOptions::observation_capacity) loses the oldest, and is
/// told how many. It holds back nobody.
#[must_use = "a stream does nothing unless it is polled"]
pub struct Observations {
    next: Pin<Box<dyn Future<Output = Received> + Send>>,
}

type Received = (Result<Observation, RecvError>, broadcast::Receiver<Observation>);

/// One item of [`Observations`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observed {
    /// Something happened.
    Event(Observation),
    /// So many observations were lost to this reader.
    Lagged(u64),
}

impl Observations {
    /// The next observation; `None` once the server has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Observed> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Observations {
    type Item = Observed;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Observed>> {
        let (received, receiver) = ready!(self.next.as_mut().poll(cx));
        self.next = Box::pin(receive(receiver));
        Poll::Ready(match received {
            Ok(observation) => Some(Observed::Event(observation)),
            Err(RecvError::Lagged(count)) => Some(Observed::Lagged(count)),
            Err(RecvError::Closed) => None,
        })
    }
}

async fn receive(mut receiver: broadcast::Receiver<Observation>) -> Received {
    (receiver.recv().await, receiver)
}

impl core::fmt::Debug for Observations {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Observations").finish_non_exhaustive()
    }
}
