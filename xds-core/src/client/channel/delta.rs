//! Incremental protocol of one type on one channel.
//!
//! A request contains the changes since the previous one, so this module keeps the subscriptions as
//! the server knows them. Only an ACK or NACK carries a nonce. The first request of a type on a
//! stream subscribes to everything needed and never unsubscribes. It alone states the versions of
//! the resources held from *this* server, so that only differences are sent again.
//!
//! State of the wildcard in requests:
//!
//! ```text
//!             +[]                +[*]
//!  Unsent ─────────▶ Legacy ──────────▶ Explicit
//!     │ +[names]        │ -[*]            │ -[*]   ▲ +[*]
//!     └─────────────────┴──────▶ No ◀─────┘        │
//!                                └─────────────────┘
//! ```
//!
//! A first request without names is a wildcard, so none is sent while nothing is subscribed. Later,
//! an empty subscription is a state like any other, from which names can be subscribed on demand.
// B01, B02, B05, B07, D20, D29, DX-17, DX-18, DX-21, DX-22, DX-41

use alloc::vec::Vec;

use super::{
    request::{RenderEffects, RequestForm, WildcardChange},
    sent_names::SentNames,
};
use crate::{
    client::{
        cache::{Cache, entry::CacheEntry},
        config::WildcardForm,
        subscription::TypeInterest,
    },
    slab::Slot,
    text::{Nonce, TypeUrl},
    wire::encode,
    zoo::{self, Bug},
};

/// State of one type on one channel.
#[derive(Debug)]
pub(crate) struct Delta {
    wire: DeltaWireState,
    /// Names subscribed on this channel.
    pub(crate) sent: SentNames,
}

/// Wildcard subscription as the server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeltaWireState {
    /// No request of the type was sent on this channel.
    Unsent,
    /// The first request contained no names, which is a wildcard.
    Legacy,
    /// `*` is subscribed.
    Explicit,
    /// No wildcard is subscribed.
    NoWildcard,
}

/// Fields of a request other than subscriptions.
pub(crate) struct DeltaRequestFields<'a> {
    /// Encoded node, if the request contains it.
    pub(crate) node: Option<&'a [u8]>,
    pub(crate) type_url: &'a TypeUrl,
    /// Nonce of the response that the request ACKs or NACKs.
    pub(crate) nonce: &'a Nonce,
    /// Code and message of `error_detail`, in a NACK only.
    pub(crate) error: Option<(i32, &'a str)>,
}

impl Delta {
    /// Creates the state of the type on a new channel.
    pub(crate) fn new(interest: &TypeInterest, scope: &[bool]) -> Self {
        Self {
            wire: DeltaWireState::Unsent,
            sent: SentNames::none(interest, scope).tracking_changes(),
        }
    }

    pub(crate) fn was_requested(&self) -> bool {
        self.wire != DeltaWireState::Unsent
    }

    pub(crate) fn has_wildcard(&self) -> bool {
        matches!(self.wire, DeltaWireState::Legacy | DeltaWireState::Explicit)
    }

    pub(crate) fn is_dirty(&self, interest: &TypeInterest, scope: &[bool]) -> bool {
        if zoo::is(Bug::NoUnsubscribeForLastWatch) && !interest.is_subscribed_in(scope) {
            return false;
        }
        match self.wire {
            DeltaWireState::Unsent => interest.is_subscribed_in(scope),
            DeltaWireState::Legacy | DeltaWireState::Explicit | DeltaWireState::NoWildcard => {
                self.sent.is_outdated()
                    || self.has_wildcard() != interest.is_wildcard_subscribed_in(scope)
            }
        }
    }

