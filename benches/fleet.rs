//! A change that goes to a thousand clients over gRPC on loopback, with their ACKs, beside a server
//! of bare tonic that sends all of them the same bytes and reads what they answer.
//!
//! One thread runs server and clients, so times are work; the clients are the same on both sides.

mod wire;

use std::time::Duration;

use bytes::Bytes;
use criterion::{BenchmarkGroup, Criterion, measurement::WallTime};
use prost::Message as _;
use tokio::{net::TcpListener, runtime::Runtime};
use tonic::transport::{Channel, Endpoint};
use xds_benches::{
    endpoints, frames,
    ratio::{Ratios, is_test_run},
};
use xds_core::{
    proto::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node},
    server::{ServerConfig, Transaction},
    types,
};
use xds_tokio::{ManagementServer, ServerOptions, server::ServerHandle};

use self::wire::{DELTA_AGGREGATED, FrameClient, FrameServer, FrameStream};

const RESOURCES: usize = 10_000;
const CONNECTIONS: usize = 16;
const OURS: &str = "ours";
const BARE: &str = "bare tonic broadcast";

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .without_plots()
        .configure_from_args();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a machine with sockets");
    let clients = if is_test_run() { 32 } else { 1_008 };
    println!("{clients} streams over {CONNECTIONS} connections, one of {RESOURCES} changes");

    let mut ratios = Ratios::default();
    let mut group = criterion.benchmark_group("fleet");
    let frame = measure_ours(&mut ratios, &mut group, &runtime, clients);
    measure_bare(&mut ratios, &mut group, &runtime, clients, &frame);
    group.finish();

    println!();
    ratios.print(OURS, BARE, None);
}

/// Returns a response as it was sent.
fn measure_ours(
    ratios: &mut Ratios,
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    clients: usize,
) -> Bytes {
    let mut ours = runtime.block_on(Ours::open(clients));
    let mut last = Bytes::new();
    ratios.measure(group, OURS, || (), |()| last = runtime.block_on(ours.round()));
    last
}

fn measure_bare(
    ratios: &mut Ratios,
    group: &mut BenchmarkGroup<'_, WallTime>,
    runtime: &Runtime,
    clients: usize,
    frame: &Bytes,
) {
    let mut bare = runtime.block_on(Bare::open(clients));
    ratios.measure(group, BARE, || (), |()| runtime.block_on(bare.round(frame)));
}

/// Clients, spread over the connections.
struct Fleet(Vec<FrameClient>);

impl Fleet {
    async fn open(address: std::net::SocketAddr, clients: usize, greeting: Greeting) -> Self {
        let mut channels: Vec<Channel> = Vec::new();
        for _ in 0..CONNECTIONS {
            let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
            channels.push(endpoint.connect().await.expect("the server runs"));
        }
        let mut fleet = Vec::new();
        for client in 0..clients {
            let channel = channels[client % CONNECTIONS].clone();
            // Servers may hold the call back until they know who calls.
            let first = subscription(client).encode_to_vec();
            let mut client = FrameClient::call(channel, DELTA_AGGREGATED, first.into()).await;
            if greeting == Greeting::Everything {
                // One after the other: what waits unread on one stream takes the room of all on its
                // connection.
                client.answer().await;
            }
            fleet.push(client);
        }
        Self(fleet)
    }

    /// Everybody reads one response and accepts it.
    async fn answer(&mut self) -> Bytes {
        let mut last = Bytes::new();
        for client in &mut self.0 {
            last = client.answer().await;
        }
        last
    }
}

/// What a client is sent when it comes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Greeting {
    Nothing,
    Everything,
}

impl FrameClient {
    /// Reads one response and accepts it.
    async fn answer(&mut self) -> Bytes {
        let frame = self.frame().await;
        let response = DeltaDiscoveryResponse::decode(frame.clone()).expect("a response");
        self.send_bytes(ack(response).encode_to_vec().into());
        frame
    }
}

struct Ours {
    handle: ServerHandle,
    fleet: Fleet,
    acks: u64,
    version: u16,
}

impl Ours {
    async fn open(clients: usize) -> Self {
        let server = ManagementServer::start(ServerConfig::default(), ServerOptions::default());
        let handle = server.handle();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(server.serve(listener));
        let mut all = Transaction::new();
        (0..RESOURCES).for_each(|index| set(&mut all, index, 1));
        handle.apply(all).await.expect("a sound transaction");
        let fleet = Fleet::open(address, clients, Greeting::Everything).await;
        let ours = Self { handle, fleet, acks: clients as u64, version: 1 };
        ours.await_acks().await;
        ours
    }

    async fn round(&mut self) -> Bytes {
        self.version = self.version.checked_add(1).unwrap_or(2);
        let mut change = Transaction::new();
        set(&mut change, 0, self.version);
        self.handle.apply(change).await.expect("a sound transaction");
        self.settle().await
    }

    /// Until all ACKs are with the server.
    async fn settle(&mut self) -> Bytes {
        let last = self.fleet.answer().await;
        self.acks += self.fleet.0.len() as u64;
        self.await_acks().await;
        last
    }

    async fn await_acks(&self) {
        while self.handle.stats().await.expect("it runs").acks < self.acks {}
    }
}

struct Bare {
    _server: FrameServer,
    streams: Vec<FrameStream>,
    fleet: Fleet,
}

impl Bare {
    async fn open(clients: usize) -> Self {
        let mut server = FrameServer::start().await;
        let fleet = Fleet::open(server.address, clients, Greeting::Nothing).await;
        let mut streams = Vec::new();
        for _ in 0..clients {
            let mut stream = server.stream().await;
            stream.request_bytes().await;
            streams.push(stream);
        }
        Self { _server: server, streams, fleet }
    }

    async fn round(&mut self, frame: &Bytes) {
        self.streams.iter().for_each(|stream| stream.send(frame.clone()));
        self.fleet.answer().await;
        for stream in &mut self.streams {
            stream.request_bytes().await;
        }
    }
}

fn set(change: &mut Transaction, index: usize, version: u16) {
    let bytes = endpoints::encoded(index, version);
    change.set(types::CLUSTER_LOAD_ASSIGNMENT, frames::name(index), bytes);
}

fn subscription(client: usize) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        node: Some(Node { id: format!("bench-{client}"), ..Node::default() }),
        type_url: types::CLUSTER_LOAD_ASSIGNMENT.into(),
        resource_names_subscribe: vec!["*".into()],
        ..DeltaDiscoveryRequest::default()
    }
}

fn ack(response: DeltaDiscoveryResponse) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        type_url: types::CLUSTER_LOAD_ASSIGNMENT.into(),
        response_nonce: response.nonce,
        ..DeltaDiscoveryRequest::default()
    }
}
