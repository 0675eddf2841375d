//! What a change in the store means to who subscribes to the resource by name.

use crate::{
    server::{
        event::Cause,
        session::{
            Sends,
            context::Turn,
            subscription::{Due, Ride, Standing},
            wildcard::Claim,
        },
        store::{Touch, revision::Stamp},
    },
    slab::Slot,
};

impl Turn<'_> {
    /// The resource behind one of the session's edges was created, altered or deleted, or there is an
    /// error instead.
    pub(crate) fn resource_changed(&mut self, edge_slot: Slot, touch: Touch) {
        if touch == Touch::Turned {
            return self.name_turned(edge_slot);
        }
        let Some(edge) = self.edges.at(edge_slot) else { return };
        let exists = self.arena.payload(edge.resource).is_some();
        let (was_sent, edge_due) = (edge.sent != 0, edge.due);
        // Who does not name it is told nothing but that it is gone (M178).
        let has_error = edge.standing.is_subscribed() && self.error_of(edge.resource).is_some();
        if touch == Touch::Error && exists && !has_error {
            return;
        }
        let (resource, is_covered) = (edge.resource, edge.standing == Standing::Covered);
        if !exists && !has_error && edge.standing == Standing::Named {
            // Of a glob or an alias, this is the end of an error.
            self.cover_members(resource, Cause::Changed);
            let was_resource = self.arena.at(resource).is_some_and(|it| it.stamp != Stamp::START);
            if !was_resource && self.meaning(resource).is_some() {
                self.edges.set_sent(&mut self.session.edges, edge_slot, 0);
            }
        }
        let sends = self.session.sends(self.arena);
        // Of what it does not name, and was not sent, it is not told that it is gone (IS11).
        let is_unheard = sends == Sends::ChangesAndRemovals
            && !was_sent
            && touch == Touch::Content
            && edge_due.is_none_or(|due| due.claim == Claim::Nothing && due.ride != Ride::Dropped)
            && self.session.wildcard.is_none();
        if !exists && is_covered && (sends == Sends::Changes || is_unheard) {
            self.disconnect(edge_slot);
            return;
        }
        let may_linger = was_sent && !has_error && self.session.lets_linger(self.arena);
        if !exists && may_linger && !self.arena.is_glob(resource) {
            self.edges.withhold(&mut self.session.due, edge_slot);
            return;
        }
        let due = &mut self.session.due;
        match (exists || has_error, sends) {
            (true, _) => {
                let before = due.newest();
                self.edges.set_due(due, edge_slot, Due::because(Cause::Changed));
                // What changed now is the newest: nothing need be looked up.
                if let Some((before, resource)) = before.zip(self.arena.at(resource)) {
                    due.note_newest(before.max(resource.stamp));
                }
            }
            // Never sent, or silent by rule (M77): there is nothing to say.
            (false, Sends::Changes) => {
                self.edges.clear_due(due, edge_slot);
            }
            // It was told of the error, which is over as well (M176).
            (false, _) if touch == Touch::Both => {
                self.edges.set_due(due, edge_slot, Due::because(Cause::Changed));
            }
            (false, Sends::FullState) if !was_sent || !self.arena.absence_deletes() => {
                self.edges.clear_due(due, edge_slot);
            }
            // It was asked for by name, so it is told even if it never was sent (M115, M131).
            (false, Sends::ChangesAndRemovals)
                if !was_sent && edge_due.is_none() && touch != Touch::Answer => {}
            // What it has it keeps; what it asked for it is told (M133).
            (false, Sends::ChangesAndRemovals)
                if !self.arena.tells_removals() && touch != Touch::Answer =>
            {
                if was_sent && edge_due.is_some_and(|due| due.claim == Claim::Nothing) {
                    self.edges.clear_due(due, edge_slot);
                }
            }
            (false, Sends::FullState | Sends::ChangesAndRemovals) => {
                self.edges.set_due(due, edge_slot, Due::because(Cause::Changed));
            }
        }
    }
}
