//! Beginning and ending watches.

use super::{
    Client,
    cursor::Cursor,
    error::InvalidWatch,
    interest::{Collection, Subscription, SubscriptionState},
    status::EntryState,
    upstream::Link,
    watches::{News, Target},
};
use crate::{
    id::WatchId,
    slab::Slot,
    text::{ResourceName, TypeUrl},
    time::Time,
};

/// What a watch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Interest<'a> {
    /// One resource.
    Name(&'a str),
    /// Every resource that the server has for this node (S0.104, B01).
    Wildcard,
}

impl Client {
    pub(super) fn start_watch(
        &mut self,
        type_url: &TypeUrl,
        interest: Interest<'_>,
        now: Time,
    ) -> Result<WatchId, InvalidWatch> {
        if self.is_shut_down {
            return Err(InvalidWatch::ShutDown);
        }
        let type_index = self
            .config
            .position_of(type_url.as_str())
            .ok_or_else(|| InvalidWatch::UnknownType(type_url.clone()))?;
        let watch = match interest {
            Interest::Name(name) => {
                self.check_name(name)?;
                self.watch_name(type_index, name)
            }
            Interest::Wildcard => self.watch_everything(type_index),
        }
        .ok_or(InvalidWatch::TooMany)?;
        self.connect_if_wanted(now);
        self.announce();
        Ok(watch)
    }

    fn check_name(&self, name: &str) -> Result<(), InvalidWatch> {
        let (bytes, limit) = (name.len(), self.config.limits.name_bytes);
        if name.is_empty() || name == "*" {
            Err(InvalidWatch::InvalidName(ResourceName::from(name)))
        } else if bytes > limit {
            Err(InvalidWatch::NameTooLong { bytes, limit })
        } else {
            Ok(())
        }
    }

    fn watch_name(&mut self, type_index: usize, name: &str) -> Option<WatchId> {
        let known = self.types.get_mut(type_index)?;
        let entry = match known.cache.find(name) {
            Some(entry) => entry,
            None => known.cache.create(ResourceName::from(name))?,
        };
        let subscription = self.subscribe(type_index, entry)?;
        let target = Target::Name { subscription, previous: Slot::NONE, next: Slot::NONE };
        let watch = self.watches.add(type_index, target)?;
        let slot = self.types.get_mut(type_index)?.interest.subscriptions.at_mut(subscription)?;
        self.watches.link(watch, slot.first_watch);
        slot.first_watch = watch.0.slot();
        self.tell_what_is_known(watch, type_index, entry);
        Some(watch)
    }

    /// The subscription to an entry's name, made or taken up again where there is none.
    fn subscribe(&mut self, type_index: usize, entry: Slot) -> Option<Slot> {
        let known = self.types.get_mut(type_index)?;
        let existing = known.cache.get(entry)?.subscription;
        if let Some(subscription) = known.interest.subscriptions.at_mut(existing) {
            if subscription.state == SubscriptionState::Leaving {
                subscription.state = SubscriptionState::Wanted;
                known.interest.leaving -= 1;
            }
            return Some(existing);
        }
        let subscription = Subscription {
            entry,
            first_watch: Slot::NONE,
            state: SubscriptionState::Wanted,
            sent_on: None,
            timer: 0,
        };
        let slot = known.interest.subscriptions.push_back(subscription)?.slot();
        known.cache.get_mut(entry)?.subscription = slot;
        if let Some((_, channel)) = self.upstream.current_mut()
            && let Some(sotw) = channel.sotw.get_mut(type_index)
        {
            sotw.unsent += 1;
        }
        Some(slot)
    }

    /// A new watch gets the value, then what is wrong beside it, as older ones did (IC14).
    fn tell_what_is_known(&mut self, watch: WatchId, type_index: usize, entry: Slot) {
        let Some(entry) = self.types.get(type_index).and_then(|known| known.cache.get(entry))
        else {
            return;
        };
        let is_known = entry.bytes.is_some() || entry.error().is_some();
        if is_known || self.reported_error().is_some() {
            self.watches.tell(watch, News::Changed, &mut self.outbox, &mut None);
        }
    }

    fn watch_everything(&mut self, type_index: usize) -> Option<WatchId> {
        let known = self.types.get_mut(type_index)?;
        let marker = known.cache.add_cursor()?;
        let cursor = Cursor { marker, ..Cursor::default() };
        let watch = self.watches.add(type_index, Target::Wildcard(cursor))?;
        known.interest.wildcards.push(watch);
        let is_concluded = !matches!(known.interest.collection, Collection::Requested);
        let has_changes = known.cache.sequence() > 0;
        if is_concluded || self.reported_error().is_some() {
            self.watches.tell(watch, News::Changed, &mut self.outbox, &mut None);
        } else if has_changes {
            self.watches.tell(watch, News::Behind, &mut self.outbox, &mut None);
        }
        Some(watch)
    }

