//! Observations of a server, for the application.

use core::{
    future::poll_fn,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use tokio::sync::broadcast::{self, error::RecvError};
use xds_core::server::Observation;

/// Stream of observations. It ends with the server.
///
/// If a reader falls behind by more than
/// [`observation_capacity`](crate::server::ServerOptions::observation_capacity), it loses the oldest
/// observations and receives their number ([`Observed::Lagged`]). A slow reader does not delay the
/// server.
#[must_use = "a stream does nothing unless it is polled"]
pub struct Observations {
    next: Pin<Box<dyn Future<Output = Received> + Send>>,
}

type Received = (Result<Observed, RecvError>, broadcast::Receiver<Observed>);

/// One item of [`Observations`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observed {
    /// Event of a stream.
    Event(Observation),
    /// Number of observations that this reader has lost.
    Lagged(u64),
    /// A connection was closed at once because the maximum number of connections is reached.
    ConnectionRefused {
        /// Address of the client, if known.
        address: Option<SocketAddr>,
        /// Maximum number of connections
        /// ([`max_connections`](crate::server::ServerOptions::max_connections)).
        limit: usize,
    },
}

impl Observations {
    pub(crate) fn new(receiver: broadcast::Receiver<Observed>) -> Self {
        Self { next: Box::pin(receive(receiver)) }
    }

    /// Returns the next observation, or `None` after the server has ended. Cancel safe.
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
            Ok(observed) => Some(observed),
            Err(RecvError::Lagged(count)) => Some(Observed::Lagged(count)),
            Err(RecvError::Closed) => None,
        })
    }
}

async fn receive(mut receiver: broadcast::Receiver<Observed>) -> Received {
    (receiver.recv().await, receiver)
}

impl core::fmt::Debug for Observations {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Observations").finish_non_exhaustive()
    }
}
