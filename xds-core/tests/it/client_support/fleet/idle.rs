//! Idle streams: closed after the configured time, neither early nor late. Checked for one server
//! only, because this model does not know which of several servers is in use.
// D6

use proptest::{prelude::*, test_runner::TestCaseError};

use super::{World, peer::Peer, setup::Servers, situations::Situation};

impl World {
    /// Records which streams are in use. Call it before watches end and before time passes.
    pub fn note_who_is_wanted(&mut self) {
        let (watchers, now) = (&self.watchers, self.now);
        for peer in &mut self.peers {
            let is_carried = |kind| peer.only.is_none_or(|only| only == kind);
            if watchers.iter().any(|watcher| is_carried(watcher.kind)) {
                peer.wanted_until = now;
            }
        }
    }

    /// Checks a stream that the client closed: it was idle, or the client begins again because a
    /// resource has expired whose version it has stated to a server that has not responded since.
    pub fn was_idle(&mut self, peer: &Peer) -> Result<(), TestCaseError> {
        let is_its_own_doing = self.setup.servers == Servers::One && !self.has_lied;
        if !is_its_own_doing || self.is_shut_down {
            return Ok(());
        }
        let stated_at = peer.first_request.filter(|_| peer.first_response.is_none());
        let has_expired = |kind: &usize| {
            let expiry = self.talk.last_expiry.get(kind);
            stated_at.is_some_and(|stated_at| expiry.is_some_and(|at| *at >= stated_at))
        };
        if peer.stated.iter().any(has_expired) {
            return Ok(());
        }
        self.reached.note(Situation::IdleClose, true);
        let idle = self.now.since(peer.wanted_until);
        prop_assert!(idle >= self.setup.idle_timeout, "{:?} ends after {:?} (D6)", peer, idle);
        Ok(())
    }

    /// Checks that no stream stays idle too long, once all outputs are taken.
    pub fn nobody_idles_for_ever(&self) -> Result<(), TestCaseError> {
        let is_open = |peer: &&Peer| peer.is_open && self.setup.servers == Servers::One;
        for peer in self.peers.iter().filter(is_open) {
            let is_carried = |kind| peer.only.is_none_or(|only| only == kind);
            let is_wanted = self.watchers.iter().any(|watcher| is_carried(watcher.kind));
            let since = peer.wanted_until.max(peer.opened);
            let is_due = since.after(self.setup.idle_timeout) < self.now;
            prop_assert!(is_wanted || !is_due, "{:?} idles since {} (D6)", peer, since);
        }
        Ok(())
    }
}
