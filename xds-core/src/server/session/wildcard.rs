//! Wildcard subscription of a session and the progress of sending it.

use crate::{
    server::{
        event::ResponseCause,
        store::{revision::Revision, version::content::TypeVersion},
    },
    slab::Slot,
};

/// Wildcard subscription of a session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wildcard {
    /// Position in the arena's list of wildcards.
    pub(crate) list_slot: Slot,
    /// Revision up to which the client has additions and changes (types that are sent as
    /// changes).
    pub(crate) cursor: Revision,
    /// Highest revision that the cursor has had.
    pub(crate) reached: Revision,
    /// Newest revision when the client was last sent removals, or when it subscribed (incremental
    /// variant).
    pub(crate) removals_to: Revision,
    /// Version that the client was last sent (types that are sent in full state).
    pub(crate) version: TypeVersion,
    /// Reason for sending all of the wildcard, other than a change.
    pub(crate) full_send: Option<FullSend>,
    /// Whether resources that the client has by name are left out until it has caught up.
    // M31
    pub(crate) catch_up: CatchUp,
}

/// Pending transmission of all resources that the wildcard covers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FullSend {
    pub(crate) cause: ResponseCause,
    /// Newest revision when it became pending. A later change is a reason of its own.
    pub(crate) at: Revision,
    pub(crate) must_reply: MustReply,
}

/// Whether the client is entitled to a response even if nothing is left to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MustReply {
    #[default]
    No,
    /// The client sent a request and must get a response, even an empty one.
    // M97, M100, M126
    Yes,
}

impl MustReply {
    /// Returns whether sending everything for this reason must produce a response.
    pub(crate) fn of(cause: ResponseCause) -> Self {
        match cause {
            ResponseCause::First | ResponseCause::Resubscribed => Self::Yes,
            _ => Self::No,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CatchUp {
    #[default]
    Everything,
    /// All resources except those that the client has according to its subscriptions.
    ExceptKnown,
}

impl Wildcard {
    /// Whether everything will be sent anyway, for a reason that is at least as strong.
    pub(crate) fn has_full_send_for(&self, cause: ResponseCause) -> bool {
        self.full_send.is_some_and(|full_send| full_send.cause <= cause)
            && self.cursor == Revision::START
            && self.catch_up == CatchUp::Everything
    }

    /// Returns whether a response is still required. The first part of everything answers the request, so
    /// nothing is left to answer if the rest is removed before it is sent.
    // IS5
    pub(crate) fn must_reply(&self) -> MustReply {
        match self.full_send {
            Some(full_send) if self.cursor == Revision::START => full_send.must_reply,
            _ => MustReply::No,
        }
    }
}
