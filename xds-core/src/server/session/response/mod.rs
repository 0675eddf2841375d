//! Making the one response that is due, when the transport has room for it.
//!
//! This is the moment at which a response counts as sent (M73): whatever changed before is in it,
//! whatever was unsubscribed before is not (M67).

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

/// A response without its envelope.
#[derive(Clone, Debug)]
pub(crate) struct Rendered {
    pub(crate) body: Body,
    pub(crate) errors: Errors,
    /// What is told to be too long, in bytes.
    pub(crate) too_long: Vec<(ResourceName, usize)>,
    pub(crate) version: Version,
    pub(crate) cause: Cause,
}

impl Turn<'_> {
    /// Renders what is due under the nonce `nonce`; nothing if it turns out that the client has it
    /// all.
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
                    // What waits to be told is no news, whatever heartbeats go out meanwhile.
                    return None;
                }
            }
        }
        if self.session.warming == WarmingState::Armed {
            // What goes out after clusters for another reason settles the warming as well.
            self.session.warming = WarmingState::Off;
            self.owe_everything(Cause::Warming);
        }
        // What a wildcard covers as well would come twice.
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

    /// Sends what was rendered, with this part of the wildcard, which had been as far as `reached`.
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

    /// Adds what was set behind the wildcard's cursor, as far as it fits; says how far that is.
    pub(crate) fn gather(&mut self, wildcard: Wildcard, parts: &mut Parts) -> Stamp {
        let (edges, session, own) = (&*self.edges, &*self.session, self.slot);
        self.arena.gather(wildcard.cursor, parts, |slot, resource| {
            // Who was told an error by name may have let go of the resource (M178).
            wildcard.catch_up == CatchUp::Everything
                || resource.error.is_some()
                || !session.has(own, slot, edges)
        })
    }

    /// Adds the resources of due edges as far as they fit, all of them or the unanswered ones, and gives the strongest
    /// reason for one. What changed in the part of the wildcard's tail that was walked is in already.
    pub(crate) fn take_due(
        &mut self,
        parts: &mut Parts,
        nonce: u64,
        walked: Option<(Stamp, Stamp)>,
        portion: Portion,
    ) -> Option<Cause> {
        let tells_removals = self.session.sends(self.arena) == Sends::ChangesAndRemovals;
        // Of what is covered by a walk there may be more behind what does not fit.
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
            // Errors are for who names the resource, not for who has to be told that it is gone (M178).
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
                    // Should that be over, the client is to be told.
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
                // The wildcard gets there in the next response.
                Some(_) if beyond => {}
                // No room for this one. What the walk covers must still be taken off the list.
                Some(payload) if !covered && parts.push(&resource.name, payload) == Room::Full => {
                    if is_walk_empty {
                        break;
                    }
                }
                payload => {
                    // Of a glob with members, these are all there is to say; of an alias, what it stands for.
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

    /// What an edge leads to is in the response of this nonce, or that it is gone is.
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

    /// The first change after a rejection takes the rest of what was rejected along, once (M107,
    /// IS4).
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
            // Who refused the response as a whole has not taken note of what went (IS11). What lingers has
            // its edges, and its own order.
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
                // What came and went before the client was sent it, it is not told of.
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

    /// The wildcard has been sent up to `to`.
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
    /// Why a response is sent that takes the wildcard up to `to`.
    pub(crate) fn reason(&self, to: Stamp) -> Cause {
        match self.owed {
            Some(Owed { cause, at, .. }) if to <= at => cause,
            Some(Owed { cause, .. }) => cause.min(Cause::Changed),
            None => Cause::Changed,
        }
    }
}

/// The stronger of two reasons, where there are any.
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
