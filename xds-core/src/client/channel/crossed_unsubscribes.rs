//! Unsubscribes in requests that may cross a response.
//!
//! A server ignores a request whose nonce is not that of its newest response. The ACK of the
//! response that crossed the request repeats the full list of names, except for one case: a name
//! that was unsubscribed and subscribed again in between is listed as if nothing had happened. For
//! the server the subscription never ended, so it sends nothing, while the client has dropped the
//! resource or ignored it in the meantime. The ACK therefore leaves out names that are subscribed
//! again and not cached, and the next request subscribes to them.
//!
//! ```text
//! client                                   server
//!   │  [a, b]  nonce 1                        │
//!   │  [a]     nonce 1 ────────╮ ╭─────────── │  response, nonce 2: a changed
//!   │  [a, b]  nonce 1 ────────┼─┼──╮         │
//!   │ ◀────────────────────────┼─╯  ╰───────▶ │  both ignored
//!   │  [a]     nonce 2 ────────┼────────────▶ │  ACK: b ends
//!   │  [a, b]  nonce 2 ────────┼────────────▶ │  b is sent
//! ```
//!
//! This is exact for servers that wait for the ACK before they send another response. With other
//! servers, such as Istio's, the ACK can be crossed as well. Then a name that it left out is only
//! requested again after its next unsubscribe, and an empty list that ended in an ACK may still
//! mean a wildcard on that stream.
// S0.147, M58

use alloc::collections::{BTreeMap, BTreeSet};

use crate::{
    client::{
        cache::{Cache, entry::CacheEntry},
        event::status::ResourceState,
    },
    slab::Slot,
    text::{Nonce, ResourceName},
};

/// Maximum number of names remembered individually.
const MAX_NAMES: usize = 1024;

/// Unsubscribes in requests with the newest nonce. Until the ACK of the newest response is
/// rendered, those with the previous nonce.
#[derive(Debug, Default)]
pub(crate) struct InFlightUnsubscribes {
    /// Nonce of these requests.
    nonce: Nonce,
    crossed: CrossedUnsubscribes,
}

/// Unsubscribes that the server may have ignored.
#[derive(Debug, Default)]
pub(crate) struct CrossedUnsubscribes {
    names: BTreeMap<ResourceName, StateAtUnsubscribe>,
    /// Whether any name may be affected: a wildcard ended, or there were too many names.
    pub(crate) is_any_name: bool,
    /// Subscriptions sent since the first of these unsubscribes.
    since: BTreeSet<Slot>,
    /// Whether a wildcard expressed by an empty list ended, so that the server may still read an
    /// empty list as a wildcard.
    pub(crate) is_legacy: bool,
}

/// State of a name when it was unsubscribed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StateAtUnsubscribe {
    /// Resource not received. The server still sends it unless it sees the unsubscribe.
    Unknown,
    Known,
}

impl InFlightUnsubscribes {
    /// Returns whether a request with this nonce is the first with it, which is the ACK of a
    /// response. No response crosses requests sent before it.
    pub(crate) fn is_ack(&self, nonce: &Nonce) -> bool {
        *nonce != self.nonce
    }

    /// Takes the unsubscribes that may have been ignored, before a request with this nonce is
    /// rendered.
    pub(crate) fn take(&mut self, nonce: &Nonce) -> CrossedUnsubscribes {
        self.nonce = nonce.clone();
        core::mem::take(&mut self.crossed)
    }

    /// Puts them back after a request that only ended an empty list's wildcard. The next request
    /// handles the rest.
    pub(crate) fn put_back(&mut self, crossed: CrossedUnsubscribes) {
        self.crossed = CrossedUnsubscribes { is_legacy: false, ..crossed };
    }

    /// Notes that a request subscribes to a name.
    pub(crate) fn note_subscribe(&mut self, subscription: Slot) {
        if !self.crossed.is_empty() {
            self.crossed.since.insert(subscription);
        }
    }

    /// Notes that a request unsubscribes from a name.
    pub(crate) fn note_unsubscribe(&mut self, subscription: Slot, entry: &CacheEntry) {
        self.crossed.since.remove(&subscription);
        if self.crossed.names.len() >= MAX_NAMES {
            return self.note_any_name();
        }
        let state_at_unsubscribe = match entry.state {
            ResourceState::Requested => StateAtUnsubscribe::Unknown,
            _ => StateAtUnsubscribe::Known,
        };
        let known = self.crossed.names.entry(entry.name.clone()).or_insert(state_at_unsubscribe);
        *known = state_at_unsubscribe.max(*known);
    }

    /// Notes that a request ends a wildcard.
    pub(crate) fn note_any_name(&mut self) {
        self.crossed.is_any_name = true;
        self.crossed.names = BTreeMap::new();
    }

    /// Notes that an empty list no longer means a wildcard.
    pub(crate) fn note_legacy_wildcard_ended(&mut self) {
        self.crossed.is_legacy = true;
    }
}

impl CrossedUnsubscribes {
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_any_name && self.names.is_empty()
    }

    /// Returns whether the server may consider a resource sent that a wildcard covers and the
    /// client does not hold from it: an unsubscribed name stays subscribed if the server sees the
    /// wildcard first.
    pub(crate) fn is_covered_by_wildcard(&self, cache: &Cache, upstream: usize) -> bool {
        let is_crossed = |(name, state_at_unsubscribe): (&ResourceName, &StateAtUnsubscribe)| {
            let entry = cache.find(name.as_str()).and_then(|slot| cache.get(slot));
            *state_at_unsubscribe == StateAtUnsubscribe::Known
                && !entry.is_some_and(|it| it.has_authority || it.is_held_from(upstream))
        };
        self.is_any_name || self.names.iter().any(is_crossed)
    }

    /// Returns whether the server may consider a resubscribed name subscribed all along, and its
    /// resource sent, while the client does not hold it. A resource that was not received before
    /// the unsubscribe is still sent if the name was subscribed again before the response.
    pub(crate) fn has(
        &self,
        subscription: Slot,
        is_sent: bool,
        entry: &CacheEntry,
        upstream: usize,
    ) -> bool {
        if entry.is_held_from(upstream) || (is_sent && !self.since.contains(&subscription)) {
            return false;
        }
        let state_at_unsubscribe = self.names.get(entry.name.as_str());
        let is_crossed = |state_at_unsubscribe: &StateAtUnsubscribe| {
            *state_at_unsubscribe == StateAtUnsubscribe::Known || !is_sent
        };
        self.is_any_name || state_at_unsubscribe.is_some_and(is_crossed)
    }
}
