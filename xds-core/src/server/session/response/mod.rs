//! Responses: rendering of the due response when the transport has room.
//!
//! A response counts as sent when it is rendered. It includes every earlier change and excludes
//! everything unsubscribed earlier.
// M73, M67

pub(crate) mod delta;
pub(crate) mod errors;
pub(crate) mod heartbeat;
pub(crate) mod on_change;
pub(crate) mod seal;
pub(crate) mod sotw;
pub(crate) mod stated_version;

use alloc::vec::Vec;
use core::{mem, num::NonZeroU64};

use self::{errors::Errors, stated_version::Extent};
use super::{
    CatchUp, First, Haste, Owed, Purpose, Sends, Stamp, WarmingState, Wildcard, Withdrawn,
    context::Turn,
    deferred_removal::Portion,
    subscription::{Chain, Due, Ride, Standing},
    window::{Answer, Sent},
};
use crate::{
    server::{
        config::Absence,
        event::Cause,
        store::{
            encode::body::{Body, Parts, Room},
            version::content::TypeVersion,
        },
    },
    slab::Slot,
    text::{ResourceName, Version},
    time::Time,
    zoo::{self, Bug},
};

/// Response without its envelope.
#[derive(Clone, Debug)]
pub(crate) struct Rendered {
    pub(crate) body: Body,
    pub(crate) errors: Errors,
    /// Resources reported as too long, with their lengths in bytes.
    pub(crate) too_long: Vec<(ResourceName, usize)>,
    pub(crate) version: Version,
    pub(crate) cause: Cause,
}

