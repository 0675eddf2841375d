//! A management server, a client with channels, and backends.

use core::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
    time::Duration,
};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use prost::Message as _;
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::oneshot,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tonic::{
    Status,
    body::Body,
    server::NamedService,
    transport::{Server, server::TcpIncoming},
};
use tonic_health::{
    pb::{HealthCheckRequest, health_client::HealthClient, health_server::HealthServer},
    server::{HealthReporter, HealthService},
};
use tower_service::Service;
use xds_channel::{ChannelOptions, XdsChannel};
use xds_core::{
    client::{ClientConfig, Node, Profile, ServerAddress as Upstream, ServerFeatures},
    proto::Locality,
    server::{ServerConfig, Transaction},
    types,
};
use xds_routing::{
    ClusterLoadAssignments, Clusters, Listeners, RouteConfigurations,
    balancer::LoadReport,
    proto::envoy::config::{
        cluster::v3::{
            Cluster,
            cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig},
        },
        endpoint::v3::{
            ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints,
            lb_endpoint::HostIdentifier,
        },
        route::v3::Route,
    },
    proto::xds::data::orca::v3::OrcaLoadReport,
};
use xds_tokio::{
    ClientHandle, ClientOptions, ManagementServer, ServerHandle, ServerOptions, client,
};

use crate::support::*;

/// Awaits a future with a timeout that only a failing test reaches.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(30), future).await.expect("this should have happened by now")
}

/// Management server and its client.
pub(crate) struct World {
    pub(crate) server: ServerHandle,
    pub(crate) serving: JoinHandle<std::io::Result<()>>,
    pub(crate) client: ClientHandle,
    /// Address of the management server.
    pub(crate) address: SocketAddr,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with_profile(Profile::grpc()).await
    }

    /// Creates a client with this profile.
    pub(crate) async fn with_profile(profile: Profile) -> Self {
        Self::with(profile, ServerFeatures::NONE, ServerOptions::default()).await
    }

    /// Creates a client whose bootstrap has these features of the server.
    pub(crate) async fn with_features(features: ServerFeatures) -> Self {
        Self::with(Profile::grpc(), features, ServerOptions::default()).await
    }

    /// Creates a management server with these options.
    pub(crate) async fn with_server(options: ServerOptions) -> Self {
        Self::with(Profile::grpc(), ServerFeatures::NONE, options).await
    }

    async fn with(profile: Profile, features: ServerFeatures, options: ServerOptions) -> Self {
        let server = ManagementServer::start(ServerConfig::default(), options);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(server.serve(listener));
        let upstream = Upstream::new(address.to_string()).with_features(features);
        let mut config = ClientConfig::new(Node::new("node-1"), upstream)
            .with_profile(profile)
            .with_type(Listeners::default())
            .with_type(RouteConfigurations::default())
            .with_type(Clusters::default())
            .with_type(ClusterLoadAssignments::default());
        // Short does-not-exist timers.
        for url in [types::LISTENER, types::CLUSTER, types::CLUSTER_LOAD_ASSIGNMENT] {
            config = config.with_does_not_exist_timeout(url, Some(Duration::from_millis(300)));
        }
        let client = client::connect(config, ClientOptions::default());
        Self { server: server.handle(), serving, client, address }
    }

    pub(crate) fn health(&self) -> HealthClient<XdsChannel> {
        self.health_with(ChannelOptions::new("node-1"))
    }

    pub(crate) fn health_with(&self, options: ChannelOptions) -> HealthClient<XdsChannel> {
        HealthClient::new(self.channel_with(options))
    }

    pub(crate) fn channel_with(&self, mut options: ChannelOptions) -> XdsChannel {
        options.seed = Some(1);
        XdsChannel::new(&self.client, "xds:///shop", options).expect("a target")
    }

    pub(crate) async fn apply(&self, change: Transaction) {
        self.server.apply(change).await.expect("a change");
    }
}

/// Returns an EDS cluster.
pub(crate) fn eds(name: &str) -> Cluster {
    Cluster {
        name: name.into(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config: ads(),
            ..EdsClusterConfig::default()
        }),
        ..Cluster::default()
    }
}

/// Change of the management server's resources.
pub(crate) struct Change(pub(crate) Transaction);

impl Change {
    pub(crate) fn new() -> Self {
        Self(Transaction::new())
    }

