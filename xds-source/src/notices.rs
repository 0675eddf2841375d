//! Number of noticed changes, for which tasks of any runtime can wait.

use core::task::{Context, Poll, Waker};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of changes that a thread has noticed.
#[derive(Debug, Default)]
pub(crate) struct Notices(Mutex<NoticesState>);

#[derive(Debug, Default)]
struct NoticesState {
    count: u64,
    waiting: Vec<Waker>,
}

impl Notices {
    fn lock(&self) -> MutexGuard<'_, NoticesState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a change, and wakes the waiting tasks.
    pub(crate) fn note(&self) {
        let waiting = {
            let mut state = self.lock();
            state.count += 1;
            core::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns the number of changes.
    pub(crate) fn count(&self) -> u64 {
        self.lock().count
    }

    /// Waits until there were more changes than `count`.
    pub(crate) fn poll_after(&self, count: u64, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.count > count {
            return Poll::Ready(());
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }
}
