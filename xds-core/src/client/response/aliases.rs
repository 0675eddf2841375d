//! Aliases: other names by which a resource was subscribed.
//!
//! A server may answer a subscription with a resource of another name, which makes the subscribed
//! name an alias of it; for example, a virtual host can be requested by a domain. The watches of
//! the alias then become watches of the resource. The next request subscribes to the resource and
//! unsubscribes from the alias.
// X06, S0.187-S0.191, DX-40

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

/// Move of watches from one subscription to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) authority: usize,
    /// Subscription of the alias, which has no watches any more.
    pub(crate) from: Slot,
    /// Subscription of the resource, if it is new.
    pub(crate) to: Option<Slot>,
}

/// Returns the subscriptions by which a resource is requested under one of its aliases. An alias
/// must have the same authority, because a server must not answer for another one.
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
    /// Moves watches of aliases subscribed on this server to the resource. This also happens if the
    /// resource is invalid, so that the watchers get its error.
    pub(crate) fn resolve_aliases(&mut self, name: &str, aliases: Aliases<'_>) {
        if aliases == Aliases::default() {
            return;
        }
        let asked = asked_for_by(self.naming(), self.cache, self.interest, name, aliases);
        let asked: Vec<Slot> = asked.filter(|&slot| self.asked.sent.has(slot)).collect();
        for from in asked {
            // An alias that is listed twice was handled before.
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
            // The state of the resource is new to the watchers.
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

    /// Returns the subscription to the entry's name, and whether it is new.
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
