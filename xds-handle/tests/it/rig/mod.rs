//! Test rig: a core with an open channel, driven by hand.

use core::{
    pin::Pin,
    sync::atomic::{AtomicUsize, Ordering},
    task::{Context, Poll},
};
use std::{
    sync::Arc,
    task::{Wake, Waker},
};

use futures_core::Stream;
use prost::{Message as _, bytes::Bytes};
use xds_core::{
    ChannelId, Client, Frame, StatusCode, Time,
    client::{
        ChannelError, ChannelEvent, ClientConfig, FlowControl, Node, OpaqueType, Output, Profile,
        ServerAddress,
    },
    proto,
    service::Variant,
    types,
};
use xds_handle::{ApplyOutcome, ClientHandle, DriverSide, channel};

pub(crate) const CLUSTER: &str = types::CLUSTER;
pub(crate) const ENDPOINTS: &str = types::CLUSTER_LOAD_ASSIGNMENT;

pub(crate) struct Rig {
    pub(crate) client: Client,
    pub(crate) handle: ClientHandle,
    pub(crate) requests: Vec<proto::DiscoveryRequest>,
    variant: Variant,
    side: DriverSide,
    channel: Option<ChannelId>,
    nonces: usize,
}

impl Rig {
    pub(crate) fn opened() -> Self {
        Self::opened_with(FlowControl::On)
    }

    /// Creates a client with an open channel and no subscriptions.
    pub(crate) fn opened_with(flow_control: FlowControl) -> Self {
        let mut profile = Profile::grpc();
        profile.flow_control = flow_control;
        let config = ClientConfig::new(Node::new("n"), ServerAddress::new("server"))
            .with_type(OpaqueType::new(CLUSTER))
            .with_type(OpaqueType::new(ENDPOINTS))
            .with_profile(profile);
        Self::opened_as(config)
    }

    /// Creates a client with an open channel from a configuration, which must contain the cluster
    /// type.
    pub(crate) fn opened_as(config: ClientConfig) -> Self {
        let (handle, side) = channel();
        let variant = config.servers[0].variant;
        let client = Client::new(config, 1, Time::ZERO);
        let (requests, channel) = (Vec::new(), None);
        let mut rig = Self { client, handle, requests, variant, side, channel, nonces: 0 };
        let first = rig.handle.watch_untyped(CLUSTER, "first");
        rig.drive();
        drop(first);
        rig.drive();
        rig.requests.clear();
        rig
    }

    /// Runs one iteration without sending requests.
    pub(crate) fn turn(&mut self) -> ApplyOutcome {
        let turn = self.side.apply(&mut self.client, Time::ZERO);
        self.obey();
        turn
    }

    /// Runs iterations until nothing is left to do, and sends requests.
    pub(crate) fn drive(&mut self) {
        while self.turn() == ApplyOutcome::More {}
        self.transmit();
    }

    pub(crate) fn transmit(&mut self) {
        let mut frame = Frame::default();
        let Some(channel) = self.channel else { return };
        while let Some(_transmit) = self.client.poll_transmit(channel, Time::ZERO, &mut frame) {
            if self.variant == Variant::StateOfTheWorld {
                let request = proto::DiscoveryRequest::decode(frame.to_bytes()).unwrap();
                self.requests.push(request);
            }
        }
    }

    /// Delivers a response and its notices.
    pub(crate) fn respond(&mut self, type_url: &str, version: &str, resources: &[(&str, &str)]) {
        self.respond_unread(type_url, version, resources);
        self.drive();
    }

    /// Delivers a response before the driver applies queued commands.
    pub(crate) fn respond_unread(
        &mut self,
        type_url: &str,
        version: &str,
        resources: &[(&str, &str)],
    ) {
        self.nonces += 1;
        let resources = resources.iter().map(|(name, extra)| proto::Any {
            type_url: type_url.to_owned(),
            // The name is the first field, as in every resource of the v3 API.
            value: proto::Status { message: (*extra).into(), ..Default::default() }
                .encode_to_vec()
                .into_iter()
                .chain(name_field(name))
                .collect::<Vec<u8>>()
                .into(),
        });
        let response = proto::DiscoveryResponse {
            version_info: version.to_owned(),
            type_url: type_url.to_owned(),
            nonce: self.nonces.to_string(),
            resources: resources.collect(),
            ..Default::default()
        };
        let event =
            ChannelEvent::Message(self.channel.unwrap(), Bytes::from(response.encode_to_vec()));
        self.client.handle_event(event, Time::ZERO);
        self.obey();
    }

    /// Delivers an incremental response with resources that consist of their name, and removed
    /// names.
    pub(crate) fn respond_delta(&mut self, type_url: &str, names: &[&str], removed: &[&str]) {
        self.nonces += 1;
        let resources = names.iter().map(|name| proto::Resource {
            name: (*name).to_owned(),
            version: self.nonces.to_string(),
            resource: Some(proto::Any {
                type_url: type_url.to_owned(),
                value: name_field(name).into(),
            }),
            ..Default::default()
        });
        let response = proto::DeltaDiscoveryResponse {
            type_url: type_url.to_owned(),
            nonce: self.nonces.to_string(),
            resources: resources.collect(),
            removed_resources: removed.iter().map(|&name| name.to_owned()).collect(),
            ..Default::default()
        };
        let frame = Bytes::from(response.encode_to_vec());
        self.client.handle_event(ChannelEvent::Message(self.channel.unwrap(), frame), Time::ZERO);
        self.drive();
    }

    /// Ends the stream and opens a new one.
    pub(crate) fn reconnect(&mut self) {
        let status = ChannelError::Status { code: StatusCode::Unavailable, message: "gone".into() };
        let event = ChannelEvent::Closed(self.channel.take().unwrap(), status);
        self.client.handle_event(event, Time::ZERO);
        self.obey();
        while self.channel.is_none() {
            let deadline = self.client.poll_timeout().expect("there is another attempt");
            self.client.handle_timeout(deadline.at);
            self.obey();
        }
        self.transmit();
    }

    pub(crate) fn wants_read(&self) -> bool {
        self.client.wants_read(self.channel.unwrap())
    }

    pub(crate) fn closes_channel(&self) -> bool {
        self.channel.is_none()
    }

    pub(crate) fn drop_handle(&mut self) {
        // Replaced by a handle of another client.
        self.handle = channel().0;
    }

    fn obey(&mut self) {
        while let Some(output) = self.side.poll_output(&mut self.client, Time::ZERO) {
            match output {
                Output::Open(channel, _) => {
                    self.channel = Some(channel);
                    self.client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
                }
                Output::Close(..) => self.channel = None,
                _ => {}
            }
        }
    }
}

pub(crate) fn name_field(name: &str) -> Vec<u8> {
    let mut field = vec![0x0a, u8::try_from(name.len()).unwrap()];
    field.extend_from_slice(name.as_bytes());
    field
}

/// Waker that counts wake-ups.
#[derive(Clone, Default)]
pub(crate) struct Bell(Arc<Count>);

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    pub(crate) fn rings(&self) -> usize {
        self.0.0.load(Ordering::Relaxed)
    }

    pub(crate) fn poll<S: Stream + Unpin>(&self, stream: &mut S) -> Poll<Option<S::Item>> {
        let waker = Waker::from(Arc::clone(&self.0));
        Pin::new(stream).poll_next(&mut Context::from_waker(&waker))
    }
}

pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}
