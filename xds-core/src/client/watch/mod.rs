//! Watches of the application and the notices that are due for each.
//!
//! A watch does not store notices, only that one is due. The notice is built from the newest state
//! when it is polled, so a slow watcher gets the latest state and costs no memory.

pub(crate) mod advance;
pub(crate) mod outbox;

use alloc::{boxed::Box, vec::Vec};

use self::outbox::Outbox;
use super::{
    cache::cursor::Cursor,
    event::error::{WatchError, WatchErrorKind},
};
use crate::{
    id::{ChannelId, WatchId},
    slab::{Slab, Slot},
    zoo::{self, Bug},
};

#[derive(Debug, Default)]
pub(crate) struct Watches {
    watches: Slab<Watch>,
}

#[derive(Debug)]
pub(crate) struct Watch {
    /// Index of the registered type.
    pub(crate) type_index: usize,
    pub(crate) target: Target,
    pending: Pending,
    /// Whether the watch is in the outbox.
    queued: bool,
    told: Told,
    /// Channels whose reading waits for this watcher. There may be several, because several servers
    /// can send a resource, or members of a collection.
    owes: Vec<ChannelId>,
    /// Number of these channels that wait for a notice that was polled but not handled yet.
    taken: usize,
}

#[derive(Debug)]
pub(crate) enum Target {
    /// One name.
    Name(Link),
    /// All resources of the type. Boxed, because it is rare and the cursor is large.
    Wildcard(Box<Cursor>),
    /// All members of a glob.
    Glob(Box<(Link, Cursor)>),
}

/// Links to the other watches of the same name or glob.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) subscription: Slot,
    pub(crate) previous: Slot,
    pub(crate) next: Slot,
}

impl Target {
    /// Creates the target of the first watch of a name.
    pub(crate) fn of_name(subscription: Slot) -> Self {
        Self::Name(Link::alone(subscription))
    }

    /// Creates the target of the first watch of a glob.
    pub(crate) fn of_glob(subscription: Slot) -> Self {
        Self::Glob(Box::new((Link::alone(subscription), Cursor::default())))
    }

    pub(crate) fn link(&self) -> Option<&Link> {
        match self {
            Self::Name(link) => Some(link),
            Self::Glob(glob) => Some(&glob.0),
            Self::Wildcard(_) => None,
        }
    }

    fn link_mut(&mut self) -> Option<&mut Link> {
        match self {
            Self::Name(link) => Some(link),
            Self::Glob(glob) => Some(&mut glob.0),
            Self::Wildcard(_) => None,
        }
    }

    /// Returns the position of a wildcard or glob watch.
    pub(crate) fn cursor(&self) -> Option<&Cursor> {
        match self {
            Self::Name(_) => None,
            Self::Wildcard(cursor) => Some(cursor),
            Self::Glob(glob) => Some(&glob.1),
        }
    }

    pub(crate) fn cursor_mut(&mut self) -> Option<&mut Cursor> {
        match self {
            Self::Name(_) => None,
            Self::Wildcard(cursor) => Some(cursor),
            Self::Glob(glob) => Some(&mut glob.1),
        }
    }
}

impl Link {
    fn alone(subscription: Slot) -> Self {
        Self { subscription, previous: Slot::NONE, next: Slot::NONE }
    }
}

/// Notices that are due for a watcher.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    changed: bool,
    ambient: bool,
    /// Whether the watcher of a wildcard or glob was notified that it is behind, and has not caught
    /// up.
    behind: bool,
}

/// Error last reported to a watcher, of its resource or of the collection.
#[derive(Debug, Default, PartialEq)]
enum Told {
    /// No error.
    #[default]
    Nothing,
    /// Ambient error, reported in addition to a value.
    Beside(Box<WatchError>),
    /// Error reported instead of a value.
    Instead(Box<WatchError>),
}

/// Kind of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The resource, wildcard collection or glob collection has a new value, or none any more.
    Changed,
    /// The ambient error has changed.
    Ambient,
    /// Entries of a wildcard or glob watch have changed.
    Behind,
}

