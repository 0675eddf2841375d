//! Last transmission of a resource to a client by its name.

use core::num::NonZeroU64;

/// Last transmission of a resource to a client by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The client was sent nothing, or only that the resource does not exist.
    Nothing,
    /// The client had the resource before the first response of the session on its view.
    Before,
    /// The client was sent the resource.
    Sent {
        /// Nonce of the newest response with the resource for its own sake.
        last: NonZeroU64,
        /// Nonce of the first response with the resource, or with its rejected removal. `None` if the
        /// client may have had the resource from elsewhere.
        first: Option<NonZeroU64>,
    },
    /// The client was sent the removal of the resource in the response with this nonce.
    Removed(NonZeroU64),
}

impl Delivery {
    /// Whether the client has some version of the resource.
    pub(crate) fn has_version(self) -> bool {
        matches!(self, Self::Before | Self::Sent { .. })
    }

    /// Returns the nonce of the newest response with the resource.
    pub(crate) fn last(self) -> Option<NonZeroU64> {
        match self {
            Self::Sent { last, .. } => Some(last),
            Self::Nothing | Self::Before | Self::Removed(_) => None,
        }
    }

    /// Returns the nonce of the response with the removal, unless the resource was sent since.
    pub(crate) fn removal(self) -> Option<NonZeroU64> {
        match self {
            Self::Removed(nonce) => Some(nonce),
            Self::Nothing | Self::Before | Self::Sent { .. } => None,
        }
    }

    /// Returns the state of a client that has the resource from the response with this nonce, or from
    /// an earlier one.
    pub(crate) fn held_in(self, last: NonZeroU64) -> Self {
        let first = match self {
            Self::Nothing | Self::Before => None,
            Self::Sent { first, .. } => first,
            Self::Removed(nonce) => Some(nonce),
        };
        Self::Sent { last, first }
    }

    /// Returns the state after a response with the resource. `accepted` is the nonce of the last
    /// response that the client accepted, or `None` if it may have the resource from elsewhere.
    pub(crate) fn after_resource(self, nonce: NonZeroU64, accepted: Option<u64>) -> Self {
        let may_have_it = match self {
            Self::Before | Self::Sent { .. } => return self.held_in(nonce),
            // If the client rejected the removal, it may still have the resource.
            Self::Removed(removal) => accepted.is_none_or(|accepted| removal.get() > accepted),
            Self::Nothing => accepted.is_none(),
        };
        Self::Sent { last: nonce, first: (!may_have_it).then_some(nonce) }
    }

    /// Returns the state after a response that states that the resource does not exist.
    pub(crate) fn after_absence(self, nonce: NonZeroU64) -> Self {
        if self.has_version() { Self::Removed(nonce) } else { self }
    }
}
