//! What a client has accepted last of each resource, in full state, also over moves between views (M147, M148, M223).
//!
//! What lingers is repeated, and with it a response may be rejected for ever. So it is repeated in no form but the one that
//! the client has accepted last. In one view the history of the store tells which one that is. Who comes to see another
//! view takes along what it has accepted, until it has accepted a state of that view.

use alloc::collections::BTreeMap;

use crate::{
    server::{
        session::{Past, Session, context::Turn, subscription::Edge, window::Answer},
        store::{encode::body::Payload, revision::Stamp},
    },
    slab::Slot,
    text::ResourceName,
};

/// What a response had under a name.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    This(Payload),
    Nothing,
    /// That is not known.
    Unknown,
}

/// What a response had, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Forms(BTreeMap<ResourceName, Form>);

/// What a client has from the view that it saw before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Had {
    /// What it has accepted there last, if that is known: it may have come with something.
    pub(crate) accepted: Option<Forms>,
    /// What it was sent since, in the response of this nonce, and has not answered to.
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

    /// Whether the newest response was made for the view that the client saw before.
    fn was_sent_elsewhere(&self, nonce: u64) -> bool {
        matches!(self.past, Past::Before(next) if nonce < next.get())
    }
}

impl Turn<'_> {
    /// What the client has accepted last of a resource.
    pub(crate) fn last_accepted(&self, slot: Slot, edge: Option<&Edge>) -> Form {
        let Some(resource) = self.arena.at(slot) else { return Form::Unknown };
        match (self.accepted_here(), self.session.had()) {
            (Some(accepted), _) => self.form_in(slot, edge, accepted),
            (None, Some(had)) => had.accepted(&resource.name),
            (None, None) => Form::Unknown,
        }
    }

    /// What the response has of a resource that the client has not answered to, if there is one.
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

    /// What a full state of this nonce had under a name that was made at that position.
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

    /// The client has answered to a response. Costs what it had in the view before, if it has not accepted anything in
    /// this one.
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
