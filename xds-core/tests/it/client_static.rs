//! Static resources from the client's configuration: watchers receive them like those of servers,
//! and no server can change them.

use bytes::Bytes;
use prost::Message as _;
use xds_core::{
    ChannelId, Client, Frame, ResourceName, StatusCode, Time, TypeUrl, WatchId,
    client::{
        Change, ChannelError, ChannelEvent, Interest, InvalidStaticResource, Notice, Output,
        ResourceState,
    },
    proto,
    service::Variant,
    types,
};

use crate::client_support::{VARIANTS, config_in, resource, response_in};

fn clusters() -> TypeUrl {
    TypeUrl::from(types::CLUSTER)
}

/// A client and the outputs its driver has received.
struct Rig {
    client: Client,
    variant: Variant,
    channel: Option<ChannelId>,
    notices: Vec<(WatchId, Notice)>,
    /// Changes of the wildcard watch by name.
    told: Vec<(ResourceName, Option<Bytes>)>,
    requests: Vec<(bool, Bytes)>,
}

impl Rig {
    fn new(variant: Variant) -> Self {
        let client = Client::new(config_in(variant), 1, Time::ZERO);
        let (notices, told, requests) = (Vec::new(), Vec::new(), Vec::new());
        Self { client, variant, channel: None, notices, told, requests }
    }

    fn add(&mut self, name: u8, text: u8) -> Result<ResourceName, InvalidStaticResource> {
        self.client.add_static_resource(&clusters(), resource(name, text), Time::ZERO)
    }

    fn watch(&mut self, interest: Interest<'_>) -> WatchId {
        let watch = self.client.watch(&clusters(), interest, Time::ZERO).expect("a good watch");
        self.drain();
        watch
    }

    fn respond(&mut self, nonce: u8, resources: &[(u8, u8)]) {
        let frame = response_in(self.variant, 0, nonce, resources);
        let channel = self.channel.expect("a stream");
        self.client.handle_event(ChannelEvent::Message(channel, frame), Time::ZERO);
        self.drain();
    }

    fn drain(&mut self) {
        let mut frame = Frame::default();
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Open(channel, _) => {
                    self.channel = Some(channel);
                    self.client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
                }
                Output::Writable(channel) => {
                    while let Some(sent) =
                        self.client.poll_transmit(channel, Time::ZERO, &mut frame)
                    {
                        let is_nack =
                            matches!(sent.cause, xds_core::client::RequestCause::Nack { .. });
                        self.requests.push((is_nack, frame.to_bytes()));
                    }
                }
                Output::Notify(watch, notice) => {
                    while let Some(change) = self.client.next_change(watch) {
                        if let Change::Resource { name, result } = change {
                            let bytes = result.ok().map(|resource| resource.bytes);
                            self.told.push((name, bytes));
                        }
                    }
                    self.notices.push((watch, notice));
                    self.client.handled(watch, Time::ZERO);
                }
                _ => {}
            }
        }
    }

    fn last_of(&self, watch: WatchId) -> Option<&Notice> {
        self.notices.iter().rfind(|(of, _)| *of == watch).map(|(_, notice)| notice)
    }

    fn uses(&self, watch: WatchId, text: u8) -> bool {
        let Some(Notice::Changed(Ok(used))) = self.last_of(watch) else { return false };
        used.bytes == resource(1, text)
    }
}

#[test]
fn static_resource_is_delivered_without_contacting_server() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        assert_eq!(rig.add(1, 1), Ok(ResourceName::from("r1")));
        let watch = rig.watch(Interest::Name("r1"));
        assert!(rig.uses(watch, 1));
        assert_eq!(rig.channel, None, "nothing is wanted of a server");

        // The resource outlives its watches.
        rig.client.unwatch(watch, Time::ZERO);
        rig.drain();
        let again = rig.watch(Interest::Name("r1"));
        assert!(rig.uses(again, 1));
        let status = rig.client.status().find(|it| it.name.as_str() == "r1").expect("it is listed");
        assert_eq!((status.state, status.version.as_str()), (ResourceState::Acked, ""));
    }
    println!("covers: S4.016 S4.018");
}

