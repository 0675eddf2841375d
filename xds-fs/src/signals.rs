//! Signals to the task of a watch.

use core::{
    task::{Context, Poll, Waker},
    time::Duration,
};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::settling::Noticed;

/// Signals that the task has not taken yet. A thread or a future waits for them.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    pending: Mutex<Pending>,
    is_sent: Condvar,
}

#[derive(Debug, Default)]
struct Pending {
    noticed: Noticed,
    is_stopped: bool,
    waker: Option<Waker>,
}

impl Pending {
    const fn is_any(&self) -> bool {
        self.is_stopped || self.noticed.is_any()
    }
}

impl Signals {
    pub(crate) fn changed(&self) {
        self.send(|pending| pending.noticed.is_changed = true);
    }

    pub(crate) fn trigger(&self) {
        self.send(|pending| pending.noticed.is_triggered = true);
    }

    /// Ends the watch.
    pub(crate) fn stop(&self) {
        self.send(|pending| pending.is_stopped = true);
    }

    fn send(&self, change: impl FnOnce(&mut Pending)) {
        let mut pending = self.lock();
        change(&mut pending);
        let waker = pending.waker.take();
        drop(pending);
        self.is_sent.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn take(&self) -> Noticed {
        self.lock().noticed.take()
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// Blocks until there is a signal, or for a time.
    pub(crate) fn wait(&self, limit: Duration) {
        let pending = self.lock();
        // An error is a poisoned lock, whose state is valid.
        let waited = self.is_sent.wait_timeout_while(pending, limit, |it| !it.is_any());
        drop(waited);
    }

    /// Waits until there is a signal.
    pub(crate) fn poll(&self, cx: &Context<'_>) -> Poll<()> {
        let mut pending = self.lock();
        if pending.is_any() {
            return Poll::Ready(());
        }
        pending.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        // No code panics while it holds this lock.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
