//! Subscriptions: one entry per session and resource.
//!
//! An entry is linked into two lists, the resource's subscribers and the session's names, and
//! while it is due also into the session's due list. Each list is traversed or updated in time
//! proportional to the entries concerned. A hash table finds the entry of a session and a
//! resource; it is never iterated.

mod delivery;
pub(crate) mod due_list;

use core::{hash::BuildHasher as _, iter::successors, num::NonZeroU64};

use foldhash::fast::FixedState;

use self::due_list::Release;
pub(crate) use self::{
    delivery::Delivery,
    due_list::{Due, DueKind, DueList},
};
use super::wildcard::MustReply;
use crate::{
    cost_probe,
    server::{event::ResponseCause, store::subscription_list::SubscriptionList},
    slab::{Key, Slab, Slot},
    slot_table::SlotTable,
};

/// Subscription of one session to one name.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) session: Slot,
    /// Slot of the name in the arena of the session's type.
    pub(crate) resource: Slot,
    pub(in crate::server::session) delivery: Delivery,
    /// Number of the session's last request that listed the name.
    pub(in crate::server::session) round: u32,
    pub(in crate::server::session) kind: SubscriptionKind,
    /// Whether a grace period delays telling the client that the name does not exist.
    // M127
    pub(in crate::server::session) is_in_grace_period: bool,
    pub(in crate::server::session) due: Option<Due>,
    by_resource: ListLinks,
    by_session: ListLinks,
    by_due: ListLinks,
}

/// Reason for which a session has a subscription to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubscriptionKind {
    /// The client subscribes to the name.
    Named,
    /// The client subscribes to a glob or an alias that covers the name.
    // M138, M136
    ViaGlobOrAlias,
    /// The wildcard covers the name, which concerns the client apart from the rest: it subscribed to
    /// the name before, stated the resource when it connected, or has it from another view. The
    /// subscription ends when the resource or its removal was sent by name, or when the client has
    /// received the rest and nothing is due. It counts among the client's names.
    // M31, M91, M116, M118
    Retained,
    /// The wildcard covered the name, which is removed. The client keeps it until the removal is
    /// sent. Under make before break, the subscription of an incremental client ends once it has
    /// accepted the removal, or what it was sent instead. It does not count among the client's names.
    // M147
    DeferredRemoval,
}

impl SubscriptionKind {
    /// Whether the client subscribes to the resource, by whatever name. Other subscriptions end once
    /// their resource or its removal was sent.
    pub(crate) fn is_subscribed(self) -> bool {
        matches!(self, Self::Named | Self::ViaGlobOrAlias)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct ListLinks {
    previous: Slot,
    next: Slot,
}

/// List in which a subscription is linked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListKind {
    Resource,
    Session,
    Due,
}

impl Subscription {
    /// Whether the subscription is due but must not be sent yet.
    pub(crate) fn is_withheld(&self) -> bool {
        self.due.is_some_and(|due| due.release == Release::Withheld)
    }

    /// Whether the resource is new to the client since a move to another view, and was not sent.
    pub(crate) fn is_retained_unsent(&self) -> bool {
        self.kind == SubscriptionKind::Retained
            && !self.was_ever_sent()
            && !self.awaits_unsubscribe_reply()
    }

    /// Whether the client unsubscribed from the name and waits for a response about it.
    pub(crate) fn awaits_unsubscribe_reply(&self) -> bool {
        self.due.is_some_and(|due| due.kind == DueKind::Unsubscribed)
    }

    /// Whether the client waits for the due resource, because it requested it or names it and was
    /// never sent it, by name or otherwise. A returning client that states another version goes on
    /// using that version.
    pub(crate) fn is_unanswered(&self, was_sent_otherwise: bool) -> bool {
        let was_sent = was_sent_otherwise || self.was_ever_sent();
        let is_new = self.kind == SubscriptionKind::Named && !was_sent;
        let has_it_from_before =
            matches!(self.delivery, Delivery::Before | Delivery::Sent { first: None, .. });
        self.due.is_some_and(|due| {
            let is_return = due.cause == ResponseCause::First && has_it_from_before;
            due.must_reply == MustReply::Yes && !is_return || is_new
        })
    }

    /// Whether the client has some version of the resource through this subscription.
    pub(crate) fn has_version(&self) -> bool {
        self.delivery.has_version()
    }

    /// Returns the nonce of the newest response with the resource; 0 if there is none.
    pub(crate) fn last_sent(&self) -> u64 {
        self.delivery.last().map_or(0, NonZeroU64::get)
    }

    /// Whether the resource was sent to the client only in responses after the nonce `accepted`.
    pub(crate) fn was_first_sent_after(&self, accepted: u64) -> bool {
        matches!(self.delivery, Delivery::Sent { first: Some(first), .. } if first.get() > accepted)
    }

