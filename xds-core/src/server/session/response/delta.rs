//! Contents of incremental responses: resources that are new to the client, and names of
//! resources that were removed or never existed.

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
    /// Renders the resources and removals that the client lacks, as many as fit.
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
            // Until all removals are sent, the previous cursor determines which ones concern the
            // client.
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

    /// Records that the wildcard was sent up to `to`, and removals completely or up to `partly`.
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

    /// Whether the response consists of the wildcard alone, so that all such clients share its
    /// bytes. This is the common case. The removals that concern a client depend on its highest
    /// cursor and on the errors sent to it by name. The cursor must therefore be the highest one
    /// and no names subscribed, unless there are no removals.
    fn shares_bytes(&self, wildcard: &Wildcard) -> bool {
        self.session.due.is_empty()
            && !self.isolates()
            && !self.session.owes_farewell()
            && self.session.spelling == Spelling::Names
            && wildcard.catch_up == CatchUp::Everything
            && (self.arena.newest_grave() <= wildcard.told
                || wildcard.reached == wildcard.cursor && self.session.named == 0)
    }

    /// Returns which removals the client was sent: all, if it is to keep removed resources.
    // M133
    fn knows(&self, wildcard: &Wildcard) -> Knows {
        match self.arena.tells_removals() {
            true => self.session.knows(wildcard),
            false => Knows::all(self.arena.clock()),
        }
    }

    /// Adds the names of removed resources that the wildcard covered, as many as fit. Names that
    /// are due anyway are left out, as are named resources with an error, which is sent by name.
    // IS28
    fn gather_graves(&self, wildcard: Wildcard, parts: &mut Parts) -> Option<Stamp> {
        let (edges, own) = (&*self.edges, self.slot);
        let is_due = |resource: Slot| {
            let edge = edges.find(own, resource).and_then(|slot| edges.at(slot));
            let has_error =
                |edge: &Edge| edge.standing == Standing::Named && self.error_of(resource).is_some();
            edge.is_some_and(|edge| edge.due.is_some() || has_error(edge))
        };
        // Resources removed before the wildcard subscription are had by name or not at all.
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

    /// Adds removals of resources that the client no longer subscribes to, as many as fit. Names
    /// are dropped if the client subscribed to them again or if the wildcard sends or removes
    /// them. Existing resources beyond `to` are kept for later, because the wildcard has not sent
    /// them yet.
    // M93
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

    /// Records which resources the client has from the wildcard it is about to leave and also by
    /// another subscription; it keeps them. Takes time proportional to its other subscriptions,
    /// if anything was sent for the wildcard.
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
        // The newest response or an earlier one contained it. Subscriptions are in the order of
        // these.
        let nonce = self.session.newest_nonce().max(1);
        for slot in had {
            self.edges.set_sent(&mut self.session.edges, slot, nonce);
        }
    }

    /// Prepares removals of all resources that the client has from the wildcard alone. Takes time
    /// proportional to the resources of the type if anything was sent for the wildcard, and
    /// otherwise to the client's other subscriptions.
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
    /// Returns the newest revision when the client subscribed to the wildcard. `START` if it has
    /// accepted a response since or had nothing before.
    pub(crate) fn began(&self) -> Stamp {
        self.rare.as_deref().map_or(Stamp::START, |rare| rare.began)
    }

    /// Returns which removals of the wildcard the client was sent.
    pub(crate) fn knows(&self, wildcard: &Wildcard) -> Knows {
        let telling = self.rare.as_deref().and_then(|rare| rare.telling);
        let partly = telling.and_then(|telling| telling.partly);
        Knows { told: wildcard.told, partly: partly.unwrap_or(wildcard.told) }
    }
}

impl Wildcard {
    /// Returns the reason for a response that advances the wildcard to `to`. An empty response is
    /// sent only as an answer.
    // M97, M100, M126
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
