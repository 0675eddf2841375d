//! List of a session's subscriptions whose resources are due, released or withheld.

use crate::{
    server::{
        event::ResponseCause,
        session::wildcard::MustReply,
        store::{revision::Revision, subscription_list::SubscriptionList},
    },
    slab::Slot,
};

/// Reason for sending a resource to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) cause: ResponseCause,
    pub(crate) kind: DueKind,
    /// Whether the client requested it and gets an answer whatever happens to the resource.
    pub(crate) must_reply: MustReply,
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
pub(crate) enum DueKind {
    /// Unchanged since the client rejected it; re-sent together with a change of another
    /// resource.
    // M107
    Piggyback,
    OwnReason,
    /// The client unsubscribed from the name, but a glob or an alias still covers it. It waits
    /// for the resource or its removal.
    // M139
    Unsubscribed,
}

impl Due {
    pub(crate) fn because(cause: ResponseCause) -> Self {
        let must_reply = MustReply::of(cause);
        Self { cause, kind: DueKind::OwnReason, must_reply, release: Release::Released }
    }

    /// Returns this reason as one for re-sending together with another change.
    pub(crate) fn piggybacked(self) -> Self {
        Self { kind: DueKind::Piggyback, ..self }
    }

    /// Whether the removal is withheld from a client that requested it.
    pub(crate) fn is_requested_removal(self) -> bool {
        self.release == Release::Withheld && self.must_reply == MustReply::Yes
    }

    /// Whether both have the same place in the list.
    pub(crate) fn has_position_of(self, other: Self) -> bool {
        (self.release, self.is_requested_removal()) == (other.release, other.is_requested_removal())
    }

    /// Whether the client waits for the resource or its removal, because a request concerned it.
    pub(crate) fn answers_request(self) -> bool {
        self.must_reply != MustReply::No || self.kind == DueKind::Unsubscribed
    }
}

/// Subscriptions of a session that are due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DueList {
    /// Due in the next response.
    pub(crate) released: SubscriptionList,
    /// Removed resources whose removal must not be sent yet: first those that the client requested,
    /// then the others in the order of their removal.
    // M147
    withheld: SubscriptionList,
    newest: NewestDue,
}

/// Revision at which the newest resource of the next response changed.
#[derive(Clone, Copy, Debug)]
enum NewestDue {
    Known(Revision),
    /// The revision has to be looked up.
    Unknown,
    /// Everything is the leftover of a size-limited response.
    Leftover,
}

impl Default for DueList {
    fn default() -> Self {
        let (released, withheld) = (SubscriptionList::default(), SubscriptionList::default());
        Self { released, withheld, newest: NewestDue::Known(Revision::START) }
    }
}

impl DueList {
    /// Whether nothing is due in the next response.
    pub(crate) fn is_empty(self) -> bool {
        self.released.is_empty()
    }

    pub(crate) fn first(self) -> Slot {
        self.released.first()
    }

    /// Marks everything that is due as the leftover of a response.
    pub(crate) fn mark_leftover(&mut self) {
        if !self.released.is_empty() {
            self.newest = NewestDue::Leftover;
        }
    }

    /// Whether everything that is due is the leftover of a response.
    pub(crate) fn is_leftover(self) -> bool {
        matches!(self.newest, NewestDue::Leftover)
    }

    /// Returns the revision at which the newest resource of the next response changed, if known.
    pub(crate) fn newest(self) -> Option<Revision> {
        match self.newest {
            NewestDue::Known(newest) => Some(newest),
            NewestDue::Unknown | NewestDue::Leftover => None,
        }
    }

    /// Stores the newest revision after it was looked up.
    pub(crate) fn note_newest(&mut self, newest: Revision) {
        if matches!(self.newest, NewestDue::Unknown) {
            self.newest = NewestDue::Known(newest);
        }
    }

    /// Updates the list after a subscription became due or is no longer due.
    pub(crate) fn note_changed(&mut self) {
        self.newest = match self.released.is_empty() {
            true => NewestDue::Known(Revision::START),
            false => NewestDue::Unknown,
        };
    }

    /// Returns the subscriptions whose removal must not be sent yet.
    pub(crate) fn withheld(self) -> SubscriptionList {
        self.withheld
    }

    pub(crate) fn list(&mut self, release: Release) -> &mut SubscriptionList {
        match release {
            Release::Released => &mut self.released,
            Release::Withheld => &mut self.withheld,
        }
    }
}