    /// Whether the client has or had the resource through this subscription, as opposed to having
    /// only been told that it does not exist.
    pub(crate) fn was_ever_sent(&self) -> bool {
        self.delivery != Delivery::Nothing
    }

    fn link(&self, kind: ListKind) -> ListLinks {
        match kind {
            ListKind::Resource => self.by_resource,
            ListKind::Session => self.by_session,
            ListKind::Due => self.by_due,
        }
    }

    fn link_mut(&mut self, kind: ListKind) -> &mut ListLinks {
        match kind {
            ListKind::Resource => &mut self.by_resource,
            ListKind::Session => &mut self.by_session,
            ListKind::Due => &mut self.by_due,
        }
    }
}

/// All subscriptions of a server.
#[derive(Debug)]
pub(crate) struct SubscriptionTable {
    entries: Slab<Subscription>,
    by_ends: SlotTable,
    hasher: FixedState,
}

impl SubscriptionTable {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            entries: Slab::default(),
            by_ends: SlotTable::default(),
            hasher: FixedState::with_seed(seed),
        }
    }

    pub(crate) fn find(&self, session: Slot, resource: Slot) -> Option<Slot> {
        let hash = self.hasher.hash_one((session, resource));
        self.by_ends.find(hash, |&slot| {
            self.at(slot).is_some_and(|e| e.session == session && e.resource == resource)
        })
    }

    /// Returns the subscription of a session to a resource.
    pub(crate) fn of(&self, session: Slot, resource: Slot) -> Option<&Subscription> {
        self.at(self.find(session, resource)?)
    }

    /// Returns a subscription and those after it in a list, with their slots.
    pub(crate) fn list(
        &self,
        kind: ListKind,
        first: Slot,
    ) -> impl Iterator<Item = (Slot, &Subscription)> {
        self.walk(first, move |subscription| subscription.link(kind).next)
    }

    /// Returns a subscription and those before it in a list, with their slots, last first.
    pub(crate) fn list_back(
        &self,
        kind: ListKind,
        last: Slot,
    ) -> impl Iterator<Item = (Slot, &Subscription)> {
        self.walk(last, move |subscription| subscription.link(kind).previous)
    }

    fn walk(
        &self,
        first: Slot,
        next: impl Fn(&Subscription) -> Slot,
    ) -> impl Iterator<Item = (Slot, &Subscription)> {
        let entry = |slot| Some((slot, self.at(slot)?));
        successors(entry(first), move |(_, subscription)| entry(next(subscription)))
    }

    pub(crate) fn at(&self, slot: Slot) -> Option<&Subscription> {
        cost_probe::note();
        self.entries.at(slot)
    }

    pub(crate) fn at_mut(&mut self, slot: Slot) -> Option<&mut Subscription> {
        cost_probe::note();
        self.entries.at_mut(slot)
    }

    pub(crate) fn key(&self, slot: Slot) -> Option<Key> {
        self.entries.key(slot)
    }

    /// Whether the subscription still exists and its grace period is running.
    pub(crate) fn is_in_grace_period(&self, key: Key) -> bool {
        self.entries.get(key).is_some_and(|subscription| subscription.is_in_grace_period)
    }

    /// Creates a subscription that is not due and links it into both lists. There must be none
    /// yet.
    pub(crate) fn connect(
        &mut self,
        (session, names): (Slot, &mut SubscriptionList),
        (resource, subscribers): (Slot, &mut SubscriptionList),
        round: u32,
    ) -> Option<Slot> {
        let subscription = Subscription {
            session,
            resource,
            delivery: Delivery::Nothing,
            round,
            kind: SubscriptionKind::Named,
            is_in_grace_period: false,
            due: None,
            by_resource: ListLinks::default(),
            by_session: ListLinks::default(),
            by_due: ListLinks::default(),
        };
        let slot = self.entries.push_back(subscription)?.slot();
        self.push_back(subscribers, ListKind::Resource, slot);
        // The list is ordered by the last transmission; resources that were never sent come
        // first.
        self.push_front(names, ListKind::Session, slot);
        let (entries, hasher) = (&self.entries, &self.hasher);
        let hash_of = |other| {
            let other = entries.at(other);
            other.map_or(0, |other| hasher.hash_one((other.session, other.resource)))
        };
        self.by_ends.insert(hasher.hash_one((session, resource)), slot, hash_of);
        Some(slot)
    }

    /// Removes a subscription from all lists.
    pub(crate) fn disconnect(
        &mut self,
        slot: Slot,
        names: &mut SubscriptionList,
        due: &mut DueList,
        subscribers: &mut SubscriptionList,
    ) {
        self.clear_due(due, slot);
        self.unlink(names, ListKind::Session, slot);
        self.unlink(subscribers, ListKind::Resource, slot);
        if let Some(subscription) = self.entries.remove(slot) {
            let hash = self.hasher.hash_one((subscription.session, subscription.resource));
            self.by_ends.remove(hash, |&other| other == slot);
        }
    }

    /// Makes the subscription due. A stronger reason replaces a weaker one.
    pub(crate) fn set_due(&mut self, list: &mut DueList, slot: Slot, due: Due) {
        let Some(subscription) = self.at_mut(slot) else { return };
        subscription.is_in_grace_period = false;
        let before = subscription.due;
        let due = before.map_or(due, |before| Due {
            cause: before.cause.min(due.cause),
            kind: before.kind.max(due.kind),
            must_reply: before.must_reply.max(due.must_reply),
            release: due.release,
        });
        subscription.due = Some(due);
        let is_in_place = |before: Due| before.has_position_of(due);
        if !before.is_some_and(is_in_place) {
            if let Some(before) = before {
                self.unlink(list.list(before.release), ListKind::Due, slot);
            }
            match due.is_requested_removal() {
                true => self.push_front(list.list(due.release), ListKind::Due, slot),
                false => self.push_back(list.list(due.release), ListKind::Due, slot),
            }
        }
        list.note_changed();
    }

    /// Records that the client requested the due resource or its removal.
    pub(crate) fn note_must_reply(
        &mut self,
        list: &mut DueList,
        slot: Slot,
        must_reply: MustReply,
    ) {
        if let Some(due) = self.at(slot).and_then(|subscription| subscription.due) {
            self.set_due(list, slot, Due { must_reply: due.must_reply.max(must_reply), ..due });
        }
    }

    /// Records that the due resource or removal answers an unsubscription.
    pub(crate) fn note_unsubscribed(&mut self, slot: Slot) {
        if let Some(due) = self.at_mut(slot).and_then(|subscription| subscription.due.as_mut()) {
            due.kind = DueKind::Unsubscribed;
        }
    }

    /// Makes the removal of a resource due, but withholds it.
    pub(crate) fn withhold(&mut self, list: &mut DueList, slot: Slot) {
        let due = Due { release: Release::Withheld, ..Due::because(ResponseCause::Changed) };
        self.set_due(list, slot, due);
    }

    /// Returns the withheld removals that the client requested.
    pub(crate) fn requested_removals(&self, list: DueList) -> impl Iterator<Item = &Subscription> {
        let withheld = self.list(ListKind::Due, list.withheld().first()).map(|(_, it)| it);
        withheld.take_while(|it| it.due.is_some_and(Due::is_requested_removal))
    }

    /// Releases all withheld removals.
    pub(crate) fn release_withheld(&mut self, list: &mut DueList) {
        self.release_while(list, |_| true);
    }

    /// Releases the withheld removals that the client requested.
    pub(crate) fn release_requested_removals(&mut self, list: &mut DueList) {
        self.release_while(list, Due::is_requested_removal);
    }

    fn release_while(&mut self, list: &mut DueList, is_released: fn(Due) -> bool) {
        let first = |table: &Self, list: &DueList| table.at(list.withheld().first())?.due;
        while let Some(due) = first(self, list).filter(|&due| is_released(due)) {
            self.set_due(list, list.withheld().first(), Due { release: Release::Released, ..due });
        }
    }

    /// Ends the due state of a subscription. Returns the reason for which it was due.
    pub(crate) fn clear_due(&mut self, list: &mut DueList, slot: Slot) -> Option<Due> {
        let due = self.at_mut(slot)?.due.take()?;
        self.unlink(list.list(due.release), ListKind::Due, slot);
        list.note_changed();
        Some(due)
    }

    /// Records what the client was sent. If it has the resource, the subscription moves to the end of
    /// the session's names, otherwise to the front, to those that were never sent.
    pub(crate) fn set_delivery(
        &mut self,
        names: &mut SubscriptionList,
        slot: Slot,
        delivery: Delivery,
    ) {
        if let Some(subscription) = self.at_mut(slot) {
            subscription.delivery = delivery;
            self.unlink(names, ListKind::Session, slot);
            match delivery.has_version() {
                true => self.push_back(names, ListKind::Session, slot),
                false => self.push_front(names, ListKind::Session, slot),
            }
        }
    }

    pub(crate) fn next(&self, kind: ListKind, slot: Slot) -> Slot {
        self.at(slot).map_or(Slot::NONE, |subscription| subscription.link(kind).next)
    }

    pub(crate) fn previous(&self, kind: ListKind, slot: Slot) -> Slot {
        self.at(slot).map_or(Slot::NONE, |subscription| subscription.link(kind).previous)
    }

    fn push_back(&mut self, list: &mut SubscriptionList, kind: ListKind, slot: Slot) {
        let previous = list.tail;
        list.tail = slot;
        self.set_link(kind, slot, ListLinks { previous, next: Slot::NONE });
        match self.at_mut(previous) {
            Some(subscription) => subscription.link_mut(kind).next = slot,
            None => list.head = slot,
        }
    }

    fn push_front(&mut self, list: &mut SubscriptionList, kind: ListKind, slot: Slot) {
        let next = list.head;
        list.head = slot;
        self.set_link(kind, slot, ListLinks { previous: Slot::NONE, next });
        match self.at_mut(next) {
            Some(subscription) => subscription.link_mut(kind).previous = slot,
            None => list.tail = slot,
        }
    }

    fn unlink(&mut self, list: &mut SubscriptionList, kind: ListKind, slot: Slot) {
        let Some(ListLinks { previous, next }) =
            self.at(slot).map(|subscription| subscription.link(kind))
        else {
            return;
        };
        match self.at_mut(previous) {
            Some(subscription) => subscription.link_mut(kind).next = next,
            None => list.head = next,
        }
        match self.at_mut(next) {
            Some(subscription) => subscription.link_mut(kind).previous = previous,
            None => list.tail = previous,
        }
    }

    fn set_link(&mut self, kind: ListKind, slot: Slot, link: ListLinks) {
        if let Some(subscription) = self.at_mut(slot) {
            *subscription.link_mut(kind) = link;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use crate::server::session::subscription::*;

    fn slots(n: usize) -> Vec<Slot> {
        let mut slab = Slab::default();
        (0..n).filter_map(|_| slab.push_back(())).map(|key| key.slot()).collect()
    }

    fn walk(entries: &SubscriptionTable, kind: ListKind, list: SubscriptionList) -> Vec<Slot> {
        let mut found = Vec::new();
        let mut slot = list.first();
        while !slot.is_none() {
            found.push(slot);
            slot = entries.next(kind, slot);
        }
        let mut backwards = Vec::new();
        let mut slot = list.last();
        while !slot.is_none() {
            backwards.push(slot);
            slot = entries.previous(kind, slot);
        }
        backwards.reverse();
        assert_eq!(found, backwards);
        found
    }

    #[test]
    fn subscription_is_unlinked_from_all_lists() {
        let resources = slots(4);
        let session = resources[0];
        let mut entries = SubscriptionTable::new(1);
        let (mut names, mut due) = (SubscriptionList::default(), DueList::default());
        let mut subscribers = [SubscriptionList::default(); 4];
        let made: Vec<_> = (0..4)
            .filter_map(|n| {
                entries.connect((session, &mut names), (resources[n], &mut subscribers[n]), 1)
            })
            .collect();
        assert_eq!(
            walk(&entries, ListKind::Session, names),
            vec![made[3], made[2], made[1], made[0]]
        );
        for &subscription in &made {
            entries.set_due(&mut due, subscription, Due::because(ResponseCause::Resubscribed));
        }
        entries.set_due(&mut due, made[1], Due::because(ResponseCause::Changed));
        entries.set_due(&mut due, made[1], Due::because(ResponseCause::Warming));
        assert_eq!(
            walk(&entries, ListKind::Due, due.released),
            made,
            "due once, in the order of becoming due"
        );
        assert_eq!(
            entries.clear_due(&mut due, made[1]).map(|due| due.cause),
            Some(ResponseCause::Changed)
        );

        entries.disconnect(made[2], &mut names, &mut due, &mut subscribers[2]);
        assert_eq!(walk(&entries, ListKind::Due, due.released), vec![made[0], made[3]]);
        assert_eq!(walk(&entries, ListKind::Session, names), vec![made[3], made[1], made[0]]);
        assert!(subscribers[2].is_empty());
        assert_eq!(entries.find(session, resources[2]), None);
        assert_eq!(entries.find(session, resources[3]), Some(made[3]));

        entries.withhold(&mut due, made[0]);
        entries.withhold(&mut due, made[1]);
        assert_eq!(walk(&entries, ListKind::Due, due.released), vec![made[3]]);
        assert_eq!(walk(&entries, ListKind::Due, due.withheld()), vec![made[0], made[1]]);
        entries.set_due(&mut due, made[0], Due::because(ResponseCause::Changed));
        assert_eq!(walk(&entries, ListKind::Due, due.released), vec![made[3], made[0]]);
        entries.release_withheld(&mut due);
        assert_eq!(walk(&entries, ListKind::Due, due.released), vec![made[3], made[0], made[1]]);
        assert!(due.withheld().is_empty());

        entries.set_delivery(&mut names, made[1], Delivery::Before);
        assert_eq!(walk(&entries, ListKind::Session, names), vec![made[3], made[0], made[1]]);
    }
}
