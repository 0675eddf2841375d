//! Faults and their repair.

use std::{cmp::Reverse, rc::Rc, time::Duration};

use bytes::Bytes;

use super::{
    BadAnswer, Link, LinkId, Party, World,
    link::Direction,
    message::Message,
    names,
    parts::{FaultRecord, Plane, ScheduledEvent, StoreState, StreamKey, Undo},
    texts,
};
use crate::{
    options::{Fault, Lie},
    situations::Situation,
    trace::{Extent, ParticipantId},
    world::events::Event,
};

/// Time until a transport detects that nothing arrives: the keepalive timeout.
// IL3
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(20);

/// Maximum number of earlier states of a server that its replicas may have.
const REPLICAS: usize = 4;

impl World {
    fn record_fault(&mut self, FaultRecord { lanes, extent, what }: FaultRecord<'_>) {
        self.recorder.fault(self.now, lanes, extent, what);
    }

    pub(super) fn begin(&mut self, lanes: &[ParticipantId], what: &str) {
        self.record_fault(FaultRecord { lanes, extent: Extent::Begins, what });
    }

    pub(super) fn finish(&mut self, lanes: &[ParticipantId], what: &str) {
        self.record_fault(FaultRecord { lanes, extent: Extent::Ends, what });
    }

    pub(super) fn fault_occurs(&mut self, lanes: &[ParticipantId], what: &str) {
        self.record_fault(FaultRecord { lanes, extent: Extent::Instant, what });
    }

    pub(super) fn lanes_of(&self, link: LinkId) -> [ParticipantId; 2] {
        let it = &self.links[link.at()];
        [self.clients[it.client].lane, self.servers[it.server].lane]
    }

    /// Stops a server from receiving changes for a while.
    pub fn let_lag(&mut self, server: usize, lasting: Duration) {
        self.lag(server, Fault::Lag, lasting);
    }

    fn lag(&mut self, server: usize, fault: Fault, lasting: Duration) {
        self.servers[server].lags_for = Some(fault);
        let lane = self.servers[server].lane;
        self.begin(&[lane], "lags behind");
        let end = self.now.after(lasting);
        self.schedule(end, ScheduledEvent::Undo(Undo::Lag(server)));
    }

    /// Increases the latency of the network for a while.
    pub fn slow_network(&mut self, by: Duration, lasting: Duration) {
        self.slowness = by;
        self.begin(&[], "slow network");
        let end = self.now.after(lasting);
        self.schedule(end, ScheduledEvent::Undo(Undo::Slow));
    }

    /// Increases the latency of one stream for a while.
    pub fn slow_link(&mut self, link: LinkId, by: Duration, lasting: Duration) {
        self.links[link.at()].slowness = by;
        let lanes = self.lanes_of(link);
        self.begin(&lanes, "slow stream");
        let end = self.now.after(lasting);
        self.schedule(end, ScheduledEvent::Undo(Undo::SlowLink(link)));
    }

    fn hasten(&mut self, link: LinkId) {
        if std::mem::take(&mut self.links[link.at()].slowness) > Duration::ZERO {
            let lanes = self.lanes_of(link);
            self.finish(&lanes, "slow stream");
        }
    }

    /// Limits the bandwidth of the network for a while. Messages are then delivered in batches.
    pub fn limit_bandwidth(&mut self, bytes_per_second: u64, lasting: Duration) {
        self.bandwidth = Some(bytes_per_second.max(1));
        self.begin(&[], "narrow network");
        let end = self.now.after(lasting);
        self.schedule(end, ScheduledEvent::Undo(Undo::LimitBandwidth));
    }

    /// Makes all timers fire late for a while.
    pub fn delay_timers(&mut self, by: Duration, lasting: Duration) {
        self.lateness = by;
        self.is_punctual = false;
        self.begin(&[], "timers late");
        let end = self.now.after(lasting);
        self.schedule(end, ScheduledEvent::Undo(Undo::LateTimers));
    }

    /// Makes the clock jump: timers due and messages that arrive in between are processed at the
    /// new time.
    pub fn jump(&mut self, by: Duration) {
        let end = self.now.after(by);
        let timer = self.next_timer().is_some_and(|(at, _)| at < end);
        let item = self.heap.peek().is_some_and(|Reverse(next)| next.at < end);
        if timer || item {
            self.changes += 1;
            self.note(Situation::ClockJumped);
        }
        self.fault_occurs(&[], "the clock jumps");
        self.jumped += by;
        self.is_punctual = false;
        self.pass_to(end);
    }