    /// Sets the listener `shop` and its routes.
    pub(crate) fn routes(mut self, list: Vec<Route>) -> Self {
        let listener = api_listener("shop", &manager(rds("routes"))).encode_to_vec();
        self.0.set(types::LISTENER, "shop", listener);
        let table = routes("routes", vec![host(&["shop"], list)]).encode_to_vec();
        self.0.set(types::ROUTE_CONFIGURATION, "routes", table);
        self
    }

    pub(crate) fn cluster(self, name: &str) -> Self {
        self.cluster_as(eds(name))
    }

    pub(crate) fn cluster_as(mut self, cluster: Cluster) -> Self {
        let bytes = cluster.encode_to_vec();
        self.0.set(types::CLUSTER, cluster.name, bytes);
        self
    }

    /// Sets a cluster with its endpoints.
    pub(crate) fn at(self, name: &str, addresses: &[SocketAddr]) -> Self {
        self.cluster(name).endpoints(name, addresses)
    }

    pub(crate) fn endpoints(mut self, name: &str, addresses: &[SocketAddr]) -> Self {
        let bytes = assignment(name, addresses).encode_to_vec();
        self.0.set(types::CLUSTER_LOAD_ASSIGNMENT, name, bytes);
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.0.remove(types::CLUSTER, name);
        self.0.remove(types::CLUSTER_LOAD_ASSIGNMENT, name);
        self
    }
}

/// Returns endpoints in one locality.
pub(crate) fn assignment(name: &str, addresses: &[SocketAddr]) -> ClusterLoadAssignment {
    ClusterLoadAssignment {
        cluster_name: name.into(),
        endpoints: vec![place("here", 0, 1, addresses)],
        ..ClusterLoadAssignment::default()
    }
}

/// Returns a locality with a priority and weight.
pub(crate) fn place(
    zone: &str,
    priority: u32,
    weight: u32,
    addresses: &[SocketAddr],
) -> LocalityLbEndpoints {
    let endpoints = addresses.iter().map(|at| LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
            address: Some(address(&at.ip().to_string(), at.port().into())),
            ..Endpoint::default()
        })),
        ..LbEndpoint::default()
    });
    LocalityLbEndpoints {
        locality: Some(Locality { zone: zone.into(), ..Locality::default() }),
        lb_endpoints: endpoints.collect(),
        load_balancing_weight: number(weight),
        priority,
        ..LocalityLbEndpoints::default()
    }
}

/// Returns an address where nothing listens until the process ends.
///
/// The socket stays bound. Otherwise a backend of another test could be given its port, and would
/// count calls that are not its own.
pub(crate) async fn nobody() -> SocketAddr {
    static BOUND: Mutex<Vec<TcpSocket>> = Mutex::new(Vec::new());
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = socket.local_addr().unwrap();
    BOUND.lock().unwrap().push(socket);
    address
}

/// Makes a health check with these headers.
pub(crate) async fn check(
    client: &mut HealthClient<XdsChannel>,
    headers: &[(&'static str, &'static str)],
) -> Result<(), Status> {
    let mut request = tonic::Request::new(HealthCheckRequest::default());
    for (name, value) in headers {
        request.metadata_mut().append(*name, value.parse().unwrap());
    }
    soon(client.check(request)).await.map(drop)
}

