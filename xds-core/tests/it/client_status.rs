//! Client status and metrics beyond the protocol scripts: raw bytes, the node, and limits. The rest
//! is in `tests/scripts/client-status/` of the workspace.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    ChannelId, Client, Frame, StatusCode, Time, TypeUrl,
    client::{
        AuthorityConfig, ChannelError, ChannelEvent, ClientConfig, Contents, Federation,
        FlowControl, Instrument, Interest, MetricsExporter, Notice, Output, ServerAddress,
        ServerFeature, ServerFeatures, WallClock, WatchErrorKind,
    },
    proto::{self, client_config::GenericXdsConfig},
    types::CLUSTER,
};

use crate::client_support::config;

/// A client with an open channel and without read gating.
fn connected(mut config: ClientConfig, interest: Interest<'_>) -> (Client, ChannelId) {
    config.profile.flow_control = FlowControl::Off;
    let mut client = Client::new(config, 7, Time::ZERO);
    client.watch(&TypeUrl::from(CLUSTER), interest, Time::ZERO).expect("a registered type");
    let Some(Output::Open(channel, _)) = client.poll_output() else { panic!("no channel") };
    client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
    let mut frame = Frame::default();
    while client.poll_transmit(channel, Time::ZERO, &mut frame).is_some() {}
    (client, channel)
}

fn response(version: &str, resources: impl IntoIterator<Item = Bytes>) -> Bytes {
    let any = |value| proto::Any { type_url: CLUSTER.into(), value };
    let response = proto::DiscoveryResponse {
        version_info: version.into(),
        nonce: version.into(),
        type_url: CLUSTER.into(),
        resources: resources.into_iter().map(any).collect(),
        ..Default::default()
    };
    response.encode_to_vec().into()
}

fn status(client: &Client) -> Vec<GenericXdsConfig> {
    let told = client.snapshot().into_message("xds:///web", Contents::All, WallClock::default());
    told.generic_xds_configs
}

fn named(name: &str) -> Bytes {
    proto::Locality { region: name.into(), ..Default::default() }.encode_to_vec().into()
}

#[test]
fn status_reports_received_bytes_unchanged() {
    println!("covers: CM-06 B31");
    // An unknown field, the name after it, and a non-minimal varint: decoding and encoding again
    // would change these bytes.
    let odd = Bytes::from_static(b"\x98\x06\x80\x80\x00\x0a\x03web");
    let (mut client, channel) = connected(config(), Interest::Name("web"));
    let frame = response("1", [odd.clone()]);
    client.handle_event(ChannelEvent::Message(channel, frame), Time::from_nanos(1_500_000_000));

    let [told] = &status(&client)[..] else { panic!("one resource is watched") };
    let any = told.xds_config.as_ref().expect("it is in use");
    assert_eq!((any.type_url.as_str(), &any.value), (CLUSTER, &odd));
    let received = proto::Timestamp { seconds: 1, nanos: 500_000_000 };
    assert_eq!(told.last_updated, Some(received));
}

#[test]
fn status_node_equals_node_sent_to_servers() {
    println!("covers: B31");
    let mut client = Client::new(config(), 7, Time::ZERO);
    client.watch(&TypeUrl::from(CLUSTER), Interest::Wildcard, Time::ZERO).expect("a known type");
    let Some(Output::Open(channel, _)) = client.poll_output() else { panic!("no channel") };
    client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
    let mut frame = Frame::default();
    assert!(client.poll_transmit(channel, Time::ZERO, &mut frame).is_some());
    let sent = proto::DiscoveryRequest::decode(frame.to_bytes()).expect("a sound request").node;

    let told = client.snapshot().into_message("xds:///web", Contents::None, WallClock::default());
    assert_eq!((told.node, told.client_scope.as_str()), (sent, "xds:///web"));
    assert_eq!(told.generic_xds_configs, []);
}

#[test]
fn rejected_resource_is_kept_up_to_byte_limit() {
    println!("covers: CM-02 CM-03");
    let mut config = config();
    config.limits.rejected_resource_bytes = 64;
    let (mut client, channel) = connected(config, Interest::Name("web"));
    let rejected = |padding: usize| {
        let region = "web".into();
        let zone = format!("{} text 3", "z".repeat(padding));
        Bytes::from(proto::Locality { region, zone, ..Default::default() }.encode_to_vec())
    };
    let failed = |client: &Client| {
        let [told] = &status(client)[..] else { panic!("one resource is watched") };
        let error = told.error_state.clone().expect("it was rejected");
        (error.version_info, error.failed_configuration.map(|any| any.value))
    };
    for (version, padding) in [("1", 0), ("2", 64), ("3", 1)] {
        let bytes = rejected(padding);
        let frame = response(version, [bytes.clone()]);
        client.handle_event(ChannelEvent::Message(channel, frame), Time::ZERO);
        let kept = (bytes.len() <= 64).then_some(bytes);
        assert_eq!(failed(&client), (version.into(), kept));
    }
}

