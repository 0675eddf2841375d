//! Drivers of servers.

use std::rc::Rc;

use xds_core::{
    Frame, Timer,
    server::{Observation, Server, ServerEvent, ServerOutput, StreamEvent, StreamKind},
};

use super::{
    LinkId, Reply, World,
    message::{Body, Message, read_response},
    names,
    parts::{Party, Plane, StreamKey},
    texts,
};
use crate::{
    options::{Fault, Transport},
    situations::Situation,
    world::actor::{Actor, ActorGuard, act_as},
    world::events::Event,
};

impl World {
    pub(super) fn fire_server(&mut self, at: usize) {
        let mut is_work_continued = false;
        if !self.is_suspended(Party::Server(at)) {
            let _guard = self.act_as_server(at, "handles a timeout");
            match &mut self.servers[at].core {
                Plane::Core(server) => {
                    let due = server.poll_timeout();
                    is_work_continued = due.is_some_and(|due| due.why == Timer::UnfinishedWork);
                    server.handle_timeout(self.now);
                }
                Plane::Own(plane) => plane.handle_timeout(self.now),
            }
        }
        self.drain_server(at);
        if is_work_continued {
            // Streams whose request was handled are read again.
            self.read_waiting_requests(at);
        }
    }

    /// Attributes panics to the server.
    pub(super) fn act_as_server(&self, at: usize, what: &'static str) -> ActorGuard {
        act_as(match self.servers[at].core {
            Plane::Core(_) => Actor::Core(Party::Server(at), what),
            Plane::Own(_) => Actor::ControlPlane,
        })
    }

    /// Drains the outputs of a server.
    pub(super) fn drain_server(&mut self, at: usize) {
        if self.is_suspended(Party::Server(at)) {
            self.takes_effect(Fault::Suspend);
            self.servers[at].deadline = None;
            return;
        }
        let _guard = self.act_as_server(at, "is polled for outputs");
        match &self.servers[at].core {
            Plane::Core(_) => self.drain_core(at),
            Plane::Own(_) => self.drain_own(at),
        }
        let deadline = match &self.servers[at].core {
            Plane::Core(server) => {
                let due = server.poll_timeout();
                if due.is_some_and(|due| due.why == Timer::UnfinishedWork) {
                    let stats = server.stats();
                    if stats.unfinished_requests > 0 {
                        self.note(Situation::RequestInParts);
                    }
                    if stats.unfinished_closes > 0 {
                        self.note(Situation::CloseInParts);
                    }
                }
                due.map(|due| due.at)
            }
            Plane::Own(plane) => plane.poll_timeout(),
        };
        self.servers[at].deadline = deadline.map(|due| self.by_clock(due));
        self.emit(&Event::ServerDrained { server: at });
    }

    pub(super) fn core(&mut self, at: usize) -> Option<&mut Server> {
        match &mut self.servers[at].core {
            Plane::Core(server) => Some(server),
            Plane::Own(_) => None,
        }
    }

    fn drain_core(&mut self, at: usize) {
        while let Some(output) = self.core(at).and_then(|server| server.poll_output()) {
            match output {
                ServerOutput::Writable(stream) => match self.link_at(at, StreamKey::Core(stream)) {
                    Some(link) => self.send_responses(link),
                    None => self.serve_rogue_client(at, stream),
                },
                ServerOutput::Event(ServerEvent::Authorize { stream, node_id }) => {
                    let client = names::client_at(&node_id).and_then(|it| self.clients.get(it));
                    let view = self.view_name(client.map_or(0, |client| client.view)).clone();
                    let now = self.now;
                    if let Some(core) = self.core(at) {
                        core.assign(stream, &view, now);
                    }
                }
                ServerOutput::Converged { view, type_url, sequence } => {
                    self.converged(at, &view, &type_url, sequence);
                }
                ServerOutput::Drained => self.finish_drain(at),
                ServerOutput::Finished(stream) => self.finish_fetch(at, StreamKey::Core(stream)),
                ServerOutput::Close(stream, why) => {
                    self.note_close_reason(&why);
                    let key = StreamKey::Core(stream);
                    let code = why.code().as_i32();
                    self.close_by_server(at, key, code, "the server ends it");
                }
                ServerOutput::Observed(observation) => match observation {
                    Observation::UnknownType { .. } if !self.options.are_servers_strict() => {
                        self.note(Situation::UnknownTypeAccepted);
                    }
                    Observation::StaleNonce { .. } => self.note(Situation::StaleNonce),
                    Observation::ResourceTooLong { .. } => self.note(Situation::TooLongReported),
                    Observation::Blocked { .. } => self.note(Situation::WithheldTooLong),
                    _ => {}
                },
                _ => {}
            }
            if !self.may_take_more(Party::Server(at)) {
                return;
            }
        }
    }

    fn drain_own(&mut self, at: usize) {
        loop {
            let Plane::Own(plane) = &mut self.servers[at].core else { return };
            match plane.poll() {
                Some(Reply::Send(stream, bytes)) => {
                    if let Some(link) = self.link_at(at, StreamKey::Own(stream)) {
                        self.send_response(link, bytes);
                    }
                }
                Some(Reply::End(stream, code, _)) => {
                    self.close_by_server(at, StreamKey::Own(stream), code, "the server ends it");
                }
                None => return,
            }
            if !self.may_take_more(Party::Server(at)) {
                return;
            }
        }
    }

