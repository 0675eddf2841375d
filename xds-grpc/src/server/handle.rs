//! The application's way to its management server.

use core::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use bytes::Bytes;
use futures_core::Stream;
use thiserror::Error;
use tokio::sync::broadcast::{self, error::RecvError};
use xds_core::{
    StreamId, Time, TypeUrl, ViewName,
    client::{Contents, WallClock},
    proto,
    server::{
        Applied, AsideError, ClientLimits, ClientStatus, Convergence, DrainPlan, DropView,
        LayersError, Observation, Server, ServerStats, Snapshot, TooManyWaits, Transaction,
        TransactionError, TypeStats, ViewContents,
    },
};

use super::{
    authorize::Denied,
    events::{EventQueue, ServerEvents},
    inbox::{Inbox, Input, Target},
    reports::{RejectionSnapshot, SubscriptionSnapshot},
};

/// The application's way to a running management server. Clones are cheap and reach the same one.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    inbox: Inbox,
    observations: broadcast::WeakSender<Observed>,
    events: Arc<EventQueue>,
}

/// How often a snapshot is compared with a copy of what there is, before it is done in the server's turn.
const TRIES: usize = 3;

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

/// Why the layers of a view were not set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayersRefused {
    /// The layers are wrong; nothing has changed.
    #[error(transparent)]
    Layers(#[from] LayersError),
    /// There is no server whose view it would be.
    #[error(transparent)]
    Ended(#[from] ServerEnded),
}

/// Why nobody waits until a change is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConvergenceError {
    /// As many wait as may.
    #[error(transparent)]
    TooManyWaits(#[from] TooManyWaits),
    /// The server has ended.
    #[error(transparent)]
    Ended(#[from] ServerEnded),
}

/// Why a message of the application was not sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AsideRefused {
    /// The client cannot take it.
    #[error(transparent)]
    Aside(#[from] AsideError),
    /// The server has ended.
    #[error(transparent)]
    Ended(#[from] ServerEnded),
}

impl ServerHandle {
    pub(crate) fn new(
        inbox: Inbox,
        observations: broadcast::WeakSender<Observed>,
        events: Arc<EventQueue>,
    ) -> Self {
        Self { inbox, observations, events }
    }

    /// Changes resources, all or nothing, and starts telling whoever subscribes to them.
    ///
    /// Once the future has been polled, dropping it does not take the transaction back.
    ///
    /// # Errors
    ///
    /// The transaction is wrong, or the server has ended.
    pub async fn apply(&self, transaction: Transaction) -> Result<Applied, ApplyError> {
        Ok(self.with_server(move |server, now| server.apply(transaction, now)).await??)
    }

    /// Makes these the resources of a view, all or nothing: what it has and the snapshot has not is
    /// removed.
    ///
    /// Once the future has been polled, dropping it does not take the snapshot back.
    ///
    /// # Errors
    ///
    /// The snapshot is wrong, or the server has ended.
    pub async fn set_snapshot(
        &self,
        view: ViewName,
        snapshot: Snapshot,
    ) -> Result<Applied, ApplyError> {
        let set = move |server: &mut Server, now| server.set_snapshot(&view, snapshot, now);
        Ok(self.with_server(set).await??)
    }

    /// What clients would be shown after a transaction, which is not applied: each view that it changes, as a
    /// whole. A check of these ([`ViewContents::check`]), which holds up nobody, says which references
    /// would dangle.
    ///
    /// Between two turns of the server, in which nobody is served, only references to the resources of those views
    /// are copied, at some tens of nanoseconds each; the rest is done where this future is polled. Another
    /// transaction that is applied between the preview and this one is not in it.
    ///
    /// # Errors
    ///
    /// The transaction is wrong, or the server has ended.
    pub async fn preview(&self, transaction: Transaction) -> Result<Vec<ViewContents>, ApplyError> {
        let prepare = move |server: &mut Server, _| server.prepare_preview(&transaction);
        Ok(self.with_server(prepare).await??.contents())
    }

    /// The same for a snapshot: what clients would be shown after [`set_snapshot`](Self::set_snapshot). Here
    /// such references are copied twice; the snapshot is compared with the first copy where this future is polled,
    /// and in its turn the server looks at what differs only. If transactions are applied in between, over and over,
    /// that is given up, and it costs the snapshot there.
    ///
    /// # Errors
    ///
    /// The snapshot is wrong, or the server has ended.
    pub async fn preview_snapshot(
        &self,
        view: ViewName,
        snapshot: Snapshot,
    ) -> Result<Vec<ViewContents>, ApplyError> {
        for _ in 0..TRIES {
            let of = view.clone();
            let copy = self.with_server(move |server, _| server.copy_of(&of)).await?;
            let transaction = copy.difference(snapshot.clone())?;
            let prepare = move |server: &mut Server, _| {
                server.is_as_copied(&copy).then(|| server.prepare_preview(&transaction))
            };
            if let Some(prepared) = self.with_server(prepare).await? {
                return Ok(prepared?.contents());
            }
        }
        let prepare = move |server: &mut Server, _| {
            let transaction = server.difference(&view, snapshot)?;
            server.prepare_preview(&transaction)
        };
        Ok(self.with_server(prepare).await??.contents())
    }

    /// What a view has; of a layered one, what it shows.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub async fn contents(&self, view: ViewName) -> Result<ViewContents, ServerEnded> {
        self.with_server(move |server, _| server.contents(&view)).await
    }

    /// Whether a client names a resource of a view at present: for who is about to let go of one that nobody wanted
    /// ([`ServerEvent::Unwanted`](super::ServerEvent::Unwanted)). By the time it is removed another one may have come.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub async fn is_named(
        &self,
        view: ViewName,
        type_url: impl Into<TypeUrl>,
        name: impl Into<String>,
    ) -> Result<bool, ServerEnded> {
        let (type_url, name) = (type_url.into(), name.into());
        self.with_server(move |server, _| server.is_named(&view, type_url.as_str(), &name)).await
    }

    /// The views there are, by name.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub async fn views(&self) -> Result<Vec<ViewName>, ServerEnded> {
        self.with_server(|server, _| server.views()).await
    }

    /// Makes a view of layers, the topmost first: it shows each resource of the topmost layer that has
    /// it (M222). Without layers it is a plain view again, and empty.
    ///
    /// # Errors
    ///
    /// The view has resources of its own, the layers are wrong, or the server has ended.
    pub async fn set_layers(
        &self,
        view: ViewName,
        layers: Vec<ViewName>,
    ) -> Result<(), LayersRefused> {
        let set = move |server: &mut Server, now| server.set_layers(&view, &layers, now);
        Ok(self.with_server(set).await??)
    }

    /// Drops a view with its resources (M213). The default view can be emptied, not dropped.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub async fn drop_view(&self, view: ViewName, policy: DropView) -> Result<(), ServerEnded> {
        self.with_server(move |server, now| server.drop_view(&view, policy, now)).await
    }

    /// Lets a client see a view from now on; it is sent the difference (M223, M237). This is also how
    /// a client is let in that waits ([`Admission::Asked`](xds_core::server::Admission::Asked)) while
    /// there is no [authorizer](super::ServerOptions::with_authorizer). Nothing happens if its stream
    /// is gone.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub async fn assign(&self, stream: StreamId, view: ViewName) -> Result<(), ServerEnded> {
        self.with_server(move |server, now| server.assign(stream, &view, now)).await
    }

    /// Sets what a client may take up, instead of what everybody may (M242): before it is let in, or at any time.
    /// Whoever has an [authorizer](super::ServerOptions::with_authorizer) gives the limits with its
    /// [permission](super::Admitted::with_limits). Nothing happens if its stream is gone.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub async fn limit_client(
        &self,
        stream: StreamId,
        limits: ClientLimits,
    ) -> Result<(), ServerEnded> {
        self.with_server(move |server, now| server.limit_client(stream, limits, now)).await
    }

    /// Ends a stream with the application's own status: a client that is not served, or no longer
    /// (M237). Nothing happens if it is gone.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub async fn refuse(&self, stream: StreamId, why: Denied) -> Result<(), ServerEnded> {
        self.with_server(move |server, now| server.refuse(stream, why.code, why.message, now)).await
    }

    /// All subscriptions: streams in the order in which they came, the types of each in the order in
    /// which they are sent.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub async fn status(&self) -> Result<Vec<SubscriptionSnapshot>, ServerEnded> {
        self.with_server(|server, _| server.status().map(Into::into).collect()).await
    }

    /// How far a change ([`Applied::sequence`]) and every one before it have got with the clients of a type in
    /// a view: who lags, and why.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub async fn convergence(
        &self,
        view: ViewName,
        type_url: impl Into<TypeUrl>,
        sequence: u64,
    ) -> Result<Convergence, ServerEnded> {
        let type_url = type_url.into();
        let ask =
            move |server: &mut Server, _| server.convergence(&view, type_url.as_str(), sequence);
        self.with_server(ask).await
    }

    /// Waits until all clients that are connected then have accepted a change of a type in a view. A client
    /// that goes away is not waited for. There is no time limit: put one around it.
    ///
    /// # Errors
    ///
    /// Too many calls wait
    /// ([`ServerLimits::convergence_waits`](xds_core::server::ServerLimits::convergence_waits)), or the
    /// server has ended.
    pub async fn converged(
        &self,
        view: ViewName,
        type_url: impl Into<TypeUrl>,
        sequence: u64,
    ) -> Result<(), ConvergenceError> {
        let target = Target { view, type_url: type_url.into(), sequence };
        let asked = self.inbox.ask(|answer| Input::Converge { target, answer }).await;
        Ok(asked.ok_or(ServerEnded)??)
    }

    /// What clients have rejected and not accepted since: those there are, then those who have gone not
    /// long ago, by node and type.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub async fn rejections(&self) -> Result<Vec<RejectionSnapshot>, ServerEnded> {
        self.with_server(|server, _| server.rejections().map(Into::into).collect()).await
    }

    /// Sends a client a message of the application: a whole encoded response of a type that is the
    /// application's (M21).
    ///
    /// # Errors
    ///
    /// The stream is gone, too many such messages wait, or the server has ended.
    pub async fn send_aside(
        &self,
        stream: StreamId,
        type_url: impl Into<TypeUrl>,
        message: impl Into<Bytes>,
    ) -> Result<(), AsideRefused> {
        let (type_url, message) = (type_url.into(), message.into());
        let send =
            move |server: &mut Server, now| server.send_aside(stream, type_url, message, now);
        Ok(self.with_server(send).await??)
    }

    /// How often things happened, and what is held now.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub async fn stats(&self) -> Result<ServerStats, ServerEnded> {
        self.with_server(|server, _| server.stats()).await
    }

    /// How often things happened to a type, over all views.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub async fn stats_of(&self, type_url: impl Into<TypeUrl>) -> Result<TypeStats, ServerEnded> {
        let type_url = type_url.into();
        self.with_server(move |server, _| server.stats_of(type_url.as_str())).await
    }

    /// What happens on streams from now on: who connects, subscribes, accepts and rejects; and what is sent, if the
    /// configuration [says so](xds_core::server::ServerConfig::observe_responses).
    pub fn observations(&self) -> Observations {
        let receiver = match self.observations.upgrade() {
            Some(sender) => sender.subscribe(),
            // A channel whose sender is gone at once: the stream ends.
            None => broadcast::channel(1).1,
        };
        Observations { next: Box::pin(receive(receiver)) }
    }

    /// What the server asks of the application from now on and, if nobody was reading that, what it has asked before
    /// and nobody has answered.
    pub fn events(&self) -> ServerEvents {
        ServerEvents::new(Arc::clone(&self.events), self.inbox.downgrade())
    }

    /// Says that the resources are loaded: from now on clients are answered, where the server was started without them
    /// ([`Readiness::HoldRequests`](xds_core::server::Readiness::HoldRequests),
    /// [`Readiness::NotReady`](xds_core::server::Readiness::NotReady)), and the health service says `SERVING`.
    ///
    /// # Errors
    ///
    /// The server has ended.
    pub async fn set_ready(&self) -> Result<(), ServerEnded> {
        self.inbox.ask(Input::Ready).await.ok_or(ServerEnded)
    }

    /// Takes no more streams, ends those there are by plan, and returns when the last one has; listeners
    /// then close (M14, M238). Meanwhile the health service says `NOT_SERVING`. Once the future has been
    /// polled, dropping it does not stop the drain.
    pub async fn drain(&self, plan: DrainPlan) {
        self.inbox.send(Input::Drain(plan));
        self.ended().await;
    }

    /// Ends every stream at once with `UNAVAILABLE`, takes no more, and returns when that is done; listeners
    /// then close (M14). Once the future has been polled, dropping it does not stop the shut-down.
    pub async fn shut_down(&self) {
        self.inbox.send(Input::ShutDown);
        self.ended().await;
    }

    /// Waits until the server has ended, whoever ended it.
    pub async fn ended(&self) {
        self.inbox.ended().await;
    }

    /// What the clients have that are meant, for client status discovery. Each is looked at in a turn of its
    /// own, so that clients are served meanwhile however many there are (IS25); one that is gone by then, or
    /// not meant any more, is left out.
    pub(crate) async fn client_configs(
        &self,
        is_meant: impl Fn(ClientStatus<'_>) -> bool + Send + Sync + 'static,
        contents: Contents,
    ) -> Result<Vec<proto::ClientConfig>, ServerEnded> {
        let is_meant = Arc::new(is_meant);
        let are_meant = Arc::clone(&is_meant);
        let meant: Vec<StreamId> = self
            .with_server(move |server, _| {
                let meant = server.client_statuses().filter(|client| are_meant(*client));
                meant.map(|client| client.stream()).collect()
            })
            .await?;
        let mut configs = Vec::with_capacity(meant.len());
        for stream in meant {
            let is_meant = Arc::clone(&is_meant);
            let config = self.with_server(move |server, now| {
                let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let client = server.client_status(stream).filter(|client| is_meant(*client))?;
                Some(client.to_message(contents, WallClock::new(since_1970, now)))
            });
            configs.extend(config.await?);
        }
        Ok(configs)
    }

    async fn with_server<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Server, Time) -> T + Send + 'static,
    ) -> Result<T, ServerEnded> {
        self.inbox.with_server(command).await.ok_or(ServerEnded)
    }
}

/// What happens on a server's streams, and which connections it does not take; ends with the server.
///
/// A reader that falls behind by more than
/// [`observation_capacity`](super::ServerOptions::observation_capacity) loses the oldest, and is
/// told how many. It holds back nobody.
#[must_use = "a stream does nothing unless it is polled"]
pub struct Observations {
    next: Pin<Box<dyn Future<Output = Received> + Send>>,
}

type Received = (Result<Observed, RecvError>, broadcast::Receiver<Observed>);

/// One item of [`Observations`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observed {
    /// Something happened.
    Event(Observation),
    /// So many observations were lost to this reader.
    Lagged(u64),
    /// A connection was closed before anything was said on it, as there are as many as may be.
    ConnectionRefused {
        /// Where it came from, where that is known.
        address: Option<SocketAddr>,
        /// [`max_connections`](super::ServerOptions::max_connections).
        limit: usize,
    },
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
