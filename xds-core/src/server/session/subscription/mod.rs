//! Subscriptions: one entry per session and resource.
//!
//! An entry is linked into two lists, the resource's subscribers and the session's names, and
//! while it is due also into the session's due list. Each list is traversed or updated in time
//! proportional to the entries concerned. A hash table finds the entry of a session and a
//! resource; it is never iterated.

pub(crate) mod due_list;

use core::hash::BuildHasher as _;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use self::due_list::Release;
pub(crate) use self::due_list::{Due, DueList, Ride};
use super::wildcard::Claim;
use crate::{
    cost_probe,
    server::{event::Cause, store::subscriber_list::List},
    slab::{Key, Slab, Slot},
};

/// Subscription of one session to one name.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) session: Slot,
    /// Slot of the name in the arena of the session's type.
    pub(crate) resource: Slot,
    /// Nonce under which the resource was last sent for its own sake. 0 if the client has not
    /// been sent the resource, or was sent its removal.
    pub(crate) sent: u64,
    /// Nonce under which the resource was first sent to a client that did not have it. After a
    /// removal, the nonce of that removal. 0 if there is neither, or if the client may have the
    /// resource from elsewhere.
    since: u64,
    /// Number of the session's last request that listed the name.
    pub(crate) round: u32,
    pub(crate) standing: Standing,
    pub(crate) grace: Grace,
    pub(crate) due: Option<Due>,
    by_resource: Link,
    by_session: Link,
    by_due: Link,
}

/// Reason for which a session has a subscription to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The client subscribes to the name.
    Named,
    /// The client subscribed to the name before it switched to the wildcard, or stated the
    /// resource when it reconnected. It is not sent the resource again. Ends when it has received
    /// the rest.
    // M31, M116
    Remembered,
    /// The client subscribes to a glob or an alias that covers the name.
    // M138, M136
    Covered,
    /// The wildcard covers the name, which is due once for its own sake.
    // M91, M118
    Parting,
    /// The wildcard covered the name, which is removed. The client keeps it until the removal is
    /// sent.
    // M147
    Lingering,
}

impl Standing {
    /// Whether the client subscribes to the resource, by whatever name.
    pub(crate) fn is_subscribed(self) -> bool {
        matches!(self, Self::Named | Self::Covered)
    }

    /// Whether the subscription ends once its resource or removal was sent.
    pub(crate) fn is_passing(self) -> bool {
        matches!(self, Self::Parting | Self::Lingering)
    }
}

/// Whether a grace period delays telling the client that the name does not exist.
// M127
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grace {
    None,
    Running,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: Slot,
    next: Slot,
}

impl Link {
    const NONE: Self = Self { previous: Slot::NONE, next: Slot::NONE };
}

/// List in which a subscription is linked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chain {
    Resource,
    Session,
    Due,
}

impl Edge {
    /// Whether the subscription is due but must not be sent yet.
    pub(crate) fn is_withheld(&self) -> bool {
        self.due.is_some_and(|due| due.release == Release::Withheld)
    }

    /// Whether the client unsubscribed from the name and waits for a response about it.
    pub(crate) fn is_dropped(&self) -> bool {
        self.due.is_some_and(|due| due.ride == Ride::Dropped)
    }

    /// Whether the client waits for the due resource, because it requested it or names it and was
    /// never sent it. A returning client that states another version goes on using that version.
    pub(crate) fn is_unanswered(&self) -> bool {
        let is_new = self.standing == Standing::Named && !self.was_ever_sent();
        let has_it_from_before = self.sent != 0 && self.since == 0;
        self.due.is_some_and(|due| {
            let is_return = due.cause == Cause::First && has_it_from_before;
            due.claim == Claim::Answer && !is_return || is_new
        })
    }

    /// Returns the next subscription in the due list.
    pub(crate) fn next_due(&self) -> Slot {
        self.by_due.next
    }

    /// Whether the resource was sent to the client only in responses after the nonce `accepted`.
    pub(crate) fn was_first_sent_after(&self, accepted: u64) -> bool {
        self.sent != 0 && self.since > accepted
    }

