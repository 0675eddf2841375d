//! A client that has sent its first request, driven by hand: without runtime, clock or network.

use std::hint::black_box;

use bytes::Bytes;
use xds_core::{
    ChannelId, Client, Frame, Time, TypeUrl,
    client::{
        Change, ChannelEvent, ClientConfig, Interest, Node, Notice, OpaqueType, Output,
        ResourceType, ServerAddress,
    },
    service::Variant,
    types,
};

use crate::frames;

/// Client with a subscription that has been sent.
#[derive(Debug)]
pub struct Subscribed {
    client: Client,
    channel: ChannelId,
}

impl Subscribed {
    /// Creates a client that subscribes to every resource of a type.
    #[must_use]
    pub fn to_everything(variant: Variant, resource_type: impl ResourceType + 'static) -> Self {
        let type_url = resource_type.type_url().clone();
        Self::new(config(variant, resource_type), |client| {
            client.watch(&type_url, Interest::Wildcard, Time::ZERO).expect("a registered type");
        })
    }

    /// Creates a client that subscribes to `count` clusters by name.
    #[must_use]
    pub fn by_name(count: usize) -> Self {
        let config = config(Variant::StateOfTheWorld, OpaqueType::new(types::CLUSTER));
        let clusters = TypeUrl::from(types::CLUSTER);
        Self::new(config, |client| {
            for index in 0..count {
                let name = frames::name(index);
                client.watch(&clusters, Interest::Name(&name), Time::ZERO).expect("a good name");
            }
        })
    }

    fn new(config: ClientConfig, watch: impl FnOnce(&mut Client)) -> Self {
        let mut client = Client::new(config, 1, Time::ZERO);
        watch(&mut client);
        let Some(Output::Open(channel, _)) = client.poll_output() else {
            unreachable!("the first watch opens a channel")
        };
        client.handle_event(ChannelEvent::Opened(channel), Time::ZERO);
        let mut subscribed = Self { client, channel };
        subscribed.drain();
        subscribed
    }

    /// Watches more clusters and renders the requests for them. Returns the number of requests.
    pub fn watch(&mut self, names: &[String]) -> usize {
        let clusters = TypeUrl::from(types::CLUSTER);
        for name in names {
            self.client.watch(&clusters, Interest::Name(name), Time::ZERO).expect("a good name");
        }
        self.drain().requests
    }

    /// Processes a response including its notices and its ACK. Returns the number
    /// of reported resources.
    pub fn receive(&mut self, frame: &Bytes) -> usize {
        self.client.handle_event(ChannelEvent::Message(self.channel, frame.clone()), Time::ZERO);
        self.drain().told
    }

    fn drain(&mut self) -> Drained {
        let mut drained = Drained::default();
        let mut request = Frame::default();
        while let Some(output) = self.client.poll_output() {
            match output {
                Output::Writable(channel) => {
                    while self.client.poll_transmit(channel, Time::ZERO, &mut request).is_some() {
                        drained.requests += 1;
                        black_box(&request);
                    }
                }
                Output::Notify(watch, Notice::ChangesAvailable) => {
                    while let Some(change) = self.client.next_change(watch) {
                        let is_resource = matches!(change, Change::Resource { .. });
                        drained.told += usize::from(is_resource);
                        black_box(change);
                    }
                    self.client.handled(watch, Time::ZERO);
                }
                Output::Notify(watch, notice) => {
                    drained.told += 1;
                    black_box(notice);
                    self.client.handled(watch, Time::ZERO);
                }
                _ => {}
            }
        }
        drained
    }
}

#[derive(Default)]
struct Drained {
    /// Number of reported resources.
    told: usize,
    requests: usize,
}

fn config(variant: Variant, resource_type: impl ResourceType + 'static) -> ClientConfig {
    let server = ServerAddress::new("bench").with_variant(variant);
    ClientConfig::new(Node::new("bench"), server).with_type(resource_type)
}