    /// Renders a request with the changes and marks them as sent. The first request states the
    /// versions of resources held from the server.
    pub(crate) fn render(
        &mut self,
        fields: &DeltaRequestFields<'_>,
        interest: &mut TypeInterest,
        cache: &Cache,
        form: RequestForm<'_>,
        out: &mut Vec<u8>,
    ) -> RenderEffects {
        let had_wildcard = self.has_wildcard();
        let is_first = !self.was_requested();
        if let Some(node) = fields.node {
            encode::block(out, NODE, node);
        }
        encode::string(out, TYPE_URL, fields.type_url.as_str());

        let mut rendered = RenderEffects::default();
        // A subscription to names ends the wildcard of an empty first request.
        let names_first = self.wire == DeltaWireState::Legacy && self.sent.is_outdated();
        let wants = interest.is_wildcard_subscribed_in(form.scope);
        let may_be_empty = interest.names_in(form.scope) == 0;
        let next = match (self.wire, wants) {
            (DeltaWireState::Unsent, true)
                if may_be_empty && form.wildcard == WildcardForm::LegacyEmpty =>
            {
                DeltaWireState::Legacy
            }
            (DeltaWireState::Legacy, true) if !names_first => DeltaWireState::Legacy,
            (_, true) => DeltaWireState::Explicit,
            (_, false) => DeltaWireState::NoWildcard,
        };
        if next == DeltaWireState::Explicit && self.wire != DeltaWireState::Explicit {
            encode::block(out, SUBSCRIBE, b"*");
        }
        let mut changed: Vec<Slot> = match is_first {
            true => interest.subscriptions.iter().map(|(slot, _)| slot).collect(),
            false => self.sent.take_changed(),
        };
        zoo::shuffle(Bug::HashOrder, &mut changed);
        for slot in changed {
            self.write_name_change(slot, interest, cache, form.scope, &mut rendered, out);
        }
        if next == DeltaWireState::NoWildcard && had_wildcard {
            encode::block(out, UNSUBSCRIBE, b"*");
        }
        self.wire = next;
        self.sent.note_complete();
        rendered.wildcard = WildcardChange::between(had_wildcard, self.has_wildcard());

        if is_first {
            rendered.states_versions = self.write_versions(interest, cache, form.upstream, out);
        }
        encode::string(out, RESPONSE_NONCE, fields.nonce.as_str());
        if let Some((code, message)) = fields.error {
            encode::block(out, ERROR_DETAIL, &encode::status(code, message));
        }
        rendered
    }

    /// Subscribes to or unsubscribes from a name, unless the server has the right state. In
    /// Protobuf, the elements of the two lists may be interleaved.
    fn write_name_change(
        &mut self,
        slot: Slot,
        interest: &mut TypeInterest,
        cache: &Cache,
        scope: &[bool],
        rendered: &mut RenderEffects,
        out: &mut Vec<u8>,
    ) {
        let Some(subscription) = interest.subscriptions.at_mut(slot) else { return };
        let Some(entry) = cache.get(subscription.entry) else { return };
        match (subscription.is_subscribed_in(scope), self.sent.has(slot)) {
            (true, false) if zoo::is(Bug::SubscriptionsNotResent) && entry.bytes.is_some() => {
                self.sent.insert(slot);
            }
            (true, false) => {
                encode::block(out, SUBSCRIBE, entry.name.as_str().as_bytes());
                self.sent.insert(slot);
                subscription.channel_count += 1;
                rendered.subscribed.push(slot);
            }
            (false, true) => {
                encode::block(out, UNSUBSCRIBE, entry.name.as_str().as_bytes());
                self.sent.remove(slot);
                subscription.channel_count = subscription.channel_count.saturating_sub(1);
                if subscription.is_ended() {
                    rendered.unsubscribed.push(slot);
                }
            }
            _ => {}
        }
    }

    /// Writes the versions of the resources held from this server. Returns whether there are any.
    fn write_versions(
        &self,
        interest: &TypeInterest,
        cache: &Cache,
        upstream: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        let before = out.len();
        for (_, entry) in cache.iter() {
            if entry.is_held_from(upstream) && self.is_requested(entry, interest, cache) {
                let failed = entry.failed().filter(|_| zoo::is(Bug::RejectedVersionOnReconnect));
                let version = failed.map_or_else(|| cache.version_of(entry), |it| &it.version);
                let version = version.as_str();
                if !version.is_empty() {
                    encode::pair(out, INITIAL_RESOURCE_VERSIONS, entry.name.as_str(), version);
                }
            }
        }
        out.len() > before
    }

    /// Returns whether the resource is subscribed on this channel, by name, wildcard or glob.
    fn is_requested(&self, entry: &CacheEntry, interest: &TypeInterest, cache: &Cache) -> bool {
        let subscription = interest.subscriptions.at(entry.subscription);
        let by_name = subscription.is_some() && self.sent.has(entry.subscription);
        let by_collection = || match entry.has_authority {
            false => self.has_wildcard(),
            true => cache
                .globs
                .covering(entry.name.as_str())
                .any(|(_, glob)| self.sent.has(glob.subscription)),
        };
        by_name || by_collection()
    }
}

const NODE: u32 = 1;
const TYPE_URL: u32 = 2;
const SUBSCRIBE: u32 = 3;
const UNSUBSCRIBE: u32 = 4;
const INITIAL_RESOURCE_VERSIONS: u32 = 5;
const RESPONSE_NONCE: u32 = 6;
const ERROR_DETAIL: u32 = 7;
