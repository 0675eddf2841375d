//! What a state-of-the-world response consists of.

use super::{
    CatchUp, Turn,
    edge::{Chain, Standing},
    render::MinSome as _,
};
use crate::server::{
    event::Cause,
    store::{
        arena::Resource,
        body::{Body, Parts},
        version::TypeVersion,
    },
};

impl Turn<'_> {
    /// All subscribed resources that exist (M74, M76, M79-M81).
    pub(super) fn render_full_state(&mut self, nonce: u64) -> (Body, TypeVersion, Cause) {
        let mut cause = None;
        while !self.session.due.is_empty() {
            let slot = self.session.due.first();
            let due = self.edges.clear_due(&mut self.session.due, slot);
            cause = cause.min_some(due.map(|due| due.cause));
            let Some(resource) = self.edges.at(slot).map(|edge| edge.resource) else { break };
            if self.push_error(resource) {
                continue;
            }
            let exists = self.arena.payload(resource).is_some();
            let Some(edge) = self.edges.at_mut(slot) else { break };
            edge.sent = if exists { nonce } else { 0 };
            if edge.standing == Standing::Covered && !exists {
                self.disconnect(slot);
            }
        }
        let newest = self.arena.newest();
        let Some(wildcard) = &mut self.session.wildcard else {
            let (body, version) = self.named_body();
            return (body, version, cause.unwrap_or(Cause::Changed));
        };
        let why = match wildcard.owed.take() {
            Some(owed) if newest <= owed.at => owed.cause,
            Some(owed) => owed.cause.min(Cause::Changed),
            None if wildcard.version != self.arena.version => Cause::Changed,
            // Due for a name that the wildcard covers, too.
            None => cause.unwrap_or(Cause::Changed),
        };
        wildcard.version = self.arena.version;
        let body = self.arena.full_body(self.form().ttls);
        (body, self.arena.version, cause.min_some(Some(why)).unwrap_or(why))
    }

    /// All named resources that exist. The version is that of exactly these: who has a part of the
    /// state must not be taken for one who has all of it when he comes back (B06).
    fn named_body(&self) -> (Body, TypeVersion) {
        let mut version = TypeVersion::default();
        let mut parts = Parts::new(self.form(), usize::MAX);
        let mut slot = self.session.edges.last();
        while let Some(edge) = self.edges.at(slot) {
            // What an error stands for is not listed beside it (M172).
            if let Some(Resource { name, payload: Some(payload), error: None, .. }) =
                self.arena.at(edge.resource)
            {
                parts.push(name, payload);
                version.add(name.as_str(), payload.hash);
            }
            slot = self.edges.previous(Chain::Session, slot);
        }
        (parts.into_body(), version)
    }

    /// What is new to the client or changed (M75), as much as fits (M83).
    pub(super) fn render_changes(&mut self, nonce: u64, limit: usize) -> Option<(Body, Cause)> {
        self.let_suspects_ride();
        let Some(wildcard) = self.session.wildcard else {
            let mut parts = Parts::new(self.form(), limit);
            let cause = self.take_due(&mut parts, nonce, None);
            return Some((parts.into_body(), cause?));
        };
        let from = wildcard.cursor;
        // The common case: nothing but the wildcard, whose bytes all such clients share.
        if self.session.due.is_empty() && wildcard.catch_up == CatchUp::Everything {
            let tail = self.arena.tail_body(self.form(), from, None, limit);
            self.advance(tail.to);
            return (tail.body.resources > 0).then(|| (tail.body, wildcard.reason(tail.to)));
        }
        let mut parts = Parts::new(self.form(), limit);
        let to = self.gather(wildcard, &mut parts);
        let walked = (!parts.is_empty()).then(|| wildcard.reason(to));
        let named = self.take_due(&mut parts, nonce, Some((from, to)));
        self.advance(to);
        Some((parts.into_body(), walked.min_some(named)?))
    }
}
