//! Regression tests, each with the smallest run that shows the bug. Bugs that a protocol script can
//! show are in the workspace's `tests/scripts/client/`; these depend on when outputs are polled, on
//! memory, or on large numbers.

use std::time::Duration;

use bytes::Bytes;
use prost::{Message as _, Name as _};
use xds_core::{
    ChannelId, Client, Frame, Time, Timer, TypeUrl, WatchId,
    client::{
        AuthorityConfig, ChannelError, ChannelEvent, ClientConfig, FlowControl, Instrument,
        Interest, InvalidWatch, MetricsExporter, Node, Notice, Output, ServerAddress,
        WatchErrorKind,
    },
    proto,
};

use crate::client_support::{Picky, TYPES, config, response};

/// Indices into [`TYPES`].
const CLUSTER: usize = 0;
const ENDPOINTS: usize = 1;

/// The tag of `version_info` and a length that exceeds the message.
const GARBAGE: &[u8] = &[0x0a, 0xff];

/// A client at time zero with a transport that is always writable.
struct Bench {
    client: Client,
    channel: Option<ChannelId>,
}

impl Bench {
    fn new(config: ClientConfig) -> Self {
        Self { client: Client::new(config, 7, Time::ZERO), channel: None }
    }

    fn without_gate() -> Self {
        let mut config = config();
        config.profile.flow_control = FlowControl::Off;
        Self::new(config)
    }

    fn watch(&mut self, kind: usize, interest: Interest<'_>) -> WatchId {
        let watch = self.client.watch(&TypeUrl::from(TYPES[kind]), interest, Time::ZERO);
        watch.expect("a registered type and a good name")
    }

    /// Takes every output and sends every request.
    fn drain(&mut self) -> Vec<Output> {
        let mut frame = Frame::default();
        let mut outputs = Vec::new();
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Open(channel, _) => self.channel = Some(channel),
                Output::Writable(channel) => {
                    while self.client.poll_transmit(channel, Time::ZERO, &mut frame).is_some() {}
                }
                _ => {}
            }
            outputs.push(output);
        }
        outputs
    }

    /// Opens the channel that the client requests.
    fn connect(&mut self) -> ChannelId {
        self.drain();
        let channel = self.channel.expect("a watch opens a channel");
        self.client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
        self.drain();
        channel
    }

    fn receive(&mut self, frame: impl Into<Bytes>) {
        let channel = self.channel.expect("connected");
        self.client.handle_event(ChannelEvent::Message(channel, frame.into()), Time::ZERO);
    }

    /// Length of the client's debug output: not a measure of memory, but anything that accumulates
    /// shows in it.
    fn extent(&self) -> usize {
        format!("{:?}", self.client).len()
    }
}

fn closes(outputs: &[Output], channel: ChannelId) -> bool {
    outputs.iter().any(|output| matches!(output, Output::Close(closed, _) if *closed == channel))
}

fn notices_of(outputs: Vec<Output>) -> Vec<(WatchId, Notice)> {
    let notice = |output| match output {
        Output::Notify(watch, notice) => Some((watch, notice)),
        _ => None,
    };
    outputs.into_iter().filter_map(notice).collect()
}

/// Returns a response with resources of `kind`, given as names and padding in bytes.
fn frame_of(kind: usize, version: &str, nonce: &str, resources: &[(&str, usize)]) -> Bytes {
    let any = |&(name, padding): &(&str, usize)| proto::Any {
        type_url: TYPES[kind].into(),
        value: proto::Locality {
            region: name.into(),
            zone: "z".repeat(padding),
            ..Default::default()
        }
        .encode_to_vec()
        .into(),
    };
    proto::DiscoveryResponse {
        version_info: version.into(),
        nonce: nonce.into(),
        type_url: TYPES[kind].into(),
        resources: resources.iter().map(any).collect(),
        ..Default::default()
    }
    .encode_to_vec()
    .into()
}

// Queued notices and lost events.

/// A queued notice may cancel out before it is polled, here an error that ends. The watcher then
/// never calls `handled`, so reading must not wait for it.
// IC34
#[test]
fn cancelled_notice_does_not_block_reading() {
    let mut bench = Bench::new(config());
    let first = bench.watch(ENDPOINTS, Interest::Name("r1"));
    let channel = bench.connect();
    for (nonce, text) in [(1, 1), (2, 3)] {
        bench.receive(response(ENDPOINTS, nonce, &[(1, text)]));
        assert_eq!(notices_of(bench.drain()).len(), 1);
        bench.client.handled(first, Time::ZERO);
    }

    // The second watcher has a queued value, and then an ambient error.
    let second = bench.watch(ENDPOINTS, Interest::Name("r1"));
    let told = bench.client.poll_output();
    assert!(matches!(told, Some(Output::Notify(watch, Notice::Changed(Ok(_)))) if watch == second));
    assert!(bench.client.wants_read(channel));

    bench.receive(response(ENDPOINTS, 3, &[(1, 1)]));
    let notices = notices_of(bench.drain());
    assert_eq!(notices, [(first, Notice::Ambient(None))]);
    bench.client.handled(first, Time::ZERO);
    assert!(bench.client.wants_read(channel));
}

