//! Contents of responses, kept if rejected resources are to be isolated.
//!
//! While they are isolated, the state of a full-state client is none that the store had: the last
//! accepted state, plus the resources that it accepted alone. Status reports, make before break and
//! heartbeats read it here.
// M108

use alloc::{collections::VecDeque, vec::Vec};
use core::num::NonZeroU64;

use crate::{
    server::{
        config::NackRecovery,
        session::{Session, context::SessionContext, subscription::Subscription},
        store::{
            arena::encoded_changes::ResourceSet,
            encode::body::{BodyBuilder, Payload, ResponseBody},
            version::content::TypeVersion,
        },
    },
    text::ResourceName,
};

/// Contents of responses, kept to find out which resources of a response were new.
#[derive(Debug, Default)]
pub(crate) struct KeptContents {
    /// Contents of the unanswered responses.
    pub(super) sent: VecDeque<(NonZeroU64, ResourceSet)>,
    /// In full state: last accepted state, if known.
    pub(super) accepted: Option<ResourceSet>,
    /// In full state: versions of the states that the client rejected lately.
    rejected: VecDeque<TypeVersion>,
}

/// Number of rejected states that are remembered.
const MAX_REJECTED_STATES: usize = 16;

impl KeptContents {
    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.accepted.is_none() && self.rejected.is_empty()
    }

    fn sent(&self, nonce: u64) -> Option<&ResourceSet> {
        let sent = self.sent.iter().find(|(sent, _)| sent.get() == nonce);
        sent.map(|(_, state)| state)
    }

    /// Returns the contents of the response that is answered, and drops those of all earlier
    /// ones.
    pub(super) fn take_sent(&mut self, answered: NonZeroU64) -> Option<ResourceSet> {
        let state = self.sent(answered.get()).cloned();
        self.sent.retain(|(nonce, _)| *nonce > answered);
        state
    }

    pub(super) fn note_rejected(&mut self, state: &ResourceSet) {
        self.rejected.push_back(version_of(state));
        if self.rejected.len() > MAX_REJECTED_STATES {
            self.rejected.pop_front();
        }
    }

    /// Whether the client rejected exactly this state lately.
    pub(super) fn was_rejected(&self, state: TypeVersion) -> bool {
        self.rejected.contains(&state)
    }

    /// Returns the resources of a response that the client has not accepted in the same version.
    pub(super) fn new_in<'a>(
        &self,
        state: &'a ResourceSet,
    ) -> impl Iterator<Item = &'a (ResourceName, Payload)> {
        let accepted = self.accepted.clone();
        state.iter().filter(move |(name, payload)| {
            let has_it = |accepted: &ResourceSet| accepted.has(name, payload.hash);
            !accepted.as_ref().is_some_and(has_it)
        })
    }
}

impl Session {
    fn contents(&self) -> Option<&KeptContents> {
        self.extras.as_deref().map(|extras| &extras.contents)
    }

    pub(super) fn contents_mut(&mut self) -> &mut KeptContents {
        &mut self.extras_mut().contents
    }

    /// Returns the full state in the response with this nonce, which is the newest or the last
    /// accepted one, if it was kept. A heartbeat is not kept, and counts as the last accepted state.
    pub(crate) fn kept_state(&self, nonce: u64) -> Option<&ResourceSet> {
        self.contents()?.sent(nonce).or_else(|| self.accepted_state())
    }

    /// Returns the full state that the client accepted last, if it was kept.
    pub(crate) fn accepted_state(&self) -> Option<&ResourceSet> {
        self.contents()?.accepted.as_ref()
    }

    /// Returns the names of the resources in an unanswered response that were new to the client, if
    /// its contents were kept.
    pub(super) fn new_names(&self, nonce: u64) -> Option<impl Iterator<Item = &ResourceName>> {
        let contents = self.contents()?;
        Some(contents.new_in(contents.sent(nonce)?).map(|(name, _)| name))
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

    /// Renders the last accepted state without the resources that the client no longer has, if any of
    /// them has a TTL.
    pub(crate) fn render_accepted_state(&self) -> Option<(ResponseBody, TypeVersion)> {
        let accepted = self.session.accepted_state()?;
        let state: ResourceSet = self.kept_resources(accepted).cloned().collect();
        let has_ttl = state.iter().any(|(_, payload)| payload.ttl().is_some());
        has_ttl.then(|| (self.body_of(&state), version_of(&state)))
    }

    /// Forgets the accepted resources to which the client no longer subscribes. If it subscribes to
    /// one again, it does not have it. Takes time proportional to the accepted state.
    pub(crate) fn forget_unsubscribed_contents(&mut self) {
        let Some(accepted) = self.session.accepted_state().cloned() else { return };
        let is_left = |(name, _): &&(ResourceName, Payload)| self.is_subscribed(name);
        if !accepted.iter().all(|it| is_left(&it)) {
            let left = accepted.iter().filter(is_left).cloned().collect();
            self.session.contents_mut().accepted = Some(left);
        }
    }

    pub(super) fn body_of(&self, state: &ResourceSet) -> ResponseBody {
        let mut parts = BodyBuilder::new(self.encoding(), usize::MAX);
        for (name, payload) in state.iter() {
            parts.push(name, payload);
        }
        parts.into_body()
    }

    /// Returns the resources of the last accepted state to which the client subscribes and of which it
    /// was not sent the removal.
    pub(super) fn kept_resources<'a>(
        &self,
        accepted: &'a ResourceSet,
    ) -> impl Iterator<Item = &'a (ResourceName, Payload)> {
        accepted.iter().filter(|(name, _)| self.is_subscribed(name) && !self.was_removed(name))
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

    pub(super) fn is_subscribed(&self, name: &ResourceName) -> bool {
        let resource = self.arena.find(name.as_str());
        let subscription = resource.and_then(|it| self.subscriptions.of(self.slot, it));
        self.session.wildcard.is_some()
            || subscription.is_some_and(|subscription| subscription.kind.is_subscribed())
    }
}

pub(super) fn version_of(state: &ResourceSet) -> TypeVersion {
    let mut version = TypeVersion::default();
    for (name, payload) in state.iter() {
        version.add(name.as_str(), payload.hash);
    }
    version
}
