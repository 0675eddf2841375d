//! Judgement of the messages on the wire by the oracles of the pure worlds.
//!
//! Connections with TLS are not judged: their messages cannot be read.

use std::collections::BTreeMap;

use bytes::Bytes;
use xds_core::{ChannelId, TypeUrl, WatchId, service::Variant};

use super::{
    Host, Stage,
    network::{ConnectionId, StreamUnit, WireAction, WireEvent},
    run::executor::HostId,
};
use crate::{
    options::Options,
    oracle::on_the_wire,
    trace::Violation,
    world::{
        LinkId, World,
        message::{read_request, read_response},
    },
};

/// Index of the only type.
const KIND: usize = 0;

/// Number of servers whose streams are judged. The third server of a world serves another
/// authority, which those of a stage do not.
const SERVERS: usize = 2;

/// Judge of the messages of a run.
pub(super) struct MessageJudge {
    world: World,
    channel: Option<ChannelId>,
    variant: Variant,
    clients: BTreeMap<HostId, usize>,
    servers: BTreeMap<HostId, usize>,
    /// Streams, also those that have ended: a request may still leave the client afterwards.
    streams: BTreeMap<(ConnectionId, u32), JudgedStream>,
    watches: BTreeMap<(usize, String), WatchId>,
}

#[derive(Clone, Copy)]
struct JudgedStream {
    link: LinkId,
    is_open_at_client: bool,
    is_open_at_server: bool,
}

impl MessageJudge {
    /// Judges the streams between these hosts, of clusters.
    fn new(clients: &[HostId], servers: &[HostId], variant: Variant) -> Self {
        let count = |hosts: usize| u32::try_from(hosts.max(1)).unwrap_or(u32::MAX);
        let options = Options {
            clients: count(clients.len()),
            servers: count(servers.len().min(SERVERS)),
            variant,
            types: 1,
            ..Options::default()
        };
        let mut world = World::mirror(options, on_the_wire::oracles());
        let by_index = |hosts: &[HostId]| hosts.iter().copied().zip(0..).collect();
        Self {
            channel: world.any_channel(),
            world,
            variant,
            clients: by_index(clients),
            servers: by_index(servers.get(..SERVERS).unwrap_or(servers)),
            streams: BTreeMap::new(),
            watches: BTreeMap::new(),
        }
    }

    /// Judges what happened on connections.
    fn observe(&mut self, events: Vec<WireEvent>) {
        self.world.judge_only(on_the_wire::rules_of_messages());
        for event in events {
            self.observe_one(event);
        }
    }

    fn observe_one(&mut self, event: WireEvent) {
        let WireEvent { connection, hosts: [near, far], side, what } = event;
        let (Some(client), Some(server)) =
            (self.clients.get(&near).copied(), self.servers.get(&far).copied())
        else {
            return;
        };
        match what {
            WireAction::Wrote { stream, unit: StreamUnit::Message(bytes) } => {
                self.wrote(connection, stream, side, (client, server), &bytes);
            }
            WireAction::Read { stream, unit: StreamUnit::Message(bytes) } => {
                self.read(connection, stream, side, &bytes);
            }
            // Both know that the stream has ended: the one that ends it, and then the other.
            WireAction::Wrote { stream, unit: StreamUnit::End }
            | WireAction::Read { stream, unit: StreamUnit::End } => {
                self.end(|id| id == (connection, stream), side);
            }
            WireAction::Closed => self.end(|(of, _)| of == connection, side),
        }
    }

    fn wrote(
        &mut self,
        connection: ConnectionId,
        stream: u32,
        side: usize,
        (client, server): (usize, usize),
        bytes: &Bytes,
    ) {
        let types: Vec<TypeUrl> = self.world.types().to_vec();
        if side == 0 {
            let Some(request) = read_request(bytes, self.variant, &types, None) else { return };
            let id = (connection, stream);
            if !self.streams.contains_key(&id) {
                // A client has one stream to a server.
                let world = &self.world;
                let earlier: Vec<_> = self
                    .streams
                    .iter()
                    .filter(|(_, it)| {
                        let link = world.link(it.link);
                        it.is_open_at_client && (link.client, link.server) == (client, server)
                    })
                    .map(|(id, _)| *id)
                    .collect();
                self.end(|id| earlier.contains(&id), 0);
                let Some(channel) = self.channel else { return };
                let link = self.world.mirror_stream(channel, client, server, self.variant);
                let it = JudgedStream { link, is_open_at_client: true, is_open_at_server: true };
                self.streams.insert(id, it);
            }
            if let Some(it) = self.streams.get(&id)
                && it.is_open_at_client
            {
                self.world.mirror_requested(it.link, &request);
            }
        } else if let Some(it) = self.streams.get(&(connection, stream))
            && it.is_open_at_server
            && let Some(response) = read_response(bytes, self.variant, &types)
        {
            self.world.mirror_responded(it.link, &response);
        }
    }

