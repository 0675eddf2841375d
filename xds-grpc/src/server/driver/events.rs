//! Requests of a management server to its application.
//!
//! Unlike observations, events must not be lost, and their number must be bounded. All of them
//! result from requests of clients, so the driver stops reading requests while the application is
//! behind.

use core::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, Waker},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
};

use futures_core::Stream;
use xds_core::server::ServerEvent;

use super::inbox::{Input, WeakInbox};
use crate::guard::locked;

/// Queue of events from the driver to the application's readers.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    state: Mutex<QueueState>,
}

#[derive(Debug, Default)]
struct QueueState {
    events: VecDeque<ServerEvent>,
    readers: usize,
    /// Number of readers created.
    count: u64,
    /// Wakers of waiting readers, by reader number. An event wakes all of them, because a single
    /// one might have stopped polling.
    wakers: BTreeMap<u64, Waker>,
    backlog: Backlog,
    phase: QueuePhase,
}

/// Whether the readers have received all open requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Backlog {
    /// No reader exists, or the driver has not sent the open requests to it yet.
    #[default]
    Unsent,
    Sent,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum QueuePhase {
    #[default]
    Open,
    /// The driver waits for space.
    Full,
    /// The driver has ended.
    Ended,
}

impl EventQueue {
    /// Adds the open requests for the first reader after a time without readers.
    pub(crate) fn begin(&self, open_requests: impl Iterator<Item = ServerEvent>) {
        let mut state = self.lock();
        if state.readers > 0 && state.backlog == Backlog::Unsent {
            state.backlog = Backlog::Sent;
            state.events.extend(open_requests);
            wake_all(state);
        }
    }

    /// Adds an event if there is a reader.
    pub(crate) fn push(&self, event: ServerEvent) {
        let mut state = self.lock();
        if state.readers > 0 && state.backlog == Backlog::Sent {
            state.events.push_back(event);
            wake_all(state);
        }
    }

    /// Returns whether the queue has reached its capacity. If so, the driver is notified when an
    /// event is read.
    pub(crate) fn is_full(&self, capacity: usize) -> bool {
        let mut state = self.lock();
        let is_full = state.events.len() >= capacity;
        if is_full {
            state.phase = QueuePhase::Full;
        }
        is_full
    }

    /// Ends the queue.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.phase = QueuePhase::Ended;
        wake_all(state);
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        locked(&self.state)
    }
}

/// Wakes all waiting readers after releasing the lock.
fn wake_all(mut state: MutexGuard<'_, QueueState>) {
    let wakers = core::mem::take(&mut state.wakers);
    drop(state);
    wakers.into_values().for_each(Waker::wake);
}

/// Reader of the queue.
#[derive(Debug)]
struct EventReader {
    queue: Arc<EventQueue>,
    inbox: WeakInbox,
    number: u64,
}

impl EventReader {
    fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<ServerEvent>> {
        let mut state = self.queue.lock();
        match state.events.pop_front() {
            Some(event) => {
                let was_full = state.phase == QueuePhase::Full;
                if was_full {
                    state.phase = QueuePhase::Open;
                }
                drop(state);
                if was_full {
                    self.notify_driver();
                }
                Poll::Ready(Some(event))
            }
            None if state.phase == QueuePhase::Ended => Poll::Ready(None),
            None => {
                state.wakers.insert(self.number, cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn notify_driver(&self) {
        if let Some(inbox) = self.inbox.upgrade() {
            inbox.send(Input::EventsRead);
        }
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.readers -= 1;
        state.wakers.remove(&self.number);
        if state.readers == 0 {
            state.events.clear();
            state.backlog = Backlog::Unsent;
            drop(state);
            self.notify_driver();
        }
    }
}

/// Stream of [events](ServerEvent). It ends with the server.
///
/// Each event is delivered to one reader. While
/// [`event_capacity`](crate::server::ServerOptions::event_capacity) events wait, no requests are read from
/// clients.
/// Without readers, events are discarded. The next reader first receives an event for every client
/// that still waits for admission and every resource that is still wanted, so a restarted
/// application misses no client. [Custom messages](ServerEvent::CustomMessage) that arrive without
/// a reader are lost.
// M254
#[must_use = "a stream does nothing unless it is polled"]
pub struct ServerEvents {
    reader: EventReader,
}

impl ServerEvents {
    pub(crate) fn new(queue: Arc<EventQueue>, inbox: WeakInbox) -> Self {
        let mut state = queue.lock();
        state.readers += 1;
        state.count += 1;
        let (is_first, number) = (state.readers == 1, state.count);
        drop(state);
        let reader = EventReader { queue, inbox, number };
        if is_first && let Some(inbox) = reader.inbox.upgrade() {
            inbox.send(Input::EventsSubscribed);
        }
        Self { reader }
    }

    /// Returns the next event, or `None` after the server has ended. Cancel safe.
    pub async fn next(&mut self) -> Option<ServerEvent> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for ServerEvents {
    type Item = ServerEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ServerEvent>> {
        self.reader.poll_next(cx)
    }
}

impl core::fmt::Debug for ServerEvents {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ServerEvents").finish_non_exhaustive()
    }
}
