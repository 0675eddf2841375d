//! State-of-the-world protocol of one type on one channel.
//!
//! A request is a function of the current subscriptions: it lists all names, except those
//! [left to the next request](InFlightUnsubscribes), with the last accepted version and the newest nonce, and
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
//! response repeats the list of names; [`InFlightUnsubscribes`] handles what this cannot repair.
// B01, S0.095, X02

use alloc::vec::Vec;

use super::{
    crossed_unsubscribes::{CrossedUnsubscribes, InFlightUnsubscribes},
    request::{RenderEffects, RequestForm, WildcardChange},
    sent_names::SentNames,
};
use crate::{
    client::{
        cache::Cache,
        config::{TransportKind, WildcardForm},
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
    wire: SotwWireState,
    /// Whether the first request subscribed to a wildcard that has not ended since. A wildcard
    /// subscribed later may cross a response to a request for names.
    pub(crate) began_with_wildcard: bool,
    /// Names subscribed on this channel.
    pub(crate) sent: SentNames,
    /// Unsubscribes in requests that may have been ignored; `None` if responses cannot cross
    /// requests.
    in_flight: Option<InFlightUnsubscribes>,
}

/// Subscription as the server knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SotwWireState {
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
pub(crate) struct SotwRequestFields<'a> {
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
    pub(crate) fn new(
        interest: &TypeInterest,
        scope: &[bool],
        transport_kind: &TransportKind,
    ) -> Self {
        let in_flight =
            (*transport_kind == TransportKind::Stream).then(InFlightUnsubscribes::default);
        Self { sent: SentNames::none(interest, scope), in_flight, ..Self::default() }
    }

    /// Returns whether any request of the type was sent on this channel.
    pub(crate) fn was_requested(&self) -> bool {
        self.wire != SotwWireState::Unsent
    }

    /// Returns whether the server does not know the current subscriptions.
    // IC40
    pub(crate) fn is_dirty(&self, interest: &TypeInterest, scope: &[bool]) -> bool {
        if zoo::is(Bug::NoUnsubscribeForLastWatch) && !interest.is_subscribed_in(scope) {
            return false;
        }
        match self.wire {
            // WC-05: an empty first list would be a wildcard, so a type without subscriptions is
            // not requested on a new stream.
            SotwWireState::Unsent => interest.is_subscribed_in(scope),
            SotwWireState::LeavingLegacy => true,
            SotwWireState::Legacy | SotwWireState::Named { .. } => {
                self.sent.is_outdated()
                    || self.has_wildcard() != interest.is_wildcard_subscribed_in(scope)
            }
        }
    }

    pub(crate) fn has_wildcard(&self) -> bool {
        matches!(self.wire, SotwWireState::Legacy | SotwWireState::Named { wildcard: true })
    }

    /// Renders a request for the current subscriptions and marks them as sent.
    pub(crate) fn render(
        &mut self,
        fields: &SotwRequestFields<'_>,
        interest: &mut TypeInterest,
        cache: &Cache,
        form: RequestForm<'_>,
        out: &mut Vec<u8>,
    ) -> RenderEffects {
        let had_wildcard = self.has_wildcard();
        let scope = form.scope;
        let is_first = !self.was_requested();
        let is_ack = self.is_ack(fields.nonce);
        let crossed = self.take_crossed(fields.nonce, is_ack);
        let wire = self.next_wire_state(interest, cache, form, &crossed);
        self.note_unsubscribes(wire, interest.is_wildcard_subscribed_in(scope), is_ack);
        self.wire = wire;
        self.began_with_wildcard = self.has_wildcard() && (is_first || self.began_with_wildcard);
        let wildcard = match WildcardChange::between(had_wildcard, self.has_wildcard()) {
            WildcardChange::Unsubscribed if interest.is_wildcard_subscribed_in(scope) => {
                WildcardChange::LeftOut
            }
            step => step,
        };
        let states_versions = !fields.version.as_str().is_empty();
        let mut rendered = RenderEffects { wildcard, states_versions, ..RenderEffects::default() };

        encode::string(out, VERSION_INFO, fields.version.as_str());
        if let Some(node) = fields.node {
            encode::block(out, NODE, node);
        }
        if matches!(
            self.wire,
            SotwWireState::Named { wildcard: true } | SotwWireState::LeavingLegacy
        ) {
            encode::string(out, RESOURCE_NAMES, "*");
        }
        let mut slot = interest.subscriptions.first();
        while let Some(subscription) = interest.subscriptions.at_mut(slot) {
            if !subscription.is_subscribed_in(scope) {
                if self.sent.has(slot) {
                    self.mark_unsent(slot, subscription);
                    if subscription.is_ended() {
                        rendered.unsubscribed.push(slot);
                    }
                    if let Some(entry) = cache.get(subscription.entry)
                        && (entry.has_authority || !self.has_wildcard())
                        && let Some(in_flight) = &mut self.in_flight
                    {
                        in_flight.note_unsubscribe(slot, entry);
                    }
                }
            } else if let Some(entry) = cache.get(subscription.entry) {
                let is_sent = self.sent.has(slot);
                if crossed.has(slot, is_sent, entry, form.upstream) {
                    if is_sent {
                        self.mark_unsent(slot, subscription);
                    }
                    rendered.left_out.push(slot);
                } else {
                    encode::string(out, RESOURCE_NAMES, entry.name.as_str());
                    if !is_sent {
                        self.mark_sent(slot, subscription);
                        rendered.subscribed.push(slot);
                    }
                }
            }
            slot = interest.subscriptions.next(slot);
        }
        encode::string(out, TYPE_URL, fields.type_url.as_str());
        encode::string(out, RESPONSE_NONCE, fields.nonce.as_str());
        if let Some((code, message)) = fields.error {
            encode::block(out, ERROR_DETAIL, &encode::status(code, message));
        }
        self.sent.note_complete_but(rendered.left_out.len());
        if let Some(in_flight) = self.in_flight.as_mut()
            && self.wire == SotwWireState::LeavingLegacy
        {
            in_flight.put_back(crossed);
        }
        rendered
    }

    fn mark_sent(&mut self, slot: Slot, subscription: &mut Subscription) {
        self.sent.insert(slot);
        subscription.channel_count += 1;
        if let Some(in_flight) = &mut self.in_flight {
            in_flight.note_subscribe(slot);
        }
    }

    fn mark_unsent(&mut self, slot: Slot, subscription: &mut Subscription) {
        self.sent.remove(slot);
        subscription.channel_count = subscription.channel_count.saturating_sub(1);
    }

    /// Returns whether a request is the ACK or NACK of the newest response, the first with its
    /// nonce.
    fn is_ack(&self, nonce: &Nonce) -> bool {
        let is_first = self.in_flight.as_ref().is_some_and(|in_flight| in_flight.is_ack(nonce));
        is_first && *nonce == self.nonce
    }

    fn take_crossed(&mut self, nonce: &Nonce, is_ack: bool) -> CrossedUnsubscribes {
        match &mut self.in_flight {
            Some(in_flight) if is_ack || self.wire == SotwWireState::LeavingLegacy => {
                in_flight.take(nonce)
            }
            _ => CrossedUnsubscribes::default(),
        }
    }

    fn next_wire_state(
        &self,
        interest: &TypeInterest,
        cache: &Cache,
        form: RequestForm<'_>,
        crossed: &CrossedUnsubscribes,
    ) -> SotwWireState {
        let scope = form.scope;
        let may_be_empty = matches!(self.wire, SotwWireState::Unsent | SotwWireState::Legacy)
            || zoo::is(Bug::EmptyListAfterNames);
        let is_legacy = form.wildcard == WildcardForm::LegacyEmpty;
        // A complete response to a wildcard request contains everything.
        let may_lack_some = !self.has_wildcard() || !form.is_complete;
        let is_wildcard_subscribed = interest.is_wildcard_subscribed_in(scope)
            && self.wire != SotwWireState::LeavingLegacy
            && (!crossed.is_covered_by_wildcard(cache, form.upstream) || !may_lack_some);
        let has_names = match crossed.is_empty() {
            true => interest.names_in(scope) > 0,
            false => interest.subscriptions.iter().any(|(slot, subscription)| {
                let is_crossed =
                    |entry| crossed.has(slot, self.sent.has(slot), entry, form.upstream);
                let entry = cache.get(subscription.entry);
                subscription.is_subscribed_in(scope)
                    && entry.is_some_and(|entry| !is_crossed(entry))
            }),
        };
        match (is_wildcard_subscribed, has_names) {
            (true, false) if may_be_empty && is_legacy => SotwWireState::Legacy,
            (true, _) => SotwWireState::Named { wildcard: true },
            (false, false) if self.wire == SotwWireState::Legacy => {
                SotwWireState::Named { wildcard: true }
            }
            (false, false) if crossed.is_legacy => SotwWireState::LeavingLegacy,
            (false, _) => SotwWireState::Named { wildcard: false },
        }
    }

    /// Notes the unsubscribes of the next list, because a response may cross it.
    fn note_unsubscribes(
        &mut self,
        next: SotwWireState,
        is_wildcard_subscribed: bool,
        is_ack: bool,
    ) {
        let is_without = next == (SotwWireState::Named { wildcard: false });
        // For the server, `["*"]` is a wildcard, whatever its purpose.
        let is_leaving = self.wire == SotwWireState::LeavingLegacy;
        let ends_wildcard =
            is_without && (is_leaving || self.has_wildcard() && !is_wildcard_subscribed);
        let ends_legacy = self.wire == SotwWireState::Legacy && next != SotwWireState::Legacy;
        let Some(in_flight) = &mut self.in_flight else { return };
        if ends_wildcard {
            in_flight.note_any_name();
        }
        if ends_legacy && !is_ack {
            in_flight.note_legacy_wildcard_ended();
        }
    }
}

const VERSION_INFO: u32 = 1;
const NODE: u32 = 2;
const RESOURCE_NAMES: u32 = 3;
const TYPE_URL: u32 = 4;
const RESPONSE_NONCE: u32 = 5;
const ERROR_DETAIL: u32 = 6;
