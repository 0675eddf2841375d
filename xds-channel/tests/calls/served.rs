//! Servers whose listener is configured by xDS (gRFC A36), called over plaintext.

use core::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use std::net::SocketAddr;

use http::{Request, Response};
use prost::Message as _;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};
use tonic::{
    Code, Status,
    body::Body,
    server::NamedService,
    service::Routes,
    transport::{Channel, Endpoint},
};
use tonic_health::{
    ServingStatus,
    pb::{
        HealthCheckRequest, HealthCheckResponse, health_client::HealthClient,
        health_server::HealthServer,
    },
    server::{HealthReporter, HealthService},
};
use tower_service::Service;
use xds_channel::{ServingState, ServingStates, XdsServer, XdsServerOptions};
use xds_core::{
    client::{ServerFeature, ServerFeatures},
    types,
};
use xds_grpc::runtime::Listen;
use xds_routing::proto::envoy::config::{
    core::v3::CidrRange,
    listener::v3::{Filter, FilterChain, FilterChainMatch, Listener, filter},
    route::v3::{NonForwardingAction, Route, RouteConfiguration, route::Action},
};

use crate::{
    support::*,
    world::{Change, World, soon},
};

/// Server of the health service.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) states: ServingStates,
    reporter: HealthReporter,
    stop: Option<oneshot::Sender<()>>,
    ended: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn new(world: &World) -> Self {
        Self::with(world, |options| options).await
    }

    pub(crate) async fn with(
        world: &World,
        options: impl FnOnce(XdsServerOptions) -> XdsServerOptions,
    ) -> Self {
        let address = free_address().await;
        let options = options(XdsServerOptions::new(name_of(address)).with_seed(1));
        let server = XdsServer::new(&world.client, address, options);
        let states = server.states();
        let reporter = HealthReporter::new();
        let health = HealthServer::new(HealthService::from_health_reporter(reporter.clone()));
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = spawn(server, Routes::new(health), stopped);
        Self { address, states, reporter, stop: Some(stop), ended }
    }

    /// Waits for the next state.
    pub(crate) async fn next_state(&mut self) -> ServingState {
        soon(self.states.changed()).await.expect("a state")
    }

    fn listener(&self, chains: Vec<FilterChain>) -> Listener {
        Listener {
            name: name_of(self.address),
            address: Some(address("127.0.0.1", self.address.port().into())),
            filter_chains: chains,
            ..Listener::default()
        }
    }

    /// Opens a connection of its own.
    pub(crate) async fn connect(&self) -> Result<HealthClient<Channel>, tonic::transport::Error> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        let endpoint = endpoint.origin("http://shop".parse().unwrap());
        Ok(HealthClient::new(soon(endpoint.connect()).await?))
    }

    /// Makes a health check on a connection of its own.
    async fn check(&self) -> Result<(), Status> {
        check(&mut self.connect().await.expect("a connection")).await
    }
}

/// Serves in a task. The future can be sent to another thread with every runtime.
fn spawn<R: Listen>(
    server: XdsServer<R>,
    services: Routes,
    stopped: oneshot::Receiver<()>,
) -> JoinHandle<()> {
    tokio::spawn(server.serve_until(services, async {
        let _ = stopped.await;
    }))
}

fn name_of(address: SocketAddr) -> String {
    format!("servers/{address}")
}

/// Returns an address at which a server can listen.
pub(crate) async fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

async fn check(client: &mut HealthClient<Channel>) -> Result<(), Status> {
    soon(client.check(HealthCheckRequest::default())).await.map(drop)
}

/// Returns a filter chain whose routes have this name.
pub(crate) fn chain(routes: &str) -> FilterChain {
    let manager = packed(&manager(rds(routes)));
    let config_type = Some(filter::ConfigType::TypedConfig(manager));
    FilterChain {
        filters: vec![Filter { name: "hcm".into(), config_type }],
        ..FilterChain::default()
    }
}

/// Returns the routes of a server.
fn served(name: &str, domain: &str, path: &str) -> RouteConfiguration {
    let route = Route {
        r#match: Some(prefix(path)),
        action: Some(Action::NonForwardingAction(NonForwardingAction {})),
        ..Route::default()
    };
    routes(name, vec![host(&[domain], vec![route])])
}

fn listener_change(change: Change, listener: &Listener) -> Change {
    let Change(mut change) = change;
    change.set(types::LISTENER, listener.name.clone(), listener.encode_to_vec());
    Change(change)
}

fn routes_change(change: Change, routes: &RouteConfiguration) -> Change {
    let Change(mut change) = change;
    change.set(types::ROUTE_CONFIGURATION, routes.name.clone(), routes.encode_to_vec());
    Change(change)
}

/// Sets a listener with one filter chain for all connections, and its routes.
pub(crate) async fn serve_all(world: &World, server: &Served) {
    let change = listener_change(Change::new(), &server.listener(vec![chain("r")]));
    world.apply(routes_change(change, &served("r", "*", "")).0).await;
}

