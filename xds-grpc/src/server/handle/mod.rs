//! Application's handle of a management server.
//!
//! | file | content |
//! |---|---|
//! | `lifecycle.rs` | readiness, drain and shutdown |
//! | `source.rs` | the source of the resources |
//! | `reports.rs`, `status_reports.rs` | snapshots of subscriptions and rejections; client status, in parts |
//! | `rollouts.rs` | handles of rollouts |
//! | `shared_rollouts.rs` | rollouts that a server shares with others |
//! | `wall_clock.rs` | conversion of times for a client status |

pub(crate) mod lifecycle;
pub(crate) mod reports;
pub(crate) mod rollouts;
pub(crate) mod shared_rollouts;
pub(crate) mod source;
mod status_reports;
mod wall_clock;

use core::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use http::Extensions;
use thiserror::Error;
use tokio::sync::broadcast;
use xds_core::{
    StreamId, Time, TypeUrl, ViewName,
    server::{
        Applied, Convergence, CustomMessageError, DropView, LayersError, PerClientLimits, Server,
        ServerStats, TooManyWaits, Transaction, TransactionError, TypeStats, ViewContents,
    },
};

use self::{
    lifecycle::OpenListeners,
    reports::{RejectionSnapshot, SubscriptionSnapshot},
    wall_clock::SteadyClock,
};
use crate::{
    runtime::SharedRuntime,
    server::{
        access::authorize::Denied,
        calls::timed_requests::{RequestCount, TimedRequests, time_requests},
        driver::{
            events::{EventQueue, ServerEvents},
            inbox::{ConvergenceTarget, Inbox, Input},
            observations::{Observations, Observed},
            rollouts::HostedRollouts,
        },
        memory::{
            budgets::{ConnectionBudgets, TransportBudgets},
            transport_stats::TransportStats,
        },
    },
};

/// Handle of a running management server. Clones are cheap and refer to the same server.
#[derive(Clone, Debug)]
pub struct ServerHandle {
    pub(crate) inbox: Inbox,
    pub(crate) open_listeners: OpenListeners,
    observations: broadcast::WeakSender<Observed>,
    events: Arc<EventQueue>,
    budgets: TransportBudgets,
    pub(crate) runtime: SharedRuntime,
    pub(crate) clock: SteadyClock,
    /// Connection on whose behalf commands are sent; `None` for the application.
    caller: Option<u64>,
}

/// Number of attempts to compare a snapshot outside of the driver before it is compared in the
/// driver.
const PREVIEW_ATTEMPTS: usize = 3;

/// Error: the server has been shut down, or its driver was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the server has ended")]
pub struct ServerEnded;

/// Reason why a transaction was not applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The transaction is invalid. It has not changed anything.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    /// The server has ended.
    #[error(transparent)]
    Ended(#[from] ServerEnded),
}

