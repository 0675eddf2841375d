//! Static resources of an Envoy bootstrap, and addresses of management servers in static clusters.

use std::time::Duration;

use serde_json::{Value, json};
use xds_bootstrap::envoy::{EnvoyBootstrap, TransportSocket};
use xds_core::types::{CLUSTER, LISTENER, SECRET};

fn read(static_resources: &Value) -> Result<EnvoyBootstrap, String> {
    let bootstrap = json!({ "static_resources": static_resources });
    EnvoyBootstrap::from_json(&bootstrap.to_string()).map_err(|why| why.to_string())
}

fn socket(host: &str, port: u32) -> Value {
    json!({ "socket_address": { "address": host, "port_value": port } })
}

/// Returns a cluster with the given endpoints.
fn cluster(name: &str, addresses: &[Value]) -> Value {
    let endpoints: Vec<_> =
        addresses.iter().map(|address| json!({ "endpoint": { "address": address } })).collect();
    json!({
        "name": name,
        "load_assignment": { "cluster_name": name, "endpoints": [{ "lb_endpoints": endpoints }] },
    })
}

#[test]
fn static_resources_have_their_type_and_path() {
    let listener = json!({ "name": "l" });
    let bootstrap = read(&json!({
        "clusters": [cluster("a", &[]), cluster("b", &[])],
        "secrets": [{ "name": "s" }],
        "listeners": [listener],
    }));
    let bootstrap = bootstrap.expect("it is right");
    let found: Vec<_> = bootstrap
        .static_resources
        .iter()
        .map(|it| (it.type_url.as_str(), &*it.path, it.message.value()["name"].as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (LISTENER, "static_resources.listeners[0]", Some("l")),
            (CLUSTER, "static_resources.clusters[0]", Some("a")),
            (CLUSTER, "static_resources.clusters[1]", Some("b")),
            (SECRET, "static_resources.secrets[0]", Some("s")),
        ]
    );
    assert_eq!(bootstrap.static_resources[0].message.value(), &listener, "as it is");
    assert_eq!(bootstrap.warnings, []);
    assert_eq!(
        read(&json!({ "routes": [] })).unwrap_err(),
        "static_resources.routes: unknown field"
    );
    assert!(
        read(&json!({ "clusters": [5] })).unwrap_err().starts_with("static_resources.clusters[0]")
    );
    println!("covers: S4.017 S4.018");
}

#[test]
fn v2_cluster_fields_are_converted_to_v3() {
    let older = json!({ "clusters": [{
        "name": "ads",
        "connect_timeout": { "seconds": 5 },
        "hosts": socket("10.0.0.1", 18000),
        "http2_protocol_options": { "max_concurrent_streams": 7 },
    }] });
    let bootstrap = read(&older).expect("it is right");
    let endpoints = [json!({ "endpoint": { "address": socket("10.0.0.1", 18000) } })];
    let options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    assert_eq!(
        bootstrap.static_resources[0].message.value(),
        &json!({
            "name": "ads",
            "connect_timeout": { "seconds": 5 },
            "load_assignment":
                { "cluster_name": "ads", "endpoints": [{ "lb_endpoints": endpoints }] },
            "typed_extension_protocol_options": { options: {
                "@type": format!("type.googleapis.com/{options}"),
                "explicit_http_config":
                    { "http2_protocol_options": { "max_concurrent_streams": 7 } },
            }},
        })
    );
    let warnings: Vec<_> = bootstrap.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "static_resources.clusters[0].hosts: field of version 2 of the API, read as `load_assignment`",
            "static_resources.clusters[0].http2_protocol_options: field of version 2 of the \
             API, read as `typed_extension_protocol_options`",
        ]
    );
    let both = json!({ "clusters": [{ "hosts": [], "load_assignment": {} }] });
    assert!(read(&both).unwrap_err().contains("must not be set together with `load_assignment`"));
    let older = json!({ "clusters": [{ "tlsContext": {} }] });
    let why = read(&older).unwrap_err();
    assert!(why.starts_with("static_resources.clusters[0].tlsContext: replaced by"), "{why}");
    println!("covers: X43");
}

#[test]
fn static_cluster_yields_server_addresses_and_tcp_keepalive() {
    let mut own = cluster(
        "xds",
        &[socket("127.0.0.1", 1), socket("::1", 2), json!({ "pipe": { "path": "/run/xds" } })],
    );
    own["connect_timeout"] = json!("0.25s");
    own["upstream_connection_options"] = json!({ "tcp_keepalive":
        { "keepalive_probes": 3, "keepaliveTime": 60, "keepalive_interval": { "value": 5 } } });
    // A wrapper is usually written as its value. Envoy also accepts the message form.
    let read_own = |own: &Value| {
        let bootstrap = read(&json!({ "clusters": [own] })).expect("right");
        format!("{:?}", bootstrap.upstream_cluster("xds").expect("it is right"))
    };
    let spelt_out = read_own(&own);
    own["upstream_connection_options"]["tcp_keepalive"]["keepalive_interval"] = json!(5);
    assert_eq!(spelt_out, read_own(&own));
    own["transport_socket"] = json!({ "name": "tls" });
    let bootstrap = read(&json!({ "clusters": [cluster("other", &[]), own] })).expect("right");
    let found = bootstrap.upstream_cluster("xds").expect("it is right").expect("it is there");
    assert_eq!(found.addresses, ["127.0.0.1:1", "[::1]:2", "unix:/run/xds"]);
    assert_eq!(found.connect_timeout, Duration::from_millis(250));
    assert_eq!(found.transport_socket, TransportSocket::Configured);
    let keepalive = found.tcp_keepalive.expect("it is stated");
    assert_eq!(keepalive.probes, Some(3));
    assert_eq!(keepalive.time, Some(Duration::from_secs(60)));
    assert_eq!(keepalive.interval, Some(Duration::from_secs(5)));

    let other = bootstrap.upstream_cluster("other").expect("it is right").expect("it is there");
    assert_eq!((other.addresses.len(), other.connect_timeout.as_secs()), (0, 5));
    assert_eq!((other.tcp_keepalive, other.transport_socket), (None, TransportSocket::None));
    assert_eq!(bootstrap.upstream_cluster("none"), Ok(None));

    let odd = read(&json!({ "clusters": [cluster("a", &[socket("h", 70_000)])] })).expect("right");
    let why = odd.upstream_cluster("a").unwrap_err().to_string();
    assert!(why.ends_with("port_value: must be a port from 0 to 65535"), "{why}");
    println!("covers: S0.175 S4.018");
}
