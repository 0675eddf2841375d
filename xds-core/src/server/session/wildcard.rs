//! A subscription to everything: how far the client has been sent it, and told what is gone of it.

use crate::{
    server::{
        event::Cause,
        store::{revision::Stamp, version::content::TypeVersion},
    },
    slab::Slot,
};

/// A subscription to everything.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wildcard {
    /// Where it is in the arena's list of them.
    pub(crate) seat: Slot,
    /// The client has what was set up to here (types that are sent as changes).
    pub(crate) cursor: Stamp,
    /// The furthest that the cursor has been.
    pub(crate) reached: Stamp,
    /// The newest change when the client was last told what is gone, or when it subscribed (incremental
    /// variant).
    pub(crate) told: Stamp,
    /// What had changed up to here when rejected resources last rode along: they do so once (M107).
    pub(crate) rode: Stamp,
    /// What the client was last sent (types that are sent in full state).
    pub(crate) version: TypeVersion,
    /// Why the client is behind, if not for a change.
    pub(crate) owed: Option<Owed>,
    /// Whether what the client has by name is left out until it has caught up (M31).
    pub(crate) catch_up: CatchUp,
    pub(crate) leftovers: Leftovers,
}

/// The client is to be sent all of the wildcard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owed {
    pub(crate) cause: Cause,
    /// The newest change at that time; a later one is a reason of its own.
    pub(crate) at: Stamp,
    pub(crate) claim: Claim,
}

/// What the client may expect, whatever becomes of what there is to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claim {
    #[default]
    Nothing,
    /// An answer, be it empty: it has asked (M97, M100, M126).
    Answer,
}

impl Claim {
    /// What comes of sending everything for this reason.
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
    /// All but what edges say the client has.
    TheRest,
}

/// Whether there may be edges beside those that the wildcard makes stay, which the next list ends if it does not
/// have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leftovers {
    None,
    Possible,
}

impl Wildcard {
    /// Whether all there is will be sent anyhow, for no weaker a reason.
    pub(crate) fn owes_all(&self, cause: Cause) -> bool {
        self.owed.is_some_and(|owed| owed.cause <= cause)
            && self.cursor == Stamp::START
            && self.catch_up == CatchUp::Everything
    }

    /// What the client may still expect. A part of everything is an answer: if the rest goes before it is sent, there is
    /// nothing left to answer (IS5).
    pub(crate) fn claim(&self) -> Claim {
        match self.owed {
            Some(owed) if self.cursor == Stamp::START => owed.claim,
            _ => Claim::Nothing,
        }
    }
}
