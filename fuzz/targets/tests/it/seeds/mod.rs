//! Seeds: valid inputs of each kind for fuzzers to begin with.

mod references;
mod rest;

use prost::{Message as _, Name as _};
use xds_core::{
    proto::{
        Any, DeltaDiscoveryRequest, DeltaDiscoveryResponse, DiscoveryRequest, DiscoveryResponse,
        Duration, Node, Resource, ResourceError, ResourceName, Status,
    },
    types,
};
use xds_format::{Format, Schema, parse};
use xds_sim::{Config, Tape, Toy, options::Transport, replay};

/// Target, file name and bytes of a seed.
pub(crate) type Seed = (&'static str, &'static str, Vec<u8>);

pub(crate) fn all() -> Vec<Seed> {
    [
        requests(),
        responses(),
        names(),
        files(),
        bootstraps(),
        rest::bodies(),
        references::resources(),
        stacks(),
        worlds(),
    ]
    .concat()
}

fn any(name: &str, text: &str) -> Any {
    Any { type_url: types::CLUSTER.into(), value: Toy::bytes(name, text) }
}

fn wrapped(name: &str, version: &str) -> Resource {
    Resource {
        name: name.into(),
        version: version.into(),
        resource: Some(any(name, "content")),
        aliases: vec!["alias".into()],
        ttl: Some(Duration { seconds: 30, nanos: 5 }),
        ..Resource::default()
    }
}

fn error() -> ResourceError {
    let name = ResourceName { name: "a".into(), ..ResourceName::default() };
    let detail = Status { code: 5, message: "there is none".into(), ..Status::default() };
    ResourceError { resource_name: Some(name), error_detail: Some(detail) }
}

fn requests() -> Vec<Seed> {
    let node = Some(Node { id: "fuzz".into(), cluster: "c".into(), ..Node::default() });
    let first = DiscoveryRequest {
        node: node.clone(),
        type_url: types::CLUSTER.into(),
        resource_names: vec!["a".into(), "missing".into()],
        ..DiscoveryRequest::default()
    };
    let nack = DiscoveryRequest {
        version_info: "1".into(),
        response_nonce: "1".into(),
        error_detail: Some(Status { code: 3, message: "bad".into(), ..Status::default() }),
        ..first.clone()
    };
    let delta = DeltaDiscoveryRequest {
        node,
        type_url: types::CLUSTER.into(),
        resource_names_subscribe: vec!["a".into(), "*".into()],
        resource_names_unsubscribe: vec!["b".into()],
        initial_resource_versions: [("a".into(), "1".into())].into(),
        ..DeltaDiscoveryRequest::default()
    };
    vec![
        ("discovery_request", "seed-first", first.encode_to_vec()),
        ("discovery_request", "seed-nack", nack.encode_to_vec()),
        ("delta_request", "seed-first", delta.encode_to_vec()),
        ("frames", "seed-request", nack.encode_to_vec()),
        ("frames", "seed-delta-request", delta.encode_to_vec()),
    ]
}

fn responses() -> Vec<Seed> {
    let wrapper =
        Any { type_url: Resource::type_url(), value: wrapped("b", "2").encode_to_vec().into() };
    let plain = DiscoveryResponse {
        version_info: "1".into(),
        type_url: types::CLUSTER.into(),
        nonce: "n".into(),
        resources: vec![any("a", "content"), any("b", "bad")],
        ..DiscoveryResponse::default()
    };
    let rich = DiscoveryResponse {
        resources: vec![wrapper],
        resource_errors: vec![error()],
        ..plain.clone()
    };
    let delta = DeltaDiscoveryResponse {
        system_version_info: "1".into(),
        type_url: types::CLUSTER.into(),
        nonce: "n".into(),
        resources: vec![wrapped("a", "1")],
        removed_resources: vec!["b".into()],
        resource_errors: vec![error()],
        ..DeltaDiscoveryResponse::default()
    };
    vec![
        ("discovery_response", "seed-plain", plain.encode_to_vec()),
        ("discovery_response", "seed-wrapped", rich.encode_to_vec()),
        ("delta_response", "seed-all", delta.encode_to_vec()),
        ("frames", "seed-response", rich.encode_to_vec()),
        ("frames", "seed-delta-response", delta.encode_to_vec()),
    ]
}

fn names() -> Vec<Seed> {
    let texts = [
        ("seed-legacy", "outbound|80||reviews.default.svc.cluster.local"),
        ("seed-glob", "xdstp://authority/a.B/dir/*?k=v\nxdstp://authority/a.B/dir/member?k=v"),
        ("seed-context", "xdstp://%41/envoy.config.cluster.v3.Cluster/a%2Fb?z=1&a=%20#entry=x"),
        ("seed-template", "xdstp://t/envoy.config.listener.v3.Listener/%s\n[::1]:80"),
    ];
    texts.map(|(name, text)| ("names", name, text.into())).into()
}

