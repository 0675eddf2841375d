//! Application's handle of a client.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures_channel::{mpsc::UnboundedSender, oneshot};
use thiserror::Error;
use xds_core::{
    Client, ResourceName, TypeUrl,
    client::{ClientStats, Contents, InvalidStaticResource, Metrics, Node},
    proto,
};

use crate::{
    command::{Command, Commands, Inspection, PendingSlot, Slot},
    decode::Decode,
    review::{ReviewQueue, Reviews},
    slot::{AllSlot, NamedSlot},
    snapshot::ResourceSnapshot,
    typed::{TypedWatch, TypedWatchAll},
    wall_clock::ClockReading,
    watch::{Watch, WatchAll},
};

/// Handle of a running client. Clones are cheap and refer to the same client, which ends when its
/// last handle and watch are dropped.
#[derive(Clone, Debug)]
pub struct ClientHandle {
    commands: Commands,
    review_queue: Arc<ReviewQueue>,
}

/// Error: the client has been shut down, or its driver was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the client has ended")]
pub struct ClientEnded;

/// Reason why a static resource was not added.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddStaticResourceError {
    /// The resource is not a valid static resource.
    #[error(transparent)]
    Invalid(#[from] InvalidStaticResource),
    /// The client has ended.
    #[error(transparent)]
    Ended(#[from] ClientEnded),
}

impl ClientHandle {
    pub(crate) fn new(commands: Commands, review_queue: Arc<ReviewQueue>) -> Self {
        Self { commands, review_queue }
    }

    /// Watches one resource, decoded to `T`. The client's configuration must contain
    /// [`Typed<T>`](crate::Typed).
    ///
    /// Never blocks, and can be called from any thread. If the resource is known, its state is
    /// delivered immediately. If the watch is invalid, the stream yields one error and ends.
    pub fn watch<T: Decode>(&self, name: impl Into<ResourceName>) -> TypedWatch<T> {
        TypedWatch::new(self.watch_untyped(T::type_url(), name))
    }

    /// Watches all resources of a type, decoded to `T`. See [`watch`](Self::watch).
    pub fn watch_all<T: Decode>(&self) -> TypedWatchAll<T> {
        TypedWatchAll::new(self.watch_all_untyped(T::type_url()))
    }

    /// Watches all resources that match the glob `xdstp://authority/type/path/*?context`
    /// ([`Interest::Glob`](xds_core::client::Interest::Glob)), decoded to `T`. See
    /// [`watch_all`](Self::watch_all).
    pub fn watch_glob<T: Decode>(&self, glob: impl Into<ResourceName>) -> TypedWatchAll<T> {
        TypedWatchAll::new(self.watch_glob_untyped(T::type_url(), glob))
    }

    /// Watches one resource of a type that is only known at run time.
    ///
    /// Never blocks, and can be called from any thread. If the resource is known, its state is
    /// delivered immediately. If the watch is invalid, the stream yields one error and ends: see
    /// [`Watch`].
    pub fn watch_untyped(
        &self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
    ) -> Watch {
        let slot = Arc::new(NamedSlot::default());
        self.send(Command::Watch {
            type_url: type_url.into(),
            name: name.into(),
            slot: PendingSlot::new(Slot::Named(Arc::clone(&slot))),
        });
        Watch::new(slot, self.commands.clone())
    }

    /// Watches all resources of a type that the server has for this node. Never blocks.
    // S0.104
    pub fn watch_all_untyped(&self, type_url: impl Into<TypeUrl>) -> WatchAll {
        self.watch_many(type_url.into(), None)
    }

    /// Watches all resources of a type that match a glob. Requires a server with the incremental
    /// variant. Never blocks.
    pub fn watch_glob_untyped(
        &self,
        type_url: impl Into<TypeUrl>,
        glob: impl Into<ResourceName>,
    ) -> WatchAll {
        self.watch_many(type_url.into(), Some(glob.into()))
    }

    fn watch_many(&self, type_url: TypeUrl, glob: Option<ResourceName>) -> WatchAll {
        let slot = Arc::new(AllSlot::default());
        self.send(Command::WatchAll {
            type_url,
            glob,
            slot: PendingSlot::new(Slot::All(Arc::clone(&slot))),
        });
        WatchAll::new(slot, self.commands.clone())
    }

    /// Adds a static resource, like those in `static_resources` of an Envoy bootstrap.
    ///
    /// Watchers receive it like a resource from a server. It is never requested from a server, and
    /// servers cannot change it ([`Client::add_static_resource`]). It is added before later
    /// watches, even if the future, which returns its name, is not awaited. Never blocks.
    ///
    /// # Errors
    ///
    /// Returns an error if the resource is invalid, its name is known or watched already, or the
    /// client has ended.
    pub fn add_static_resource<T: Into<TypeUrl>>(
        &self,
        type_url: T,
        resource: Bytes,
    ) -> impl Future<Output = Result<ResourceName, AddStaticResourceError>> + Send + use<T> {
        let (sender, reply) = oneshot::channel();
        let type_url = type_url.into();
        self.send(Command::AddStatic { type_url, resource, sender });
        async { Ok(reply.await.map_err(|_| ClientEnded)??) }
    }

    /// Returns the updates of a type whose resources need an external verdict
    /// ([`VerdictSource::External`](xds_core::client::VerdictSource)).
    ///
    /// Several reviewers of a type share the updates. Without a reviewer, updates wait, and their
    /// channels with them.
    pub fn reviews(&self, type_url: impl Into<TypeUrl>) -> Reviews {
        let commands = Arc::downgrade(&self.commands);
        Reviews::new(Arc::clone(&self.review_queue), commands, type_url.into())
    }

    /// Returns the client's counters and gauges.
    ///
    /// # Errors
    ///
    /// Returns an error if the client has ended.
    pub async fn stats(&self) -> Result<ClientStats, ClientEnded> {
        self.inspect(|client, _| client.stats()).await
    }

    /// Returns all resources that are watched, or known through a wildcard or glob, by type.
    /// Payloads are shared with the client.
    ///
    /// # Errors
    ///
    /// Returns an error if the client has ended.
    pub async fn status(&self) -> Result<Vec<ResourceSnapshot>, ClientEnded> {
        self.inspect(|client, clock| {
            client.status().map(|status| ResourceSnapshot::new(&status, clock)).collect()
        })
        .await
    }

    /// Returns the client's [`status`](Self::status) as a message of the client status discovery
    /// service (CSDS, [gRFC A40]).
    ///
    /// `scope` is the gRPC target that the client serves.
    ///
    /// # Errors
    ///
    /// Returns an error if the client has ended.
    ///
    /// [gRFC A40]: https://github.com/grpc/proposal/blob/master/A40-csds-support.md
    pub async fn csds(
        &self,
        scope: impl Into<String>,
        contents: Contents,
    ) -> Result<proto::ClientConfig, ClientEnded> {
        let read = |client: &Client, clock: ClockReading| (client.snapshot(), clock.wall_clock());
        let (snapshot, clock) = self.inspect(read).await?;
        // The message is created outside of the driver.
        Ok(snapshot.into_message(scope, contents, clock))
    }

    /// Returns the client's metrics ([gRFC A78]), to be exported by a
    /// [`MetricsExporter`](xds_core::client::MetricsExporter):
    ///
    /// ```
    /// # use xds_core::client::MetricsExporter;
    /// # use xds_handle::{ClientEnded, ClientHandle};
    /// async fn scrape(
    ///     client: &ClientHandle,
    ///     exporter: &mut dyn MetricsExporter,
    /// ) -> Result<(), ClientEnded> {
    ///     client.metrics().await?.export("xds:///greeter", exporter);
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the client has ended.
    ///
    /// [gRFC A78]: https://github.com/grpc/proposal/blob/master/A78-grpc-metrics-wrr-pf-xds.md
    pub async fn metrics(&self) -> Result<Metrics, ClientEnded> {
        self.inspect(|client, _| client.metrics()).await
    }

    /// Returns a handle that does not keep the client alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakClientHandle {
        WeakClientHandle {
            commands: Arc::downgrade(&self.commands),
            review_queue: Arc::clone(&self.review_queue),
        }
    }

    /// Resets the backoff, for example after the network has returned: pending reconnection
    /// attempts are made immediately. Never blocks.
    // BO-06
    pub fn reset_backoff(&self) {
        self.send(Command::ResetBackoff);
    }

    /// Changes the client's node. It is sent with the next request of each stream. Never blocks.
    // B12
    pub fn set_node(&self, node: Node) {
        self.send(Command::SetNode(Box::new(node)));
    }

    /// Shuts the client down: closes its streams and ends every watch. Earlier commands are applied
    /// first. Returns immediately; use [`ended`](Self::ended) to wait.
    // SB-17
    pub fn shut_down(&self) {
        self.send(Command::ShutDown);
    }

    /// Waits until the client has ended for any reason.
    pub async fn ended(&self) {
        let (guard, end) = oneshot::channel();
        self.send(Command::AwaitEnd(guard));
        // The driver never answers; it drops the sender when it ends.
        let _ = end.await;
    }

    async fn inspect<T: Send + 'static>(
        &self,
        inspect: impl FnOnce(&Client, ClockReading) -> T + Send + 'static,
    ) -> Result<T, ClientEnded> {
        let (inspection, reply) = Inspection::new(inspect);
        self.send(Command::Inspect(inspection));
        reply.await.map_err(|_| ClientEnded)
    }

    fn send(&self, command: Command) {
        // If the driver has ended, the command is dropped, which cancels a waiting call.
        let _ = self.commands.unbounded_send(command);
    }
}

/// Handle that does not keep the client alive, for observers such as a status page.
#[derive(Clone, Debug)]
pub struct WeakClientHandle {
    commands: Weak<UnboundedSender<Command>>,
    review_queue: Arc<ReviewQueue>,
}

impl WeakClientHandle {
    /// Returns a handle unless the client has ended or is about to end. The handle keeps the client
    /// alive, so drop it soon.
    #[must_use]
    pub fn upgrade(&self) -> Option<ClientHandle> {
        let commands = self.commands.upgrade()?;
        Some(ClientHandle::new(commands, Arc::clone(&self.review_queue)))
    }
}