/// A transport whose close is queued and never polled would stay open forever.
#[test]
fn shutdown_keeps_queued_close() {
    let mut bench = Bench::new(config());
    bench.watch(ENDPOINTS, Interest::Name("r1"));
    let channel = bench.connect();
    bench.receive(GARBAGE);
    bench.client.shut_down(Time::ZERO);
    let outputs = bench.drain();
    assert!(closes(&outputs, channel), "{outputs:?}");
    assert_eq!(outputs.len(), 1, "nothing but the close follows: {outputs:?}");
    assert_eq!(bench.client.poll_timeout(), None);
}

/// A transport may report an undeliverable response before the call has started.
#[test]
fn undeliverable_response_closes_opening_channel() {
    let mut bench = Bench::new(config());
    bench.watch(ENDPOINTS, Interest::Name("r1"));
    bench.drain();
    let channel = bench.channel.expect("a watch opens a channel");
    let event = ChannelEvent::Undeliverable(channel, "too large".into());
    bench.client.handle_event(event, Time::ZERO);

    assert!(closes(&bench.drain(), channel));
    let stats = bench.client.stats();
    assert_eq!((stats.malformed, stats.server_failures, stats.ignored_events), (1, 1, 0));
    bench.client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
    assert_eq!(bench.client.stats().ignored_events, 1, "the channel is gone (rule 7)");
}

// Memory.

/// A frame is kept only for the resources that are used from it. Duplicates are not used, so they
/// keep no frame however large they are.
#[test]
fn duplicate_resource_does_not_retain_frame() {
    let mut bench = Bench::without_gate();
    bench.watch(CLUSTER, Interest::Wildcard);
    bench.connect();
    let frame = frame_of(CLUSTER, "1", "n1", &[("twice", 1_000_000), ("twice", 1), ("once", 10)]);
    bench.receive(frame.clone());
    bench.drain();
    let used: Vec<_> = bench.client.status().filter_map(|status| status.bytes).collect();
    assert_eq!(used.len(), 1);
    assert!(used[0].is_unique() && frame.is_unique(), "{} bytes keep a frame", used[0].len());
}

/// A frame without a used resource leaves no state, not even its accounting.
#[test]
fn frames_without_used_resources_do_not_accumulate() {
    let mut bench = Bench::without_gate();
    bench.watch(CLUSTER, Interest::Wildcard);
    bench.connect();
    let mut extents = Vec::new();
    for number in 0..100 {
        let duplicates = [("twice", 100_000), ("twice", 1)];
        let frame = frame_of(CLUSTER, &number.to_string(), "n", &duplicates);
        bench.receive(frame.clone());
        bench.drain();
        assert!(frame.is_unique(), "response {number} is kept");
        extents.push(bench.extent());
    }
    assert!(extents[99] < extents[1] + 200, "{} then {}", extents[1], extents[99]);
}

/// A kept frame is released when most of it is no longer in use.
#[test]
fn frame_is_released_when_most_of_it_is_replaced() {
    let mut bench = Bench::without_gate();
    bench.watch(ENDPOINTS, Interest::Wildcard);
    bench.connect();
    let frame = frame_of(ENDPOINTS, "1", "n1", &[("large", 100_000), ("small", 10)]);
    bench.receive(frame.clone());
    bench.drain();
    assert!(!frame.is_unique(), "it is worth keeping");
    bench.receive(frame_of(ENDPOINTS, "2", "n2", &[("large", 10)]));
    bench.drain();
    assert!(frame.is_unique(), "a small resource keeps a large frame");
}

