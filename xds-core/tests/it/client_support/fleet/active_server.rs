//! Checks at rest of the servers in use and of the errors reported to watchers.
// gRFC A47, A71

use std::{collections::BTreeSet, time::Duration};

use proptest::{prelude::*, test_runner::TestCaseError};
use xds_core::{Time, client::ResourceState};

use super::{
    super::{TYPES, watcher::Watcher},
    World,
    exchange::Place,
    oracle::{Statuses, statuses},
    peer::Peer,
    setup::{Servers, authority_of},
    situations::Situation,
};

/// Minimum time between two streams to one server if the client closed the first one itself.
const BREATH: Duration = Duration::from_secs(1);

impl World {
    /// Allows a backoff pause without a visible cause: a stream may have opened and closed unseen.
    pub fn note_breath(&mut self) {
        if self.setup.servers == Servers::Fallback {
            self.talk.is_breathing_until = self.now.after(BREATH);
        }
    }

    pub fn those_who_count_are_asked(&mut self) -> Result<(), TestCaseError> {
        self.only_those_who_answer_are_asked()?;
        if self.talk.has_lied || self.now < self.talk.is_breathing_until {
            return Ok(());
        }
        let known = statuses(&self.client);
        for watcher in &self.watchers {
            let (kind, name) = (watcher.kind, watcher.name.as_deref().unwrap_or("*"));
            let order = self.setup.servers_of(kind, name);
            let place = self.setup.place_of_watch(watcher);
            self.is_asked_or_waited_for(place, kind, name)?;
            let is_in_trouble = self.talk.trouble.contains(&place);
            self.reached.note(Situation::TroubleStands, is_in_trouble);
            let behind = order.get(1).map(|&server| (server, place.1));
            let group = self.group_of(watcher);
            let has_fallen_back = self.talk.fallen_back.contains(&group)
                || self.has_reason_to_fall_back(group, &known);
            if let Some(behind) = behind
                && is_in_trouble
                && has_fallen_back
                && self.is_anything_unknown(group, &known)
            {
                self.is_asked_or_waited_for(behind, kind, name)?;
                self.reached.note(Situation::TurnedToTheNext, true);
            } else if is_in_trouble
                && !self.has_been_silent(place)
                && behind.is_none_or(|behind| self.is_left_alone(behind))
            {
                prop_assert!(watcher.knows_of_trouble(), "{:?} is not told (IC27)", watcher);
            }
        }
        Ok(())
    }

    /// Checks that each name is requested only from its authority's servers, and only from the
    /// preferred one while that answers.
    // IC29 IC30
    fn only_those_who_answer_are_asked(&self) -> Result<(), TestCaseError> {
        for peer in &self.peers {
            for kind in 0..TYPES.len() {
                for name in peer.subscribed(kind) {
                    let order = self.setup.servers_of(kind, name);
                    prop_assert!(order.contains(&peer.server), "{} of {:?} (IC30)", name, peer);
                    let best = self.setup.place_of(kind, name);
                    let mut others = self.peers.iter();
                    let answers =
                        others.any(|it| it.place() == best && it.first_response.is_some());
                    let is_best = peer.place() == best;
                    prop_assert!(is_best || !answers, "{} of {:?} (IC29)", name, peer);
                }
            }
        }
        Ok(())
    }

    /// Checks that the server has been asked, or that the backoff before its next stream is not
    /// over.
    // IC10 IC26 IC29
    fn is_asked_or_waited_for(
        &self,
        place: Place,
        kind: usize,
        name: &str,
    ) -> Result<(), TestCaseError> {
        match self.peer_at(place) {
            Some(peer) => {
                let is_asked = peer.subscribed(kind).contains(name);
                prop_assert!(is_asked, "{} is not asked for {} (IC10, IC29)", peer.server, name);
            }
            None => {
                let until = self.pause_before(place);
                prop_assert!(self.now < until, "{:?} could be tried (IC26, IC29)", place);
            }
        }
        Ok(())
    }

    /// The preferred place and the authority of a watch.
    pub fn group_of(&self, watcher: &Watcher) -> (Place, usize) {
        let authority = authority_of(watcher.name.as_deref().unwrap_or_default());
        (self.setup.place_of_watch(watcher), authority)
    }

    /// Whether the place has failed while a watched name of the authority is unknown. A silent
    /// server has recovered, so watches that begin later do not fall back from it.
    // IC29 S3.014 X16
    pub fn has_reason_to_fall_back(&self, group: (Place, usize), known: &Statuses) -> bool {
        let has_failed = self.talk.trouble.contains(&group.0) && !self.has_been_silent(group.0);
        has_failed && self.is_anything_unknown(group, known)
    }

    /// Whether a watched name of this place and authority is unknown, which is a reason for
    /// fallback.
    pub fn is_anything_unknown(&self, group: (Place, usize), known: &Statuses) -> bool {
        let prefers = |it: &&Watcher| self.group_of(it) == group;
        self.watchers.iter().filter(prefers).any(|watcher| match &watcher.name {
            Some(name) => {
                let known = known.get(&(watcher.kind, name.clone()));
                known.is_some_and(|it| it.state == ResourceState::Requested)
            }
            None => false, // The status does not show whether a collection was received.
        })
    }

    /// Whether a server has sent nothing for so long after the first request of a stream that its
    /// error has been cleared.
    // X16
    fn has_been_silent(&self, place: Place) -> bool {
        let (patience, _) = self.patience();
        self.peer_at(place).is_some_and(|peer| {
            let requested = peer.first_request.filter(|_| peer.first_response.is_none());
            requested.is_some_and(|requested| requested.after(patience) <= self.now)
        })
    }

    fn is_left_alone(&self, place: Place) -> bool {
        self.peer_at(place).is_none() && self.pause_before(place) <= self.now
    }

    fn peer_at(&self, place: Place) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.place() == place)
    }

    fn pause_before(&self, place: Place) -> Time {
        self.talk.attempts.get(&place).map_or(Time::ZERO, |it| it.may_wait_until())
    }

    /// The places that watches prefer.
    pub fn preferred_places(&self) -> BTreeSet<Place> {
        self.watchers.iter().map(|watcher| self.setup.place_of_watch(watcher)).collect()
    }
}
