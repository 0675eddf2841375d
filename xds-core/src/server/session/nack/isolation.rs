//! Isolation of the resources that cause a client to reject a response.
//!
//! Unchanged resources of a rejected response are suspects. Each is sent alone, once per version.
//! A suspect that the client rejects is recorded as a rejected resource; the client has all
//! others. In full state a response cannot contain one resource alone, because absent resources
//! are removed. There the response is the last accepted state plus one suspect; nothing is
//! isolated unless that state is known. If a response had only one new resource, or the client
//! accepted all except one, the rejected resource is known without sending it again.
// M108

use alloc::{collections::VecDeque, vec::Vec};
use core::num::NonZeroU64;

use super::rejection::OpenRejections;
use crate::{
    server::{
        config::NackRecovery,
        session::{Session, context::SessionContext, subscription::Subscription, window::Sent},
        store::{
            arena::encoded_changes::ResourceSet,
            encode::body::{BodyBuilder, Payload, ResponseBody},
            revision::Revision,
            version::content::{ContentHash, TypeVersion},
        },
    },
    text::ResourceName,
};

/// Resources of rejected responses, some of which the client rejects.
#[derive(Debug, Default)]
pub(crate) struct SuspectQueue {
    /// Suspects in the order in which they are sent.
    queue: VecDeque<Suspect>,
    /// Suspect that was sent alone and is unanswered.
    probe: Option<(NonZeroU64, Suspect)>,
    /// Resources that the client is known to reject.
    rejected: VecDeque<Suspect>,
}

/// Contents of responses, kept to find out which resources of a response were new.
#[derive(Debug, Default)]
pub(crate) struct KeptContents {
    /// Contents of the unanswered responses.
    sent: VecDeque<(NonZeroU64, ResourceSet)>,
    /// In full state: last accepted state, if known.
    accepted: Option<ResourceSet>,
    /// In full state: versions of the states that the client rejected lately.
    rejected: VecDeque<TypeVersion>,
}

/// Number of rejected states that are remembered.
const MAX_REJECTED_STATES: usize = 16;

/// Resource in one version.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Suspect {
    name: ResourceName,
    hash: ContentHash,
}

impl SuspectQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.probe.is_none() && self.rejected.is_empty()
    }

    /// Adds the new resources of a rejected response. If there is only one, marks it as rejected
    /// and returns its name.
    fn add(&mut self, new: Vec<Suspect>, limit: usize) -> Option<ResourceName> {
        if let [rejected] = &new[..] {
            self.mark_rejected(rejected.clone(), limit);
            return Some(rejected.name.clone());
        }
        for suspect in new {
            let is_known = self.rejected.contains(&suspect) || self.queue.contains(&suspect);
            if !is_known && self.queue.len() < limit {
                self.queue.push_back(suspect);
            }
        }
        None
    }

    fn mark_rejected(&mut self, rejected: Suspect, limit: usize) {
        self.queue.retain(|other| *other != rejected);
        self.rejected.retain(|other| other.name != rejected.name);
        self.rejected.push_back(rejected);
        if self.rejected.len() > limit.max(1) {
            self.rejected.pop_front();
        }
    }
}

impl KeptContents {
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.accepted.is_none() && self.rejected.is_empty()
    }

    /// Returns the contents of the response that is answered, and drops those of all earlier
    /// ones.
    fn take_sent(&mut self, answered: NonZeroU64) -> Option<ResourceSet> {
        let state = self.sent.iter().find(|(nonce, _)| *nonce == answered);
        let state = state.map(|(_, state)| state.clone());
        self.sent.retain(|(nonce, _)| *nonce > answered);
        state
    }

    fn note_rejected(&mut self, state: TypeVersion) {
        self.rejected.push_back(state);
        if self.rejected.len() > MAX_REJECTED_STATES {
            self.rejected.pop_front();
        }
    }
}

impl Session {
    /// Whether a suspect is to be sent alone. Requires that no response is unanswered, because in
    /// full state the suspect's response would revert that one.
    pub(crate) fn has_probe(&self) -> bool {
        let suspects = self.rejections().and_then(OpenRejections::suspects);
        let has_next = suspects.is_some_and(|it| it.probe.is_none() && !it.queue.is_empty());
        has_next && !self.awaits_answer()
    }

    /// Returns the resources that the client is known to reject in their current version.
    pub(crate) fn rejected_resources(&self) -> impl Iterator<Item = (&ResourceName, ContentHash)> {
        let suspects = self.rejections().and_then(OpenRejections::suspects);
        let rejected = suspects.into_iter().flat_map(|suspects| &suspects.rejected);
        rejected.map(|rejected| (&rejected.name, rejected.hash))
    }

