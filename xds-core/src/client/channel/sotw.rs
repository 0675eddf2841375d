//! State-of-the-world protocol of one type on one channel.
//!
//! A request is a function of the current subscriptions: it lists all names, except those
//! [left to the next request](LetGo), with the last accepted version and the newest nonce, and
//! replaces all earlier requests. This module keeps the subscriptions as the *server* knows them,
//! and renders the request that updates them. It is independent of other types on the stream.
//!
//! State of the wildcard in requests:
//!
//! ```text
//!             []                  ["*", ..]
//!  Unsent ─────────▶ Legacy ─────────────────▶ Named { wildcard }
//!     │               │  ▲ an empty list here       │      ▲
//!     │   [names]     │  └ still is a wildcard      ▼      │
//!     └───────────────┴───────────────────────▶ Named { no wildcard }
//! ```
//!
//! A single request cannot change `Legacy` to an empty subscription, so a wildcard that ends
//! without names goes through `["*"]`. If a response has crossed that request, the step is repeated
//! (`LeavingLegacy`).
//!
//! The server ignores requests that a response crosses, because of their nonce. The ACK of the
//! response repeats the list of names; [`LetGo`] handles what this cannot repair.
// B01, S0.095, X02

use alloc::vec::Vec;

use super::{
    crossed_unsubscribes::{LetGo, Lost},
    request::{Form, Rendered, WildcardStep},
    sent_names::SentNames,
};
use crate::{
    client::{
        cache::Cache,
        config::{Exchange, WildcardForm},
        subscription::{Subscription, TypeInterest},
    },
    slab::Slot,
    text::{Nonce, TypeUrl, Version},
    wire::encode,
    zoo::{self, Bug},
};

/// State of one type on one channel.
#[derive(Debug, Default)]
pub(crate) struct Sotw {
    /// Nonce of the newest response, which every request contains.
    // IC4
    pub(crate) nonce: Nonce,
    wire: OnWire,
    /// Whether the first request subscribed to a wildcard that has not ended since. A wildcard
    /// subscribed later may cross a response to a request for names.
    pub(crate) began_with_wildcard: bool,
    /// Names subscribed on this channel.
    pub(crate) sent: SentNames,
    /// Unsubscribes in requests that may have been ignored; `None` if responses cannot cross
    /// requests.
    let_go: Option<LetGo>,
}

/// Subscription as the server knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OnWire {
    /// No request of the type was sent on this channel.
    #[default]
    Unsent,
    /// Only empty lists were sent, which are a wildcard.
    Legacy,
    /// Names or `*` were sent, so an empty list now means no subscription.
    Named { wildcard: bool },
    /// Unsubscribing from `Legacy` again, because the server may have ignored it: the list was
    /// `["*"]`, without the intention to subscribe to a wildcard.
    LeavingLegacy,
}

/// Fields of a request other than subscriptions.
pub(crate) struct Envelope<'a> {
    /// Encoded node, if the request contains it.
    pub(crate) node: Option<&'a [u8]>,
    pub(crate) type_url: &'a TypeUrl,
    pub(crate) version: &'a Version,
    pub(crate) nonce: &'a Nonce,
    /// Code and message of `error_detail`, in a NACK only.
    pub(crate) error: Option<(i32, &'a str)>,
}

impl Sotw {
    /// Creates the state of the type on a new channel.
    pub(crate) fn new(interest: &TypeInterest, scope: &[bool], exchange: &Exchange) -> Self {
        let let_go = (*exchange == Exchange::Stream).then(LetGo::default);
        Self { sent: SentNames::none(interest, scope), let_go, ..Self::default() }
    }

    /// Returns whether any request of the type was sent on this channel.
    pub(crate) fn was_requested(&self) -> bool {
        self.wire != OnWire::Unsent
    }

