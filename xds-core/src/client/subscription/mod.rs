//! Subscriptions of one type: watches on one side, names to request from servers on the other.

pub(crate) mod authority;
pub(crate) mod does_not_exist_timers;
pub(crate) mod registered_type;
pub(crate) mod scope;

use alloc::vec::Vec;

use self::{authority::DEFAULT, does_not_exist_timers::TimerSubject};
use super::{
    cache::{entry::CacheEntry, glob_index::GlobIndex},
    event::error::WatchError,
};
use crate::{
    id::WatchId,
    slab::{Slab, Slot},
};

/// Subscriptions of one type.
#[derive(Debug, Default)]
pub(crate) struct TypeInterest {
    /// Subscribed names, and unsubscribed ones until servers have been told, in the order of their
    /// first subscription.
    pub(crate) subscriptions: Slab<Subscription>,
    /// Number of subscribed names by authority.
    subscribed: Vec<usize>,
    /// Wildcard watches.
    pub(crate) wildcards: Vec<WatchId>,
    /// State of the collection of all resources.
    pub(crate) collection: Collection,
    /// Token of the does-not-exist timer of the collection; zero if it is not running.
    pub(crate) collection_timer: u64,
    /// Token of the timer for resources sent earlier by another server; zero if it is not running.
    pub(crate) unconfirmed_timer: u64,
}

/// State of the collection of all resources of a type.
#[derive(Debug, Default)]
pub(crate) enum Collection {
    /// No response yet.
    #[default]
    Requested,
    /// A response has arrived, possibly empty.
    Received,
    /// No response arrived in time.
    // X22
    Missing {
        error: WatchError,
        /// Number of channels that had ended at the timeout, plus one.
        epoch: u64,
    },
}

/// Subscription to one name.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// Entry of the resource.
    pub(crate) entry: Slot,
    /// Position of the name's authority.
    pub(crate) authority: usize,
    /// First watch of a linked list.
    pub(crate) first_watch: Slot,
    pub(crate) state: SubscriptionState,
    /// Whether the name was an alias whose watches have moved to the resource.
    pub(crate) was_alias: bool,
    /// Number of channels on which the name is subscribed.
    pub(crate) channel_count: usize,
    /// Token of the does-not-exist timer; zero if it is not running.
    pub(crate) timer: u64,
}

/// Whether a subscribed name has watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubscriptionState {
    Subscribed,
    /// No watches, but some server has not been told yet. Until then, a new watch gets the resource
    /// without a request.
    // UN-05, B53
    Unsubscribing,
}

impl TypeInterest {
    pub(crate) fn is_wildcard_subscribed(&self) -> bool {
        !self.wildcards.is_empty()
    }

    /// Returns the number of subscribed names of the authorities in `scope`.
    pub(crate) fn names_in(&self, scope: &[bool]) -> usize {
        self.subscribed
            .iter()
            .zip(scope)
            .filter(|(_, serves)| **serves)
            .map(|(names, _)| names)
            .sum()
    }

    /// Returns whether a wildcard is subscribed on a server with this scope. A wildcard belongs to
    /// the authority of names without one.
    pub(crate) fn is_wildcard_subscribed_in(&self, scope: &[bool]) -> bool {
        self.is_wildcard_subscribed() && scope.get(DEFAULT) == Some(&true)
    }

    /// Returns the authority of a timer's subject: that of its name, or the default one.
    pub(crate) fn authority_of(&self, subject: TimerSubject, globs: &GlobIndex) -> usize {
        let subscription = match subject {
            TimerSubject::Subscription(key) => self.subscriptions.get(key),
            TimerSubject::UnconfirmedMembers(key) => {
                globs.get(key).and_then(|glob| self.subscriptions.at(glob.subscription))
            }
            TimerSubject::Collection | TimerSubject::Unconfirmed => None,
        };
        subscription.map_or(DEFAULT, |subscription| subscription.authority)
    }

    /// Returns whether anything is subscribed on a server with this scope.
    pub(crate) fn is_subscribed_in(&self, scope: &[bool]) -> bool {
        self.is_wildcard_subscribed_in(scope) || self.names_in(scope) > 0
    }

    /// Returns whether anything of the authority is subscribed.
    pub(crate) fn is_subscribed_by(&self, authority: usize) -> bool {
        let names = self.subscribed.get(authority).is_some_and(|names| *names > 0);
        names || (authority == DEFAULT && self.is_wildcard_subscribed())
    }

    /// Counts a new subscription to a name of the authority.
    pub(crate) fn note_subscribed(&mut self, authority: usize) {
        if self.subscribed.len() <= authority {
            self.subscribed.resize(authority + 1, 0);
        }
        if let Some(names) = self.subscribed.get_mut(authority) {
            *names += 1;
        }
    }

    /// Counts the end of a subscription to a name of the authority.
    pub(crate) fn note_unsubscribed(&mut self, authority: usize) {
        if let Some(names) = self.subscribed.get_mut(authority) {
            *names = names.saturating_sub(1);
        }
    }

    /// Returns the first watch of a glob.
    pub(crate) fn first_watch_of(&self, globs: &GlobIndex, glob: Slot) -> Slot {
        globs
            .at(glob)
            .and_then(|glob| self.subscriptions.at(glob.subscription))
            .map_or(Slot::NONE, |subscription| subscription.first_watch)
    }

    /// Returns whether the resource is watched, by name, wildcard or glob.
    pub(crate) fn covers(&self, entry: &CacheEntry, globs: &GlobIndex) -> bool {
        if entry.is_glob {
            return false;
        }
        let is_subscribed = |subscription| {
            self.subscriptions.at(subscription).is_some_and(Subscription::is_subscribed)
        };
        let by_collection = || match entry.has_authority {
            false => self.is_wildcard_subscribed(),
            true => globs
                .covering(entry.name.as_str())
                .any(|(_, glob)| is_subscribed(glob.subscription)),
        };
        is_subscribed(entry.subscription) || (!entry.is_tombstone() && by_collection())
    }
}

impl Subscription {
    /// Creates a subscription that no server has been told of.
    pub(crate) fn new(entry: Slot, authority: usize) -> Self {
        Self {
            entry,
            authority,
            first_watch: Slot::NONE,
            state: SubscriptionState::Subscribed,
            was_alias: false,
            channel_count: 0,
            timer: 0,
        }
    }

    pub(crate) fn is_subscribed(&self) -> bool {
        self.state == SubscriptionState::Subscribed
    }

    /// Returns whether the name has no watches and is not subscribed on any channel.
    pub(crate) fn is_ended(&self) -> bool {
        !self.is_subscribed() && self.channel_count == 0
    }

    /// Returns whether the name is subscribed on a server that serves the authorities in `scope`.
    pub(crate) fn is_subscribed_in(&self, scope: &[bool]) -> bool {
        self.is_subscribed() && scope.get(self.authority) == Some(&true)
    }
}