    /// Returns the full state in the response with this nonce, which is the newest or the last
    /// accepted one, if it was kept. A heartbeat is not kept, and counts as the last accepted
    /// state.
    pub(crate) fn kept_state(&self, nonce: u64) -> Option<&ResourceSet> {
        let contents = &self.extras.as_deref()?.contents;
        let sent = contents.sent.iter().find(|(sent, _)| sent.get() == nonce);
        sent.map(|(_, state)| state).or(contents.accepted.as_ref())
    }

    fn contents_mut(&mut self) -> &mut KeptContents {
        &mut self.extras_mut().contents
    }
}

impl SessionContext<'_> {
    pub(crate) fn isolates(&self) -> bool {
        self.arena.config.nack_recovery == NackRecovery::Isolate
    }

    /// Records the state that the client holds: empty or the current state, as the client stated.
    pub(crate) fn note_held_state(&mut self, state: ResourceSet) {
        if self.isolates() && self.sends_full_state() {
            self.session.contents_mut().accepted = Some(state);
        }
    }

    /// Returns the current versions of all existing subscribed resources.
    pub(crate) fn current_state(&mut self) -> ResourceSet {
        let copy = |(name, payload): (&ResourceName, &Payload)| (name.clone(), payload.clone());
        if self.session.wildcard.is_none() {
            return self.named().map(copy).collect();
        }
        let retained = self.session.retained_deletions(self.arena, self.subscriptions);
        let retained: Vec<_> = retained.map(copy).collect();
        if retained.is_empty() {
            return self.arena.resource_set();
        }
        let version = self.version_of_everything();
        self.arena.resource_set_with(retained, version)
    }

    /// Stores the contents of a response until it is answered, if rejected resources are isolated.
    pub(crate) fn note_state(
        &mut self,
        nonce: NonZeroU64,
        state: impl FnOnce(&mut Self) -> ResourceSet,
    ) {
        if !self.isolates() {
            return;
        }
        let state = state(self);
        let window = usize::from(self.arena.config.window.get());
        let sent = &mut self.session.contents_mut().sent;
        sent.push_back((nonce, state));
        // The number of responses that can be answered.
        if sent.len() > window.saturating_add(1) {
            sent.pop_front();
        }
    }

    /// Records an ACK: the resources of the response are accepted. Returns the resources that are
    /// found to be rejected in an earlier response by elimination.
    pub(crate) fn accept_suspects(&mut self, sent: Sent, limit: usize) -> Vec<ResourceName> {
        if !self.isolates() {
            return Vec::new();
        }
        self.with_isolation(|context, suspects, contents| {
            let state = contents.take_sent(sent.nonce);
            let has = |it: &Suspect| state.as_ref().is_some_and(|state| in_state(state, it));
            suspects.probe.take_if(|(nonce, _)| *nonce <= sent.nonce);
            suspects.queue.retain(|suspect| !has(suspect));
            let is_current = |rejected: &Suspect| context.arena.has(&rejected.name, rejected.hash);
            suspects.rejected.retain(|rejected| !has(rejected) && is_current(rejected));
            if context.sends_full_state() && state.is_some() {
                contents.accepted = state;
            }
            context.reject_by_elimination(suspects, contents, limit)
        })
    }

    /// Records a NACK. Returns the resources that are found to be rejected.
    pub(crate) fn reject_suspects(&mut self, sent: Sent, limit: usize) -> Vec<ResourceName> {
        if !self.isolates() {
            return Vec::new();
        }
        self.with_isolation(|context, suspects, contents| {
            let attributed = context.attribute_rejection(suspects, contents, sent, limit);
            let mut found: Vec<_> = attributed.into_iter().collect();
            found.extend(context.reject_by_elimination(suspects, contents, limit));
            found
        })
    }

    /// Drops suspects and rejected resources that changed or to which the client no longer
    /// subscribes.
    pub(crate) fn drop_stale_suspects(&mut self) {
        self.with_isolation(|context, suspects, _| {
            suspects.queue.retain(|it| context.is_current(it));
            suspects.rejected.retain(|it| context.is_current(it));
        });
    }

    /// Changes the suspects, and ends the isolation if none is left.
    fn with_isolation<T>(
        &mut self,
        change: impl FnOnce(&Self, &mut SuspectQueue, &mut KeptContents) -> T,
    ) -> T {
        let mut extras = self.session.extras.take().unwrap_or_default();
        let mut suspects = extras.rejections.take_suspects();
        let result = change(self, &mut suspects, &mut extras.contents);
        extras.rejections.isolate(suspects);
        self.session.extras = Some(extras);
        self.session.drop_empty_extras();
        result
    }

    /// Whether the suspect exists in this version and the client subscribes to it.
    fn is_current(&self, suspect: &Suspect) -> bool {
        self.arena.has(&suspect.name, suspect.hash) && self.is_subscribed(&suspect.name)
    }

    /// Marks suspects as rejected if the client rejected the state that consists of the last
    /// accepted state plus the suspect. Returns their names.
    fn reject_by_elimination(
        &self,
        suspects: &mut SuspectQueue,
        contents: &KeptContents,
        limit: usize,
    ) -> Vec<ResourceName> {
        let mut found = Vec::new();
        while let (Some(suspect), Some(accepted)) =
            (suspects.queue.front().cloned(), &contents.accepted)
        {
            let state = self.with_suspect(accepted, &suspect);
            if !state.is_some_and(|state| contents.rejected.contains(&version_of(&state))) {
                break;
            }
            found.push(suspect.name.clone());
            suspects.mark_rejected(suspect, limit);
        }
        found
    }

    fn attribute_rejection(
        &self,
        suspects: &mut SuspectQueue,
        contents: &mut KeptContents,
        sent: Sent,
        limit: usize,
    ) -> Option<ResourceName> {
        let state = contents.take_sent(sent.nonce);
        if let Some((nonce, suspect)) = suspects.probe.take_if(|(nonce, _)| *nonce <= sent.nonce)
            && nonce == sent.nonce
        {
            suspects.mark_rejected(suspect.clone(), limit);
            return Some(suspect.name);
        }
        let state = state?;
        let new = if self.sends_full_state() {
            contents.note_rejected(version_of(&state));
            new_in(&state, contents.accepted.as_ref()?)
        } else {
            state.iter().map(|(name, payload)| Suspect::new(name, payload)).collect()
        };
        suspects.add(new, limit)
    }

    /// Renders the next suspect alone. Also returns the revision at which it changed.
    pub(crate) fn render_probe(
        &mut self,
        nonce: NonZeroU64,
    ) -> Option<(ResponseBody, TypeVersion, Revision)> {
        loop {
            let suspect = self.with_isolation(|_, it, _| it.queue.pop_front())?;
            if !self.is_current(&suspect) {
                continue;
            }
            let revision = self.arena.find(suspect.name.as_str()).and_then(|it| self.arena.at(it));
            let revision = revision.map_or(Revision::START, |resource| resource.revision);
            let rendered = match self.sends_full_state() {
                true => self.render_in_state(&suspect, nonce),
                false => self.render_alone(&suspect, nonce),
            };
            if let Some((body, version)) = rendered {
                self.with_isolation(|_, it, _| it.probe = Some((nonce, suspect)));
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
            self.note_held_in(subscription, nonce);
        }
        let state = ResourceSet::from_iter([(suspect.name.clone(), payload)]);
        self.session.contents_mut().sent.push_back((nonce, state));
        Some((parts.into_body(), self.arena.version))
    }

    fn render_in_state(
        &mut self,
        suspect: &Suspect,
        nonce: NonZeroU64,
    ) -> Option<(ResponseBody, TypeVersion)> {
        let accepted = self.session.contents_mut().accepted.clone()?;
        let state = self.with_suspect(&accepted, suspect)?;
        let version = version_of(&state);
        let contents = self.session.contents_mut();
        if contents.rejected.contains(&version) {
            return None;
        }
        contents.sent.push_back((nonce, state.clone()));
        let mut parts = BodyBuilder::new(self.encoding(), usize::MAX);
        for (name, payload) in state.iter() {
            parts.push(name, payload);
        }
        Some((parts.into_body(), version))
    }

    /// Returns the last accepted state, restricted to subscribed resources of which the client was not
    /// sent the removal, plus one resource.
    fn with_suspect(&self, accepted: &ResourceSet, suspect: &Suspect) -> Option<ResourceSet> {
        let payload = self.arena.payload(self.arena.find(suspect.name.as_str())?)?.clone();
        let kept = accepted.iter().filter(|(name, _)| *name != suspect.name);
        let kept = kept.filter(|(name, _)| self.is_subscribed(name) && !self.was_removed(name));
        let kept = kept.cloned();
        Some(kept.chain([(suspect.name.clone(), payload)]).collect())
    }

    /// Whether a resource does not exist and a full state was sent without it.
    fn was_removed(&self, name: &ResourceName) -> bool {
        let Some(slot) = self.arena.find(name.as_str()) else { return true };
        let Some(resource) = self.arena.at(slot).filter(|it| it.payload.is_none()) else {
            return false;
        };
        let subscription = self.subscriptions.of(self.slot, slot);
        let waits = |it: &Subscription| it.is_withheld() || it.due.is_some();
        let removals_to = self.session.wildcard.map(|wildcard| wildcard.removals_to);
        !subscription.is_some_and(waits)
            && removals_to.is_none_or(|removals_to| resource.revision <= removals_to)
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
    let suspects = state.iter().map(|(name, payload)| Suspect::new(name, payload));
    suspects.filter(|suspect| !in_state(accepted, suspect)).collect()
}

fn in_state(state: &ResourceSet, suspect: &Suspect) -> bool {
    state.get(&suspect.name).is_some_and(|payload| payload.hash == suspect.hash)
}

fn version_of(state: &ResourceSet) -> TypeVersion {
    let mut version = TypeVersion::default();
    for (name, payload) in state.iter() {
        version.add(name.as_str(), payload.hash);
    }
    version
}
