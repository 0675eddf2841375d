//! Review of updates that need an external verdict (`VerdictSource::External`).
//!
//! ```text
//!   driver ── Output::Update ──▶ review queue ──▶ Reviews ──▶ Review ── settle ──▶ commands ──▶ driver
//!                                                               │                   ▲
//!                                                               └───── dropped ─────┘
//! ```
//!
//! A dropped review returns to the queue through the driver. So a reviewer that drops every review
//! does not starve other tasks, and does not get an update back that is no longer needed.
//!
//! Each channel waits for at most one update. Updates of closed channels are removed when the next
//! update arrives, so the queue never holds more updates than there are channels.

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

/// Updates that wait for a reviewer.
#[derive(Debug, Default)]
pub(crate) struct ReviewQueue {
    state: Mutex<ReviewQueueState>,
}

#[derive(Debug, Default)]
struct ReviewQueueState {
    waiting: VecDeque<(UpdateId, Arc<Update>)>,
    /// Wakers of waiting `Reviews` by number.
    wakers: BTreeMap<u64, Waker>,
    /// Number of `Reviews` created.
    count: u64,
    phase: QueuePhase,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum QueuePhase {
    #[default]
    Open,
    Ended,
}

impl ReviewQueue {
    /// Adds an update, and removes those that are no longer needed.
    pub(crate) fn put(&self, id: UpdateId, update: Update, is_awaited: impl Fn(UpdateId) -> bool) {
        let mut state = self.lock();
        state.waiting.retain(|(id, _)| is_awaited(*id));
        state.waiting.push_back((id, Arc::new(update)));
        wake_all(state);
    }

    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.phase = QueuePhase::Ended;
        state.waiting.clear();
        wake_all(state);
    }

    /// Returns an update to the front of the queue.
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

    fn lock(&self) -> MutexGuard<'_, ReviewQueueState> {
        // No code that may panic runs under this lock, so a poisoned lock still has a valid state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes all waiting reviewers after releasing the lock.
fn wake_all(mut state: MutexGuard<'_, ReviewQueueState>) {
    let wakers = core::mem::take(&mut state.wakers);
    drop(state);
    wakers.into_values().for_each(Waker::wake);
}

/// Stream of updates of one type that need a verdict, from
/// [`ClientHandle::reviews`](crate::ClientHandle::reviews). Each update is delivered to one
/// reviewer. The stream does not keep the client alive.
#[derive(Debug)]
#[must_use = "updates wait until they are reviewed"]
pub struct Reviews {
    review_queue: Arc<ReviewQueue>,
    commands: Weak<UnboundedSender<Command>>,
    type_url: TypeUrl,
    number: u64,
}

impl Reviews {
    pub(crate) fn new(
        review_queue: Arc<ReviewQueue>,
        commands: Weak<UnboundedSender<Command>>,
        type_url: TypeUrl,
    ) -> Self {
        let number = review_queue.register();
        Self { review_queue, commands, type_url, number }
    }

    /// Returns the next update, or `None` after the client has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<Review> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Reviews {
    type Item = Review;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Review>> {
        let mut state = self.review_queue.lock();
        let is_ours = |(_, update): &(UpdateId, Arc<Update>)| update.type_url == self.type_url;
        if let Some(at) = state.waiting.iter().position(is_ours)
            && let Some((id, update)) = state.waiting.remove(at)
        {
            return Poll::Ready(Some(Review {
                id,
                update,
                rejected: Vec::new(),
                names: None,
                state: ReviewState::Pending,
                commands: self.commands.clone(),
            }));
        }
        if state.phase == QueuePhase::Ended {
            return Poll::Ready(None);
        }
        state.wakers.insert(self.number, cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Reviews {
    fn drop(&mut self) {
        self.review_queue.lock().wakers.remove(&self.number);
    }
}

/// Update that needs a verdict. [`settle`](Self::settle) accepts all resources that were not
/// [rejected](Self::reject).
///
/// While a review is pending, nothing is read from its channel. A review dropped without a verdict
/// is delivered again. If the channel has ended, the verdict has no effect, and the next channel
/// receives the update again.
#[derive(Debug)]
#[must_use = "the client waits until the update is settled"]
pub struct Review {
    id: UpdateId,
    update: Arc<Update>,
    rejected: Vec<(ResourceName, Rejection)>,
    /// Names in the update, computed at the first rejection, so that rejecting many resources is
    /// fast.
    names: Option<BTreeSet<ResourceName>>,
    state: ReviewState,
    commands: Weak<UnboundedSender<Command>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReviewState {
    Pending,
    Submitted,
}

/// Error: the update does not contain the resource, so it cannot be rejected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the update has no resource {0:?}")]
pub struct NotInUpdate(
    /// Name of the resource.
    pub ResourceName,
);

impl Review {
    /// Returns the update: the resources that are valid, watched, and different from those in use.
    #[must_use]
    pub fn update(&self) -> &Update {
        &self.update
    }

    /// Rejects a resource. The reason is sent to the server in a NACK and to the resource's
    /// watchers.
    ///
    /// # Errors
    ///
    /// Returns an error if the update does not contain the resource.
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

    /// Submits the verdict. The resources that were not rejected come into use, and the response is
    /// answered with an ACK or NACK.
    pub fn settle(mut self) {
        self.state = ReviewState::Submitted;
        if let Some(commands) = self.commands.upgrade() {
            let rejected = core::mem::take(&mut self.rejected);
            let _ = commands.unbounded_send(Command::Settle(self.id, rejected));
        }
    }
}

impl Drop for Review {
    fn drop(&mut self) {
        if self.state == ReviewState::Pending
            && let Some(commands) = self.commands.upgrade()
        {
            let _ = commands.unbounded_send(Command::PutBack(self.id, Arc::clone(&self.update)));
        }
    }
}
