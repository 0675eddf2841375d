//! Isolation of the resources that cause a client to reject a response.
//!
//! Unchanged resources of a rejected response are suspects. Each is sent alone, once per version.
//! A suspect that the client rejects is recorded as a rejected resource; the client has all
//! others. In full state a response cannot contain one resource alone, because absent resources
//! are removed. There the response is the last accepted state plus one suspect; nothing is
//! isolated unless that state is known. If a response had only one new resource, or the client
//! accepted all except one, the rejected resource is known without sending it again.
// M108

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

/// State of the isolation of rejected resources.
#[derive(Debug, Default)]
pub(crate) struct Isolation {
    /// Suspects in the order in which they are sent.
    suspects: VecDeque<Suspect>,
    /// Suspect that was sent alone and is unanswered.
    probe: Option<(NonZeroU64, Suspect)>,
    culprits: Vec<Suspect>,
    /// Contents of the unanswered responses.
    sent: VecDeque<(NonZeroU64, State)>,
    /// In full state: last accepted state, if known. `rejected` has the versions of the states
    /// that the client rejected lately.
    accepted: Option<State>,
    rejected: VecDeque<TypeVersion>,
}

/// Number of rejected states that are remembered.
const REJECTED: usize = 16;

/// Resource in one version.
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

    /// Adds the new resources of a rejected response to the suspects. If there is only one, marks
    /// it as rejected and returns its name.
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

    /// Returns the contents of the response that is answered, and drops those of all earlier
    /// ones.
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
    /// Whether a suspect is to be sent alone. Requires that no response is unanswered, because in
    /// full state the suspect's response would revert that one.
    pub(crate) fn has_probe(&self) -> bool {
        !self.is_waiting() && self.isolation().is_some_and(Isolation::wants_to_send)
    }

    /// Whether the client rejects a resource that it was sent, known or not yet isolated.
    pub(crate) fn has_suspects_or_culprits(&self) -> bool {
        self.isolation().is_some_and(|it| {
            it.probe.is_some() || !it.suspects.is_empty() || !it.culprits.is_empty()
        })
    }

    /// Returns the resources that the client is known to reject in their current version.
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

    /// Records the state that the client holds: empty or the current state, as the client stated.
    pub(crate) fn note_held(&mut self, state: State) {
        if self.isolates() && self.sends_full_state() {
            self.session.isolation_mut().accepted = Some(state);
        }
    }

    /// Returns the current versions of all existing subscribed resources.
    pub(crate) fn current_state(&mut self) -> State {
        if self.session.wildcard.is_some() {
            return self.arena.state();
        }
        let mut state = Vec::new();
        self.for_each_named(|name, payload| state.push((name.clone(), payload.clone())));
        state.into()
    }

    /// Stores the contents of a response until it is answered.
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
        // The number of responses that can be answered.
        if sent.len() > window.saturating_add(1) {
            sent.pop_front();
        }
    }

    /// Returns empty response parts, which keep their resources if the session isolates.
    pub(crate) fn parts(&self, limit: usize) -> Parts {
        let parts = Parts::new(self.form(), limit);
        if self.isolates() { parts.keeping() } else { parts }
    }

    pub(crate) fn finish(&mut self, parts: Parts) -> Body {
        let (body, kept) = parts.finish();
        self.kept = kept;
        body
    }

    /// Records an ACK: the resources of the response are accepted. Returns the resources that are
    /// found to be rejected in an earlier response by elimination.
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

    /// Drops suspects and rejected resources that changed or to which the client no longer
    /// subscribes.
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

    /// Marks suspects as rejected if the client rejected the state that consists of the last
    /// accepted state plus the suspect. Returns their names.
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

    /// Records a NACK. Returns the resources that are found to be rejected.
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

    /// Renders the next suspect alone. Also returns the revision at which it changed.
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

    /// Returns the last accepted state, restricted to subscribed resources, plus one resource.
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

/// Returns the resources of a state that are not in an earlier one.
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
