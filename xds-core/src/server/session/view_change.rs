//! Move of a session to another view on the same stream.
//!
//! The subscriptions of the client and the resources that it has are exported, and imported on
//! the other view. Resources that are identical there are not sent again, and missing ones are
//! removed. If a removal has to wait and the state is repeated meanwhile, the resource is carried
//! over.
// M223

use alloc::vec::Vec;

use super::{
    CatchUp, Past, Sends,
    context::Turn,
    deferred_removal::{
        carried_over::Carried,
        last_accepted::{Form, Forms, Had},
    },
    subscription::{Chain, Edge, Grace, Standing},
    wildcard::Claim,
};
use crate::{
    server::{
        event::Cause,
        store::{
            encode::body::Payload,
            transaction::ResourceError,
            version::content::{ContentHash, TypeVersion},
        },
    },
    service::Variant,
    slab::Slot,
    text::ResourceName,
    time::Time,
};

/// State of a session that moves from one view to another.
#[derive(Debug, Default)]
pub(crate) struct Luggage {
    names: Vec<Named>,
    /// Wildcard with the version that the client was last sent, unless an answer is pending.
    wildcard: Option<Option<TypeVersion>>,
    /// Open claim on the wildcard, and how much of it is due.
    claim: (Claim, CatchUp),
    /// Resources that the client has under the wildcard, or whose coverage it waits to be told.
    covered: Vec<Named>,
    /// Resources that a full-state client has accepted and has been sent since.
    had: Option<Had>,
}

#[derive(Debug)]
struct Named {
    name: ResourceName,
    known: Known,
    claim: Claim,
    /// Error that the client was sent in place of the resource.
    error: Option<ResourceError>,
    before: Before,
    /// Version that the client has, if its removal may be deferred in full state.
    carried: Option<Carried>,
}

/// Whether a name exists in the view that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Before {
    There,
    Missing,
}

/// Client's knowledge of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Nothing,
    /// The client knows nothing and waits to be told that the name does not exist.
    Waits,
    Absent,
    /// Some version of the resource.
    Something,
    Exactly(ContentHash),
}