    /// Blocks all streams in both directions one after the other, and releases them in another
    /// order.
    pub fn block_all(&mut self, nth: usize, lasting: Duration) {
        let links = self.open_links();
        if links.len() > 1 {
            self.note(Situation::AllBlocked);
        }
        for (at, link) in links.iter().enumerate() {
            let place = u32::try_from((at * 7 + nth) % links.len()).unwrap_or_default();
            let lasting = lasting + Duration::from_millis(300) * place;
            self.block(*link, Direction::ToServer, Fault::BlockAll, lasting);
            self.block(*link, Direction::ToClient, Fault::BlockAll, lasting);
        }
    }

    /// Moves a client to another view while its streams are open.
    pub fn move_client(&mut self, client: usize, view: usize) {
        let before = self.clients[client].view;
        if before == view || view >= self.truth.len() {
            return;
        }
        let of_client =
            || self.clients[client].links.iter().map(|(_, link)| &self.links[link.at()]);
        let is_open = of_client().any(|link| link.is_open);
        let is_told = of_client().any(|link| link.to_client.under_way > 0);
        if is_open {
            self.note(Situation::MovedWhileConnected);
        }
        if is_told {
            self.note(Situation::MovedWithResponseInFlight);
        }
        self.changes += 1;
        let lane = self.clients[client].lane;
        self.fault_occurs(&[lane], "moves to another view");
        self.emit(&Event::Moved { client, view });
        self.clients[client].view = view;
        let now = self.now;
        for server in 0..self.servers.len() {
            let node = &mut self.servers[server];
            let Plane::Core(core) = &mut node.core else { continue };
            for (key, link) in &node.links {
                if let StreamKey::Core(stream) = key
                    && self.links[link.at()].client == client
                {
                    core.assign(*stream, &self.view_names[view], now);
                }
            }
            self.drain_server(server);
        }
    }

    /// Stops the driver of a client or server from draining outputs for a while; inputs are still
    /// delivered. Has no effect on a user-defined control plane, which may prepare its outputs
    /// early.
    pub fn suspend(&mut self, party: Party, lasting: Duration) {
        if let Party::Server(at) = party
            && matches!(self.servers[at].core, Plane::Own(_))
        {
            return;
        }
        let until = self.now.after(lasting);
        self.is_punctual = false;
        let lane = match party {
            Party::Client(at) => {
                self.clients[at].suspended_until = Some(until);
                self.clients[at].deadline = None;
                self.clients[at].lane
            }
            Party::Server(at) => {
                self.servers[at].suspended_until = Some(until);
                self.servers[at].deadline = None;
                self.servers[at].lane
            }
        };
        self.begin(&[lane], "starved");
        self.schedule(until, ScheduledEvent::Undo(Undo::Wake(party)));
    }

    pub(crate) fn is_suspended(&self, party: Party) -> bool {
        let until = match party {
            Party::Client(at) => self.clients[at].suspended_until,
            Party::Server(at) => self.servers[at].suspended_until,
        };
        until.is_some()
    }

    /// Blocks the client's transport for a stream for a while.
    pub fn block_requests(&mut self, link: LinkId, lasting: Duration) {
        self.block(link, Direction::ToServer, Fault::BlockRequests, lasting);
    }

    /// Blocks the server's transport for a stream for a while.
    pub fn block_responses(&mut self, link: LinkId, lasting: Duration) {
        self.block(link, Direction::ToClient, Fault::BlockResponses, lasting);
    }

    fn block(&mut self, link: LinkId, direction: Direction, fault: Fault, lasting: Duration) {
        self.links[link.at()].pipe(direction).blocked_by = Some(fault);
        let lanes = self.lanes_of(link);
        self.begin(&lanes, direction.what_is_blocked());
        let end = self.now.after(lasting);
        self.schedule(end, ScheduledEvent::Undo(Undo::Block(link, direction)));
    }

