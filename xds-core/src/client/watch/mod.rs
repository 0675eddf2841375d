//! The application's watches and what each has yet to be told.
//!
//! A watch stores no news. It stores *that* there is news; the notice is made from the newest state
//! when it is polled, which is why the latest always wins and why a slow watcher costs nothing.

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
    /// The position of the type among the registered ones.
    pub(crate) type_index: usize,
    pub(crate) target: Target,
    pending: Pending,
    /// Whether the watch stands in the outbox.
    queued: bool,
    told: Told,
    /// The channels whose reading waits for this watcher: a resource may come from one server after
    /// another, and a wildcard watch hears of what any of them sent.
    owes: Vec<ChannelId>,
    /// How many of them wait for a notice that was taken, and that the watcher is not done with.
    taken: usize,
}

#[derive(Debug)]
pub(crate) enum Target {
    /// One name.
    Name(Link),
    /// Everything of the type. Few watches are of that kind, and a cursor is large.
    Wildcard(Box<Cursor>),
    /// All resources that a glob stands for.
    Glob(Box<(Link, Cursor)>),
}

/// Links a watch with the others of the same name or glob.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) subscription: Slot,
    pub(crate) previous: Slot,
    pub(crate) next: Slot,
}

impl Target {
    /// A name that nobody else watches yet.
    pub(crate) fn of_name(subscription: Slot) -> Self {
        Self::Name(Link::alone(subscription))
    }

    /// A glob that nobody else watches yet, of which nothing was told.
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

    /// How far the watch of many resources has come.
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

/// What a watcher has yet to be told.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    changed: bool,
    ambient: bool,
    /// A watcher of many resources has been told that it is behind and has not caught up since.
    behind: bool,
}

/// What a watcher was last told is wrong with its resource, or with the collection.
#[derive(Debug, Default, PartialEq)]
enum Told {
    /// Nothing, or that all is well.
    #[default]
    Nothing,
    /// It has a value, and this beside it.
    Beside(Box<WatchError>),
    /// It has no value, for this reason.
    Instead(Box<WatchError>),
}

/// One kind of news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The resource, or for a wildcard or a glob the collection, has a new value or none any more.
    Changed,
    /// What is wrong beside it has changed.
    Ambient,
    /// A watch of many: some entries have changed.
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

    /// All watches, oldest first.
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

    /// Closes the gap that a removed watch leaves. `Some` is the new first watch of the name, if
    /// the removed one was the first.
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

    /// Nothing is owed to a channel that has ended.
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

    /// The watches of one name, from its first on.
    pub(crate) fn of_name(&self, first: Slot) -> Vec<WatchId> {
        let next = |id: &WatchId| {
            let link = self.get(*id).and_then(|watch| watch.target.link())?;
            self.watches.key(link.next).map(WatchId)
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
            let link = self.get(id).and_then(|watch| watch.target.link());
            slot = link.map_or(Slot::NONE, |link| link.next);
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
        // A watch of many is told once that it is behind; then it is its turn to catch up.
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

    /// The channels whose reading waited for the watcher until now.
    pub(crate) fn take_owed(&mut self) -> Vec<ChannelId> {
        self.taken = 0;
        core::mem::take(&mut self.owes)
    }

    /// Those that waited for a notice that is not made: there was nothing left to say.
    pub(crate) fn take_owed_for_nothing(&mut self) -> Vec<ChannelId> {
        self.owes.split_off(self.taken.min(self.owes.len()))
    }

    /// The watcher has a notice of all that is owed.
    pub(crate) fn notice_taken(&mut self) {
        self.taken = self.owes.len();
    }

    /// The watcher is done with the notice that it had.
    pub(crate) fn notice_done(&mut self) {
        self.taken = 0;
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

    pub(crate) fn has_changed(&self) -> bool {
        self.pending.changed
    }

    /// Whether reading on a channel waits for the watcher.
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

    /// Notes that the watcher is told a value.
    pub(crate) fn note_well(&mut self) {
        self.told = Told::Nothing;
    }

    /// Notes that the watcher is told what is wrong beside the value, or that nothing is. False if it was told
    /// that last.
    pub(crate) fn note_beside(&mut self, error: Option<&WatchError>) -> bool {
        match error {
            Some(error) => self.note_wrong(error, Told::Beside(Box::new(error.clone()))),
            None => matches!(core::mem::take(&mut self.told), Told::Beside(_)),
        }
    }

    /// Notes that the watcher is told why there is no value. False if it was told that last.
    pub(crate) fn note_instead(&mut self, error: &WatchError) -> bool {
        self.note_wrong(error, Told::Instead(Box::new(error.clone())))
    }

    /// That a server fails is told for each time that it does (IC27), all else if it has changed.
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

    /// IC34: reading waits for who has a notice in hand, and for nobody else.
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
