//! Who wants what of one type: watches on one side, names to subscribe to on the other.

pub(crate) mod authority;
pub(crate) mod does_not_exist_timers;
pub(crate) mod registered_type;
pub(crate) mod scope;

use alloc::vec::Vec;

use self::{authority::DEFAULT, does_not_exist_timers::Subject};
use super::{
    cache::{entry::Entry, glob_members::Globs},
    event::error::WatchError,
};
use crate::{
    id::WatchId,
    slab::{Slab, Slot},
};

/// The interest in one type.
#[derive(Debug, Default)]
pub(crate) struct TypeInterest {
    /// The names that are wanted, or were until the server is told otherwise, in the order in which
    /// they were first asked for.
    pub(crate) subscriptions: Slab<Subscription>,
    /// By authority: how many of its names are wanted.
    wanted: Vec<usize>,
    /// The watches of everything.
    pub(crate) wildcards: Vec<WatchId>,
    /// What is known of the collection as a whole.
    pub(crate) collection: Collection,
    /// Arms the does-not-exist timer of the collection; zero where none runs.
    pub(crate) collection_timer: u64,
    /// Arms the timer of what another server sent before; zero where none runs.
    pub(crate) leftover_timer: u64,
}

/// What is known of a collection as a whole.
#[derive(Debug, Default)]
pub(crate) enum Collection {
    /// No response has come yet.
    #[default]
    Requested,
    /// A response has come, though it may have been empty.
    Received,
    /// None came in time (X22).
    Missing {
        error: WatchError,
        /// When that was concluded: one more than the number of channels that had ended by then.
        epoch: u64,
    },
}

/// The interest in one name.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// Where the resource is.
    pub(crate) entry: Slot,
    /// The position of the authority that the name belongs to.
    pub(crate) authority: usize,
    /// The first of its watches; the others are linked behind.
    pub(crate) first_watch: Slot,
    pub(crate) state: SubscriptionState,
    /// Whether the name turned out to be an alias, and its watches went on to the resource.
    pub(crate) was_alias: bool,
    /// How many channels the name was sent on.
    pub(crate) told: usize,
    /// Arms the does-not-exist timer; zero where none runs.
    pub(crate) timer: u64,
}

/// Whether anybody watches a subscribed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubscriptionState {
    Wanted,
    /// Nobody does, but the server has not been told: until it is, a new watch gets the resource
    /// back without asking (UN-05, B53).
    Leaving,
}

impl TypeInterest {
    pub(crate) fn wants_wildcard(&self) -> bool {
        !self.wildcards.is_empty()
    }

    /// How many names are wanted of a server that serves the authorities in `scope`.
    pub(crate) fn names_in(&self, scope: &[bool]) -> usize {
        self.wanted.iter().zip(scope).filter(|(_, serves)| **serves).map(|(names, _)| names).sum()
    }

    /// Whether everything is wanted of a server with this scope: a wildcard asks the authority of
    /// names that state none.
    pub(crate) fn wants_wildcard_in(&self, scope: &[bool]) -> bool {
        self.wants_wildcard() && scope.get(DEFAULT) == Some(&true)
    }

    /// The authority whose servers are asked for what a timer is for: that of its name, or of names that
    /// state none.
    pub(crate) fn authority_of(&self, subject: Subject, globs: &Globs) -> usize {
        let subscription = match subject {
            Subject::Subscription(key) => self.subscriptions.get(key),
            Subject::GlobLeftovers(key) => {
                globs.get(key).and_then(|glob| self.subscriptions.at(glob.subscription))
            }
            Subject::Collection | Subject::Leftovers => None,
        };
        subscription.map_or(DEFAULT, |subscription| subscription.authority)
    }

    /// Whether anything is wanted of a server with this scope.
    pub(crate) fn is_wanted_in(&self, scope: &[bool]) -> bool {
        self.wants_wildcard_in(scope) || self.names_in(scope) > 0
    }

    /// Whether anything is wanted of an authority.
    pub(crate) fn is_wanted_by(&self, authority: usize) -> bool {
        let names = self.wanted.get(authority).is_some_and(|names| *names > 0);
        names || (authority == DEFAULT && self.wants_wildcard())
    }

    /// A name of the authority is wanted that was not.
    pub(crate) fn note_wanted(&mut self, authority: usize) {
        if self.wanted.len() <= authority {
            self.wanted.resize(authority + 1, 0);
        }
        if let Some(names) = self.wanted.get_mut(authority) {
            *names += 1;
        }
    }

    /// A name of the authority is not wanted any more.
    pub(crate) fn note_unwanted(&mut self, authority: usize) {
        if let Some(names) = self.wanted.get_mut(authority) {
            *names = names.saturating_sub(1);
        }
    }

    /// The first watch of a glob.
    pub(crate) fn first_watch_of(&self, globs: &Globs, glob: Slot) -> Slot {
        globs
            .at(glob)
            .and_then(|glob| self.subscriptions.at(glob.subscription))
            .map_or(Slot::NONE, |subscription| subscription.first_watch)
    }

    /// Whether anybody watches the resource, by name, by wildcard or by a glob.
    pub(crate) fn covers(&self, entry: &Entry, globs: &Globs) -> bool {
        if entry.is_glob {
            return false;
        }
        let is_wanted =
            |subscription| self.subscriptions.at(subscription).is_some_and(Subscription::is_wanted);
        let by_collection = || match entry.is_foreign {
            false => self.wants_wildcard(),
            true => {
                globs.covering(entry.name.as_str()).any(|(_, glob)| is_wanted(glob.subscription))
            }
        };
        is_wanted(entry.subscription) || (!entry.is_tombstone() && by_collection())
    }
}

impl Subscription {
    /// A name that is wanted, and that no server has been told of.
    pub(crate) fn new(entry: Slot, authority: usize) -> Self {
        Self {
            entry,
            authority,
            first_watch: Slot::NONE,
            state: SubscriptionState::Wanted,
            was_alias: false,
            told: 0,
            timer: 0,
        }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.state == SubscriptionState::Wanted
    }

    /// Whether nobody wants the name and no server believes that somebody does.
    pub(crate) fn is_over(&self) -> bool {
        !self.is_wanted() && self.told == 0
    }

    /// Whether the name is wanted of a server that serves the authorities in `scope`.
    pub(crate) fn is_wanted_in(&self, scope: &[bool]) -> bool {
        self.is_wanted() && scope.get(self.authority) == Some(&true)
    }
}