/// Health service that counts its calls.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    pub(crate) counted: Counted,
    /// Controls the reported health.
    pub(crate) reporter: HealthReporter,
    /// Server, which ends after it was stopped and its last call.
    pub(crate) serving: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl Backend {
    pub(crate) async fn new() -> Self {
        Self::slow(Duration::ZERO).await
    }

    /// Creates a backend that delays every answer.
    pub(crate) async fn slow(delay: Duration) -> Self {
        Self::with(delay, None).await
    }

    /// Creates a backend that reports its load.
    pub(crate) async fn reporting(report: Reporting) -> Self {
        Self::with(Duration::ZERO, Some(report)).await
    }

    /// Returns the number of streams of load reports.
    pub(crate) fn streams(&self) -> usize {
        self.counted.streams.load(Ordering::SeqCst)
    }

    async fn with(delay: Duration, report: Option<Reporting>) -> Self {
        let reporter = HealthReporter::new();
        let inner = HealthServer::new(HealthService::from_health_reporter(reporter.clone()));
        let counted = Counted {
            inner,
            delay,
            report,
            calls: Arc::default(),
            streams: Arc::default(),
            headers: Arc::default(),
            scheme: Arc::default(),
            authority: Arc::default(),
            stream_authority: Arc::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let server = Server::builder().add_service(counted.clone());
        let serving = server
            .add_service(LoadStreams(counted.clone()))
            .serve_with_incoming_shutdown(TcpIncoming::from(listener), async {
                let _ = stopped.await;
            });
        let serving = tokio::spawn(async { serving.await.unwrap() });
        Self { address, counted, reporter, serving, stop: Some(stop) }
    }

    pub(crate) fn calls(&self) -> usize {
        self.counted.calls.load(Ordering::SeqCst)
    }

    /// Accepts no more calls, and ends after the active ones.
    pub(crate) fn stop(&mut self) {
        self.stop.take();
    }
}

/// Way in which a backend reports its load.
#[derive(Clone)]
pub(crate) enum Reporting {
    WithResponses(OrcaLoadReport),
    /// In the headers of responses, where reports do not count.
    InHeaders(OrcaLoadReport),
    OnStreams(OrcaLoadReport),
}

#[derive(Clone)]
pub(crate) struct Counted {
    inner: HealthServer<HealthService>,
    delay: Duration,
    report: Option<Reporting>,
    calls: Arc<AtomicUsize>,
    streams: Arc<AtomicUsize>,
    /// Headers of the last call.
    pub(crate) headers: Arc<Mutex<HeaderMap>>,
    /// Scheme of the last call.
    pub(crate) scheme: Arc<Mutex<Option<String>>>,
    /// Authority of the last call.
    pub(crate) authority: Arc<Mutex<Option<String>>>,
    /// Authority of the last stream of load reports.
    pub(crate) stream_authority: Arc<Mutex<Option<String>>>,
}

impl NamedService for Counted {
    const NAME: &'static str = "grpc.health.v1.Health";
}

impl Service<Request<Body>> for Counted {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        self.calls.fetch_add(1, Ordering::SeqCst);
        *self.headers.lock().unwrap() = request.headers().clone();
        *self.scheme.lock().unwrap() = request.uri().scheme_str().map(Into::into);
        *self.authority.lock().unwrap() = request.uri().authority().map(ToString::to_string);
        let (mut inner, delay, report) = (self.inner.clone(), self.delay, self.report.clone());
        Box::pin(async move {
            sleep(delay).await;
            let response = inner.call(request).await?;
            Ok(match report {
                Some(Reporting::WithResponses(report)) => {
                    response.map(|body| with_report(body, &report))
                }
                Some(Reporting::InHeaders(report)) => {
                    let mut response = response;
                    response.headers_mut().insert(LoadReport::TRAILER, in_base64(&report));
                    response
                }
                _ => response,
            })
        })
    }
}

/// Service of the streams of load reports.
#[derive(Clone)]
struct LoadStreams(Counted);

impl NamedService for LoadStreams {
    const NAME: &'static str = "xds.service.orca.v3.OpenRcaService";
}

impl Service<Request<Body>> for LoadStreams {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = core::future::Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        assert_eq!(request.uri().path(), LoadReport::METHOD);
        let authority = request.uri().authority().map(ToString::to_string);
        *self.0.stream_authority.lock().unwrap() = authority;
        self.0.streams.fetch_add(1, Ordering::SeqCst);
        core::future::ready(Ok(report_on_a_stream(self.0.report.as_ref())))
    }
}

fn in_base64(report: &OrcaLoadReport) -> HeaderValue {
    STANDARD_NO_PAD.encode(report.encode_to_vec()).parse().unwrap()
}

/// Adds a load report to the trailers.
fn with_report(body: Body, report: &OrcaLoadReport) -> Body {
    let value = in_base64(report);
    Body::new(body.map_frame(move |frame| match frame.into_trailers() {
        Ok(mut trailers) => {
            trailers.insert(LoadReport::TRAILER, value.clone());
            Frame::trailers(trailers)
        }
        Err(frame) => frame,
    }))
}

/// Returns one load report, and a stream that does not end.
fn report_on_a_stream(report: Option<&Reporting>) -> Response<Body> {
    let Some(Reporting::OnStreams(report)) = report else {
        return Status::unimplemented("no load reports").into_http();
    };
    let bytes = report.encode_to_vec();
    let mut message = vec![0];
    message.extend((bytes.len() as u32).to_be_bytes());
    message.extend(bytes);
    let endless =
        futures_util::stream::once(async { Ok::<_, Status>(Frame::data(message.into())) })
            .chain(futures_util::stream::pending());
    let response = Response::builder().header("content-type", "application/grpc");
    response.body(Body::new(StreamBody::new(endless))).unwrap()
}
