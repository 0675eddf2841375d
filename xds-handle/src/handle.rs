//! The application's way to its client.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures_channel::{mpsc::UnboundedSender, oneshot};
use thiserror::Error;
use xds_core::{
    Client, ResourceName, Time, TypeUrl,
    client::{ClientStats, Contents, InvalidStaticResource, Metrics, Node},
    proto,
};

use crate::{
    command::{Command, Commands, Inspection, Slot, Unclaimed},
    decode::Decode,
    review::{Desk, Reviews},
    slot::{AllSlot, NamedSlot},
    snapshot::ResourceSnapshot,
    typed::{TypedWatch, TypedWatchAll},
    wall_clock,
    watch::{Watch, WatchAll},
};

/// The application's way to a running client. Clones are cheap and reach the same client, which
/// ends when the last of them and the last watch are dropped.
#[derive(Clone, Debug)]
pub struct ClientHandle {
    commands: Commands,
    desk: Arc<Desk>,
}

/// The client has been shut down, or its driver was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the client has ended")]
pub struct ClientEnded;

/// Why a resource was not added.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NotAdded {
    /// It cannot be a static resource.
    #[error(transparent)]
    Invalid(#[from] InvalidStaticResource),
    /// There is no client any more.
    #[error(transparent)]
    Ended(#[from] ClientEnded),
}

impl ClientHandle {
    pub(crate) fn new(commands: Commands, desk: Arc<Desk>) -> Self {
        Self { commands, desk }
    }

    /// Watches one resource of a type that the client decodes to `T`, which takes
    /// [`Typed`](crate::Typed) in its configuration. Never blocks; may be called from anywhere.
    ///
    /// What is known already arrives at once. A watch that cannot be made says so as its first and
    /// last item.
    pub fn watch<T: Decode>(&self, name: impl Into<ResourceName>) -> TypedWatch<T> {
        TypedWatch::new(self.watch_untyped(T::type_url(), name))
    }

    /// Watches every resource of a type that the client decodes to `T`; otherwise as
    /// [`watch`](Self::watch).
    pub fn watch_all<T: Decode>(&self) -> TypedWatchAll<T> {
        TypedWatchAll::new(self.watch_all_untyped(T::type_url()))
    }

    /// Watches every resource that a glob, `xdstp://authority/type/path/*?context`, stands for
    /// ([`Interest::Glob`](xds_core::client::Interest::Glob)); otherwise as
    /// [`watch_all`](Self::watch_all).
    pub fn watch_glob<T: Decode>(&self, glob: impl Into<ResourceName>) -> TypedWatchAll<T> {
        TypedWatchAll::new(self.watch_glob_untyped(T::type_url(), glob))
    }

    /// Watches one resource of a type that is known at run time. Never blocks; may be called from
    /// anywhere.
    ///
    /// What is known already arrives at once. A watch that cannot be made says so as its first and
    /// last item: see [`Watch`].
    pub fn watch_untyped(
        &self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
    ) -> Watch {
        let slot = Arc::new(NamedSlot::default());
        self.send(Command::Watch {
            type_url: type_url.into(),
            name: name.into(),
            slot: Unclaimed::new(Slot::Named(Arc::clone(&slot))),
        });
        Watch::new(slot, self.commands.clone())
    }

    /// Watches every resource of a type that the server has for this node (S0.104). Never blocks.
    pub fn watch_all_untyped(&self, type_url: impl Into<TypeUrl>) -> WatchAll {
        self.watch_many(type_url.into(), None)
    }

    /// Watches every resource of a type that a glob stands for, which must be one that servers of the
    /// incremental variant answer for. Never blocks.
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
            slot: Unclaimed::new(Slot::All(Arc::clone(&slot))),
        });
        WatchAll::new(slot, self.commands.clone())
    }

    /// Adds a resource of the application's own, as one of the `static_resources` of a proxy's bootstrap: watchers
    /// get it as if a server had sent it, and no server is asked for it or has a say in it
    /// ([`Client::add_static_resource`]). It is added at once and before what is watched later, whether or not the
    /// future is awaited, which yields its name. Never blocks.
    ///
    /// # Errors
    ///
    /// The resource is not valid, its name is known or watched already, or the client has ended.
    pub fn add_static_resource<T: Into<TypeUrl>>(
        &self,
        type_url: T,
        resource: Bytes,
    ) -> impl Future<Output = Result<ResourceName, NotAdded>> + Send + use<T> {
        let (answer, question) = oneshot::channel();
        let type_url = type_url.into();
        self.send(Command::AddStatic { type_url, resource, answer });
        async { Ok(question.await.map_err(|_| ClientEnded)??) }
    }

    /// What comes of a type whose resources wait for a verdict from outside
    /// ([`Verdict::External`](xds_core::client::Verdict)). Several reviewers of a type share the work.
    /// What comes while there is none waits, and its channel with it.
    pub fn reviews(&self, type_url: impl Into<TypeUrl>) -> Reviews {
        let commands = Arc::downgrade(&self.commands);
        Reviews::new(Arc::clone(&self.desk), commands, type_url.into())
    }

    /// How often things happened since the client was made.
    ///
    /// # Errors
    ///
    /// The client has ended.
    pub async fn stats(&self) -> Result<ClientStats, ClientEnded> {
        self.inspect(|client, _| client.stats()).await
    }

    /// Every resource that is watched, or known of under a wildcard or a glob, type by type. The payloads are
    /// shared with the client, not copied.
    ///
    /// # Errors
    ///
    /// The client has ended.
    pub async fn status(&self) -> Result<Vec<ResourceSnapshot>, ClientEnded> {
        self.inspect(|client, now| {
            let clock = wall_clock::read();
            client.status().map(|status| ResourceSnapshot::new(&status, clock, now)).collect()
        })
        .await
    }

    /// What client status discovery (CSDS, gRFC A40) tells of the client: the same as
    /// [`status`](Self::status), as the message that tools understand. `scope` is what the client
    /// was made for, as a gRPC target.
    ///
    /// # Errors
    ///
    /// The client has ended.
    pub async fn csds(
        &self,
        scope: impl Into<String>,
        contents: Contents,
    ) -> Result<proto::ClientConfig, ClientEnded> {
        let look = |client: &Client, now| (client.snapshot(), wall_clock::core(now));
        let (snapshot, clock) = self.inspect(look).await?;
        // The message is made here, not in the driver's turn.
        Ok(snapshot.into_message(scope, contents, clock))
    }

    /// What is measured of the client (gRFC A78), to be handed to a
    /// [`MetricsExporter`](xds_core::client::MetricsExporter) here and now:
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
    /// The client has ended.
    pub async fn metrics(&self) -> Result<Metrics, ClientEnded> {
        self.inspect(|client, _| client.metrics()).await
    }

    /// A way to the client that does not keep it alive.
    #[must_use]
    pub fn downgrade(&self) -> WeakClientHandle {
        WeakClientHandle { commands: Arc::downgrade(&self.commands), desk: Arc::clone(&self.desk) }
    }

    /// Says that the network is back: servers that would be tried again after a pause are tried at once,
    /// and the pauses start over (BO-06). Never blocks.
    pub fn reset_backoff(&self) {
        self.send(Command::ResetBackoff);
    }

    /// Changes who the client says it is (B12): each open stream is told with its next request, and further
    /// ones begin with it. Never blocks.
    pub fn set_node(&self, node: Node) {
        self.send(Command::SetNode(Box::new(node)));
    }

    /// Closes the stream to the server and ends every watch (SB-17). Returns at once;
    /// [`ended`](Self::ended) waits for it. What was commanded before still counts.
    pub fn shut_down(&self) {
        self.send(Command::ShutDown);
    }

    /// Waits until the client has ended, whoever ended it.
    pub async fn ended(&self) {
        let (guard, end) = oneshot::channel();
        self.send(Command::AwaitEnd(guard));
        // The driver never answers: it holds the other end until it is gone.
        let _ = end.await;
    }

    async fn inspect<T: Send + 'static>(
        &self,
        look: impl FnOnce(&Client, Time) -> T + Send + 'static,
    ) -> Result<T, ClientEnded> {
        let (inspection, question) = Inspection::new(look);
        self.send(Command::Inspect(inspection));
        question.await.map_err(|_| ClientEnded)
    }

    fn send(&self, command: Command) {
        // A command that nobody takes any more is dropped, which tells whoever waits for it.
        let _ = self.commands.unbounded_send(command);
    }
}

/// A way to a client for whoever looks on, as a page of statistics does: it does not keep the client
/// alive.
#[derive(Clone, Debug)]
pub struct WeakClientHandle {
    commands: Weak<UnboundedSender<Command>>,
    desk: Arc<Desk>,
}

impl WeakClientHandle {
    /// The client, unless nobody else can reach it any more. It lives as long as what is returned
    /// does, which should not be long.
    #[must_use]
    pub fn upgrade(&self) -> Option<ClientHandle> {
        let commands = self.commands.upgrade()?;
        Some(ClientHandle::new(commands, Arc::clone(&self.desk)))
    }
}