/// A version is stored as long as its resource, and a nonce as long as its stream, so the length of
/// both is limited.
#[test]
fn version_or_nonce_over_limit_closes_channel() {
    let long = "x".repeat(4097);
    for (version, nonce) in [(&*long, "n"), ("1", &*long)] {
        let mut bench = Bench::new(config());
        let watch = bench.watch(ENDPOINTS, Interest::Name("a"));
        let channel = bench.connect();
        bench.receive(frame_of(ENDPOINTS, version, nonce, &[("a", 1)]));
        let outputs = bench.drain();
        assert!(closes(&outputs, channel), "{outputs:?}");

        let notices = notices_of(outputs);
        let [(told, Notice::Changed(Err(error)))] = &*notices else { panic!("{notices:?}") };
        let too_long = ChannelError::TokenTooLong { bytes: 4097, limit: 4096 };
        assert_eq!((*told, error.kind()), (watch, &WatchErrorKind::Unavailable(too_long)));
        let stats = bench.client.stats();
        assert_eq!((stats.malformed, stats.responses, stats.resources_valid), (1, 0, 0));
        assert!(bench.client.status().all(|status| status.bytes.is_none()), "IC36");
    }
}

/// The name limit applies to the canonical form sent to servers, in which escapes make it longer.
#[test]
fn name_limit_applies_to_canonical_form() {
    let long =
        format!("xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/{}", "é".repeat(400));
    let limit = 2_048;
    let bytes = long.len() + 4 * 400;
    assert!(long.len() < limit && bytes > limit);
    let authority = AuthorityConfig::new("x").with_server(ServerAddress::new("server"));
    let mut bench = Bench::new(config().with_authority(authority));
    let interest = Interest::Name(&long);
    let watch = bench.client.watch(&TypeUrl::from(TYPES[ENDPOINTS]), interest, Time::ZERO);
    assert_eq!(watch, Err(InvalidWatch::NameTooLong { bytes, limit }));

    bench.watch(ENDPOINTS, Interest::Wildcard);
    bench.connect();
    bench.receive(frame_of(ENDPOINTS, "1", "n", &[(&long, 1), ("a", 1)]));
    bench.drain();
    assert_eq!((bench.client.stats().nacks, bench.client.stats().resources_valid), (1, 1));
}

/// Versions and nonces of exactly the limit are accepted.
#[test]
fn version_and_nonce_of_exact_limit_are_accepted() {
    let long = "x".repeat(4096);
    let mut bench = Bench::new(config());
    bench.watch(ENDPOINTS, Interest::Name("a"));
    let channel = bench.connect();
    bench.receive(frame_of(ENDPOINTS, &long, &long, &[("a", 1)]));
    let outputs = bench.drain();
    assert!(!closes(&outputs, channel), "{outputs:?}");
    assert_eq!((bench.client.stats().acks, bench.client.stats().malformed), (1, 0));
}

/// Watches that start and end between two polls leave no work for the next poll (rule 5).
#[test]
fn short_watches_between_polls_do_not_accumulate() {
    let mut bench = Bench::new(config());
    let steady = bench.watch(ENDPOINTS, Interest::Name("r1"));
    bench.connect();
    bench.receive(response(ENDPOINTS, 1, &[(1, 1)]));
    bench.drain();
    bench.client.handled(steady, Time::ZERO);

    for _ in 0..1_000_000 {
        let passing = bench.watch(ENDPOINTS, Interest::Name("r1"));
        bench.client.unwatch(passing, Time::ZERO);
    }
    let extent = bench.extent();
    assert!(extent < 50_000, "{extent} bytes to describe a client with one watch");
    assert!(bench.client.poll_output().is_none(), "one poll goes past what has ended");
    let due = bench.client.poll_timeout();
    assert!(due.is_none_or(|due| due.why != Timer::QueuedOutput), "{due:?}");
}

// Numbers.

/// A backoff policy is read from a file, which may contain any numbers.
#[test]
fn extreme_backoff_policy_does_not_overflow() {
    let absurd = [
        (Duration::from_secs(1), u32::MAX, Duration::from_secs(120)),
        (Duration::from_secs(1), u32::MAX, Duration::MAX),
        (Duration::MAX, u32::MAX, Duration::MAX),
        (Duration::ZERO, 0, Duration::ZERO),
    ];
    for (initial, growth_percent, max) in absurd {
        let mut config = config();
        let policy = &mut config.profile.backoff;
        (policy.initial, policy.growth_percent, policy.max) = (initial, growth_percent, max);
        policy.jitter_percent = u32::MAX;
        let mut bench = Bench::new(config);
        bench.watch(ENDPOINTS, Interest::Name("r1"));
        let mut now = Time::ZERO;
        for _ in 0..5 {
            bench.drain();
            let Some(channel) = bench.channel.take() else { break };
            let error = ChannelError::Unreachable("nobody there".into());
            bench.client.handle_event(ChannelEvent::Closed(channel, error), now);
            bench.drain();
            let due = bench.client.poll_timeout().expect("there is a next attempt");
            assert_eq!(due.why, Timer::Reconnect);
            assert!(due.at.since(now) <= max.saturating_mul(2), "jitter adds no more than all");
            now = due.at;
            bench.client.handle_timeout(now);
        }
    }
}

