//! A thousand clients over gRPC on loopback, of the management server and of a bare tonic server
//! without protocol logic. The clients are the same on both sides.

#![allow(dead_code, reason = "every benchmark uses a part")]

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use criterion::Criterion;
use prost::Message as _;
use tokio::{net::TcpListener, runtime::Runtime, task::JoinSet};
use tonic::transport::{Channel, Endpoint};
use xds_benches::{endpoints, frames, ratio::is_test_run};
use xds_core::{
    ViewName,
    proto::{DeltaDiscoveryRequest, DeltaDiscoveryResponse, Node, Status},
    server::{ServerConfig, ServerLimits, ServerStats, Transaction},
    types,
};
use xds_tokio::{ManagementServer, ServerOptions, server::ServerHandle};

use crate::wire::{DELTA_AGGREGATED, FrameClient, FrameServer, FrameStream};

pub(crate) const CONNECTIONS: usize = 16;

/// Returns the setup of a fleet benchmark: few samples, because each is the work of a thousand
/// clients; one thread for server and clients, so that times are work; and the number of clients.
pub(crate) fn stage() -> (Criterion, Runtime, usize) {
    let criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .without_plots()
        .configure_from_args();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a machine with sockets");
    (criterion, runtime, if is_test_run() { 32 } else { 1_008 })
}

/// Opens connections to a server.
pub(crate) async fn connect(address: SocketAddr, connections: usize) -> Vec<Channel> {
    let mut channels = Vec::new();
    for _ in 0..connections {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        channels.push(endpoint.connect().await.expect("the server runs"));
    }
    channels
}

/// Clients, spread over connections.
pub(crate) struct Fleet(pub(crate) Vec<FrameClient>);

impl Fleet {
    /// Opens the streams of the clients one after the other.
    pub(crate) async fn open(
        channels: &[Channel],
        clients: usize,
        first_request: FirstRequest,
    ) -> Self {
        let mut fleet = Vec::new();
        for client in 0..clients {
            let channel = channels[client % channels.len()].clone();
            // Servers may withhold response headers until they know the client.
            let first = subscription(client).encode_to_vec();
            let mut client = FrameClient::call(channel, DELTA_AGGREGATED, first.into()).await;
            if first_request == FirstRequest::Everything {
                // One after the other, because unread responses of one stream use up the
                // flow-control window of the whole connection.
                client.answer(&Answer::Ack).await;
            }
            fleet.push(client);
        }
        Self(fleet)
    }

    /// Opens the streams of all clients at once, each with this request.
    pub(crate) async fn storm(channels: &[Channel], clients: usize, first: &Bytes) -> Self {
        let mut calls = JoinSet::new();
        for client in 0..clients {
            let channel = channels[client % channels.len()].clone();
            calls.spawn(FrameClient::call(channel, DELTA_AGGREGATED, first.clone()));
        }
        Self(calls.join_all().await)
    }

    /// Reads one response per client and answers it.
    pub(crate) async fn answer(&mut self, answer_kind: &Answer) -> Bytes {
        let mut last = Bytes::new();
        for client in &mut self.0 {
            last = client.answer(answer_kind).await;
        }
        last
    }
}

/// Response to a new client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstRequest {
    Nothing,
    Everything,
}

/// Answer of a client to a response.
pub(crate) enum Answer {
    Ack,
    /// Rejection with a reason of about 200 bytes.
    Nack,
}

impl FrameClient {
    /// Reads one response and answers it.
    pub(crate) async fn answer(&mut self, answer_kind: &Answer) -> Bytes {
        let frame = self.frame().await;
        let response = DeltaDiscoveryResponse::decode(frame.clone()).expect("a response");
        let error_detail = match answer_kind {
            Answer::Ack => None,
            Answer::Nack => Some(Status { code: 3, message: "x".repeat(200), ..Status::default() }),
        };
        let request = DeltaDiscoveryRequest {
            type_url: types::CLUSTER_LOAD_ASSIGNMENT.into(),
            response_nonce: response.nonce,
            error_detail,
            ..DeltaDiscoveryRequest::default()
        };
        self.send_bytes(request.encode_to_vec().into());
        frame
    }
}

pub(crate) struct Ours {
    pub(crate) handle: ServerHandle,
    pub(crate) address: SocketAddr,
    pub(crate) channels: Vec<Channel>,
    pub(crate) fleet: Fleet,
    version: u16,
}

