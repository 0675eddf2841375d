//! Management servers.
//!
//! ```no_run
//! # #[cfg(all(feature = "tokio", feature = "envoy-types"))]
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use xds::{ManagementServer, resources::Cluster, server::Transaction};
//!
//! let server = ManagementServer::builder()
//!     .tls("cert.pem", "key.pem")
//!     .view_of(|node| node.zone().to_owned())
//!     .bind("127.0.0.1:18443")
//!     .await?;
//! let cluster = Cluster { name: "web".into(), ..Cluster::default() };
//! server.apply(Transaction::snapshot("zone-a").with(&cluster)?).await?;
//! server.run_until(async { drop(tokio::signal::ctrl_c().await) }).await?;
//! # Ok(())
//! # }
//! ```

mod builder;
mod node;
mod transaction;

use core::{
    future::{Future, poll_fn},
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    task::Poll,
    time::Duration,
};
use std::sync::Arc;

use thiserror::Error;
use xds_core::guards::Guards;
use xds_grpc::runtime::Listen;

pub use self::{
    builder::{BindError, ServerBuilder},
    node::NodeInfo,
    transaction::{InvalidResource, Transaction},
};

/// Changes that are served to a few clients first.
pub mod rollout {
    pub use xds_core::{
        rollout::{
            Cohort, CommandError, HaltCause, HaltConditions, HaltReason, HaltingClient,
            HaltingClients, InvalidShare, MetricVerdict, NodeDetail, OnHalt, OnNewer, PolicyError,
            RolloutId, RolloutPhase, RolloutPolicy, RolloutProgress, RolloutStep, Share,
            StartError,
        },
        selector::{NodeCondition, NodeField, NodeSelector, TextPattern},
    };
    pub use xds_grpc::server::{
        RolloutCommandError, RolloutError, RolloutHandle, SharedEvent, SharedEvents, SharedNews,
    };
}

/// Rules for changes.
pub use xds_core::guards::{
    ChangeId, Guard, GuardViolation, InvalidGuard, RefusedChange, ViewChange, Violation,
};
/// Load that a [`LoadCollector`] requests and sums up.
pub use xds_core::load_reports::{CallTotals, LoadPlace, LoadRequest, LoadTotals};
/// Part of the untyped interface; all settings are in [`protocol::server`](crate::protocol::server).
pub use xds_core::server::{
    Applied, DrainPlan, Observation, ResourceOptions, Server, ServerConfig, ServerEvent,
    ServerLimits, StatusCode, ViewContents,
};
pub use xds_grpc::server::{
    AddressFault, Admitted, AllowSans, ApplyError, AuthorizationDecision, AuthorizationRequest,
    Authorizer, BothAuthorizers, BoundAddress, ConvergenceError, Denied, DiscoveryService,
    HealthService, InvalidSanPattern, ListenAddress, Listener, LoadCollector, LoadReportingService,
    NodeFromSan, Observations, Observed, Peer, RejectionSnapshot, SendCustomMessageError,
    ServerEnded, ServerEvents, ServerHandle, ServerOptions, SetLayersError, SourceReport,
    SubscriptionSnapshot, TransportStats, UnixSocket,
};
pub use xds_grpc::{PayloadPrinter, SizesOnly};

/// Management server that listens on an address.
///
/// Dropping it does not end the server, because its listener keeps serving. End it with
/// [`run_until`](Self::run_until), [`ServerHandle::drain`] or [`ServerHandle::shut_down`].
#[derive(Clone, Debug)]
pub struct ManagementServer<R> {
    server: xds_grpc::ManagementServer<R>,
    address: BoundAddress,
    guards: Arc<Guards>,
    grace_period: Duration,
    /// Whether a change has been applied, so that clients are answered.
    is_ready: Arc<AtomicBool>,
}

/// Reason why a change has not been applied. The server's resources are unchanged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The change is invalid, or the server has ended.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The change violates a [rule](ServerBuilder::guard). [`ManagementServer::force`] applies it
    /// anyway.
    #[error(transparent)]
    Refused(RefusedChange),
    /// The rollout of the change cannot start.
    #[error(transparent)]
    Rollout(#[from] rollout::RolloutError),
    /// The first change cannot be a rollout: clients outside its first step would be told that
    /// nothing exists. Apply the resources that these clients already have, and then roll out the
    /// change.
    #[error("nothing is served yet: apply the current resources before the rollout of a change")]
    NothingServed,
}

