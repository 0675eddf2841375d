//! Worlds for faults that storms cannot show, because their clients and applications are well
//! behaved. What varies is drawn, so each seed is another run.

use core::time::Duration;

use prost::Message as _;
use tokio::time::{Instant, sleep, timeout};
use xds_core::{
    proto::{DeltaDiscoveryRequest, DiscoveryRequest, Node},
    server::{OnDemand, ServerConfig, Transaction},
    types::CLUSTER,
};
use xds_grpc::{ManagementServer, ServerOptions};
use xds_sim::{
    Toy,
    stack::{Conditions, Host, Stage},
};

use crate::raw::{PORT, RawCall, open};

/// Measures the memory of this thread.
pub(crate) fn measure(work: &mut dyn FnMut()) -> i64 {
    allocation_counter::measure(work).bytes_current
}

/// Starts a server on the first host of a stage.
pub(crate) fn serve(
    stage: &Stage,
    config: ServerConfig,
    options: ServerOptions,
) -> (Host, ManagementServer<Host>) {
    let host = stage.server_host("server");
    let server = ManagementServer::start_on(host.clone(), config, options.with_seed(1));
    let listener = host.listen(([0, 0, 0, 0], PORT).into()).expect("a free port");
    let serving = server.serve(listener);
    host.start(async move { serving.await.expect("it serves") });
    (host, server)
}

/// Request of the state of the world for clusters, from a node.
pub(crate) fn request(node: &str, names: &[&str]) -> DiscoveryRequest {
    DiscoveryRequest {
        node: Some(Node { id: node.into(), ..Node::default() }),
        type_url: CLUSTER.into(),
        resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..DiscoveryRequest::default()
    }
}

async fn set(server: &ManagementServer<Host>, name: &str, text: &str) {
    let mut change = Transaction::new();
    change.set(CLUSTER, name, Toy::bytes(name, text));
    server.handle().apply(change).await.expect("a sound change");
}

/// A call whose client has ended its requests ends as soon as they are answered.
pub(crate) async fn half_close(stage: &Stage) {
    let (far, server) = serve(stage, ServerConfig::default(), ServerOptions::default());
    set(&server, "web", "content").await;
    let near = stage.host("client");
    let mut conditions = Conditions::default();
    conditions.latency = Duration::from_millis(u64::from(stage.below("latency", 50)));
    stage.set_conditions(&near, &far, conditions);
    let mut call = open(&near, 1).await.pop().expect("a call");
    if stage.choices().chance("request", 700) {
        call.message(&request("client", &["web"]).encode_to_vec());
    }
    let wait = stage.choices().pick("wait", &[0, 1, 100, 5_000]);
    sleep(Duration::from_millis(wait)).await;
    call.half_close();
    let ended = timeout(Duration::from_secs(1), call.status()).await;
    if !ended.as_ref().is_ok_and(|(status, _)| status == "0") {
        let rule =
            "A call whose client has ended its requests ends with OK after the last response.";
        stage.violate("half-close", rule, format!("{ended:?} within a second"));
    }
}

/// An incomplete request ends its call exactly at its deadline.
pub(crate) async fn deadline(stage: &Stage) {
    let patience = Duration::from_millis(u64::from(stage.choices().between("time", 1, 20_000)));
    let length = stage.choices().between("length", 1, 512 << 10);
    // The header and some bytes. Together this takes less than the time for the first request.
    let sent = stage.below("sent", length.min(1_000)) as usize;
    let options = ServerOptions::default().with_request_timeout(patience);
    let _served = serve(stage, ServerConfig::default(), options);
    let near = stage.host("client");
    let mut call = open(&near, 1).await.pop().expect("a call");
    let began = Instant::now();
    call.begin(length, sent);
    let (_, why) = call.status().await;
    // A second for every 16 KiB more.
    let due = patience + Duration::from_millis(u64::from(length) * 1_000 / (16 << 10));
    if began.elapsed() != due || !why.contains("not complete within") {
        let rule = "An incomplete request ends its call at its deadline, neither before nor after.";
        let what = format!("{:?} where it should be {due:?}: {why}", began.elapsed());
        stage.violate("deadline", rule, what);
    }
}

