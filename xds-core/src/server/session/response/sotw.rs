//! Contents of state-of-the-world responses.

use super::MinSome as _;
use crate::{
    server::{
        event::Cause,
        session::{
            CatchUp, First,
            context::Turn,
            deferred_removal::Portion,
            subscription::{Chain, Standing},
        },
        store::{
            arena::{Resource, tombstones::Knows},
            encode::body::{Body, Parts, Payload, Room},
            version::content::TypeVersion,
        },
    },
    slab::Slot,
    text::ResourceName,
};

/// Divisor of the size limit that gives the minimum space for errors next to a full state.
const LEAST_ROOM: usize = 256;

impl Turn<'_> {
    /// Renders all existing subscribed resources and as many errors as fit. Returns `None` if the
    /// client turns out to have exactly that.
    // M74, M76, M79-M81
    pub(crate) fn render_full_state(
        &mut self,
        nonce: u64,
        limit: usize,
    ) -> Option<(Body, TypeVersion, Cause)> {
        let (body, version, cause) = self.take_full_state(nonce, limit);
        Some((body, version, cause?))
    }

    /// Renders the full state. Returns a reason if the client does not have exactly that already.
    pub(crate) fn take_full_state(
        &mut self,
        nonce: u64,
        limit: usize,
    ) -> (Body, TypeVersion, Option<Cause>) {
        let (body, version) = match self.session.wildcard {
            Some(_) => self.body_of_everything(),
            None => self.named_body(),
        };
        let cause = self.take_due_in_full_state(nonce, &body, limit);
        if self.session.wildcard.is_none() {
            return (body, version, cause.or(Some(Cause::Changed)));
        }
        self.tells_deletions |= self.tells_of_graves();
        let newest = self.arena.newest();
        let Some(wildcard) = &mut self.session.wildcard else { return (body, version, cause) };
        let why = match wildcard.owed.take() {
            Some(owed) if newest <= owed.at => Some(owed.cause),
            Some(owed) => Some(owed.cause.min(Cause::Changed)),
            None if wildcard.version != version => Some(Cause::Changed),
            // Due for a name that the wildcard covers as well.
            None => cause,
        };
        wildcard.version = version;
        self.advance(self.arena.clock());
        (body, version, cause.min_some(why))
    }

    /// Clears the due list, because the body contains all resources; errors without room stay
    /// due. Returns the strongest reason for one.
    fn take_due_in_full_state(&mut self, nonce: u64, body: &Body, limit: usize) -> Option<Cause> {
        // A state over the limit is sent anyway, with as many errors as any other response. If
        // the state leaves almost no room, it must not be repeated once per error.
        let room = limit.checked_sub(body.bytes.len()).unwrap_or(limit).max(limit / LEAST_ROOM);
        let mut errors = Parts::new(self.form(), room);
        let (mut cause, mut slot) = (None, self.session.due.first());
        while let Some(edge) = self.edges.at(slot) {
            let (resource, standing) = (edge.resource, edge.standing);
            let next = self.edges.next(Chain::Due, slot);
            // Only a client that names the resource is sent its error, not one that is due a
            // removal (M178).
            let error = match standing.is_subscribed() {
                true => self.push_error(resource, |bytes| errors.set_aside(bytes)),
                false => None,
            };
            if error != Some(Room::Full) {
                let due = self.edges.clear_due(&mut self.session.due, slot);
                cause = cause.min_some(due.map(|due| due.cause));
            }
            match (error, self.edges.at_mut(slot)) {
                (None, _) => self.take_in_full_state(slot, nonce),
                // The state does not contain the resource, so the client no longer has it.
                (Some(Room::Taken), Some(edge)) => edge.sent = 0,
                _ => {}
            }
            slot = next;
        }
        // Withheld resources that this view never had are not in the state, so their removal is
        // complete (M223).
        let mut slot = self.session.due.withheld().first();
        while let Some(edge) = self.edges.at(slot) {
            let next = self.edges.next(Chain::Due, slot);
            if self.ghost(edge).is_none() {
                let due = self.edges.clear_due(&mut self.session.due, slot);
                cause = cause.min_some(due.map(|due| due.cause));
                self.take_in_full_state(slot, nonce);
            }
            slot = next;
        }
        self.session.due.leave_over();
        cause
    }

    /// Records that the full state contains the resource of a subscription, or omits it because
    /// it does not exist.
    fn take_in_full_state(&mut self, slot: Slot, nonce: u64) {
        self.note_in_response(slot, nonce);
        let Some(edge) = self.edges.at_mut(slot) else { return };
        let exists = self.arena.payload(edge.resource).is_some();
        self.tells_deletions |= edge.sent != 0 && !exists;
        edge.sent = if exists { nonce } else { 0 };
        let has_ended = edge.standing == Standing::Covered && !exists;
        if edge.standing.is_passing() || has_ended {
            self.disconnect(slot);
        }
    }

    /// Whether the wildcard lost resources that are not repeated.
    fn tells_of_graves(&self) -> bool {
        let wildcard = self.session.wildcard.filter(|_| self.session.needs_ghosts(self.arena));
        let lost =
            wildcard.map(|wildcard| self.arena.lost(Knows::all(wildcard.told), wildcard.reached));
        lost.is_some_and(|mut lost| lost.next().is_some())
    }

    /// Returns all existing named resources with the version of exactly these. A client with a
    /// part of the state must not be mistaken for one with all of it when it reconnects.
    // B06
    fn named_body(&self) -> (Body, TypeVersion) {
        let mut parts = Parts::new(self.form(), usize::MAX);
        let version = self.for_each_named(|name, payload| {
            parts.push(name, payload);
        });
        (parts.into_body(), version)
    }

    /// Returns the version of all existing named resources.
    pub(crate) fn named_version(&self) -> TypeVersion {
        self.for_each_named(|_, _| {})
    }

    pub(crate) fn for_each_named(
        &self,
        mut take: impl FnMut(&ResourceName, &Payload),
    ) -> TypeVersion {
        let mut version = TypeVersion::default();
        let mut slot = self.session.edges.last();
        while let Some(edge) = self.edges.at(slot) {
            // A resource with an error is not listed next to the error (M172).
            if let Some(Resource { name, payload: Some(payload), error: None, .. }) =
                self.arena.at(edge.resource)
            {
                take(name, payload);
                version.add(name.as_str(), payload.hash);
            } else if let Some((name, payload)) = self.ghost(edge) {
                take(name, payload);
                version.add(name.as_str(), payload.hash);
            }
            slot = self.edges.previous(Chain::Session, slot);
        }
        version
    }

    /// Renders resources that are new or changed for the client, as many as fit.
    // M75, M83
    pub(crate) fn render_changes(
        &mut self,
        nonce: u64,
        limit: usize,
        portion: Portion,
    ) -> Option<(Body, Cause)> {
        let owed = (self.session.first == First::Owed).then_some(Cause::First);
        let Some(wildcard) = self.session.wildcard.filter(|_| portion != Portion::Unanswered)
        else {
            let mut parts = self.parts(limit);
            let cause = self.take_due(&mut parts, nonce, None, portion).or(owed);
            return Some((self.finish(parts), cause?));
        };
        let from = wildcard.cursor;
        // The common case: the wildcard alone, so all such clients share the bytes.
        let is_shared = wildcard.catch_up == CatchUp::Everything && !self.isolates();
        if self.session.due.is_empty() && is_shared {
            let tail = self.arena.tail_body(self.form(), from, None, limit);
            self.advance(tail.to);
            let is_news = tail.body.resources > 0 || owed.is_some();
            return is_news.then(|| (tail.body, wildcard.reason(tail.to)));
        }
        let mut parts = self.parts(limit);
        let to = self.gather(wildcard, &mut parts);
        let walked = (!parts.is_empty()).then(|| wildcard.reason(to));
        let named = self.take_due(&mut parts, nonce, Some((from, to)), portion);
        self.advance(to);
        Some((self.finish(parts), walked.min_some(named).or(owed)?))
    }
}
