//! Pending contents of a session, and whether the client has accepted the rest.

use super::{
    First, Haste, Purpose, Sends, Session, Staging, Wildcard,
    extras::Lacks,
    response::heartbeat::Renewals,
    subscription::{Chain, Edge, Edges},
    wildcard::{CatchUp, Claim},
    window::Answer,
};
use crate::{
    server::{
        config::OnStuck,
        event::Cause,
        store::{
            arena::{Arena, Pace, Resource},
            revision::Stamp,
        },
    },
    slab::Slot,
};

/// Response, identified by its nonce, with the newest revision when it was rendered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rendering {
    pub(crate) nonce: u64,
    pub(crate) at: Stamp,
}

impl Session {
    /// Whether there is something to send and the window is open. O(1).
    pub(crate) fn is_due(&self, arena: &Arena) -> bool {
        let may_be_told = || arena.pace == Pace::AtOnce || self.is_urgent();
        let lacks_something = || self.lacks_something(arena) && may_be_told();
        self.has_room(arena) && (lacks_something() || self.has_probe() || self.owes_heartbeats())
    }

    /// Whether there is something to send and the window is open, but changes are held back.
    // M225
    pub(crate) fn is_held_back(&self, arena: &Arena) -> bool {
        self.has_room(arena) && self.lacks_something(arena) && !self.is_due(arena)
    }

    /// Whether the client waits for an answer, independently of changes.
    fn is_urgent(&self) -> bool {
        let is_owed = self.wildcard.is_some_and(|wildcard| wildcard.owed.is_some());
        is_owed || self.haste == Haste::Urgent || self.owes_farewell()
    }

    /// Makes everything due urgent, so that it is sent although changes are held back.
    pub(crate) fn hasten(&mut self) {
        self.haste = Haste::Urgent;
    }

    fn owes_heartbeats(&self) -> bool {
        // Due heartbeats are known once everything is answered.
        !self.is_waiting() && self.renewals.as_deref().is_some_and(Renewals::are_due)
    }

    /// Whether heartbeats are due that do not include anything else that is due. In full state
    /// there are none, because the state itself renews the resources.
    pub(crate) fn owes_heartbeats_alone(&self, arena: &Arena) -> bool {
        let is_apart = self.sends(arena) != Sends::FullState || !self.has_additions(arena);
        self.owes_heartbeats() && is_apart
    }

    /// Whether there is something to send other than heartbeats, now or when the window opens.
    /// O(1).
    pub(crate) fn lacks_something(&self, arena: &Arena) -> bool {
        self.has_additions(arena) || self.has_removals(arena)
    }

    /// Whether there is something to send once the window is open, other than [removals that may
    /// have to wait](Self::has_removals).
    pub(crate) fn has_additions(&self, arena: &Arena) -> bool {
        self.due.is_ready()
            || self.first == First::Owed
            || self.owes_farewell()
            || self.bereft().is_some() && !self.lets_linger(arena)
            || self.wildcard.as_ref().is_some_and(|wildcard| self.is_behind(wildcard, arena))
    }

    /// Whether the wildcard has something to send once the window is open.
    fn is_behind(&self, wildcard: &Wildcard, arena: &Arena) -> bool {
        match self.sends(arena) {
            Sends::Changes => arena.newest() > wildcard.cursor,
            Sends::FullState if !arena.absence_deletes() => {
                wildcard.owed.is_some() && arena.existing() > 0 || arena.newest() > wildcard.cursor
            }
            _ if wildcard.owed.is_some() => true,
            Sends::FullState if !self.lets_linger(arena) => wildcard.version != arena.version,
            Sends::FullState => arena.newest() > wildcard.cursor,
            Sends::ChangesAndRemovals => {
                let tells_removals = arena.tells_removals() && !self.lets_linger(arena);
                arena.newest() > wildcard.cursor
                    || tells_removals && arena.newest_grave() > wildcard.told
            }
        }
    }

    /// Whether there are removals to send that may have to wait.
    // M147
    pub(crate) fn has_removals(&self, arena: &Arena) -> bool {
        let lost = |wildcard: &Wildcard| match self.sends(arena) {
            // Whether or not the tombstones still exist.
            Sends::FullState if wildcard.version == arena.version => false,
            Sends::FullState if arena.newest() <= wildcard.cursor => true,
            _ => arena.newest_grave() > wildcard.told,
        };
        self.lets_linger(arena)
            && (!self.due.withheld().is_empty()
                || self.bereft().is_some()
                || self.wildcard.as_ref().is_some_and(lost))
    }

    /// Returns an upper bound of the revision at which the newest due resource changed. Names
    /// without a resource do not count, because they refer to nothing.
    // IS7
    pub(crate) fn newest_due(&self, arena: &Arena, edges: &Edges) -> Stamp {
        if self.wildcard.as_ref().is_some_and(|wildcard| self.is_behind(wildcard, arena)) {
            return arena.clock();
        }
        self.due.newest().unwrap_or_else(|| self.find_newest_due(arena, edges))
    }

