//! Clients, and their connections to replicas.

use xds_core::{
    ChannelId, Client, Frame, StreamId, TypeUrl,
    client::{
        ChannelError, ChannelEvent, ClientConfig, Interest, Node, Notice, Output, ServerAddress,
    },
    server::{StreamKind, Variant},
    types,
};

use super::world::{RolloutWorld, SourceContents, WorldEvent};
use crate::ToyType;

#[derive(Debug)]
pub(super) struct RolloutClient {
    pub(super) core: Client,
    pub(super) node: String,
    pub(super) values: SourceContents,
}

#[derive(Debug)]
pub(super) struct RolloutLink {
    pub(super) client: usize,
    pub(super) replica: usize,
    pub(super) channel: ChannelId,
    pub(super) stream: Option<StreamId>,
    pub(super) is_open: bool,
}

impl RolloutWorld {
    pub(super) fn add_client(&mut self, at: usize) {
        let variants = [Variant::StateOfTheWorld, Variant::Incremental];
        let variant = self.choices.pick("variant", &variants);
        let node = format!("node-{at}");
        let address = ServerAddress::new("replicas").with_variant(variant);
        let config = ClientConfig::new(Node::new(node.as_str()), address)
            .with_type(ToyType::new(TypeUrl::from(types::CLUSTER)));
        let mut core = Client::new(config, at as u64, self.now);
        let clusters = TypeUrl::from(types::CLUSTER);
        core.watch(&clusters, Interest::Wildcard, self.now).expect("a valid watch");
        self.clients.push(RolloutClient { core, node, values: SourceContents::new() });
    }

    pub(super) fn end_at_client(&mut self, link: usize) {
        let RolloutLink { client, channel, is_open, .. } = self.links[link];
        if is_open {
            self.links[link].is_open = false;
            let lost = ChannelError::Unreachable("connection lost".into());
            self.clients[client].core.handle_event(ChannelEvent::Closed(channel, lost), self.now);
        }
    }

    pub(super) fn transmit(&mut self, at: usize, stream: StreamId) {
        let of_stream = |it: &RolloutLink| it.replica == at && it.stream == Some(stream);
        let mut frame = Frame::default();
        while self.replicas[at].server.poll_transmit(stream, self.now, &mut frame).is_some() {
            let message = frame.to_bytes();
            if let Some(link) = self.links.iter().rposition(of_stream) {
                self.send((1, link), WorldEvent::ToClient(link, message));
            }
        }
    }

    pub(super) fn drain_client(&mut self, at: usize) {
        let now = self.now;
        while let Some(output) = self.clients[at].core.poll_output() {
            match output {
                Output::Open(channel, call) => self.connect(at, channel, call.server.variant),
                Output::Close(channel, _) => {
                    if let Some(link) = self.link_of(at, channel) {
                        self.links[link].is_open = false;
                        self.send((0, link), WorldEvent::EndAtServer(link));
                    }
                }
                Output::Writable(channel) => {
                    let Some(link) = self.link_of(at, channel) else { continue };
                    let mut frame = Frame::default();
                    let core = |world: &mut Self, frame: &mut Frame| {
                        world.clients[at].core.poll_transmit(channel, now, frame).is_some()
                    };
                    while core(self, &mut frame) {
                        self.send((0, link), WorldEvent::ToServer(link, frame.to_bytes()));
                    }
                }
                Output::Notify(watch, notice) => {
                    if notice == Notice::ChangesAvailable {
                        while let Some(change) = self.clients[at].core.next_change(watch) {
                            self.observe(at, change);
                        }
                    }
                    self.clients[at].core.handled(watch, now);
                }
                _ => {}
            }
        }
    }

    fn link_of(&self, client: usize, channel: ChannelId) -> Option<usize> {
        let is_it = |it: &RolloutLink| it.client == client && it.channel == channel && it.is_open;
        self.links.iter().rposition(is_it)
    }

    fn connect(&mut self, client: usize, channel: ChannelId, variant: Variant) {
        let replica = self.choices.below("replica", self.replicas.len() as u32) as usize;
        self.links.push(RolloutLink { client, replica, channel, stream: None, is_open: true });
        let link = self.links.len() - 1;
        let it = &mut self.replicas[replica];
        let kind = StreamKind::Aggregated(variant);
        match it.is_running.then(|| it.server.accept(kind, self.now)) {
            Some(Ok(stream)) => {
                self.links[link].stream = Some(stream);
                let opened = ChannelEvent::Opened(channel);
                self.clients[client].core.handle_event(opened, self.now);
            }
            _ => self.send((1, link), WorldEvent::EndAtClient(link)),
        }
    }
}