    fn unblock(&mut self, link: LinkId, direction: Direction) {
        let pipe = self.links[link.at()].pipe(direction);
        if pipe.blocked_by.take().is_none() {
            return;
        }
        let is_waiting = std::mem::take(&mut pipe.is_waiting);
        let lanes = self.lanes_of(link);
        self.finish(&lanes, direction.what_is_blocked());
        let Link { client, server, .. } = self.links[link.at()];
        match direction {
            Direction::ToClient if !self.links[link.at()].held.is_empty() => self.send_held(link),
            _ if !is_waiting => {}
            Direction::ToServer => {
                self.send_requests(link);
                self.drain_client(client);
            }
            Direction::ToClient => {
                self.send_responses(link);
                self.drain_server(server);
            }
        }
    }

    /// Replaces the next answer on a polled channel.
    pub fn answer_badly(&mut self, link: LinkId, bad: BadAnswer) {
        self.links[link.at()].bad_answer = Some(bad);
        let lanes = self.lanes_of(link);
        self.fault_occurs(&lanes, texts::bad_answer(bad));
    }

    /// Stops deliveries in one direction or both, until the transport detects it.
    // IL3
    pub fn half_open(&mut self, link: LinkId, to_client: bool, to_server: bool) {
        let it = &mut self.links[link.at()];
        if !it.is_known_to_client || it.is_cut {
            return;
        }
        it.to_client.is_silent |= to_client;
        it.to_server.is_silent |= to_server;
        let lanes = self.lanes_of(link);
        self.begin(&lanes, "half-open");
        let end = self.now.after(KEEPALIVE);
        self.schedule(end, ScheduledEvent::Undo(Undo::GiveUp(link)));
        self.emit(&Event::Silent { link });
    }

    /// Restarts a server. It loses its streams, nonces and clients, and gets its resources again.
    pub fn restart_server(&mut self, server: usize) {
        self.start_anew(server, "restarts", None);
    }

    fn start_anew(&mut self, server: usize, what: &str, earlier: Option<Vec<StoreState>>) {
        let links: Vec<LinkId> = self.servers[server].links.iter().map(|(_, link)| *link).collect();
        if !links.is_empty() {
            self.changes += 1;
            self.note(Situation::RestartWhileConnected);
        }
        for link in links {
            let it = &mut self.links[link.at()];
            (it.is_cut, it.stream) = (true, None);
            it.to_server.inbox.clear();
            self.emit(&Event::EndedAtServer { link });
            let at = self.arrival(link);
            self.schedule(at, ScheduledEvent::EndAtClient(link, 14, "the server restarts"));
        }
        let types = self.types.len();
        self.rogue_clients.retain(|rogue_client| rogue_client.server != server);
        let node = &mut self.servers[server];
        node.incarnation += 1;
        node.draining_since = None;
        node.links.clear();
        let state = std::mem::take(&mut node.state);
        node.state = vec![StoreState::new(types); state.len()];
        if node.earlier.len() == REPLICAS {
            node.earlier.remove(0);
        }
        node.earlier.push(state);
        let incarnation = node.incarnation;
        let core = Self::plane(&self.participants, &self.options, server, incarnation, self.now);
        self.servers[server].core = core;
        self.servers[server].asked.clear();
        let lane = self.servers[server].lane;
        self.fault_occurs(&[lane], what);
        self.emit(&Event::ServerRestarted { server });
        match earlier {
            Some(states) => self.update_to(server, &states),
            None => self.catch_up(server),
        }
        self.drain_server(server);
    }

    /// Moves the clients of a server to another replica, selected by `nth`. It has an earlier state
    /// of the server and receives no changes for a while.
    pub fn change_replica(&mut self, server: usize, nth: usize, lasting: Duration) {
        let node = &self.servers[server];
        let mut earlier = node.earlier.clone();
        earlier.push(vec![StoreState::new(self.types.len()); node.state.len()]);
        let states = earlier.swap_remove(nth % earlier.len());
        if !node.links.is_empty() && node.state != states {
            self.note(Situation::OtherReplica);
        }
        self.lag(server, Fault::OtherReplica, lasting);
        self.start_anew(server, "clients reach another replica", Some(states));
    }

    /// Sends a client a response that its server did not send.
    pub fn forge(&mut self, link: LinkId, bytes: Bytes, what: &str) {
        self.forge_as(link, bytes, what, None);
    }

    /// Sends a lie to a client.
    pub(crate) fn send_lie(&mut self, link: LinkId, bytes: Bytes, lie: Lie) {
        self.forge_as(link, bytes, lie.as_str(), Some(lie));
    }