/// Number of notices that hold back reading on a channel.
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
            told: Told::Nothing,
            owes: Vec::new(),
            taken: 0,
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

    /// Returns all watches, oldest first.
    pub(crate) fn ids(&self) -> impl Iterator<Item = WatchId> {
        self.watches.iter().filter_map(|(slot, _)| self.watches.key(slot).map(WatchId))
    }

    /// Links `watch` in front of `first`, the first watch of its name.
    pub(crate) fn link(&mut self, watch: WatchId, first: Slot) {
        if let Some(link) = self.link_at(watch.0.slot()) {
            link.next = first;
        }
        if let Some(link) = self.link_at(first) {
            link.previous = watch.0.slot();
        }
    }

    /// Unlinks a removed watch. Returns the new first watch of the name if the removed one was the
    /// first.
    pub(crate) fn unlink(&mut self, removed: Link) -> Option<Slot> {
        let Link { previous, next, .. } = removed;
        if let Some(link) = self.link_at(next) {
            link.previous = previous;
        }
        match self.link_at(previous) {
            Some(link) => {
                link.next = next;
                None
            }
            None => Some(next),
        }
    }

    /// Removes the debts of all watches to a channel that has ended.
    pub(crate) fn forget_debts(&mut self, debts: &Debts) {
        if debts.open == 0 {
            return;
        }
        let ids: Vec<_> = self.ids().collect();
        for id in ids {
            if let Some(watch) = self.get_mut(id)
                && let Some(at) = watch.owes.iter().position(|owed| *owed == debts.channel)
            {
                watch.owes.remove(at);
                watch.taken -= usize::from(at < watch.taken);
            }
        }
    }

    fn link_at(&mut self, slot: Slot) -> Option<&mut Link> {
        self.watches.at_mut(slot).and_then(|watch| watch.target.link_mut())
    }

    /// Returns the watches of one name, beginning with its first.
    pub(crate) fn of_name(&self, first: Slot) -> Vec<WatchId> {
        let next = |id: &WatchId| {
            let link = self.get(*id).and_then(|watch| watch.target.link())?;
            self.watches.key(link.next).map(WatchId)
        };
        core::iter::successors(self.watches.key(first).map(WatchId), next).collect()
    }

    /// Marks a notice as due for all watches of one name.
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
            let link = self.get(id).and_then(|watch| watch.target.link());
            slot = link.map_or(Slot::NONE, |link| link.next);
        }
    }

    /// Marks a notice as due for a watch. `debts` are those of the channel that caused it, if
    /// reading waits for watchers.
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
        // A wildcard or glob watch is notified once that it is behind, and then has to catch up.
        let is_catching_up = watch.pending.behind;
        if watch.target.cursor().is_some() {
            watch.pending.behind = true;
        }
        if !watch.queued && !is_catching_up || zoo::is(Bug::QueuePerWatcher) {
            watch.queued = true;
            outbox.notify(id);
        }
    }
}

impl Watch {
    pub(crate) fn is_queued(&self) -> bool {
        self.queued
    }

    /// Takes all channels whose reading waits for the watcher.
    pub(crate) fn take_owed(&mut self) -> Vec<ChannelId> {
        self.taken = 0;
        core::mem::take(&mut self.owes)
    }

    /// Takes the channels that wait for a notice that turned out to be unnecessary.
    pub(crate) fn take_owed_for_nothing(&mut self) -> Vec<ChannelId> {
        self.owes.split_off(self.taken.min(self.owes.len()))
    }

    /// Notes that the watcher has polled a notice that covers all waiting channels.
    pub(crate) fn notice_taken(&mut self) {
        self.taken = self.owes.len();
    }

    /// Notes that the watcher has handled its notice.
    pub(crate) fn notice_done(&mut self) {
        self.taken = 0;
    }

    pub(crate) fn caught_up(&mut self) {
        self.pending.behind = false;
    }

    /// Returns whether a notice is queued or due.
    pub(crate) fn has_news(&self) -> bool {
        self.queued || self.pending.changed || self.pending.ambient || self.pending.behind
    }

    pub(crate) fn dequeued(&mut self) {
        self.queued = false;
    }

    pub(crate) fn has_changed(&self) -> bool {
        self.pending.changed
    }

    /// Returns whether reading on the channel waits for the watcher.
    pub(crate) fn owes(&self, channel: ChannelId) -> bool {
        self.owes.contains(&channel)
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

    /// Notes that a value is reported.
    pub(crate) fn note_well(&mut self) {
        self.told = Told::Nothing;
    }

    /// Notes that an ambient error, or its end, is reported. Returns whether it differs from the
    /// last report.
    pub(crate) fn note_beside(&mut self, error: Option<&WatchError>) -> bool {
        match error {
            Some(error) => self.note_wrong(error, Told::Beside(Box::new(error.clone()))),
            None => matches!(core::mem::take(&mut self.told), Told::Beside(_)),
        }
    }

    /// Notes that the reason for a missing value is reported. Returns whether it differs from the
    /// last report.
    pub(crate) fn note_instead(&mut self, error: &WatchError) -> bool {
        self.note_wrong(error, Told::Instead(Box::new(error.clone())))
    }

    /// Notes that an error is reported. Returns whether it is new; a server failure always is.
    // IC27
    fn note_wrong(&mut self, error: &WatchError, told: Told) -> bool {
        let is_trouble = matches!(error.kind(), WatchErrorKind::Unavailable(_));
        let is_news = is_trouble || self.told != told;
        self.told = told;
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // IC34: reading waits only for watchers with an unhandled notice.
    #[test]
    fn who_is_done_with_a_notice_holds_up_nothing_when_the_next_one_comes_to_nothing() {
        let mut channels = Slab::default();
        let mut channel = || ChannelId(channels.push_back(()).expect("there is room"));
        let (one, other) = (channel(), channel());
        let told = |is_done: bool| {
            let mut watches = Watches::default();
            let target = Target::of_name(Slot::NONE);
            let id = watches.add(0, target).expect("there is room");
            let (mut outbox, mut last) = (Outbox::default(), Vec::new());
            for channel in [one, other] {
                let mut debts = Some(Debts { channel, open: 0 });
                watches.tell(id, News::Ambient, &mut outbox, &mut debts);
                let watch = watches.get_mut(id).expect("it was added");
                if channel == one {
                    watch.dequeued();
                    watch.notice_taken();
                } else {
                    if is_done {
                        watch.notice_done();
                    }
                    last = watch.take_owed_for_nothing();
                }
            }
            last
        };
        assert_eq!(told(true), [one, other]);
        assert_eq!(told(false), [other], "it has the first one in hand");
    }
}