    pub(super) fn end_watch(&mut self, watch: WatchId, now: Time) {
        self.forgive(watch, now);
        let Some(ended) = self.watches.remove(watch) else { return };
        if ended.is_queued() {
            let watches = &self.watches;
            self.outbox.note_dead(|id| watches.get(id).is_some());
        }
        match ended.target {
            Target::Name { subscription, previous, next } => {
                if let Some(first) = self.watches.unlink(previous, next) {
                    self.set_first_watch(ended.type_index, subscription, first);
                }
            }
            Target::Wildcard(cursor) => {
                if let Some(known) = self.types.get_mut(ended.type_index) {
                    known.interest.wildcards.retain(|&other| other != watch);
                    known.cache.remove_cursor(cursor.marker);
                }
                self.sweep(ended.type_index);
                self.forget_wildcard_if_unsent(ended.type_index);
            }
        }
        self.note_idleness(now);
        self.announce();
    }

    fn set_first_watch(&mut self, type_index: usize, slot: Slot, first: Slot) {
        let Some(known) = self.types.get_mut(type_index) else { return };
        let Some(subscription) = known.interest.subscriptions.at_mut(slot) else { return };
        subscription.first_watch = first;
        if !first.is_none() {
            return;
        }
        let current = self.upstream.current_mut();
        let was_sent = current.as_ref().is_some_and(|(id, _)| subscription.sent_on == Some(*id));
        if was_sent {
            // The entry stays until the server is told (B53).
            subscription.state = SubscriptionState::Leaving;
            known.interest.leaving += 1;
            return;
        }
        if let Some((_, channel)) = current
            && let Some(sotw) = channel.sotw.get_mut(type_index)
        {
            sotw.unsent = sotw.unsent.saturating_sub(1);
        }
        self.drop_subscription(type_index, slot);
    }

    /// Removes a subscription that the server does not know of, or has been told is over. What is
    /// known of its resource goes with it unless a wildcard covers it (IC15, CA-09).
    pub(super) fn drop_subscription(&mut self, type_index: usize, slot: Slot) {
        let Some(known) = self.types.get_mut(type_index) else { return };
        let Some(subscription) = known.interest.subscriptions.remove(slot) else { return };
        if subscription.state == SubscriptionState::Leaving {
            known.interest.leaving -= 1;
        }
        let covered = known.interest.wants_wildcard();
        let Some(entry) = known.cache.get_mut(subscription.entry) else { return };
        entry.subscription = Slot::NONE;
        if covered && (entry.bytes.is_some() || entry.state == EntryState::Nacked) {
            return;
        }
        if covered && entry.changed > 0 {
            // Wildcard watches may have yet to hear of its deletion.
            entry.state = EntryState::DoesNotExist;
            known.cache.bury(subscription.entry);
        } else {
            known.cache.remove(subscription.entry);
        }
    }

    /// Without a channel nobody has to be told that the wildcard is over.
    fn forget_wildcard_if_unsent(&mut self, type_index: usize) {
        let is_on_wire = self
            .upstream
            .current()
            .and_then(|(_, channel)| channel.sotw.get(type_index))
            .is_some_and(super::sotw::Sotw::has_wildcard);
        if !is_on_wire {
            self.drop_uncovered(type_index);
        }
    }

    /// Forgets what only a wildcard covered, once there is none (WC-06).
    pub(super) fn drop_uncovered(&mut self, type_index: usize) {
        let Some(known) = self.types.get_mut(type_index) else { return };
        if known.interest.wants_wildcard() {
            return;
        }
        known.interest.collection = Collection::Requested;
        known.interest.collection_timer = 0;
        let uncovered: alloc::vec::Vec<Slot> = known
            .cache
            .iter()
            .filter(|(_, entry)| entry.subscription.is_none())
            .map(|(slot, _)| slot)
            .collect();
        for slot in uncovered {
            known.cache.remove(slot);
        }
    }

    /// Whether any type is wanted at all.
    pub(super) fn wants_anything(&self) -> bool {
        self.types.iter().any(|known| !known.interest.is_empty())
    }

    fn note_idleness(&mut self, now: Time) {
        let is_idle = !self.wants_anything();
        if let Link::Open(_) = self.upstream.link
            && let Some((_, channel)) = self.upstream.current_mut()
            && is_idle
        {
            channel.idle_since.get_or_insert(now);
        }
        if is_idle && self.config.profile.idle_close == Some(core::time::Duration::ZERO) {
            self.close_idle(now);
        }
    }
}
