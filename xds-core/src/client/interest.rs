//! Who wants what of one type: watches on one side, names to subscribe to on the other.

use alloc::vec::Vec;

use super::{cache::Entry, error::WatchError};
use crate::{
    id::{ChannelId, WatchId},
    slab::{Slab, Slot},
};

/// The interest in one type.
#[derive(Debug, Default)]
pub(crate) struct TypeInterest {
    /// The names that are wanted, or were until the server is told otherwise, in the order in which
    /// they were first asked for.
    pub(crate) subscriptions: Slab<Subscription>,
    /// How many of them nobody wants any more.
    pub(crate) leaving: usize,
    /// The watches of everything.
    pub(crate) wildcards: Vec<WatchId>,
    /// What is known of the collection as a whole.
    pub(crate) collection: Collection,
    /// Arms the does-not-exist timer of the collection; zero where none runs.
    pub(crate) collection_timer: u64,
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
    /// The first of its watches; the others are linked behind.
    pub(crate) first_watch: Slot,
    pub(crate) state: SubscriptionState,
    /// The channel on which the name was last sent.
    pub(crate) sent_on: Option<ChannelId>,
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

    /// How many names are wanted.
    pub(crate) fn names(&self) -> usize {
        self.subscriptions.len() - self.leaving
    }

    /// Whether anybody watches the entry, by name or by wildcard.
    pub(crate) fn covers(&self, entry: &Entry) -> bool {
        let is_named = self
            .subscriptions
            .at(entry.subscription)
            .is_some_and(|subscription| subscription.state == SubscriptionState::Wanted);
        is_named || (self.wants_wildcard() && !entry.is_tombstone())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.wildcards.is_empty() && self.names() == 0
    }
}
