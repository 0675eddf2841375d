//! Which resources of a rejected response it is that the client rejects (M108).
//!
//! Those that are unchanged since are suspects. Each is sent by itself, once in each content; what the client
//! then rejects is a culprit, and all others it has. In full state a response cannot have one resource
//! alone, since absence is deletion: there it is the state that the client accepted last with one suspect
//! more. Unless that state is known, nothing is isolated. Where a response had one new resource, there is
//! nothing to find out, nor where the client accepted all but one: it is never sent again what it rejected.

use alloc::{
    collections::{BTreeMap, VecDeque},
    vec::Vec,
};
use core::{mem, num::NonZeroU64};

use crate::{
    server::{
        config::NackRecovery,
        session::{Session, context::Turn, window::Sent},
        store::{
            arena::partial_state::State,
            encode::body::{Body, Parts, Payload},
            revision::Stamp,
            version::content::{ContentHash, TypeVersion},
        },
    },
    text::ResourceName,
};

/// What is known of rejected resources.
#[derive(Debug, Default)]
pub(crate) struct Isolation {
    /// In the order in which they are sent.
    suspects: VecDeque<Suspect>,
    /// The one that is on its way by itself.
    probe: Option<(NonZeroU64, Suspect)>,
    culprits: Vec<Suspect>,
    /// What the responses have that are on their way.
    sent: VecDeque<(NonZeroU64, State)>,
    /// In full state: what the client accepted last, if that is known, and which states it rejected
    /// lately.
    accepted: Option<State>,
    rejected: VecDeque<TypeVersion>,
}

/// How many rejected states are remembered.
const REJECTED: usize = 16;

/// A resource in one content.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Suspect {
    name: ResourceName,
    hash: ContentHash,
}

impl Isolation {
    /// Whether another suspect is to be sent.
    fn wants_to_send(&self) -> bool {
        self.probe.is_none() && !self.suspects.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.suspects.is_empty()
            && self.probe.is_none()
            && self.culprits.is_empty()
            && self.accepted.is_none()
            && self.sent.is_empty()
            && self.rejected.is_empty()
    }

    /// Takes note of what a rejected response had that was new to the client. The one it was, if it was one.
    fn suspect(&mut self, new: Vec<Suspect>, limit: usize) -> Option<ResourceName> {
        if let [culprit] = &new[..] {
            self.convict(culprit.clone(), limit);
            return Some(culprit.name.clone());
        }
        for suspect in new {
            let is_known = self.culprits.contains(&suspect) || self.suspects.contains(&suspect);
            if !is_known && self.suspects.len() < limit {
                self.suspects.push_back(suspect);
            }
        }
        None
    }

    /// What the response had that is answered now. Those before it are settled.
    fn take_sent(&mut self, answered: NonZeroU64) -> Option<State> {
        let state = self.sent.iter().find(|(nonce, _)| *nonce == answered);
        let state = state.map(|(_, state)| state.clone());
        self.sent.retain(|(nonce, _)| *nonce > answered);
        state
    }

    fn convict(&mut self, culprit: Suspect, limit: usize) {
        self.suspects.retain(|other| *other != culprit);
        self.culprits.retain(|other| other.name != culprit.name);
        if self.culprits.len() >= limit {
            self.culprits.remove(0);
        }
        self.culprits.push(culprit);
    }
}

impl Session {
    /// Whether a suspect is to be sent by itself. Not while anything is on its way: in full state it would
    /// take that back.
    pub(crate) fn has_probe(&self) -> bool {
        !self.is_waiting() && self.isolation().is_some_and(Isolation::wants_to_send)
    }

    /// Whether the client rejects something of what it was sent, known or yet to be found out.
    pub(crate) fn has_suspects_or_culprits(&self) -> bool {
        self.isolation().is_some_and(|it| {
            it.probe.is_some() || !it.suspects.is_empty() || !it.culprits.is_empty()
        })
    }

    /// The resources that the client is known to reject as they are.
    pub(crate) fn culprits(&self) -> impl Iterator<Item = (&ResourceName, ContentHash)> {
        let culprits = self.isolation().map_or(&[][..], |isolation| &isolation.culprits);
        culprits.iter().map(|culprit| (&culprit.name, culprit.hash))
    }

    fn isolation(&self) -> Option<&Isolation> {
        self.rare.as_deref()?.isolation.as_deref()
    }

    fn isolation_mut(&mut self) -> &mut Isolation {
        self.rare_mut().isolation.get_or_insert_default()
    }

    fn forget_idle_isolation(&mut self) {
        self.with_rare(|rare| {
            if rare.isolation.as_deref().is_some_and(Isolation::is_idle) {
                rare.isolation = None;
            }
        });
    }
}

