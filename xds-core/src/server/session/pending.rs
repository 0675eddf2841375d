//! How far a session has got: what is still to be sent, and whether the client has accepted the rest.

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

/// A response, by its nonce, and the newest change when it was rendered.
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

    /// Whether there is, but for that the changes are held back (M225).
    pub(crate) fn is_held_back(&self, arena: &Arena) -> bool {
        self.has_room(arena) && self.lacks_something(arena) && !self.is_due(arena)
    }

    /// Whether the client waits for an answer, whatever changed.
    fn is_urgent(&self) -> bool {
        let is_owed = self.wildcard.is_some_and(|wildcard| wildcard.owed.is_some());
        is_owed || self.haste == Haste::Urgent || self.owes_farewell()
    }

    /// What is due is told although changes are held back.
    pub(crate) fn hasten(&mut self) {
        self.haste = Haste::Urgent;
    }

    fn owes_heartbeats(&self) -> bool {
        // What is to be renewed is known once everything is answered.
        !self.is_waiting() && self.renewals.as_deref().is_some_and(Renewals::are_due)
    }

    /// Whether heartbeats are due that say nothing of what else is. In full state there are none: what
    /// renews a resource is the state as it is now.
    pub(crate) fn owes_heartbeats_alone(&self, arena: &Arena) -> bool {
        let is_apart = self.sends(arena) != Sends::FullState || !self.has_additions(arena);
        self.owes_heartbeats() && is_apart
    }

    /// Whether there is something to send other than heartbeats, now or when the window opens. O(1).
    pub(crate) fn lacks_something(&self, arena: &Arena) -> bool {
        self.has_additions(arena) || self.has_removals(arena)
    }

    /// Whether there is something to send, whenever the window is open, other than what
    /// [waits for its own reasons](Self::has_removals).
    pub(crate) fn has_additions(&self, arena: &Arena) -> bool {
        self.due.is_ready()
            || self.first == First::Owed
            || self.owes_farewell()
            || self.bereft().is_some() && !self.lets_linger(arena)
            || self.wildcard.as_ref().is_some_and(|wildcard| self.is_behind(wildcard, arena))
    }

    /// Whether the wildcard has something to send, whenever the window is open.
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

    /// Whether deletions are to be told that may have to wait (M147).
    pub(crate) fn has_removals(&self, arena: &Arena) -> bool {
        let lost = |wildcard: &Wildcard| match self.sends(arena) {
            // Whether or not the graves are still there.
            Sends::FullState if wildcard.version == arena.version => false,
            Sends::FullState if arena.newest() <= wildcard.cursor => true,
            _ => arena.newest_grave() > wildcard.told,
        };
        self.lets_linger(arena)
            && (!self.due.withheld().is_empty()
                || self.bereft().is_some()
                || self.wildcard.as_ref().is_some_and(lost))
    }

    /// When the newest of what is to be sent changed, or later. That a name is gone, or never was, refers to
    /// nothing (IS7).
    pub(crate) fn newest_due(&self, arena: &Arena, edges: &Edges) -> Stamp {
        if self.wildcard.as_ref().is_some_and(|wildcard| self.is_behind(wildcard, arena)) {
            return arena.clock();
        }
        self.due.newest().unwrap_or_else(|| self.find_newest_due(arena, edges))
    }

    /// Looks that up, if it has to be.
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

    /// When the newest of what is to be told as gone was deleted, or later.
    pub(crate) fn newest_deletion(&self, arena: &Arena, edges: &Edges) -> Stamp {
        let withheld = edges.at(self.due.withheld().last());
        let by_name = match withheld.and_then(|edge| arena.at(edge.resource)) {
            None => Stamp::START,
            // Before the stream, as far as is known.
            Some(resource) if resource.stamp == Stamp::START => {
                self.brought_at().unwrap_or(Stamp::MAX)
            }
            Some(resource) => resource.stamp,
        };
        let by_name = by_name.max(self.bereft().map_or(Stamp::START, |bereft| bereft.at));
        if self.wildcard.is_some() { by_name.max(arena.newest_grave()) } else { by_name }
    }

    /// Whether anything was deleted after a position that the client has by name, and is not told of.
    pub(crate) fn has_lost_silently(&self, arena: &Arena, edges: &Edges, after: Stamp) -> bool {
        let is_lost =
            |slot| arena.at(slot).is_some_and(|it| it.payload.is_none() && it.stamp > after);
        self.sends(arena) == Sends::Changes && self.sent_by_name(edges).any(is_lost)
    }

    /// Whether the client has anything by name as it was before that went without a word, and came back after a
    /// position: it is to be sent that yet.
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

    /// Whether the client has rejected the newest response.
    pub(crate) fn is_refused(&self) -> bool {
        self.newest.is_some_and(|sent| sent.answer == Answer::Nack)
    }

    /// Whether the client has rejected what has not been sent again since, or not been accepted then.
    pub(crate) fn is_rejected(&self) -> bool {
        self.suspects().is_some()
            || self.has_suspects_or_culprits()
            || self.newest.is_some_and(|sent| sent.verdict == Answer::Nack)
    }

    /// Whether the client has all that it was sent and that there is, whatever it has rejected: it may only have
    /// what is gone.
    pub(crate) fn lacks_nothing(&self) -> bool {
        let lacks_news = || self.rare.as_deref().is_some_and(|rare| rare.lacks == Lacks::News);
        !self.is_waiting() && (!self.is_rejected() || lacks_news())
    }

    /// Whether the client has asked for something that it has not been sent.
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

    /// Whether the client waits for something that it has asked for: an answer of any kind, or a resource of this name
    /// that it has never been sent and that exists now.
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

    /// Whether the client has subscribed to everything and was sent none of it since. A client that comes back and says
    /// what it has goes on with that.
    pub(crate) fn asks_for_everything(&self) -> bool {
        self.wildcard.is_some_and(|wildcard| {
            let is_first = wildcard.owed.is_some_and(|owed| owed.cause == Cause::First);
            let is_return = is_first && wildcard.catch_up == CatchUp::TheRest;
            wildcard.claim() == Claim::Answer && !is_return
        })
    }

    /// Whether other types wait for what the client says to this one.
    pub(crate) fn is_held_to_answers(&self) -> bool {
        matches!(self.staging, Staging::Staged | Staging::Lingering(_))
    }

    pub(crate) fn staging(&self) -> Staging {
        self.staging
    }

    /// Whether what is deleted may have to wait for what was set.
    pub(crate) fn lingers(&self) -> bool {
        matches!(self.staging, Staging::Lingering(_))
    }

    /// Whether that may be for ever.
    pub(crate) fn lingers_for_ever(&self) -> bool {
        self.staging == Staging::Lingering(OnStuck::Hold)
    }

    /// Up to where the session has seen what was deleted, if it goes by the graves and has been sent
    /// something.
    pub(crate) fn seen_graves(&self, arena: &Arena) -> Option<Stamp> {
        let ghosts = self.wildcard.filter(|_| self.needs_ghosts(arena));
        let ghosts = ghosts.filter(|wildcard| wildcard.reached != Stamp::START);
        ghosts.map(|wildcard| wildcard.told).or_else(|| self.told(arena))
    }

    /// When what is not to be told yet was deleted.
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

    /// Up to where the client had everything when it came, as it says, if it has not been sent anything since.
    pub(crate) fn came_with(&self) -> Option<Stamp> {
        let is_trusted = self.newest.is_none() && self.accepted.is_some();
        let wildcard = self.wildcard.filter(|it| is_trusted && it.owed.is_none());
        wildcard.map(|wildcard| wildcard.told)
    }

    /// The newest response.
    pub(crate) fn newest_rendering(&self) -> Rendering {
        let newest = self.newest.map(|sent| Rendering { nonce: sent.nonce.get(), at: sent.at });
        newest.unwrap_or_default()
    }

    /// What there is of what the client was sent of what it subscribes to by name, and was not sent like that in a
    /// response or before it.
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

    /// The number of the newest response; zero if there is none.
    pub(crate) fn newest_nonce(&self) -> u64 {
        self.newest.map_or(0, |sent| sent.nonce.get())
    }

    /// The same, unless it is a heartbeat.
    pub(crate) fn newest_content(&self) -> Option<u64> {
        let newest = self.newest.filter(|sent| sent.purpose == Purpose::Content);
        newest.map(|sent| sent.nonce.get())
    }

    /// Whether the client subscribes to everything of the type.
    pub(crate) fn has_wildcard(&self) -> bool {
        self.wildcard.is_some()
    }

    /// What the client was sent of what it subscribes to by name.
    pub(crate) fn sent_by_name<'a>(&self, edges: &'a Edges) -> impl Iterator<Item = Slot> + 'a {
        self.own_edges(edges).filter(|edge| edge.sent != 0).map(|edge| edge.resource)
    }

    /// Whether the client has been sent the resource as it is now, by whatever name.
    pub(crate) fn was_sent(&self, own: Slot, resource: Slot, arena: &Arena, edges: &Edges) -> bool {
        match edges.find(own, resource) {
            Some(_) => self.has(own, resource, edges),
            None => arena.at(resource).is_some_and(|it| it.stamp <= self.reached()),
        }
    }

    /// All its edges.
    pub(crate) fn own_edges<'a>(&self, edges: &'a Edges) -> impl Iterator<Item = &'a Edge> + 'a {
        let first = edges.at(self.edges.first()).map(|_| self.edges.first());
        let next = |&slot: &Slot| Some(edges.next(Chain::Session, slot)).filter(|it| !it.is_none());
        core::iter::successors(first, next).filter_map(|slot| edges.at(slot))
    }
}
