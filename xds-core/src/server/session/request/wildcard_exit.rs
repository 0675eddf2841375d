//! Unsubscription of a client from the wildcard.

use alloc::{collections::BTreeSet, vec::Vec};

use crate::{
    server::{
        config::WildcardExit,
        session::{
            Wildcard,
            context::SessionContext,
            subscription::{ListKind, Subscription},
        },
        store::revision::Revision,
    },
    slab::Slot,
    text::ResourceName,
};

impl SessionContext<'_> {
    /// Records which resources the client has from the wildcard it is about to leave and also by
    /// another subscription; it keeps them. Takes time proportional to its other subscriptions,
    /// if anything was sent for the wildcard.
    pub(crate) fn note_wildcard_resources(&mut self) {
        let sent = self.session.wildcard.filter(|wildcard| wildcard.reached != Revision::START);
        let Some(Wildcard { reached, removals_to, .. }) = sent else { return };
        let own = self.subscriptions.list(ListKind::Session, self.session.subscriptions.first());
        let unsent = own.filter(|(_, subscription)| !subscription.has_version());
        let is_known = |(_, it): &(Slot, &Subscription)| {
            it.kind.is_subscribed() && self.arena.is_known(it.resource, reached, removals_to)
        };
        let known: Vec<Slot> = unsent.filter(is_known).map(|(slot, _)| slot).collect();
        known.into_iter().for_each(|slot| self.note_held(slot));
    }

    /// Returns the resources that the client has from the wildcard alone, if it is sent their
    /// removals when it unsubscribes. Takes time proportional to the resources of the type if
    /// anything was sent for the wildcard, and otherwise to the client's other subscriptions.
    pub(crate) fn resources_of_wildcard_alone(&self) -> BTreeSet<ResourceName> {
        let sends = self.arena.config.wildcard_exit == WildcardExit::SendRemovals;
        let Some(wildcard) = self.session.wildcard.filter(|_| sends) else {
            return BTreeSet::new();
        };
        let known = wildcard.reached;
        let name_of = |slot: Slot| Some(self.arena.at(slot)?.name.clone());
        if known == Revision::START {
            let implicit_subscriptions =
                self.session.extras.iter().flat_map(|extras| &extras.implicit_subscriptions);
            let subscriptions =
                implicit_subscriptions.filter_map(|&slot| self.subscriptions.at(slot));
            let sent = subscriptions.filter(|subscription| subscription.has_version());
            return sent.filter_map(|it| name_of(it.resource)).collect();
        }
        let covered_by_wildcard_alone = |&slot: &Slot| match self.subscriptions.of(self.slot, slot)
        {
            Some(subscription) if subscription.kind.is_subscribed() => false,
            Some(subscription) if subscription.has_version() => true,
            Some(subscription) if subscription.is_retained_unsent() => false,
            _ => self.arena.is_known(slot, known, wildcard.removals_to),
        };
        self.arena.slots().filter(covered_by_wildcard_alone).filter_map(name_of).collect()
    }
}
