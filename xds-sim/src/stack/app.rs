//! Runs of an application's own code on a stage with faults.

use core::{fmt, future::Future, ops::Range, time::Duration};
use std::sync::Arc;

use bytes::Bytes;
use xds_core::{
    ResourceName, TypeUrl,
    client::{ClientConfig, Profile, ResourceType},
};
use xds_grpc::ServerHandle;
use xds_handle::ClientHandle;

use super::check::{StackSummary, check};

/// Maximum virtual time from the repair of the last fault until an application has ended.
const LIMIT: Duration = Duration::from_secs(3_600);

/// Prepares runs of an application that uses a client. Each run has a server and draws faults of the
/// network, which are repaired in the end. The application has to end, and its panics are failures.
///
/// ```
/// use xds_core::{client::Notice, types::CLUSTER};
/// use xds_sim::{Toy, app};
///
/// app(|client| async move {
///     let mut watch = client.watch_untyped(CLUSTER, "web");
///     loop {
///         let notice = watch.next().await.expect("the client lives").expect("a valid watch");
///         // Errors are reported while the server is away.
///         if let Notice::Changed(Ok(resource)) = notice {
///             assert_eq!(Toy::text_of(&resource.bytes), "content");
///             return;
///         }
///     }
/// })
/// .with_resource(CLUSTER, "web", Toy::bytes("web", "content"))
/// .check(0..20);
/// ```
///
/// # What works in an application
///
/// `tokio::spawn`, `tokio::time`, channels and locks of tokio, streams, and everything that is
/// built on the traits of [`Future`]. Time is virtual: a sleep of ten minutes takes no real time.
/// [`with_limit`](App::with_limit) limits the virtual time, by default to one hour after the last
/// fault was repaired.
///
/// [`Host::current`](super::Host::current) returns the machine on which the application runs, for
/// notes in the timeline, the date, listeners and connections. Clients of the facade `xds` are
/// started on it with `start_on`.
///
/// # What is not supported
///
/// | not supported | instead | if it is used |
/// |---|---|---|
/// | threads: `std::thread`, `spawn_blocking`, `tokio::fs`, a runtime of the application | [`Runtime::spawn_blocking`](xds_grpc::runtime::Runtime::spawn_blocking) of a [`Host`](super::Host), `std::fs` | violation `no threads`, if tokio starts the thread or a thread wakes a task of a host |
/// | sockets of the operating system, `tokio::net` | [`Host::listen`](super::Host::listen), [`Host::dial`](super::Host::dial), [`Host::connector`](super::Host::connector) | violation `no panic` that names these |
/// | `std::time::Instant`, `std::time::SystemTime` | `tokio::time::Instant`, [`Host::date`](super::Host::date) | they show real time, which does not advance in a run |
/// | `std::thread::sleep`, blocking on a future | `tokio::time::sleep` | the whole run waits; after 10 s, standard error names its test and seed |
/// | timers of smol and async-std | `tokio::time::sleep` | they never fire: a run takes no real time |
/// | events of the operating system about files | checks every 2 s, [`Host::report_file_changes`](super::Host::report_file_changes) | none arrive |
/// | random numbers, maps with random iteration order | [`Runtime::entropy`](xds_grpc::runtime::Runtime::entropy), `BTreeMap` | a seed may give another run |
/// | `#[tokio::test]`, a call in a runtime | `#[test]` | panic `Cannot start a runtime from within a runtime` |
/// | a loop without `await` | a loop with `await`, which is reported as `no busy loop` | the run does not end; after 10 s, standard error names its test and seed |
/// | `tokio::select!` without `biased` | `biased`, or `--cfg tokio_unstable` | a seed may give another run |
pub fn app<F, Fut>(application: F) -> App<F>
where
    F: Fn(ClientHandle) -> Fut + Sync,
    Fut: Future<Output = ()> + Send + 'static,
{
    App { application, content: Content::default() }
}

/// Prepares runs of an application that uses a server. Each run has clients, which watch what is
/// [listed](ServerApp::with_watch), and draws faults of the network, which are repaired in the end. The
/// application has to end, and its panics are failures.
///
/// A run does not check which resources the clients have in the end. A scenario on a [`Stage`] can
/// do that.
///
/// [`Stage`]: super::Stage
pub fn server_app<F, Fut>(application: F) -> ServerApp<F>
where
    F: Fn(ServerHandle) -> Fut + Sync,
    Fut: Future<Output = ()> + Send + 'static,
{
    ServerApp { application, content: Content::default() }
}

/// Application with a client: see [`app`].
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `check`"]
pub struct App<F> {
    pub(super) application: F,
    pub(super) content: Content,
}

/// Application with a server: see [`server_app`].
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `check`"]
pub struct ServerApp<F> {
    pub(super) application: F,
    pub(super) content: Content,
}

