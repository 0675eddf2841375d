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
    pub(crate) target: WatchTarget,
    pending: Pending,
    /// Whether the watch is in the outbox.
    queued: bool,
    last_reported: LastReported,
    /// Channels whose reading waits for this watcher. There may be several, because several servers
    /// can send a resource, or members of a collection.
    held_back: Vec<ChannelId>,
    /// Number of these channels that wait for a notice that was polled but not handled yet.
    polled: usize,
}

#[derive(Debug)]
pub(crate) enum WatchTarget {
    /// One name.
    Name(WatchLink),
    /// All resources of the type. Boxed, because it is rare and the cursor is large.
    Wildcard(Box<Cursor>),
    /// All members of a glob.
    Glob(Box<(WatchLink, Cursor)>),
}

/// Links to the other watches of the same name or glob.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchLink {
    pub(crate) subscription: Slot,
    pub(crate) previous: Slot,
    pub(crate) next: Slot,
}

impl WatchTarget {
    /// Creates the target of the first watch of a name.
    pub(crate) fn of_name(subscription: Slot) -> Self {
        Self::Name(WatchLink::alone(subscription))
    }

    /// Creates the target of the first watch of a glob.
    pub(crate) fn of_glob(subscription: Slot) -> Self {
        Self::Glob(Box::new((WatchLink::alone(subscription), Cursor::default())))
    }

    pub(crate) fn link(&self) -> Option<&WatchLink> {
        match self {
            Self::Name(link) => Some(link),
            Self::Glob(glob) => Some(&glob.0),
            Self::Wildcard(_) => None,
        }
    }

