//! The application's watches and what each has yet to be told.
//!
//! A watch stores no news. It stores *that* there is news; the notice is made from the newest state
//! when it is polled, which is why the latest always wins and why a slow watcher costs nothing.

use alloc::{boxed::Box, vec::Vec};

use super::{cursor::Cursor, outbox::Outbox};
use crate::{
    id::{ChannelId, WatchId},
    slab::{Slab, Slot},
};

#[derive(Debug, Default)]
pub(crate) struct Watches {
    watches: Slab<Watch>,
}

#[derive(Debug)]
pub(crate) struct Watch {
    /// The position of the type among the registered ones.
    pub(crate) type_index: usize,
    pub(crate) target: Target,
    pending: Pending,
    /// Whether the watch stands in the outbox.
    queued: bool,
    /// Whether the watcher was last told that something is wrong beside its resource.
    pub(crate) told_ambient: bool,
    /// The channels whose reading waits for this watcher: a resource may come from one server after
    /// another, and a wildcard watch hears of what any of them sent.
    owes: Vec<ChannelId>,
}

#[derive(Debug)]
pub(crate) enum Target {
    /// One name; linked with the other watches of the name.
    Name { subscription: Slot, previous: Slot, next: Slot },
    /// Everything of the type. Few watches are of that kind, and a cursor is large.
    Wildcard(Box<Cursor>),
}

/// What a watcher has yet to be told.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    changed: bool,
    ambient: bool,
    /// A wildcard watcher has been told that it is behind and has not caught up since.
    behind: bool,
}

/// One kind of news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The resource, or for a wildcard the collection, has a new value or none any more.
    Changed,
    /// What is wrong beside it has changed.
    Ambient,
    /// A wildcard watch: some entries have changed.
    Behind,
}

/// The notices that hold back reading on one channel.
#[derive(Debug)]
pub(crate) struct Debts {
    pub(crate) channel: ChannelId,
    pub(crate) open: usize,
}

impl Watches {
    pub(crate) fn add(&mut self, type_index: usize, target: Target) -> Option<WatchId> {
        let watch = Watch {
            type_index,
            target,
            pending: Pending::default(),
            queued: false,
            told_ambient: false,
            owes: Vec::new(),
        };
        self.watches.push_back(watch).map(WatchId)
    }

    pub(crate) fn remove(&mut self, id: WatchId) -> Option<Watch> {
        self.watches.get(id.0)?;
        self.watches.remove(id.0.slot())
    }

    pub(crate) fn get(&self, id: WatchId) -> Option<&Watch> {
        self.watches.get(id.0)
    }

    pub(crate) fn get_mut(&mut self, id: WatchId) -> Option<&mut Watch> {
        self.watches.get_mut(id.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.watches.len()
    }

    /// All watches, oldest first.
    pub(crate) fn ids(&self) -> impl Iterator<Item = WatchId> {
        self.watches.iter().filter_map(|(slot, _)| self.watches.key(slot).map(WatchId))
    }

    /// Links `watch` in front of `first`, the first watch of its name.
    pub(crate) fn link(&mut self, watch: WatchId, first: Slot) {
        if let Some(Target::Name { next, .. }) = self.target_at(watch.0.slot()) {
            *next = first;
        }
        if let Some(Target::Name { previous, .. }) = self.target_at(first) {
            *previous = watch.0.slot();
        }
    }

    /// Closes the gap that a removed watch leaves. `Some` is the new first watch of the name, if
    /// the removed one was the first.
    pub(crate) fn unlink(&mut self, previous: Slot, next: Slot) -> Option<Slot> {
        if let Some(Target::Name { previous: link, .. }) = self.target_at(next) {
            *link = previous;
        }
        match self.target_at(previous) {
            Some(Target::Name { next: link, .. }) => {
                *link = next;
                None
            }
            _ => Some(next),
        }
    }

    /// Nothing is owed to a channel that has ended.
    pub(crate) fn forget_debts(&mut self, debts: &Debts) {
        if debts.open == 0 {
            return;
        }
        let ids: Vec<_> = self.ids().collect();
        for id in ids {
            if let Some(watch) = self.get_mut(id) {
                watch.owes.retain(|owed| *owed != debts.channel);
            }
        }
    }

    fn target_at(&mut self, slot: Slot) -> Option<&mut Target> {
        self.watches.at_mut(slot).map(|watch| &mut watch.target)
    }

    /// The watches of one name, from its first on.
    pub(crate) fn of_name(&self, first: Slot) -> Vec<WatchId> {
        let next = |id: &WatchId| match self.get(*id).map(|watch| &watch.target) {
            Some(Target::Name { next, .. }) => self.watches.key(*next).map(WatchId),
            _ => None,
        };
        core::iter::successors(self.watches.key(first).map(WatchId), next).collect()
    }

    /// Notes news for all watches of one name.
    pub(crate) fn tell_all(
        &mut self,
        first: Slot,
        news: News,
        outbox: &mut Outbox,
        debts: &mut Option<Debts>,
    ) {
        let mut slot = first;
        while let Some(id) = self.watches.key(slot).map(WatchId) {
            self.tell(id, news, outbox, debts);
            slot = match self.get(id).map(|watch| &watch.target) {
                Some(Target::Name { next, .. }) => *next,
                _ => Slot::NONE,
            };
        }
    }

    /// Notes news for a watch. `debts` are those of the channel that brought the news, if reading
    /// waits for watchers.
    pub(crate) fn tell(
        &mut self,
        id: WatchId,
        news: News,
        outbox: &mut Outbox,
        debts: &mut Option<Debts>,
    ) {
        let Some(watch) = self.watches.get_mut(id.0) else { return };
        match news {
            News::Changed => watch.pending.changed = true,
            News::Ambient => watch.pending.ambient = true,
            News::Behind => {}
        }
        if let Some(debts) = debts
            && !watch.owes.contains(&debts.channel)
        {
            watch.owes.push(debts.channel);
            debts.open += 1;
        }
        // A wildcard watch is told once that it is behind; then it is its turn to catch up.
        let is_catching_up = watch.pending.behind;
        if matches!(watch.target, Target::Wildcard(_)) {
            watch.pending.behind = true;
        }
        if !watch.queued && !is_catching_up {
            watch.queued = true;
            outbox.notify(id);
        }
    }
}

impl Watch {
    pub(crate) fn is_queued(&self) -> bool {
        self.queued
    }

    /// The channels whose reading waited for the watcher until now.
    pub(crate) fn take_owed(&mut self) -> Vec<ChannelId> {
        core::mem::take(&mut self.owes)
    }

    pub(crate) fn caught_up(&mut self) {
        self.pending.behind = false;
    }

    /// Whether a notice is queued or could be made at once.
    pub(crate) fn has_news(&self) -> bool {
        self.queued || self.pending.changed || self.pending.ambient || self.pending.behind
    }

    pub(crate) fn dequeued(&mut self) {
        self.queued = false;
    }

    pub(crate) fn take_changed(&mut self) -> bool {
        core::mem::take(&mut self.pending.changed)
    }

    pub(crate) fn take_ambient(&mut self) -> bool {
        core::mem::take(&mut self.pending.ambient)
    }

    pub(crate) fn expect_ambient(&mut self) {
        self.pending.ambient = true;
    }
}
