//! Names that the watches of a client require from a server.

use std::collections::{BTreeSet, HashSet};

use foldhash::fast::FixedState;

use crate::world::{
    World, is_alias, meaning_of,
    message::{Names, Text},
    subscription::{ALL, SubscriptionState},
};

/// Subscriptions that a client's watches require at a server.
#[derive(Debug, PartialEq)]
pub(super) struct WatchedNames<'a> {
    /// Names in order.
    pub(super) names: Vec<&'a Text>,
    pub(super) all: bool,
}

impl<'a> WatchedNames<'a> {
    pub(super) fn of(client: usize, server: usize, kind: usize, world: &'a World) -> Self {
        let watched = world.watched(client, kind);
        let names = watched.names().filter(|name| world.serves(server, name));
        Self {
            names: names.collect(),
            // A wildcard covers only names without an authority.
            all: server < 2 && watched.has_all(),
        }
    }

    /// Whether exactly the wanted names are subscribed. A client that knows an alias may subscribe
    /// to either name, or to neither if the wildcard is subscribed.
    pub(super) fn is(&self, subscription: &SubscriptionState) -> bool {
        let mut names = subscription.subscribed.iter().filter(|name| *name != ALL);
        if names.clone().eq(self.names.iter().copied()) {
            return true;
        }
        let means = |own: &str, name: &str| meaning_of(own) == meaning_of(name);
        let is_known = |name: &str| is_alias(name) && subscription.covers(&meaning_of(name));
        names.all(|name| {
            self.names.iter().any(|own| *own == name || is_alias(own) && means(own, name))
        }) && self.names.iter().all(|own| subscription.subscribed.contains(*own) || is_known(own))
    }

    /// Whether a list has these names, except names unsubscribed by a request that a response
    /// `crossed`. Incremental changes are checked by their result.
    pub(super) fn states(&self, names: &Names, crossed: &BTreeSet<Text>) -> bool {
        let Names::Whole(list) = names else { return true };
        let listed: HashSet<&Text, FixedState> = list.iter().filter(|name| *name != ALL).collect();
        let may_miss = |name: &str| crossed.contains(name) || crossed.contains("*");
        listed.iter().all(|name| self.contains(name))
            && self.names.iter().all(|name| listed.contains(name) || may_miss(name))
    }

    /// Whether the name itself is watched.
    pub(super) fn contains(&self, name: &Text) -> bool {
        self.names.binary_search(&name).is_ok()
    }
}
