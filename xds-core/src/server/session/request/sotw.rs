//! Requests of the state-of-the-world variant, which list everything the client wants.
//!
//! A request with a stale or bogus nonce is dropped together with its names, which the client's
//! next request repeats. The effects of a name list are in [`names`](super::names).
// M58-M61, S0.147

use super::{
    ack::{Reading, Surroundings},
    names::Outcome,
};
use crate::{
    server::{
        config::{Missing, ReconnectTrust},
        event::{Asked, Cause, Visit},
        session::{
            First, Past, WarmingState,
            context::Turn,
            nack::rejection::Rejection,
            response::stated_version::Extent,
            subscription::{Chain, Edge},
        },
        store::{arena::partial_state::State, encode::body::Ttls},
    },
    time::Time,
    wire::request::Request,
};

impl Turn<'_> {
    /// Handles one request of the session's type. `rejection` is its `error_detail`, if it has
    /// one.
    pub(crate) fn handle_list(
        &mut self,
        request: &Request<'_>,
        rejection: Option<Rejection>,
        around: &mut Surroundings<'_>,
    ) -> Asked {
        let is_first = self.session.round == 0;
        let is_rejection = rejection.is_some();
        let has = self.version_had(request, is_rejection);
        if is_first && !has.is_empty() {
            self.session.past = Past::up_to(0);
        }
        if let Some(rejection) = &rejection
            && self.session.visit == Visit::Fetches
        {
            self.observe_refusal(request, rejection, around);
        }
        let reading = self.take_answer(request, rejection, around);
        if let Reading::Stale | Reading::Bogus = reading {
            return Asked::Nothing;
        }
        let asked = match self.replace_names(request.names()) {
            Outcome::Changed => Asked::Something,
            Outcome::Same if is_first => Asked::Something,
            Outcome::Same => Asked::Nothing,
        };
        if asked == Asked::Something {
            self.observe_interest(around);
        }
        if asked == Asked::Something || reading.is_answer() {
            self.forgive();
            self.recover_full_state();
        }
        self.owe_answer(around.now);
        if is_first && has.is_empty() {
            self.note_held(State::default());
        } else if is_first {
            self.trust_version_info(has);
            self.owe_the_end_of_all(has);
        }
        if !is_rejection && self.session.warming == WarmingState::Armed {
            self.session.warming = WarmingState::Off;
            self.owe_everything(Cause::Warming);
        }
        asked
    }

    /// Returns the version that a returning client states to have. A polling client that rejected
    /// a response states the nonce, which stands for the rejected version, so that it is not sent
    /// again.
    // M189
    fn version_had<'r>(&self, request: &Request<'r>, is_rejection: bool) -> &'r str {
        match self.session.visit {
            Visit::Fetches if is_rejection && !request.nonce.is_empty() => request.nonce,
            Visit::Fetches | Visit::Stays => request.version,
        }
    }

    /// Determines whether an empty first response is due, at once or after the hold time,
    /// although no requested resource exists.
    // M39
    fn owe_answer(&mut self, now: Time) {
        if self.session.first == First::Answered {
            return;
        }
        if self.arena.config.missing == Missing::EmptyResponse {
            self.session.first =
                if self.asks_for_something() { First::Owed } else { First::Unanswered };
        }
        self.hold_first_answer(now);
    }

    /// Starts holding an empty first response, unless it is already held. It is empty if no
    /// requested resource exists, or if they were all removed before they could be sent.
    // M39
    pub(crate) fn hold_first_answer(&mut self, now: Time) {
        let Missing::HoldFor(time) = self.arena.config.missing else { return };
        let has_nothing_to_say = self.session.lacks_first_answer()
            && self.session.wildcard.is_none()
            && self.session.named > 0;
        if has_nothing_to_say && self.absence_is_told() {
            let until = now.after(time);
            self.session.rare_mut().first_hold.get_or_insert(until);
        }
    }

    fn asks_for_something(&self) -> bool {
        self.session.named > 0 || self.session.wildcard.is_some()
    }

    /// Whether a resource missing from a response counts as removed.
    fn absence_is_told(&self) -> bool {
        self.sends_full_state() && self.arena.absence_deletes()
    }

    /// Releases the held first response, unless the application still has to provide a requested
    /// name.
    pub(crate) fn end_first_hold(&mut self) {
        let is_asked_for = |edge: &Edge| self.is_asked_for(edge.resource);
        if self.session.first == First::Unanswered
            && self.asks_for_something()
            && !self.session.own_edges(self.edges).any(is_asked_for)
        {
            self.session.first = First::Owed;
        }
    }

    /// Makes an empty first response due for a returning client whose resources were all removed.
    /// A client without earlier resources may wait, but this one would keep removed resources.
    // M39, M76, IL1
    fn owe_the_end_of_all(&mut self, stated: &str) {
        let is_full = self.absence_is_told();
        let is_named = self.session.wildcard.is_none() && self.session.named > 0;
        if !is_full || !is_named || self.session.first != First::Unanswered {
            return;
        }
        let current = self.named_version();
        let version = self.state(current, Extent::Subscribed);
        let has_that = self.arena.has_versions_that_differ() && self.is_stated_as(version, stated);
        if !has_that {
            self.session.first = First::Owed;
        }
    }

    /// Skips the first response if a returning client states the current version, provided that
    /// the configured trust allows it. By default only a wildcard without names in full state
    /// qualifies: a list of names may contain new ones, and any other response may hold only a
    /// part of its version. A polling client qualifies if versions identify their content.
    // M41, B06, M42
    fn trust_version_info(&mut self, stated: &str) {
        let has_wildcard = self.session.wildcard.is_some();
        let trusts = match self.arena.reconnect_trust() {
            _ if self.session.visit == Visit::Fetches => self.arena.has_proof_in_versions(),
            ReconnectTrust::Never => false,
            ReconnectTrust::WildcardOnly => {
                has_wildcard && self.session.named == 0 && self.sends_full_state()
            }
            ReconnectTrust::SameNames => has_wildcard || self.session.named > 0,
        };
        // Resources with a TTL are sent again, because their age at the client is unknown.
        if !trusts || self.form().ttls == Ttls::Told {
            return;
        }
        let current = match self.sends_full_state() && !has_wildcard {
            true => self.named_version(),
            false => self.arena.version,
        };
        let version = self.state(current, Extent::Subscribed);
        if !self.is_stated_as(version, stated) {
            return;
        }
        let newest = self.arena.newest();
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.version = current;
            wildcard.cursor = newest;
            wildcard.reached = newest;
            wildcard.owed = None;
        }
        let mut slot = self.session.edges.last();
        while let Some(edge) = self.edges.at_mut(slot) {
            if self.arena.payload(edge.resource).is_some() {
                edge.sent = 1;
                self.edges.clear_due(&mut self.session.due, slot);
            }
            slot = self.edges.previous(Chain::Session, slot);
        }
        self.session.first = First::Answered;
        self.session.accepted = Some(version);
        if self.isolates() {
            let state = self.current_state();
            self.note_held(state);
        }
    }
}
