//! Streams ended by the network or by a server.

use xds_core::server::StreamEvent;

use super::{
    LinkId, World,
    parts::{Plane, ScheduledEvent, StreamKey},
};
use crate::situations::Situation;

impl World {
    /// Resets a stream: messages in flight are lost, and both ends are notified.
    pub fn reset(&mut self, link: LinkId, code: i32) {
        self.reset_together(&[link], code);
    }

    /// Resets the connection of a client to a server, which resets all of its streams.
    ///
    /// # Panics
    ///
    /// Panics if the run has no such client or server. [`Options`](crate::Options) has their numbers.
    #[track_caller]
    pub fn reset_connection(&mut self, client: usize, server: usize, code: i32) {
        self.require_client(client);
        self.require_server(server);
        let links = self.links(client).filter(|(_, link)| link.server == server && link.is_open);
        let links: Vec<LinkId> = links.map(|(link, _)| link).collect();
        self.reset_together(&links, code);
    }

    /// Resets streams so that each end learns of all of them at one instant.
    fn reset_together(&mut self, links: &[LinkId], code: i32) {
        let is_there = |link: &&LinkId| {
            let it = &self.links[link.at()];
            !it.is_cut && it.is_known_to_client
        };
        let links: Vec<LinkId> = links.iter().filter(is_there).copied().collect();
        for link in &links {
            let it = &mut self.links[link.at()];
            it.is_cut = true;
            let (responses, requests) = (it.to_client.under_way, it.to_server.under_way);
            if responses > 0 {
                self.note(Situation::ResetWithResponseInFlight);
            }
            if requests > 0 {
                self.note(Situation::ResetWithRequestInFlight);
            }
            let lanes = self.lanes_of(*link);
            self.fault_occurs(&lanes, "reset");
        }
        if links.len() > 1 {
            self.note(Situation::SeveralReset);
        }
        let Some(&first) = links.first() else { return };
        self.changes += 1;
        let (client, server) = (self.arrival(first), self.arrival(first));
        for link in links {
            self.schedule(client, ScheduledEvent::EndAtClient(link, code, "reset"));
            self.schedule(server, ScheduledEvent::EndAtServer(link));
        }
    }

    /// Ends a stream at the server with status OK, after the messages already sent.
    pub fn end_stream(&mut self, link: LinkId) {
        self.end_with(link, 0);
    }

    /// Ends a stream at the server with a status, after the messages already sent.
    pub(super) fn end_with(&mut self, link: LinkId, code: i32) {
        let Some(key) = self.links[link.at()].stream else { return };
        let server = self.links[link.at()].server;
        if self.servers[server].draining_since.is_some() {
            return; // A draining server ends its streams itself.
        }
        self.changes += 1;
        if code == 0 {
            self.note(match self.links[link.at()].has_spoken {
                true => Situation::EndedOkAfterResponse,
                false => Situation::EndedOkBeforeResponse,
            });
        }
        let lanes = self.lanes_of(link);
        self.fault_occurs(&lanes, "the server ends the stream");
        let now = self.now;
        let why = if code == 0 { "" } else { "the credential has expired" };
        self.close_by_server(server, key, code, why);
        let _guard = self.act_as_server(server, "handles the end of a stream");
        match (&mut self.servers[server].core, key) {
            (Plane::Core(core), StreamKey::Core(stream)) => {
                core.handle_event(StreamEvent::Closed(stream), now);
            }
            (Plane::Own(plane), StreamKey::Own(stream)) => plane.closed(stream, now),
            _ => {}
        }
        self.drain_server(server);
    }
}
