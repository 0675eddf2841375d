//! What a management server asks of its application.
//!
//! Nothing of this may be lost, as an observation may be, and none of it may pile up without bounds. It all
//! comes from requests in the end, so no more of these are read while the application is behind.

use core::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, Waker},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use futures_core::Stream;
use xds_core::{ResourceName, StreamId, TypeUrl, ViewName, server::ServerOutput};

use super::inbox::{Input, WeakInbox};

/// Something that a management server asks of its application, or tells it once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServerEvent {
    /// A client waits to be let in, and there is no
    /// [authorizer](super::ServerOptions::with_authorizer): [assign](super::ServerHandle::assign) it a view or
    /// [refuse](super::ServerHandle::refuse) it.
    Authorize {
        /// The client's stream.
        stream: StreamId,
        /// The id of its node; empty if it gave none.
        node_id: Arc<str>,
    },
    /// A client names resources that the store lacks: set them, or say that they do not exist
    /// (M254, [`OnDemand::Told`](xds_core::server::OnDemand::Told)). Said once of each until it is unwanted, and
    /// together of those of one request.
    Wanted {
        /// The view of the client.
        view: ViewName,
        /// The type.
        type_url: TypeUrl,
        /// The names, at least one.
        names: Vec<ResourceName>,
    },
    /// Nobody names the resources any more (M256).
    Unwanted {
        /// The view.
        view: ViewName,
        /// The type.
        type_url: TypeUrl,
        /// The names, at least one.
        names: Vec<ResourceName>,
    },
    /// A client says something of a type that is the application's (M21,
    /// [`ServerConfig::asides`](xds_core::server::ServerConfig::asides)).
    Aside {
        /// The client's stream.
        stream: StreamId,
        /// The type.
        type_url: TypeUrl,
        /// The whole encoded request.
        message: Bytes,
    },
    /// A view that no client has seen for long was dropped with its resources (M221).
    ViewDropped(ViewName),
}

impl ServerEvent {
    /// The event in an output; `None` if the output is for the driver.
    pub(crate) fn of(output: ServerOutput) -> Option<Self> {
        Some(match output {
            ServerOutput::Authorize { stream, node_id } => Self::Authorize { stream, node_id },
            ServerOutput::Wanted { view, type_url, names } => {
                Self::Wanted { view, type_url, names }
            }
            ServerOutput::Unwanted { view, type_url, names } => {
                Self::Unwanted { view, type_url, names }
            }
            ServerOutput::Aside { stream, type_url, message } => {
                Self::Aside { stream, type_url, message }
            }
            ServerOutput::ViewDropped(view) => Self::ViewDropped(view),
            _ => return None,
        })
    }
}

/// Events on their way from the driver to whoever reads them.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<ServerEvent>,
    readers: usize,
    /// How many readers there have been.
    count: u64,
    /// Those who have asked in vain, by number. All of them are woken when there is news: one alone might have
    /// turned to something else, beside others that wait.
    wakers: BTreeMap<u64, Waker>,
    audience: Audience,
    phase: Phase,
}

/// Whether those who read know all that is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Audience {
    /// Nobody reads, or the driver has not told yet what was asked before.
    #[default]
    Ignorant,
    Informed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// The driver waits until there is room.
    Full,
    /// The driver is gone.
    Ended,
}

impl EventQueue {
    /// There is somebody who reads again: begins with what was asked and not answered yet.
    pub(crate) fn begin(&self, questions: impl Iterator<Item = ServerEvent>) {
        let mut state = self.lock();
        if state.readers > 0 && state.audience == Audience::Ignorant {
            state.audience = Audience::Informed;
            state.events.extend(questions);
            wake_all(state);
        }
    }

    /// Queues an event, if anybody reads them.
    pub(crate) fn push(&self, event: ServerEvent) {
        let mut state = self.lock();
        if state.readers > 0 && state.audience == Audience::Informed {
            state.events.push_back(event);
            wake_all(state);
        }
    }

    /// Whether so many events wait that no more are welcome. If so, the driver is told when they are.
    pub(crate) fn is_full(&self, capacity: usize) -> bool {
        let mut state = self.lock();
        let is_full = state.events.len() >= capacity;
        if is_full {
            state.phase = Phase::Full;
        }
        is_full
    }

    /// There will be no more.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.phase = Phase::Ended;
        wake_all(state);
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

/// One reader of the queue.
#[derive(Debug)]
struct Reader {
    queue: Arc<EventQueue>,
    inbox: WeakInbox,
    number: u64,
}

impl Reader {
    fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<ServerEvent>> {
        let mut state = self.queue.lock();
        match state.events.pop_front() {
            Some(event) => {
                let is_awaited = state.phase == Phase::Full;
                if is_awaited {
                    state.phase = Phase::Open;
                }
                drop(state);
                if is_awaited {
                    self.tell_of_room();
                }
                Poll::Ready(Some(event))
            }
            None if state.phase == Phase::Ended => Poll::Ready(None),
            None => {
                state.wakers.insert(self.number, cx.waker().clone());
                Poll::Pending
            }
        }
    }

    fn tell_of_room(&self) {
        if let Some(inbox) = self.inbox.upgrade() {
            inbox.send(Input::EventsRead);
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.readers -= 1;
        state.wakers.remove(&self.number);
        if state.readers == 0 {
            state.events.clear();
            state.audience = Audience::Ignorant;
            drop(state);
            self.tell_of_room();
        }
    }
}

/// What the server asks of the application; ends with the server.
///
/// Each event goes to one of those who read. While more than
/// [`event_capacity`](super::ServerOptions::event_capacity) wait, no requests are read. Without readers nothing is
/// kept; who reads after nobody did is told first which clients still wait to be let in, and what is still wanted
/// (M254), so that an application that begins anew loses no client. Messages that
/// [pass by](ServerEvent::Aside) meanwhile are lost.
#[must_use = "a stream does nothing unless it is polled"]
pub struct ServerEvents {
    reader: Reader,
}

impl ServerEvents {
    pub(crate) fn new(queue: Arc<EventQueue>, inbox: WeakInbox) -> Self {
        let mut state = queue.lock();
        state.readers += 1;
        state.count += 1;
        let (is_first, number) = (state.readers == 1, state.count);
        drop(state);
        let reader = Reader { queue, inbox, number };
        if is_first && let Some(inbox) = reader.inbox.upgrade() {
            inbox.send(Input::EventsWanted);
        }
        Self { reader }
    }

    /// The next event; `None` once the server has ended. Cancel safe.
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
