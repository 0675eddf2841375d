//! Limits of zero, of one and without a bound: the server may refuse everything, but does not panic,
//! and comes to rest.

use std::time::Duration;

use crate::support::url;
use proptest::{collection::vec, prelude::*, sample};
use prost::Message as _;
use xds_core::{
    Frame, Time,
    proto::{
        DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse, Node,
        Status,
    },
    server::{
        Admission, MakeBeforeBreakPolicy, NackRecovery, OrderingPolicy, PerClientLimits, Server,
        ServerConfig, ServerEvent, ServerLimits, ServerOutput, StreamEvent, StreamKind,
        Transaction, Variant,
    },
};

const TYPES: [&str; 3] = ["cds", "eds", "lds"];
const NAMES: [&str; 5] = ["*", "a", "b", "c", "d"];
const CLIENTS: usize = 3;

/// Limits that are set to an extreme value.
const LIMITS: [fn(&mut ServerLimits, usize); 25] = [
    |it, n| it.streams = n,
    |it, n| it.streams_per_node = n,
    |it, n| it.request_unit_bytes = n,
    |it, n| it.types_per_stream = n,
    |it, n| it.names_per_stream = n,
    |it, n| it.names_per_connection = n,
    |it, n| it.names = n,
    |it, n| it.names_per_call = n,
    |it, n| it.name_bytes = n,
    |it, n| it.node_bytes = n,
    |it, n| it.request_bytes = n,
    |it, n| it.views = n,
    |it, n| it.held_requests = n,
    |it, n| it.held_bytes_per_node = n,
    |it, n| it.resources = n,
    |it, n| it.deletions_per_type = n,
    |it, n| it.rejected_names = n,
    |it, n| it.retained_rejections = n,
    |it, n| it.isolated_resources = n,
    |it, n| it.resource_bytes = n,
    |it, n| it.response_bytes = n,
    |it, n| it.first_request = Some(Duration::from_secs(n as u64)),
    |it, n| it.decision = Some(Duration::from_secs(n as u64)),
    |it, n| it.deletion_retention = Some(Duration::from_secs(n as u64)),
    |it, n| it.rejection_retention = Duration::from_secs(n as u64),
];

