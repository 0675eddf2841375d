//! Responses with changes: resources that are new to the client and, in the incremental variant,
//! names of resources that were removed or never existed.

use super::{draft::Draft, plan::Planned, stronger};
use crate::{
    server::{
        event::ResponseCause,
        session::{
            CatchUp, FirstResponse, MustReply, ResponseMode, Session, Wildcard,
            context::SessionContext, deferred_removal::Portion,
        },
        store::{
            arena::past::SentRemovals,
            encode::body::{BodyBuilder, ResponseBody},
            revision::Revision,
        },
    },
    slab::Slot,
    wire::request::NameForm,
};

impl SessionContext<'_> {
    /// Renders the resources and removals that the client lacks, as many as fit.
    // M75, M83
    pub(crate) fn render_changes(
        &mut self,
        draft: &mut Draft,
    ) -> Option<(ResponseBody, ResponseCause)> {
        let pending =
            (self.session.first_response == FirstResponse::Pending).then_some(ResponseCause::First);
        let wildcard = self.session.wildcard.filter(|_| draft.portion != Portion::Unanswered);
        if let Some(wildcard) = wildcard.filter(|it| self.shares_bytes(it)) {
            return self.render_shared_changes(draft, wildcard, pending);
        }
        let mut parts = BodyBuilder::new(self.encoding(), draft.limit);
        let filled = self.fill(draft, &mut parts);
        let reply = wildcard.filter(|_| !filled.items.iter().any(Planned::is_of_wildcard));
        let reply = reply.and_then(|it| self.cause_of_empty_response(&it));
        let cause = stronger(self.commit(draft, &filled), reply).or(pending)?;
        self.note_state(draft.nonce, |context| context.resources_in(&filled));
        Some((parts.into_body(), cause))
    }

    /// Renders the changes between two revisions, which are the whole plan of a client that
    /// subscribes to nothing but the wildcard.
    fn render_shared_changes(
        &mut self,
        draft: &Draft,
        wildcard: Wildcard,
        pending: Option<ResponseCause>,
    ) -> Option<(ResponseBody, ResponseCause)> {
        let sends_removals =
            self.session.response_mode(self.arena) == ResponseMode::ChangesAndRemovals;
        let sent_removals = sends_removals.then(|| self.sent_removals(&wildcard));
        let (encoding, from) = (self.encoding(), wildcard.cursor);
        let changes = self.arena.changes_body(encoding, from, sent_removals, draft.limit);
        let cause = match changes.body.is_empty() {
            true => self.cause_of_empty_response(&wildcard).or(pending),
            false => Some(wildcard.reason(changes.to)),
        };
        self.advance_removals(changes.to, changes.partial_to, draft.nonce.get());
        Some((changes.body, cause?))
    }

    /// Returns the reason for a response if nothing of the wildcard is left to send. It is sent only
    /// as an answer, and only in the incremental variant.
    // M97, M100, M126
    fn cause_of_empty_response(&self, wildcard: &Wildcard) -> Option<ResponseCause> {
        let mode = self.session.response_mode(self.arena);
        let is_answer =
            mode == ResponseMode::ChangesAndRemovals && wildcard.must_reply() == MustReply::Yes;
        is_answer.then(|| match wildcard.reason(self.arena.clock()) {
            ResponseCause::First => ResponseCause::First,
            _ => ResponseCause::Resubscribed,
        })
    }

    /// Whether the response consists of the wildcard alone, so that all such clients share its
    /// bytes. This is the common case. The removals that concern a client depend on its highest
    /// cursor and on the errors sent to it by name. The cursor must therefore be the highest one
    /// and no names subscribed, unless there are no removals.
    fn shares_bytes(&self, wildcard: &Wildcard) -> bool {
        self.session.due.is_empty()
            && self.session.retained == 0
            && !self.isolates()
            && !self.session.has_unsubscribe_removals()
            && self.session.name_form == NameForm::Names
            && wildcard.catch_up == CatchUp::Everything
            && (self.arena.newest_tombstone() <= self.sent_removals(wildcard).removals_to
                || wildcard.reached == wildcard.cursor && self.session.named == 0)
    }

    /// Whether the client may have a removed resource from the wildcard. Resources removed before the
    /// wildcard subscription are had by name or not at all.
    pub(crate) fn may_have_from_wildcard(&self, resource: Slot) -> bool {
        let revision = self.arena.at(resource).map(|resource| resource.revision);
        revision.is_none_or(|revision| revision > self.session.wildcard_since())
    }
}

impl Session {
    /// Returns the newest revision when the client subscribed to the wildcard. `START` if it has
    /// accepted a response since or had nothing before.
    pub(crate) fn wildcard_since(&self) -> Revision {
        self.extras.as_deref().map_or(Revision::START, |extras| extras.wildcard_since)
    }

    /// Returns which removals of the wildcard the client was sent.
    pub(crate) fn sent_removals(&self, wildcard: &Wildcard) -> SentRemovals {
        let partial_removals = self.extras.as_deref().and_then(|extras| extras.partial_removals);
        let partial_to = partial_removals.and_then(|partial_removals| partial_removals.partial_to);
        SentRemovals {
            removals_to: wildcard.removals_to,
            partial_to: partial_to.unwrap_or(wildcard.removals_to),
        }
    }
}
