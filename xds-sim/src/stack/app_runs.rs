//! Runs of applications.

use core::{
    cell::RefCell,
    future::{Future, poll_fn},
    pin::pin,
    time::Duration,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};
use xds_core::{
    ResourceName, TypeUrl,
    client::{
        ClientConfig, Node, Rejection, ResourceType, ServerAddress, ValidationContext, Value,
    },
    server::{ServerConfig, Transaction},
};
use xds_grpc::{ClientOptions, ManagementServer, ServerHandle, ServerOptions, client::connect};
use xds_handle::ClientHandle;

use super::{
    DialOutcome, Host, Stage,
    app::{App, Change, Configure, Content, ServerApp},
    check::StackScenario,
};
use crate::Toy;

const PORT: u16 = 18_000;

/// Virtual times for which a restarting server is down.
const DOWNTIMES: [u64; 3] = [0, 50, 8_000];

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
        let server = AppServer::start(stage, &far, &self.content).await;
        let changes = self.content.changes.iter();
        let types = self.content.resources.iter().map(|(type_url, ..)| type_url);
        let types: BTreeSet<_> = types.chain(changes.map(|change| &change.type_url)).collect();
        let client = client(&near, &self.content, types);
        let running = start(&near, (self.application)(client));
        for change in &self.content.changes {
            let (server, change) = (Arc::clone(&server), change.clone());
            // The tasks of the server's host end when it restarts.
            near.start(async move {
                sleep(change.at).await;
                server.change(change).await;
            });
        }
        let restart = async || {
            server.restart(stage).await;
            None
        };
        run_to_end(stage, (&near, &far), running, &self.content, restart).await;
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
        let running = start(&far, (self.application)(server.handle()));
        let server = RefCell::new(server);
        let restart = async || {
            restart_after_downtime(stage, &far).await;
            let restarted = serve(&far);
            let running = start(&far, (self.application)(restarted.handle()));
            drop(server.replace(restarted));
            Some(running)
        };
        run_to_end(stage, (&near, &far), running, &self.content, restart).await;
    }
}

/// Server of an application with a client. It keeps its resources when it restarts.
struct AppServer {
    host: Host,
    state: Mutex<AppServerState>,
}

struct AppServerState {
    server: ManagementServer<Host>,
    resources: BTreeMap<(TypeUrl, ResourceName), Bytes>,
}

impl AppServer {
    async fn start(stage: &Stage, host: &Host, content: &Content) -> Arc<Self> {
        let mut resources = BTreeMap::new();
        let mut transaction = Transaction::new();
        for (type_url, name, bytes) in &content.resources {
            transaction.set(type_url.clone(), name.clone(), bytes.clone());
            resources.insert((type_url.clone(), name.clone()), bytes.clone());
        }
        let state = AppServerState { server: serve(host), resources };
        let server = Self { host: host.clone(), state: Mutex::new(state) };
        server.apply(stage, transaction).await;
        Arc::new(server)
    }

    fn state(&self) -> MutexGuard<'_, AppServerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn apply(&self, stage: &Stage, change: Transaction) {
        let handle = self.state().server.handle();
        if let Err(error) = handle.apply(change).await {
            stage.violate("content", "The content of the server is valid.", error.to_string());
        }
    }

    async fn change(&self, change: Change) {
        let Change { type_url, name, bytes, .. } = change;
        let verb = if bytes.is_some() { "sets" } else { "removes" };
        self.host.note(format!("{verb} {} `{name}`", short_name(&type_url)));
        let mut transaction = Transaction::new();
        let handle = {
            let mut state = self.state();
            match bytes {
                Some(bytes) => {
                    transaction.set(type_url.clone(), name.clone(), bytes.clone());
                    state.resources.insert((type_url, name), bytes);
                }
                None => {
                    transaction.remove(type_url.clone(), name.clone());
                    state.resources.remove(&(type_url, name));
                }
            }
            state.server.handle()
        };
        // The application may have ended the run, and the server may be down.
        let _ = handle.apply(transaction).await;
    }

    async fn restart(&self, stage: &Stage) {
        restart_after_downtime(stage, &self.host).await;
        let mut transaction = Transaction::new();
        let server = serve(&self.host);
        let before = {
            let mut state = self.state();
            for ((type_url, name), bytes) in &state.resources {
                transaction.set(type_url.clone(), name.clone(), bytes.clone());
            }
            core::mem::replace(&mut state.server, server)
        };
        drop(before);
        self.apply(stage, transaction).await;
    }
}

/// Kills a server and waits for as long as it is down.
async fn restart_after_downtime(stage: &Stage, host: &Host) {
    let downtime = stage.choices().pick("downtime", &DOWNTIMES);
    stage.kill(host);
    sleep(Duration::from_millis(downtime)).await;
    host.note("starts again");
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
async fn run_to_end(
    stage: &Stage,
    (near, far): (&Host, &Host),
    mut application: Running,
    content: &Content,
    restart: impl AsyncFn() -> Option<Running>,
) {
    let begin = Instant::now();
    let address = (far.address(), PORT).into();
    let faults = stage.below("number of faults", 12);
    for _ in 0..faults {
        stage.choices().begin_span();
        let wait = stage.choices().pick("wait", &[0, 1, 50, 1_000, 8_000, 40_000]);
        sleep(Duration::from_millis(wait)).await;
        match stage.below("fault", if content.restarts { 9 } else { 8 }) {
            0 => stage.reset(near, far),
            1 => stage.set_reach(address, DialOutcome::Refused),
            2 => stage.set_reach(address, DialOutcome::Open),
            3 => stage.partition(near, far),
            4 => stage.heal(near, far),
            5 => stage.lose_connections(near, far),
            6 => stage.go_away(far, near),
            7 => stage.set_reach(address, DialOutcome::Silent),
            _ => application = restart().await.unwrap_or(application),
        }
        stage.choices().end_span();
    }
    stage.set_reach(address, DialOutcome::Open);
    stage.heal(near, far);
    let (limit, repaired) = (content.limit, Instant::now());
    if timeout(limit, application.ended).await.is_err() {
        let polled = *application.polled.lock().unwrap_or_else(PoisonError::into_inner);
        let at = polled.duration_since(begin).as_secs_f64();
        let mut what = format!(
            "it still runs {limit:?} after the last fault was repaired, which is the limit of \
             `with_limit`; its main task was polled last at {at:.3}s"
        );
        if polled <= repaired {
            what += "; threads and timers of other runtimes are not part of a run";
        }
        stage.violate("application-ends", "The application ends.", what);
    }
}