fn files() -> Vec<Seed> {
    let json = r#"{"resources": [{"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster",
  "name": "a", "type": "EDS", "connect_timeout": "0.25s",
  "metadata": {"filter_metadata": {"k": {"n": 1.5, "t": "\u00e9", "l": [null, true]}}}}]}"#;
    let yaml = "\"@type\": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
cluster_name: &a a
endpoints:
- lb_endpoints:
  - endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: 80}}}
---
\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: |
  b
";
    let text = r#"resources {
  [type.googleapis.com/envoy.config.cluster.v3.Cluster] {
    name: "a" 'b'  # two parts
    type: EDS
    connect_timeout { nanos: 0x10 }
    lb_subset_config < locality_weight_aware: true >
  }
}
"#;
    let schema = Schema::envoy();
    let document = parse(schema, "seed", Format::Json, json.as_bytes()).expect("a good file");
    vec![
        ("binary", "seed-cluster", document.to_discovery_response()),
        ("json", "seed-cluster", json.into()),
        ("yaml", "seed-endpoints", yaml.into()),
        ("text", "seed-cluster", text.into()),
    ]
}

fn bootstraps() -> Vec<Seed> {
    let grpc = r#"{"xds_servers": [{"server_uri": "localhost:1", "channel_creds": [{"type": "insecure"}],
  "server_features": ["xds_v3", "fail_on_data_errors"]}],
 "node": {"id": "n", "cluster": "c", "metadata": {"k": 1}, "locality": {"zone": "z"}},
 "authorities": {"a": {"client_listener_resource_name_template": "xdstp://a/envoy.config.listener.v3.Listener/%s"}},
 "server_listener_resource_name_template": "listener/%s"}"#;
    let envoy = r#"{"node": {"id": "n", "cluster": "c"},
 "dynamic_resources": {"ads_config": {"api_type": "GRPC", "transport_api_version": "V3",
   "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}]},
  "cds_config": {"ads": {}, "resource_api_version": "V3"}}}"#;
    let source = r#"{"path_config_source": {"path": "/etc/xds/cds.yaml", "watched_directory": {"path": "/etc/xds"}},
 "initial_fetch_timeout": "5s", "resource_api_version": "V3"}"#;
    vec![
        ("bootstrap", "seed-grpc", grpc.into()),
        ("bootstrap", "seed-envoy", envoy.into()),
        ("bootstrap", "seed-source", source.into()),
    ]
}

/// Returns random choices, of which the first determine the options.
fn choices(mut state: u64) -> Vec<u8> {
    let next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(400).collect()
}

fn stacks() -> Vec<Seed> {
    vec![
        ("stack", "seed-calm", vec![0; 8]),
        ("stack", "seed-one", choices(1)),
        ("stack", "seed-two", choices(2)),
        ("stack", "seed-three", choices(3)),
    ]
}

/// Two of the seeds are runs without streams.
fn worlds() -> Vec<Seed> {
    let without_lies = |state| {
        let mut bytes: Vec<u8> = choices(state);
        bytes[..2].fill(0);
        bytes
    };
    vec![
        ("world", "seed-polls", over(Transport::Polls, without_lies(4))),
        ("world", "seed-files", over(Transport::Files, without_lies(5))),
        ("world", "seed-calm", vec![0; 8]),
        ("world", "seed-one", choices(1)),
        ("world", "seed-two", choices(2)),
        ("world", "seed-three", choices(3)),
    ]
}

/// Returns the choices with the first value of the choice of the transport that results
/// in this transport.
fn over(transport: Transport, mut bytes: Vec<u8>) -> Vec<u8> {
    let run = |bytes: &[u8]| replay(&Tape::from_bytes(bytes), &Config::default());
    let asked = run(&bytes).choices;
    let at = asked.iter().position(|choice| choice.label == "transport");
    let start = BYTES_OF_A_CHOICE * at.expect("every run has a transport");
    for answer in 0..=u8::MAX {
        bytes[start..start + BYTES_OF_A_CHOICE].copy_from_slice(&[answer, 0]);
        if run(&bytes).options.transport == transport {
            return bytes;
        }
    }
    panic!("no answer leads to {transport:?}");
}

/// Number of bytes that [`Tape::from_bytes`] reads for each choice.
const BYTES_OF_A_CHOICE: usize = 2;
