//! Runs of an application's own code on a stage with faults.

use core::{
    fmt,
    future::{Future, poll_fn},
    ops::Range,
    pin::pin,
    time::Duration,
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};
use xds_core::{
    ResourceName, TypeUrl,
    client::{
        ClientConfig, Node, Profile, Rejection, ResourceType, ServerAddress, ValidationContext,
        Value,
    },
    server::{ServerConfig, Transaction},
};
use xds_grpc::{ClientOptions, ManagementServer, ServerHandle, ServerOptions, client::connect};
use xds_handle::ClientHandle;

use super::{
    DialOutcome, Host, Stage,
    check::{StackScenario, StackSummary, check},
};
use crate::Toy;

const PORT: u16 = 18_000;

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
///         // Errors are reported while the server is away.
///         if let Some(Ok(Notice::Changed(Ok(resource)))) = watch.next().await {
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
/// `tokio::spawn`, `tokio::time`, channels and locks of tokio, streams, and everything that is built
/// on the traits of [`Future`]. Time is virtual: a sleep of ten minutes takes no time. The limit of an
/// hour of virtual time is that of [`with_limit`](App::with_limit).
///
/// [`Host::current`] is the machine of the application, with notes in the timeline, its date, listeners
/// and connections. Clients of the facade `xds` start on it (`start_on`).
///
/// # What is not supported
///
/// | not supported | instead | if it is used |
/// |---|---|---|
/// | threads: `std::thread`, `spawn_blocking`, `tokio::fs`, a runtime of the application | [`Runtime::spawn_blocking`](xds_grpc::runtime::Runtime::spawn_blocking) of a [`Host`], `std::fs` | violation `no threads`, if tokio starts the thread or a thread wakes a task of a host |
/// | sockets of the operating system, `tokio::net` | [`Host::listen`], [`Host::dial`], [`Host::connector`] | violation `no panic` that names these |
/// | `std::time::Instant`, `std::time::SystemTime` | `tokio::time::Instant`, [`Host::date`] | they show real time, which does not advance in a run |
/// | `std::thread::sleep`, blocking on a future | `tokio::time::sleep` | the whole run waits |
/// | events of the operating system about files | checks every 2 s, [`Host::report_file_changes`] | none arrive |
/// | random numbers, maps with random iteration order | [`Runtime::entropy`](xds_grpc::runtime::Runtime::entropy), `BTreeMap` | a seed may give another run |
/// | `#[tokio::test]`, a call in a runtime | `#[test]` | panic `Cannot start a runtime from within a runtime` |
/// | a loop without `await` | a loop with `await`, which is reported as `no busy loop` | the run does not end |
/// | restarts of the server | a scenario on a [`Stage`], with [`Stage::kill`] | network faults only |
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
/// What the clients have in the end is not checked, and the server does not restart. A scenario on a
/// [`Stage`] can do both.
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
    application: F,
    content: Content,
}

/// Application with a server: see [`server_app`].
#[derive(Clone, Debug)]
#[must_use = "nothing runs before `check`"]
pub struct ServerApp<F> {
    application: F,
    content: Content,
}

/// Content of a run besides the application.
#[derive(Clone, Debug)]
struct Content {
    limit: Duration,
    profile: Profile,
    resources: Vec<(TypeUrl, ResourceName, Bytes)>,
    changes: Vec<Change>,
    watches: Vec<(TypeUrl, ResourceName)>,
    types: Vec<Arc<dyn ResourceType>>,
    configure: Vec<Configure>,
    situations: Vec<&'static str>,
}

/// Change of the configuration of a client.
#[derive(Clone)]
struct Configure(Arc<dyn Fn(ClientConfig) -> ClientConfig + Send + Sync>);

impl fmt::Debug for Configure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Configure")
    }
}

/// Default type: accepts everything except a [`Toy`] whose text begins with `bad`.
#[derive(Clone, Debug)]
struct AnyType(TypeUrl);

impl ResourceType for AnyType {
    fn type_url(&self) -> &TypeUrl {
        &self.0
    }

    fn validate(
        &self,
        bytes: &Bytes,
        _: &ValidationContext<'_>,
    ) -> Result<Option<Value>, Rejection> {
        match Toy::text_of(bytes) {
            text if text.starts_with("bad") => {
                Err(Rejection::new(format!("text: {text} is not allowed")))
            }
            _ => Ok(None),
        }
    }
}