    /// Whether the client has or had the resource through this subscription, as opposed to having
    /// only been told that it does not exist.
    pub(crate) fn was_ever_sent(&self) -> bool {
        self.sent != 0 || self.since != 0
    }

    /// Records that the response `nonce` contains the resource. `accepted` is the nonce of the
    /// last response that the client accepted.
    pub(crate) fn note_in(&mut self, nonce: u64, accepted: u64) {
        if self.sent == 0 {
            // If the client rejected the removal, it may still have the resource.
            self.since = if self.since <= accepted { nonce } else { 0 };
        }
    }

    /// Records that a response contains the resource for a client that may have it from
    /// elsewhere.
    pub(crate) fn note_in_with_others(&mut self) {
        if self.sent == 0 {
            self.since = 0;
        }
    }

    /// Records that the response with this nonce contains the resource's removal.
    pub(crate) fn note_gone_in(&mut self, nonce: u64) {
        if self.sent != 0 {
            self.since = nonce;
        }
    }

    fn link(&self, chain: Chain) -> Link {
        match chain {
            Chain::Resource => self.by_resource,
            Chain::Session => self.by_session,
            Chain::Due => self.by_due,
        }
    }

    fn link_mut(&mut self, chain: Chain) -> &mut Link {
        match chain {
            Chain::Resource => &mut self.by_resource,
            Chain::Session => &mut self.by_session,
            Chain::Due => &mut self.by_due,
        }
    }
}

/// All subscriptions of a server.
#[derive(Debug)]
pub(crate) struct Edges {
    edges: Slab<Edge>,
    ends: HashTable<Slot>,
    hasher: FixedState,
}

impl Edges {
    pub(crate) fn new(seed: u64) -> Self {
        Self { edges: Slab::default(), ends: HashTable::new(), hasher: FixedState::with_seed(seed) }
    }

    pub(crate) fn find(&self, session: Slot, resource: Slot) -> Option<Slot> {
        let hash = self.hasher.hash_one((session, resource));
        self.ends
            .find(hash, |&slot| {
                self.at(slot).is_some_and(|e| e.session == session && e.resource == resource)
            })
            .copied()
    }

    pub(crate) fn at(&self, slot: Slot) -> Option<&Edge> {
        cost_probe::note();
        self.edges.at(slot)
    }

    pub(crate) fn at_mut(&mut self, slot: Slot) -> Option<&mut Edge> {
        cost_probe::note();
        self.edges.at_mut(slot)
    }

    pub(crate) fn key(&self, slot: Slot) -> Option<Key> {
        self.edges.key(slot)
    }

    /// Whether the subscription still exists and its grace period is running.
    pub(crate) fn is_waiting(&self, key: Key) -> bool {
        self.edges.get(key).is_some_and(|edge| edge.grace == Grace::Running)
    }

    /// Creates a subscription that is not due and links it into both lists. There must be none
    /// yet.
    pub(crate) fn connect(
        &mut self,
        (session, names): (Slot, &mut List),
        (resource, subscribers): (Slot, &mut List),
        round: u32,
    ) -> Option<Slot> {
        let edge = Edge {
            session,
            resource,
            sent: 0,
            since: 0,
            round,
            standing: Standing::Named,
            grace: Grace::None,
            due: None,
            by_resource: Link::NONE,
            by_session: Link::NONE,
            by_due: Link::NONE,
        };
        let slot = self.edges.push_back(edge)?.slot();
        self.push_back(subscribers, Chain::Resource, slot);
        // The list is ordered by the last transmission; resources that were never sent come
        // first.
        self.push_front(names, Chain::Session, slot);
        let (edges, hasher) = (&self.edges, &self.hasher);
        self.ends.insert_unique(hasher.hash_one((session, resource)), slot, |&other| {
            edges.at(other).map_or(0, |edge| hasher.hash_one((edge.session, edge.resource)))
        });
        Some(slot)
    }

