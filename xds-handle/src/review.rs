//! Updates that the application has the last word on (`Verdict::External`), on their way there.
//!
//! ```text
//!   driver ── Output::Update ──▶ desk ──▶ Reviews ──▶ Review ── settle ──▶ queue ──▶ driver
//!                                                       │                 ▲
//!                                                       └──── dropped ────┘
//! ```
//!
//! One that is dropped goes back by way of the driver, so that a reviewer that does nothing but drop them
//! leaves everybody else a turn, and is not given what nothing waits for any more.
//!
//! A channel waits with at most one update, and those of channels that are gone are thrown away when the
//! next one comes, so there are never more on the desk than channels.

use core::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, Waker},
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use futures_channel::mpsc::UnboundedSender;
use futures_core::Stream;
use thiserror::Error;
use xds_core::{
    ResourceName, TypeUrl, UpdateId,
    client::{Rejection, Update},
};

use crate::command::Command;

/// Where updates wait for somebody to take them.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<(UpdateId, Arc<Update>)>,
    /// One for each `Reviews` that waits, by its number.
    wakers: BTreeMap<u64, Waker>,
    /// How many `Reviews` there have been.
    count: u64,
    life: Life,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Life {
    #[default]
    Open,
    Ended,
}

impl Desk {
    /// Takes an update in, and throws away those that nothing waits for any more.
    pub(crate) fn put(&self, id: UpdateId, update: Update, is_awaited: impl Fn(UpdateId) -> bool) {
        let mut state = self.lock();
        state.waiting.retain(|(id, _)| is_awaited(*id));
        state.waiting.push_back((id, Arc::new(update)));
        wake_all(state);
    }

    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.life = Life::Ended;
        state.waiting.clear();
        wake_all(state);
    }

    /// Takes back one that was given out, ahead of the others.
    pub(crate) fn put_back(&self, id: UpdateId, update: Arc<Update>) {
        let mut state = self.lock();
        state.waiting.push_front((id, update));
        wake_all(state);
    }

    fn register(&self) -> u64 {
        let mut state = self.lock();
        state.count += 1;
        state.count
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics under this lock; a poisoned one would still hold a sound state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes whoever waits once the lock is released.
fn wake_all(mut state: MutexGuard<'_, State>) {
    let wakers = core::mem::take(&mut state.wakers);
    drop(state);
    wakers.into_values().for_each(Waker::wake);
}

/// The updates of one type that wait for a verdict, each given out once; see
/// [`ClientHandle::reviews`](crate::ClientHandle::reviews). It does not keep the client alive.
#[derive(Debug)]
#[must_use = "updates wait until they are reviewed"]
pub struct Reviews {
    desk: Arc<Desk>,
    commands: Weak<UnboundedSender<Command>>,
    type_url: TypeUrl,
    number: u64,
}

impl Reviews {
    pub(crate) fn new(
        desk: Arc<Desk>,
        commands: Weak<UnboundedSender<Command>>,
        type_url: TypeUrl,
    ) -> Self {
        let number = desk.register();
        Self { desk, commands, type_url, number }
    }

    /// The next update; `None` once the client has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Review> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Reviews {
    type Item = Review;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Review>> {
        let mut state = self.desk.lock();
        let is_ours = |(_, update): &(UpdateId, Arc<Update>)| update.type_url == self.type_url;
        if let Some(at) = state.waiting.iter().position(is_ours)
            && let Some((id, update)) = state.waiting.remove(at)
        {
            return Poll::Ready(Some(Review {
                id,
                update,
                rejected: Vec::new(),
                names: None,
                verdict: Verdict::Awaited,
                commands: self.commands.clone(),
            }));
        }
        if state.life == Life::Ended {
            return Poll::Ready(None);
        }
        state.wakers.insert(self.number, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Reviews {
    fn drop(&mut self) {
        self.desk.lock().wakers.remove(&self.number);
    }
}

/// An update that waits for a verdict. What is not [rejected](Self::reject) is accepted by
/// [`settle`](Self::settle).
///
/// While it is held, nothing more is read on its channel. One that is dropped without a verdict is given
/// out again, while its channel waits for one. An update whose channel has ended meanwhile is settled in vain: the next channel brings it
/// anew.
#[derive(Debug)]
#[must_use = "the client waits until the update is settled"]
pub struct Review {
    id: UpdateId,
    update: Arc<Update>,
    rejected: Vec<(ResourceName, Rejection)>,
    /// What may be rejected, once something is: who looks at each of many resources may reject each.
    names: Option<BTreeSet<ResourceName>>,
    verdict: Verdict,
    commands: Weak<UnboundedSender<Command>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Awaited,
    Given,
}

/// An update brings no such resource, so it cannot be rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the update has no resource {0:?}")]
pub struct NotInUpdate(
    /// The name that was given.
    pub ResourceName,
);

impl Review {
    /// What the update would change: the resources that are valid, wanted, and not in use as they are.
    #[must_use]
    pub fn update(&self) -> &Update {
        &self.update
    }

    /// Rejects one resource. The reason reaches the server in a NACK, and the resource's watchers.
    ///
    /// # Errors
    ///
    /// It is not part of the update.
    pub fn reject(
        &mut self,
        name: impl Into<ResourceName>,
        why: Rejection,
    ) -> Result<(), NotInUpdate> {
        let name = name.into();
        let names = self.names.get_or_insert_with(|| {
            self.update.resources.iter().map(|resource| resource.name.clone()).collect()
        });
        if !names.contains(&name) {
            return Err(NotInUpdate(name));
        }
        self.rejected.push((name, why));
        Ok(())
    }

    /// Gives the verdict: what was rejected is, the rest is used now, and the response is answered.
    pub fn settle(mut self) {
        self.verdict = Verdict::Given;
        if let Some(commands) = self.commands.upgrade() {
            let rejected = core::mem::take(&mut self.rejected);
            let _ = commands.unbounded_send(Command::Settle(self.id, rejected));
        }
    }
}

impl Drop for Review {
    fn drop(&mut self) {
        if self.verdict == Verdict::Awaited
            && let Some(commands) = self.commands.upgrade()
        {
            let _ = commands.unbounded_send(Command::PutBack(self.id, Arc::clone(&self.update)));
        }
    }
}
