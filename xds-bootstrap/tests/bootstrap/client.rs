//! What a configuration says, as a management server hears it.

use prost::Message as _;
use serde_json::json;
use xds_core::{
    Client, Frame, Time, TypeUrl,
    client::{ChannelEvent, ClientConfig, Interest, OpaqueType, Output},
    proto::{DiscoveryRequest, value::Kind},
    types,
};

use crate::{load, with_top};

/// The first request of a client that watches one cluster.
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
fn the_node_is_the_bootstraps_and_the_user_agent_the_librarys() {
    println!("covers: SB-04");
    let with_node = load(&with_top(
        "node",
        json!({
            "id": "n", "cluster": "c", "locality": { "zone": "z" }, "metadata": { "k": "v" },
            "user_agent_name": "mine", "userAgentVersion": "9", "client_features": ["mine"],
        }),
    ));
    let without = load(&json!({ "xds_servers": [crate::server("a")] }));
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