    /// Removes a subscription from all lists.
    pub(crate) fn disconnect(
        &mut self,
        slot: Slot,
        names: &mut List,
        due: &mut DueList,
        subscribers: &mut List,
    ) {
        self.clear_due(due, slot);
        self.unlink(names, Chain::Session, slot);
        self.unlink(subscribers, Chain::Resource, slot);
        if let Some(edge) = self.edges.remove(slot) {
            let hash = self.hasher.hash_one((edge.session, edge.resource));
            if let Ok(entry) = self.ends.find_entry(hash, |&other| other == slot) {
                entry.remove();
            }
        }
    }

    /// Makes the subscription due. A stronger reason replaces a weaker one.
    pub(crate) fn set_due(&mut self, list: &mut DueList, slot: Slot, due: Due) {
        let Some(edge) = self.at_mut(slot) else { return };
        edge.grace = Grace::None;
        let Some(before) = edge.due else {
            edge.due = Some(due);
            self.push_back(list.list(due.release), Chain::Due, slot);
            list.note_altered();
            return;
        };
        edge.due = Some(Due {
            cause: before.cause.min(due.cause),
            ride: before.ride.max(due.ride),
            claim: before.claim.max(due.claim),
            release: due.release,
        });
        if before.release != due.release {
            self.unlink(list.list(before.release), Chain::Due, slot);
            self.push_back(list.list(due.release), Chain::Due, slot);
        }
        list.note_altered();
    }

    /// Records that the client requested the due resource.
    pub(crate) fn note_claim(&mut self, slot: Slot, claim: Claim) {
        if let Some(due) = self.at_mut(slot).and_then(|edge| edge.due.as_mut()) {
            due.claim = due.claim.max(claim);
        }
    }

    /// Records that the due resource or removal answers an unsubscription.
    pub(crate) fn note_dropped(&mut self, slot: Slot) {
        if let Some(due) = self.at_mut(slot).and_then(|edge| edge.due.as_mut()) {
            due.ride = Ride::Dropped;
        }
    }

    /// Makes the removal of a resource due, but withholds it.
    pub(crate) fn withhold(&mut self, list: &mut DueList, slot: Slot) {
        let due = Due { release: Release::Withheld, ..Due::because(Cause::Changed) };
        self.set_due(list, slot, due);
    }

    /// Releases all withheld removals.
    pub(crate) fn release_withheld(&mut self, list: &mut DueList) {
        while let Some(due) = self.at(list.withheld().first()).and_then(|edge| edge.due) {
            self.set_due(list, list.withheld().first(), Due { release: Release::Released, ..due });
        }
    }

    /// Ends the due state of a subscription. Returns the reason for which it was due.
    pub(crate) fn clear_due(&mut self, list: &mut DueList, slot: Slot) -> Option<Due> {
        let due = self.at_mut(slot)?.due.take()?;
        self.unlink(list.list(due.release), Chain::Due, slot);
        list.note_altered();
        Some(due)
    }

    /// Records that the resource was sent under this nonce for its own sake, and moves the
    /// subscription to the end of the session's names. The nonce 0 records a removal and moves it
    /// to the front, to those that were never sent.
    pub(crate) fn set_sent(&mut self, names: &mut List, slot: Slot, nonce: u64) {
        if let Some(edge) = self.at_mut(slot) {
            edge.sent = nonce;
            self.unlink(names, Chain::Session, slot);
            match nonce {
                0 => self.push_front(names, Chain::Session, slot),
                _ => self.push_back(names, Chain::Session, slot),
            }
        }
    }

    pub(crate) fn next(&self, chain: Chain, slot: Slot) -> Slot {
        self.at(slot).map_or(Slot::NONE, |edge| edge.link(chain).next)
    }

    pub(crate) fn previous(&self, chain: Chain, slot: Slot) -> Slot {
        self.at(slot).map_or(Slot::NONE, |edge| edge.link(chain).previous)
    }

    fn push_back(&mut self, list: &mut List, chain: Chain, slot: Slot) {
        let previous = list.tail;
        list.tail = slot;
        self.set_link(chain, slot, Link { previous, next: Slot::NONE });
        match self.at_mut(previous) {
            Some(edge) => edge.link_mut(chain).next = slot,
            None => list.head = slot,
        }
    }