#[tokio::test]
async fn server_serves_when_it_has_a_listener_with_its_routes() {
    let world = World::new().await;
    let mut server = Served::new(&world).await;
    assert!(!server.states.current().is_serving());
    assert!(TcpStream::connect(server.address).await.is_err(), "the port is closed");

    let listener = listener_change(Change::new(), &server.listener(vec![chain("r")]));
    world.apply(listener.0).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!server.states.current().is_serving(), "the routes are missing");
    world.apply(routes_change(Change::new(), &served("r", "*", "")).0).await;
    assert_eq!(server.next_state().await, ServingState::Serving);
    server.check().await.expect("an answer");

    server.stop.take();
    soon(server.ended).await.unwrap();
    assert!(TcpStream::connect(server.address).await.is_err(), "the port is closed");
    assert!(server.states.changed().await.is_some_and(|state| !state.is_serving()));
    assert_eq!(server.states.changed().await, None);
}

#[tokio::test]
async fn calls_without_a_route_for_servers_fail() {
    let world = World::new().await;
    let mut server = Served::new(&world).await;
    serve_all(&world, &server).await;
    server.next_state().await;
    let mut client = server.connect().await.unwrap();
    check(&mut client).await.expect("an answer");
    // Open connections use new routes at once.
    let mut expect = async |routes: &RouteConfiguration, message: &str| {
        world.apply(routes_change(Change::new(), routes).0).await;
        for _ in 0..200 {
            match check(&mut client).await {
                Err(status) if status.message().contains(message) => {
                    assert_eq!(status.code(), Code::Unavailable);
                    return;
                }
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        panic!("no status with {message}");
    };
    expect(&served("r", "other", ""), "no virtual host of route configuration `r` matches `shop`")
        .await;
    expect(&served("r", "*", "/another.Service/"), "no route of virtual host").await;
    let for_clients = table(vec![route(prefix(""), cluster("c"))]);
    let for_clients = RouteConfiguration { name: "r".into(), ..for_clients };
    let mut for_clients = for_clients;
    for_clients.virtual_hosts[0].domains = vec!["*".into()];
    expect(&for_clients, "the matching route is not for servers").await;
}

#[tokio::test]
async fn missing_routes_fail_calls_and_not_the_server() {
    let world = World::new().await;
    let mut server = Served::new(&world).await;
    let listener = server.listener(vec![chain("absent")]);
    world.apply(listener_change(Change::new(), &listener).0).await;
    // Once the route configuration is known not to exist, the server serves.
    assert_eq!(server.next_state().await, ServingState::Serving);
    let status = server.check().await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().starts_with("no routes: "), "{status}");
    assert!(status.message().contains("absent"), "{status}");
}

#[tokio::test]
async fn connection_without_a_filter_chain_is_closed() {
    let world = World::new().await;
    let mut server = Served::new(&world).await;
    let far = FilterChainMatch {
        source_prefix_ranges: vec![CidrRange {
            address_prefix: "10.0.0.0".into(),
            prefix_len: number(8),
        }],
        ..FilterChainMatch::default()
    };
    let far = FilterChain { filter_chain_match: Some(far), ..chain("r") };
    let change = listener_change(Change::new(), &server.listener(vec![far]));
    world.apply(routes_change(change, &served("r", "*", "")).0).await;
    server.next_state().await;
    let mut socket = TcpStream::connect(server.address).await.expect("the port is open");
    let mut read = Vec::new();
    let ended = soon(tokio::io::AsyncReadExt::read_to_end(&mut socket, &mut read)).await;
    assert!(ended.is_err() || read.is_empty(), "no byte is sent: {read:?}");
}

#[tokio::test]
async fn listener_for_another_address_or_for_clients_is_not_served() {
    let world = World::new().await;
    let mut server = Served::new(&world).await;
    let mut other = server.listener(vec![chain("r")]);
    other.address = Some(address("0.0.0.0", server.address.port().into()));
    world.apply(listener_change(Change::new(), &other).0).await;
    let ServingState::NotServing(why) = server.next_state().await else { panic!("it serves") };
    let port = server.address.port();
    assert_eq!(
        *why,
        *format!(
            "listener `servers/127.0.0.1:{port}` is for the address 0.0.0.0:{port}, \
             and the server listens on 127.0.0.1:{port}"
        )
    );
    let name = name_of(server.address);
    let api = api_listener(&name, &manager(rds("r")));
    world.apply(listener_change(Change::new(), &api).0).await;
    let ServingState::NotServing(why) = server.next_state().await else { panic!("it serves") };
    assert!(why.contains("is an API listener"), "{why}");
}

/// Watches health, which is a call that does not end by itself.
async fn watch(client: &mut HealthClient<Channel>) -> tonic::Streaming<HealthCheckResponse> {
    let request = HealthCheckRequest::default();
    let mut watched = soon(client.watch(request)).await.expect("an answer").into_inner();
    soon(watched.message()).await.expect("no error").expect("the current state");
    watched
}

#[tokio::test]
async fn deleted_listener_closes_the_port_and_lets_calls_end() {
    let features = ServerFeatures::NONE.with(ServerFeature::FailOnDataErrors);
    let world = World::with_features(features).await;
    let mut server = Served::new(&world).await;
    serve_all(&world, &server).await;
    assert!(server.next_state().await.is_serving());
    let mut client = server.connect().await.unwrap();
    let mut watched = watch(&mut client).await;

    let mut deletion = xds_core::server::Transaction::new();
    deletion.remove(types::LISTENER, name_of(server.address));
    world.apply(deletion).await;
    let ServingState::NotServing(why) = server.next_state().await else { panic!("it serves") };
    assert!(why.contains("does not exist"), "{why}");
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // The call continues.
    server.reporter.set_service_status("", ServingStatus::NotServing).await;
    assert!(soon(watched.message()).await.expect("no error").is_some());
    drop(watched);

    // The server can serve again on the same port.
    serve_all(&world, &server).await;
    assert!(server.next_state().await.is_serving());
    server.check().await.expect("an answer");
}

#[tokio::test]
async fn changed_listener_drains_connections_and_keeps_the_port_open() {
    let world = World::new().await;
    let grace = Duration::from_millis(300);
    let mut server = Served::with(&world, |options| options.with_drain_grace(grace)).await;
    serve_all(&world, &server).await;
    server.next_state().await;
    let mut client = server.connect().await.unwrap();
    let mut watched = watch(&mut client).await;

    let mut changed = server.listener(vec![chain("r")]);
    changed.filter_chains[0].filter_chain_match =
        Some(FilterChainMatch { source_type: 1, ..FilterChainMatch::default() });
    world.apply(listener_change(Change::new(), &changed).0).await;
    // The old connection ends after the grace, and with it the call.
    while let Ok(Some(_)) = soon(watched.message()).await {}
    server.check().await.expect("an answer on a new connection");
    assert!(server.states.current().is_serving());
}

#[tokio::test]
async fn port_in_use_is_tried_again() {
    let world = World::new().await;
    let mut server = Served::new(&world).await;
    let taken = TcpListener::bind(server.address).await.expect("a free port");
    serve_all(&world, &server).await;
    let ServingState::NotServing(why) = server.next_state().await else { panic!("it serves") };
    assert!(why.starts_with(&format!("cannot listen on {}: ", server.address)), "{why}");
    drop(taken);
    assert!(server.next_state().await.is_serving());
    server.check().await.expect("an answer");
}

#[tokio::test]
async fn server_reports_the_end_of_its_client() {
    let world = World::new().await;
    let mut server = Served::new(&world).await;
    world.client.shut_down();
    let ServingState::NotServing(why) = server.next_state().await else { panic!("it serves") };
    assert_eq!(*why, *"the xDS client has ended");

    // The last configuration stays in use.
    let world = World::new().await;
    let mut server = Served::new(&world).await;
    serve_all(&world, &server).await;
    assert!(server.next_state().await.is_serving());
    world.client.shut_down();
    soon(world.client.ended()).await;
    server.check().await.expect("an answer");
    assert!(server.states.current().is_serving());
}

/// Service that panics.
#[derive(Clone)]
struct Panicking;

impl NamedService for Panicking {
    const NAME: &'static str = "test.Panicking";
}

impl Service<Request<Body>> for Panicking {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        Box::pin(async { panic!("on purpose") })
    }
}

#[tokio::test]
async fn service_that_panics_fails_only_its_call() {
    let world = World::new().await;
    let address = free_address().await;
    let server = XdsServer::new(&world.client, address, XdsServerOptions::new(name_of(address)));
    let (states, reporter) = (server.states(), HealthReporter::new());
    let health = HealthServer::new(HealthService::from_health_reporter(reporter.clone()));
    let (stop, stopped) = oneshot::channel();
    let ended = spawn(server, Routes::new(health).add_service(Panicking), stopped);
    let mut server = Served { address, states, reporter, stop: Some(stop), ended };
    serve_all(&world, &server).await;
    server.next_state().await;

    let socket = TcpStream::connect(address).await.expect("it listens");
    let (client, connection) = h2::client::handshake(socket).await.expect("HTTP/2");
    let connection = tokio::spawn(connection);
    for _ in 0..2 {
        let mut client = client.clone().ready().await.expect("an open connection");
        let request = Request::post("http://shop/test.Panicking/Call").body(()).unwrap();
        let (response, _) = client.send_request(request, true).expect("an open connection");
        assert!(soon(response).await.unwrap_err().is_reset());
    }
    assert!(!connection.is_finished());
    server.check().await.expect("an answer");
}
