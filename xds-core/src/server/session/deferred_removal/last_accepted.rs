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
        session::{Past, Session, context::Turn, subscription::Edge, window::Answer},
        store::{encode::body::Payload, revision::Stamp},
    },
    slab::Slot,
    text::ResourceName,
};

/// Version of a resource in a response.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    This(Payload),
    Nothing,
    /// The version is not known.
    Unknown,
}

/// Resource versions in a response, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forms(BTreeMap<ResourceName, Form>);

/// Resources that a client has from its previous view.
#[derive(Clone, Debug, Default)]
pub(crate) struct Had {
    /// Resources that the client accepted last, if known. A returning client may have unknown
    /// ones.
    pub(crate) accepted: Option<Forms>,
    /// Unanswered response sent since then, with its nonce.
    pub(crate) sent: Option<(u64, Forms)>,
}

impl Form {
    pub(crate) fn is(&self, payload: &Payload) -> bool {
        matches!(self, Self::This(this) if this.hash == payload.hash)
    }
}

impl Forms {
    pub(crate) fn note(&mut self, name: &ResourceName, form: Form) {
        if !matches!(form, Form::Nothing) {
            self.0.insert(name.clone(), form);
        }
    }

    fn of(&self, name: &ResourceName) -> Form {
        self.0.get(name).cloned().unwrap_or(Form::Nothing)
    }
}

impl Had {
    fn accepted(&self, name: &ResourceName) -> Form {
        self.accepted.as_ref().map_or(Form::Unknown, |forms| forms.of(name))
    }
}

impl Session {
    pub(crate) fn had(&self) -> Option<&Had> {
        self.rare.as_deref()?.had.as_ref()
    }

    /// Whether the response was rendered for the previous view.
    fn was_sent_elsewhere(&self, nonce: u64) -> bool {
        matches!(self.past, Past::Before(next) if nonce < next.get())
    }
}

impl Turn<'_> {
    /// Returns the version of a resource that the client accepted last.
    pub(crate) fn last_accepted(&self, slot: Slot, edge: Option<&Edge>) -> Form {
        let Some(resource) = self.arena.at(slot) else { return Form::Unknown };
        match (self.accepted_here(), self.session.had()) {
            (Some(accepted), _) => self.form_in(slot, edge, accepted),
            (None, Some(had)) => had.accepted(&resource.name),
            (None, None) => Form::Unknown,
        }
    }

    /// Returns the version of a resource in the newest response, with its nonce, if that is
    /// unanswered.
    pub(crate) fn last_sent(&self, slot: Slot, edge: Option<&Edge>) -> Option<(u64, Form)> {
        let newest = self.session.newest.filter(|_| self.session.is_waiting())?;
        let nonce = newest.nonce.get();
        if !self.session.was_sent_elsewhere(nonce) {
            return Some((nonce, self.form_in(slot, edge, (nonce, newest.at))));
        }
        let name = &self.arena.at(slot)?.name;
        let sent = self.session.had().and_then(|had| had.sent.as_ref());
        Some((nonce, sent.map_or(Form::Unknown, |(_, forms)| forms.of(name))))
    }

    /// Returns the version of a resource in the full state with this nonce, rendered at that
    /// revision.
    fn form_in(&self, slot: Slot, edge: Option<&Edge>, (nonce, at): (u64, Stamp)) -> Form {
        let Some(resource) = self.arena.at(slot) else { return Form::Unknown };
        let is_named_alone = self.session.wildcard.is_none();
        let was_not_asked_for =
            |edge: &Edge| edge.was_first_sent_after(nonce) || is_named_alone && edge.sent == 0;
        let entered = self.session.entered(nonce);
        if nonce == 0
            || edge.is_some_and(was_not_asked_for)
            || entered.is_some_and(|it| !it.had.contains(&resource.name))
            || self.arena.began_after(slot, at)
        {
            return Form::Nothing;
        }
        let payload = match &resource.payload {
            _ if resource.error.is_some() => None,
            _ if resource.stamp > at => {
                let lingered = || self.session.lingered_at(slot, at);
                self.arena.as_it_was(resource, at).or_else(lingered)
            }
            Some(payload) => Some(payload),
            None => match edge.and_then(|edge| self.ghost(edge)) {
                Some((_, payload)) => Some(payload),
                None => return Form::Nothing,
            },
        };
        payload.map_or(Form::Unknown, |payload| Form::This(payload.clone()))
    }

    /// Applies the answer to a response. Takes time proportional to the resources from the
    /// previous view, if the client has accepted nothing in this one.
    pub(crate) fn note_answer_to_what_it_had(&mut self, nonce: u64, answer: Answer) {
        let is_settled = self.accepted_here().is_some();
        self.session.with_rare(|rare| {
            let sent =
                rare.had.as_mut().and_then(|had| had.sent.take_if(|(sent, _)| *sent <= nonce));
            match &mut rare.had {
                Some(_) if is_settled => rare.had = None,
                Some(had) if answer == Answer::Ack => {
                    had.accepted = sent.map(|(_, forms)| forms).or_else(|| had.accepted.take());
                }
                _ => {}
            }
        });
    }
}