impl<R: Listen + Default> ManagementServer<R> {
    /// Prepares a server.
    pub fn builder() -> ServerBuilder<R> {
        ServerBuilder::new()
    }
}

impl<R: Listen> ManagementServer<R> {
    /// Returns the address on which the server listens, with the port that was chosen for port 0.
    #[must_use]
    pub const fn address(&self) -> &BoundAddress {
        &self.address
    }

    /// Changes or replaces the resources of a view, and sends the difference to its clients.
    ///
    /// The first change makes the server [answer](ServerBuilder::bind) the clients of all views.
    /// Clients of a view that is still empty are told that nothing exists, and an Envoy then
    /// removes its listeners and clusters. To fill several views first, use
    /// [`apply_all`](Self::apply_all).
    ///
    /// If the future is dropped before it completes, the change is applied as a whole or not at all.
    ///
    /// # Errors
    ///
    /// Returns an error if a name is invalid, if a snapshot has a name twice, if a limit is
    /// exceeded, if the change violates a [rule](ServerBuilder::guard), or if the server has ended.
    ///
    /// The rules compare the change with the state when the call begins. Apply changes of one view
    /// one after the other: two concurrent changes are not checked against each other.
    pub async fn apply(&self, change: impl Into<Transaction>) -> Result<Applied, ChangeError> {
        let transaction = self.judged(change.into()).await?;
        self.force(transaction).await
    }

    /// Applies changes one after the other, like [`apply`](Self::apply). Clients are only answered
    /// after the last one. Use it to set the first resources of several views.
    ///
    /// # Errors
    ///
    /// Returns the error of the first change that fails, like [`apply`](Self::apply). The changes
    /// before it remain applied. If no change was applied before this call, clients are still not
    /// answered.
    pub async fn apply_all<C: Into<Transaction>>(
        &self,
        changes: impl IntoIterator<Item = C>,
    ) -> Result<Vec<Applied>, ChangeError> {
        let mut applied = Vec::new();
        let mut changes = changes.into_iter().map(Into::into).peekable();
        if changes.peek().is_none() {
            self.answer_clients().await?;
        }
        while let Some(change) = changes.next() {
            let transaction = self.judged(change).await?;
            applied.push(match changes.peek() {
                Some(_) => self.handle().apply(transaction).await?,
                None => self.apply_last(transaction).await?,
            });
        }
        Ok(applied)
    }

    /// Rolls out a change of a view: it is served to the clients of the policy's first step, then
    /// to those of each further step, and finally to all. If a client rejects it, or another
    /// condition of the policy is violated, those clients get the earlier resources back.
    ///
    /// By default, a policy can only select a share of all clients. Policies with conditions on the
    /// node, including its id, need [`ServerOptions::with_node_detail`] with
    /// [`NodeDetail::Full`](rollout::NodeDetail::Full).
    ///
    /// ```
    /// use xds::server::rollout::{Cohort, RolloutPolicy, RolloutStep, Share};
    /// use xds::{ManagementServer, server::Transaction};
    ///
    /// # async fn run(server: ManagementServer, change: Transaction) -> Result<(), Box<dyn std::error::Error>> {
    /// let steps = [5, 50].map(|percent| RolloutStep::new(Cohort::of(Share::percent(percent))));
    /// let mut rollout = server.rollout(change, RolloutPolicy::new(steps)).await?;
    /// while let Some(progress) = rollout.next().await {
    ///     println!("step {} of {}: {:?}", progress.step + 1, progress.steps, progress.phase);
    ///     if let Some(reason) = progress.reason {
    ///         println!("{reason}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error, and changes nothing, if the policy or the change is invalid, if the change
    /// violates a [rule](ServerBuilder::guard), if nothing was [applied](Self::apply) before, or if the
    /// server has ended.
    pub async fn rollout(
        &self,
        change: impl Into<Transaction>,
        policy: rollout::RolloutPolicy,
    ) -> Result<rollout::RolloutHandle, ChangeError> {
        let transaction = self.judged(change.into()).await?;
        if !self.is_ready.load(Ordering::Relaxed) {
            let served = self.handle().contents(transaction.view().clone()).await;
            if served.map_err(ApplyError::Ended)?.iter().next().is_none() {
                return Err(ChangeError::NothingServed);
            }
        }
        let rollout = self.handle().rollout(vec![transaction], policy).await?;
        self.answer_clients().await?;
        Ok(rollout)
    }

