//! Readiness and end of a server.

use std::sync::Arc;

use tokio::sync::{oneshot, watch};
use xds_core::server::{Applied, DrainPlan, Server, Transaction, TransactionError};

use super::{ApplyError, ServerEnded, ServerHandle};
use crate::server::driver::{inbox::Input, rollouts::HostedRollouts};

/// Count of the open listeners that the server serves on tasks of its own.
#[derive(Clone, Debug)]
pub(crate) struct OpenListeners(Arc<watch::Sender<()>>);

/// Registration of an open listener, dropped after its socket is closed.
pub(crate) type OpenListener = watch::Receiver<()>;

impl Default for OpenListeners {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(())))
    }
}

impl OpenListeners {
    pub(crate) fn add(&self) -> OpenListener {
        self.0.subscribe()
    }

    /// Waits until no listener is open.
    async fn closed(&self) {
        self.0.closed().await;
    }
}

impl ServerHandle {
    /// Marks the resources as complete. From now on clients are answered, and the health service
    /// reports `SERVING`. Has an effect only after
    /// [`HoldRequests`](xds_core::server::Readiness::HoldRequests) or
    /// [`NotReady`](xds_core::server::Readiness::NotReady).
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn set_ready(&self) -> Result<(), ServerEnded> {
        self.inbox.call(Input::Ready).await.ok_or(ServerEnded)
    }

    /// Applies a transaction like [`apply`](Self::apply), and then marks the resources as complete
    /// like [`set_ready`](Self::set_ready), unless the transaction is invalid.
    ///
    /// Dropping the future after its first poll reverts neither.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`apply`](Self::apply).
    pub async fn apply_and_set_ready(
        &self,
        transaction: Transaction,
    ) -> Result<Applied, ApplyError> {
        let inbox = self.inbox.clone();
        let apply = move |rollouts: &mut HostedRollouts, server: &mut Server, now| {
            let applied = rollouts.apply(server, transaction, now)?;
            let (reply, is_ready) = oneshot::channel();
            inbox.send(Input::Ready(reply));
            Ok::<_, TransactionError>((applied, is_ready))
        };
        let (applied, is_ready) = self.with_rollouts(apply).await??;
        // The server may have ended after the change.
        let _ = is_ready.await;
        Ok(applied)
    }

    /// Drains the server: accepts no more streams, ends the existing ones according to the plan,
    /// and returns after the last one, when the server has [ended](Self::ended). Meanwhile the
    /// health service reports `NOT_SERVING`.
    ///
    /// Dropping the future after its first poll does not stop the drain.
    // M14, M238
    pub async fn drain(&self, plan: DrainPlan) {
        self.inbox.send(Input::Drain(plan));
        self.ended().await;
    }

    /// Shuts the server down: ends all streams with `UNAVAILABLE`, accepts no more, and returns when
    /// the server has [ended](Self::ended).
    ///
    /// Dropping the future after its first poll does not stop the shutdown.
    // M14
    pub async fn shut_down(&self) {
        self.inbox.send(Input::ShutDown);
        self.ended().await;
    }

    /// Waits until the server has ended for any reason.
    ///
    /// Listeners of [`spawn_serve`](crate::server::ManagementServer::spawn_serve) and
    /// `spawn_serve_rest` are closed then, so that another server can use their addresses; this needs
    /// the runtime on which they are served. Listeners that the application polls, as with
    /// [`serve`](crate::server::ManagementServer::serve), close
    /// afterwards.
    pub async fn ended(&self) {
        self.inbox.ended().await;
        self.open_listeners.closed().await;
    }
}