/// Many clients request a large resource and do not read it. The server holds it once.
pub(crate) async fn crowd(stage: &Stage) {
    const SIZE: usize = 512 << 10;
    /// HTTP/2 window of a stream, and what belongs to a connection.
    const CLIENT: u64 = 96 << 10;

    stage.measure_memory(measure);
    let (host, server) = serve(stage, ServerConfig::default(), ServerOptions::default());
    let clients = stage.choices().between("clients", 8, 24);
    stage.limit_memory(&host, 3 * SIZE as u64 + (512 << 10) + u64::from(clients) * CLIENT);
    set(&server, "web", &"x".repeat(SIZE)).await;
    let near = stage.host("client");
    let mut calls: Vec<RawCall> = Vec::new();
    for number in 0..clients {
        let mut call = open(&near, 1).await.pop().expect("a call");
        call.message(&request(&format!("client-{number}"), &["web"]).encode_to_vec());
        calls.push(call);
        let wait = stage.choices().pick("wait", &[0, 1, 100]);
        sleep(Duration::from_millis(wait)).await;
    }
    sleep(Duration::from_secs(5)).await;
    if stage.peak_memory(&host) < SIZE as i64 {
        let rule = "The memory of a server with a large resource is measured.";
        stage.violate("measurement", rule, format!("{} bytes", stage.peak_memory(&host)));
    }
    drop(calls);
    sleep(Duration::from_secs(1)).await;
    freed(stage, &host, server).await;
}

/// Ends a server, and checks that its memory is freed.
async fn freed(stage: &Stage, host: &Host, server: ManagementServer<Host>) {
    const LEFT: i64 = 64 << 10;

    server.handle().shut_down().await;
    drop(server);
    sleep(Duration::from_secs(60)).await;
    if stage.held_memory(host) > LEFT {
        let rule = "What a server held is freed when it has ended.";
        stage.violate("held-bytes", rule, format!("{} bytes are left", stage.held_memory(host)));
    }
}

/// An application subscribes to the server's events and does not read them, while a client requests
/// ever more names that do not exist. The server stops reading its requests.
pub(crate) async fn unread_events(stage: &Stage) {
    const REQUESTS: usize = 6_000;
    const NAME: usize = 1_000;
    /// HTTP/2 windows of the stream and of the connection, and the server itself.
    const LIMIT: u64 = 3 << 20;

    stage.measure_memory(measure);
    let capacity = stage.choices().between("capacity", 1, 64) as usize;
    let config = ServerConfig::default().with_on_demand(OnDemand::Notify);
    let options = ServerOptions::default().with_event_capacity(capacity);
    let (host, server) = serve(stage, config, options);
    stage.limit_memory(&host, LIMIT);
    let events = server.handle().events();
    let near = stage.host("client");
    let mut call = open_delta(&near).await;
    let per_request = stage.choices().between("names in a request", 1, 4) as usize;
    for number in 0..REQUESTS / per_request {
        let name = |of: usize| format!("{number}-{of}-{}", "n".repeat(NAME));
        let request = DeltaDiscoveryRequest {
            node: Some(Node { id: "client".into(), ..Node::default() }),
            type_url: CLUSTER.into(),
            resource_names_subscribe: (0..per_request).map(name).collect(),
            ..DeltaDiscoveryRequest::default()
        };
        call.message(&request.encode_to_vec());
    }
    sleep(Duration::from_secs(5)).await;
    drop((call, events));
    sleep(Duration::from_secs(1)).await;
    freed(stage, &host, server).await;
}

async fn open_delta(host: &Host) -> RawCall {
    let path = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";
    crate::raw::open_path(host, path, 1).await.pop().expect("a call")
}
