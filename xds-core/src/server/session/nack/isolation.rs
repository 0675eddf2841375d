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

use super::{
    kept_contents::{KeptContents, version_of},
    rejection::OpenRejections,
};
use crate::{
    server::{
        session::{Session, context::SessionContext, window::Sent},
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

impl Session {
    /// Whether a suspect is to be sent alone. Requires that no response is unanswered, because in
    /// full state the suspect's response would revert that one.
    pub(crate) fn has_probe(&self) -> bool {
        let suspects = self.rejections().and_then(OpenRejections::suspects);
        let has_next = suspects.is_some_and(|it| it.probe.is_none() && !it.queue.is_empty());
        has_next && !self.awaits_answer()
    }

    /// Whether a resource is suspected or known to be rejected in this version.
    pub(crate) fn is_suspect(&self, name: &ResourceName, hash: ContentHash) -> bool {
        let suspects = self.rejections().and_then(OpenRejections::suspects);
        suspects.is_some_and(|it| {
            let mut all = it.queue.iter().chain(&it.rejected);
            all.any(|suspect| suspect.hash == hash && suspect.name == *name)
        })
    }

    /// Returns the resources that the client is known to reject in their current version.
    pub(crate) fn rejected_resources(&self) -> impl Iterator<Item = (&ResourceName, ContentHash)> {
        let suspects = self.rejections().and_then(OpenRejections::suspects);
        let rejected = suspects.into_iter().flat_map(|suspects| &suspects.rejected);
        rejected.map(|rejected| (&rejected.name, rejected.hash))
    }
}

impl SessionContext<'_> {
    /// Records an ACK: the resources of the response are accepted. Returns the resources that are
    /// found to be rejected in an earlier response by elimination.
    pub(crate) fn accept_suspects(&mut self, sent: Sent, limit: usize) -> Vec<ResourceName> {
        if !self.isolates() {
            return Vec::new();
        }
        self.with_isolation(|context, suspects, contents| {
            let state = contents.take_sent(sent.nonce);
            let has =
                |it: &Suspect| state.as_ref().is_some_and(|state| state.has(&it.name, it.hash));
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
        if !self.session.is_isolating() {
            return;
        }
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
            if !state.is_some_and(|state| contents.was_rejected(version_of(&state))) {
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
        if self.sends_full_state() {
            contents.note_rejected(&state);
            contents.accepted.as_ref()?;
        }
        let new = contents.new_in(&state).map(|(name, payload)| Suspect::new(name, payload));
        suspects.add(new.collect(), limit)
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
        let accepted = self.session.accepted_state()?;
        let state = self.with_suspect(accepted, suspect)?;
        let version = version_of(&state);
        let contents = self.session.contents_mut();
        if contents.was_rejected(version) {
            return None;
        }
        contents.sent.push_back((nonce, state.clone()));
        Some((self.body_of(&state), version))
    }

    /// Returns the last accepted state plus one resource.
    fn with_suspect(&self, accepted: &ResourceSet, suspect: &Suspect) -> Option<ResourceSet> {
        let payload = self.arena.payload(self.arena.find(suspect.name.as_str())?)?.clone();
        let kept = self.kept_resources(accepted).filter(|(name, _)| *name != suspect.name);
        Some(kept.cloned().chain([(suspect.name.clone(), payload)]).collect())
    }
}

impl Suspect {
    fn new(name: &ResourceName, payload: &Payload) -> Self {
        Self { name: name.clone(), hash: payload.hash }
    }
}
