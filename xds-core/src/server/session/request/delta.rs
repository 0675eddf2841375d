//! Requests of the incremental variant, which add and remove subscriptions.
//!
//! Added names are always answered, whatever the client is assumed to have. Changes of the
//! subscription apply whatever the nonce is. Additions are applied before removals.
// M96, M97, IS7; M110, IS3; M98

use alloc::{collections::BTreeSet, vec::Vec};
use core::mem;

use super::{ack::Surroundings, globs::canonical, names::WILDCARD};
use crate::{
    server::{
        event::{Asked, Cause},
        session::{
            CatchUp, Claim, Leftovers, Legacy, Past, Session, Wildcard,
            context::Turn,
            nack::rejection::Rejection,
            subscription::{Chain, Edge, Edges, Standing},
        },
        store::{arena::Arena, encode::body::Payload},
    },
    service::Variant,
    slab::Slot,
    time::Time,
    wire::request::{Request, Spelling},
    zoo::{self, Bug},
};

impl Session {
    /// Returns how many names a request adds to the subscribed ones, or states to have, whichever
    /// is more. Names repeated within the request count each time.
    pub(crate) fn names_added(
        &self,
        own: Slot,
        request: &Request<'_>,
        arena: &Arena,
        edges: &Edges,
    ) -> usize {
        let edge_of = |name: &str| edges.at(edges.find(own, arena.find(&canonical(name, arena))?)?);
        let is_new = |name: &&str| {
            let is_named = |edge: &Edge| edge.standing == Standing::Named;
            *name != WILDCARD && !edge_of(name).is_some_and(is_named)
        };
        let is_unknown = |name: &&str| edge_of(name).is_none();
        let stated = request.initial_versions().map(|(name, _)| name).filter(is_unknown).count();
        request.names().filter(is_new).count().max(stated)
    }
}

