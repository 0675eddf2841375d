//! What a session is to be sent of what it has edges to: now, or once it may be told.

use crate::{
    server::{
        event::Cause,
        session::wildcard::Claim,
        store::{revision::Stamp, subscriber_list::List},
    },
    slab::Slot,
};

/// Why the client is to be sent a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) cause: Cause,
    pub(crate) ride: Ride,
    /// Whether the client has asked, and is answered whatever becomes of the resource.
    pub(crate) claim: Claim,
    pub(crate) release: Release,
}

/// Whether what is due may be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    Released,
    Withheld,
}

/// Whether it is due for itself; of several reasons, the greatest counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ride {
    /// Unchanged since the client rejected it: it goes along with another one's change (M107).
    Along,
    OwnReason,
    /// The client has dropped the name and waits to be told where it stands, since a glob or an alias stands for it
    /// (M139).
    Dropped,
}

impl Due {
    pub(crate) fn because(cause: Cause) -> Self {
        let claim = Claim::of(cause);
        Self { cause, ride: Ride::OwnReason, claim, release: Release::Released }
    }

    /// The same, but as something that goes along.
    pub(crate) fn along(self) -> Self {
        Self { ride: Ride::Along, ..self }
    }
}

/// The edges of a session that are due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DueList {
    /// For the next response.
    pub(crate) released: List,
    /// Gone, and not to be told yet (M147).
    withheld: List,
    /// When the newest resource for the next response changed, or one of the positions below, which are after all
    /// others.
    newest: Stamp,
}

impl Default for DueList {
    fn default() -> Self {
        let (released, withheld) = (List::default(), List::default());
        Self { released, withheld, newest: Stamp::START }
    }
}

impl DueList {
    /// It is to be looked up.
    const UNKNOWN: Stamp = Stamp::MAX;
    /// The same, of what there was no room for in the last response.
    const LEFT_OVER: Stamp = Self::UNKNOWN.before();
    /// The same; it waits for something else, since that response was rejected.
    const WAITING: Stamp = Self::LEFT_OVER.before();

    /// Whether there is nothing for the next response.
    pub(crate) fn is_empty(self) -> bool {
        self.released.is_empty()
    }

    pub(crate) fn first(self) -> Slot {
        self.released.first()
    }

    /// Whether there is something that does not wait for something else.
    pub(crate) fn is_ready(self) -> bool {
        !self.released.is_empty() && self.newest != Self::WAITING
    }

    /// The rest of a response is all there is now.
    pub(crate) fn leave_over(&mut self) {
        if !self.released.is_empty() {
            self.newest = Self::LEFT_OVER;
        }
    }

    /// The response was rejected of which the rest is left.
    pub(crate) fn let_the_rest_wait(&mut self) {
        if self.newest == Self::LEFT_OVER {
            self.newest = Self::WAITING;
        }
    }

    /// When the newest resource for the next response changed, if that is known.
    pub(crate) fn newest(self) -> Option<Stamp> {
        Some(self.newest).filter(|&newest| newest < Self::WAITING)
    }

    /// That was found out.
    pub(crate) fn note_newest(&mut self, newest: Stamp) {
        if self.newest == Self::UNKNOWN {
            self.newest = newest;
        }
    }

    /// Something became due for the next response, or is not any more.
    pub(crate) fn note_altered(&mut self) {
        self.newest = if self.released.is_empty() { Stamp::START } else { Self::UNKNOWN };
    }

    /// What is not to be told yet.
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
