//! Last accepted version of each resource at a full-state client, also across moves between
//! views.
//!
//! Resources with a deferred removal are repeated, and a response with a version that the client
//! rejects would be rejected forever. They are therefore repeated in the last accepted version.
//! Within one view the store's history has that version. A client that moves to another view
//! takes the accepted versions along until it has accepted a state of that view.
// M147, M148, M223

use alloc::collections::BTreeMap;

use crate::{
    server::{
        session::{
            PriorState, Session, context::SessionContext, subscription::Subscription,
            window::Answer,
        },
        store::{encode::body::Payload, revision::Revision},
    },
    slab::Slot,
    text::ResourceName,
};

/// Version of a resource in a response.
#[derive(Clone, Debug)]
pub(crate) enum KnownPayload {
    Known(Payload),
    Absent,
    /// The version is not known.
    Unknown,
}

/// Resource versions in a response, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownPayloads(BTreeMap<ResourceName, KnownPayload>);

/// Resources that a client has from its previous view.
#[derive(Clone, Debug, Default)]
pub(crate) struct PreviousViewState {
    /// Resources that the client accepted last, if known. A returning client may have unknown
    /// ones.
    pub(crate) accepted: Option<KnownPayloads>,
    /// Unanswered response sent since then, with its nonce.
    pub(crate) sent: Option<(u64, KnownPayloads)>,
}

impl KnownPayload {
    pub(crate) fn is(&self, payload: &Payload) -> bool {
        matches!(self, Self::Known(own) if own.hash == payload.hash)
    }
}

impl KnownPayloads {
    pub(crate) fn note(&mut self, name: &ResourceName, known_payload: KnownPayload) {
        if !matches!(known_payload, KnownPayload::Absent) {
            self.0.insert(name.clone(), known_payload);
        }
    }

    fn of(&self, name: &ResourceName) -> KnownPayload {
        self.0.get(name).cloned().unwrap_or(KnownPayload::Absent)
    }
}

impl PreviousViewState {
    fn accepted(&self, name: &ResourceName) -> KnownPayload {
        self.accepted
            .as_ref()
            .map_or(KnownPayload::Unknown, |known_payloads| known_payloads.of(name))
    }
}

impl Session {
    pub(crate) fn previous_view(&self) -> Option<&PreviousViewState> {
        self.extras.as_deref()?.previous_view.as_ref()
    }

    /// Whether the response was rendered for the previous view.
    fn was_sent_in_previous_view(&self, nonce: u64) -> bool {
        matches!(self.prior_state, PriorState::Before(next) if nonce < next.get())
    }
}

impl SessionContext<'_> {
    /// Returns the version of a resource that the client accepted last.
    pub(crate) fn last_accepted(
        &self,
        slot: Slot,
        subscription: Option<&Subscription>,
    ) -> KnownPayload {
        let Some(resource) = self.arena.at(slot) else { return KnownPayload::Unknown };
        match (self.accepted_here(), self.session.previous_view()) {
            (Some(accepted), _) => self.known_payload_in(slot, subscription, accepted),
            (None, Some(previous_view)) => previous_view.accepted(&resource.name),
            (None, None) => KnownPayload::Unknown,
        }
    }

    /// Returns the version of a resource in the newest response, with its nonce, if that is
    /// unanswered.
    pub(crate) fn last_sent(
        &self,
        slot: Slot,
        subscription: Option<&Subscription>,
    ) -> Option<(u64, KnownPayload)> {
        let newest = self.session.newest.filter(|_| self.session.awaits_answer())?;
        let nonce = newest.nonce.get();
        if !self.session.was_sent_in_previous_view(nonce) {
            return Some((nonce, self.known_payload_in(slot, subscription, (nonce, newest.at))));
        }
        let name = &self.arena.at(slot)?.name;
        let sent =
            self.session.previous_view().and_then(|previous_view| previous_view.sent.as_ref());
        Some((
            nonce,
            sent.map_or(KnownPayload::Unknown, |(_, known_payloads)| known_payloads.of(name)),
        ))
    }

    /// Returns the version of a resource in the full state with this nonce, rendered at that
    /// revision.
    fn known_payload_in(
        &self,
        slot: Slot,
        subscription: Option<&Subscription>,
        (nonce, at): (u64, Revision),
    ) -> KnownPayload {
        let Some(resource) = self.arena.at(slot) else { return KnownPayload::Unknown };
        let is_named_alone = self.session.wildcard.is_none();
        let was_not_asked_for = |subscription: &Subscription| {
            subscription.was_first_sent_after(nonce) || is_named_alone && subscription.sent == 0
        };
        let before_wildcard = self.session.before_wildcard(nonce);
        if nonce == 0
            || subscription.is_some_and(was_not_asked_for)
            || before_wildcard.is_some_and(|it| !it.names.contains(&resource.name))
            || self.arena.first_created_after(slot, at)
        {
            return KnownPayload::Absent;
        }
        let payload = match &resource.payload {
            _ if resource.error.is_some() => None,
            _ if resource.revision > at => {
                let lingered = || self.session.carried_version_at(slot, at);
                self.arena.content_at(slot, at).or_else(lingered)
            }
            Some(payload) => Some(payload),
            None => {
                match subscription.and_then(|subscription| self.retained_deletion(subscription)) {
                    Some((_, payload)) => Some(payload),
                    None => return KnownPayload::Absent,
                }
            }
        };
        payload.map_or(KnownPayload::Unknown, |payload| KnownPayload::Known(payload.clone()))
    }

    /// Applies the answer to a response. Takes time proportional to the resources from the
    /// previous view, if the client has accepted nothing in this one.
    pub(crate) fn note_answer_in_previous_view(&mut self, nonce: u64, answer: Answer) {
        let is_settled = self.accepted_here().is_some();
        self.session.update_extras(|extras| {
            let sent = extras
                .previous_view
                .as_mut()
                .and_then(|previous_view| previous_view.sent.take_if(|(sent, _)| *sent <= nonce));
            match &mut extras.previous_view {
                Some(_) if is_settled => extras.previous_view = None,
                Some(previous_view) if answer == Answer::Ack => {
                    previous_view.accepted = sent
                        .map(|(_, known_payloads)| known_payloads)
                        .or_else(|| previous_view.accepted.take());
                }
                _ => {}
            }
        });
    }
}
