//! gRPC servers that are configured by xDS (gRFC A36), in virtual time.

use core::{
    future::{Future, pending},
    time::Duration,
};

use prost::Message as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::{sleep, timeout},
};
use tonic::{
    service::Routes,
    transport::{Channel, Endpoint},
};
use tonic_health::pb::{
    HealthCheckRequest, health_client::HealthClient, health_server::HealthServer,
};
use xds_channel::{ServingState, ServingStates, XdsServer, XdsServerOptions};
use xds_core::{server::Transaction, types};
use xds_grpc::ManagementServer;
use xds_routing::proto::envoy::config::{
    listener::v3::{Filter, FilterChain, FilterChainMatch, Listener, filter},
    route::v3::{NonForwardingAction, Route, route::Action},
};
use xds_sim::stack::{Host, Socket, Stage};

use crate::{
    greeter::{GREETER, Greeter},
    rollout::{serve_management, xds_client},
    support::{self, address, manager, packed, prefix, rds},
};

/// Time of a slow call.
const DELAY: Duration = Duration::from_secs(20);

/// gRPC server on a host, with its management server.
struct Served {
    client: Host,
    host: Host,
    management: ManagementServer<Host>,
    states: ServingStates,
}

impl Served {
    fn start(stage: &Stage, delay: Duration) -> Self {
        Self::start_until(stage, delay, pending())
    }

    fn start_until(
        stage: &Stage,
        delay: Duration,
        ended: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let management = serve_management(&stage.server_host("server"));
        let (client, host) = (stage.host("client"), stage.host("greeter"));
        let at = (host.address(), GREETER).into();
        let options = XdsServerOptions::new("listener").with_shutdown_grace(2 * DELAY);
        let server = XdsServer::new(&xds_client(&host), at, options).with_runtime(host.clone());
        let states = server.states();
        let greeter = HealthServer::new(Greeter::new("greeter", delay));
        host.start(server.serve_until(Routes::new(greeter), ended));
        Self { client, host, management, states }
    }

    /// Sets the listener and its routes. Listeners with other types of sources are not equal.
    async fn listen(&self, source_type: i32) {
        let route = Route {
            r#match: Some(prefix("")),
            action: Some(Action::NonForwardingAction(NonForwardingAction {})),
            ..Route::default()
        };
        let routes = support::routes("routes", vec![support::host(&["*"], vec![route])]);
        let manager = packed(&manager(rds("routes")));
        let config_type = Some(filter::ConfigType::TypedConfig(manager));
        let matches = FilterChainMatch { source_type, ..FilterChainMatch::default() };
        let chain = FilterChain {
            filter_chain_match: Some(matches),
            filters: vec![Filter { name: "hcm".into(), config_type }],
            ..FilterChain::default()
        };
        let listener = Listener {
            name: "listener".into(),
            address: Some(address(&self.host.address().to_string(), GREETER.into())),
            filter_chains: vec![chain],
            ..Listener::default()
        };
        let mut change = Transaction::new();
        change.set(types::LISTENER, "listener", listener.encode_to_vec());
        change.set(types::ROUTE_CONFIGURATION, "routes", routes.encode_to_vec());
        self.management.handle().apply(change).await.expect("a sound change");
    }

    fn health(&self) -> HealthClient<Channel> {
        let endpoint = Endpoint::from_static("http://greeter:50051");
        HealthClient::new(endpoint.connect_with_connector_lazy(self.client.connector()))
    }
}

async fn check(mut health: HealthClient<Channel>) -> Result<(), tonic::Status> {
    health.check(HealthCheckRequest::default()).await.map(drop)
}

#[test]
fn calls_survive_an_update_of_the_listener() {
    let report = Stage::run(1, async |stage| {
        let mut served = Served::start(stage, DELAY);
        served.listen(0).await;
        assert!(served.states.serving().await);
        let slow = tokio::spawn(check(served.health()));
        sleep(Duration::from_secs(1)).await;
        served.listen(2).await;
        sleep(Duration::from_secs(1)).await;
        check(served.health()).await.expect("an answer on another connection");
        slow.await.expect("no panic").expect("an answer");
        assert_eq!(served.states.current(), ServingState::Serving);
    });
    assert_eq!(report.trace.violation, None);
}

#[test]
fn shutdown_closes_the_port_and_waits_for_calls() {
    let report = Stage::run(1, async |stage| {
        let stopped = sleep(Duration::from_secs(10));
        let mut served = Served::start_until(stage, DELAY, stopped);
        served.listen(0).await;
        assert!(served.states.serving().await);
        sleep(Duration::from_secs(1)).await;
        let slow = tokio::spawn(check(served.health()));
        sleep(Duration::from_secs(7)).await;
        // The connections of the listener before are still drained at the shutdown.
        served.listen(2).await;
        let newer = tokio::spawn(check(served.health()));
        sleep(Duration::from_secs(3)).await;
        assert!(!served.states.current().is_serving());
        let at = (served.host.address(), GREETER).into();
        let refused = served.client.dial(at).await.map(drop).map_err(|why| why.kind());
        assert_eq!(refused, Err(std::io::ErrorKind::ConnectionRefused));
        slow.await.expect("no panic").expect("an answer");
        newer.await.expect("no panic").expect("an answer");
        // Then the server has ended.
        served.states.changed().await.expect("the last state");
        let ended = timeout(Duration::from_secs(2), served.states.changed()).await;
        assert_eq!(ended.expect("the server ends after the calls"), None);
    });
    assert_eq!(report.trace.violation, None);
}

