//! Faults that were found once, each with the smallest run that showed it. What a protocol script can
//! show is in `tests/scripts/client/` of the workspace; here is what depends on when outputs are
//! taken, on memory, or on numbers no script should hold.

mod client_support;

use std::time::Duration;

use bytes::Bytes;
use prost::{Message as _, Name as _};
use xds_core::{
    ChannelId, Client, Frame, Time, Timer, TypeUrl, WatchId,
    client::{
        Authority, ChannelError, ChannelEvent, ClientConfig, Instrument, Interest, InvalidWatch,
        ManagementServer, MetricsExporter, Node, Notice, Output, ReadGate, WatchErrorKind,
    },
    proto,
};

use client_support::{Picky, TYPES, config, response};

/// Positions in [`TYPES`].
const CLUSTER: usize = 0;
const ENDPOINTS: usize = 1;

/// The first byte of the version, and a length that the message does not have.
const GARBAGE: &[u8] = &[0x0a, 0xff];

/// A client at time zero, and a transport that always has room.
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
        config.profile.read_gate = ReadGate::Off;
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

    /// Opens the channel that the client asks for.
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

    /// The length of all there is to say of the client: no measure of its memory, but nothing can
    /// pile up without showing in it.
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

/// A frame with resources of `kind`, each a name and how many bytes there are beside it.
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

// What waits, and what is lost.

/// News may cancel out before it is polled, here an error that is over. Its watcher never hears of it
/// and never says `handled`, so reading must not wait for that (IC34).
#[test]
fn a_notice_with_nothing_to_say_does_not_stop_reading() {
    let mut bench = Bench::new(config());
    let first = bench.watch(ENDPOINTS, Interest::Name("r1"));
    let channel = bench.connect();
    for (nonce, text) in [(1, 1), (2, 3)] {
        bench.receive(response(ENDPOINTS, nonce, &[(1, text)]));
        assert_eq!(notices_of(bench.drain()).len(), 1);
        bench.client.handled(first, Time::ZERO);
    }

    // The second watcher is about to be told of the value, then of the error beside it.
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

/// A transport whose end was queued and not yet polled would stay open for ever.
#[test]
fn shutting_down_keeps_the_close_that_is_queued() {
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

/// A transport may find out before the call has started that it cannot deliver.
#[test]
fn an_undeliverable_response_closes_a_channel_that_is_still_opening() {
    let mut bench = Bench::new(config());
    bench.watch(ENDPOINTS, Interest::Name("r1"));
    bench.drain();
    let channel = bench.channel.expect("a watch opens a channel");
    let event = ChannelEvent::Malformed(channel, "too large".into());
    bench.client.handle_event(event, Time::ZERO);

    assert!(closes(&bench.drain(), channel));
    let stats = bench.client.stats();
    assert_eq!((stats.malformed, stats.server_failures, stats.ignored_events), (1, 1, 0));
    bench.client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
    assert_eq!(bench.client.stats().ignored_events, 1, "the channel is gone (rule 7)");
}

// Memory.

/// Whether a frame is kept is decided by the resources taken out of it. A name that comes twice is
/// none of them, however large.
#[test]
fn a_duplicate_keeps_no_frame() {
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

/// A frame of which nothing is used leaves no trace, not even an account of itself.
#[test]
fn frames_of_which_nothing_is_used_do_not_pile_up() {
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

/// Of a frame that is kept, the rest goes when most of it is out of use.
#[test]
fn a_frame_goes_when_most_of_it_is_replaced() {
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

/// A version is kept for as long as a resource that came in it, a nonce for as long as its stream:
/// their length is the server's choice only up to a limit.
#[test]
fn long_versions_and_nonces_close_the_channel() {
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

/// A name is bounded in the form in which servers are told of it: escapes make it longer.
#[test]
fn names_are_bounded_in_their_canonical_form() {
    let long =
        format!("xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/{}", "é".repeat(400));
    let limit = 2_048;
    let bytes = long.len() + 4 * 400;
    assert!(long.len() < limit && bytes > limit);
    let authority = Authority::new("x").with_server(ManagementServer::new("server"));
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

/// Exactly at the limit both are taken.
#[test]
fn versions_and_nonces_may_be_as_long_as_the_limit() {
    let long = "x".repeat(4096);
    let mut bench = Bench::new(config());
    bench.watch(ENDPOINTS, Interest::Name("a"));
    let channel = bench.connect();
    bench.receive(frame_of(ENDPOINTS, &long, &long, &[("a", 1)]));
    let outputs = bench.drain();
    assert!(!closes(&outputs, channel), "{outputs:?}");
    assert_eq!((bench.client.stats().acks, bench.client.stats().malformed), (1, 0));
}

/// Watches that come and go between two polls leave nothing to go through at the next one (rule 5).
#[test]
fn watches_that_come_and_go_undrained_do_not_pile_up() {
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

/// A policy comes from a file, and a file may hold anything.
#[test]
fn no_backoff_policy_overflows() {
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

/// A watcher who hears from two servers holds back both, and being done lets both go on (IC34).
#[test]
fn a_watcher_owes_each_server_that_it_heard_from() {
    const ENDPOINT: &str = "xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/r2";
    let authority = Authority::new("x").with_server(ManagementServer::new("other"));
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

/// What one server sends about a name that another one answers for is nobody's business, even if it
/// cannot be used: a heartbeat for nothing, a resource that cannot be read (IC13, IC30).
#[test]
fn a_server_cannot_spoil_what_another_one_answers_for() {
    const ENDPOINT: &str = "xdstp://x/envoy.config.endpoint.v3.ClusterLoadAssignment/r2";
    let wrapped = |resource| proto::Resource {
        name: ENDPOINT.into(),
        version: "1".into(),
        resource,
        ..Default::default()
    };
    let unreadable = proto::Any { type_url: "another.type".into(), ..Default::default() };
    for wrapper in [wrapped(None), wrapped(Some(unreadable))] {
        let authority = Authority::new("x").with_server(ManagementServer::new("other"));
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

/// What a URI says of whoever logs in goes to the adapter alone.
#[test]
fn errors_and_measurements_name_no_user_of_a_server() {
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
        let server = ManagementServer::new(uri);
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
