//! The effect of a configuration on the behaviour of a client.

use std::time::Duration;

use serde_json::{Value, json};
use xds_bootstrap::{
    Bootstrap, FeatureSwitch, FeatureSwitches,
    envoy::{ConfigSource, EnvoyBootstrap},
};
use xds_core::{
    ChannelId, Client, StatusCode, Time, TypeUrl, WatchId,
    client::{
        ChannelEvent, ClientConfig, Interest, Notice, OpaqueType, Output, RequestRate, Streams,
        WatchErrorKind,
    },
    proto,
    service::{ApiVersion, Variant},
    types,
};

use prost::Message as _;

/// A client that watches the cluster `foo` on an open stream.
struct Driven {
    client: Client,
    channel: ChannelId,
    watch: WatchId,
    paths: Vec<Option<&'static str>>,
}

impl Driven {
    fn new(config: ClientConfig) -> Self {
        let config = config.with_type(OpaqueType::new(types::CLUSTER));
        let mut client = Client::new(config.with_type(OpaqueType::new(types::LISTENER)), 1, T0);
        let watch = client.watch(&TypeUrl::from(types::CLUSTER), Interest::Name("foo"), T0);
        let other = client.watch(&TypeUrl::from(types::LISTENER), Interest::Name("bar"), T0);
        other.expect("the type is known");
        let (mut channels, mut paths) = (Vec::new(), Vec::new());
        while let Some(output) = client.poll_output() {
            if let Output::Open(channel, call) = output {
                client.handle_event(ChannelEvent::Opened(channel), T0);
                channels.push(channel);
                paths.push(call.grpc_path());
            }
        }
        let watch = watch.expect("the type is known");
        let mut driven = Self { client, channel: channels[0], watch, paths };
        driven.transmit();
        driven
    }

    fn transmit(&mut self) {
        let mut frame = xds_core::Frame::default();
        while self.client.poll_transmit(self.channel, T0, &mut frame).is_some() {}
    }

    /// Handles a response with clusters and resource errors.
    fn respond(&mut self, nonce: &str, names: &[&str], errors: &[(&str, i32)], at: Duration) {
        let resources = names.iter().map(|name| proto::Any {
            type_url: types::CLUSTER.into(),
            value: [&[0x0a, name.len() as u8], name.as_bytes()].concat().into(),
        });
        let errors = errors.iter().map(|&(name, code)| proto::ResourceError {
            resource_name: Some(proto::ResourceName { name: name.into(), ..Default::default() }),
            error_detail: Some(proto::Status { code, ..Default::default() }),
        });
        let response = proto::DiscoveryResponse {
            version_info: nonce.into(),
            type_url: types::CLUSTER.into(),
            nonce: nonce.into(),
            resources: resources.collect(),
            resource_errors: errors.collect(),
            ..Default::default()
        };
        let frame = response.encode_to_vec().into();
        self.client.handle_event(ChannelEvent::Message(self.channel, frame), T0.after(at));
        self.transmit();
    }

    /// Returns the notifications of the watch of `foo`.
    fn take_notices(&mut self) -> Vec<Notice> {
        let mut told = Vec::new();
        while let Some(output) = self.client.poll_output() {
            if let Output::Notify(watch, notice) = output
                && watch == self.watch
            {
                told.push(notice);
                self.client.handled(watch, T0);
            }
        }
        told
    }

    /// Returns the error of `foo` reported at that time; `None` if there is no such notification.
    fn reason_at(&mut self, after: Duration) -> Option<WatchErrorKind> {
        self.client.handle_timeout(T0.after(after));
        self.take_notices().into_iter().find_map(|notice| match notice {
            Notice::Changed(Err(error)) => Some(error.kind().clone()),
            _ => None,
        })
    }
}

const T0: Time = Time::ZERO;

fn grpc(features: Value, switches: FeatureSwitches) -> ClientConfig {
    let text = json!({ "xds_servers": [{
        "server_uri": "a", "channel_creds": [{ "type": "insecure" }], "server_features": features,
    }] });
    Bootstrap::from_json_with(&text.to_string(), switches).expect("it loads").client_config()
}

fn switched_off() -> FeatureSwitches {
    let mut switches = FeatureSwitches::default();
    switches.data_errors = FeatureSwitch::Off;
    switches
}

#[test]
fn disabled_switch_ignores_resource_timer_is_transient_error() {
    let features = json!(["resource_timer_is_transient_error"]);
    let (fifteen, thirty) = (Duration::from_secs(15), Duration::from_secs(30));

    let mut disabled = Driven::new(grpc(features.clone(), switched_off()));
    assert_eq!(disabled.reason_at(fifteen), Some(WatchErrorKind::DoesNotExist(fifteen)));

    let mut free = Driven::new(grpc(features, FeatureSwitches::default()));
    assert_eq!(free.reason_at(fifteen), None);
    assert_eq!(free.reason_at(thirty), Some(WatchErrorKind::Timeout(thirty)));
    println!("covers: DT-15");
}

