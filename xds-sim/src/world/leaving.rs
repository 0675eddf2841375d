//! Servers that go away by plan: no new streams, and each of the others ends after its answers.

use std::time::Duration;

use xds_core::{Time, server::DrainPlan};

use super::{
    LinkId, World,
    parts::{Item, Plane, Undo},
};
use crate::situations::Situation;

/// How long a response may wait for its answer before its stream ends.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

impl World {
    /// A server ends its streams over this time, each after the answers to what is under way, and starts
    /// anew when the last one has ended. A control plane of the user's own starts anew at once.
    pub fn go_away(&mut self, server: usize, over: Duration) {
        let now = self.now;
        let _turn = self.turn_of_server(server, "goes away");
        let Plane::Core(core) = &mut self.servers[server].core else {
            return self.restart_server(server);
        };
        core.drain(DrainPlan { over, grace: GRACE }, now);
        let node = &mut self.servers[server];
        if node.leaves_since.is_some() {
            return;
        }
        node.leaves_since = Some(now);
        self.changes += u64::from(!node.links.is_empty());
        let lane = node.lane;
        let mut links = node.links.iter().map(|(_, link)| &self.links[link.at()]);
        if links.any(|link| link.to_client.under_way > 0 || link.to_server.under_way > 0) {
            self.note(Situation::GoesAwayInMidSentence);
        }
        self.begin(&[lane], "goes away");
        self.drain_server(server);
    }

    /// Its last stream has ended.
    pub(super) fn has_gone(&mut self, server: usize) {
        let now = self.now;
        self.schedule(now, Item::Undo(Undo::Gone(server)));
    }

    pub(super) fn come_back(&mut self, server: usize) {
        if self.servers[server].leaves_since.is_none() {
            return;
        }
        let lane = self.servers[server].lane;
        self.finish(&[lane], "goes away");
        self.restart_server(server);
    }

    /// Since when the server of a stream has been going away, if it is.
    pub(crate) fn leaves_since(&self, link: LinkId) -> Option<Time> {
        self.servers[self.links[link.at()].server].leaves_since
    }
}