impl Ours {
    /// Starts a server with this number of resources and no clients.
    pub(crate) async fn start(resources: usize) -> Self {
        let mut limits = ServerLimits::default();
        // Reconnecting clients share one request, and so one node id.
        limits.streams_per_node = limits.streams;
        // Observations of rejections are not measured.
        let config = ServerConfig::default().with_limits(limits);
        // All clients share a few connections.
        let options = ServerOptions::default().with_max_concurrent_streams(1_000);
        let server = ManagementServer::start(config, options);
        let handle = server.handle();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        tokio::spawn(server.serve(listener));
        let mut all = Transaction::new();
        (0..resources).for_each(|index| set(&mut all, index, 1));
        handle.apply(all).await.expect("a sound transaction");
        let channels = connect(address, CONNECTIONS).await;
        Self { handle, address, channels, fleet: Fleet(Vec::new()), version: 1 }
    }

    /// Starts a server with clients that have all resources.
    pub(crate) async fn open(resources: usize, clients: usize) -> Self {
        let mut ours = Self::start(resources).await;
        ours.fleet = Fleet::open(&ours.channels, clients, FirstRequest::Everything).await;
        ours.until(|stats| stats.acks >= clients as u64).await;
        ours
    }

    /// Makes a change and waits until all clients have ACKed it. Returns a response as it was sent.
    pub(crate) async fn round(&mut self) -> Bytes {
        let sequence = self.change().await;
        let last = self.fleet.answer(&Answer::Ack).await;
        // Waits once, because polling a counter would be measured too.
        let type_url = types::CLUSTER_LOAD_ASSIGNMENT;
        let accepted = self.handle.converged(ViewName::default(), type_url, sequence).await;
        accepted.expect("it runs");
        last
    }

    /// Changes one resource, and returns the sequence number of the change.
    pub(crate) async fn change(&mut self) -> u64 {
        self.version = self.version.checked_add(1).unwrap_or(2);
        let mut change = Transaction::new();
        set(&mut change, 0, self.version);
        self.handle.apply(change).await.expect("a sound transaction").sequence
    }

    /// Waits for a condition. It is checked rarely, because each check is work.
    pub(crate) async fn until(&self, is_reached: impl Fn(&ServerStats) -> bool) {
        while !is_reached(&self.stats().await) {
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
        }
    }

    pub(crate) async fn stats(&self) -> ServerStats {
        self.handle.stats().await.expect("it runs")
    }
}

pub(crate) struct Bare {
    server: FrameServer,
    pub(crate) address: SocketAddr,
    pub(crate) channels: Vec<Channel>,
    streams: Vec<FrameStream>,
    fleet: Fleet,
}

impl Bare {
    pub(crate) async fn start() -> Self {
        let server = FrameServer::start().await;
        let address = server.address;
        let channels = connect(address, CONNECTIONS).await;
        Self { server, address, channels, streams: Vec::new(), fleet: Fleet(Vec::new()) }
    }

    pub(crate) async fn open(clients: usize) -> Self {
        let mut bare = Self::start().await;
        bare.fleet = Fleet::open(&bare.channels, clients, FirstRequest::Nothing).await;
        bare.take_streams(clients).await;
        bare
    }

    /// Accepts this number of streams, and reads one request of each.
    pub(crate) async fn take_streams(&mut self, clients: usize) {
        for _ in 0..clients {
            let mut stream = self.server.stream().await;
            stream.request_bytes().await;
            self.streams.push(stream);
        }
    }

    /// Sends a response to all clients, and reads their answers.
    pub(crate) async fn round(&mut self, frame: &Bytes, answer_kind: &Answer) {
        self.streams.iter().for_each(|stream| stream.send(frame.clone()));
        self.fleet.answer(answer_kind).await;
        for stream in &mut self.streams {
            stream.request_bytes().await;
        }
    }

    /// Connects all clients with this request, sends a response to each, and reads their answers.
    pub(crate) async fn storm(&mut self, clients: usize, first: &Bytes, frame: &Bytes) {
        self.fleet = Fleet::storm(&self.channels, clients, first).await;
        self.take_streams(clients).await;
        self.round(frame, &Answer::Ack).await;
    }

    /// Disconnects all clients.
    pub(crate) fn disconnect_all(&mut self) {
        self.fleet.0.clear();
        self.streams.clear();
    }
}

fn set(change: &mut Transaction, index: usize, version: u16) {
    let bytes = endpoints::encoded(index, version);
    change.set(types::CLUSTER_LOAD_ASSIGNMENT, frames::name(index), bytes);
}

/// Returns the first request of a client, which subscribes to everything.
pub(crate) fn subscription(client: usize) -> DeltaDiscoveryRequest {
    DeltaDiscoveryRequest {
        node: Some(Node { id: format!("bench-{client}"), ..Node::default() }),
        type_url: types::CLUSTER_LOAD_ASSIGNMENT.into(),
        resource_names_subscribe: vec!["*".into()],
        ..DeltaDiscoveryRequest::default()
    }
}