    fn forge_as(&mut self, link: LinkId, bytes: Bytes, what: &str, lie: Option<Lie>) {
        let lanes = self.lanes_of(link);
        self.fault_occurs(&lanes, what);
        let id = self.recorder.send(self.now, lanes[1], lanes[0], &bytes, || {
            crate::trace::Description::new(crate::trace::EventKind::Response, what)
        });
        let body = self.body_of_response(link, &bytes);
        self.send_to_client(link, Rc::new(Message { id, bytes, body, lie }));
    }

    /// Repairs all faults, and gives all servers the current resources.
    pub fn heal(&mut self) {
        self.slowness = Duration::ZERO;
        self.bandwidth = None;
        self.lateness = Duration::ZERO;
        self.remove_rogue_clients();
        for server in 0..self.servers.len() {
            self.servers[server].lags_for = None;
            self.show_files(server);
            self.restore_files(server);
            self.restart_after_drain(server);
            self.let_reach(server);
            self.undo(Undo::Wake(Party::Server(server)));
            self.catch_up(server);
            self.drain_server(server);
        }
        for client in 0..self.clients.len() {
            self.let_reach_all(client);
            self.hurry(client);
            self.undo(Undo::Wake(Party::Client(client)));
            self.drain_client(client);
        }
        for at in 0..self.links.len() {
            let link = LinkId(u32::try_from(at).unwrap_or(u32::MAX));
            self.links[at].bad_answer = None;
            self.hasten(link);
            self.unblock(link, Direction::ToServer);
            self.unblock(link, Direction::ToClient);
        }
    }

    pub(super) fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Reach(server) => {
                let lane = self.servers[server].lane;
                self.finish(&[lane], "unreachable");
                self.let_reach(server);
            }
            Undo::CutOff(client) => self.end_cut_off_if_due(client),
            Undo::Lag(server) => {
                self.servers[server].lags_for = None;
                let lane = self.servers[server].lane;
                self.finish(&[lane], "lags behind");
                self.catch_up(server);
            }
            Undo::File(server) => self.restore_files(server),
            Undo::StillSeen(server) => self.show_files(server),
            Undo::Gone(server) => self.restart_after_drain(server),
            Undo::Slow => {
                self.slowness = Duration::ZERO;
                self.finish(&[], "slow network");
            }
            Undo::SlowLink(link) => self.hasten(link),
            Undo::LimitBandwidth => {
                self.bandwidth = None;
                self.finish(&[], "narrow network");
            }
            Undo::LateTimers => {
                self.lateness = Duration::ZERO;
                self.finish(&[], "timers late");
                (0..self.clients.len()).for_each(|client| self.drain_client(client));
                (0..self.servers.len()).for_each(|server| self.drain_server(server));
            }
            Undo::Wake(party) => self.wake(party),
            Undo::Block(link, direction) => self.unblock(link, direction),
            Undo::GiveUp(link) => {
                let lanes = self.lanes_of(link);
                self.finish(&lanes, "half-open");
                if self.links[link.at()].is_known_to_client {
                    self.note(Situation::HalfOpenClosed);
                }
                self.reset(link, 14);
            }
        }
    }

    fn wake(&mut self, party: Party) {
        let lane = match party {
            Party::Client(at) => {
                if self.clients[at].suspended_until.take().is_none() {
                    return;
                }
                self.clients[at].lane
            }
            Party::Server(at) => {
                if self.servers[at].suspended_until.take().is_none() {
                    return;
                }
                self.servers[at].lane
            }
        };
        self.finish(&[lane], "starved");
        match party {
            Party::Client(at) => self.drain_client(at),
            Party::Server(at) => {
                self.drain_server(at);
                self.read_waiting_requests(at);
            }
        }
    }

    /// Open streams of all clients, oldest first within a client.
    #[must_use]
    pub fn open_links(&self) -> Vec<LinkId> {
        let all = self.clients.iter().flat_map(|client| &client.links);
        let open = all.filter(|(_, link)| self.links[link.at()].is_open);
        open.map(|(_, link)| *link).collect()
    }

    /// Whether a server serves a name.
    #[must_use]
    pub fn serves(&self, server: usize, name: &str) -> bool {
        names::serves(server, name)
    }
}
