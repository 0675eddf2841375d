//! Effects of a change in the store on subscriptions by name.

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
    /// Updates a subscription after its resource was created, changed or removed, or its error
    /// changed.
    pub(crate) fn resource_changed(&mut self, edge_slot: Slot, touch: Touch) {
        if touch == Touch::Turned {
            return self.name_turned(edge_slot);
        }
        let Some(edge) = self.edges.at(edge_slot) else { return };
        let exists = self.arena.payload(edge.resource).is_some();
        let (was_sent, edge_due) = (edge.sent != 0, edge.due);
        // A client that does not name the resource is only sent its removal (M178).
        let has_error = edge.standing.is_subscribed() && self.error_of(edge.resource).is_some();
        if touch == Touch::Error && exists && !has_error {
            return;
        }
        let (resource, is_covered) = (edge.resource, edge.standing == Standing::Covered);
        if !exists && !has_error && edge.standing == Standing::Named {
            // For a glob or an alias, this is the end of an error.
            self.cover_members(resource, Cause::Changed);
            let was_resource = self.arena.at(resource).is_some_and(|it| it.stamp != Stamp::START);
            if !was_resource && self.meaning(resource).is_some() {
                self.edges.set_sent(&mut self.session.edges, edge_slot, 0);
            }
        }
        let sends = self.session.sends(self.arena);
        // A client is not sent removals of resources that it neither names nor was sent (IS11).
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
                // This change is the newest one, so no lookup is needed.
                if let Some((before, resource)) = before.zip(self.arena.at(resource)) {
                    due.note_newest(before.max(resource.stamp));
                }
            }
            // Never sent, or removed silently by configuration (M77): nothing is due.
            (false, Sends::Changes) => {
                self.edges.clear_due(due, edge_slot);
            }
            // The client was sent the error, which has ended as well (M176).
            (false, _) if touch == Touch::Both => {
                self.edges.set_due(due, edge_slot, Due::because(Cause::Changed));
            }
            (false, Sends::FullState) if !was_sent || !self.arena.absence_deletes() => {
                self.edges.clear_due(due, edge_slot);
            }
            // The client requested it by name, so a removal is due even if it was never sent
            // (M115, M131).
            (false, Sends::ChangesAndRemovals)
                if !was_sent && edge_due.is_none() && touch != Touch::Answer => {}
            // The client keeps what it has and is answered what it requested (M133).
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
