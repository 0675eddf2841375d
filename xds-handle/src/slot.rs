//! Where notices wait for their watcher: one slot per watch, shared by the watch and the driver.
//!
//! A slot also knows whether the watcher still has an item *in hand*. Reading from the server waits
//! for watchers if the application asks for that (B52), so "handled" has to be exact: it counts once nothing is waiting in the slot
//! and nothing is in hand. Both sides look at that under the slot's lock, which makes it immune to
//! notices and questions that cross.

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

/// What a kind of watch keeps for its watcher.
pub(crate) trait Pending: Default {
    type Item;

    /// Takes the next item out.
    fn take(&mut self) -> Option<Self::Item>;

    fn is_empty(&self) -> bool;

    /// Whether the driver has more and is to be asked for it now.
    fn ask(&mut self) -> bool;
}

/// What the driver does with the slot of any watch.
pub(crate) trait DriverView {
    /// The watch was made under this id.
    fn claim(&self, watch: WatchId);

    /// The watch's id, once it was made.
    fn watch(&self) -> Option<WatchId>;

    /// Whether the watcher has dealt with everything it was given.
    fn is_handled(&self) -> bool;

    /// The watch was not made.
    fn refuse(&self, why: InvalidWatch);

    /// Nothing more comes.
    fn end(&self);
}

#[derive(Debug)]
pub(crate) struct SharedSlot<P> {
    state: Mutex<State<P>>,
}

#[derive(Debug)]
struct State<P> {
    pending: P,
    /// The watch's id, once the driver has made the watch.
    watch: Option<WatchId>,
    in_hand: InHand,
    life: Life,
    waker: Option<Waker>,
}

/// Whether the watcher is busy with an item.
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
    /// The watch could not be made: the first and last item says why.
    Refused(InvalidWatch),
    Ended,
}

/// What a watcher has to tell the driver after it asked for the next item in vain.
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

/// What came of asking for the next item.
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

/// The watcher's side.
impl<P: Pending> SharedSlot<P> {
    /// The next item. The one given out before is no longer in hand.
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

    /// The item given out last is dealt with, though the next one is not asked for yet.
    pub(crate) fn put_down(&self) -> Option<Tell> {
        let mut state = self.lock();
        let was_in_hand = core::mem::take(&mut state.in_hand);
        (was_in_hand == InHand::Item && state.pending.is_empty()).then_some(Tell::Handled)
    }
}

impl<P> SharedSlot<P> {
    fn lock(&self) -> MutexGuard<'_, State<P>> {
        // Nothing panics under this lock; a poisoned one would still hold a sound state.
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

/// Wakes the watcher once the lock is released.
fn wake<P>(mut state: MutexGuard<'_, State<P>>) {
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The newest value of one resource, then the newest of what is wrong beside it.
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
    /// Keeps the newest notice of each kind. A new value says that all is well, so it takes a
    /// waiting ambient error with it (IC14).
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

/// Changes of a whole collection, as many as were pulled at once.
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
    /// More, and the driver was asked for it.
    Asked,
}

/// How many changes are pulled at once.
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
    /// Notes that the core has changes. True if the watcher is waiting for them at this moment.
    pub(crate) fn put_behind(&self) -> bool {
        let mut state = self.lock();
        if state.pending.supply == Supply::None {
            state.pending.supply = Supply::More;
        }
        state.waker.is_some() && state.pending.is_empty()
    }

    /// Takes up to a batch from the core, which gives `None` when there is no more.
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
        // That there is no more is news, too.
        if !state.pending.is_empty() || state.pending.supply == Supply::None {
            wake(state);
        }
    }

    /// Whether the core has no more, and nothing waits here.
    pub(crate) fn is_caught_up(&self) -> bool {
        let state = self.lock();
        state.watch.is_some() && state.pending.supply == Supply::None && state.pending.is_empty()
    }
}
