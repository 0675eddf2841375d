//! List of a session's subscriptions whose resources are due, released or withheld.

use crate::{
    server::{
        event::Cause,
        session::wildcard::Claim,
        store::{revision::Stamp, subscriber_list::List},
    },
    slab::Slot,
};

/// Reason for sending a resource to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) cause: Cause,
    pub(crate) ride: Ride,
    /// Whether the client requested it and gets an answer whatever happens to the resource.
    pub(crate) claim: Claim,
    pub(crate) release: Release,
}

/// Whether a due resource may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    Released,
    Withheld,
}

/// Whether a subscription is due for its own sake. If there are several reasons, the greatest
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ride {
    /// Unchanged since the client rejected it; re-sent together with a change of another
    /// resource.
    // M107
    Along,
    OwnReason,
    /// The client unsubscribed from the name, but a glob or an alias still covers it. It waits
    /// for the resource or its removal.
    // M139
    Dropped,
}

impl Due {
    pub(crate) fn because(cause: Cause) -> Self {
        let claim = Claim::of(cause);
        Self { cause, ride: Ride::OwnReason, claim, release: Release::Released }
    }

    /// Returns this reason as one for re-sending together with another change.
    pub(crate) fn along(self) -> Self {
        Self { ride: Ride::Along, ..self }
    }
}

/// Subscriptions of a session that are due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DueList {
    /// Due in the next response.
    pub(crate) released: List,
    /// Removed resources whose removal must not be sent yet.
    // M147
    withheld: List,
    /// Revision at which the newest resource of the next response changed, or one of the special
    /// values `UNKNOWN`, `LEFT_OVER` and `WAITING`, which are greater than all revisions.
    newest: Stamp,
}

impl Default for DueList {
    fn default() -> Self {
        let (released, withheld) = (List::default(), List::default());
        Self { released, withheld, newest: Stamp::START }
    }
}

impl DueList {
    /// Value of `newest` that has to be looked up.
    const UNKNOWN: Stamp = Stamp::MAX;
    /// Value of `newest` for the leftover of a size-limited response.
    const LEFT_OVER: Stamp = Self::UNKNOWN.before();
    /// Value of `newest` for the leftover of a response that was rejected; it waits for another
    /// reason.
    const WAITING: Stamp = Self::LEFT_OVER.before();

    /// Whether nothing is due in the next response.
    pub(crate) fn is_empty(self) -> bool {
        self.released.is_empty()
    }

    pub(crate) fn first(self) -> Slot {
        self.released.first()
    }

    /// Whether something is due that does not wait for another reason.
    pub(crate) fn is_ready(self) -> bool {
        !self.released.is_empty() && self.newest != Self::WAITING
    }

    /// Marks everything that is due as the leftover of a response.
    pub(crate) fn leave_over(&mut self) {
        if !self.released.is_empty() {
            self.newest = Self::LEFT_OVER;
        }
    }

    /// Makes the leftover wait, after the response that it was left over from was rejected.
    pub(crate) fn let_the_rest_wait(&mut self) {
        if self.newest == Self::LEFT_OVER {
            self.newest = Self::WAITING;
        }
    }

    /// Returns the revision at which the newest resource of the next response changed, if known.
    pub(crate) fn newest(self) -> Option<Stamp> {
        Some(self.newest).filter(|&newest| newest < Self::WAITING)
    }

    /// Stores the newest revision after it was looked up.
    pub(crate) fn note_newest(&mut self, newest: Stamp) {
        if self.newest == Self::UNKNOWN {
            self.newest = newest;
        }
    }

    /// Updates the list after a subscription became due or is no longer due.
    pub(crate) fn note_altered(&mut self) {
        self.newest = if self.released.is_empty() { Stamp::START } else { Self::UNKNOWN };
    }

    /// Returns the subscriptions whose removal must not be sent yet.
    pub(crate) fn withheld(self) -> List {
        self.withheld
    }

    pub(crate) fn list(&mut self, release: Release) -> &mut List {
        match release {
            Release::Released => &mut self.released,
            Release::Withheld => &mut self.withheld,
        }
    }
}
