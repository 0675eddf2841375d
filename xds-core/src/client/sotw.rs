//! The state-of-the-world protocol of one type on one channel.
//!
//! A SotW request is a function of what is wanted now: every one lists all names, carries the last
//! accepted version and the newest nonce, and so replaces whatever was said before (S0.095). This
//! file keeps what the *server* believes is subscribed and renders the request that brings it up to
//! date. It does not know whether the stream carries other types as well.
//!
//! The wildcard, on the wire (B01, X02):
//!
//! ```text
//!             []                  ["*", ..]
//!  Unsent ─────────▶ Legacy ─────────────────▶ Named { wildcard }
//!     │               │  ▲ an empty list here       │      ▲
//!     │   [names]     │  └ still means everything   ▼      │
//!     └───────────────┴───────────────────────▶ Named { no wildcard }
//! ```
//!
//! There is no way from `Legacy` to nothing in one request, so a wildcard that ends without names
//! goes through `["*"]`.

use alloc::vec::Vec;

use super::{
    cache::Cache,
    config::WildcardForm,
    interest::TypeInterest,
    machine::{Form, Rendered, WildcardStep},
    sent::SentNames,
};
use crate::{
    text::{Nonce, TypeUrl, Version},
    wire::encode,
    zoo::{self, Bug},
};

/// One type on one channel.
#[derive(Debug, Default)]
pub(crate) struct Sotw {
    /// The nonce of the newest response, which every request echoes (IC4).
    pub(crate) nonce: Nonce,
    wire: OnWire,
    /// Whether everything was subscribed by the first request, and has been since. A wildcard that comes
    /// later may cross a response to the names.
    pub(crate) began_with_wildcard: bool,
    /// The names that the server has been told on this channel.
    pub(crate) sent: SentNames,
}

/// What the server takes the subscription of the type to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OnWire {
    /// No request of the type was sent on this channel.
    #[default]
    Unsent,
    /// Only empty lists were sent: everything.
    Legacy,
    /// A name was sent once: from now on the list means what it says.
    Named { wildcard: bool },
}

/// What a request says beside the subscription.
pub(crate) struct Envelope<'a> {
    /// The encoded node, in the first message of a stream only.
    pub(crate) node: Option<&'a [u8]>,
    pub(crate) type_url: &'a TypeUrl,
    pub(crate) version: &'a Version,
    pub(crate) nonce: &'a Nonce,
    /// Code and message of `error_detail`, in a NACK only.
    pub(crate) error: Option<(i32, &'a str)>,
}

impl Sotw {
    /// The state of the type on a new channel.
    pub(crate) fn new(interest: &TypeInterest, scope: &[bool]) -> Self {
        Self { sent: SentNames::none(interest, scope), ..Self::default() }
    }

    /// Whether any request of the type was sent on this channel.
    pub(crate) fn was_requested(&self) -> bool {
        self.wire != OnWire::Unsent
    }

    /// Whether a request would say something that the server does not know (IC40).
    pub(crate) fn is_dirty(&self, interest: &TypeInterest, scope: &[bool]) -> bool {
        if zoo::is(Bug::NoUnsubscribeForLastWatch) && !interest.is_wanted_in(scope) {
            return false;
        }
        match self.wire {
            // An empty first list would subscribe to everything: a type that nobody wants is
            // skipped on a new stream (WC-05).
            OnWire::Unsent => interest.is_wanted_in(scope),
            OnWire::Legacy | OnWire::Named { .. } => {
                self.sent.is_outdated() || self.has_wildcard() != interest.wants_wildcard_in(scope)
            }
        }
    }

    pub(crate) fn has_wildcard(&self) -> bool {
        matches!(self.wire, OnWire::Legacy | OnWire::Named { wildcard: true })
    }

    /// Writes the request that states what is wanted now, and takes it for sent.
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
        self.wire = self.next_on_wire(interest, form.wildcard, scope);
        self.began_with_wildcard = self.has_wildcard() && (is_first || self.began_with_wildcard);
        let wildcard = WildcardStep::between(had_wildcard, self.has_wildcard());
        let states_held = !envelope.version.as_str().is_empty();
        let mut rendered = Rendered { wildcard, states_held, ..Rendered::default() };

        encode::string(out, VERSION_INFO, envelope.version.as_str());
        if let Some(node) = envelope.node {
            encode::block(out, NODE, node);
        }
        if self.wire == (OnWire::Named { wildcard: true }) {
            encode::string(out, RESOURCE_NAMES, "*");
        }
        let mut slot = interest.subscriptions.first();
        while let Some(subscription) = interest.subscriptions.at_mut(slot) {
            if !subscription.is_wanted_in(scope) {
                if self.sent.has(slot) {
                    self.sent.remove(slot);
                    subscription.told = subscription.told.saturating_sub(1);
                    if subscription.is_over() {
                        rendered.unsubscribed.push(slot);
                    }
                }
            } else if let Some(entry) = cache.get(subscription.entry) {
                encode::string(out, RESOURCE_NAMES, entry.name.as_str());
                if !self.sent.has(slot) {
                    self.sent.insert(slot);
                    subscription.told += 1;
                    rendered.subscribed.push(slot);
                }
            }
            slot = interest.subscriptions.next(slot);
        }
        encode::string(out, TYPE_URL, envelope.type_url.as_str());
        encode::string(out, RESPONSE_NONCE, envelope.nonce.as_str());
        if let Some((code, message)) = envelope.error {
            encode::block(out, ERROR_DETAIL, &encode::status(code, message));
        }
        self.sent.note_complete();
        rendered
    }

    fn next_on_wire(&self, interest: &TypeInterest, form: WildcardForm, scope: &[bool]) -> OnWire {
        let has_names = interest.names_in(scope) > 0;
        let may_be_empty = matches!(self.wire, OnWire::Unsent | OnWire::Legacy)
            || zoo::is(Bug::EmptyListAfterNames);
        match (interest.wants_wildcard_in(scope), has_names) {
            (true, false) if may_be_empty && form == WildcardForm::LegacyEmpty => OnWire::Legacy,
            (true, _) => OnWire::Named { wildcard: true },
            (false, false) if self.wire == OnWire::Legacy => OnWire::Named { wildcard: true },
            (false, _) => OnWire::Named { wildcard: false },
        }
    }
}

const VERSION_INFO: u32 = 1;
const NODE: u32 = 2;
const RESOURCE_NAMES: u32 = 3;
const TYPE_URL: u32 = 4;
const RESPONSE_NONCE: u32 = 5;
const ERROR_DETAIL: u32 = 6;