#[test]
fn server_cannot_change_or_delete_static_resource() {
    for variant in VARIANTS {
        let mut rig = Rig::new(variant);
        rig.add(1, 1).expect("a good resource");
        let named = rig.watch(Interest::Name("r1"));
        let all = rig.watch(Interest::Wildcard);
        assert_eq!(rig.told, [("r1".into(), Some(resource(1, 1)))], "before any server answers");
        assert!(matches!(rig.last_of(all), Some(Notice::ChangesAvailable)));

        // The server sends the same name with another value, and another resource.
        rig.told.clear();
        rig.respond(1, &[(1, 2), (2, 2)]);
        assert_eq!(rig.told, [("r2".into(), Some(resource(2, 2)))]);
        assert!(rig.uses(named, 1));
        assert_eq!(rig.requests.last().map(|(is_nack, _)| *is_nack), Some(false), "it is accepted");

        // The name is missing from a complete response, or removed by name.
        rig.told.clear();
        match variant {
            Variant::StateOfTheWorld => rig.respond(2, &[]),
            Variant::Incremental => {
                let removed = proto::DeltaDiscoveryResponse {
                    type_url: types::CLUSTER.into(),
                    nonce: "2".into(),
                    removed_resources: vec!["r1".into(), "r2".into()],
                    ..Default::default()
                };
                let channel = rig.channel.expect("a stream");
                let frame = Bytes::from(removed.encode_to_vec());
                rig.client.handle_event(ChannelEvent::Message(channel, frame), Time::ZERO);
                rig.drain();
            }
        }
        assert!(rig.told.iter().all(|(name, _)| *name == "r2"), "{:?}", rig.told);
        assert!(rig.uses(named, 1));

        // The stream fails: watchers of a static resource are not notified.
        let before = rig.notices.len();
        let gone = ChannelError::Status { code: StatusCode::Unavailable, message: "".into() };
        let channel = rig.channel.take().expect("a stream");
        rig.client.handle_event(ChannelEvent::Closed(channel, gone), Time::ZERO);
        rig.drain();
        assert!(rig.notices[before..].iter().all(|(watch, _)| *watch != named));

        // No request contains the name.
        for (_, request) in &rig.requests {
            let names = match variant {
                Variant::StateOfTheWorld => {
                    proto::DiscoveryRequest::decode(request.clone()).expect("one").resource_names
                }
                Variant::Incremental => {
                    let request = proto::DeltaDiscoveryRequest::decode(request.clone());
                    let request = request.expect("one");
                    assert!(!request.initial_resource_versions.contains_key("r1"));
                    request.resource_names_subscribe
                }
            };
            assert!(!names.iter().any(|name| name == "r1"), "{names:?}");
        }
    }
    println!("covers: S4.016 S4.019");
}

#[test]
fn late_or_invalid_static_resource_is_refused() {
    use InvalidStaticResource as Invalid;

    let mut rig = Rig::new(Variant::StateOfTheWorld);
    rig.add(1, 1).expect("a good resource");
    assert_eq!(rig.add(1, 2), Err(Invalid::Known("r1".into())));
    rig.watch(Interest::Name("r2"));
    assert_eq!(rig.add(2, 1), Err(Invalid::Known("r2".into())));
    assert!(matches!(rig.add(3, 3), Err(Invalid::Rejected { .. })), "the type is picky");
    let nameless = rig.client.add_static_resource(&clusters(), Bytes::new(), Time::ZERO);
    assert_eq!(nameless, Err(Invalid::InvalidName("".into())));
    let strange = TypeUrl::from("t/x");
    let unknown = rig.client.add_static_resource(&strange, resource(4, 1), Time::ZERO);
    assert_eq!(unknown, Err(Invalid::UnknownType(strange)));
    rig.client.shut_down(Time::ZERO);
    assert_eq!(rig.add(5, 1), Err(Invalid::ShutDown));
    assert_eq!(rig.client.status().filter(|it| it.bytes.is_some()).count(), 0);
}