impl Turn<'_> {
    /// Exports the session's state and removes it from its arena.
    pub(crate) fn pack(&mut self) -> Luggage {
        let mut luggage = Luggage { had: self.begin_to_have(), ..Luggage::default() };
        let mut slot = self.session.edges.last();
        while let Some(edge) = self.edges.at(slot) {
            if let Some(resource) = self.arena.at(edge.resource) {
                let hash = resource.payload.as_ref().map(|payload| payload.hash);
                // A client that was sent an error may have dropped the resource.
                let holds = self.session.holds(edge) && self.error_of(edge.resource).is_none();
                let claim = edge.due.map_or(Claim::Nothing, |due| due.claim);
                let error = self.error_of(edge.resource).filter(|_| edge.due.is_none()).cloned();
                let waits = edge.grace == Grace::Running || self.is_asked_for(edge.resource);
                let known = match (edge.sent != 0, hash, edge.due.is_some()) {
                    (true, Some(hash), _) if holds => Known::Exactly(hash),
                    (false, None, false) if waits => Known::Waits,
                    (true, ..) => Known::Something,
                    // Unless it is an alias of another resource.
                    (false, None, false) if self.meaning(edge.resource).is_none() => Known::Absent,
                    (false, ..) => Known::Nothing,
                };
                let carried = luggage.had.as_mut().and_then(|had| {
                    let (accepted, sent) = self.note_had(had, edge.resource, Some(edge))?;
                    self.to_bring(edge, &accepted, sent.as_ref())
                });
                let name = resource.name.clone();
                let before = if hash.is_some() { Before::There } else { Before::Missing };
                let named = Named { name, known, claim, error, before, carried };
                match (edge.standing, known) {
                    (Standing::Named, _) => luggage.names.push(named),
                    (Standing::Covered, Known::Nothing) if !edge.is_dropped() => {}
                    (_, Known::Absent) => {}
                    (..) => luggage.covered.push(named),
                }
            }
            slot = self.edges.previous(Chain::Session, slot);
        }
        if let Some(wildcard) = self.session.wildcard {
            let waits = wildcard.owed.is_some_and(|owed| owed.cause != Cause::Changed);
            let knows = !waits && wildcard.version != TypeVersion::default();
            luggage.wildcard = Some((knows || wildcard.owed.is_none()).then_some(wildcard.version));
            luggage.claim = (wildcard.claim(), wildcard.catch_up);
            let suspects = self.session.suspects();
            let unaccepted = self.unaccepted_state();
            let is_rejected = |stamp| {
                let is_suspect = suspects.is_some_and(|it| it.from < stamp && stamp <= it.to);
                is_suspect || unaccepted.is_some_and(|accepted| stamp > accepted)
            };
            let needs_ghosts = self.session.needs_ghosts(self.arena);
            if needs_ghosts || self.session.sends(self.arena) != Sends::FullState {
                let had = &mut luggage.had;
                let covered = self.arena.slots().filter_map(|slot| {
                    let is_known = self.arena.is_known(slot, wildcard.reached, wildcard.told);
                    let has_edge = self.edges.find(self.slot, slot).is_some();
                    let resource = self.arena.at(slot).filter(|_| is_known && !has_edge)?;
                    let payload = resource.payload.as_ref();
                    let payload = payload.filter(|_| {
                        resource.stamp <= wildcard.cursor && !is_rejected(resource.stamp)
                    });
                    let known =
                        payload.map_or(Known::Something, |payload| Known::Exactly(payload.hash));
                    let carried = had.as_mut().and_then(|had| {
                        let (accepted, sent) = self.note_had(had, slot, None)?;
                        self.covered_to_bring(slot, &accepted, sent.as_ref())
                    });
                    let name = resource.name.clone();
                    let (claim, before) = (Claim::Nothing, Before::There);
                    Some(Named { name, known, claim, error: None, before, carried })
                });
                luggage.covered.extend(covered);
            }
        }
        self.session.with_rare(|rare| {
            rare.suspects = None;
            rare.isolation = None;
        });
        if self.session.variant == Variant::Incremental {
            // A rejected resource is sent again if it exists, and removed otherwise.
            self.session.forget_verdict();
        }
        self.forget_renewals();
        self.end();
        luggage
    }

    /// Returns empty records for the resources that the client has accepted and was sent.
    fn begin_to_have(&self) -> Option<Had> {
        if !self.session.needs_ghosts(self.arena) {
            return None;
        }
        let knows_before = || self.session.had().is_some_and(|had| had.accepted.is_some());
        let is_known = self.accepted_here().is_some() || knows_before();
        let awaited = self.session.newest.filter(|_| self.session.is_waiting());
        Some(Had {
            accepted: is_known.then(Forms::default),
            sent: awaited.map(|sent| (sent.nonce.get(), Forms::default())),
        })
    }

    fn note_had(
        &self,
        had: &mut Had,
        slot: Slot,
        edge: Option<&Edge>,
    ) -> Option<(Form, Option<(u64, Form)>)> {
        let name = &self.arena.at(slot)?.name;
        let (accepted, sent) = (self.last_accepted(slot, edge), self.last_sent(slot, edge));
        if let Some(forms) = &mut had.accepted {
            forms.note(name, accepted.clone());
        }
        if let (Some((_, forms)), Some((_, sent))) = (&mut had.sent, &sent) {
            forms.note(name, sent.clone());
        }
        Some((accepted, sent))
    }

    /// Imports the exported state into the session on its new arena.
    pub(crate) fn unpack(&mut self, luggage: Luggage, now: Time) {
        self.begin();
        self.session.past = Past::up_to(self.session.newest_nonce());
        if luggage.had.is_some() {
            self.session.rare_mut().had = luggage.had;
        }
        let sends = self.session.sends(self.arena);
        let cause = self.session.asked().min(Cause::Changed);
        if luggage.wildcard.is_some() {
            self.enter_wildcard(cause);
        }
        let mut names = Vec::new();
        for name in luggage.names {
            names.extend(self.unpack_name(name, sends, cause, now));
        }
        for name in names {
            self.cover_new_members(name, cause);
        }
        for Named { name, known, carried, .. } in luggage.covered {
            let is_current =
                |it: &Payload| matches!(known, Known::Exactly(held) if held == it.hash);
            match (self.session.variant, known) {
                (Variant::Incremental, Known::Nothing) => self.answer_parting(&name, cause),
                (Variant::Incremental, _) => {
                    self.trust(name.as_str(), is_current, cause);
                    self.disown(&name, cause);
                }
                (Variant::StateOfTheWorld, _)
                    if carried.is_some() || self.exists(name.as_str()) =>
                {
                    self.trust(name.as_str(), is_current, cause);
                    self.hold(&name, carried);
                }
                (Variant::StateOfTheWorld, _) => {}
            }
        }
        if let Some(version) = luggage.wildcard.flatten().filter(|_| sends == Sends::FullState) {
            self.trust_state(version);
        }
        if self.session.variant == Variant::Incremental {
            match luggage.claim {
                (Claim::Answer, CatchUp::Everything) => self.owe_wildcard(Cause::Resubscribed),
                (Claim::Answer, CatchUp::TheRest) => self.keep_claim(),
                (Claim::Nothing, _) => {}
            }
        }
    }

    /// Keeps the claim to an answer with resources that the client does not have.
    fn keep_claim(&mut self) {
        let owed = self.session.wildcard.as_mut().and_then(|wildcard| wildcard.owed.as_mut());
        if let Some(owed) = owed {
            owed.claim = Claim::Answer;
        }
    }

    /// Records the version of a resource that a state-of-the-world client has, for use while the
    /// resource's removal is deferred.
    fn hold(&mut self, name: &ResourceName, carried: Option<Carried>) {
        let slot = self.arena.find(name.as_str());
        let Some(edge) = slot.and_then(|slot| self.edges.find(self.slot, slot)) else { return };
        if self.standing(edge) == Some(Standing::Parting) {
            // The client's lists do not name the resource and must not end this.
            self.set_standing(edge, Standing::Remembered);
        }
        self.bring(edge, carried);
    }

    /// Records that the client was sent a full state of this version.
    fn trust_state(&mut self, version: TypeVersion) {
        let is_current = version == self.version_of_everything();
        let newest = self.arena.newest();
        let Some(wildcard) = &mut self.session.wildcard else { return };
        wildcard.version = version;
        if is_current {
            wildcard.owed = None;
            (wildcard.cursor, wildcard.reached) = (newest, newest);
            self.forget_remembered();
        }
        self.renew_all_at_once();
    }

    /// Makes an answer due for a name from which the client unsubscribed and whose resource it
    /// does not have. The client waits for it because the wildcard, a glob or an alias covered
    /// the name.
    fn answer_parting(&mut self, name: &ResourceName, cause: Cause) {
        let is_covered = self.is_covered(name.as_str());
        if !is_covered && self.session.wildcard.is_none() {
            return;
        }
        let Some(slot) = self.arena.slot_of(name.clone()) else { return };
        let edge = match self.edges.find(self.slot, slot) {
            None if is_covered => self.connect_covered(slot),
            None => self.connect_parting(slot),
            edge => edge,
        };
        if let Some(edge) = edge {
            self.make_due(edge, cause);
            self.edges.note_dropped(edge);
        }
    }

    fn unpack_name(
        &mut self,
        Named { name, known, claim, error, before, carried }: Named,
        sends: Sends,
        cause: Cause,
        now: Time,
    ) -> Option<Slot> {
        let resource = self.arena.slot_of(name)?;
        let edge = self.connect(resource)?;
        self.session.named += 1;
        let hash = self.arena.payload(resource).map(|payload| payload.hash);
        let sent = match known {
            Known::Something | Known::Exactly(_) => 1,
            Known::Nothing | Known::Waits | Known::Absent => 0,
        };
        self.edges.set_sent(&mut self.session.edges, edge, sent);
        if sent != 0 && sends != Sends::FullState {
            self.leave_out_what_is_had();
        }
        self.want(resource);
        let error_here = self.error_of(resource);
        let is_due = match (hash, known) {
            // A client with the resource knows of the same error, but not that the resource is
            // removed.
            _ if error_here.is_some() => {
                error_here != error.as_ref() || hash.is_none() && before == Before::There
            }
            // It is not yet known whether the resource exists.
            (None, _) if self.is_asked_for(resource) => false,
            (Some(hash), Known::Exactly(held)) => hash != held,
            (Some(_), _) => true,
            (None, Known::Absent) => false,
            (None, Known::Nothing) => sends == Sends::ChangesAndRemovals,
            (None, Known::Waits) => {
                sends == Sends::ChangesAndRemovals && !self.grant_grace(edge, now)
            }
            (None, Known::Something | Known::Exactly(_)) => match sends {
                Sends::Changes => false,
                Sends::FullState => self.arena.absence_deletes(),
                Sends::ChangesAndRemovals => {
                    self.arena.tells_removals()
                        || self.session.lets_linger(self.arena)
                        || claim == Claim::Answer
                }
            },
        };
        // In full state the client may have members that are not known here.
        let is_due = is_due || sends == Sends::FullState && self.arena.is_glob(resource);
        // For an alias, its resource is due instead.
        let is_alias = sent == 0 && self.meaning(resource).is_some();
        if is_due && !is_alias {
            self.make_due(edge, cause);
            self.edges.note_claim(edge, claim);
            if sent != 0 && claim == Claim::Nothing {
                self.let_linger_if_gone(edge);
                self.bring(edge, carried);
            }
        } else {
            self.renew_at_once(resource);
        }
        Some(resource)
    }
}