impl Turn<'_> {
    /// Renders the due contents under the nonce `nonce`. Returns `None` if the client turns out
    /// to have everything.
    pub(crate) fn render(
        &mut self,
        nonce: NonZeroU64,
        limit: usize,
        time: Time,
        portion: Portion,
    ) -> Option<Rendered> {
        if !self.session.is_due(self.arena) {
            return None;
        }
        let content = match portion {
            Portion::Heartbeats => None,
            Portion::Everything | Portion::Additions | Portion::Unanswered => {
                self.render_content(nonce, limit, time, portion)
            }
        };
        let content = content.or_else(|| self.render_heartbeats(nonce, limit, time));
        content.or_else(|| self.recover(nonce, time))
    }

    fn render_content(
        &mut self,
        nonce: NonZeroU64,
        limit: usize,
        time: Time,
        portion: Portion,
    ) -> Option<Rendered> {
        if !self.session.lacks_something(self.arena) {
            return None;
        }
        match portion {
            Portion::Everything => {
                self.edges.release_withheld(&mut self.session.due);
                self.release_bereft();
            }
            Portion::Additions | Portion::Unanswered | Portion::Heartbeats => {
                self.let_graves_linger();
                if !self.session.has_additions(self.arena) {
                    // Withheld removals are no reason for a response, whatever heartbeats are
                    // sent.
                    return None;
                }
            }
        }
        if self.session.warming == WarmingState::Armed {
            // A response after clusters for another reason also completes warming.
            self.session.warming = WarmingState::Off;
            self.owe_everything(Cause::Warming);
        }
        // Resources that a wildcard also covers would be sent twice.
        let is_apart =
            self.session.sends(self.arena) != Sends::FullState && self.session.wildcard.is_none();
        let portion = match portion {
            Portion::Unanswered if !is_apart => Portion::Additions,
            portion => portion,
        };
        if portion != Portion::Unanswered {
            self.let_suspects_ride();
            self.let_meanings_ride();
        }
        let before = self.session.wildcard;
        let from = before.map_or(Stamp::START, |wildcard| wildcard.cursor);
        let reached = self.session.reached();
        let (body, version, cause) = match self.session.sends(self.arena) {
            Sends::FullState => self.render_full_state(nonce.get(), limit)?,
            Sends::Changes => {
                let (body, cause) = self.render_changes(nonce.get(), limit, portion)?;
                (body, self.arena.version, cause)
            }
            Sends::ChangesAndRemovals => {
                let (body, cause) = self.render_incremental(nonce.get(), limit, portion)?;
                (body, self.arena.version, cause)
            }
        };
        let cause = match self.session.first {
            First::Unanswered | First::Owed => Cause::First,
            First::Answered => cause,
        };
        self.note_state(nonce);
        self.session.first = First::Answered;
        self.session.withdrawn = Withdrawn::Nothing;
        if self.session.due.is_empty() {
            self.session.haste = Haste::CanWait;
        }
        let to = self.session.wildcard.map_or(from, |wildcard| wildcard.cursor);
        let what = (body, (version, Extent::Subscribed), cause);
        let rendered = self.send(nonce, (from, to), reached, time, what);
        self.note_renewed(nonce, before);
        Some(rendered)
    }

    /// Renders one of the resources that the client rejected together.
    fn recover(&mut self, nonce: NonZeroU64, time: Time) -> Option<Rendered> {
        if !self.session.has_probe() {
            return None;
        }
        let (body, version, stamp) = self.render_probe(nonce)?;
        let part = match self.session.wildcard {
            Some(_) => (stamp.before(), stamp),
            None => (Stamp::START, Stamp::START),
        };
        let what = (body, (version, Extent::Other), Cause::Recovery);
        Some(self.send(nonce, part, self.session.reached(), time, what))
    }

    /// Records a rendered response as sent. It advances the wildcard cursor from `from` to `to`;
    /// the cursor had been as far as `reached`.
    fn send(
        &mut self,
        nonce: NonZeroU64,
        (from, to): (Stamp, Stamp),
        reached: Stamp,
        time: Time,
        (body, (content, extent), cause): (Body, (TypeVersion, Extent), Cause),
    ) -> Rendered {
        let at = self.arena.clock();
        let (version, content) = (self.state(content, extent), content.stated());
        let (answer, verdict, purpose) = (Answer::Pending, Answer::Pending, Purpose::Content);
        let alarm = Slot::NONE;
        let sent =
            Sent { nonce, version, content, from, to, at, time, alarm, answer, purpose, verdict };
        self.session.note_sent(self.arena, reached);
        if self.tells_deletions || body.removed > self.absences {
            self.session.note_deleting(nonce);
        }
        self.session.put_on_way(sent, self.arena);
        self.session.counts.responses.add_one();
        let (errors, too_long) = (mem::take(&mut self.errors), mem::take(&mut self.too_long));
        Rendered { body, errors, too_long, version: self.print(version), cause }
    }

    /// Adds resources changed after the wildcard's cursor, as many as fit. Returns the new
    /// cursor.
    pub(crate) fn gather(&mut self, wildcard: Wildcard, parts: &mut Parts) -> Stamp {
        let (edges, session, own) = (&*self.edges, &*self.session, self.slot);
        self.arena.gather(wildcard.cursor, parts, |slot, resource| {
            // A client that was sent an error by name may have dropped the resource (M178).
            wildcard.catch_up == CatchUp::Everything
                || resource.error.is_some()
                || !session.has(own, slot, edges)
        })
    }

    /// Adds the resources of due subscriptions, all of them or the unanswered ones, as many as
    /// fit. Returns the strongest reason for one. Resources in the part `walked` of the wildcard
    /// are included already.
    pub(crate) fn take_due(
        &mut self,
        parts: &mut Parts,
        nonce: u64,
        walked: Option<(Stamp, Stamp)>,
        portion: Portion,
    ) -> Option<Cause> {
        let tells_removals = self.session.sends(self.arena) == Sends::ChangesAndRemovals;
        // The walk may cover further subscriptions after one that does not fit.
        let is_walk_empty = walked.is_none_or(|(from, to)| from == to);
        let mut cause = None;
        let mut slot = self.session.due.first();
        while let Some(edge) = self.edges.at(slot) {
            let next = self.edges.next(Chain::Due, slot);
            if portion == Portion::Unanswered && !edge.is_unanswered() {
                slot = next;
                continue;
            }
            let (at, standing) = (edge.resource, edge.standing);
            let parting = standing.is_passing();
            let has_had_it = edge.sent != 0;
            // Only a client that names the resource is sent its error, not one that is due a
            // removal (M178).
            let error = match standing.is_subscribed() {
                true => self.push_error_into(at, parts),
                false => None,
            };
            if error == Some(Room::Full) {
                if is_walk_empty {
                    break;
                }
                slot = next;
                continue;
            }
            if error == Some(Room::Taken) {
                let due = self.edges.clear_due(&mut self.session.due, slot);
                cause = cause.min_some(due.map(|due| due.cause));
                if self.arena.payload(at).is_none() || self.session.is_told_too_long(at) {
                    // When the error ends, the client must be sent that.
                    self.edges.set_sent(&mut self.session.edges, slot, nonce);
                }
                slot = next;
                continue;
            }
            let Some(resource) = self.arena.at(at) else { break };
            let stamp = resource.stamp;
            let covered = walked.is_some_and(|(from, to)| stamp > from && stamp <= to);
            let beyond = walked.is_some_and(|(_, to)| stamp > to);
            let exists = resource.payload.is_some();
            match &resource.payload {
                // The wildcard sends it in the next response.
                Some(_) if beyond => {}
                // No room for this one. Resources covered by the walk still have to leave the
                // list.
                Some(payload) if !covered && parts.push(&resource.name, payload) == Room::Full => {
                    if is_walk_empty {
                        break;
                    }
                }
                payload => {
                    // A glob is represented by its members, if any, and an alias by its resource.
                    let is_alias = !has_had_it && self.meaning(at).is_some();
                    let is_spoken_for =
                        payload.is_none() && (is_alias || self.arena.has_members(at));
                    if payload.is_none() && tells_removals && !is_spoken_for {
                        let room = match self.arena.config.absence {
                            Absence::EmptyResource if !has_had_it => {
                                parts.push_absence(&resource.name)
                            }
                            _ => parts.remove(&resource.name, self.session.spelling),
                        };
                        if room == Room::Full {
                            if is_walk_empty {
                                break;
                            }
                            slot = next;
                            continue;
                        }
                        self.absences += usize::from(!has_had_it);
                    }
                    let due = self.edges.clear_due(&mut self.session.due, slot);
                    if !is_spoken_for {
                        cause = cause.min_some(due.map(|due| due.cause));
                    }
                    if parting || standing == Standing::Covered && !exists {
                        self.disconnect(slot);
                    } else if due.is_some_and(|due| due.ride != Ride::Along) {
                        let sent = if exists { nonce } else { 0 };
                        self.note_in_response(slot, nonce);
                        self.edges.set_sent(&mut self.session.edges, slot, sent);
                    }
                }
            }
            slot = next;
        }
        cause
    }

    /// Records in a subscription that the response with this nonce contains the resource or its
    /// removal.
    pub(crate) fn note_in_response(&mut self, slot: Slot, nonce: u64) {
        let accepted = self.session.accepted_response(self.arena, Stamp::START);
        let is_covered = self.session.wildcard.is_some();
        let Some(edge) = self.edges.at_mut(slot) else { return };
        match self.arena.payload(edge.resource) {
            None => edge.note_gone_in(nonce),
            Some(_) if is_covered => edge.note_in_with_others(),
            Some(_) => edge.note_in(nonce, accepted.map_or(0, |it| it.nonce.get())),
        }
    }

    /// Re-sends the rest of the rejected resources once, together with the first later change.
    // M107, IS4
    pub(crate) fn let_suspects_ride(&mut self) {
        let Some(suspects) = self.session.suspects() else { return };
        if !self.has_change_after(suspects.until) {
            return;
        }
        self.session.with_rare(|rare| rare.suspects = None);
        self.forget_refused();
        let may_tell_again = !self.session.lingers() && self.session.due.withheld().is_empty();
        let mut slot = self.session.edges.last();
        while let Some(edge) = self.edges.at(slot)
            && edge.sent >= suspects.first.get()
        {
            let previous = self.edges.previous(Chain::Session, slot);
            let exists = self.arena.payload(edge.resource).is_some();
            if exists && suspects.have(edge) && edge.standing.is_subscribed() {
                let due = Due::because(Cause::Changed).along();
                self.edges.set_due(&mut self.session.due, slot, due);
            }
            slot = previous;
        }
        let least = if self.session.named == 0 { self.session.began() } else { Stamp::START };
        if let Some(wildcard) = &mut self.session.wildcard {
            if suspects.from < wildcard.cursor {
                wildcard.rode = wildcard.cursor;
                wildcard.cursor = suspects.from;
            }
            // A client that rejected the response as a whole did not process its removals (IS11).
            // Deferred removals have their own subscriptions and order.
            if may_tell_again {
                wildcard.told = wildcard.told.min(suspects.told.max(least));
                self.session.with_rare(|rare| rare.telling = None);
            }
        }
    }

    /// Whether anything is due that changed after `stamp`.
    fn has_change_after(&self, stamp: Stamp) -> bool {
        let is_newer = |slot| self.arena.at(slot).is_some_and(|resource| resource.stamp > stamp);
        let newest = self.arena.newest();
        let has_newer = |wildcard: Wildcard| {
            newest > stamp.max(wildcard.owed.map_or(wildcard.cursor, |owed| owed.at))
        };
        let has_lost = |wildcard: Wildcard| {
            self.session.sends(self.arena) == Sends::ChangesAndRemovals
                && !self.session.lingers()
                && self.arena.tells_removals()
                && self.arena.newest_grave() > stamp.max(wildcard.told)
                // Resources removed before the client was sent them need no removal.
                && self
                    .arena
                    .lost(self.session.knows(&wildcard), wildcard.reached)
                    .any(|(_, resource)| resource.stamp > stamp)
        };
        if self.session.wildcard.is_some_and(|it| has_newer(it) || has_lost(it)) {
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

    /// Records that the wildcard was sent up to `to`.
    pub(crate) fn advance(&mut self, to: Stamp) {
        let (newest, clock) = (self.arena.newest(), self.arena.clock());
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.cursor = to;
            wildcard.reached = wildcard.reached.max(to);
            if !zoo::is(Bug::DeletionToldTwice) {
                wildcard.told = clock;
            }
            if to >= newest {
                wildcard.owed = None;
                wildcard.catch_up = CatchUp::Everything;
                self.forget_remembered();
            }
        }
    }
}

impl Wildcard {
    /// Returns the reason for a response that advances the wildcard to `to`.
    pub(crate) fn reason(&self, to: Stamp) -> Cause {
        match self.owed {
            Some(Owed { cause, at, .. }) if to <= at => cause,
            Some(Owed { cause, .. }) => cause.min(Cause::Changed),
            None => Cause::Changed,
        }
    }
}

/// Minimum of two optional reasons, that is, the stronger one.
pub(crate) trait MinSome {
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
