//! The four types in a client of the core: what is invalid is rejected, what is valid is used.

mod support;

use bytes::Bytes;
use prost::Message;
use support::*;
use xds_core::{
    Client, Frame, Time, TypeUrl,
    client::{ChannelEvent, ClientConfig, Interest, ManagementServer, Node, Notice, Output},
    proto::{Any, DiscoveryRequest, DiscoveryResponse},
    types,
};
use xds_routing::{
    ClusterLoadAssignments, Clusters, Listeners, RouteConfigurations, route::RouteConfiguration,
};

/// One response with a good and a bad resource: the good one is used (B34), the NACK names the field of the
/// bad one, and its watcher hears the same.
#[test]
fn a_nack_names_the_field_and_the_rest_is_used() {
    let now = Time::ZERO;
    let config = ClientConfig::new(Node::new("n"), ManagementServer::new("s"))
        .with_type(Listeners::default())
        .with_type(RouteConfigurations::default())
        .with_type(Clusters::default())
        .with_type(ClusterLoadAssignments::default());
    let mut client = Client::new(config, 1, now);
    let url = TypeUrl::from(types::ROUTE_CONFIGURATION);
    let good = client.watch(&url, Interest::Name("good"), now).unwrap();
    let bad = client.watch(&url, Interest::Name("bad"), now).unwrap();

    let mut frame = Frame::default();
    let mut open = None;
    while let Some(output) = client.poll_output() {
        if let Output::Open(channel, _) = output {
            open = Some(channel);
            client.handle_event(ChannelEvent::Opened(channel), now);
        }
    }
    let channel = open.expect("a server to ask");
    while client.poll_transmit(channel, now, &mut frame).is_some() {}

    let mut resources = [
        routes("good", vec![host(&["*"], vec![route(prefix(""), cluster("c"))])]),
        routes("bad", vec![host(&["*"], vec![route(safe_regex("("), cluster("c"))])]),
    ]
    .map(|it| Any { type_url: url.as_str().into(), value: it.encode_to_vec().into() });
    // What the schema does not know stays in the bytes.
    let unknown = [resources[0].value.as_ref(), &[0xc2, 0x3e, 0x01, b'x']].concat();
    resources[0].value = Bytes::from(unknown.clone());
    let response = DiscoveryResponse {
        version_info: "1".into(),
        type_url: url.as_str().into(),
        nonce: "n1".into(),
        resources: resources.into(),
        ..DiscoveryResponse::default()
    };
    client.handle_event(ChannelEvent::Message(channel, response.encode_to_vec().into()), now);

    let (mut used, mut told) = (None, None);
    while let Some(output) = client.poll_output() {
        match output {
            Output::Notify(watch, Notice::Changed(Ok(resource))) if watch == good => {
                used = Some(resource)
            }
            Output::Notify(watch, Notice::Changed(Err(error))) if watch == bad => {
                told = Some(error.to_string())
            }
            _ => {}
        }
    }
    let used = used.expect("a value");
    assert_eq!(used.bytes, unknown);
    let value = used.value.and_then(|it| it.downcast::<RouteConfiguration>()).expect("our value");
    assert!(value.virtual_host("anything").is_some());
    let field = "virtual_hosts[0].routes[0].match.safe_regex.regex: invalid expression";
    assert!(told.as_ref().is_some_and(|it| it.contains(field)), "{told:?}");

    assert!(client.poll_transmit(channel, now, &mut frame).is_some());
    let answer = DiscoveryRequest::decode(frame.to_bytes()).unwrap();
    let detail = answer.error_detail.expect("a NACK");
    assert!(detail.message.contains(field), "{}", detail.message);
    println!("covers: S2.101 B34");
}