    fn read(&mut self, connection: ConnectionId, stream: u32, side: usize, bytes: &Bytes) {
        let types: Vec<TypeUrl> = self.world.types().to_vec();
        let Some(it) = self.streams.get(&(connection, stream)) else { return };
        if side == 0 {
            if it.is_open_at_client
                && let Some(response) = read_response(bytes, self.variant, &types)
            {
                self.world.mirror_reading(it.link, &response);
            }
        } else if it.is_open_at_server
            && let Some(request) = read_request(bytes, self.variant, &types, None)
        {
            self.world.mirror_arrived(it.link, &request);
        }
    }

    /// Handles the end of streams as one side sees it.
    fn end(&mut self, is_meant: impl Fn((ConnectionId, u32)) -> bool, side: usize) {
        let Self { world, streams, .. } = self;
        for it in streams.iter_mut().filter(|(id, _)| is_meant(**id)).map(|(_, it)| it) {
            if side == 0 && core::mem::take(&mut it.is_open_at_client) {
                world.mirror_end_at_client(it.link);
            } else if side == 1 && core::mem::take(&mut it.is_open_at_server) {
                world.mirror_end_at_server(it.link);
            }
        }
    }

    fn watched(&mut self, client: HostId, name: &str) {
        let Some(client) = self.clients.get(&client).copied() else { return };
        if let Some(watch) = self.world.mirror_watch(client, KIND, name) {
            self.watches.insert((client, name.into()), watch);
        }
    }

    fn unwatched(&mut self, client: HostId, name: &str) {
        let Some(client) = self.clients.get(&client).copied() else { return };
        if let Some(watch) = self.watches.remove(&(client, name.to_owned())) {
            self.world.mirror_unwatch(client, watch);
        }
    }

    fn applied(&mut self, server: HostId, name: &str, bytes: Option<&Bytes>) {
        if let Some(server) = self.servers.get(&server).copied() {
            self.world.mirror_applied(server, KIND, name, bytes);
        }
    }

    fn restarted(&mut self, server: HostId) {
        if let Some(server) = self.servers.get(&server).copied() {
            self.world.mirror_restarted(server);
        }
    }

    fn rest(&mut self) {
        self.world.judge_only(on_the_wire::rules_at_rest());
        self.world.mirror_rest();
    }
}

/// Judgement of the messages of a run.
impl Stage {
    /// Judges the messages between clients and servers by the rules of the protocol, as far as messages
    /// alone show whether they hold. All of these hosts use one variant. Only messages about
    /// clusters, on connections without TLS, to the first two servers are judged.
    pub fn judge_messages(&self, clients: &[Host], servers: &[Host], variant: Variant) {
        let ids = |hosts: &[Host]| hosts.iter().map(|host| host.shared.id).collect::<Vec<_>>();
        let judge = MessageJudge::new(&ids(clients), &ids(servers), variant);
        self.judge.replace(Some(judge));
        self.network.record_wire();
    }

    /// Calls `observe` with the judge, if there is one, and reports its violation.
    fn with_judge(&self, observe: impl FnOnce(&mut MessageJudge)) {
        let mut judge = self.judge.borrow_mut();
        let Some(judge) = judge.as_mut() else { return };
        judge.observe(self.network.take_wire());
        observe(judge);
        if let Some(Violation { invariant, rule, what, .. }) = judge.world.violation() {
            self.violate(invariant, rule, what.clone());
        }
    }

    /// Judges what happened on connections since the last call.
    pub(super) fn judge_wire(&self) {
        self.with_judge(|_| {});
    }

    /// Records that a client begins to watch a cluster.
    pub(super) fn watched(&self, client: &Host, name: &str) {
        self.with_judge(|judge| judge.watched(client.shared.id, name));
    }

    /// Records that a client ends to watch a cluster.
    pub(super) fn unwatched(&self, client: &Host, name: &str) {
        self.with_judge(|judge| judge.unwatched(client.shared.id, name));
    }

    /// Records that a server is about to receive a change of a cluster.
    pub(super) fn applied(&self, server: &Host, name: &str, bytes: Option<&Bytes>) {
        self.with_judge(|judge| judge.applied(server.shared.id, name, bytes));
    }

    /// Records that a server begins without clusters.
    pub(super) fn restarted(&self, server: &Host) {
        self.with_judge(|judge| judge.restarted(server.shared.id));
    }

    /// Judges participants at rest. No message must be on its way.
    pub(super) fn judge_at_rest(&self) {
        self.with_judge(MessageJudge::rest);
    }
}

#[cfg(test)]
mod tests {
    use xds_core::{
        proto::{Any, DiscoveryRequest, DiscoveryResponse, Node},
        types::CLUSTER,
    };

    use super::*;
    use crate::Toy;

    const CLIENT: HostId = 4;
    const SERVER: HostId = 7;

