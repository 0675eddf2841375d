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
        session::{Session, context::SessionContext, window::Sent},
        store::{
            arena::resource_set::ResourceSet,
            encode::body::{BodyBuilder, Payload, ResponseBody},
            revision::Revision,
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
    rejected_resources: Vec<Suspect>,
    /// Contents of the unanswered responses.
    sent: VecDeque<(NonZeroU64, ResourceSet)>,
    /// In full state: last accepted state, if known. `rejected` has the versions of the states
    /// that the client rejected lately.
    accepted: Option<ResourceSet>,
    rejected_states: VecDeque<TypeVersion>,
}

/// Number of rejected states that are remembered.
const MAX_REJECTED_STATES: usize = 16;

/// Resource in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Suspect {
    name: ResourceName,
    hash: ContentHash,
}

impl Isolation {
    /// Whether another suspect is to be sent.
    fn has_next_probe(&self) -> bool {
        self.probe.is_none() && !self.suspects.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.suspects.is_empty()
            && self.probe.is_none()
            && self.rejected_resources.is_empty()
            && self.accepted.is_none()
            && self.sent.is_empty()
            && self.rejected_states.is_empty()
    }

    /// Adds the new resources of a rejected response to the suspects. If there is only one, marks
    /// it as rejected and returns its name.
    fn add_suspects(&mut self, new: Vec<Suspect>, limit: usize) -> Option<ResourceName> {
        if let [rejected] = &new[..] {
            self.mark_rejected(rejected.clone(), limit);
            return Some(rejected.name.clone());
        }
        for suspect in new {
            let is_known =
                self.rejected_resources.contains(&suspect) || self.suspects.contains(&suspect);
            if !is_known && self.suspects.len() < limit {
                self.suspects.push_back(suspect);
            }
        }
        None
    }

    /// Returns the contents of the response that is answered, and drops those of all earlier
    /// ones.
    fn take_sent(&mut self, answered: NonZeroU64) -> Option<ResourceSet> {
        let state = self.sent.iter().find(|(nonce, _)| *nonce == answered);
        let state = state.map(|(_, state)| state.clone());
        self.sent.retain(|(nonce, _)| *nonce > answered);
        state
    }

    fn mark_rejected(&mut self, rejected: Suspect, limit: usize) {
        self.suspects.retain(|other| *other != rejected);
        self.rejected_resources.retain(|other| other.name != rejected.name);
        if self.rejected_resources.len() >= limit {
            self.rejected_resources.remove(0);
        }
        self.rejected_resources.push(rejected);
    }
}

impl Session {
    /// Whether a suspect is to be sent alone. Requires that no response is unanswered, because in
    /// full state the suspect's response would revert that one.
    pub(crate) fn has_probe(&self) -> bool {
        !self.awaits_answer() && self.isolation().is_some_and(Isolation::has_next_probe)
    }

    /// Whether the client rejects a resource that it was sent, known or not yet isolated.
    pub(crate) fn has_suspects_or_rejected(&self) -> bool {
        self.isolation().is_some_and(|it| {
            it.probe.is_some() || !it.suspects.is_empty() || !it.rejected_resources.is_empty()
        })
    }

    /// Returns the resources that the client is known to reject in their current version.
    pub(crate) fn rejected_resources(&self) -> impl Iterator<Item = (&ResourceName, ContentHash)> {
        let rejected_resources =
            self.isolation().map_or(&[][..], |isolation| &isolation.rejected_resources);
        rejected_resources.iter().map(|rejected| (&rejected.name, rejected.hash))
    }

    fn isolation(&self) -> Option<&Isolation> {
        self.extras.as_deref()?.isolation.as_deref()
    }

    fn isolation_mut(&mut self) -> &mut Isolation {
        self.extras_mut().isolation.get_or_insert_default()
    }

    fn drop_idle_isolation(&mut self) {
        self.update_extras(|extras| {
            if extras.isolation.as_deref().is_some_and(Isolation::is_idle) {
                extras.isolation = None;
            }
        });
    }
}