    /// Returns whether the server does not know the current subscriptions.
    // IC40
    pub(crate) fn is_dirty(&self, interest: &TypeInterest, scope: &[bool]) -> bool {
        if zoo::is(Bug::NoUnsubscribeForLastWatch) && !interest.is_wanted_in(scope) {
            return false;
        }
        match self.wire {
            // WC-05: an empty first list would be a wildcard, so a type without subscriptions is
            // not requested on a new stream.
            OnWire::Unsent => interest.is_wanted_in(scope),
            OnWire::LeavingLegacy => true,
            OnWire::Legacy | OnWire::Named { .. } => {
                self.sent.is_outdated() || self.has_wildcard() != interest.wants_wildcard_in(scope)
            }
        }
    }

    pub(crate) fn has_wildcard(&self) -> bool {
        matches!(self.wire, OnWire::Legacy | OnWire::Named { wildcard: true })
    }

    /// Renders a request for the current subscriptions and marks them as sent.
    pub(crate) fn render(
        &mut self,
        envelope: &Envelope<'_>,
        interest: &mut TypeInterest,
        cache: &Cache,
        form: Form<'_>,
        out: &mut Vec<u8>,
    ) -> Rendered {
        let had_wildcard = self.has_wildcard();
        let scope = form.scope;
        let is_first = !self.was_requested();
        let is_answer = self.is_answer(envelope.nonce);
        let lost = self.take_lost(envelope.nonce, is_answer);
        let wire = self.next_on_wire(interest, cache, form, &lost);
        self.note_let_go(wire, interest.wants_wildcard_in(scope), is_answer);
        self.wire = wire;
        self.began_with_wildcard = self.has_wildcard() && (is_first || self.began_with_wildcard);
        let wildcard = match WildcardStep::between(had_wildcard, self.has_wildcard()) {
            WildcardStep::Unsubscribed if interest.wants_wildcard_in(scope) => {
                WildcardStep::LeftOut
            }
            step => step,
        };
        let states_held = !envelope.version.as_str().is_empty();
        let mut rendered = Rendered { wildcard, states_held, ..Rendered::default() };

        encode::string(out, VERSION_INFO, envelope.version.as_str());
        if let Some(node) = envelope.node {
            encode::block(out, NODE, node);
        }
        if matches!(self.wire, OnWire::Named { wildcard: true } | OnWire::LeavingLegacy) {
            encode::string(out, RESOURCE_NAMES, "*");
        }
        let mut slot = interest.subscriptions.first();
        while let Some(subscription) = interest.subscriptions.at_mut(slot) {
            if !subscription.is_wanted_in(scope) {
                if self.sent.has(slot) {
                    self.unsay(slot, subscription);
                    if subscription.is_over() {
                        rendered.unsubscribed.push(slot);
                    }
                    if let Some(entry) = cache.get(subscription.entry)
                        && (entry.is_foreign || !self.has_wildcard())
                        && let Some(let_go) = &mut self.let_go
                    {
                        let_go.note_ended(slot, entry);
                    }
                }
            } else if let Some(entry) = cache.get(subscription.entry) {
                let is_sent = self.sent.has(slot);
                if lost.has(slot, is_sent, entry, form.upstream) {
                    if is_sent {
                        self.unsay(slot, subscription);
                    }
                    rendered.left_out.push(slot);
                } else {
                    encode::string(out, RESOURCE_NAMES, entry.name.as_str());
                    if !is_sent {
                        self.say(slot, subscription);
                        rendered.subscribed.push(slot);
                    }
                }
            }
            slot = interest.subscriptions.next(slot);
        }
        encode::string(out, TYPE_URL, envelope.type_url.as_str());
        encode::string(out, RESPONSE_NONCE, envelope.nonce.as_str());
        if let Some((code, message)) = envelope.error {
            encode::block(out, ERROR_DETAIL, &encode::status(code, message));
        }
        self.sent.note_complete_but(rendered.left_out.len());
        if let Some(let_go) = self.let_go.as_mut()
            && self.wire == OnWire::LeavingLegacy
        {
            let_go.put_back(lost);
        }
        rendered
    }