/// An unhandled notice from two servers stops reading from both; `handled` resumes both.
// IC34
#[test]
fn unhandled_notice_blocks_reading_from_each_sending_server() {
    const ENDPOINT: &str = "xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/r2";
    let authority = AuthorityConfig::new("x").with_server(ServerAddress::new("other"));
    let mut client = Client::new(config().with_authority(authority), 7, Time::ZERO);
    let mut watch = |interest| {
        let watch = client.watch(&TypeUrl::from(TYPES[ENDPOINTS]), interest, Time::ZERO);
        watch.expect("a registered type and a good name")
    };
    let watches = [watch(Interest::Wildcard), watch(Interest::Name(ENDPOINT))];
    let (mut channels, mut frame) = (Vec::new(), Frame::default());
    while let Some(output) = client.poll_output() {
        match output {
            Output::Open(channel, _) => {
                channels.push(channel);
                client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
            }
            Output::Writable(channel) => {
                while client.poll_transmit(channel, Time::ZERO, &mut frame).is_some() {}
            }
            _ => {}
        }
    }
    let named = proto::DiscoveryResponse {
        version_info: "v2".into(),
        nonce: "n2".into(),
        type_url: TYPES[ENDPOINTS].into(),
        resources: vec![proto::Any {
            type_url: TYPES[ENDPOINTS].into(),
            value: proto::Locality { region: ENDPOINT.into(), ..Default::default() }
                .encode_to_vec()
                .into(),
        }],
        ..Default::default()
    };
    let frames = [response(ENDPOINTS, 1, &[(1, 1)]), named.encode_to_vec().into()];
    for (&channel, frame) in channels.iter().zip(frames) {
        client.handle_event(ChannelEvent::Message(channel, frame), Time::ZERO);
        assert!(!client.wants_read(channel), "the watchers of {channel} are busy");
    }
    while let Some(output) = client.poll_output() {
        if let Output::Writable(channel) = output {
            while client.poll_transmit(channel, Time::ZERO, &mut frame).is_some() {}
        }
    }
    for watch in watches {
        while client.next_change(watch).is_some() {}
        client.handled(watch, Time::ZERO);
    }
    assert_eq!(channels.len(), 2);
    assert!(channels.iter().all(|&channel| client.wants_read(channel)), "{channels:?}");
}

/// A response from a server that is not authoritative for a name is ignored for that name, even if
/// it is invalid: a heartbeat without a resource, or a resource that does not decode.
// IC13 IC30
#[test]
fn response_of_non_authoritative_server_is_ignored() {
    const ENDPOINT: &str = "xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/r2";
    let wrapped = |resource| proto::Resource {
        name: ENDPOINT.into(),
        version: "1".into(),
        resource,
        ..Default::default()
    };
    let unreadable = proto::Any { type_url: "another.type".into(), ..Default::default() };
    for wrapper in [wrapped(None), wrapped(Some(unreadable))] {
        let authority = AuthorityConfig::new("x").with_server(ServerAddress::new("other"));
        let mut bench = Bench::new(config().with_authority(authority));
        bench.watch(ENDPOINTS, Interest::Name("r1"));
        bench.connect();
        bench
            .client
            .watch(&TypeUrl::from(TYPES[ENDPOINTS]), Interest::Name(ENDPOINT), Time::ZERO)
            .expect("a good name");
        let states = |bench: &Bench| {
            bench.client.status().map(|it| (it.name.to_string(), it.state)).collect::<Vec<_>>()
        };
        let before = states(&bench);
        let response = proto::DiscoveryResponse {
            version_info: "v1".into(),
            nonce: "n1".into(),
            type_url: TYPES[ENDPOINTS].into(),
            resources: vec![proto::Any {
                type_url: proto::Resource::type_url(),
                value: wrapper.encode_to_vec().into(),
            }],
            ..Default::default()
        };
        bench.receive(response.encode_to_vec());
        assert_eq!(before.len(), 2);
        assert_eq!(states(&bench), before, "{wrapper:?}");
    }
}