#[test]
fn dropped_server_closes_its_port_and_connections() {
    let report = Stage::run(1, async |stage| {
        let management = serve_management(&stage.server_host("server"));
        let (client, host) = (stage.host("client"), stage.host("greeter"));
        let at = (host.address(), GREETER).into();
        let options = XdsServerOptions::new("listener");
        let server = XdsServer::new(&xds_client(&host), at, options).with_runtime(host.clone());
        let mut served = Served { client, host, management, states: server.states() };
        let greeter = HealthServer::new(Greeter::new("greeter", DELAY));
        let serving = tokio::spawn(server.serve(Routes::new(greeter)));
        served.listen(0).await;
        assert!(served.states.serving().await);
        let slow = tokio::spawn(check(served.health()));
        sleep(Duration::from_secs(1)).await;
        serving.abort();
        let failed = timeout(Duration::from_secs(1), slow).await.expect("at once");
        failed.expect("no panic").expect_err("a lost connection");
        assert_eq!(served.states.changed().await.map(|it| it.is_serving()), None);
        served.host.listen(at).expect("the port is free");
    });
    assert_eq!(report.trace.violation, None);
}

#[test]
fn taken_port_is_tried_again() {
    let report = Stage::run(1, async |stage| {
        let mut served = Served::start(stage, Duration::ZERO);
        let taken = served.host.listen((served.host.address(), GREETER).into());
        served.listen(0).await;
        let Some(ServingState::NotServing(_)) = served.states.changed().await else {
            panic!("the port is taken");
        };
        drop(taken);
        // Updates while the server waits do not delay it.
        for source_type in [2, 0, 2, 0] {
            sleep(Duration::from_secs(2)).await;
            served.listen(source_type).await;
        }
        timeout(Duration::from_secs(1), served.states.serving()).await.expect("it serves");
        check(served.health()).await.expect("an answer");
    });
    assert_eq!(report.trace.violation, None);
}

/// HTTP/2 client that does not answer pings, which tell a server that GOAWAY has arrived.
struct Stubborn {
    socket: Socket,
    stream: u32,
}

impl Stubborn {
    async fn connect(served: &Served) -> Self {
        let at = (served.host.address(), GREETER).into();
        let mut socket = served.client.dial(at).await.expect("it listens");
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let preface = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &settings].concat();
        socket.write_all(&preface).await.expect("open");
        Self { socket, stream: 1 }
    }

    async fn send(&mut self, kind: u8, flags: u8, payload: &[u8]) {
        let length = u8::try_from(payload.len()).expect("short");
        let head = [&[0, 0, length, kind, flags][..], &self.stream.to_be_bytes()].concat();
        self.socket.write_all(&[&head[..], payload].concat()).await.expect("open");
    }

    /// Makes a call, and returns whether the service answers it: other answers have no message.
    async fn call(&mut self) -> bool {
        let text = |text: &str| {
            let length = u8::try_from(text.len()).expect("short");
            [&[length][..], text.as_bytes()].concat()
        };
        // `:method: POST`, `:scheme: http`, then literals.
        let block = [
            vec![0x83, 0x86, 0x04],
            text("/grpc.health.v1.Health/Check"),
            vec![0x01],
            text("shop"),
            vec![0x0f, 0x10],
            text("application/grpc"),
        ];
        self.send(1, 4, &block.concat()).await;
        self.send(0, 1, &[0; 5]).await;
        let stream = self.stream.to_be_bytes();
        self.stream += 2;
        loop {
            let mut head = [0; 9];
            self.socket.read_exact(&mut head).await.expect("open");
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; length as usize];
            self.socket.read_exact(&mut payload).await.expect("open");
            if head[3] == 1 && head[5..] == stream {
                return head[4] & 1 == 0;
            }
        }
    }
}

// Otherwise it would be served by the old rules until the end of the grace.
#[test]
fn client_that_ignores_goaway_makes_no_calls_on_a_drained_connection() {
    let report = Stage::run(1, async |stage| {
        let mut served = Served::start(stage, Duration::ZERO);
        served.listen(0).await;
        assert!(served.states.serving().await);
        let mut stubborn = Stubborn::connect(&served).await;
        assert!(stubborn.call().await);
        served.listen(2).await;
        sleep(Duration::from_secs(5)).await;
        assert!(stubborn.call().await, "GOAWAY may have been under way");
        sleep(Duration::from_secs(10)).await;
        assert!(!stubborn.call().await);
    });
    assert_eq!(report.trace.violation, None);
}

#[test]
fn silent_client_is_disconnected() {
    let report = Stage::run(1, async |stage| {
        let mut served = Served::start(stage, Duration::ZERO);
        served.listen(0).await;
        assert!(served.states.serving().await);
        let at = (served.host.address(), GREETER).into();
        let mut silent = served.client.dial(at).await.expect("it listens");
        let connected = stage.now();
        while silent.read_u8().await.is_ok() {}
        assert_eq!(stage.now().since(connected).as_secs(), 10);
    });
    assert_eq!(report.trace.violation, None);
}
