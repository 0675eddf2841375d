//! Requests of the state-of-the-world variant: each lists everything the client wants.
//!
//! A request whose nonce is stale or was never given out is dropped with its names, which the client's
//! next request repeats (M58-M61, S0.147). What a list changes is for [`interest`](super::interest).

use super::{
    First, Turn, WarmingState,
    answer::{Asked, Reading, Rejection, Surroundings},
    interest::Outcome,
};
use crate::{
    server::{config::ReconnectTrust, event::Cause, store::body::Ttls},
    wire::request::Request,
};

impl Turn<'_> {
    /// Takes one request of the session's type. `rejection` is its `error_detail`, if it has one.
    pub(crate) fn handle_list(
        &mut self,
        request: &Request<'_>,
        rejection: Option<Rejection>,
        around: &mut Surroundings<'_>,
    ) -> Asked {
        let is_first = self.session.round == 0;
        let is_rejection = rejection.is_some();
        if let Reading::Stale | Reading::Bogus = self.take_answer(request, rejection, around) {
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
        if is_first && around.config.reconnect_trust == ReconnectTrust::WildcardOnly {
            self.trust_full_state(request.version);
        }
        if !is_rejection && self.session.warming == WarmingState::Armed {
            self.session.warming = WarmingState::Off;
            self.owe_everything(Cause::Warming);
        }
        asked
    }

    /// A client that comes back for the wildcard alone and has the current version is not sent it
    /// again (M41, B06). With names it is, since new ones may hide among them (M42); and a response
    /// that is not in full state may be a part of its version only.
    fn trust_full_state(&mut self, version: &str) {
        let current = self.arena.version;
        // What the client may use for a time only is sent again: nobody knows how long it has had it.
        if !self.sends_full_state()
            || self.form().ttls == Ttls::Told
            || self.session.named > 0
            || !current.stated().is_printed_as(version)
        {
            return;
        }
        if let Some(wildcard) = &mut self.session.wildcard {
            wildcard.version = current;
            wildcard.owed = None;
            self.session.first = First::Answered;
            self.session.accepted = Some(current.stated());
        }
    }
}