    /// Looks up and stores the revision of the newest due resource, unless it is known.
    pub(crate) fn look_up_newest_due(&mut self, arena: &Arena, edges: &Edges) {
        if self.due.newest().is_none() {
            self.due.note_newest(self.find_newest_due(arena, edges));
        }
    }

    fn find_newest_due(&self, arena: &Arena, edges: &Edges) -> Stamp {
        let (mut newest, mut slot) = (Stamp::START, self.due.first());
        while let Some(edge) = edges.at(slot) {
            let resource = arena.at(edge.resource).filter(|resource| resource.is_held());
            newest = newest.max(resource.map_or(newest, |resource| resource.stamp));
            slot = edges.next(Chain::Due, slot);
        }
        newest
    }

    /// Returns an upper bound of the revision of the newest removal that is due.
    pub(crate) fn newest_deletion(&self, arena: &Arena, edges: &Edges) -> Stamp {
        let withheld = edges.at(self.due.withheld().last());
        let by_name = match withheld.and_then(|edge| arena.at(edge.resource)) {
            None => Stamp::START,
            // Removed before the stream started, as far as is known.
            Some(resource) if resource.stamp == Stamp::START => {
                self.brought_at().unwrap_or(Stamp::MAX)
            }
            Some(resource) => resource.stamp,
        };
        let by_name = by_name.max(self.bereft().map_or(Stamp::START, |bereft| bereft.at));
        if self.wildcard.is_some() { by_name.max(arena.newest_grave()) } else { by_name }
    }

    /// Whether any named resource that the client has was removed silently after a revision.
    pub(crate) fn has_lost_silently(&self, arena: &Arena, edges: &Edges, after: Stamp) -> bool {
        let is_lost =
            |slot| arena.at(slot).is_some_and(|it| it.payload.is_none() && it.stamp > after);
        self.sends(arena) == Sends::Changes && self.sent_by_name(edges).any(is_lost)
    }

    /// Whether the client still has an old version of any named resource that was removed
    /// silently and came back after a revision. It is due to be sent.
    pub(crate) fn has_from_before(&self, arena: &Arena, edges: &Edges, after: Stamp) -> bool {
        if self.sends(arena) != Sends::Changes {
            return false;
        }
        let mut slot = self.due.first();
        while let Some(edge) = edges.at(slot) {
            if edge.sent != 0 && arena.came_back_after(edge.resource, after) {
                return true;
            }
            slot = edges.next(Chain::Due, slot);
        }
        false
    }

    /// Whether the client rejected the newest response.
    pub(crate) fn is_refused(&self) -> bool {
        self.newest.is_some_and(|sent| sent.answer == Answer::Nack)
    }

    /// Whether the client rejected resources that were not re-sent since, or not accepted then.
    pub(crate) fn is_rejected(&self) -> bool {
        self.suspects().is_some()
            || self.has_suspects_or_culprits()
            || self.newest.is_some_and(|sent| sent.verdict == Answer::Nack)
    }

    /// Whether the client has all existing resources that it was sent, whatever it rejected. It
    /// may still have removed ones.
    pub(crate) fn lacks_nothing(&self) -> bool {
        let lacks_news = || self.rare.as_deref().is_some_and(|rare| rare.lacks == Lacks::News);
        !self.is_waiting() && (!self.is_rejected() || lacks_news())
    }

    /// Whether the client requested something that it has not been sent.
    pub(crate) fn is_asked_for_more(&self, edges: &Edges) -> bool {
        let owed = self.wildcard.and_then(|wildcard| wildcard.owed);
        if owed.is_some_and(|owed| owed.claim == Claim::Answer) {
            return true;
        }
        let mut slot = self.due.first();
        while let Some(edge) = edges.at(slot) {
            if edge.due.is_some_and(|due| due.claim == Claim::Answer) {
                return true;
            }
            slot = edges.next(Chain::Due, slot);
        }
        false
    }

    /// Whether the client waits for something that it requested: an answer of any kind, or a
    /// named resource that exists now and that it was never sent.
    pub(crate) fn has_unanswered(&self, edges: &Edges) -> bool {
        if self.asks_for_everything() {
            return true;
        }
        let mut slot = self.due.first();
        while let Some(edge) = edges.at(slot) {
            if edge.is_unanswered() {
                return true;
            }
            slot = edges.next(Chain::Due, slot);
        }
        false
    }

    /// Whether the client subscribed to the wildcard and was sent nothing of it since. A
    /// returning client that stated its resources goes on using them.
    pub(crate) fn asks_for_everything(&self) -> bool {
        self.wildcard.is_some_and(|wildcard| {
            let is_first = wildcard.owed.is_some_and(|owed| owed.cause == Cause::First);
            let is_return = is_first && wildcard.catch_up == CatchUp::TheRest;
            wildcard.claim() == Claim::Answer && !is_return
        })
    }