/// Reason why the layers of a view were not set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SetLayersError {
    /// The layers are invalid. They have not changed.
    #[error(transparent)]
    Layers(#[from] LayersError),
    /// The server has ended.
    #[error(transparent)]
    Ended(#[from] ServerEnded),
}

/// Reason why [`ServerHandle::converged`] does not wait.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConvergenceError {
    /// The maximum number of waiting calls is reached.
    #[error(transparent)]
    TooManyWaits(#[from] TooManyWaits),
    /// The server has ended.
    #[error(transparent)]
    Ended(#[from] ServerEnded),
}

/// Reason why a custom message was not sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendCustomMessageError {
    /// The client cannot receive the message.
    #[error(transparent)]
    Message(#[from] CustomMessageError),
    /// The server has ended.
    #[error(transparent)]
    Ended(#[from] ServerEnded),
}

impl ServerHandle {
    pub(crate) fn new(
        inbox: Inbox,
        observations: broadcast::WeakSender<Observed>,
        events: Arc<EventQueue>,
        budgets: TransportBudgets,
        runtime: SharedRuntime,
    ) -> Self {
        Self {
            inbox,
            open_listeners: OpenListeners::default(),
            observations,
            events,
            budgets,
            runtime,
            clock: SteadyClock::default(),
            caller: None,
        }
    }

    /// Applies a transaction atomically and sends the changes to subscribed clients.
    ///
    /// Dropping the future after its first poll does not revert the transaction.
    ///
    /// # Errors
    ///
    /// Returns an error if the transaction is invalid or the server has ended.
    pub async fn apply(&self, transaction: Transaction) -> Result<Applied, ApplyError> {
        let apply = move |rollouts: &mut HostedRollouts, server: &mut Server, now| {
            rollouts.apply(server, transaction, now)
        };
        Ok(self.with_rollouts(apply).await??)
    }

    /// Returns the contents that each changed view would have after a transaction, without applying
    /// it.
    /// Use [`ViewContents::check`] to find dangling references in the result. The check does not
    /// block the server: the driver only clones references to the resources of the affected views,
    /// at some tens of nanoseconds each, and this future does the rest. Transactions applied
    /// between the preview and the actual transaction are not included.
    ///
    /// For a [snapshot](Transaction::snapshot), the driver clones these references twice. This
    /// future compares the snapshot with the first copy, and the driver then examines only the
    /// differences. If other transactions keep changing the view meanwhile, the driver compares the
    /// snapshot itself.
    ///
    /// # Errors
    ///
    /// Returns an error if the transaction is invalid or the server has ended.
    pub async fn preview(&self, transaction: Transaction) -> Result<Vec<ViewContents>, ApplyError> {
        let attempts = if transaction.is_snapshot() { PREVIEW_ATTEMPTS } else { 0 };
        for _ in 0..attempts {
            let view = transaction.view().clone();
            let copy = self.with_server(move |server, _| server.copy_view(&view)).await?;
            let difference = copy.difference(transaction.clone())?;
            let prepare = move |server: &mut Server, _| {
                server.is_unchanged_since(&copy).then(|| server.prepare_preview(&difference))
            };
            if let Some(prepared) = self.with_server(prepare).await? {
                return Ok(prepared?.contents());
            }
        }
        let prepare = move |server: &mut Server, _| server.prepare_preview(&transaction);
        Ok(self.with_server(prepare).await??.contents())
    }

    /// Returns the resources of a view. For a layered view these are the effective resources.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn contents(&self, view: ViewName) -> Result<ViewContents, ServerEnded> {
        self.with_server(move |server, _| server.contents(&view)).await
    }

    /// Removes a resource, unless a client subscribes to it by name. Returns `None` if a client does.
    ///
    /// Use it after [`ServerEvent::Unwanted`](crate::server::ServerEvent::Unwanted): a client may have
    /// subscribed again since. During a rollout of the view, the clients of its cohort count too.
    ///
    /// # Errors
    ///
    /// Returns an error if the view has layers or the server has ended.
    pub async fn remove_unless_named(
        &self,
        view: ViewName,
        type_url: impl Into<TypeUrl>,
        name: impl Into<String>,
    ) -> Result<Option<Applied>, ApplyError> {
        let (type_url, name) = (type_url.into(), name.into());
        let remove = move |rollouts: &mut HostedRollouts, server: &mut Server, now| {
            rollouts.remove_unless_named(server, &view, &type_url, &name, now)
        };
        Ok(self.with_rollouts(remove).await??)
    }

    /// Returns the names of all views.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn views(&self) -> Result<Vec<ViewName>, ServerEnded> {
        self.with_server(|server, _| server.views()).await
    }

    /// Composes a view of layers, topmost first. For each resource name, the view contains the
    /// resource of the topmost layer that has it. Without layers the view becomes a plain, empty
    /// view.
    ///
    /// # Errors
    ///
    /// Returns an error if the view has resources itself, the layers are invalid, or the server has
    /// ended.
    // M222
    pub async fn set_layers(
        &self,
        view: ViewName,
        layers: Vec<ViewName>,
    ) -> Result<(), SetLayersError> {
        let set = move |server: &mut Server, now| server.set_layers(&view, &layers, now);
        Ok(self.with_server(set).await??)
    }

    /// Drops a view with its resources. The default view can only be emptied.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    // M213
    pub async fn drop_view(&self, view: ViewName, policy: DropView) -> Result<(), ServerEnded> {
        self.with_server(move |server, now| server.drop_view(&view, policy, now)).await
    }

    /// Assigns a view to a client and sends it the difference.
    ///
    /// Without an [authorizer](crate::server::ServerOptions::with_authorizer), this admits a client that
    /// waits ([`Admission::ByApplication`](xds_core::server::Admission::ByApplication)).
    ///
    /// Returns whether the client has the view: `false` if the stream has ended, or if this closes
    /// it.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    // M223, M237
    pub async fn assign(&self, stream: StreamId, view: ViewName) -> Result<bool, ServerEnded> {
        let assign = move |rollouts: &mut HostedRollouts, server: &mut Server, now| {
            rollouts.assign(server, stream, &view, now)
        };
        self.with_rollouts(assign).await
    }

    /// Sets limits for one client, before or after its admission. They replace the server's limits.
    ///
    /// An [authorizer](crate::server::ServerOptions::with_authorizer) can set limits with its
    /// [decision](crate::server::Admitted::with_limits).
    ///
    /// Returns whether the client has the limits: `false` if the stream has ended, or if this closes
    /// it.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    // M242
    pub async fn limit_client(
        &self,
        stream: StreamId,
        limits: PerClientLimits,
    ) -> Result<bool, ServerEnded> {
        self.with_server(move |server, now| server.limit_client(stream, limits, now)).await
    }

    /// Ends a stream with a status chosen by the application, before or after the client's
    /// admission. Returns whether the stream was open.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    // M237
    pub async fn refuse(&self, stream: StreamId, why: Denied) -> Result<bool, ServerEnded> {
        self.with_server(move |server, now| server.refuse(stream, why.code, why.message, now)).await
    }

    /// Returns all subscriptions: streams in the order of their creation, and the types of each in
    /// the order in which they are sent.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn status(&self) -> Result<Vec<SubscriptionSnapshot>, ServerEnded> {
        self.with_server(|server, _| server.status().map(Into::into).collect()).await
    }

    /// Returns how many clients have accepted a change ([`Applied::sequence`]) of a type in a view
    /// and all earlier changes, and which clients lag and why.
    ///
    /// During a rollout of the view, the clients of its cohort count too: they must accept the
    /// resources that the rollout sends them.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn convergence(
        &self,
        view: ViewName,
        type_url: impl Into<TypeUrl>,
        sequence: u64,
    ) -> Result<Convergence, ServerEnded> {
        let type_url = type_url.into();
        let call =
            move |server: &mut Server, _| server.convergence(&view, type_url.as_str(), sequence);
        self.with_server(call).await
    }

    /// Waits until all connected clients have accepted a change of a type in a view. Disconnected
    /// clients are ignored. There is no timeout.
    ///
    /// During a rollout of the view, clients of the cohort must accept the changed resources, and
    /// all other clients those of the view. The wait continues when a client enters or leaves the
    /// cohort.
    ///
    /// # Errors
    ///
    /// Returns an error if too many calls wait
    /// ([`ServerLimits::convergence_waits`](xds_core::server::ServerLimits::convergence_waits)) or
    /// the server has ended.
    pub async fn converged(
        &self,
        view: ViewName,
        type_url: impl Into<TypeUrl>,
        sequence: u64,
    ) -> Result<(), ConvergenceError> {
        let target = ConvergenceTarget { view, type_url: type_url.into(), sequence };
        let waited = self.inbox.call(|reply| Input::Converge { target, reply }).await;
        Ok(waited.ok_or(ServerEnded)??)
    }

    /// Returns the rejected responses (NACKs) whose resources the client has not accepted since.
    /// The rejections of connected clients come first, then those of recently disconnected clients,
    /// both sorted by node and type.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn rejections(&self) -> Result<Vec<RejectionSnapshot>, ServerEnded> {
        self.with_server(|server, _| server.rejections().map(Into::into).collect()).await
    }

    /// Sends a custom message to a client: a complete encoded response of a registered custom type.
    ///
    /// # Errors
    ///
    /// Returns an error if the stream has ended, too many custom messages wait, or the server has
    /// ended.
    // M21
    pub async fn send_custom_message(
        &self,
        stream: StreamId,
        type_url: impl Into<TypeUrl>,
        message: impl Into<Bytes>,
    ) -> Result<(), SendCustomMessageError> {
        let (type_url, message) = (type_url.into(), message.into());
        let send = move |server: &mut Server, now| {
            server.send_custom_message(stream, type_url, message, now)
        };
        Ok(self.with_server(send).await??)
    }

    /// Returns the server's counters and gauges.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn stats(&self) -> Result<ServerStats, ServerEnded> {
        self.with_server(|server, _| server.stats()).await
    }

    /// Returns the counters and gauges of the server's connections and budgets.
    #[must_use]
    pub fn transport_stats(&self) -> TransportStats {
        self.budgets.stats()
    }

    /// Returns the counters of a resource type, over all views.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn stats_of(&self, type_url: impl Into<TypeUrl>) -> Result<TypeStats, ServerEnded> {
        let type_url = type_url.into();
        self.with_server(move |server, _| server.stats_of(type_url.as_str())).await
    }

    /// Subscribes to observations of streams: connections, subscriptions, ACKs and NACKs. Sent
    /// responses are included if
    /// [`ServerConfig::observe_responses`](xds_core::server::ServerConfig::observe_responses) is
    /// set.
    pub fn observations(&self) -> Observations {
        let receiver = match self.observations.upgrade() {
            Some(sender) => sender.subscribe(),
            // The sender of this new channel is dropped at once, so the stream ends.
            None => broadcast::channel(1).1,
        };
        Observations::new(receiver)
    }

    /// Subscribes to the server's events. If there was no other reader, the stream begins with the
    /// events that the application has not responded to yet.
    pub fn events(&self) -> ServerEvents {
        ServerEvents::new(Arc::clone(&self.events), self.inbox.downgrade())
    }

    /// Returns a handle whose commands wait for the turns of the connection of a call. Calls whose
    /// connection is unknown share their turns.
    pub(crate) fn on_behalf_of(&self, call: &Extensions) -> Self {
        Self {
            caller: Some(call.get::<ConnectionBudgets>().map_or(0, |it| it.responses.id())),
            ..self.clone()
        }
    }

    /// Limits the time and the memory of a call's requests.
    pub(crate) fn time_requests<B>(
        &self,
        request: http::Request<B>,
        count: RequestCount,
        max_bytes: usize,
    ) -> http::Request<TimedRequests>
    where
        B: http_body::Body<Data: Send> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        time_requests(request, count, max_bytes, &self.budgets, &self.runtime)
    }

    pub(crate) async fn with_server<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut Server, Time) -> T + Send + 'static,
    ) -> Result<T, ServerEnded> {
        self.with_rollouts(|_, server, now| command(server, now)).await
    }

    pub(crate) async fn with_rollouts<T: Send + 'static>(
        &self,
        command: impl FnOnce(&mut HostedRollouts, &mut Server, Time) -> T + Send + 'static,
    ) -> Result<T, ServerEnded> {
        self.inbox.command(self.caller, command).await.ok_or(ServerEnded)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.inbox.has_ended()
    }
}
