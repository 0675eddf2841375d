//! Resources that are asked for by another name (X06, S0.187-S0.191, DX-40).
//!
//! A server may answer a subscription to one name with a resource of another name, which says that the
//! first is an alias of it: a virtual host may be asked for by the domain of a request. From then on the
//! watches of the alias are watches of the resource. The next request says so: it subscribes to the
//! resource and gives up the alias, and so do all that come after it.

use alloc::vec::Vec;

use super::Judge;
use crate::{
    client::{
        cache::Cache,
        resource::name::Naming,
        subscription::{Subscription, SubscriptionState, TypeInterest},
        watch::{News, Target},
    },
    id::WatchId,
    slab::Slot,
    text::ResourceName,
    wire::resource::Aliases,
};

/// Watches went from one subscription to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) authority: usize,
    /// The subscription that nobody wants any more.
    pub(crate) from: Slot,
    /// The other one, if nobody wanted it before.
    pub(crate) to: Option<Slot>,
}

/// The subscriptions by which a resource is asked for under one of its aliases. They are of the same
/// authority: nobody may answer for another one.
pub(crate) fn asked_for_by<'a>(
    naming: Naming<'a>,
    cache: &'a Cache,
    interest: &'a TypeInterest,
    name: &str,
    aliases: Aliases<'a>,
) -> impl Iterator<Item = Slot> + use<'a> {
    let own = naming.read(name).map(|read| (read.name.into_owned(), authority_of(&read.authority)));
    aliases.iter().filter_map(move |alias| {
        let (name, authority) = own.as_ref().ok()?;
        let read = naming.read(alias).ok()?;
        if read.name == *name || authority_of(&read.authority) != *authority {
            return None;
        }
        let subscription = cache.get(cache.find(&read.name)?)?.subscription;
        interest.subscriptions.at(subscription)?.is_wanted().then_some(subscription)
    })
}

fn authority_of(authority: &Option<alloc::borrow::Cow<'_, str>>) -> Option<alloc::string::String> {
    authority.as_deref().map(Into::into)
}

impl Judge<'_> {
    /// Whoever asks this server for an alias of the resource asks for the resource from now on. That is
    /// so even if the resource turns out to be bad: it is this one whose error they should hear of.
    pub(crate) fn resolve_aliases(&mut self, name: &str, aliases: Aliases<'_>) {
        if aliases == Aliases::default() {
            return;
        }
        let asked = asked_for_by(self.naming(), self.cache, self.interest, name, aliases);
        let asked: Vec<Slot> = asked.filter(|&slot| self.asked.sent.has(slot)).collect();
        for from in asked {
            // An alias that is listed twice has been given up by now.
            if self.interest.subscriptions.at(from).is_some_and(Subscription::is_wanted) {
                self.move_watches(from, name);
            }
        }
    }

    fn move_watches(&mut self, from: Slot, name: &str) -> Option<()> {
        let subscription = self.interest.subscriptions.at(from)?;
        let (alias, authority) = (subscription.entry, subscription.authority);
        let is_foreign = self.cache.get(alias)?.is_foreign;
        let name = self.naming().kept(name).into_owned();
        let entry = match self.cache.find(&name) {
            Some(entry) => entry,
            None => self.cache.create(ResourceName::from(name))?,
        };
        self.cache.get_mut(entry)?.is_foreign = is_foreign;
        let (to, is_new) = self.want(entry, authority)?;

        let mut ids: Vec<WatchId> =
            self.watches.of_name(self.interest.subscriptions.at(from)?.first_watch);
        ids.reverse();
        for id in ids {
            let subscription = self.interest.subscriptions.at_mut(to)?;
            let target = Target::of_name(to);
            self.watches.get_mut(id)?.target = target;
            self.watches.link(id, subscription.first_watch);
            subscription.first_watch = id.0.slot();
            // What is known of the resource is news to them.
            self.watches.tell(id, News::Changed, self.outbox, self.debts);
        }

        let left = self.interest.subscriptions.at_mut(from)?;
        left.first_watch = Slot::NONE;
        left.state = SubscriptionState::Leaving;
        left.timer = 0;
        left.was_alias = true;
        self.interest.note_unwanted(authority);
        self.moved.push(Moved { authority, from, to: is_new.then_some(to) });
        Some(())
    }

    /// The subscription to the entry's name, and whether nobody wanted it before.
    fn want(&mut self, entry: Slot, authority: usize) -> Option<(Slot, bool)> {
        let existing = self.cache.get(entry)?.subscription;
        let slot = match self.interest.subscriptions.at_mut(existing) {
            Some(subscription) if subscription.is_wanted() => return Some((existing, false)),
            Some(subscription) => {
                subscription.state = SubscriptionState::Wanted;
                subscription.was_alias = false;
                existing
            }
            None => {
                let subscription = Subscription::new(entry, authority);
                let slot = self.interest.subscriptions.push_back(subscription)?.slot();
                self.cache.get_mut(entry)?.subscription = slot;
                slot
            }
        };
        self.interest.note_wanted(authority);
        Some((slot, true))
    }
}