#[test]
fn server_cannot_create_metric_series() {
    println!("covers: CM-13 B45");
    // A wildcard subscribes to names without an authority. Without federation, no name has one.
    for (federation, held) in [(Federation::On, 1), (Federation::Off, 10_001)] {
        let mut config = config();
        config.profile.federation = federation;
        let (mut client, channel) = connected(config, Interest::Wildcard);
        let names = (0..10_000)
            .map(|n| named(&format!("xdstp://authority-{n}/envoy.config.cluster.v3.Cluster/web")));
        let frame = response("1", names.chain([named("old")]));
        client.handle_event(ChannelEvent::Message(channel, frame), Time::ZERO);

        let mut measured = Authorities::default();
        client.metrics().export("xds:///web", &mut measured);
        assert_eq!(measured.0.len(), 1, "{:?}", measured.0.keys().take(3).collect::<Vec<_>>());
        assert_eq!(measured.0.values().sum::<u64>(), held, "none is left out (IC32)");
    }
}

#[test]
fn errors_map_to_grpc_status_codes() {
    let (mut client, channel) = connected(config(), Interest::Name("web"));
    let zone = String::from("text 3");
    let bad = proto::Locality { region: "web".into(), zone, ..Default::default() };
    let frame = response("1", [bad.encode_to_vec().into()]);
    client.handle_event(ChannelEvent::Message(channel, frame), Time::ZERO);
    let mut told = std::iter::from_fn(|| client.poll_output());
    let code = told.find_map(|output| match output {
        Output::Notify(_, Notice::Changed(Err(error))) => Some(error.kind().code()),
        _ => None,
    });
    assert_eq!(code, Some(StatusCode::InvalidArgument), "to the watcher");
    let mut frame = Frame::default();
    assert!(client.poll_transmit(channel, Time::ZERO, &mut frame).is_some());
    let sent = proto::DiscoveryRequest::decode(frame.to_bytes()).expect("a sound request");
    assert_eq!(sent.error_detail.map(|status| status.code), Some(3), "and to the server");

    let wait = Duration::from_secs(15);
    let orderly = ChannelError::Status { code: StatusCode::Ok, message: "".into() };
    let reported =
        WatchErrorKind::Reported { code: StatusCode::PermissionDenied, message: "".into() };
    for (kind, code) in [
        (WatchErrorKind::DoesNotExist(wait), StatusCode::NotFound),
        (WatchErrorKind::Deleted, StatusCode::NotFound),
        (WatchErrorKind::Absent, StatusCode::NotFound),
        (WatchErrorKind::Expired, StatusCode::NotFound),
        (reported, StatusCode::PermissionDenied),
        (WatchErrorKind::Timeout(wait), StatusCode::Unavailable),
        (
            WatchErrorKind::Unavailable(ChannelError::Unreachable("".into())),
            StatusCode::Unavailable,
        ),
        (WatchErrorKind::Unavailable(orderly), StatusCode::Unavailable),
    ] {
        assert_eq!(kind.code(), code, "{kind}");
    }
    println!("covers: D26 X15");
}