#[test]
fn disabled_switch_ignores_fail_on_data_errors() {
    // With the switch off, `ignore_resource_deletion` decides, as before A88.
    let told_of_deletion = |features, switches| {
        let mut driven = Driven::new(grpc(features, switches));
        driven.respond("1", &["foo"], &[], Duration::ZERO);
        driven.respond("2", &[], &[], Duration::ZERO);
        driven.take_notices()
    };
    let both = || json!(["fail_on_data_errors", "ignore_resource_deletion"]);
    let is_dropped = |told: &[Notice]| matches!(told.last(), Some(Notice::Changed(Err(_))));
    assert!(is_dropped(&told_of_deletion(both(), FeatureSwitches::default())));
    assert!(!is_dropped(&told_of_deletion(both(), switched_off())));
    println!("covers: DL-15");
}

#[test]
fn disabled_switch_ignores_resource_errors() {
    let fifteen = Duration::from_secs(15);
    let mut disabled = Driven::new(grpc(json!([]), switched_off()));
    disabled.respond("1", &[], &[("foo", 7)], Duration::from_secs(1));
    assert_eq!(
        disabled.take_notices(),
        [],
        "an empty response says nothing, and the timer goes on"
    );
    assert_eq!(disabled.reason_at(fifteen), Some(WatchErrorKind::DoesNotExist(fifteen)));

    let mut free = Driven::new(grpc(json!([]), FeatureSwitches::default()));
    free.respond("1", &[], &[("foo", 7)], Duration::from_secs(1));
    assert!(matches!(&free.take_notices()[..], [Notice::Changed(Err(error))]
        if matches!(error.kind(), WatchErrorKind::Reported { code: StatusCode::PermissionDenied, .. })));
    println!("covers: DE-16");
}

#[test]
fn grpc_bootstrap_uses_one_aggregated_stream_for_all_types() {
    let config = grpc(json!([]), FeatureSwitches::default());
    assert_eq!(config.servers.len(), 1);
    assert_eq!((&*config.servers[0].uri, config.servers[0].streams), ("a", Streams::Aggregated));
    let driven = Driven::new(config);
    let aggregated = xds_core::service::grpc_path(None, Variant::StateOfTheWorld, ApiVersion::V3);
    assert_eq!(driven.paths, [aggregated], "one stream for clusters and listeners");

    // Other sources that a Listener or a Cluster may have.
    let check = |value: Value| {
        let source = ConfigSource::from_json(&value.to_string()).expect("the source is right");
        source.check_for_grpc().is_ok()
    };
    assert!(check(json!({ "ads": {} })) && check(json!({ "self": {} })));
    assert!(!check(json!({ "path": "/x" })));
    println!("covers: S0.060 S0.061 S0.062");
}

#[test]
fn grpc_api_type_uses_one_stream_per_type() {
    let source = json!({ "api_config_source": {
        "api_type": "GRPC", "grpc_services": [{ "envoy_grpc": { "cluster_name": "xds" } }] } });
    let bootstrap = json!({
        "node": { "id": "n", "cluster": "c" },
        "dynamic_resources": { "lds_config": source, "cds_config": source },
    });
    let bootstrap = EnvoyBootstrap::from_json(&bootstrap.to_string()).expect("it is right");
    let driven = Driven::new(bootstrap.client_config().expect("the core can do that"));
    let path =
        |url| xds_core::service::grpc_path(Some(url), Variant::StateOfTheWorld, ApiVersion::V3);
    assert_eq!(driven.paths, [path(types::CLUSTER), path(types::LISTENER)]);
    println!("covers: S0.053 S0.055");
}

#[test]
fn rate_limit_settings_limit_the_requests_to_the_server() {
    let config = |limits: Value| {
        let source = json!({ "api_config_source": {
            "api_type": "GRPC", "grpc_services": [{ "envoy_grpc": { "cluster_name": "xds" } }],
            "rate_limit_settings": limits } });
        let bootstrap = json!({
            "node": { "id": "n", "cluster": "c" }, "dynamic_resources": { "lds_config": source } });
        let read = EnvoyBootstrap::from_json(&bootstrap.to_string()).expect("it is right");
        read.client_config().map(|config| config.servers[0].request_rate)
    };
    assert_eq!(config(json!({})), Ok(Some(RequestRate::envoy())));
    let stated = RequestRate::new(5, 2.5).expect("it is a rate");
    assert_eq!(config(json!({ "max_tokens": 5, "fill_rate": 2.5 })), Ok(Some(stated)));
    assert_eq!(config(json!(null)), Ok(None));
    assert!(config(json!({ "max_tokens": 0 })).is_err(), "nothing would get through");
    println!("covers: BO-10");
}
