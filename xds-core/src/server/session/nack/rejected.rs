//! Resources that a client has rejected and not accepted since.
//!
//! The client lacks them, whatever else it accepts: a rejected resource is sent once more with the
//! next change, and if it is rejected again, not until it changes. Heartbeats do not renew it, and
//! under make before break, types that may refer to it wait.
// M107, M167

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use super::rejection::SentRange;
use crate::{
    server::{
        session::{
            Purpose, ResponseMode, Session,
            context::SessionContext,
            session_view::SessionView,
            window::{AcceptedResponse, Sent},
        },
        store::{
            arena::{Arena, ResourceEntry},
            encode::body::{Payload, Ttls},
            revision::Revision,
        },
    },
    slab::Slot,
    text::ResourceName,
};

/// Resources of one type that a client has rejected and not accepted since, each with the revision
/// since which the client lacks it.
///
/// That is the revision of the change that was rejected first or, if the client may never have been
/// sent the resource before, of its creation, because everything that refers to it since then refers
/// to a resource that the client lacks.
#[derive(Debug, Default)]
pub(crate) struct RejectedResources {
    resources: BTreeMap<Slot, (Revision, ResourceName)>,
    /// Keys of `resources` by their revisions.
    order: BTreeSet<(Revision, Slot)>,
}

impl RejectedResources {
    pub(crate) fn is_empty(&self) -> bool {
        self.resources.is_empty()
    }

    fn add(&mut self, arena: &Arena, slot: Slot, since: Revision) {
        let Some(resource) = arena.at(slot).filter(|_| self.find(arena, slot).is_none()) else {
            return;
        };
        // The slot may have belonged to another resource.
        self.remove(slot);
        self.resources.insert(slot, (since, resource.name.clone()));
        self.order.insert((since, slot));
    }

    fn remove(&mut self, slot: Slot) {
        if let Some((since, _)) = self.resources.remove(&slot) {
            self.order.remove(&(since, slot));
        }
    }

    /// Removes deleted resources once they are the majority, which makes the cost proportional to
    /// the additions.
    fn sweep(&mut self, arena: &Arena) {
        if self.resources.len() <= arena.existing().saturating_mul(2) {
            return;
        }
        let slots = self.resources.keys().copied();
        let gone: Vec<Slot> = slots.filter(|&slot| self.find(arena, slot).is_none()).collect();
        gone.into_iter().for_each(|slot| self.remove(slot));
    }

    /// Returns a resource if it is rejected and still exists.
    fn find<'a>(&self, arena: &'a Arena, slot: Slot) -> Option<&'a ResourceEntry> {
        let (_, name) = self.resources.get(&slot)?;
        arena.at(slot).filter(|it| it.payload.is_some() && it.name == *name)
    }

    /// Returns the first revision since which the client lacks an existing resource.
    fn first(&self, arena: &Arena, is_subscribed: impl Fn(Slot) -> bool) -> Option<Revision> {
        let is_missing = |slot| self.find(arena, slot).is_some() && is_subscribed(slot);
        let first = self.order.iter().find(|&&(_, slot)| is_missing(slot));
        first.map(|&(since, _)| since)
    }
}

impl Session {
    fn rejected(&self) -> Option<&RejectedResources> {
        self.acked_exceptions().map(|it| &it.rejected).filter(|it| !it.is_empty())
    }
}