#[test]
fn metric_series_are_unique() {
    println!("covers: CM-10 CM-11 CM-12 B45");
    // The same address for names with and without an authority. Their features differ, so these are
    // two servers, while the metric labels contain only the address.
    let features = ServerFeatures::NONE.with(ServerFeature::FailOnDataErrors);
    let other = ServerAddress::new("server").with_features(features);
    let mut config = config().with_authority(AuthorityConfig::new("a").with_server(other));
    config.profile.flow_control = FlowControl::Off;
    let mut client = Client::new(config, 7, Time::ZERO);
    let names = ["old", "xdstp://a/envoy.config.cluster.v3.Cluster/new"];
    for name in names {
        let watched = client.watch(&TypeUrl::from(CLUSTER), Interest::Name(name), Time::ZERO);
        watched.expect("a registered type");
    }
    let mut channels = Vec::new();
    while let Some(output) = client.poll_output() {
        if let Output::Open(channel, _) = output {
            channels.push(channel);
        }
    }
    let [first, second] = channels[..] else { panic!("two servers are in use") };
    let measure = |client: &Client| {
        let mut series = Series::default();
        client.metrics().export("t", &mut series);
        series.0
    };
    let refused = || ChannelError::Unreachable("refused".into());
    let failed = |channel| ChannelEvent::Closed(channel, refused());
    client.handle_event(failed(first), Time::ZERO);
    client.handle_event(failed(second), Time::ZERO);
    let server = "grpc.target=t grpc.xds.server=server";
    let told = measure(&client);
    assert_eq!(told.get(&format!("grpc.xds_client.connected {server}")), Some(&0));
    assert_eq!(told.get(&format!("grpc.xds_client.server_failure {server}")), Some(&2));

    // Both reconnect. One of them answers, so the address counts as connected.
    let mut opened = Vec::new();
    let later = Time::ZERO.after(Duration::from_secs(5));
    client.handle_timeout(later);
    while let Some(output) = client.poll_output() {
        if let Output::Open(channel, _) = output {
            opened.push(channel);
            client.handle_event(ChannelEvent::Opened(channel), later);
            let mut frame = Frame::default();
            while client.poll_transmit(channel, later, &mut frame).is_some() {}
        }
    }
    for (&channel, answered) in opened.iter().zip(1..) {
        // Each server is authoritative only for its own name.
        let frame = response("1", names.map(named));
        client.handle_event(ChannelEvent::Message(channel, frame), later);
        let told = measure(&client);
        assert_eq!(told.get(&format!("grpc.xds_client.connected {server}")), Some(&1));
        let kind = "grpc.xds.resource_type=envoy.config.cluster.v3.Cluster";
        let valid = format!("grpc.xds_client.resource_updates_valid {server} {kind}");
        assert_eq!(told.get(&valid), Some(&answered));
    }
    assert_eq!(opened.len(), 2);
}

#[test]
fn instruments_use_names_and_units_of_a78() {
    println!("covers: B45");
    let names: Vec<_> = Instrument::ALL.into_iter().map(|it| (it.name(), it.unit())).collect();
    assert_eq!(
        names,
        [
            ("grpc.xds_client.connected", "{bool}"),
            ("grpc.xds_client.server_failure", "{failure}"),
            ("grpc.xds_client.resource_updates_valid", "{resource}"),
            ("grpc.xds_client.resource_updates_invalid", "{resource}"),
            ("grpc.xds_client.resources", "{resource}"),
        ]
    );
    assert!(Instrument::ALL.iter().all(|it| it.description().ends_with('.')));
}

#[test]
fn shut_down_client_reports_no_connected_metric() {
    println!("covers: CM-12");
    let (mut client, channel) = connected(config(), Interest::Wildcard);
    client.handle_event(ChannelEvent::Message(channel, response("1", [])), Time::ZERO);
    let mut before = Connected::default();
    client.metrics().export("t", &mut before);
    client.shut_down(Time::ZERO.after(Duration::from_secs(1)));
    let mut after = Connected::default();
    client.metrics().export("t", &mut after);
    assert_eq!((before.0, after.0), (Some(1), None));
}

/// Number of resources by authority.
#[derive(Default)]
struct Authorities(BTreeMap<String, u64>);

impl MetricsExporter for Authorities {
    fn counter(&mut self, _: Instrument, _: &[(&'static str, &str)], _: u64) {}

    fn gauge(&mut self, instrument: Instrument, labels: &[(&'static str, &str)], value: u64) {
        if instrument == Instrument::Resources {
            let authority = labels.iter().find(|(name, _)| *name == "grpc.xds.authority");
            let authority = authority.expect("the label is there").1;
            *self.0.entry(authority.into()).or_default() += value;
        }
    }
}

/// Every series with its value; a duplicate series fails the test.
#[derive(Default)]
struct Series(BTreeMap<String, u64>);

impl MetricsExporter for Series {
    fn counter(&mut self, instrument: Instrument, labels: &[(&'static str, &str)], total: u64) {
        let labels = labels.iter().map(|(name, value)| format!(" {name}={value}"));
        let series = instrument.name().to_owned() + &labels.collect::<String>();
        assert_eq!(self.0.insert(series.clone(), total), None, "{series} is told twice");
    }

    fn gauge(&mut self, instrument: Instrument, labels: &[(&'static str, &str)], value: u64) {
        self.counter(instrument, labels, value);
    }
}

#[derive(Default)]
struct Connected(Option<u64>);

impl MetricsExporter for Connected {
    fn counter(&mut self, _: Instrument, _: &[(&'static str, &str)], _: u64) {}

    fn gauge(&mut self, instrument: Instrument, _: &[(&'static str, &str)], value: u64) {
        if instrument == Instrument::Connected {
            self.0 = Some(value);
        }
    }
}