    /// Applies a change without checking the [rules](ServerBuilder::guard).
    ///
    /// # Errors
    ///
    /// Returns an error if a name is invalid, if a snapshot has a name twice, if a limit is exceeded,
    /// or if the server has ended.
    pub async fn force(&self, change: impl Into<Transaction>) -> Result<Applied, ChangeError> {
        Ok(self.apply_last(change.into().into()).await?)
    }

    /// Applies a change after which clients are answered, even if the future is dropped.
    async fn apply_last(
        &self,
        change: xds_core::server::Transaction,
    ) -> Result<Applied, ApplyError> {
        if self.is_ready.load(Ordering::Relaxed) {
            return self.handle().apply(change).await;
        }
        let applied = self.handle().apply_and_set_ready(change).await?;
        self.is_ready.store(true, Ordering::Relaxed);
        Ok(applied)
    }

    /// Makes the server answer clients, after the first change.
    async fn answer_clients(&self) -> Result<(), ChangeError> {
        if !self.is_ready.load(Ordering::Relaxed) {
            self.handle().set_ready().await.map_err(ApplyError::Ended)?;
            self.is_ready.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Returns the change if it satisfies the rules.
    async fn judged(
        &self,
        change: Transaction,
    ) -> Result<xds_core::server::Transaction, ChangeError> {
        let transaction = xds_core::server::Transaction::from(change);
        if !self.guards.is_empty() {
            self.judge(&self.handle().preview(transaction.clone()).await?).await?;
        }
        Ok(transaction)
    }

    async fn judge(&self, preview: &[ViewContents]) -> Result<(), ChangeError> {
        let mut served = Vec::new();
        for after in preview {
            let before = self.handle().contents(after.view().clone()).await;
            served.push(before.map_err(ApplyError::Ended)?);
        }
        let changes = preview.iter().zip(&served);
        let changes = changes.map(|(after, before)| ViewChange::new(after.view(), before, after));
        self.guards.judge(changes).map_err(ChangeError::Refused)
    }

    /// Returns the handle of the server, with its untyped interface, events, status and statistics.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        self.server.handle()
    }

    /// Returns the gRPC side of the server.
    ///
    /// Use it to add the server's [`routes`](xds_grpc::ManagementServer::routes) and
    /// [`health`](xds_grpc::ManagementServer::health) service to a tonic server of your own. The
    /// address given to [`bind`](ServerBuilder::bind) is served too.
    #[must_use]
    pub const fn services(&self) -> &xds_grpc::ManagementServer<R> {
        &self.server
    }

    /// Serves until `signal` completes, then shuts the server down. Each stream ends as soon as its
    /// pending responses are answered, within the grace period of the
    /// [options](ServerOptions::shutdown_grace). Then the listener is closed, so that another server
    /// can use its address.
    ///
    /// Any future can be the signal. With tokio it is usually `tokio::signal::ctrl_c()`. With smol
    /// and async-std, await the next item of a signal stream, for example from the crate
    /// `async-signal`.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended before `signal` completed.
    pub async fn run_until(&self, signal: impl Future) -> Result<(), ServerEnded> {
        let handle = self.handle();
        let (mut signal, mut ended) = (pin!(signal), pin!(handle.ended()));
        let has_ended = poll_fn(|cx| match signal.as_mut().poll(cx) {
            Poll::Ready(_) => Poll::Ready(false),
            Poll::Pending => ended.as_mut().poll(cx).map(|()| true),
        });
        if has_ended.await {
            return Err(ServerEnded);
        }
        let plan = DrainPlan::new(self.grace_period);
        handle.drain(plan).await;
        Ok(())
    }
}