impl SessionView<'_> {
    /// Whether the client has rejected a resource and not accepted it since.
    pub(crate) fn has_rejected(self, resource: Slot) -> bool {
        let rejected = self.session.rejected();
        rejected.is_some_and(|it| it.find(self.arena, resource).is_some())
    }

    /// Lowest revision since which the client lacks a resource that it subscribes to and has
    /// rejected.
    pub(crate) fn rejected_since(self) -> Option<Revision> {
        let Self { slot, session, arena, subscriptions } = self;
        let is_subscribed =
            |resource| session.has_wildcard() || subscriptions.find(slot, resource).is_some();
        session.rejected()?.first(arena, is_subscribed)
    }

    /// Returns the resources of a response, each with the revision since which the client lacks it if
    /// it rejects the response. In full state, returns only those that it requested by name.
    fn lacking_after(self, sent: Sent) -> impl Iterator<Item = (Slot, Revision)> {
        let (arena, nonce) = (self.arena, sent.nonce.get());
        let accepted = self.accepted_of_wildcard();
        let covered = self.covered_in(sent).filter(move |&it| !self.accepted_before_wildcard(it));
        let covered = covered.filter_map(move |slot| {
            let resource = arena.at(slot)?;
            // The content before may never have been sent: a split response leaves it out if the
            // resource changes before its part is sent.
            let has_previous =
                accepted.is_some_and(|it| resource.before <= it.to && it.at < resource.revision);
            Some((slot, if has_previous { resource.revision } else { resource.created }))
        });
        let named = self.subscriptions_in(SentRange::of(nonce)).map(move |(it, resource)| {
            let is_new = it.was_first_sent_after(nonce - 1);
            (it.resource, if is_new { resource.created } else { resource.revision })
        });
        covered.chain(named)
    }

    /// Returns the resources of a response that the wildcard covers, except in full state.
    fn covered_in(self, sent: Sent) -> impl Iterator<Item = Slot> {
        let is_full_state = self.session.response_mode(self.arena) == ResponseMode::FullState;
        let is_part = self.session.has_wildcard() && !is_full_state;
        is_part.then(|| self.arena.slots_between(sent.from, sent.to)).into_iter().flatten()
    }

    /// Returns the last response that the client accepted of its wildcard, if there is one.
    fn accepted_of_wildcard(self) -> Option<AcceptedResponse> {
        let is_known = self.session.wildcard_since() == Revision::START;
        self.accepted_here().filter(|_| is_known)?;
        self.session.accepted_response(self.arena)
    }
}

impl SessionContext<'_> {
    /// Records the resources of a rejected response. Takes time proportional to its contents.
    pub(crate) fn note_rejected_resources(&mut self, sent: Sent) {
        let gates = self.session.gates_other_types();
        let renews = self.encoding().ttls == Ttls::Sent && !self.sends_full_state();
        if !gates && !renews {
            return;
        }
        let mut rejected: Vec<(Slot, Revision)> = self.view().lacking_after(sent).collect();
        if renews && sent.purpose == Purpose::Heartbeat {
            let resent = self.reject_heartbeats().into_iter();
            rejected.extend(resent.filter_map(|it| Some((it, self.arena.at(it)?.revision))));
        }
        let has_ttl = |slot| self.arena.payload(slot).and_then(Payload::ttl).is_some();
        rejected.retain(|&(slot, _)| gates || has_ttl(slot));
        if rejected.is_empty() {
            return;
        }
        let all = &mut self.session.extras_mut().acked.rejected;
        for (slot, since) in rejected {
            all.add(self.arena, slot, since);
        }
        all.sweep(self.arena);
    }

    /// Removes the resources of an accepted response with content, and those of `sent_again`, of which
    /// it contained the rest. Takes time proportional to its contents.
    pub(super) fn note_accepted_resources(&mut self, sent: Sent, sent_again: Option<SentRange>) {
        let Some(rejected) = self.session.rejected() else { return };
        let accepted: Vec<Slot> = match self.sends_full_state() {
            true => rejected.resources.keys().copied().collect(),
            false => {
                let view = self.view();
                let ranges = sent_again.into_iter().chain([SentRange::of(sent.nonce.get())]);
                let named = ranges.flat_map(|range| view.subscriptions_in(range));
                view.covered_in(sent).chain(named.map(|(it, _)| it.resource)).collect()
            }
        };
        self.session.update_extras(|extras| {
            accepted.into_iter().for_each(|slot| extras.acked.rejected.remove(slot));
        });
    }
}
