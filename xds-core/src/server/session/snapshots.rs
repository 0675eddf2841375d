//! Snapshots of its arena that a session holds under make before break, because its responses may
//! have to repeat what the client had then.
// M147, M148

use super::{Session, context::SessionContext};
use crate::server::store::{
    arena::{Arena, past::HeldSnapshots},
    revision::Revision,
};

impl Session {
    /// Whether responses may have to repeat what the client accepted before.
    pub(crate) fn needs_snapshots(&self, arena: &Arena) -> bool {
        self.defers_removals() && self.needs_retained_deletions(arena)
    }
}

impl SessionContext<'_> {
    /// Holds a snapshot of the response that is being sent, in place of that of the previous one.
    pub(crate) fn hold_sent(&mut self) {
        if self.session.needs_snapshots(self.arena) {
            let (sent, held) = (self.arena.clock(), self.arena.held_by(self.slot));
            self.arena.hold(self.slot, HeldSnapshots { sent, ..held });
        }
    }

    /// Holds the snapshot of the newest response as that of the accepted one. A client that has
    /// everything it names needs none until [that changes](Self::hold_before_change).
    pub(crate) fn hold_accepted(&mut self) {
        if self.session.needs_snapshots(self.arena) {
            let is_current =
                self.session.wildcard.is_none() && !self.session.has_pending_content(self.arena);
            let sent = self.arena.held_by(self.slot).sent;
            let accepted = if is_current { Revision::START } else { sent };
            self.arena.hold(self.slot, HeldSnapshots { accepted, sent: Revision::START });
        }
    }

    /// Holds a snapshot of the accepted response before one of its named resources changes.
    pub(crate) fn hold_before_change(&mut self) {
        if self.session.wildcard.is_some() || !self.session.needs_snapshots(self.arena) {
            return;
        }
        let held = self.arena.held_by(self.slot);
        if held.accepted == Revision::START
            && let Some((_, accepted)) = self.view().accepted_here()
        {
            self.arena.hold(self.slot, HeldSnapshots { accepted, ..held });
        }
    }
}
