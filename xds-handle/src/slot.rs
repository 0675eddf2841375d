//! Slots: each is shared by one watch and the driver, and holds the notices that wait for the
//! watcher.
//!
//! A slot also records whether the watcher is still handling its last item. With
//! [`FlowControl::On`](xds_core::client::FlowControl), the client reads from the server only after
//! all watchers have handled their items, so "handled" must be exact: nothing waits in the slot,
//! and no item is in progress. Both sides check this under the slot's lock, so a notice and a
//! command that cross cause no error.
// B52

use core::task::{Poll, Waker};
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use xds_core::{
    WatchId,
    client::{Change, InvalidWatch, Notice},
};

pub(crate) type NamedSlot = SharedSlot<Newest>;
pub(crate) type AllSlot = SharedSlot<Batch>;

/// Pending items of a kind of watch.
pub(crate) trait Pending: Default {
    type Item;

    /// Takes the next item.
    fn take(&mut self) -> Option<Self::Item>;

    fn is_empty(&self) -> bool;

    /// Returns whether the driver has more items and must be asked for them now.
    fn request_more(&mut self) -> bool;
}

/// Slot operations of the driver, for every kind of watch.
pub(crate) trait DriverView {
    /// Sets the id of the created watch.
    fn claim(&self, watch: WatchId);

    /// Returns the id of the watch; `None` before it is created.
    fn watch(&self) -> Option<WatchId>;

    /// Returns whether the watcher has handled all its items.
    fn is_handled(&self) -> bool;

    /// Reports that the watch is invalid.
    fn refuse(&self, why: InvalidWatch);

    /// Ends the watch.
    fn end(&self);
}

#[derive(Debug)]
pub(crate) struct SharedSlot<P> {
    state: Mutex<SlotState<P>>,
}

#[derive(Debug)]
struct SlotState<P> {
    pending: P,
    /// Id of the watch, after the driver has created it.
    watch: Option<WatchId>,
    last_item: LastItem,
    phase: SlotPhase,
    waker: Option<Waker>,
}

/// Whether the watcher is handling an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LastItem {
    #[default]
    Handled,
    InProgress,
}

#[derive(Debug, Default)]
enum SlotPhase {
    #[default]
    Open,
    /// The watch is invalid. The error is the first and last item.
    Refused(InvalidWatch),
    Ended,
}

/// Command that a watcher must send after polling without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WatcherCommand {
    Handled,
    Pull,
}

impl<P: Default> Default for SharedSlot<P> {
    fn default() -> Self {
        let state = SlotState {
            pending: P::default(),
            watch: None,
            last_item: LastItem::default(),
            phase: SlotPhase::default(),
            waker: None,
        };
        Self { state: Mutex::new(state) }
    }
}

/// Result of polling a slot.
#[derive(Debug)]
pub(crate) struct SlotPoll<T> {
    pub(crate) next: Poll<Option<Result<T, InvalidWatch>>>,
    pub(crate) command: Option<WatcherCommand>,
}

impl<T> SlotPoll<T> {
    fn ready(next: Option<Result<T, InvalidWatch>>) -> Self {
        Self { next: Poll::Ready(next), command: None }
    }
}

/// Operations of the watcher.
impl<P: Pending> SharedSlot<P> {
    /// Polls for the next item. Marks the previous item as handled.
    pub(crate) fn poll_next(&self, waker: &Waker) -> SlotPoll<P::Item> {
        let mut state = self.lock();
        let previous = core::mem::take(&mut state.last_item);
        match core::mem::take(&mut state.phase) {
            SlotPhase::Open => {}
            SlotPhase::Ended => {
                state.phase = SlotPhase::Ended;
                return SlotPoll::ready(None);
            }
            SlotPhase::Refused(why) => {
                state.phase = SlotPhase::Ended;
                return SlotPoll::ready(Some(Err(why)));
            }
        }
        if let Some(item) = state.pending.take() {
            state.last_item = LastItem::InProgress;
            return SlotPoll::ready(Some(Ok(item)));
        }
        if !state.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
        let command = match (state.pending.request_more(), previous) {
            (true, _) => Some(WatcherCommand::Pull),
            (false, LastItem::InProgress) => Some(WatcherCommand::Handled),
            (false, LastItem::Handled) => None,
        };
        SlotPoll { next: Poll::Pending, command }
    }

