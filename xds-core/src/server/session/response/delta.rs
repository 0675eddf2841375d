//! What an incremental response consists of: resources that are new to the client, and names of what is
//! gone or never was.

use alloc::{collections::BTreeSet, vec::Vec};
use core::mem;

use super::MinSome as _;
use crate::{
    server::{
        config::WildcardExit,
        event::Cause,
        session::{
            CatchUp, Claim, Session, Wildcard,
            context::Turn,
            deferred_removal::Portion,
            extras::Telling,
            subscription::{Chain, Edge, Standing},
        },
        store::{
            arena::tombstones::Knows,
            encode::body::{Body, Parts, Room},
            revision::Stamp,
        },
    },
    slab::Slot,
    text::ResourceName,
    wire::request::Spelling,
};

impl Turn<'_> {
    /// What the client lacks, as much as fits.
    pub(crate) fn render_incremental(
        &mut self,
        nonce: u64,
        limit: usize,
        portion: Portion,
    ) -> Option<(Body, Cause)> {
        if portion == Portion::Unanswered {
            let mut parts = self.parts(limit);
            let cause = self.take_due(&mut parts, nonce, None, portion);
            return Some((self.finish(parts), cause?));
        }
        if let Some(wildcard) = self.session.wildcard.filter(|it| self.shares_bytes(it)) {
            let knows = self.knows(&wildcard);
            let tail = self.arena.tail_body(self.form(), wildcard.cursor, Some(knows), limit);
            self.advance_telling(tail.to, tail.partly, nonce);
            let reason = wildcard.reason_for(tail.body.is_empty(), tail.to);
            return reason.map(|reason| (tail.body, reason));
        }
        let mut parts = self.parts(limit);
        let (mut cause, mut walked) = (None, None);
        if let Some(wildcard) = self.session.wildcard {
            let partly = self.gather_graves(wildcard, &mut parts);
            // Until all that is gone is told, it matters how far the client had come.
            let to = match partly {
                Some(_) => wildcard.cursor,
                None => self.gather(wildcard, &mut parts),
            };
            cause = wildcard.reason_for(parts.is_empty(), to);
            walked = Some((wildcard.cursor, to, partly));
        }
        if self.say_farewell(&mut parts, walked.map(|(_, to, _)| to)) {
            let why = if self.tells_losses { Cause::Changed } else { Cause::Resubscribed };
            cause = cause.min_some(Some(why));
        }
        let named =
            self.take_due(&mut parts, nonce, walked.map(|(from, to, _)| (from, to)), portion);
        if let Some((_, to, partly)) = walked {
            self.advance_telling(to, partly, nonce);
        }
        Some((self.finish(parts), cause.min_some(named)?))
    }

    /// The wildcard has been sent up to `to`, and what is gone is told: all of it, or up to a position.
    fn advance_telling(&mut self, to: Stamp, partly: Option<Stamp>, nonce: u64) {
        let Some(Wildcard { told, .. }) = self.session.wildcard else { return };
        if partly.is_none() {
            self.advance(to);
        }
        let before = self.session.rare.as_deref().and_then(|rare| rare.telling);
        let is_going_on = partly.is_some() || before.is_some_and(|it| it.partly.is_some());
        if is_going_on {
            let since = before.map_or(told, |before| before.since);
            self.session.rare_mut().telling = Some(Telling { since, partly, last: nonce });
        }
    }

    /// The common case: nothing but the wildcard, whose bytes all such clients share. Which deletions
    /// concern a client depends on how far it ever was, so it has to be there still, unless there are
    /// none; and on the errors that it may have been told by name.
    fn shares_bytes(&self, wildcard: &Wildcard) -> bool {
        self.session.due.is_empty()
            && !self.isolates()
            && !self.session.owes_farewell()
            && self.session.spelling == Spelling::Names
            && wildcard.catch_up == CatchUp::Everything
            && (self.arena.newest_grave() <= wildcard.told
                || wildcard.reached == wildcard.cursor && self.session.named == 0)
    }

    /// What the client knows of deletions: everything, if it is to keep what it has (M133).
    fn knows(&self, wildcard: &Wildcard) -> Knows {
        match self.arena.tells_removals() {
            true => self.session.knows(wildcard),
            false => Knows::all(self.arena.clock()),
        }
    }

    /// Adds the names of what the wildcard has lost, as many as fit. Names that are due anyhow are left to
    /// that, and those that have an error to the error, which is told by name (IS28).
    fn gather_graves(&self, wildcard: Wildcard, parts: &mut Parts) -> Option<Stamp> {
        let (edges, own) = (&*self.edges, self.slot);
        let is_due = |resource: Slot| {
            let edge = edges.find(own, resource).and_then(|slot| edges.at(slot));
            let has_error =
                |edge: &Edge| edge.standing == Standing::Named && self.error_of(resource).is_some();
            edge.is_some_and(|edge| edge.due.is_some() || has_error(edge))
        };
        // What was gone before it was asked for as part of everything, the client has by name or not at all.
        let was_had = |resource: Slot| {
            let stamp = self.arena.at(resource).map(|resource| resource.stamp);
            let edge = || edges.find(own, resource).and_then(|slot| edges.at(slot));
            stamp.is_none_or(|stamp| stamp > self.session.began())
                || edge().is_some_and(Edge::was_ever_sent)
        };
        let (knows, spelling) = (self.knows(&wildcard), self.session.spelling);
        let is_news = |slot| !is_due(slot) && was_had(slot);
        self.arena.gather_graves(knows, wildcard.reached, parts, spelling, is_news)
    }

    /// Names what only the wildcard covered that the client has left, unless it has been named since
    /// (M93), or is brought, or told to be gone, as part of everything again; as much of it as fits. What there is of
    /// everything behind `to` is not brought yet, and may still go.
    fn say_farewell(&mut self, parts: &mut Parts, to: Option<Stamp>) -> bool {
        let mut names = BTreeSet::new();
        self.session.with_rare(|rare| names = mem::take(&mut rare.farewell));
        let wildcard = self.session.wildcard;
        let mut brought = BTreeSet::new();
        if let Some(to) = to {
            let is_behind = |name: &&ResourceName| {
                let found = self.arena.find(name.as_str()).and_then(|slot| self.arena.at(slot));
                found.is_some_and(|it| it.payload.is_some() && it.stamp > to)
            };
            brought = names.iter().filter(is_behind).cloned().collect();
            names.retain(|name| !brought.contains(name));
        }
        let mut is_told = |name: &ResourceName| {
            let slot = self.arena.find(name.as_str());
            let has_edge = slot.and_then(|slot| self.edges.find(self.slot, slot)).is_some();
            let is_covered = slot.zip(wildcard).is_some_and(|(slot, wildcard)| {
                self.arena.payload(slot).is_some()
                    || self.arena.is_known(slot, wildcard.reached, wildcard.told)
            });
            has_edge || is_covered || parts.remove(name, self.session.spelling) == Room::Taken
        };
        let count = names.len();
        while let Some(name) = names.pop_first() {
            if !is_told(&name) {
                names.insert(name);
                break;
            }
        }
        let told = count - names.len();
        names.append(&mut brought);
        if !names.is_empty() {
            self.session.rare_mut().farewell = names;
        }
        told > 0
    }

    /// The client is about to leave the wildcard: what it has from that and something else stands for as well, it keeps,
    /// and is told if it goes. Costs what it has besides, if the wildcard was ever sent anything.
    pub(crate) fn note_what_it_has(&mut self) {
        let sent = self.session.wildcard.filter(|wildcard| wildcard.reached != Stamp::START);
        let Some(Wildcard { reached, told, .. }) = sent else { return };
        let mut slot = self.session.edges.first();
        let mut had = Vec::new();
        while let Some(edge) = self.edges.at(slot).filter(|edge| edge.sent == 0) {
            if edge.standing.is_subscribed() && self.arena.is_known(edge.resource, reached, told) {
                had.push(slot);
            }
            slot = self.edges.next(Chain::Session, slot);
        }
        // It came with the newest response or before, and edges are in the order of these.
        let nonce = self.session.newest_nonce().max(1);
        for slot in had {
            self.edges.set_sent(&mut self.session.edges, slot, nonce);
        }
    }

    /// Prepares a farewell to everything that the client has from the wildcard alone. Costs what there is of the type
    /// if the wildcard was ever sent anything, and otherwise what the client has besides.
    pub(crate) fn prepare_farewell(&mut self) {
        if self.arena.config.wildcard_exit != WildcardExit::Farewell {
            return;
        }
        let Some(wildcard) = self.session.wildcard else { return };
        let known = wildcard.reached;
        let name_of = |slot: Slot| Some(self.arena.at(slot)?.name.clone());
        if known == Stamp::START {
            let apart = self.session.rare.iter().flat_map(|rare| &rare.apart);
            let edges = apart.filter_map(|&slot| self.edges.at(slot));
            let names = edges.filter(|edge| edge.sent != 0).filter_map(|it| name_of(it.resource));
            let names: BTreeSet<_> = names.collect();
            if !names.is_empty() {
                self.session.rare_mut().farewell.extend(names);
            }
            return;
        }
        let covered_by_wildcard_alone = |&slot: &Slot| {
            let edge = self.edges.find(self.slot, slot).and_then(|edge| self.edges.at(edge));
            match edge {
                Some(edge) if edge.standing.is_subscribed() => false,
                Some(edge) if edge.sent != 0 => true,
                _ => self.arena.is_known(slot, known, wildcard.told),
            }
        };
        let slots = self.arena.slots().filter(covered_by_wildcard_alone);
        let names: BTreeSet<_> = slots.filter_map(name_of).collect();
        if !names.is_empty() {
            self.session.rare_mut().farewell.extend(names);
        }
    }
}

impl Session {
    /// The newest change when the client went over to everything; the first one if it has accepted anything since, or
    /// had nothing before.
    pub(crate) fn began(&self) -> Stamp {
        self.rare.as_deref().map_or(Stamp::START, |rare| rare.began)
    }

    /// What the client knows of what its wildcard has lost.
    pub(crate) fn knows(&self, wildcard: &Wildcard) -> Knows {
        let telling = self.rare.as_deref().and_then(|rare| rare.telling);
        let partly = telling.and_then(|telling| telling.partly);
        Knows { told: wildcard.told, partly: partly.unwrap_or(wildcard.told) }
    }
}

impl Wildcard {
    /// Why a response is sent that takes the wildcard up to `to`, if it is. One with nothing in it is an answer (M97, M100,
    /// M126).
    fn reason_for(&self, is_empty: bool, to: Stamp) -> Option<Cause> {
        let reason = self.reason(to);
        match self.claim() {
            _ if !is_empty => Some(reason),
            Claim::Answer if reason == Cause::First => Some(reason),
            Claim::Answer => Some(Cause::Resubscribed),
            Claim::Nothing => None,
        }
    }
}