    fn say(&mut self, slot: Slot, subscription: &mut Subscription) {
        self.sent.insert(slot);
        subscription.told += 1;
        if let Some(let_go) = &mut self.let_go {
            let_go.note_said(slot);
        }
    }

    fn unsay(&mut self, slot: Slot, subscription: &mut Subscription) {
        self.sent.remove(slot);
        subscription.told = subscription.told.saturating_sub(1);
    }

    /// Returns whether a request is the ACK or NACK of the newest response, the first with its
    /// nonce.
    fn is_answer(&self, nonce: &Nonce) -> bool {
        let is_first = self.let_go.as_ref().is_some_and(|let_go| let_go.is_answer(nonce));
        is_first && *nonce == self.nonce
    }

    fn take_lost(&mut self, nonce: &Nonce, is_answer: bool) -> Lost {
        match &mut self.let_go {
            Some(let_go) if is_answer || self.wire == OnWire::LeavingLegacy => let_go.take(nonce),
            _ => Lost::default(),
        }
    }

    fn next_on_wire(
        &self,
        interest: &TypeInterest,
        cache: &Cache,
        form: Form<'_>,
        lost: &Lost,
    ) -> OnWire {
        let scope = form.scope;
        let may_be_empty = matches!(self.wire, OnWire::Unsent | OnWire::Legacy)
            || zoo::is(Bug::EmptyListAfterNames);
        let is_legacy = form.wildcard == WildcardForm::LegacyEmpty;
        // A complete response to a wildcard request contains everything.
        let may_lack_some = !self.has_wildcard() || !form.is_complete;
        let wants_wildcard = interest.wants_wildcard_in(scope)
            && self.wire != OnWire::LeavingLegacy
            && (!lost.is_covered_by_wildcard(cache, form.upstream) || !may_lack_some);
        let has_names = match lost.is_nothing() {
            true => interest.names_in(scope) > 0,
            false => interest.subscriptions.iter().any(|(slot, subscription)| {
                let is_lost = |entry| lost.has(slot, self.sent.has(slot), entry, form.upstream);
                let entry = cache.get(subscription.entry);
                subscription.is_wanted_in(scope) && entry.is_some_and(|entry| !is_lost(entry))
            }),
        };
        match (wants_wildcard, has_names) {
            (true, false) if may_be_empty && is_legacy => OnWire::Legacy,
            (true, _) => OnWire::Named { wildcard: true },
            (false, false) if self.wire == OnWire::Legacy => OnWire::Named { wildcard: true },
            (false, false) if lost.is_legacy => OnWire::LeavingLegacy,
            (false, _) => OnWire::Named { wildcard: false },
        }
    }

    /// Notes the unsubscribes of the next list, because a response may cross it.
    fn note_let_go(&mut self, next: OnWire, wants_wildcard: bool, is_answer: bool) {
        let is_without = next == (OnWire::Named { wildcard: false });
        // For the server, `["*"]` is a wildcard, whatever its purpose.
        let is_leaving = self.wire == OnWire::LeavingLegacy;
        let ends_wildcard = is_without && (is_leaving || self.has_wildcard() && !wants_wildcard);
        let ends_legacy = self.wire == OnWire::Legacy && next != OnWire::Legacy;
        let Some(let_go) = &mut self.let_go else { return };
        if ends_wildcard {
            let_go.note_anything();
        }
        if ends_legacy && !is_answer {
            let_go.note_end_of_legacy();
        }
    }
}

const VERSION_INFO: u32 = 1;
const NODE: u32 = 2;
const RESOURCE_NAMES: u32 = 3;
const TYPE_URL: u32 = 4;
const RESPONSE_NONCE: u32 = 5;
const ERROR_DETAIL: u32 = 6;