    fn link_mut(&mut self) -> Option<&mut WatchLink> {
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

impl WatchLink {
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
    changes_available: bool,
}

/// Error last reported to a watcher, of its resource or of the collection.
#[derive(Debug, Default, PartialEq)]
enum LastReported {
    /// No error.
    #[default]
    NoError,
    /// Ambient error, reported in addition to a value.
    Ambient(Box<WatchError>),
    /// Error reported instead of a value.
    NoValue(Box<WatchError>),
}

/// Kind of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    /// The resource, wildcard collection or glob collection has a new value, or none any more.
    Changed,
    /// The ambient error has changed.
    Ambient,
    /// Entries of a wildcard or glob watch have changed.
    ChangesAvailable,
}

/// Number of notices that hold back reading on a channel.
#[derive(Debug)]
pub(crate) struct UnhandledNotices {
    pub(crate) channel: ChannelId,
    pub(crate) count: usize,
}

impl Watches {
    pub(crate) fn add(&mut self, type_index: usize, target: WatchTarget) -> Option<WatchId> {
        let watch = Watch {
            type_index,
            target,
            pending: Pending::default(),
            queued: false,
            last_reported: LastReported::NoError,
            held_back: Vec::new(),
            polled: 0,
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
    pub(crate) fn unlink(&mut self, removed: WatchLink) -> Option<Slot> {
        let WatchLink { previous, next, .. } = removed;
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

    /// Stops all watches from holding back a channel that has ended.
    pub(crate) fn forget_unhandled(&mut self, unhandled: &UnhandledNotices) {
        if unhandled.count == 0 {
            return;
        }
        let ids: Vec<_> = self.ids().collect();
        for id in ids {
            let Some(watch) = self.get_mut(id) else { continue };
            let at = watch.held_back.iter().position(|it| *it == unhandled.channel);
            let Some(at) = at else { continue };
            #[expect(clippy::disallowed_methods, reason = "`at` is a position in the list")]
            watch.held_back.remove(at);
            watch.polled -= usize::from(at < watch.polled);
        }
    }

    fn link_at(&mut self, slot: Slot) -> Option<&mut WatchLink> {
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
    pub(crate) fn notify_all(
        &mut self,
        first: Slot,
        kind: NoticeKind,
        outbox: &mut Outbox,
        unhandled: &mut Option<UnhandledNotices>,
    ) {
        let mut slot = first;
        while let Some(id) = self.watches.key(slot).map(WatchId) {
            self.notify(id, kind, outbox, unhandled);
            let link = self.get(id).and_then(|watch| watch.target.link());
            slot = link.map_or(Slot::NONE, |link| link.next);
        }
    }

    /// Marks a notice as due for a watch. `unhandled` are those of the channel that caused it, if
    /// reading waits for watchers.
    pub(crate) fn notify(
        &mut self,
        id: WatchId,
        kind: NoticeKind,
        outbox: &mut Outbox,
        unhandled: &mut Option<UnhandledNotices>,
    ) {
        let Some(watch) = self.watches.get_mut(id.0) else { return };
        match kind {
            NoticeKind::Changed => watch.pending.changed = true,
            NoticeKind::Ambient => watch.pending.ambient = true,
            NoticeKind::ChangesAvailable => {}
        }
        if let Some(unhandled) = unhandled
            && !watch.held_back.contains(&unhandled.channel)
        {
            watch.held_back.push(unhandled.channel);
            unhandled.count += 1;
        }
        // A wildcard or glob watch is notified once that it is behind, and then has to catch up.
        let is_catching_up = watch.pending.changes_available;
        if watch.target.cursor().is_some() {
            watch.pending.changes_available = true;
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
    pub(crate) fn take_held_back(&mut self) -> Vec<ChannelId> {
        self.polled = 0;
        core::mem::take(&mut self.held_back)
    }

    /// Takes the channels that wait for a notice that turned out to be unnecessary.
    pub(crate) fn take_unpolled(&mut self) -> Vec<ChannelId> {
        let polled = self.polled.min(self.held_back.len());
        #[expect(clippy::disallowed_methods, reason = "`polled` is at most the length")]
        self.held_back.split_off(polled)
    }

    /// Notes that the watcher has polled a notice that covers all waiting channels.
    pub(crate) fn note_polled(&mut self) {
        self.polled = self.held_back.len();
    }

    /// Notes that the watcher has handled its notice.
    pub(crate) fn note_handled(&mut self) {
        self.polled = 0;
    }

    pub(crate) fn note_caught_up(&mut self) {
        self.pending.changes_available = false;
    }

    /// Returns whether a notice is queued or due.
    pub(crate) fn has_pending_notice(&self) -> bool {
        self.queued
            || self.pending.changed
            || self.pending.ambient
            || self.pending.changes_available
    }

    pub(crate) fn note_dequeued(&mut self) {
        self.queued = false;
    }

    pub(crate) fn has_changed(&self) -> bool {
        self.pending.changed
    }

    /// Returns whether reading on the channel waits for the watcher.
    pub(crate) fn holds_back(&self, channel: ChannelId) -> bool {
        self.held_back.contains(&channel)
    }

    pub(crate) fn take_changed(&mut self) -> bool {
        core::mem::take(&mut self.pending.changed)
    }

    pub(crate) fn take_ambient(&mut self) -> bool {
        core::mem::take(&mut self.pending.ambient)
    }

    pub(crate) fn mark_ambient_due(&mut self) {
        self.pending.ambient = true;
    }

    /// Notes that a value is reported.
    pub(crate) fn record_value(&mut self) {
        self.last_reported = LastReported::NoError;
    }

    /// Notes that an ambient error, or its end, is reported. Returns whether it differs from the
    /// last report.
    pub(crate) fn record_ambient(&mut self, error: Option<&WatchError>) -> bool {
        match error {
            Some(error) => self.record_error(error, LastReported::Ambient(Box::new(error.clone()))),
            None => matches!(core::mem::take(&mut self.last_reported), LastReported::Ambient(_)),
        }
    }

    /// Notes that the reason for a missing value is reported. Returns whether it differs from the
    /// last report.
    pub(crate) fn record_missing_value(&mut self, error: &WatchError) -> bool {
        self.record_error(error, LastReported::NoValue(Box::new(error.clone())))
    }

    /// Notes that an error is reported. Returns whether it is new; a server failure always is.
    // IC27
    fn record_error(&mut self, error: &WatchError, last_reported: LastReported) -> bool {
        let is_server_failure = matches!(error.kind(), WatchErrorKind::Unavailable(_));
        let is_new = is_server_failure || self.last_reported != last_reported;
        self.last_reported = last_reported;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use crate::client::watch::*;

    // IC34: reading waits only for watchers with an unhandled notice.
    #[test]
    fn handled_notice_does_not_block_reading_when_the_next_is_cancelled() {
        let mut channels = Slab::default();
        let mut channel = || ChannelId(channels.push_back(()).expect("there is room"));
        let (one, other) = (channel(), channel());
        let last_reported = |is_done: bool| {
            let mut watches = Watches::default();
            let target = WatchTarget::of_name(Slot::NONE);
            let id = watches.add(0, target).expect("there is room");
            let (mut outbox, mut last) = (Outbox::default(), Vec::new());
            for channel in [one, other] {
                let mut unhandled = Some(UnhandledNotices { channel, count: 0 });
                watches.notify(id, NoticeKind::Ambient, &mut outbox, &mut unhandled);
                let watch = watches.get_mut(id).expect("it was added");
                if channel == one {
                    watch.note_dequeued();
                    watch.note_polled();
                } else {
                    if is_done {
                        watch.note_handled();
                    }
                    last = watch.take_unpolled();
                }
            }
            last
        };
        assert_eq!(last_reported(true), [one, other]);
        assert_eq!(last_reported(false), [other], "it has the first one in hand");
    }
}
