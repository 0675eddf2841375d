//! Tests of the client that scripts cannot express: calls between two outputs, repeated calls, and
//! request fields that scripts do not print.

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    ChannelId, Client, Frame, Time, TypeUrl, WatchId,
    client::{
        ChannelEvent, ClientConfig, Interest, Node, Notice, Output, ServerAddress, WatchError,
    },
    proto, types,
};
use xds_sim::{Toy, ToyType};

const NOW: Time = Time::ZERO;

/// Client with the requests that it has sent.
struct Bench {
    client: Client,
    channel: Option<ChannelId>,
    requests: Vec<proto::DiscoveryRequest>,
}

impl Bench {
    fn new() -> Self {
        Self::with_node(Node::new("test"))
    }

    fn with_node(node: Node) -> Self {
        let config = ClientConfig::new(node, ServerAddress::new("sim"))
            .with_type(ToyType::new(types::LISTENER))
            .with_type(ToyType::new(types::CLUSTER));
        Self { client: Client::new(config, 1, NOW), channel: None, requests: Vec::new() }
    }

    fn watch(&mut self, type_url: &str, name: &str) -> WatchId {
        let watch = self.client.watch(&TypeUrl::from(type_url), Interest::Name(name), NOW);
        watch.expect("the type is registered")
    }

    /// Processes outputs until a watch is notified, and opens channels as requested.
    fn next_notice(&mut self) -> Option<(WatchId, Notice)> {
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Open(channel, _) => {
                    self.channel = Some(channel);
                    self.client.handle_event(ChannelEvent::Opened(channel), NOW);
                }
                Output::Writable(channel) => self.transmit(channel),
                Output::Notify(watch, notice) => return Some((watch, notice)),
                _ => {}
            }
        }
        None
    }

    fn transmit(&mut self, channel: ChannelId) {
        let mut frame = Frame::default();
        while self.client.poll_transmit(channel, NOW, &mut frame).is_some() {
            let request = proto::DiscoveryRequest::decode(frame.to_bytes());
            self.requests.push(request.expect("a request decodes"));
        }
    }

    /// Processes all outputs. Watchers handle each notice at once.
    fn settle(&mut self) {
        while let Some((watch, _)) = self.next_notice() {
            self.client.handled(watch, NOW);
        }
    }

    fn respond(&mut self, type_url: &str, version: &str, resources: &[(&str, &str)]) {
        let any = |&(name, text): &(&str, &str)| proto::Any {
            type_url: type_url.into(),
            value: Toy::bytes(name, text),
        };
        let response = proto::DiscoveryResponse {
            version_info: version.into(),
            nonce: version.into(),
            type_url: type_url.into(),
            resources: resources.iter().map(any).collect(),
            ..proto::DiscoveryResponse::default()
        };
        let frame = Bytes::from(response.encode_to_vec());
        let channel = self.channel.expect("the channel is open");
        assert!(self.client.wants_read(channel), "the client reads");
        self.client.handle_event(ChannelEvent::Message(channel, frame), NOW);
    }
}

#[test]
fn node_carries_the_application_and_the_library() {
    let node = Node::new("n")
        .with_cluster("c")
        .with_locality(proto::Locality { region: "r".into(), ..proto::Locality::default() });
    let mut bench = Bench::with_node(node);
    bench.watch(types::LISTENER, "a");
    bench.watch(types::CLUSTER, "b");
    bench.settle();

    let [first, second] = &bench.requests[..] else { panic!("{:?}", bench.requests) };
    let node = first.node.as_ref().expect("the first message carries the node");
    assert_eq!((node.id.as_str(), node.cluster.as_str()), ("n", "c"));
    assert_eq!(node.locality.as_ref().map(|locality| locality.region.as_str()), Some("r"));
    assert_eq!(node.user_agent_name, "xds-core");
    assert!(node.user_agent_version_type.is_some());
    // Applications cannot set these.
    let features = &node.client_features;
    for feature in ["envoy.lb.does_not_support_overprovisioning", "xds.config.resource-in-sotw"] {
        assert!(features.iter().any(|stated| stated == feature), "{feature} is not stated");
    }
    assert!(second.node.is_none());
    println!("covers: SB-01 SB-03 SB-04 S0.065 IC5");
}