impl Turn<'_> {
    pub(crate) fn isolates(&self) -> bool {
        self.arena.config.nack_recovery == NackRecovery::Isolate
    }

    /// The client holds this: nothing, when it said so, or the current state.
    pub(crate) fn note_held(&mut self, state: State) {
        if self.isolates() && self.sends_full_state() {
            self.session.isolation_mut().accepted = Some(state);
        }
    }

    /// All subscribed resources that exist, as they are.
    pub(crate) fn current_state(&mut self) -> State {
        if self.session.wildcard.is_some() {
            return self.arena.state();
        }
        let mut state = Vec::new();
        self.for_each_named(|name, payload| state.push((name.clone(), payload.clone())));
        state.into()
    }

    /// A response goes out; what it has is known until it is answered.
    pub(crate) fn note_state(&mut self, nonce: NonZeroU64) {
        if !self.isolates() {
            return;
        }
        let state = match self.sends_full_state() {
            true => self.current_state(),
            false => mem::take(&mut self.kept).into(),
        };
        let window = usize::from(self.arena.config.window.get());
        let sent = &mut self.session.isolation_mut().sent;
        sent.push_back((nonce, state));
        // As many as there may be answers to.
        if sent.len() > window.saturating_add(1) {
            sent.pop_front();
        }
    }

    /// Room for a response whose resources are to be known.
    pub(crate) fn parts(&self, limit: usize) -> Parts {
        let parts = Parts::new(self.form(), limit);
        if self.isolates() { parts.keeping() } else { parts }
    }

    pub(crate) fn finish(&mut self, parts: Parts) -> Body {
        let (body, kept) = parts.finish();
        self.kept = kept;
        body
    }

    /// A response was accepted, and with it what it had. The resources that are to blame for an earlier one, as
    /// far as they are known by that.
    pub(crate) fn clear_suspects(&mut self, sent: Sent, limit: usize) -> Vec<ResourceName> {
        let isolation = self.session.rare.as_deref_mut().and_then(|it| it.isolation.take());
        let Some(mut isolation) = isolation else { return Vec::new() };
        isolation.probe = isolation.probe.take().filter(|(nonce, _)| *nonce > sent.nonce);
        let state = isolation.take_sent(sent.nonce);
        let has = |it: &Suspect| state.as_ref().is_some_and(|state| in_state(state, it));
        isolation.suspects.retain(|suspect| !has(suspect));
        let is_current = |culprit: &Suspect| self.arena.has(&culprit.name, culprit.hash);
        isolation.culprits.retain(|culprit| !has(culprit) && is_current(culprit));
        if self.sends_full_state() && state.is_some() {
            isolation.accepted = state;
        }
        let found = self.convict_by_elimination(&mut isolation, limit);
        self.session.rare_mut().isolation = Some(isolation);
        self.session.forget_idle_isolation();
        found
    }

    /// Nobody is blamed any more whom the client does not subscribe to, or who has changed.
    pub(crate) fn forgive_suspects(&mut self) {
        let isolation = self.session.rare.as_deref_mut().and_then(|it| it.isolation.take());
        let Some(mut isolation) = isolation else { return };
        let is_current =
            |it: &Suspect| self.arena.has(&it.name, it.hash) && self.is_subscribed(&it.name);
        isolation.suspects.retain(is_current);
        isolation.culprits.retain(is_current);
        self.session.rare_mut().isolation = Some(isolation);
        self.session.forget_idle_isolation();
    }

    /// Whose state the client has rejected before, while it accepted that state without it, is to blame.
    fn convict_by_elimination(&self, isolation: &mut Isolation, limit: usize) -> Vec<ResourceName> {
        let mut found = Vec::new();
        while let (Some(suspect), Some(accepted)) =
            (isolation.suspects.front().cloned(), &isolation.accepted)
        {
            let state = self.with_suspect(accepted, &suspect);
            if !state.is_some_and(|state| isolation.rejected.contains(&version_of(&state))) {
                break;
            }
            found.push(suspect.name.clone());
            isolation.convict(suspect, limit);
        }
        found
    }

    /// A response was rejected. The resources that are to blame, as far as they are known by that.
    pub(crate) fn take_suspects(&mut self, sent: Sent, limit: usize) -> Vec<ResourceName> {
        if !self.isolates() {
            return Vec::new();
        }
        let mut isolation = self.session.rare_mut().isolation.take().unwrap_or_default();
        let mut found: Vec<_> = self.blame(&mut isolation, sent, limit).into_iter().collect();
        found.extend(self.convict_by_elimination(&mut isolation, limit));
        self.session.rare_mut().isolation = Some(isolation);
        self.session.forget_idle_isolation();
        found
    }

    fn blame(&self, isolation: &mut Isolation, sent: Sent, limit: usize) -> Option<ResourceName> {
        let state = isolation.take_sent(sent.nonce);
        if let Some((nonce, suspect)) = isolation.probe.take() {
            if nonce == sent.nonce {
                isolation.convict(suspect.clone(), limit);
                return Some(suspect.name);
            }
            isolation.probe = (nonce > sent.nonce).then_some((nonce, suspect));
        }
        let state = state?;
        let new = if self.sends_full_state() {
            isolation.rejected.push_back(version_of(&state));
            if isolation.rejected.len() > REJECTED {
                isolation.rejected.pop_front();
            }
            new_in(&state, isolation.accepted.as_ref()?)
        } else {
            state.iter().map(|(name, payload)| Suspect::new(name, payload)).collect()
        };
        isolation.suspect(new, limit)
    }

    /// Renders a suspect by itself, and says when it changed.
    pub(crate) fn render_probe(&mut self, nonce: NonZeroU64) -> Option<(Body, TypeVersion, Stamp)> {
        loop {
            let suspect = self.session.isolation_mut().suspects.pop_front()?;
            if !self.arena.has(&suspect.name, suspect.hash) || !self.is_subscribed(&suspect.name) {
                continue;
            }
            let stamp = self.arena.find(suspect.name.as_str()).and_then(|it| self.arena.at(it));
            let stamp = stamp.map_or(Stamp::START, |resource| resource.stamp);
            let rendered = match self.sends_full_state() {
                true => self.render_in_state(&suspect, nonce),
                false => self.render_alone(&suspect, nonce),
            };
            if let Some((body, version)) = rendered {
                self.session.isolation_mut().probe = Some((nonce, suspect));
                return Some((body, version, stamp));
            }
        }
    }

    fn render_alone(
        &mut self,
        suspect: &Suspect,
        nonce: NonZeroU64,
    ) -> Option<(Body, TypeVersion)> {
        let slot = self.arena.find(suspect.name.as_str())?;
        let payload = self.arena.payload(slot)?.clone();
        let mut parts = Parts::new(self.form(), usize::MAX);
        parts.push(&suspect.name, &payload);
        if let Some(edge) = self.edges.find(self.slot, slot) {
            self.edges.set_sent(&mut self.session.edges, edge, nonce.get());
        }
        let state = State::from([(suspect.name.clone(), payload)]);
        self.session.isolation_mut().sent.push_back((nonce, state));
        Some((parts.into_body(), self.arena.version))
    }

    fn render_in_state(
        &mut self,
        suspect: &Suspect,
        nonce: NonZeroU64,
    ) -> Option<(Body, TypeVersion)> {
        let accepted = self.session.isolation()?.accepted.clone()?;
        let state = self.with_suspect(&accepted, suspect)?;
        let version = version_of(&state);
        let isolation = self.session.isolation_mut();
        if isolation.rejected.contains(&version) {
            return None;
        }
        isolation.sent.push_back((nonce, state.clone()));
        let mut parts = Parts::new(self.form(), usize::MAX);
        for (name, payload) in state.iter() {
            parts.push(name, payload);
        }
        Some((parts.into_body(), version))
    }

    /// What the client accepted last, as far as it still subscribes to it, with one resource more.
    fn with_suspect(&self, accepted: &State, suspect: &Suspect) -> Option<State> {
        let payload = self.arena.payload(self.arena.find(suspect.name.as_str())?)?.clone();
        let kept = accepted.iter().filter(|(name, _)| *name != suspect.name);
        let kept = kept.filter(|(name, _)| self.is_subscribed(name)).cloned();
        Some(kept.chain([(suspect.name.clone(), payload)]).collect())
    }

    fn is_subscribed(&self, name: &ResourceName) -> bool {
        let edge = self.arena.find(name.as_str()).and_then(|it| self.edges.find(self.slot, it));
        let edge = edge.and_then(|edge| self.edges.at(edge));
        self.session.wildcard.is_some() || edge.is_some_and(|edge| edge.standing.is_subscribed())
    }
}

impl Suspect {
    fn new(name: &ResourceName, payload: &Payload) -> Self {
        Self { name: name.clone(), hash: payload.hash }
    }
}

/// What a state has that is not in the one before.
fn new_in(state: &State, accepted: &State) -> Vec<Suspect> {
    let accepted: BTreeMap<_, _> =
        accepted.iter().map(|(name, payload)| (name.as_str(), payload.hash)).collect();
    let suspects = state.iter().map(|(name, payload)| Suspect::new(name, payload));
    suspects.filter(|it| accepted.get(it.name.as_str()) != Some(&it.hash)).collect()
}

fn in_state(state: &State, suspect: &Suspect) -> bool {
    state.iter().any(|(name, payload)| *name == suspect.name && payload.hash == suspect.hash)
}

fn version_of(state: &State) -> TypeVersion {
    let mut version = TypeVersion::default();
    for (name, payload) in state.iter() {
        version.add(name.as_str(), payload.hash);
    }
    version
}