impl SessionContext<'_> {
    pub(crate) fn isolates(&self) -> bool {
        self.arena.config.nack_recovery == NackRecovery::Isolate
    }

    /// Records the state that the client holds: empty or the current state, as the client stated.
    pub(crate) fn note_held_state(&mut self, state: ResourceSet) {
        if self.isolates() && self.sends_full_state() {
            self.session.isolation_mut().accepted = Some(state);
        }
    }

    /// Returns the current versions of all existing subscribed resources.
    pub(crate) fn current_state(&mut self) -> ResourceSet {
        if self.session.wildcard.is_some() {
            return self.arena.resource_set();
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
    pub(crate) fn parts(&self, limit: usize) -> BodyBuilder {
        let parts = BodyBuilder::new(self.encoding(), limit);
        if self.isolates() { parts.keeping() } else { parts }
    }

    pub(crate) fn finish(&mut self, parts: BodyBuilder) -> ResponseBody {
        let (body, kept) = parts.finish();
        self.kept = kept;
        body
    }

    /// Records an ACK: the resources of the response are accepted. Returns the resources that are
    /// found to be rejected in an earlier response by elimination.
    pub(crate) fn accept_suspects(&mut self, sent: Sent, limit: usize) -> Vec<ResourceName> {
        let isolation = self.session.extras.as_deref_mut().and_then(|it| it.isolation.take());
        let Some(mut isolation) = isolation else { return Vec::new() };
        isolation.probe = isolation.probe.take().filter(|(nonce, _)| *nonce > sent.nonce);
        let state = isolation.take_sent(sent.nonce);
        let has = |it: &Suspect| state.as_ref().is_some_and(|state| in_state(state, it));
        isolation.suspects.retain(|suspect| !has(suspect));
        let is_current = |rejected: &Suspect| self.arena.has(&rejected.name, rejected.hash);
        isolation.rejected_resources.retain(|rejected| !has(rejected) && is_current(rejected));
        if self.sends_full_state() && state.is_some() {
            isolation.accepted = state;
        }
        let found = self.reject_by_elimination(&mut isolation, limit);
        self.session.extras_mut().isolation = Some(isolation);
        self.session.drop_idle_isolation();
        found
    }

    /// Drops suspects and rejected resources that changed or to which the client no longer
    /// subscribes.
    pub(crate) fn drop_stale_suspects(&mut self) {
        let isolation = self.session.extras.as_deref_mut().and_then(|it| it.isolation.take());
        let Some(mut isolation) = isolation else { return };
        let is_current =
            |it: &Suspect| self.arena.has(&it.name, it.hash) && self.is_subscribed(&it.name);
        isolation.suspects.retain(is_current);
        isolation.rejected_resources.retain(is_current);
        self.session.extras_mut().isolation = Some(isolation);
        self.session.drop_idle_isolation();
    }

    /// Marks suspects as rejected if the client rejected the state that consists of the last
    /// accepted state plus the suspect. Returns their names.
    fn reject_by_elimination(&self, isolation: &mut Isolation, limit: usize) -> Vec<ResourceName> {
        let mut found = Vec::new();
        while let (Some(suspect), Some(accepted)) =
            (isolation.suspects.front().cloned(), &isolation.accepted)
        {
            let state = self.with_suspect(accepted, &suspect);
            if !state.is_some_and(|state| isolation.rejected_states.contains(&version_of(&state))) {
                break;
            }
            found.push(suspect.name.clone());
            isolation.mark_rejected(suspect, limit);
        }
        found
    }

    /// Records a NACK. Returns the resources that are found to be rejected.
    pub(crate) fn reject_suspects(&mut self, sent: Sent, limit: usize) -> Vec<ResourceName> {
        if !self.isolates() {
            return Vec::new();
        }
        let mut isolation = self.session.extras_mut().isolation.take().unwrap_or_default();
        let mut found: Vec<_> =
            self.attribute_rejection(&mut isolation, sent, limit).into_iter().collect();
        found.extend(self.reject_by_elimination(&mut isolation, limit));
        self.session.extras_mut().isolation = Some(isolation);
        self.session.drop_idle_isolation();
        found
    }

    fn attribute_rejection(
        &self,
        isolation: &mut Isolation,
        sent: Sent,
        limit: usize,
    ) -> Option<ResourceName> {
        let state = isolation.take_sent(sent.nonce);
        if let Some((nonce, suspect)) = isolation.probe.take() {
            if nonce == sent.nonce {
                isolation.mark_rejected(suspect.clone(), limit);
                return Some(suspect.name);
            }
            isolation.probe = (nonce > sent.nonce).then_some((nonce, suspect));
        }
        let state = state?;
        let new = if self.sends_full_state() {
            isolation.rejected_states.push_back(version_of(&state));
            if isolation.rejected_states.len() > MAX_REJECTED_STATES {
                isolation.rejected_states.pop_front();
            }
            new_in(&state, isolation.accepted.as_ref()?)
        } else {
            state.iter().map(|(name, payload)| Suspect::new(name, payload)).collect()
        };
        isolation.add_suspects(new, limit)
    }

    /// Renders the next suspect alone. Also returns the revision at which it changed.
    pub(crate) fn render_probe(
        &mut self,
        nonce: NonZeroU64,
    ) -> Option<(ResponseBody, TypeVersion, Revision)> {
        loop {
            let suspect = self.session.isolation_mut().suspects.pop_front()?;
            if !self.arena.has(&suspect.name, suspect.hash) || !self.is_subscribed(&suspect.name) {
                continue;
            }
            let revision = self.arena.find(suspect.name.as_str()).and_then(|it| self.arena.at(it));
            let revision = revision.map_or(Revision::START, |resource| resource.revision);
            let rendered = match self.sends_full_state() {
                true => self.render_in_state(&suspect, nonce),
                false => self.render_alone(&suspect, nonce),
            };
            if let Some((body, version)) = rendered {
                self.session.isolation_mut().probe = Some((nonce, suspect));
                return Some((body, version, revision));
            }
        }
    }

    fn render_alone(
        &mut self,
        suspect: &Suspect,
        nonce: NonZeroU64,
    ) -> Option<(ResponseBody, TypeVersion)> {
        let slot = self.arena.find(suspect.name.as_str())?;
        let payload = self.arena.payload(slot)?.clone();
        let mut parts = BodyBuilder::new(self.encoding(), usize::MAX);
        parts.push(&suspect.name, &payload);
        if let Some(subscription) = self.subscriptions.find(self.slot, slot) {
            self.subscriptions.set_sent(&mut self.session.subscriptions, subscription, nonce.get());
        }
        let state = ResourceSet::from([(suspect.name.clone(), payload)]);
        self.session.isolation_mut().sent.push_back((nonce, state));
        Some((parts.into_body(), self.arena.version))
    }

    fn render_in_state(
        &mut self,
        suspect: &Suspect,
        nonce: NonZeroU64,
    ) -> Option<(ResponseBody, TypeVersion)> {
        let accepted = self.session.isolation()?.accepted.clone()?;
        let state = self.with_suspect(&accepted, suspect)?;
        let version = version_of(&state);
        let isolation = self.session.isolation_mut();
        if isolation.rejected_states.contains(&version) {
            return None;
        }
        isolation.sent.push_back((nonce, state.clone()));
        let mut parts = BodyBuilder::new(self.encoding(), usize::MAX);
        for (name, payload) in state.iter() {
            parts.push(name, payload);
        }
        Some((parts.into_body(), version))
    }

    /// Returns the last accepted state, restricted to subscribed resources, plus one resource.
    fn with_suspect(&self, accepted: &ResourceSet, suspect: &Suspect) -> Option<ResourceSet> {
        let payload = self.arena.payload(self.arena.find(suspect.name.as_str())?)?.clone();
        let kept = accepted.iter().filter(|(name, _)| *name != suspect.name);
        let kept = kept.filter(|(name, _)| self.is_subscribed(name)).cloned();
        Some(kept.chain([(suspect.name.clone(), payload)]).collect())
    }

    fn is_subscribed(&self, name: &ResourceName) -> bool {
        let resource = self.arena.find(name.as_str());
        let subscription = resource.and_then(|it| self.subscriptions.of(self.slot, it));
        self.session.wildcard.is_some()
            || subscription.is_some_and(|subscription| subscription.kind.is_subscribed())
    }
}

impl Suspect {
    fn new(name: &ResourceName, payload: &Payload) -> Self {
        Self { name: name.clone(), hash: payload.hash }
    }
}

/// Returns the resources of a state that are not in an earlier one.
fn new_in(state: &ResourceSet, accepted: &ResourceSet) -> Vec<Suspect> {
    let accepted: BTreeMap<_, _> =
        accepted.iter().map(|(name, payload)| (name.as_str(), payload.hash)).collect();
    let suspects = state.iter().map(|(name, payload)| Suspect::new(name, payload));
    suspects.filter(|it| accepted.get(it.name.as_str()) != Some(&it.hash)).collect()
}

fn in_state(state: &ResourceSet, suspect: &Suspect) -> bool {
    state.iter().any(|(name, payload)| *name == suspect.name && payload.hash == suspect.hash)
}

fn version_of(state: &ResourceSet) -> TypeVersion {
    let mut version = TypeVersion::default();
    for (name, payload) in state.iter() {
        version.add(name.as_str(), payload.hash);
    }
    version
}