impl Turn<'_> {
    /// Handles one request of the session's type. `rejection` is its `error_detail`, if it has
    /// one.
    pub(crate) fn handle_changes(
        &mut self,
        request: &Request<'_>,
        rejection: Option<Rejection>,
        around: &mut Surroundings<'_>,
    ) -> Asked {
        let is_first = self.session.round == 0;
        let reading = self.take_answer(request, rejection, around);
        self.session.round = self.session.round.wrapping_add(1);
        if request.spelling == Spelling::Locators {
            self.session.spelling = Spelling::Locators;
        }
        let (before, cause, now) = (self.session.interest(), self.session.asked(), around.now);
        let mut changes = 0;
        if request.has_names() {
            let mut has_wildcard = false;
            for name in request.names() {
                changes += 1;
                // A wildcard repeated within one message adds nothing and would cost as much each
                // time.
                let is_again = name == WILDCARD && mem::replace(&mut has_wildcard, true);
                if !is_again {
                    self.subscribe(name, cause, now);
                }
            }
            let mut dropped = BTreeSet::new();
            for name in request.unsubscribed() {
                changes += 1;
                self.unsubscribe(name, cause, &mut dropped);
            }
        }
        if is_first {
            if changes == 0 && self.session.legacy == Legacy::Possible {
                self.enter_wildcard(cause);
            }
            self.session.legacy = Legacy::Left;
            for (name, version) in request.initial_versions() {
                self.session.with_rare(|rare| rare.owed_globs.globs.clear());
                self.session.past = Past::up_to(0);
                let name = canonical(name, self.arena);
                self.trust_version(&name, version);
            }
        }
        if self.session.interest() != before || is_first {
            self.observe_interest(around);
        }
        if changes > 0 || reading.is_answer() {
            self.forgive();
        }
        if changes > 0 || is_first { Asked::Something } else { Asked::Nothing }
    }

    fn subscribe(&mut self, name: &str, cause: Cause, now: Time) {
        if self.ignores_names() {
            return;
        }
        if name == WILDCARD {
            let owes_all = self.session.wildcard.is_some_and(|it| it.owes_all(cause));
            match &mut self.session.wildcard {
                None => self.enter_wildcard(cause),
                // All of it is already due, however often the client subscribes before it is sent
                // (IS25).
                Some(Wildcard { owed: Some(owed), .. }) if owes_all => {
                    (owed.at, owed.claim) = (self.arena.clock(), Claim::Answer);
                }
                // A repeated subscription: everything is sent again (M97).
                Some(_) => self.owe_everything(cause),
            }
            return;
        }
        let name = canonical(name, self.arena);
        if zoo::is(Bug::MissingNotRemembered) && !self.exists(&name) {
            return;
        }
        let Some(resource) = self.arena.slot_of(&*name) else { return };
        let round = self.session.round;
        let edge = match self.edges.find(self.slot, resource) {
            Some(edge) => {
                let Some(known) = self.edges.at_mut(edge) else { return };
                // Repeated within the message.
                if known.standing == Standing::Named && known.round == round {
                    return;
                }
                known.round = round;
                Some(edge)
            }
            None => self.connect(resource).inspect(|_| self.session.named += 1),
        };
        let Some(edge) = edge else { return };
        self.set_standing(edge, Standing::Named);
        self.want(resource);
        let is_alias = self.meaning(resource).is_some();
        if !is_alias && !self.is_asked_for(resource) && !self.grant_grace(edge, now) {
            self.make_due(edge, cause);
        }
        self.owe_members(resource, cause);
    }

    fn unsubscribe(&mut self, name: &str, cause: Cause, dropped: &mut BTreeSet<Slot>) {
        if self.ignores_names() {
            return;
        }
        if name == WILDCARD {
            self.note_what_it_has();
            self.prepare_farewell();
            self.leave_wildcard();
            self.drop_unnamed();
            return;
        }
        let name = canonical(name, self.arena);
        let named = self.arena.find(&name).and_then(|slot| self.edges.find(self.slot, slot));
        match named.filter(|&slot| self.standing(slot) == Some(Standing::Named)) {
            Some(edge) => self.drop_own_name(edge, &name, cause),
            None => self.drop_by_other_name(&name, cause, dropped),
        }
    }

    /// Unsubscribes from a name to which the client subscribed.
    pub(crate) fn drop_own_name(&mut self, edge: Slot, name: &str, cause: Cause) {
        let alias = self.edges.at(edge).map(|edge| edge.resource);
        if let Some(resource) = alias.and_then(|alias| self.meaning(alias)) {
            self.drop_alias(edge, resource, cause);
            return;
        }
        let is_glob = self.edges.at(edge).is_some_and(|edge| self.arena.is_glob(edge.resource));
        if !is_glob && self.is_covered(name) {
            // A glob (M139) or an alias still covers it.
            self.set_standing(edge, Standing::Covered);
            self.make_due(edge, cause);
            self.edges.note_dropped(edge);
        } else if !is_glob && self.session.wildcard.is_some() {
            // Only the server knows whether the wildcard still covers it (M91, M92).
            self.set_standing(edge, Standing::Parting);
            self.make_due(edge, cause);
        } else {
            self.drop_named(edge);
        }
    }

    /// Sends the endpoints of a cluster that was just sent, even if the client has them already:
    /// it warms the cluster until it receives them.
    // M151
    pub(crate) fn warm(&mut self, name: &str) {
        let Some(slot) = self.arena.find(name) else { return };
        let Some(resource) = self.arena.at(slot).filter(|it| it.payload.is_some()) else { return };
        let has_it = self.session.wildcard.is_some_and(|it| resource.stamp <= it.cursor);
        let edge = match self.edges.find(self.slot, slot) {
            None if has_it => {
                let edge = self.connect_parting(slot);
                edge.inspect(|&edge| self.edges.set_sent(&mut self.session.edges, edge, 1))
            }
            edge => edge,
        };
        if let Some(edge) = edge {
            self.make_due(edge, Cause::Warming);
        }
    }

    /// Sends all named resources again.
    pub(crate) fn warm_named(&mut self) {
        let mut slot = self.session.edges.first();
        while let Some(edge) = self.edges.at(slot) {
            if edge.standing.is_subscribed() && self.arena.payload(edge.resource).is_some() {
                self.make_due(slot, Cause::Warming);
            }
            slot = self.edges.next(Chain::Session, slot);
        }
    }

    /// Adds a one-shot subscription to a resource that only the wildcard covers.
    pub(crate) fn connect_parting(&mut self, slot: Slot) -> Option<Slot> {
        let edge = self.connect(slot)?;
        self.session.named += 1;
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.leftovers = Leftovers::Possible;
        }
        self.set_standing(edge, Standing::Parting);
        Some(edge)
    }

    /// Handles one entry of `initial_resource_versions`: a current resource is not sent again,
    /// and the removal of a missing one is sent.
    // M116-M121
    fn trust_version(&mut self, name: &str, version: &str) {
        self.trust(name, |payload| payload.is_version(version), Cause::First);
        if let Some(edge) = self.edge_of_unknown_alias(name) {
            self.make_due(edge, Cause::First);
        }
    }

    /// Records that the client has some version of a resource, and whether it is the current one.
    /// Names to which the client does not subscribe are ignored.
    pub(crate) fn trust(
        &mut self,
        name: &str,
        is_current: impl FnOnce(&Payload) -> bool,
        cause: Cause,
    ) {
        let found = self.arena.find(name);
        let payload = found.and_then(|slot| self.arena.payload(slot));
        let exists = payload.is_some();
        let is_current = payload.is_some_and(is_current);
        let tells_removals = self.arena.tells_removals() || self.session.lets_linger(self.arena);
        let edge = found.and_then(|slot| self.edges.find(self.slot, slot));
        if let Some(edge) = edge {
            let has_it = self.standing(edge).is_some_and(Standing::is_subscribed);
            let is_settled = has_it && (is_current || !exists && !tells_removals);
            if is_settled && found.is_some_and(|slot| self.error_of(slot).is_some()) {
                // Having the resource does not mean that the client was sent its error.
                self.edges.set_sent(&mut self.session.edges, edge, 1);
            } else if is_settled {
                if self.session.variant == Variant::Incremental {
                    self.leave_out_what_is_had();
                }
                self.edges.clear_due(&mut self.session.due, edge);
                self.edges.set_sent(&mut self.session.edges, edge, 1);
                found.into_iter().for_each(|slot| self.renew_at_once(slot));
            } else if has_it {
                if found.is_some_and(|slot| self.meaning(slot).is_some()) {
                    // The name was a resource before and is an alias now: the resource is
                    // removed.
                    self.edges.set_sent(&mut self.session.edges, edge, 1);
                    self.make_due(edge, cause);
                } else if exists {
                    // The client has an older version. If the resource is removed first, the
                    // client is told.
                    self.edges.set_sent(&mut self.session.edges, edge, 1);
                }
                self.let_linger_if_gone(edge);
            }
            return;
        }
        let is_subscribed = self.session.wildcard.is_some() || self.is_covered(name);
        if !is_subscribed || !exists && !tells_removals {
            return;
        }
        let edge = self.arena.slot_of(name).and_then(|slot| self.connect_parting(slot));
        let Some(edge) = edge else { return };
        self.leave_out_what_is_had();
        if is_current {
            self.set_standing(edge, Standing::Remembered);
            self.edges.set_sent(&mut self.session.edges, edge, 1);
            found.into_iter().for_each(|slot| self.renew_at_once(slot));
        } else {
            // The resource is sent or, if it is removed before that, its removal is.
            self.make_due(edge, cause);
            self.edges.set_sent(&mut self.session.edges, edge, 1);
            self.let_linger_if_gone(edge);
        }
    }

    /// Makes the wildcard skip resources that the client already has by name.
    pub(crate) fn leave_out_what_is_had(&mut self) {
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.catch_up = CatchUp::TheRest;
        }
    }

    pub(crate) fn standing(&self, edge: Slot) -> Option<Standing> {
        self.edges.at(edge).map(|edge| edge.standing)
    }

    pub(crate) fn uncount(&mut self, standing: Standing) {
        if let Some(count) = self.session.count_of(standing) {
            *count -= 1;
        }
        if standing == Standing::Lingering {
            self.session.tidy();
        }
    }

    pub(crate) fn set_standing(&mut self, slot: Slot, standing: Standing) {
        let Some(edge) = self.edges.at_mut(slot) else { return };
        let before = mem::replace(&mut edge.standing, standing);
        if let Some(count) = self.session.count_of(standing) {
            *count += 1;
        }
        self.uncount(before);
        if standing.is_subscribed() {
            self.session.with_rare(|rare| {
                rare.apart.remove(&slot);
            });
        } else {
            self.session.rare_mut().apart.insert(slot);
        }
    }

    /// Removes subscriptions that depended on the wildcard.
    fn drop_unnamed(&mut self) {
        for slot in self.apart() {
            self.disconnect(slot);
        }
    }

    /// Returns the subscriptions to resources to which the client does not subscribe. They are
    /// kept in a set of their own, because one message with two names can create one and remove
    /// it.
    // IS25
    pub(crate) fn apart(&self) -> Vec<Slot> {
        let rare = self.session.rare.as_deref();
        rare.map(|rare| rare.apart.iter().copied().collect()).unwrap_or_default()
    }
}
