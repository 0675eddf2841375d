//! Make before break: N named resources change in one transaction, after a cluster that the client
//! must ACK first. The work must grow linearly with N.

use std::time::Duration;

use bytes::Bytes;
use criterion::{BenchmarkGroup, Criterion, measurement::WallTime};
use prost::Message as _;
use xds_benches::{
    endpoints, frames,
    ratio::{Ratios, is_test_run},
    stopwatch::Stopwatch,
};
use xds_core::{
    Frame, StreamId, Time,
    proto::{DeltaDiscoveryRequest, Node},
    server::{
        MakeBeforeBreakPolicy, OrderingPolicy, Server, ServerConfig, ServerOutput, StreamEvent,
        StreamKind, Transaction,
    },
    service::Variant,
    types,
};

const NAMES: [usize; 3] = [100, 1_000, 10_000];
const PARTS: [&str; 2] = ["update", "fan-out and ACKs"];
const NOW: Time = Time::ZERO;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400))
        .without_plots()
        .configure_from_args();
    let mut ratios = Ratios::default();
    let mut group = criterion.benchmark_group("gated");
    for &names in NAMES.iter().filter(|&&names| !is_test_run() || names == 100) {
        measure(&mut ratios, &mut group, names);
    }
    group.finish();
    if !is_test_run() {
        println!("\nten times as many names: one of N / one of a tenth");
        for pair in NAMES.windows(2) {
            let [few, many] = [pair[0], pair[1]];
            for part in PARTS {
                let [work, base] = [many, few].map(|names| format!("{}: {part}", cell(names)));
                ratios.print_per(&work, many, &base, few, Some(3.0));
            }
        }
    }
}

fn cell(names: usize) -> String {
    format!("{names} routes and a cluster changed, W=1")
}

fn measure(ratios: &mut Ratios, group: &mut BenchmarkGroup<'_, WallTime>, names: usize) {
    let mut client = Client::new(names);
    let mut version = 1;
    ratios.measure_parts(group, &cell(names), PARTS, || {
        version = version % 1_000 + 2;
        let change = transaction(names, version);
        let started = Stopwatch::start();
        client.server.apply(change, NOW).expect("a good change");
        client.drain();
        let update = started.elapsed();
        let started = Stopwatch::start();
        assert_eq!(client.settle(), names + 1, "the cluster and all names");
        [update, started.elapsed()]
    });
}

/// Server with one client that ACKs every response.
struct Client {
    server: Server,
    stream: StreamId,
    frame: Frame,
}

impl Client {
    fn new(names: usize) -> Self {
        let mut config = ServerConfig::default();
        config.ordering = OrderingPolicy::MakeBeforeBreak(MakeBeforeBreakPolicy::default());
        config.limits.names_per_call = usize::MAX;
        let mut server = Server::new(config, 1, NOW);
        server.apply(transaction(names, 1), NOW).expect("good resources");
        let stream =
            server.accept(StreamKind::Aggregated(Variant::Incremental), NOW).expect("room");
        let mut client = Self { server, stream, frame: Frame::default() };
        client.send(types::CLUSTER, vec!["*".into()], "");
        client.send(types::ROUTE_CONFIGURATION, (0..names).map(frames::name).collect(), "");
        client.settle();
        client
    }

    fn send(&mut self, type_url: &str, names: Vec<String>, nonce: &str) {
        let request = DeltaDiscoveryRequest {
            node: Some(Node { id: "bench".into(), ..Node::default() }),
            type_url: type_url.into(),
            resource_names_subscribe: names,
            response_nonce: nonce.into(),
            ..DeltaDiscoveryRequest::default()
        };
        let message = Bytes::from(request.encode_to_vec());
        self.server.handle_event(StreamEvent::Message(self.stream, message), NOW);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.server.poll_output() {
            assert!(!matches!(output, ServerOutput::Close(..)), "{output:?}");
        }
    }

    /// Sends and ACKs all due responses. Returns the number of their resources.
    fn settle(&mut self) -> usize {
        let mut resources = 0;
        while let Some(sent) = self.server.poll_transmit(self.stream, NOW, &mut self.frame) {
            resources += sent.resources;
            self.send(sent.type_url.as_str(), Vec::new(), sent.nonce.as_str());
        }
        resources
    }
}

fn transaction(names: usize, version: u16) -> Transaction {
    let mut change = Transaction::new();
    change.set(types::CLUSTER, "cluster", version.to_be_bytes().to_vec());
    for index in 0..names {
        let bytes = endpoints::encoded(index, version);
        change.set(types::ROUTE_CONFIGURATION, frames::name(index), bytes);
    }
    change
}
