//! Flag that tells a connection to release its memory because the memory of the server is
//! exhausted.

use core::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Whether a connection must release its memory.
#[derive(Debug, Default)]
pub(crate) struct Eviction {
    is_set: AtomicBool,
    notify: Notify,
}

impl Eviction {
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    pub(crate) fn set(&self) {
        self.is_set.store(true, Ordering::Relaxed);
        self.notify.notify_waiters();
    }

    /// Clears the flag after the connection has released its memory.
    pub(crate) fn clear(&self) {
        self.is_set.store(false, Ordering::Relaxed);
    }

    /// Waits until the flag is set. Cancel safe.
    pub(crate) async fn wait(&self) {
        loop {
            let notified = self.notify.notified();
            if self.is_set() {
                return;
            }
            notified.await;
        }
    }
}
