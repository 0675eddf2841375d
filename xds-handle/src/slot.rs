//! Slots: one per watch, shared by the watch and the driver, with the notices that wait for the
//! watcher.
//!
//! A slot also records whether the watcher still holds an item *in hand*. If the application
//! enables the read gate, reading from the server waits for watchers, so "handled" must be exact:
//! nothing waits in the slot, and nothing is in hand. Both sides check this under the slot's lock,
//! so a notice and a command that cross cause no error.
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
    fn ask(&mut self) -> bool;
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
    state: Mutex<State<P>>,
}

#[derive(Debug)]
struct State<P> {
    pending: P,
    /// Id of the watch, after the driver has created it.
    watch: Option<WatchId>,
    in_hand: InHand,
    life: Life,
    waker: Option<Waker>,
}

/// Whether the watcher is handling an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum InHand {
    #[default]
    Nothing,
    Item,
}

#[derive(Debug, Default)]
enum Life {
    #[default]
    Open,
    /// The watch is invalid. The error is the first and last item.
    Refused(InvalidWatch),
    Ended,
}

/// Command that a watcher must send after polling without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    Handled,
    Pull,
}

impl<P: Default> Default for SharedSlot<P> {
    fn default() -> Self {
        let state = State {
            pending: P::default(),
            watch: None,
            in_hand: InHand::default(),
            life: Life::default(),
            waker: None,
        };
        Self { state: Mutex::new(state) }
    }
}

/// Result of polling a slot.
#[derive(Debug)]
pub(crate) struct Asked<T> {
    pub(crate) next: Poll<Option<Result<T, InvalidWatch>>>,
    pub(crate) tell: Option<Tell>,
}

impl<T> Asked<T> {
    fn ready(next: Option<Result<T, InvalidWatch>>) -> Self {
        Self { next: Poll::Ready(next), tell: None }
    }
}

/// Operations of the watcher.
impl<P: Pending> SharedSlot<P> {
    /// Polls for the next item. Marks the previous item as handled.
    pub(crate) fn poll_next(&self, waker: &Waker) -> Asked<P::Item> {
        let mut state = self.lock();
        let was_in_hand = core::mem::take(&mut state.in_hand);
        match core::mem::take(&mut state.life) {
            Life::Open => {}
            Life::Ended => {
                state.life = Life::Ended;
                return Asked::ready(None);
            }
            Life::Refused(why) => {
                state.life = Life::Ended;
                return Asked::ready(Some(Err(why)));
            }
        }
        if let Some(item) = state.pending.take() {
            state.in_hand = InHand::Item;
            return Asked::ready(Some(Ok(item)));
        }
        if !state.waker.as_ref().is_some_and(|known| known.will_wake(waker)) {
            state.waker = Some(waker.clone());
        }
        let tell = match (state.pending.ask(), was_in_hand) {
            (true, _) => Some(Tell::Pull),
            (false, InHand::Item) => Some(Tell::Handled),
            (false, InHand::Nothing) => None,
        };
        Asked { next: Poll::Pending, tell }
    }

    /// Marks the last item as handled without polling for the next one.
    pub(crate) fn put_down(&self) -> Option<Tell> {
        let mut state = self.lock();
        let was_in_hand = core::mem::take(&mut state.in_hand);
        (was_in_hand == InHand::Item && state.pending.is_empty()).then_some(Tell::Handled)
    }
}

impl<P> SharedSlot<P> {
    fn lock(&self) -> MutexGuard<'_, State<P>> {
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
        state.in_hand == InHand::Nothing && state.pending.is_empty()
    }

    fn refuse(&self, why: InvalidWatch) {
        let mut state = self.lock();
        state.life = Life::Refused(why);
        wake(state);
    }

    fn end(&self) {
        let mut state = self.lock();
        if matches!(state.life, Life::Open) {
            state.life = Life::Ended;
        }
        wake(state);
    }
}

/// Wakes the watcher after releasing the lock.
fn wake<P>(mut state: MutexGuard<'_, State<P>>) {
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

    fn ask(&mut self) -> bool {
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
    supply: Supply,
}

/// Whether the core has more changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Supply {
    #[default]
    None,
    More,
    /// The core has more changes, and the driver was asked for them.
    Asked,
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

    fn ask(&mut self) -> bool {
        let has_more = self.supply == Supply::More;
        if has_more {
            self.supply = Supply::Asked;
        }
        has_more
    }
}

impl AllSlot {
    /// Records that the core has changes. Returns whether the watcher is waiting for them.
    pub(crate) fn put_behind(&self) -> bool {
        let mut state = self.lock();
        if state.pending.supply == Supply::None {
            state.pending.supply = Supply::More;
        }
        state.waker.is_some() && state.pending.is_empty()
    }

    /// Fills the batch from the core. `next_change` returns `None` at the end.
    pub(crate) fn fill(&self, mut next_change: impl FnMut() -> Option<Change>) {
        let mut state = self.lock();
        let batch = &mut state.pending;
        batch.supply = Supply::More;
        while batch.changes.len() < BATCH {
            let Some(change) = next_change() else {
                batch.supply = Supply::None;
                break;
            };
            batch.changes.push_back(change);
        }
        // Also wakes the watcher at the end of the changes, for `is_caught_up`.
        if !state.pending.is_empty() || state.pending.supply == Supply::None {
            wake(state);
        }
    }

    /// Returns whether neither the core nor the slot has further changes.
    pub(crate) fn is_caught_up(&self) -> bool {
        let state = self.lock();
        state.watch.is_some() && state.pending.supply == Supply::None && state.pending.is_empty()
    }
}
