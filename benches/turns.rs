//! Longest call of a server that is sent a million names in one request, and of the end of that
//! stream: at once, and in parts. The names do not exist, which is the most expensive case.

use std::time::Duration;

use prost::Message as _;
use xds_benches::stopwatch::Stopwatch;
use xds_core::{
    Time,
    proto::{DiscoveryRequest, Node},
    server::{Server, ServerConfig, ServerLimits, StreamEvent, StreamKind, Variant},
    types,
};

const NAMES: usize = 1_000_000;

/// Duration of all calls, and of the longest one.
#[derive(Default)]
struct Calls {
    total: Duration,
    longest: Duration,
    count: usize,
}

impl Calls {
    fn time(&mut self, call: impl FnOnce()) {
        let stopwatch = Stopwatch::start();
        call();
        let took = stopwatch.elapsed();
        self.total += took;
        self.longest = self.longest.max(took);
        self.count += 1;
    }

    /// Handles an event and the work that it leaves.
    fn handle(server: &mut Server, event: StreamEvent) -> Self {
        let mut calls = Self::default();
        calls.time(|| server.handle_event(event, Time::ZERO));
        while server.stats().unfinished_requests + server.stats().unfinished_closes > 0 {
            calls.time(|| server.handle_timeout(Time::ZERO));
        }
        while server.poll_output().is_some() {}
        calls
    }

    fn print(&self, what: &str) {
        let Self { total, longest, count } = self;
        println!("{what:<32} {count:>5} calls  total {total:>10.1?}  longest {longest:>10.1?}");
    }
}

fn main() {
    let request = DiscoveryRequest {
        node: Some(Node { id: "bench".into(), ..Node::default() }),
        type_url: types::CLUSTER.into(),
        resource_names: (0..NAMES).map(|n| format!("cluster-{n}")).collect(),
        ..DiscoveryRequest::default()
    };
    let request = bytes::Bytes::from(request.encode_to_vec());
    let default = ServerLimits::default().names_per_call;
    for (row, names_per_call) in [("at once", usize::MAX), ("in parts", default)] {
        let mut limits = ServerLimits::default();
        limits.names_per_call = names_per_call;
        (limits.names_per_stream, limits.names_per_connection) = (NAMES, NAMES);
        let config = ServerConfig::default().with_limits(limits);
        let mut server = Server::new(config, 1, Time::ZERO);
        let kind = StreamKind::Aggregated(Variant::StateOfTheWorld);
        let stream = server.accept(kind, Time::ZERO).expect("a stream");
        let message = StreamEvent::Message(stream, request.clone());
        Calls::handle(&mut server, message).print(&format!("request, {row}"));
        assert_eq!(server.stats().held_names, NAMES);
        let closed = StreamEvent::Closed(stream);
        Calls::handle(&mut server, closed).print(&format!("end of the stream, {row}"));
        assert_eq!(server.stats().names, 0);
    }
}