    fn judge() -> MessageJudge {
        MessageJudge::new(&[CLIENT], &[SERVER], Variant::StateOfTheWorld)
    }

    fn event(side: usize, what: WireAction) -> WireEvent {
        WireEvent { connection: 3, hosts: [CLIENT, SERVER], side, what }
    }

    /// Lets one side write a message and the other read it.
    fn exchange(judge: &mut MessageJudge, side: usize, message: &impl prost::Message) {
        let unit = StreamUnit::Message(message.encode_to_vec().into());
        let wrote = event(side, WireAction::Wrote { stream: 1, unit: unit.clone() });
        let read = event(1 - side, WireAction::Read { stream: 1, unit });
        judge.observe(vec![wrote, read]);
    }

    fn request(nonce: &str, version: &str) -> DiscoveryRequest {
        let node = nonce.is_empty().then(|| Node { id: "client-0".into(), ..Node::default() });
        DiscoveryRequest {
            node,
            type_url: CLUSTER.into(),
            resource_names: vec!["web".into()],
            response_nonce: nonce.into(),
            version_info: version.into(),
            ..DiscoveryRequest::default()
        }
    }

    fn response(nonce: &str, version: &str, text: &str) -> DiscoveryResponse {
        let resource = Any { type_url: CLUSTER.into(), value: Toy::bytes("web", text) };
        DiscoveryResponse {
            type_url: CLUSTER.into(),
            nonce: nonce.into(),
            version_info: version.into(),
            resources: vec![resource],
            ..DiscoveryResponse::default()
        }
    }

    fn broken(judge: &MessageJudge) -> Option<&'static str> {
        judge.world.violation().map(|violation| violation.invariant)
    }

    /// A client that watches a cluster, and has received and accepted it.
    fn served() -> MessageJudge {
        let mut judge = judge();
        judge.watched(CLIENT, "web");
        exchange(&mut judge, 0, &request("", ""));
        judge.applied(SERVER, "web", Some(&Toy::bytes("web", "one")));
        exchange(&mut judge, 1, &response("n1", "v1", "one"));
        exchange(&mut judge, 0, &request("n1", "v1"));
        assert_eq!(broken(&judge), None);
        judge
    }

    /// A request that was written before the end was read may leave the client after it.
    #[test]
    fn request_after_the_end_of_its_stream_is_not_judged() {
        let mut judge = served();
        let end = || StreamUnit::End;
        judge.observe(vec![event(1, WireAction::Wrote { stream: 1, unit: end() })]);
        judge.observe(vec![event(0, WireAction::Read { stream: 1, unit: end() })]);
        let late = DiscoveryRequest { node: None, ..request("", "") };
        exchange(&mut judge, 0, &late);
        assert_eq!(broken(&judge), None);
    }

    #[test]
    fn responses_of_a_wrong_server_break_rules() {
        let after = |response: DiscoveryResponse| {
            let mut judge = served();
            exchange(&mut judge, 1, &response);
            broken(&judge)
        };
        assert_eq!(after(response("n2", "v2", "two")), None);
        assert_eq!(after(response("n1", "v2", "two")), Some("IS1"));
        assert_eq!(after(response("n2", "v1", "two")), Some("IS15"));
        let mut judge = served();
        exchange(&mut judge, 1, &response("n2", "v2", "two"));
        exchange(&mut judge, 1, &response("n3", "v3", "three"));
        assert_eq!(broken(&judge), Some("IS16"));
    }

    #[test]
    fn participants_at_rest_must_agree() {
        let at_rest = |change: fn(&mut MessageJudge)| {
            let mut judge = served();
            change(&mut judge);
            judge.rest();
            broken(&judge)
        };
        assert_eq!(at_rest(|_| {}), None);
        assert_eq!(at_rest(|judge| judge.watched(CLIENT, "other")), Some("IC10"));
        assert_eq!(at_rest(|judge| judge.unwatched(CLIENT, "web")), Some("IC10"));
        let unanswered = |judge: &mut MessageJudge| {
            judge.applied(SERVER, "web", Some(&Toy::bytes("web", "two")));
            exchange(judge, 1, &response("n2", "v2", "two"));
        };
        assert_eq!(at_rest(unanswered), Some("IC1"));
        let unsent = |judge: &mut MessageJudge| {
            judge.applied(SERVER, "web", Some(&Toy::bytes("web", "two")));
        };
        assert_eq!(at_rest(unsent), Some("IS8"));
    }

    #[test]
    fn ended_streams_are_not_judged() {
        let mut judge = served();
        judge.observe(vec![event(0, WireAction::Closed), event(1, WireAction::Closed)]);
        judge.unwatched(CLIENT, "web");
        judge.rest();
        assert_eq!(broken(&judge), None);
        assert!(judge.streams.values().all(|it| !it.is_open_at_client && !it.is_open_at_server));
    }
}
