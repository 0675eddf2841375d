//! Aliases: other names by which a resource was subscribed.
//!
//! A server may answer a subscription with a resource of another name, which makes the subscribed
//! name an alias of it; for example, a virtual host can be requested by a domain. The watches of
//! the alias then become watches of the resource. The next request subscribes to the resource and
//! unsubscribes from the alias.
// X06, S0.187-S0.191, DX-40

use alloc::vec::Vec;

use super::ResponseProcessor;
use crate::{
    client::{
        cache::Cache,
        resource::name::Naming,
        subscription::{Subscription, SubscriptionState, TypeInterest},
        watch::{NoticeKind, WatchTarget},
    },
    id::WatchId,
    slab::Slot,
    text::ResourceName,
    wire::resource::RawAliases,
};

/// Move of watches from one subscription to another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MovedWatches {
    pub(crate) authority: usize,
    /// Subscription of the alias, which has no watches any more.
    pub(crate) from: Slot,
    /// Subscription of the resource, if it is new.
    pub(crate) to: Option<Slot>,
}

/// Returns the subscriptions by which a resource is requested under one of its aliases. An alias
/// must have the same authority, because a server must not answer for another one.
pub(crate) fn aliased_subscriptions<'a>(
    naming: Naming<'a>,
    cache: &'a Cache,
    interest: &'a TypeInterest,
    name: &str,
    aliases: RawAliases<'a>,
) -> impl Iterator<Item = Slot> + use<'a> {
    let own =
        naming.parse(name).map(|read| (read.name.into_owned(), authority_of(&read.authority)));
    aliases.iter().filter_map(move |alias| {
        let (name, authority) = own.as_ref().ok()?;
        let read = naming.parse(alias).ok()?;
        if read.name == *name || authority_of(&read.authority) != *authority {
            return None;
        }
        let subscription = cache.get(cache.find(&read.name)?)?.subscription;
        interest.subscriptions.at(subscription)?.is_subscribed().then_some(subscription)
    })
}

fn authority_of(authority: &Option<alloc::borrow::Cow<'_, str>>) -> Option<alloc::string::String> {
    authority.as_deref().map(Into::into)
}

impl ResponseProcessor<'_> {
    /// Moves watches of aliases subscribed on this server to the resource. This also happens if the
    /// resource is invalid, so that the watchers get its error.
    pub(crate) fn resolve_aliases(&mut self, name: &str, aliases: RawAliases<'_>) {
        if aliases == RawAliases::default() {
            return;
        }
        let requested =
            aliased_subscriptions(self.naming(), self.cache, self.interest, name, aliases);
        let requested: Vec<Slot> =
            requested.filter(|&slot| self.requested.sent.has(slot)).collect();
        for from in requested {
            // An alias that is listed twice was handled before.
            if self.interest.subscriptions.at(from).is_some_and(Subscription::is_subscribed) {
                self.move_watches(from, name);
            }
        }
    }

    fn move_watches(&mut self, from: Slot, name: &str) -> Option<()> {
        let subscription = self.interest.subscriptions.at(from)?;
        let (alias, authority) = (subscription.entry, subscription.authority);
        let has_authority = self.cache.get(alias)?.has_authority;
        let name = self.naming().canonical(name).into_owned();
        let entry = match self.cache.find(&name) {
            Some(entry) => entry,
            None => self.cache.create(ResourceName::from(name))?,
        };
        self.cache.get_mut(entry)?.has_authority = has_authority;
        let (to, is_new) = self.subscribe(entry, authority)?;

        let mut ids: Vec<WatchId> =
            self.watches.of_name(self.interest.subscriptions.at(from)?.first_watch);
        ids.reverse();
        for id in ids {
            let subscription = self.interest.subscriptions.at_mut(to)?;
            let target = WatchTarget::of_name(to);
            self.watches.get_mut(id)?.target = target;
            self.watches.link(id, subscription.first_watch);
            subscription.first_watch = id.0.slot();
            // The state of the resource is new to the watchers.
            self.watches.notify(id, NoticeKind::Changed, self.outbox, self.unhandled);
        }

        let left = self.interest.subscriptions.at_mut(from)?;
        left.first_watch = Slot::NONE;
        left.state = SubscriptionState::Unsubscribing;
        left.timer = 0;
        left.was_alias = true;
        self.interest.note_unsubscribed(authority);
        self.moved.push(MovedWatches { authority, from, to: is_new.then_some(to) });
        Some(())
    }

    /// Returns the subscription to the entry's name, and whether it is new.
    fn subscribe(&mut self, entry: Slot, authority: usize) -> Option<(Slot, bool)> {
        let existing = self.cache.get(entry)?.subscription;
        let slot = match self.interest.subscriptions.at_mut(existing) {
            Some(subscription) if subscription.is_subscribed() => return Some((existing, false)),
            Some(subscription) => {
                subscription.state = SubscriptionState::Subscribed;
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
        self.interest.note_subscribed(authority);
        Some((slot, true))
    }
}