/// The clock may jump over the end of a server's failure and the TTL of a resource. The expiry restarts
/// the stream that states the resource's version, but the silence of that stream has ended the failure.
// IC28
#[test]
fn expiry_that_restarts_stream_does_not_hide_recovery() {
    let mut bench = Bench::without_gate();
    let [brief, lasting] = ["r1", "r2"].map(|name| bench.watch(ENDPOINTS, Interest::Name(name)));
    let channel = bench.connect();
    let wrapped = |name: &str, ttl| {
        let value = proto::Locality { region: name.into(), ..Default::default() };
        let type_url = TYPES[ENDPOINTS].into();
        let resource = proto::Any { type_url, value: value.encode_to_vec().into() };
        let wrapper = proto::Resource {
            name: name.into(),
            resource: Some(resource),
            ttl,
            ..Default::default()
        };
        proto::Any { type_url: proto::Resource::type_url(), value: wrapper.encode_to_vec().into() }
    };
    let ttl = proto::Duration { seconds: 40, nanos: 0 };
    let response = proto::DiscoveryResponse {
        version_info: "v1".into(),
        nonce: "n1".into(),
        type_url: TYPES[ENDPOINTS].into(),
        resources: vec![wrapped("r1", Some(ttl)), wrapped("r2", None)],
        ..Default::default()
    };
    bench.receive(response.encode_to_vec());
    assert_eq!(notices_of(bench.drain()).len(), 2);

    let mut now = Time::ZERO;
    let error = ChannelError::Unreachable("down".into());
    bench.client.handle_event(ChannelEvent::Closed(channel, error.clone()), now);
    let mut told = Vec::new();
    for is_refused in [true, false] {
        bench.channel = None;
        told.extend(bench.drain());
        while bench.channel.is_none() {
            now = bench.client.poll_timeout().expect("another attempt").at;
            bench.client.handle_timeout(now);
            told.extend(bench.drain());
        }
        let channel = bench.channel.expect("it opens");
        let event = match is_refused {
            true => ChannelEvent::Closed(channel, error.clone()),
            false => ChannelEvent::Opened(channel),
        };
        bench.client.handle_event(event, now);
    }
    told.extend(bench.drain());
    let told = notices_of(told);
    assert!(
        matches!(&told[..], [(_, Notice::Ambient(Some(_))), (_, Notice::Ambient(Some(_)))]),
        "{told:?}"
    );

    bench.client.handle_timeout(now.after(Duration::from_secs(60)));
    let outputs = bench.drain();
    assert!(outputs.iter().any(|it| matches!(it, Output::Open(..))), "{outputs:?}");
    let told = notices_of(outputs);
    assert!(told.contains(&(lasting, Notice::Ambient(None))), "{told:?}");
    assert!(told.iter().any(|(watch, _)| *watch == brief), "{told:?}");
}

/// User information of a server URI is passed to the adapter only.
#[test]
fn errors_and_metrics_hide_user_info_of_server_uri() {
    #[derive(Default)]
    struct Labels(String);
    impl MetricsExporter for Labels {
        fn counter(&mut self, _: Instrument, labels: &[(&'static str, &str)], _: u64) {
            self.0 += &format!("{labels:?}");
        }
        fn gauge(&mut self, instrument: Instrument, labels: &[(&'static str, &str)], _: u64) {
            self.counter(instrument, labels, 0);
        }
    }

    for (uri, shown) in [
        ("https://me:hush/@hush@xds.example:443", "https://***@xds.example:443"),
        ("me:hush@xds.example", "***@xds.example"),
        ("unix:/run/a@b", "unix:/run/a@b"),
        ("xds.example", "xds.example"),
    ] {
        let server = ServerAddress::new(uri);
        assert!(!format!("{server:?}").contains("hush"), "{server:?}");
        let config =
            ClientConfig::new(Node::new("me"), server).with_type(Picky(TypeUrl::from(TYPES[0])));
        let mut client = Client::new(config, 7, Time::ZERO);
        let watch = client.watch(&TypeUrl::from(TYPES[0]), Interest::Name("a"), Time::ZERO);
        let Some(Output::Open(channel, call)) = client.poll_output() else { panic!("no channel") };
        assert_eq!(&*call.server.uri, uri, "the adapter gets all of it");
        let error = ChannelError::Unreachable("refused".into());
        client.handle_event(ChannelEvent::Closed(channel, error), Time::ZERO);
        let Some(Output::Notify(told, Notice::Changed(Err(error)))) = client.poll_output() else {
            panic!("no error")
        };
        assert_eq!(Ok(told), watch);
        assert!(error.to_string().ends_with(&format!("server {shown})")), "{error}");
        let mut labels = Labels::default();
        client.metrics().export("target", &mut labels);
        assert!(labels.0.contains(shown) && !labels.0.contains("hush"), "{}", labels.0);
    }
}