#[test]
fn application_may_state_its_own_user_agent() {
    let own = Node::new("n").with_user_agent("mesh-agent", "1.2");
    let copied = Node::from(own.message().clone());
    for node in [own, copied] {
        let mut bench = Bench::with_node(node);
        bench.watch(types::LISTENER, "a");
        bench.settle();
        let node = bench.requests[0].node.as_ref().expect("the first message carries the node");
        assert_eq!(node.user_agent_name, "mesh-agent");
        let version = proto::node::UserAgentVersionType::UserAgentVersion("1.2".into());
        assert_eq!(node.user_agent_version_type, Some(version));
    }
    println!("covers: SB-04");
}

#[test]
fn second_unwatch_has_no_effect() {
    let mut bench = Bench::new();
    let a = bench.watch(types::LISTENER, "a");
    bench.watch(types::LISTENER, "b");
    bench.settle();
    bench.client.unwatch(a, NOW);
    bench.settle();
    let sent = bench.requests.len();

    bench.client.unwatch(a, NOW);
    bench.client.handled(a, NOW);
    bench.settle();

    assert_eq!(bench.requests.len(), sent);
    assert_eq!(bench.client.watch_count(), 1);
    // A third watch is not confused with the first.
    let c = bench.watch(types::LISTENER, "a");
    assert_ne!(a, c);
    bench.client.unwatch(a, NOW);
    assert_eq!(bench.client.watch_count(), 2);
    println!("covers: UN-12");
}

#[test]
fn watch_ended_during_another_notice_is_not_notified() {
    let mut bench = Bench::new();
    let pair = [bench.watch(types::LISTENER, "a"), bench.watch(types::LISTENER, "a")];
    let other = bench.watch(types::LISTENER, "b");
    bench.settle();
    bench.respond(types::LISTENER, "1", &[("a", "1"), ("b", "1")]);

    // The watch that is notified first ends the two others, one of the same resource and one of the
    // same type.
    let (told, notice) = bench.next_notice().expect("there is news");
    assert!(matches!(notice, Notice::Changed(Ok(_))));
    for watch in [pair[0], pair[1], other] {
        if watch != told {
            bench.client.unwatch(watch, NOW);
        }
    }
    bench.client.handled(told, NOW);

    assert!(bench.next_notice().is_none());
    assert!(bench.client.wants_read(bench.channel.expect("open")), "nobody owes anything");
    println!("covers: MW-04 IC39");
}

#[test]
fn watcher_may_begin_many_watches_while_being_notified() {
    let mut bench = Bench::new();
    let listener = bench.watch(types::LISTENER, "a");
    bench.settle();
    bench.requests.clear();
    bench.respond(types::LISTENER, "1", &[("a", "1")]);
    let (told, _) = bench.next_notice().expect("there is news");
    assert_eq!(told, listener);

    // While the watch is being notified, and more than any queue of commands would hold.
    for n in 0..1000 {
        bench.watch(types::CLUSTER, &format!("c{n}"));
    }
    assert!(bench.next_notice().is_none());
    let [ack, clusters] = &bench.requests[..] else { panic!("{:?}", bench.requests.len()) };
    assert_eq!((&*ack.type_url, &*ack.version_info), (types::LISTENER, "1"));
    assert_eq!((&*clusters.type_url, clusters.resource_names.len()), (types::CLUSTER, 1000));

    bench.client.handled(listener, NOW);
    bench.respond(types::CLUSTER, "1", &[("c7", "1")]);
    let notice = bench.next_notice().map(|(_, notice)| notice);
    assert!(matches!(notice, Some(Notice::Changed(Ok(resource))) if resource.name == "c7"));
    println!("covers: FC-06 FC-10 IC34 IC35");
}

#[test]
fn watch_error_names_resource_reason_node_and_server() {
    let mut bench = Bench::new();
    let watch = bench.watch(types::LISTENER, "a");
    bench.settle();
    bench.respond(types::LISTENER, "1", &[("a", "bad")]);

    let Some((told, Notice::Changed(Err(error)))) = bench.next_notice() else {
        panic!("the watcher is told why there is no value")
    };
    assert_eq!(told, watch);
    let error: WatchError = error;
    let text = error.to_string();
    for part in ["lds a", "bad is not allowed", "node test", "server sim"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    println!("covers: FM-11 S3.017 S1.004");
}