    fn push_front(&mut self, list: &mut List, chain: Chain, slot: Slot) {
        let next = list.head;
        list.head = slot;
        self.set_link(chain, slot, Link { previous: Slot::NONE, next });
        match self.at_mut(next) {
            Some(edge) => edge.link_mut(chain).previous = slot,
            None => list.tail = slot,
        }
    }

    fn unlink(&mut self, list: &mut List, chain: Chain, slot: Slot) {
        let Some(Link { previous, next }) = self.at(slot).map(|edge| edge.link(chain)) else {
            return;
        };
        match self.at_mut(previous) {
            Some(edge) => edge.link_mut(chain).next = next,
            None => list.head = next,
        }
        match self.at_mut(next) {
            Some(edge) => edge.link_mut(chain).previous = previous,
            None => list.tail = previous,
        }
    }

    fn set_link(&mut self, chain: Chain, slot: Slot, link: Link) {
        if let Some(edge) = self.at_mut(slot) {
            *edge.link_mut(chain) = link;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use super::*;

    fn slots(n: usize) -> Vec<Slot> {
        let mut slab = Slab::default();
        (0..n).filter_map(|_| slab.push_back(())).map(|key| key.slot()).collect()
    }

    fn walk(edges: &Edges, chain: Chain, list: List) -> Vec<Slot> {
        let mut found = Vec::new();
        let mut slot = list.first();
        while !slot.is_none() {
            found.push(slot);
            slot = edges.next(chain, slot);
        }
        let mut backwards = Vec::new();
        let mut slot = list.last();
        while !slot.is_none() {
            backwards.push(slot);
            slot = edges.previous(chain, slot);
        }
        backwards.reverse();
        assert_eq!(found, backwards);
        found
    }

    #[test]
    fn an_edge_hangs_in_three_lists_and_leaves_all() {
        let resources = slots(4);
        let session = resources[0];
        let mut edges = Edges::new(1);
        let (mut names, mut due) = (List::default(), DueList::default());
        let mut subscribers = [List::default(); 4];
        let made: Vec<_> = (0..4)
            .filter_map(|n| {
                edges.connect((session, &mut names), (resources[n], &mut subscribers[n]), 1)
            })
            .collect();
        assert_eq!(walk(&edges, Chain::Session, names), vec![made[3], made[2], made[1], made[0]]);
        for &edge in &made {
            edges.set_due(&mut due, edge, Due::because(Cause::Resubscribed));
        }
        edges.set_due(&mut due, made[1], Due::because(Cause::Changed));
        edges.set_due(&mut due, made[1], Due::because(Cause::Warming));
        assert_eq!(
            walk(&edges, Chain::Due, due.released),
            made,
            "due once, in the order of becoming due"
        );
        assert_eq!(edges.clear_due(&mut due, made[1]).map(|due| due.cause), Some(Cause::Changed));

        edges.disconnect(made[2], &mut names, &mut due, &mut subscribers[2]);
        assert_eq!(walk(&edges, Chain::Due, due.released), vec![made[0], made[3]]);
        assert_eq!(walk(&edges, Chain::Session, names), vec![made[3], made[1], made[0]]);
        assert!(subscribers[2].is_empty());
        assert_eq!(edges.find(session, resources[2]), None);
        assert_eq!(edges.find(session, resources[3]), Some(made[3]));

        edges.withhold(&mut due, made[0]);
        edges.withhold(&mut due, made[1]);
        assert_eq!(walk(&edges, Chain::Due, due.released), vec![made[3]]);
        assert_eq!(walk(&edges, Chain::Due, due.withheld()), vec![made[0], made[1]]);
        edges.set_due(&mut due, made[0], Due::because(Cause::Changed));
        assert_eq!(walk(&edges, Chain::Due, due.released), vec![made[3], made[0]]);
        edges.release_withheld(&mut due);
        assert_eq!(walk(&edges, Chain::Due, due.released), vec![made[3], made[0], made[1]]);
        assert!(due.withheld().is_empty());

        edges.set_sent(&mut names, made[1], 7);
        assert_eq!(walk(&edges, Chain::Session, names), vec![made[3], made[0], made[1]]);
    }
}
