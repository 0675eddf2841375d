//! An Envoy bootstrap from the file to the watchers: node, sources and static resources.

use bytes::Bytes;
use xds_bootstrap::envoy::EnvoyBootstrap;
use xds_core::{
    ChannelId, Client, Frame, Time, TypeUrl,
    client::{ChannelEvent, Interest, Notice, OpaqueType, Output},
    types,
};
use xds_format::{Format, Leniency, Schema, YamlFile, encode_message, message_to_json};

/// The example of the first version of the xDS documentation, with placeholders filled in.
const OLDEST: &str = "\
node:
  id: proxy-1
  cluster: front
dynamic_resources:
  cds_config: {ads: {}}
  lds_config: {ads: {}}
  ads_config:
    api_type: GRPC
    grpc_services:
      envoy_grpc:
        cluster_name: ads_cluster
static_resources:
  clusters:
  - name: ads_cluster
    connect_timeout: { seconds: 5 }
    type: STATIC
    hosts:
    - socket_address:
        address: 127.0.0.1
        port_value: 18000
    lb_policy: ROUND_ROBIN
    http2_protocol_options: {}
    upstream_connection_options:
      # configure a TCP keep-alive to detect and reconnect to the admin
      tcp_keepalive:
        keepalive_time: 10
admin:
  address:
    socket_address: { address: 127.0.0.1, port_value: 0 }
";

/// Creates a client from a YAML bootstrap, with its static resources.
fn client_of(text: &str) -> (Client, EnvoyBootstrap) {
    let file = YamlFile::parse("bootstrap.yaml", text.as_bytes(), Leniency::Envoy);
    let json = file.expect("it is YAML").to_json();
    let bootstrap = EnvoyBootstrap::from_json(&json.to_string()).expect("it is a bootstrap");
    let config = bootstrap.client_config().expect("it has sources");
    let config = [types::LISTENER, types::CLUSTER, types::SECRET]
        .into_iter()
        .fold(config, |config, url| config.with_type(OpaqueType::new(url)));
    let mut client = Client::new(config, 1, Time::ZERO);
    for resource in &bootstrap.static_resources {
        let json = resource.message.value().to_string();
        let bytes = encode_message(
            Schema::envoy(),
            &resource.path,
            resource.type_url.message_name(),
            Format::Json,
            json.as_bytes(),
        );
        let bytes = Bytes::from(bytes.unwrap_or_else(|why| panic!("{why}")));
        let added = client.add_static_resource(&resource.type_url, bytes, Time::ZERO);
        added.expect("it comes first");
    }
    (client, bootstrap)
}

/// Watches a name and returns the resource that is available without a request.
fn watched_static_resource(client: &mut Client, type_url: &str, name: &str) -> Option<Bytes> {
    let watch = client.watch(&TypeUrl::from(type_url), Interest::Name(name), Time::ZERO);
    let watch = watch.expect("a good watch");
    let mut told = None;
    while let Some(output) = client.poll_output() {
        if let Output::Notify(of, Notice::Changed(Ok(resource))) = output {
            assert_eq!(of, watch);
            told = Some(resource.bytes);
        }
    }
    told
}

#[test]
fn v2_example_bootstrap_loads_and_its_cluster_reaches_a_watcher() {
    let (mut client, bootstrap) = client_of(OLDEST);
    assert_eq!(
        bootstrap.warnings.len(),
        2,
        "what version 2 said is told: {:?}",
        bootstrap.warnings
    );
    let ads = bootstrap.upstream_cluster("ads_cluster").expect("it is right").expect("it is there");
    assert_eq!(ads.addresses, ["127.0.0.1:18000"]);
    let idle = ads.tcp_keepalive.and_then(|keepalive| keepalive.time);
    assert_eq!(idle.map(|idle| idle.as_secs()), Some(10));

    let bytes =
        watched_static_resource(&mut client, types::CLUSTER, "ads_cluster").expect("it is had");
    let name = TypeUrl::from(types::CLUSTER);
    let json = message_to_json(
        Schema::envoy(),
        name.message_name(),
        &bytes,
        &xds_format::PrintOptions::default(),
    );
    let json = json.expect("it is a cluster").to_string();
    assert!(
        json.contains("load_assignment") && json.contains("127.0.0.1") && json.contains("5s"),
        "{json}"
    );

    // The aggregated stream is used for all other types.
    let watch = client.watch(&TypeUrl::from(types::LISTENER), Interest::Wildcard, Time::ZERO);
    watch.expect("a good watch");
    let mut opened: Option<(ChannelId, String)> = None;
    while let Some(output) = client.poll_output() {
        if let Output::Open(channel, call) = output {
            opened = Some((channel, call.server.uri.to_string()));
        }
    }
    let (channel, uri) = opened.expect("a server is asked");
    assert_eq!(uri, "ads_cluster");
    client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
    let mut frame = Frame::default();
    assert!(client.poll_transmit(channel, Time::ZERO, &mut frame).is_some());
    println!("covers: S0.174 S0.176 X43 S4.017 S4.018");
}

#[test]
fn static_listener_equals_the_one_from_a_server() {
    let text = OLDEST.replace(
        "static_resources:\n",
        "static_resources:\n  listeners:\n  - name: edge\n    address:\n      socket_address: \
         { address: 127.0.0.1, port_value: 80 }\n  secrets:\n  - name: token\n    generic_secret: \
         { secret: { inline_string: x } }\n",
    );
    let (mut client, bootstrap) = client_of(&text);
    let listener = &bootstrap.static_resources[0];
    let from_file =
        watched_static_resource(&mut client, types::LISTENER, "edge").expect("it is had");
    let mut served = serde_json::json!([{ "@type": types::LISTENER }]);
    for (key, value) in listener.message.value().as_object().expect("a message") {
        served[0][key] = value.clone();
    }
    let served = xds_format::parse(
        Schema::envoy(),
        "served.json",
        Format::Json,
        served.to_string().as_bytes(),
    );
    let served = served.expect("a server takes it as well");
    assert_eq!(served.resources[0].bytes, from_file);
    assert!(watched_static_resource(&mut client, types::SECRET, "token").is_some());
    println!("covers: S4.016 S4.019");
}
