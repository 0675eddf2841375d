//! State of one type on one channel, for both variants of the protocol.
//!
//! The variants differ in how requests are rendered and responses are processed. All other code is
//! independent of the variant.

use super::{delta::Delta, sent_names::SentNames, sotw::Sotw};
use crate::{
    client::{
        config::ServerAddress,
        subscription::{TypeInterest, authority::DEFAULT},
    },
    service::Variant,
    text::Nonce,
};

/// State of one type on one channel.
#[derive(Debug)]
pub(crate) enum TypeState {
    Sotw(Sotw),
    Delta(Delta),
}

impl TypeState {
    /// Creates the state of the type on a new channel to the server.
    pub(crate) fn new(server: &ServerAddress, interest: &TypeInterest, scope: &[bool]) -> Self {
        match server.variant {
            Variant::StateOfTheWorld => {
                Self::Sotw(Sotw::new(interest, scope, &server.transport_kind))
            }
            Variant::Incremental => Self::Delta(Delta::new(interest, scope)),
        }
    }

    /// Returns the names subscribed on this channel.
    pub(crate) fn sent(&self) -> &SentNames {
        match self {
            Self::Sotw(sotw) => &sotw.sent,
            Self::Delta(delta) => &delta.sent,
        }
    }

    pub(crate) fn sent_mut(&mut self) -> &mut SentNames {
        match self {
            Self::Sotw(sotw) => &mut sotw.sent,
            Self::Delta(delta) => &mut delta.sent,
        }
    }

    /// Returns whether any request of the type was sent on this channel.
    pub(crate) fn was_requested(&self) -> bool {
        match self {
            Self::Sotw(sotw) => sotw.was_requested(),
            Self::Delta(delta) => delta.was_requested(),
        }
    }

    /// Returns whether the server considers a wildcard subscribed.
    pub(crate) fn has_wildcard(&self) -> bool {
        match self {
            Self::Sotw(sotw) => sotw.has_wildcard(),
            Self::Delta(delta) => delta.has_wildcard(),
        }
    }

    /// Returns whether every response on this channel, including the last one, is one to a wildcard
    /// request.
    pub(crate) fn began_with_wildcard(&self) -> bool {
        match self {
            Self::Sotw(sotw) => sotw.began_with_wildcard,
            // In the incremental variant, each resource has its own version.
            Self::Delta(_) => false,
        }
    }

    /// Returns whether the server knows a current subscription of the authority.
    pub(crate) fn knows_of(&self, interest: &TypeInterest, authority: usize) -> bool {
        let mut subscriptions = interest.subscriptions.iter();
        let knows_name = subscriptions.any(|(slot, subscription)| {
            subscription.authority == authority
                && subscription.is_subscribed()
                && self.sent().has(slot)
        });
        knows_name
            || (authority == DEFAULT && self.has_wildcard() && interest.is_wildcard_subscribed())
    }

    /// Returns whether the server does not know the current subscriptions.
    // IC40
    pub(crate) fn is_dirty(&self, interest: &TypeInterest, scope: &[bool]) -> bool {
        match self {
            Self::Sotw(sotw) => sotw.is_dirty(interest, scope),
            Self::Delta(delta) => delta.is_dirty(interest, scope),
        }
    }

    /// Returns whether the server lacks a current subscription.
    pub(crate) fn has_unsent(&self, interest: &TypeInterest, scope: &[bool]) -> bool {
        let lacks_wildcard = interest.is_wildcard_subscribed_in(scope) && !self.has_wildcard();
        lacks_wildcard || self.sent().has_unsent()
    }

    /// Stores the nonce of a response.
    pub(crate) fn note_nonce(&mut self, nonce: &Nonce) {
        match self {
            Self::Sotw(sotw) => sotw.nonce = nonce.clone(),
            // B05, D29: only the ACK or NACK of a response carries its nonce.
            Self::Delta(_) => {}
        }
    }

    /// Returns the nonce of a request that is not an ACK or NACK.
    pub(crate) fn spontaneous_nonce(&self) -> Nonce {
        match self {
            Self::Sotw(sotw) => sotw.nonce.clone(),
            Self::Delta(_) => Nonce::default(),
        }
    }
}
