//! The effect of a configuration on the requests of a client.

use prost::Message as _;
use serde_json::json;
use xds_bootstrap::{ChannelCredentials, TlsFiles};
use xds_core::{
    Client, Frame, Time, TypeUrl,
    client::{ChannelEvent, ClientConfig, Interest, OpaqueType, Output},
    proto::{DiscoveryRequest, value::Kind},
    types,
};

use crate::bootstrap::{load, with_top};

/// Returns the first request of a client that watches one cluster.
fn first_request(config: ClientConfig) -> DiscoveryRequest {
    let now = Time::ZERO;
    let mut client = Client::new(config.with_type(OpaqueType::new(types::CLUSTER)), 1, now);
    let clusters = TypeUrl::from(types::CLUSTER);
    client.watch(&clusters, Interest::Name("foo"), now).expect("the type is known");
    let mut frame = Frame::default();
    while let Some(output) = client.poll_output() {
        match output {
            Output::Open(channel, _) => client.handle_event(ChannelEvent::Opened(channel), now),
            Output::Writable(channel)
                if client.poll_transmit(channel, now, &mut frame).is_some() =>
            {
                return DiscoveryRequest::decode(frame.to_bytes()).expect("it is a request");
            }
            _ => {}
        }
    }
    panic!("the client says nothing")
}

#[test]
fn client_node_comes_from_the_bootstrap_and_user_agent_from_the_library() {
    println!("covers: SB-04");
    let with_node = load(&with_top(
        "node",
        json!({
            "id": "n", "cluster": "c", "locality": { "zone": "z" }, "metadata": { "k": "v" },
            "user_agent_name": "mine", "userAgentVersion": "9", "client_features": ["mine"],
        }),
    ));
    let without = load(&json!({ "xds_servers": [crate::bootstrap::server("a")] }));
    for (bootstrap, id) in [(&with_node, "n"), (&without, "")] {
        let node = first_request(bootstrap.client_config()).node.expect("the first names the node");
        assert_eq!(node.id, id);
        assert!(!node.user_agent_name.is_empty() && node.user_agent_name != "mine");
        let feature = "envoy.lb.does_not_support_overprovisioning";
        assert!(node.client_features.iter().any(|stated| stated == feature));
        assert!(!node.client_features.iter().any(|stated| stated == "mine"));
    }
    let node = first_request(with_node.client_config()).node.expect("the first names the node");
    assert_eq!(
        (node.cluster.as_str(), node.locality.expect("it is given").zone.as_str()),
        ("c", "z")
    );
    let metadata = node.metadata.expect("it is given").fields;
    assert_eq!(metadata["k"].kind, Some(Kind::StringValue("v".into())));
}

#[test]
fn same_uri_with_other_credentials_is_another_server() {
    println!("covers: FE-16 BS-25");
    let token = json!([{ "type": "jwt_token_file", "config": { "jwt_token_file": "/t" } }]);
    let tls = |config: serde_json::Value| json!({ "server_uri": "a", "channel_creds": [{ "type": "tls", "config": config }] });
    let mut with_token = tls(json!({}));
    with_token["call_creds"] = token;
    let same =
        json!({ "server_uri": "a", "channel_creds": [{ "type": "new" }, { "type": "tls" }] });
    let entries = [
        ("one", tls(json!({}))),
        ("two", same),
        ("three", tls(json!({ "ca_certificate_file": "/ca" }))),
        ("four", with_token),
        ("five", crate::bootstrap::server("a")),
    ];
    let authorities = entries
        .iter()
        .map(|(name, entry)| ((*name).into(), json!({ "xds_servers": [entry] })))
        .collect::<serde_json::Map<_, _>>();
    let bootstrap = load(&with_top("authorities", authorities.into()));
    let config = bootstrap.client_config().with_type(OpaqueType::new(types::CLUSTER));
    let now = Time::ZERO;
    let mut client = Client::new(config, 1, now);
    let clusters = TypeUrl::from(types::CLUSTER);
    for (authority, _) in &entries {
        let name = format!("xdstp://{authority}/envoy.config.cluster.v3.Cluster/c");
        client.watch(&clusters, Interest::Name(&name), now).expect("the authority is known");
    }
    let mut credentials = Vec::new();
    while let Some(output) = client.poll_output() {
        if let Output::Open(_, call) = output {
            let entry = bootstrap.entry_of(&call.server).expect("the server is of the bootstrap");
            assert_eq!(entry.transport_id(), call.server.transport);
            credentials.push((entry.channel_credentials.clone(), entry.call_credentials.len()));
        }
    }
    // The second server equals the first, and the last is the bootstrap's top-level server.
    let (tls, with_ca) = (TlsFiles::default(), TlsFiles::default().with_ca_certificate("/ca"));
    let expected = [
        (ChannelCredentials::Tls(tls.clone()), 0),
        (ChannelCredentials::Tls(with_ca), 0),
        (ChannelCredentials::Tls(tls), 1),
        (ChannelCredentials::Insecure, 0),
    ];
    assert_eq!(credentials, expected);
}
