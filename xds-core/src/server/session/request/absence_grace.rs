//! Grace period for names that do not exist when an incremental client subscribes to them.
// M127

use crate::{
    server::{
        config::AbsenceGrace,
        session::{First, Session, context::Turn, subscription::Grace},
    },
    slab::{Key, Slot},
    time::Time,
};

/// Number of waiting names allowed in addition to twice the held names before the list is purged
/// of those that no longer wait.
const SPARE: usize = 64;

impl Session {
    /// Returns the time at which the first grace period ends or the held first response is
    /// released, whichever is earlier.
    pub(crate) fn grace_ends(&self) -> Option<Time> {
        let rare = self.rare.as_deref()?;
        rare.graces.front().map(|&(until, _)| until).into_iter().chain(rare.first_hold).min()
    }

    /// Whether the client waits for its first response and no named resource is due.
    pub(crate) fn lacks_first_answer(&self) -> bool {
        self.first == First::Unanswered && self.due.is_empty()
    }

    fn take_first_hold(&mut self, now: Time) -> bool {
        let mut is_over = false;
        self.with_rare(|rare| is_over = rare.first_hold.take_if(|until| *until <= now).is_some());
        is_over
    }

    fn take_grace_over(&mut self, now: Time) -> Option<Key> {
        let graces = &mut self.rare.as_deref_mut()?.graces;
        graces.front().filter(|(until, _)| *until <= now)?;
        let over = graces.pop_front();
        self.tidy();
        over.map(|(_, edge)| edge)
    }
}

impl Turn<'_> {
    /// Starts the grace period of a name that does not exist, if one is configured. Returns
    /// whether the client is not yet told that the name does not exist.
    pub(crate) fn grant_grace(&mut self, slot: Slot, now: Time) -> bool {
        let policy = self.arena.config.absence_grace;
        if policy == AbsenceGrace::Prompt {
            return false;
        }
        let Some(edge) = self.edges.at(slot).filter(|edge| edge.due.is_none()) else {
            return false;
        };
        let (resource, is_waiting) = (edge.resource, edge.grace == Grace::Running);
        if self.arena.payload(resource).is_some() || self.error_of(resource).is_some() {
            return false;
        }
        let AbsenceGrace::Grace(grace) = policy else { return true };
        let Some(key) = self.edges.key(slot) else { return false };
        if let Some(edge) = self.edges.at_mut(slot).filter(|_| !is_waiting) {
            edge.grace = Grace::Running;
            let limit = self.session.held().saturating_mul(2).saturating_add(SPARE);
            let edges = &*self.edges;
            let graces = &mut self.session.rare_mut().graces;
            graces.push_back((now.after(grace), key));
            if graces.len() > limit {
                graces.retain(|&(_, key)| edges.is_waiting(key));
            }
        }
        true
    }

    /// Makes names due whose grace period is over and which still do not exist.
    pub(crate) fn end_graces(&mut self, now: Time) {
        while let Some(key) = self.session.take_grace_over(now) {
            if self.edges.is_waiting(key) {
                self.make_due(key.slot(), self.session.asked());
            }
        }
        if self.session.take_first_hold(now) {
            self.end_first_hold();
        }
    }
}