#[derive(Clone, Debug)]
struct Change {
    at: Duration,
    type_url: TypeUrl,
    name: ResourceName,
    bytes: Option<Bytes>,
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

impl<F, Fut> StackScenario for App<F>
where
    F: Fn(ClientHandle) -> Fut + Sync,
    Fut: Future<Output = ()> + Send + 'static,
{
    fn situations(&self) -> &[&'static str] {
        &self.content.situations
    }

    async fn play(&self, stage: &Stage) {
        let (near, far) = (stage.host("application"), stage.server_host("server"));
        let server = serve(&far);
        let mut content = Transaction::new();
        for (type_url, name, bytes) in &self.content.resources {
            content.set(type_url.clone(), name.clone(), bytes.clone());
        }
        apply(stage, &server, content).await;
        let changes = self.content.changes.iter();
        let types = self.content.resources.iter().map(|(type_url, ..)| type_url);
        let types: BTreeSet<_> = types.chain(changes.map(|change| &change.type_url)).collect();
        let client = client(&near, &self.content, types);
        let ended = start(&near, (self.application)(client));
        for change in &self.content.changes {
            let (handle, change, host) = (server.handle(), change.clone(), far.clone());
            far.start(async move {
                sleep(change.at).await;
                let verb = if change.bytes.is_some() { "sets" } else { "removes" };
                host.note(format!("{verb} {} `{}`", short_name(&change.type_url), change.name));
                let mut transaction = Transaction::new();
                match change.bytes {
                    Some(bytes) => transaction.set(change.type_url, change.name, bytes),
                    None => transaction.remove(change.type_url, change.name),
                };
                // The application may have ended the run.
                let _ = handle.apply(transaction).await;
            });
        }
        run_to_end(stage, &near, &far, ended, self.content.limit).await;
    }
}

impl<F, Fut> StackScenario for ServerApp<F>
where
    F: Fn(ServerHandle) -> Fut + Sync,
    Fut: Future<Output = ()> + Send + 'static,
{
    fn situations(&self) -> &[&'static str] {
        &self.content.situations
    }

    async fn play(&self, stage: &Stage) {
        const CLIENTS: u32 = 2;

        let far = stage.server_host("server");
        let server = serve(&far);
        let types: BTreeSet<_> =
            self.content.watches.iter().map(|(type_url, _)| type_url).collect();
        let mut near = stage.host("client-0");
        for number in 0..CLIENTS {
            if number > 0 {
                near = stage.host(&format!("client-{number}"));
            }
            let client = client(&near, &self.content, types.clone());
            for (type_url, name) in &self.content.watches {
                let mut watch = client.watch_untyped(type_url.clone(), name.clone());
                near.start(async move { while watch.next().await.is_some() {} });
            }
        }
        let ended = start(&far, (self.application)(server.handle()));
        run_to_end(stage, &near, &far, ended, self.content.limit).await;
    }
}

/// Returns the part of a type URL after the package.
fn short_name(type_url: &TypeUrl) -> &str {
    type_url.as_str().rsplit('.').next().unwrap_or_default()
}

fn serve(host: &Host) -> ManagementServer<Host> {
    let options = ServerOptions::default().with_seed(1);
    let server = ManagementServer::start_on(host.clone(), ServerConfig::default(), options);
    if let Ok(listener) = host.listen((host.address(), PORT).into()) {
        let serving = server.serve(listener);
        host.start(async move { drop(serving.await) });
    }
    server
}

fn client(host: &Host, content: &Content, types: BTreeSet<&TypeUrl>) -> ClientHandle {
    let address = ServerAddress::new(format!("server:{PORT}"));
    let mut config = ClientConfig::new(Node::new(host.name()), address);
    config = config.with_profile(content.profile.clone());
    config.types.clone_from(&content.types);
    for type_url in types {
        if !content.types.iter().any(|known| known.type_url() == type_url) {
            config = config.with_type(AnyType(type_url.clone()));
        }
    }
    for Configure(configure) in &content.configure {
        config = configure(config);
    }
    connect(host.clone(), config, ClientOptions::default().with_seed(2))
}

async fn apply(stage: &Stage, server: &ManagementServer<Host>, change: Transaction) {
    if let Err(error) = server.handle().apply(change).await {
        stage.violate("content", "The content of the server is valid.", error.to_string());
    }
}

/// Application that runs.
struct Running {
    /// Closed when the application has ended, also by a panic.
    ended: oneshot::Receiver<()>,
    /// Time of the last poll of its task.
    polled: Arc<Mutex<Instant>>,
}

fn start(host: &Host, application: impl Future<Output = ()> + Send + 'static) -> Running {
    let (sender, ended) = oneshot::channel();
    let polled = Arc::new(Mutex::new(Instant::now()));
    let own = Arc::clone(&polled);
    host.start(async move {
        let _sender = sender;
        let mut application = pin!(application);
        poll_fn(|cx| {
            *own.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            application.as_mut().poll(cx)
        })
        .await;
    });
    Running { ended, polled }
}

/// Draws faults, repairs them, and waits for the end of the application.
async fn run_to_end(stage: &Stage, near: &Host, far: &Host, application: Running, limit: Duration) {
    let begin = Instant::now();
    let address = (far.address(), PORT).into();
    let faults = stage.below("number of faults", 12);
    for _ in 0..faults {
        stage.choices().begin_span();
        let wait = stage.choices().pick("wait", &[0, 1, 50, 1_000, 8_000, 40_000]);
        sleep(Duration::from_millis(wait)).await;
        match stage.below("fault", 8) {
            0 => stage.reset(near, far),
            1 => stage.set_reach(address, DialOutcome::Refused),
            2 => stage.set_reach(address, DialOutcome::Open),
            3 => stage.partition(near, far),
            4 => stage.heal(near, far),
            5 => stage.lose_connections(near, far),
            6 => stage.go_away(far, near),
            _ => stage.set_reach(address, DialOutcome::Silent),
        }
        stage.choices().end_span();
    }
    stage.set_reach(address, DialOutcome::Open);
    stage.heal(near, far);
    if timeout(limit, application.ended).await.is_err() {
        let polled = *application.polled.lock().unwrap_or_else(PoisonError::into_inner);
        let polled = polled.duration_since(begin).as_secs_f64();
        let what = format!(
            "it still runs {limit:?} after the last fault was repaired, which is the limit of \
             `with_limit`; its main task was polled last at {polled:.3}s"
        );
        stage.violate("application-ends", "The application ends.", what);
    }
}
