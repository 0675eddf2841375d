//! Wildcard subscription of a session and the progress of sending it.

use crate::{
    server::{
        event::Cause,
        store::{revision::Stamp, version::content::TypeVersion},
    },
    slab::Slot,
};

/// Wildcard subscription of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wildcard {
    /// Position in the arena's list of wildcards.
    pub(crate) seat: Slot,
    /// Revision up to which the client has additions and changes (types that are sent as
    /// changes).
    pub(crate) cursor: Stamp,
    /// Highest revision that the cursor has had.
    pub(crate) reached: Stamp,
    /// Newest revision when the client was last sent removals, or when it subscribed (incremental
    /// variant).
    pub(crate) told: Stamp,
    /// Cursor when rejected resources were last re-sent together with a change. They are re-sent
    /// once.
    // M107
    pub(crate) rode: Stamp,
    /// Version that the client was last sent (types that are sent in full state).
    pub(crate) version: TypeVersion,
    /// Reason for sending all of the wildcard, other than a change.
    pub(crate) owed: Option<Owed>,
    /// Whether resources that the client has by name are left out until it has caught up.
    // M31
    pub(crate) catch_up: CatchUp,
    pub(crate) leftovers: Leftovers,
}

/// Pending transmission of all resources that the wildcard covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    pub(crate) cause: Cause,
    /// Newest revision when it became pending. A later change is a reason of its own.
    pub(crate) at: Stamp,
    pub(crate) claim: Claim,
}

/// Whether the client is entitled to a response even if nothing is left to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    #[default]
    Nothing,
    /// The client sent a request and must get a response, even an empty one.
    // M97, M100, M126
    Answer,
}

impl Claim {
    /// Returns the claim that results from sending everything for this reason.
    pub(crate) fn of(cause: Cause) -> Self {
        match cause {
            Cause::First | Cause::Resubscribed => Self::Answer,
            _ => Self::Nothing,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CatchUp {
    #[default]
    Everything,
    /// All resources except those that the client has according to its subscriptions.
    TheRest,
}

/// Whether there may be subscriptions that the next list ends if it does not name them. Those
/// that stay because of the wildcard do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leftovers {
    None,
    Possible,
}

impl Wildcard {
    /// Whether everything will be sent anyway, for a reason that is at least as strong.
    pub(crate) fn owes_all(&self, cause: Cause) -> bool {
        self.owed.is_some_and(|owed| owed.cause <= cause)
            && self.cursor == Stamp::START
            && self.catch_up == CatchUp::Everything
    }

    /// Returns the claim that is still open. The first part of everything answers the request, so
    /// nothing is left to answer if the rest is removed before it is sent.
    // IS5
    pub(crate) fn claim(&self) -> Claim {
        match self.owed {
            Some(owed) if self.cursor == Stamp::START => owed.claim,
            _ => Claim::Nothing,
        }
    }
}
