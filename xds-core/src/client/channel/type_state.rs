//! What was said of one type on one channel, in either variant of the protocol.
//!
//! The variants differ in what a request says and in how a response is read. All else, from commands
//! to notices, does not know which one a server speaks.

use super::{delta::Delta, sent_names::SentNames, sotw::Sotw};
use crate::{
    client::{
        config::ManagementServer,
        subscription::{TypeInterest, authority::DEFAULT},
    },
    service::Variant,
    text::Nonce,
};

/// One type on one channel.
#[derive(Debug)]
pub(crate) enum Machine {
    Sotw(Sotw),
    Delta(Delta),
}

impl Machine {
    /// The state of the type on a new channel to the server.
    pub(crate) fn new(server: &ManagementServer, interest: &TypeInterest, scope: &[bool]) -> Self {
        match server.variant {
            Variant::StateOfTheWorld => Self::Sotw(Sotw::new(interest, scope, &server.exchange)),
            Variant::Incremental => Self::Delta(Delta::new(interest, scope)),
        }
    }

    /// The names that the server has been told on this channel.
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

    /// Whether any request of the type was sent on this channel.
    pub(crate) fn was_requested(&self) -> bool {
        match self {
            Self::Sotw(sotw) => sotw.was_requested(),
            Self::Delta(delta) => delta.was_requested(),
        }
    }

    /// Whether the server believes that everything is wanted.
    pub(crate) fn has_wildcard(&self) -> bool {
        match self {
            Self::Sotw(sotw) => sotw.has_wildcard(),
            Self::Delta(delta) => delta.has_wildcard(),
        }
    }

    /// Whether every response on this channel is one to a request for everything, the last one included.
    pub(crate) fn began_with_wildcard(&self) -> bool {
        match self {
            Self::Sotw(sotw) => sotw.began_with_wildcard,
            // What is held of each resource has a version of its own.
            Self::Delta(_) => false,
        }
    }

    /// Whether the server believes that something is wanted that an authority is still asked for.
    pub(crate) fn knows_of(&self, interest: &TypeInterest, authority: usize) -> bool {
        let mut subscriptions = interest.subscriptions.iter();
        let knows_name = subscriptions.any(|(slot, subscription)| {
            subscription.authority == authority && subscription.is_wanted() && self.sent().has(slot)
        });
        knows_name || (authority == DEFAULT && self.has_wildcard() && interest.wants_wildcard())
    }

    /// Whether a request would say something that the server does not know (IC40).
    pub(crate) fn is_dirty(&self, interest: &TypeInterest, scope: &[bool]) -> bool {
        match self {
            Self::Sotw(sotw) => sotw.is_dirty(interest, scope),
            Self::Delta(delta) => delta.is_dirty(interest, scope),
        }
    }

    /// Whether something is wanted that the server has not been told.
    pub(crate) fn lacks(&self, interest: &TypeInterest, scope: &[bool]) -> bool {
        let lacks_wildcard = interest.wants_wildcard_in(scope) && !self.has_wildcard();
        lacks_wildcard || self.sent().has_unsent()
    }

    /// Takes the nonce of a response that has come.
    pub(crate) fn note_nonce(&mut self, nonce: &Nonce) {
        match self {
            Self::Sotw(sotw) => sotw.nonce = nonce.clone(),
            // Only the answer to a response carries its nonce (B05, D29).
            Self::Delta(_) => {}
        }
    }

    /// The nonce of a request that answers no response.
    pub(crate) fn spontaneous_nonce(&self) -> Nonce {
        match self {
            Self::Sotw(sotw) => sotw.nonce.clone(),
            Self::Delta(_) => Nonce::default(),
        }
    }
}
