//! Making the one response that is due, when the transport has room for it.
//!
//! This is the moment at which a response counts as sent (M73): whatever changed before is in it,
//! whatever was unsubscribed before is not (M67).

use core::num::NonZeroU64;

use super::{
    Answer, CatchUp, First, Sent, Stamp, Turn, WarmingState, Wildcard, Withdrawn,
    edge::{Chain, Due, Ride, Standing},
};
use crate::{
    server::{
        config::SotwResponse,
        event::Cause,
        store::{
            arena::{Body, Parts, Resource},
            version::TypeVersion,
        },
    },
    slab::Slot,
    text::Version,
};

/// A response without its envelope.
#[derive(Clone, Debug)]
pub(crate) struct Rendered {
    pub(crate) body: Body,
    pub(crate) version: Version,
    pub(crate) cause: Cause,
}

impl Turn<'_> {
    /// Renders what is due under the nonce `nonce`; nothing if it turns out that the client has it
    /// all.
    pub(crate) fn render(&mut self, nonce: NonZeroU64, limit: usize) -> Option<Rendered> {
        if !self.session.is_due(self.arena) {
            return None;
        }
        if self.session.warming == WarmingState::Armed {
            // What goes out after clusters for another reason settles the warming as well.
            self.session.warming = WarmingState::Off;
            self.owe_everything(Cause::Warming);
        }
        let from = self.session.wildcard.map_or(Stamp::START, |wildcard| wildcard.cursor);
        let (body, version, cause) = match self.arena.config.sotw_response {
            SotwResponse::FullState => self.render_full_state(nonce.get()),
            SotwResponse::Changes => {
                let (body, cause) = self.render_changes(nonce.get(), limit)?;
                (body, self.arena.version, cause)
            }
        };
        let cause = match self.session.first {
            First::Unanswered => Cause::First,
            First::Answered => cause,
        };
        let (version, at) = (version.stated(), self.arena.clock());
        self.session.first = First::Answered;
        self.session.withdrawn = Withdrawn::Nothing;
        self.session.newest = Some(Sent { nonce, version, from, at, answer: Answer::Pending });
        self.session.counts.responses += 1;
        Some(Rendered { body, version: self.arena.print(version), cause })
    }

    /// All subscribed resources that exist (M74, M76, M79-M81).
    fn render_full_state(&mut self, nonce: u64) -> (Body, TypeVersion, Cause) {
        let mut cause = None;
        while !self.session.due.is_empty() {
            let slot = self.session.due.first();
            let due = self.edges.clear_due(&mut self.session.due, slot);
            cause = cause.min_some(due.map(|due| due.cause));
            let Some(edge) = self.edges.at_mut(slot) else { break };
            let exists = self.arena.payload(edge.resource).is_some();
            edge.sent = if exists { nonce } else { 0 };
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
        (self.arena.full_body(), self.arena.version, cause.min_some(Some(why)).unwrap_or(why))
    }

    /// All named resources that exist. The version is that of exactly these: who has a part of the
    /// state must not be taken for one who has all of it when he comes back (B06).
    fn named_body(&self) -> (Body, TypeVersion) {
        let mut version = TypeVersion::default();
        let mut parts = Parts::new(usize::MAX);
        let mut slot = self.session.edges.last();
        while let Some(edge) = self.edges.at(slot) {
            if let Some(Resource { name, payload: Some(payload), .. }) =
                self.arena.at(edge.resource)
            {
                parts.push(payload);
                version.add(name.as_str(), payload.hash);
            }
            slot = self.edges.previous(Chain::Session, slot);
        }
        (parts.into_body(), version)
    }

    /// What is new to the client or changed (M75), as much as fits (M83).
    fn render_changes(&mut self, nonce: u64, limit: usize) -> Option<(Body, Cause)> {
        self.let_suspects_ride();
        let Some(wildcard) = self.session.wildcard else {
            let mut parts = Parts::new(limit);
            let cause = self.take_due(&mut parts, nonce, None);
            return Some((parts.into_body(), cause?));
        };
        let from = wildcard.cursor;
        let owed = |to: Stamp| match wildcard.owed {
            Some(owed) if to <= owed.at => owed.cause,
            Some(owed) => owed.cause.min(Cause::Changed),
            None => Cause::Changed,
        };
        // The common case: nothing but the wildcard, whose bytes all such clients share.
        if self.session.due.is_empty() && wildcard.catch_up == CatchUp::Everything {
            let tail = self.arena.tail_body(from, limit);
            self.advance(tail.to);
            return (tail.body.resources > 0).then(|| (tail.body, owed(tail.to)));
        }
        let mut parts = Parts::new(limit);
        let to = self.arena.gather(from, &mut parts, |resource| {
            wildcard.catch_up == CatchUp::Everything || !self.client_has(resource)
        });
        let walked = (!parts.is_empty()).then(|| owed(to));
        let named = self.take_due(&mut parts, nonce, Some((from, to)));
        self.advance(to);
        Some((parts.into_body(), walked.min_some(named)?))
    }

    /// Whether the client has been sent the resource as it is now, by name.
    fn client_has(&self, resource: Slot) -> bool {
        self.edges
            .find(self.slot, resource)
            .and_then(|slot| self.edges.at(slot))
            .is_some_and(|edge| self.session.holds(edge))
    }

    /// Adds the resources of due edges as far as they fit, and gives the strongest reason for one.
    /// What changed in the part of the wildcard's tail that was walked is in already.
    fn take_due(
        &mut self,
        parts: &mut Parts,
        nonce: u64,
        walked: Option<(Stamp, Stamp)>,
    ) -> Option<Cause> {
        let mut cause = None;
        let mut slot = self.session.due.first();
        while let Some(edge) = self.edges.at(slot) {
            let next = self.edges.next(Chain::Due, slot);
            let Some(resource) = self.arena.at(edge.resource) else { break };
            let stamp = resource.stamp;
            let covered = walked.is_some_and(|(from, to)| stamp > from && stamp <= to);
            let beyond = walked.is_some_and(|(_, to)| stamp > to);
            match &resource.payload {
                // The wildcard gets there in the next response.
                Some(_) if beyond => {}
                // No room for this one. What the walk covers must still be taken off the list.
                Some(payload) if !covered && !parts.push(payload) => {
                    if walked.is_none() {
                        break;
                    }
                }
                _ => {
                    let due = self.edges.clear_due(&mut self.session.due, slot);
                    cause = cause.min_some(due.map(|due| due.cause));
                    if due.is_some_and(|due| due.ride == Ride::OwnReason) {
                        self.edges.set_sent(&mut self.session.edges, slot, nonce);
                    }
                }
            }
            slot = next;
        }
        cause
    }

    /// The first change after a rejection takes the rest of what was rejected along, once (M107,
    /// IS4).
    fn let_suspects_ride(&mut self) {
        let Some(suspects) = self.session.suspects else { return };
        if !self.has_change_after(suspects.until) {
            return;
        }
        self.session.suspects = None;
        let mut slot = self.session.edges.last();
        while let Some(edge) = self.edges.at(slot)
            && edge.sent >= suspects.first.get()
        {
            let previous = self.edges.previous(Chain::Session, slot);
            let exists = self.arena.payload(edge.resource).is_some();
            if exists && suspects.have(edge) && edge.standing == Standing::Named {
                let due = Due { cause: Cause::Changed, ride: Ride::Along };
                self.edges.set_due(&mut self.session.due, slot, due);
            }
            slot = previous;
        }
        if let Some(wildcard) = &mut self.session.wildcard
            && suspects.from < wildcard.cursor
        {
            wildcard.rode = wildcard.cursor;
            wildcard.cursor = suspects.from;
        }
    }

    /// Whether anything is due that changed after `stamp`.
    fn has_change_after(&self, stamp: Stamp) -> bool {
        let is_newer = |slot| self.arena.at(slot).is_some_and(|resource| resource.stamp > stamp);
        let newest = self.arena.newest();
        let has_newer = |wildcard: Wildcard| {
            newest > stamp.max(wildcard.owed.map_or(wildcard.cursor, |owed| owed.at))
        };
        if self.session.wildcard.is_some_and(has_newer) {
            return true;
        }
        let mut slot = self.session.due.first();
        while let Some(edge) = self.edges.at(slot) {
            if edge.due.is_some_and(|due| due.cause == Cause::Changed) && is_newer(edge.resource) {
                return true;
            }
            slot = self.edges.next(Chain::Due, slot);
        }
        false
    }

    /// The wildcard has been sent up to `to`.
    fn advance(&mut self, to: Stamp) {
        let newest = self.arena.newest();
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.cursor = to;
            if to >= newest {
                wildcard.owed = None;
                wildcard.catch_up = CatchUp::Everything;
                self.forget_remembered();
            }
        }
    }
}

/// The stronger of two reasons, where there are any.
trait MinSome {
    fn min_some(self, other: Self) -> Self;
}

impl MinSome for Option<Cause> {
    fn min_some(self, other: Self) -> Self {
        match (self, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }
}
