//! What was deleted, as far back as the horizon.

use super::{Arena, Resource};
use crate::{
    server::store::{
        encode::body::{Parts, Room},
        revision::{Life, Stamp},
    },
    slab::Slot,
    wire::request::Spelling,
};

/// What a client knows of what is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Knows {
    /// Of all deletions up to here.
    pub(crate) told: Stamp,
    /// And, of those there were when it was begun to be told of the others, up to here.
    pub(crate) partly: Stamp,
}

impl Arena {
    /// From now on somebody has to be told what is deleted.
    pub(crate) fn join_mourners(&mut self) {
        self.mourners += 1;
    }

    /// One less has to be told; nobody, and nothing need be remembered.
    pub(crate) fn leave_mourners(&mut self) {
        self.mourners -= 1;
        if self.mourners == 0 {
            self.trim_graves(0);
        }
    }

    /// Forgets the oldest deletions until there are no more than `limit`. Who has not been told of them
    /// by now has to start over: [`horizon`](Self::horizon) says how far back it is still known.
    pub(crate) fn trim_graves(&mut self, limit: usize) {
        while self.graves.len() > limit
            && let Some(grave) = self.graves.pop_front()
        {
            self.horizon = grave.stamp;
            if self.at(grave.resource).is_some_and(|resource| resource.stamp == grave.stamp) {
                self.close_grave(grave.resource);
            }
        }
    }

    /// Forgets the deletions up to `told`, of which everybody knows.
    pub(crate) fn forget_graves(&mut self, told: Stamp) {
        let known = self.graves.partition_point(|grave| grave.stamp <= told);
        self.trim_graves(self.graves.len() - known);
    }

    /// How many deletions of those after `from` and up to `to` are remembered.
    pub(crate) fn graves_between(&self, from: Stamp, to: Stamp) -> usize {
        let up_to = |position| self.graves.partition_point(|grave| grave.stamp <= position);
        up_to(to).saturating_sub(up_to(from))
    }

    /// How many deletions are remembered.
    pub(crate) fn graves(&self) -> usize {
        self.graves.len()
    }

    /// Deletions up to here are forgotten.
    pub(crate) fn horizon(&self) -> Stamp {
        self.horizon
    }

    pub(crate) fn close_grave(&mut self, slot: Slot) {
        if let Some(resource) = self.resources.at_mut(slot) {
            resource.life = Life::default();
        }
        self.release(slot);
    }

    /// When the newest deletion was that is not forgotten.
    pub(crate) fn newest_grave(&self) -> Stamp {
        self.graves.back().map_or(Stamp::START, |grave| grave.stamp)
    }

    /// What is gone of that which was sent to who has everything up to `sent`, and not told to who knows
    /// of this.
    pub(crate) fn lost(
        &self,
        Knows { told, partly }: Knows,
        sent: Stamp,
    ) -> impl Iterator<Item = (Slot, &Resource)> {
        let first = self.graves.partition_point(|grave| grave.stamp <= told.max(partly));
        self.graves.iter().skip(first).filter_map(move |grave| {
            let resource = self.at(grave.resource)?;
            let is_lost = resource.stamp == grave.stamp && resource.life.is_known(sent, told);
            is_lost.then_some((grave.resource, resource))
        })
    }

    /// Whether a name had no resource up to `position`, as far as is known.
    pub(crate) fn began_after(&self, slot: Slot, position: Stamp) -> bool {
        self.at(slot).is_some_and(|resource| resource.life.began_after(position))
    }

    /// Whether a name has no resource, and had none up to `position`, as far as is known.
    pub(crate) fn came_and_went_after(&self, slot: Slot, position: Stamp) -> bool {
        let resource = self.at(slot).filter(|resource| resource.payload.is_none());
        resource.is_some_and(|resource| resource.life.began_after(position))
    }

    /// Whether a name has a resource again since after `position`.
    pub(crate) fn came_back_after(&self, slot: Slot, position: Stamp) -> bool {
        let resource = self.at(slot).filter(|resource| resource.payload.is_some());
        resource.is_some_and(|resource| resource.life.came_back_after(position))
    }

    /// Whether who was sent everything up to `sent`, and told of deletions up to `told`, has some version
    /// of the resource.
    pub(crate) fn is_known(&self, slot: Slot, sent: Stamp, told: Stamp) -> bool {
        self.at(slot).is_some_and(|resource| {
            let is_there = resource.payload.is_some() || resource.stamp > told;
            is_there && resource.life.is_known(sent, told)
        })
    }

    /// Adds the names of what is [lost](Self::lost), as many as fit. Says how far it got, if that is not all.
    pub(crate) fn gather_graves(
        &self,
        knows: Knows,
        sent: Stamp,
        parts: &mut Parts,
        spelling: Spelling,
        wanted: impl Fn(Slot) -> bool,
    ) -> Option<Stamp> {
        for (slot, resource) in self.lost(knows, sent) {
            if wanted(slot) && parts.remove(&resource.name, spelling) == Room::Full {
                return Some(resource.stamp.before());
            }
        }
        None
    }
}

impl Knows {
    /// Of all deletions up to there.
    pub(crate) fn all(told: Stamp) -> Self {
        Self { told, partly: told }
    }
}
