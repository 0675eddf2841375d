//! What was let go of since the last response, in requests that a further response may cross.
//!
//! A server drops a request whose nonce is not that of its newest response (S0.147, M58). What such a
//! request said is said again by the answer to the response that crossed it, but not that something ended
//! and was taken up again meanwhile: the answer lists it as if nothing had happened. To the server the
//! subscription never ended and there is nothing to send, while the client dropped what it held, or passed
//! over what came when nobody wanted it. So the answer leaves out what is wanted again and has not come, and
//! the request behind it asks for it anew.
//!
//! ```text
//! client                                   server
//!   │  [a, b]  nonce 1                        │
//!   │  [a]     nonce 1 ────────╮ ╭─────────── │  response, nonce 2: a changed
//!   │  [a, b]  nonce 1 ────────┼─┼──╮         │
//!   │ ◀────────────────────────┼─╯  ╰───────▶ │  dropped, both
//!   │  [a]     nonce 2 ────────┼────────────▶ │  the answer: b ends
//!   │  [a, b]  nonce 2 ────────┼────────────▶ │  b is sent
//! ```
//!
//! That is exact with servers that wait for the answer before they send more. With one that does not, as
//! Istio's, the answer may be crossed as well: then what it left out is asked for again only when it ends once
//! more, and an empty list that ended in an answer may go on to mean everything on that stream.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::{
    client::{
        cache::{Cache, entry::Entry},
        event::status::EntryState,
    },
    slab::Slot,
    text::{Nonce, ResourceName},
};

/// How many names are remembered one by one.
const MAX_NAMES: usize = 1024;

/// What was let go of in requests with the newest nonce, or with the one before until the answer to the
/// newest response is written.
#[derive(Debug, Default)]
pub(crate) struct LetGo {
    /// The nonce of these requests.
    under: Nonce,
    lost: Lost,
}

/// What the server may take for subscribed all along, and for sent.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    names: BTreeMap<ResourceName, AtItsEnd>,
    /// Whether it may be anything: what a wildcard covered, or too much to remember.
    pub(crate) is_anything: bool,
    /// The subscriptions that were said since the first of these ended.
    since: BTreeSet<Slot>,
    /// Whether a wildcard of an empty list ended, so that an empty list may still mean everything.
    pub(crate) is_legacy: bool,
}

/// What was known of a name when it was no longer asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AtItsEnd {
    /// Nothing: the server had yet to send it, and does so unless it has heard of the end.
    Unknown,
    Known,
}

impl LetGo {
    /// Whether a request with this nonce is the first one, which is the answer to a response: nothing that
    /// was sent before crosses it.
    pub(crate) fn is_answer(&self, nonce: &Nonce) -> bool {
        *nonce != self.under
    }

    /// What may have been lost before a request with this nonce is written.
    pub(crate) fn take(&mut self, nonce: &Nonce) -> Lost {
        self.under = nonce.clone();
        core::mem::take(&mut self.lost)
    }

    /// A request made good that an empty list meant everything; the rest is for the one behind it.
    pub(crate) fn put_back(&mut self, lost: Lost) {
        self.lost = Lost { is_legacy: false, ..lost };
    }

    /// A name is asked for.
    pub(crate) fn note_said(&mut self, subscription: Slot) {
        if !self.lost.is_nothing() {
            self.lost.since.insert(subscription);
        }
    }

    /// A name is no longer asked for.
    pub(crate) fn note_ended(&mut self, subscription: Slot, entry: &Entry) {
        self.lost.since.remove(&subscription);
        if self.lost.names.len() >= MAX_NAMES {
            return self.note_anything();
        }
        let at_its_end = match entry.state {
            EntryState::Requested => AtItsEnd::Unknown,
            _ => AtItsEnd::Known,
        };
        let known = self.lost.names.entry(entry.name.clone()).or_insert(at_its_end);
        *known = at_its_end.max(*known);
    }

    /// Everything is no longer asked for.
    pub(crate) fn note_anything(&mut self) {
        self.lost.is_anything = true;
        self.lost.names = BTreeMap::new();
    }

    /// An empty list no longer means everything.
    pub(crate) fn note_end_of_legacy(&mut self) {
        self.lost.is_legacy = true;
    }
}

impl Lost {
    pub(crate) fn is_nothing(&self) -> bool {
        !self.is_anything && self.names.is_empty()
    }

    /// Whether the server may take something for sent that a wildcard brings and that is not held from it: what a name
    /// had brought before it ended stays subscribed to it, if it hears of the wildcard first.
    pub(crate) fn is_covered_by_wildcard(&self, cache: &Cache, upstream: usize) -> bool {
        let is_lost = |(name, at_its_end): (&ResourceName, &AtItsEnd)| {
            let entry = cache.find(name.as_str()).and_then(|slot| cache.get(slot));
            *at_its_end == AtItsEnd::Known
                && !entry.is_some_and(|it| it.is_foreign || it.is_held_from(upstream))
        };
        self.is_anything || self.names.iter().any(is_lost)
    }

    /// Whether the server may take a name for subscribed all along that ended and is wanted again, and for
    /// sent what is not held from it. What it had yet to send when the name ended it still sends, if the
    /// name was said again before the response came.
    pub(crate) fn has(
        &self,
        subscription: Slot,
        is_sent: bool,
        entry: &Entry,
        upstream: usize,
    ) -> bool {
        if entry.is_held_from(upstream) || (is_sent && !self.since.contains(&subscription)) {
            return false;
        }
        let at_its_end = self.names.get(entry.name.as_str());
        let is_lost = |at_its_end: &AtItsEnd| *at_its_end == AtItsEnd::Known || !is_sent;
        self.is_anything || at_its_end.is_some_and(is_lost)
    }
}