    /// Marks the last item as handled without polling for the next one.
    pub(crate) fn mark_handled(&self) -> Option<WatcherCommand> {
        let mut state = self.lock();
        let previous = core::mem::take(&mut state.last_item);
        (previous == LastItem::InProgress && state.pending.is_empty())
            .then_some(WatcherCommand::Handled)
    }
}

impl<P> SharedSlot<P> {
    fn lock(&self) -> MutexGuard<'_, SlotState<P>> {
        // No code that may panic runs under this lock, so a poisoned lock still has a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Pending> DriverView for SharedSlot<P> {
    fn claim(&self, watch: WatchId) {
        self.lock().watch = Some(watch);
    }

    fn watch(&self) -> Option<WatchId> {
        self.lock().watch
    }

    fn is_handled(&self) -> bool {
        let state = self.lock();
        state.last_item == LastItem::Handled && state.pending.is_empty()
    }

    fn refuse(&self, why: InvalidWatch) {
        let mut state = self.lock();
        state.phase = SlotPhase::Refused(why);
        wake(state);
    }

    fn end(&self) {
        let mut state = self.lock();
        if matches!(state.phase, SlotPhase::Open) {
            state.phase = SlotPhase::Ended;
        }
        wake(state);
    }
}

/// Wakes the watcher after releasing the lock.
fn wake<P>(mut state: MutexGuard<'_, SlotState<P>>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Newest value of one resource, followed by its newest ambient error.
#[derive(Debug, Default)]
pub(crate) struct Newest {
    changed: Option<Notice>,
    ambient: Option<Notice>,
}

impl Pending for Newest {
    type Item = Notice;

    fn take(&mut self) -> Option<Notice> {
        self.changed.take().or_else(|| self.ambient.take())
    }

    fn is_empty(&self) -> bool {
        self.changed.is_none() && self.ambient.is_none()
    }

    fn request_more(&mut self) -> bool {
        false
    }
}

impl NamedSlot {
    /// Stores the newest notice of each kind. A new value replaces a waiting ambient error, because
    /// it implies that the error is over.
    // IC14
    pub(crate) fn put(&self, notice: Notice) {
        let mut state = self.lock();
        match notice {
            Notice::Changed(_) => {
                state.pending = Newest { changed: Some(notice), ambient: None };
            }
            Notice::Ambient(_) => state.pending.ambient = Some(notice),
            _ => return,
        }
        wake(state);
    }
}

/// Batch of changes of a collection.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    changes: VecDeque<Change>,
    more_changes: MoreChanges,
}

/// Whether the core has more changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum MoreChanges {
    #[default]
    No,
    Yes,
    /// The core has more changes, and the driver was asked for them.
    Requested,
}

/// Maximum number of changes per batch.
pub(crate) const BATCH: usize = 256;

impl Pending for Batch {
    type Item = Change;

    fn take(&mut self) -> Option<Change> {
        self.changes.pop_front()
    }

    fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    fn request_more(&mut self) -> bool {
        let has_more = self.more_changes == MoreChanges::Yes;
        if has_more {
            self.more_changes = MoreChanges::Requested;
        }
        has_more
    }
}

impl AllSlot {
    /// Records that the core has changes. Returns whether the watcher is waiting for them.
    pub(crate) fn mark_changed(&self) -> bool {
        let mut state = self.lock();
        if state.pending.more_changes == MoreChanges::No {
            state.pending.more_changes = MoreChanges::Yes;
        }
        state.waker.is_some() && state.pending.is_empty()
    }

    /// Fills the batch from the core. `next_change` returns `None` at the end.
    pub(crate) fn fill(&self, mut next_change: impl FnMut() -> Option<Change>) {
        let mut state = self.lock();
        let batch = &mut state.pending;
        batch.more_changes = MoreChanges::Yes;
        while batch.changes.len() < BATCH {
            let Some(change) = next_change() else {
                batch.more_changes = MoreChanges::No;
                break;
            };
            batch.changes.push_back(change);
        }
        // Also wakes the watcher at the end of the changes, for `is_caught_up`.
        if !state.pending.is_empty() || state.pending.more_changes == MoreChanges::No {
            wake(state);
        }
    }

    /// Returns whether neither the core nor the slot has further changes.
    pub(crate) fn is_caught_up(&self) -> bool {
        let state = self.lock();
        state.watch.is_some()
            && state.pending.more_changes == MoreChanges::No
            && state.pending.is_empty()
    }
}