    /// Whether other types wait for the client's answers to this one.
    pub(crate) fn is_held_to_answers(&self) -> bool {
        matches!(self.staging, Staging::Staged | Staging::Lingering(_))
    }

    pub(crate) fn staging(&self) -> Staging {
        self.staging
    }

    /// Whether removals may have to wait for ACKs of additions and changes.
    pub(crate) fn lingers(&self) -> bool {
        matches!(self.staging, Staging::Lingering(_))
    }

    /// Whether removals may have to wait forever.
    pub(crate) fn lingers_for_ever(&self) -> bool {
        self.staging == Staging::Lingering(OnStuck::Hold)
    }

    /// Returns the revision up to which the session has processed tombstones, if it uses them and
    /// was sent something.
    pub(crate) fn seen_graves(&self, arena: &Arena) -> Option<Stamp> {
        let ghosts = self.wildcard.filter(|_| self.needs_ghosts(arena));
        let ghosts = ghosts.filter(|wildcard| wildcard.reached != Stamp::START);
        ghosts.map(|wildcard| wildcard.told).or_else(|| self.told(arena))
    }

    /// Returns the revisions of the withheld removals.
    pub(crate) fn withheld<'a>(
        &self,
        arena: &'a Arena,
        edges: &'a Edges,
    ) -> impl Iterator<Item = Stamp> + 'a {
        let first = edges.at(self.due.withheld().first());
        let next = |edge: &&'a Edge| edges.at(edge.next_due());
        core::iter::successors(first, next)
            .filter_map(|edge| arena.at(edge.resource))
            .map(|resource| resource.stamp)
    }

    /// Returns the revision up to which a returning client states to have everything, if it was
    /// sent nothing since.
    pub(crate) fn came_with(&self) -> Option<Stamp> {
        let is_trusted = self.newest.is_none() && self.accepted.is_some();
        let wildcard = self.wildcard.filter(|it| is_trusted && it.owed.is_none());
        wildcard.map(|wildcard| wildcard.told)
    }

    /// Returns the newest response, or a default if there is none.
    pub(crate) fn newest_rendering(&self) -> Rendering {
        let newest = self.newest.map(|sent| Rendering { nonce: sent.nonce.get(), at: sent.at });
        newest.unwrap_or_default()
    }

    /// Returns the existing named resources that the client was sent, but not in their current
    /// version in or before a response.
    pub(crate) fn new_by_name<'a>(
        &self,
        Rendering { nonce, at }: Rendering,
        arena: &'a Arena,
        edges: &'a Edges,
    ) -> impl Iterator<Item = &'a Resource> + 'a {
        self.own_edges(edges).filter(|edge| edge.sent != 0).filter_map(move |edge| {
            let resource = arena.at(edge.resource).filter(|it| it.payload.is_some())?;
            (resource.stamp > at || edge.was_first_sent_after(nonce)).then_some(resource)
        })
    }

    /// Nonce of the newest response; 0 if there is none.
    pub(crate) fn newest_nonce(&self) -> u64 {
        self.newest.map_or(0, |sent| sent.nonce.get())
    }

    /// Nonce of the newest response, unless that is a heartbeat.
    pub(crate) fn newest_content(&self) -> Option<u64> {
        let newest = self.newest.filter(|sent| sent.purpose == Purpose::Content);
        newest.map(|sent| sent.nonce.get())
    }

    /// Whether the client subscribes to the wildcard of the type.
    pub(crate) fn has_wildcard(&self) -> bool {
        self.wildcard.is_some()
    }

    /// Returns the named resources that the client was sent.
    pub(crate) fn sent_by_name<'a>(&self, edges: &'a Edges) -> impl Iterator<Item = Slot> + 'a {
        self.own_edges(edges).filter(|edge| edge.sent != 0).map(|edge| edge.resource)
    }

    /// Whether the client was sent the current version of the resource, by whatever name.
    pub(crate) fn was_sent(&self, own: Slot, resource: Slot, arena: &Arena, edges: &Edges) -> bool {
        match edges.find(own, resource) {
            Some(_) => self.has(own, resource, edges),
            None => arena.at(resource).is_some_and(|it| it.stamp <= self.reached()),
        }
    }

    /// Returns all subscriptions of the session.
    pub(crate) fn own_edges<'a>(&self, edges: &'a Edges) -> impl Iterator<Item = &'a Edge> + 'a {
        let first = edges.at(self.edges.first()).map(|_| self.edges.first());
        let next = |&slot: &Slot| Some(edges.next(Chain::Session, slot)).filter(|it| !it.is_none());
        core::iter::successors(first, next).filter_map(|slot| edges.at(slot))
    }
}
