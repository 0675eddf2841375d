//! Yields to other tasks during long computations.

use core::{
    future::{Future, poll_fn},
    mem,
    task::Poll,
};

/// Yields once, so that other tasks of the thread can run.
pub(crate) fn let_others_run() -> impl Future<Output = ()> {
    let mut is_first = true;
    poll_fn(move |cx| {
        if mem::take(&mut is_first) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    })
}
