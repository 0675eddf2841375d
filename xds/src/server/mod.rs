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
use xds_core::references::{Consistency, Finding};
use xds_grpc::runtime::Listen;

use self::builder::References;
pub use self::{
    builder::{BindError, ServerBuilder},
    node::NodeInfo,
    transaction::{InvalidResource, Transaction},
};

/// Part of the untyped interface; all settings are in [`protocol::server`](crate::protocol::server).
pub use xds_core::server::{
    Applied, DrainPlan, Observation, ResourceOptions, Server, ServerConfig, ServerEvent,
    ServerLimits, ViewContents,
};
pub use xds_grpc::server::{
    AddressFault, Admitted, AllowSans, ApplyError, AuthorizationDecision, AuthorizationRequest,
    Authorizer, BothAuthorizers, BoundAddress, Denied, InvalidSanPattern, NodeFromSan, ServerEnded,
    ServerEvents, ServerHandle, ServerOptions,
};

/// Management server that listens on an address.
///
/// It ends when it is dropped and no client is connected, or after
/// [`run_until`](Self::run_until).
#[derive(Clone, Debug)]
pub struct ManagementServer<R> {
    server: xds_grpc::ManagementServer<R>,
    address: BoundAddress,
    references: References,
    grace_period: Duration,
    /// Whether a change has been applied, so that clients are answered.
    is_ready: Arc<AtomicBool>,
}

/// Reason why a change has not been applied. The contents of the server are as before.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The change is invalid, or the server has ended.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The change leaves references to resources that do not exist.
    #[error("dangling references: {}", list(.0))]
    DanglingReferences(Vec<Finding>),
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

    /// Changes or replaces the resources of a view. Clients are sent what has changed.
    ///
    /// From the first change on, clients of all views are [answered](ServerBuilder::bind). To fill
    /// several views before that, apply their changes with the [handle](Self::handle), and then call
    /// its [`set_ready`](ServerHandle::set_ready).
    ///
    /// # Errors
    ///
    /// Returns an error if a name is invalid, if a snapshot has a name twice, if a limit is
    /// exceeded, if dangling references are [denied](ServerBuilder::deny_dangling_references) and
    /// there would be one, or if the server has ended.
    pub async fn apply(&self, change: impl Into<Transaction>) -> Result<Applied, ChangeError> {
        let transaction = xds_core::server::Transaction::from(change.into());
        if self.references == References::Complete {
            check_references(&self.handle().preview(transaction.clone()).await?)?;
        }
        let handle = self.handle();
        let applied = handle.apply(transaction).await?;
        if !self.is_ready.load(Ordering::Relaxed) {
            handle.set_ready().await.map_err(ApplyError::Ended)?;
            self.is_ready.store(true, Ordering::Relaxed);
        }
        Ok(applied)
    }

    /// Returns the handle of the server, with its untyped interface, events, status and statistics.
    #[must_use]
    pub fn handle(&self) -> ServerHandle {
        self.server.handle()
    }

    /// Returns the server as a set of gRPC services, to be part of another gRPC server.
    #[must_use]
    pub const fn services(&self) -> &xds_grpc::ManagementServer<R> {
        &self.server
    }

    /// Serves until `signal` completes. Then streams end as soon as the responses on their way are
    /// answered, within the grace period of the [options](ServerOptions::shutdown_grace).
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
        let plan = DrainPlan { period: Duration::ZERO, grace_period: self.grace_period };
        handle.drain(plan).await;
        Ok(())
    }
}

fn check_references(preview: &[ViewContents]) -> Result<(), ChangeError> {
    let consistency = Consistency::default();
    let mut findings: Vec<_> = preview.iter().flat_map(|view| view.check(&consistency)).collect();
    findings.retain(|finding| matches!(finding, Finding::Missing { .. }));
    if findings.is_empty() { Ok(()) } else { Err(ChangeError::DanglingReferences(findings)) }
}

fn list(findings: &[Finding]) -> String {
    let texts: Vec<_> = findings.iter().map(Finding::to_string).collect();
    texts.join("; ")
}
