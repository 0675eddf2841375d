//! What a state-of-the-world response consists of.

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

/// What part of a response errors have room for, however long the full state beside them is.
const LEAST_ROOM: usize = 256;

impl Turn<'_> {
    /// All subscribed resources that exist (M74, M76, M79-M81), and as many errors as there is room for beside
    /// them. Nothing if it turns out that the client has just that.
    pub(crate) fn render_full_state(
        &mut self,
        nonce: u64,
        limit: usize,
    ) -> Option<(Body, TypeVersion, Cause)> {
        let (body, version, cause) = self.take_full_state(nonce, limit);
        Some((body, version, cause?))
    }

    /// The same, and why it is sent, if there is more to it than that the client has just that.
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
            // Due for a name that the wildcard covers, too.
            None => cause,
        };
        wildcard.version = version;
        self.advance(self.arena.clock());
        (body, version, cause.min_some(why))
    }

    /// Takes what is due off its list, since all of it is in the body, but for errors that there is no room for
    /// beside that; gives the strongest reason for one.
    fn take_due_in_full_state(&mut self, nonce: u64, body: &Body, limit: usize) -> Option<Cause> {
        // What is too long by itself is sent in any case, and with it as much as in any other response. Where the state
        // leaves next to no room, it is not to be sent once for each error.
        let room = limit.checked_sub(body.bytes.len()).unwrap_or(limit).max(limit / LEAST_ROOM);
        let mut errors = Parts::new(self.form(), room);
        let (mut cause, mut slot) = (None, self.session.due.first());
        while let Some(edge) = self.edges.at(slot) {
            let (resource, standing) = (edge.resource, edge.standing);
            let next = self.edges.next(Chain::Due, slot);
            // Errors are for who names the resource, not for who has to be told that it is gone (M178).
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
                // The state is without it, so that the client has it no longer.
                (Some(Room::Taken), Some(edge)) => edge.sent = 0,
                _ => {}
            }
            slot = next;
        }
        // What lingers and this view never had is left out already: nothing is left to be told later (M223).
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

    /// What an edge leads to is sent with all the rest, or is not there.
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

    /// Whether the wildcard has lost anything that is not repeated.
    fn tells_of_graves(&self) -> bool {
        let wildcard = self.session.wildcard.filter(|_| self.session.needs_ghosts(self.arena));
        let lost =
            wildcard.map(|wildcard| self.arena.lost(Knows::all(wildcard.told), wildcard.reached));
        lost.is_some_and(|mut lost| lost.next().is_some())
    }

    /// All named resources that exist. The version is that of exactly these: who has a part of the
    /// state must not be taken for one who has all of it when he comes back (B06).
    fn named_body(&self) -> (Body, TypeVersion) {
        let mut parts = Parts::new(self.form(), usize::MAX);
        let version = self.for_each_named(|name, payload| {
            parts.push(name, payload);
        });
        (parts.into_body(), version)
    }

    /// The version of all named resources that exist.
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
            // What an error stands for is not listed beside it (M172).
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

    /// What is new to the client or changed (M75), as much as fits (M83).
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
        // The common case: nothing but the wildcard, whose bytes all such clients share.
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