#[derive(Clone, Debug)]
enum Step {
    /// Subscription, acceptance or rejection by a client: it names the type's newest response.
    Ask {
        client: usize,
        ty: usize,
        names: Vec<&'static str>,
        rejects: bool,
    },
    Take(usize),
    Close(usize),
    /// New contents of resources, or their removal.
    Apply(Vec<(usize, &'static str, Option<u8>)>),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let ask = (0..CLIENTS, 0..TYPES.len(), vec(sample::select(&NAMES[..]), 0..4), any::<bool>());
    let change =
        (0..TYPES.len(), sample::select(&NAMES[1..]), proptest::option::weighted(0.7, 0..3u8));
    prop_oneof![
        8 => ask.prop_map(|(client, ty, names, rejects)| Step::Ask { client, ty, names, rejects }),
        8 => (0..CLIENTS).prop_map(Step::Take),
        1 => (0..CLIENTS).prop_map(Step::Close),
        4 => vec(change, 1..4).prop_map(Step::Apply),
        2 => (0..2_000u64).prop_map(Step::Wait),
    ]
}

fn config() -> impl Strategy<Value = ServerConfig> {
    let value = sample::select(&[0, 1, usize::MAX]);
    let extremes = vec((sample::select(&LIMITS[..]), value), 1..3);
    let recovery =
        sample::select(&[NackRecovery::Minimal, NackRecovery::ResendBatch, NackRecovery::Isolate]);
    let admission = sample::select(&[Admission::All, Admission::ByApplication]);
    (extremes, recovery, any::<bool>(), admission).prop_map(
        |(values, recovery, gated, admission)| {
            let mut limits = ServerLimits::default();
            for (set, value) in values {
                set(&mut limits, value);
            }
            let ordering = match gated {
                true => OrderingPolicy::MakeBeforeBreak(MakeBeforeBreakPolicy::default()),
                false => OrderingPolicy::OrderOnly,
            };
            ServerConfig::default()
                .with_limits(limits)
                .with_ordering(ordering)
                .with_admission(admission)
                .with_every_type(|it| it.nack_recovery = recovery)
        },
    )
}

struct Clients {
    server: Server,
    variant: Variant,
    now: Time,
    streams: [Option<xds_core::StreamId>; CLIENTS],
    nonces: [[String; TYPES.len()]; CLIENTS],
}

impl Clients {
    fn run(&mut self, step: Step) {
        match step {
            Step::Ask { client, ty, names, rejects } => self.ask(client, ty, &names, rejects),
            Step::Take(client) => self.take(client),
            Step::Close(client) => {
                if let Some(stream) = self.streams[client].take() {
                    self.server.handle_event(StreamEvent::Closed(stream), self.now);
                }
            }
            Step::Apply(changes) => {
                let mut transaction = Transaction::new();
                for (ty, name, content) in changes {
                    match content {
                        Some(content) => transaction.set(&*url(TYPES[ty]), name, vec![content]),
                        None => transaction.remove(&*url(TYPES[ty]), name),
                    };
                }
                let _ = self.server.apply(transaction, self.now);
            }
            Step::Wait(millis) => self.now = self.now.after(Duration::from_millis(millis)),
        }
        self.come_to_rest();
    }

    fn ask(&mut self, client: usize, ty: usize, names: &[&str], rejects: bool) {
        if self.streams[client].is_none() {
            let kind = StreamKind::Aggregated(self.variant);
            self.nonces[client] = Default::default();
            self.streams[client] = self.server.accept(kind, self.now).ok();
        }
        let Some(stream) = self.streams[client] else { return };
        let node = Some(Node { id: format!("n{client}"), ..Node::default() });
        let response_nonce = self.nonces[client][ty].clone();
        let error_detail = rejects.then(|| Status { code: 3, ..Status::default() });
        let error_detail = error_detail.filter(|_| !response_nonce.is_empty());
        let names: Vec<String> = names.iter().copied().map(String::from).collect();
        let type_url = url(TYPES[ty]);
        let bytes = match self.variant {
            Variant::StateOfTheWorld => DiscoveryRequest {
                node,
                type_url,
                resource_names: names,
                response_nonce,
                error_detail,
                ..DiscoveryRequest::default()
            }
            .encode_to_vec(),
            Variant::Incremental => DeltaDiscoveryRequest {
                node,
                type_url,
                resource_names_subscribe: names,
                response_nonce,
                error_detail,
                ..DeltaDiscoveryRequest::default()
            }
            .encode_to_vec(),
        };
        self.server.handle_event(StreamEvent::Message(stream, bytes.into()), self.now);
    }

    fn take(&mut self, client: usize) {
        let Some(stream) = self.streams[client] else { return };
        let mut frame = Frame::default();
        if self.server.poll_transmit(stream, self.now, &mut frame).is_none() {
            return;
        }
        let (type_url, nonce) = match self.variant {
            Variant::StateOfTheWorld => {
                let response = DiscoveryResponse::decode(frame.to_bytes()).unwrap();
                (response.type_url, response.nonce)
            }
            Variant::Incremental => {
                let response = DeltaDiscoveryResponse::decode(frame.to_bytes()).unwrap();
                (response.type_url, response.nonce)
            }
        };
        let ty = TYPES.iter().position(|&ty| url(ty) == type_url).unwrap();
        self.nonces[client][ty] = nonce;
    }

    /// Drains the outputs and does what is due, which must end.
    fn come_to_rest(&mut self) {
        for _ in 0..1_000 {
            while let Some(output) = self.server.poll_output() {
                match output {
                    ServerOutput::Close(closed, _) => {
                        for stream in &mut self.streams {
                            *stream = stream.take().filter(|&stream| stream != closed);
                        }
                    }
                    ServerOutput::Event(ServerEvent::Authorize { stream, .. }) => {
                        self.server.assign(stream, &"view".into(), self.now);
                    }
                    _ => {}
                }
            }
            match self.server.poll_timeout() {
                Some(due) if due.at <= self.now => self.server.handle_timeout(self.now),
                Some(_) | None => return,
            }
        }
        panic!("the server is never done: {:?}", self.server.poll_timeout());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    // IS34, rule 6.
    #[test]
    fn extreme_limits_neither_panic_nor_loop(
        steps in vec(step(), 1..80),
        config in config(),
        variant in sample::select(&[Variant::StateOfTheWorld, Variant::Incremental]),
    ) {
        let mut clients = Clients {
            server: Server::new(config, 1, Time::ZERO),
            variant,
            now: Time::ZERO,
            streams: [None; CLIENTS],
            nonces: Default::default(),
        };
        for step in steps {
            clients.run(step);
        }
    }
}

// A client's own limits take the same values.
#[test]
fn limits_of_one_client_may_be_zero() {
    let mut server = Server::new(ServerConfig::default(), 1, Time::ZERO);
    let kind = StreamKind::Aggregated(Variant::Incremental);
    let stream = server.accept(kind, Time::ZERO).unwrap();
    let mut limits = PerClientLimits::from(&ServerLimits::default());
    (limits.types_per_stream, limits.names_per_stream, limits.response_bytes) = (0, 0, 0);
    server.limit_client(stream, limits, Time::ZERO);
    let request = DeltaDiscoveryRequest {
        type_url: url("cds"),
        resource_names_subscribe: vec![String::from("a")],
        ..DeltaDiscoveryRequest::default()
    };
    let event = StreamEvent::Message(stream, request.encode_to_vec().into());
    server.handle_event(event, Time::ZERO);
    let closed = core::iter::from_fn(|| server.poll_output());
    assert_eq!(closed.filter(|it| matches!(it, ServerOutput::Close(..))).count(), 1);
}
