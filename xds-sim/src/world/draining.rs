//! Draining servers: they accept no new streams, and end each open one after its outstanding ACKs.

use std::time::Duration;

use xds_core::{Time, server::DrainPlan};

use super::{
    LinkId, World,
    parts::{Plane, ScheduledEvent, Undo},
};
use crate::situations::Situation;

/// Maximum time that a draining server waits for an ACK before it ends the stream.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

impl World {
    /// Drains a server: it ends its streams over this time, each after the outstanding ACKs, and
    /// restarts when the last one has ended. A user-defined control plane restarts at once.
    pub fn go_away(&mut self, server: usize, over: Duration) {
        let now = self.now;
        let _guard = self.act_as_server(server, "drains");
        let Plane::Core(core) = &mut self.servers[server].core else {
            return self.restart_server(server);
        };
        core.drain(DrainPlan::new(GRACE).with_period(over), now);
        let node = &mut self.servers[server];
        if node.draining_since.is_some() {
            return;
        }
        node.draining_since = Some(now);
        self.changes += u64::from(!node.links.is_empty());
        let lane = node.lane;
        let mut links = node.links.iter().map(|(_, link)| &self.links[link.at()]);
        if links.any(|link| link.to_client.under_way > 0 || link.to_server.under_way > 0) {
            self.note(Situation::DrainedWithMessagesInFlight);
        }
        self.begin(&[lane], "drains");
        self.drain_server(server);
    }

    /// Schedules the restart of a drained server after its last stream has ended.
    pub(super) fn finish_drain(&mut self, server: usize) {
        let now = self.now;
        self.schedule(now, ScheduledEvent::Undo(Undo::Gone(server)));
    }

    pub(super) fn restart_after_drain(&mut self, server: usize) {
        if self.servers[server].draining_since.is_none() {
            return;
        }
        let lane = self.servers[server].lane;
        self.finish(&[lane], "drains");
        self.restart_server(server);
    }

    /// Returns the time at which the server of a stream began to drain, if it is draining.
    pub(crate) fn draining_since(&self, link: LinkId) -> Option<Time> {
        self.servers[self.links[link.at()].server].draining_since
    }
}