/// Content of a run besides the application.
#[derive(Clone, Debug)]
pub(super) struct Content {
    pub(super) limit: Duration,
    pub(super) profile: Profile,
    pub(super) resources: Vec<(TypeUrl, ResourceName, Bytes)>,
    pub(super) changes: Vec<Change>,
    pub(super) watches: Vec<(TypeUrl, ResourceName)>,
    pub(super) types: Vec<Arc<dyn ResourceType>>,
    pub(super) configure: Vec<Configure>,
    pub(super) situations: Vec<&'static str>,
    pub(super) restarts: bool,
}

/// Change of the configuration of a client.
#[derive(Clone)]
pub(super) struct Configure(pub(super) Arc<dyn Fn(ClientConfig) -> ClientConfig + Send + Sync>);

impl fmt::Debug for Configure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Configure")
    }
}

#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) at: Duration,
    pub(super) type_url: TypeUrl,
    pub(super) name: ResourceName,
    pub(super) bytes: Option<Bytes>,
}

impl Default for Content {
    fn default() -> Self {
        Self {
            limit: LIMIT,
            profile: Profile::default(),
            resources: Vec::new(),
            changes: Vec::new(),
            watches: Vec::new(),
            types: Vec::new(),
            configure: Vec::new(),
            situations: Vec::new(),
            restarts: false,
        }
    }
}

impl<F> App<F> {
    /// Sets the maximum virtual time from the repair of the last fault until the application has
    /// ended; an hour by default.
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.content.limit = limit;
        self
    }

    /// Requires that at least one of the runs reaches a situation counted with
    /// [`sometimes`](crate::sometimes()).
    pub fn with_situation(mut self, name: &'static str) -> Self {
        self.content.situations.push(name);
        self
    }

    /// Sets the profile of the client; that of gRPC by default, which keeps resources that the server
    /// removes.
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.content.profile = profile;
        self
    }

    /// Adds restarts of the server to the faults. A restarted server has the resources that it had
    /// before.
    pub fn with_restarts(mut self) -> Self {
        self.content.restarts = true;
        self
    }

    /// Adds a type that the client knows, such as one for typed watches.
    ///
    /// The types of the resources and changes are known without this call. Such a type is untyped and
    /// accepts everything except a [`Toy`](crate::Toy) whose text begins with `bad`.
    pub fn with_type(mut self, resource_type: impl ResourceType + 'static) -> Self {
        self.content.types.push(Arc::new(resource_type));
        self
    }

    /// Changes the configuration of the client in each run. It has the node, the server, the profile
    /// and the types already.
    pub fn with_config(
        mut self,
        configure: impl Fn(ClientConfig) -> ClientConfig + Send + Sync + 'static,
    ) -> Self {
        self.content.configure.push(Configure(Arc::new(configure)));
        self
    }

    /// Adds a resource that the server has from the beginning: an encoded message with its name in
    /// field 1, such as a [`Toy`](crate::Toy).
    pub fn with_resource(
        mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
        bytes: impl Into<Bytes>,
    ) -> Self {
        self.content.resources.push((type_url.into(), name.into(), bytes.into()));
        self
    }

    /// Sets or removes a resource of the server at a virtual time.
    pub fn with_change(
        mut self,
        at: Duration,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
        bytes: Option<Bytes>,
    ) -> Self {
        let (type_url, name) = (type_url.into(), name.into());
        self.content.changes.push(Change { at, type_url, name, bytes });
        self
    }
}

impl<F> ServerApp<F> {
    /// Sets the maximum virtual time from the repair of the last fault until the application has
    /// ended; an hour by default.
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.content.limit = limit;
        self
    }

    /// Requires that at least one of the runs reaches a situation counted with
    /// [`sometimes`](crate::sometimes()).
    pub fn with_situation(mut self, name: &'static str) -> Self {
        self.content.situations.push(name);
        self
    }

    /// Adds restarts of the server to the faults, and calls the application again after each. The
    /// server and the application start without state.
    pub fn with_restarts(mut self) -> Self {
        self.content.restarts = true;
        self
    }

    /// Adds a resource that every client watches.
    pub fn with_watch(
        mut self,
        type_url: impl Into<TypeUrl>,
        name: impl Into<ResourceName>,
    ) -> Self {
        self.content.watches.push((type_url.into(), name.into()));
        self
    }
}

impl<F, Fut> App<F>
where
    F: Fn(ClientHandle) -> Fut + Sync,
    Fut: Future<Output = ()> + Send + 'static,
{
    /// Runs the application with the faults of many seeds.
    ///
    /// # Panics
    ///
    /// Panics like [`check`](super::check::check), with the smallest run found that fails.
    pub fn check(&self, seeds: Range<u64>) -> StackSummary {
        check(seeds, self)
    }
}

impl<F, Fut> ServerApp<F>
where
    F: Fn(ServerHandle) -> Fut + Sync,
    Fut: Future<Output = ()> + Send + 'static,
{
    /// Runs the application with the faults of many seeds.
    ///
    /// # Panics
    ///
    /// Panics like [`check`](super::check::check), with the smallest run found that fails.
    pub fn check(&self, seeds: Range<u64>) -> StackSummary {
        check(seeds, self)
    }
}