    fn link_at(&self, server: usize, key: StreamKey) -> Option<LinkId> {
        let mut links = self.servers[server].links.iter();
        links.find(|(known, _)| *known == key).map(|(_, link)| *link)
    }

    /// Renders and sends responses while the transport accepts them.
    pub(super) fn send_responses(&mut self, link: LinkId) {
        let it = &mut self.links[link.at()];
        if let Some(fault) = it.to_client.blocked_by {
            it.to_client.is_waiting = true;
            return self.takes_effect(fault);
        }
        let (server, Some(StreamKey::Core(stream))) = (it.server, it.stream) else { return };
        let (now, mut frame) = (self.now, Frame::default());
        let _guard = self.act_as_server(server, "sends responses");
        while let Some(core) = self.core(server)
            && core.poll_transmit(stream, now, &mut frame).is_some()
        {
            self.send_response(link, frame.to_bytes());
            if !self.may_take_more(Party::Server(server)) {
                return;
            }
        }
    }

    fn send_response(&mut self, link: LinkId, bytes: bytes::Bytes) {
        let it = &mut self.links[link.at()];
        it.has_spoken = true;
        let (variant, server, client) = (it.variant, it.server, it.client);
        let (from, to) = (self.servers[server].lane, self.clients[client].lane);
        let id = self
            .recorder
            .send(self.now, from, to, &bytes, || texts::response(&bytes, variant, &self.types));
        let body = self.body_of_response(link, &bytes);
        let message = Message { id, bytes, body, lie: None };
        if let Some(response) = message.response() {
            self.emit(&Event::Responded { link, response });
        }
        match self.options.transport {
            Transport::Polls => self.answer_with(link, Rc::new(message)),
            _ => self.send_to_client(link, Rc::new(message)),
        }
    }

    /// Decodes a response, if oracles check the run.
    pub(super) fn body_of_response(&self, link: LinkId, bytes: &bytes::Bytes) -> Option<Body> {
        let variant = self.links[link.at()].variant;
        let is_read = !self.oracles.is_empty();
        is_read.then(|| read_response(bytes, variant, &self.types)).flatten().map(Body::Response)
    }

    /// Closes a one-shot stream after its request has been answered.
    fn finish_fetch(&mut self, server: usize, key: StreamKey) {
        let Some(link) = self.link_at(server, key) else { return };
        self.servers[server].links.retain(|(known, _)| *known != key);
        self.links[link.at()].stream = None;
        self.emit(&Event::EndedAtServer { link });
    }

    /// Delivers arrived requests to a server while it wants to read.
    pub(super) fn read_requests(&mut self, link: LinkId) {
        let at = self.links[link.at()].server;
        while !self.is_over()
            && let Some(stream) = self.links[link.at()].stream
        {
            if let (Some(server), StreamKey::Core(stream)) = (self.core(at), stream)
                && !server.wants_read(stream)
            {
                break;
            }
            let Some(message) = self.links[link.at()].to_server.inbox.pop_front() else { break };
            let bytes = message.bytes.clone();
            let now = self.now;
            if let Some(request) = message.request() {
                self.emit(&Event::Arrived { link, request });
            }
            let _guard = self.act_as_server(at, "reads a request");
            match (&mut self.servers[at].core, stream) {
                (Plane::Core(server), StreamKey::Core(stream)) => {
                    server.handle_event(StreamEvent::Message(stream, bytes), now);
                }
                (Plane::Own(plane), StreamKey::Own(stream)) => plane.request(stream, &bytes, now),
                _ => {}
            }
            self.drain_server(at);
        }
    }

    /// Delivers requests that a server did not want to read before it was drained.
    pub(super) fn read_waiting_requests(&mut self, at: usize) {
        for (_, link) in self.servers[at].links.clone() {
            self.read_requests(link);
        }
    }

    /// Opens a stream at a server. Returns `None` if the server rejects it.
    pub(super) fn accept(&mut self, at: usize, via: &StreamKind) -> Option<StreamKey> {
        let (now, stream) = (self.now, self.next_stream);
        self.next_stream += 1;
        let _guard = self.act_as_server(at, "accepts a stream");
        match &mut self.servers[at].core {
            Plane::Core(server) => server.accept(via.clone(), now).ok().map(StreamKey::Core),
            Plane::Own(plane) => {
                plane.opened(stream, via, now);
                Some(StreamKey::Own(stream))
            }
        }
    }

    /// Notifies a server of the end of a stream.
    pub(super) fn end_at_server(&mut self, link: LinkId) {
        let it = &mut self.links[link.at()];
        let (at, Some(key)) = (it.server, it.stream.take()) else { return };
        it.to_server.inbox.clear();
        self.servers[at].links.retain(|(known, _)| *known != key);
        let now = self.now;
        let _guard = self.act_as_server(at, "handles the end of a stream");
        match (&mut self.servers[at].core, key) {
            (Plane::Core(server), StreamKey::Core(stream)) => {
                server.handle_event(StreamEvent::Closed(stream), now);
            }
            (Plane::Own(plane), StreamKey::Own(stream)) => plane.closed(stream, now),
            _ => {}
        }
        self.emit(&Event::EndedAtServer { link });
        self.drain_server(at);
    }
}
