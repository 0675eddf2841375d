//! Interrupts: the first one stops after the current runs, the second one exits at once.

use core::future::pending;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::task::AbortHandle;

use crate::{failure::Failure, stop::Stop};

/// Whether an interrupt has been received.
#[derive(Clone, Debug)]
pub(super) struct Interrupt {
    is_requested: Arc<AtomicBool>,
    listener: AbortHandle,
}

impl Interrupt {
    /// Starts handling interrupts.
    pub(super) fn listen() -> Result<Self, Failure> {
        let mut stop = Stop::after(None)?;
        let is_requested = Arc::<AtomicBool>::default();
        let flag = Arc::clone(&is_requested);
        let listener = tokio::spawn(async move {
            stop.requested().await;
            flag.store(true, Ordering::Relaxed);
            // The runs end on their own as long as `stop` exists.
            pending::<()>().await;
        });
        Ok(Self { is_requested, listener: listener.abort_handle() })
    }

    pub(super) fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::Relaxed)
    }

    /// Makes the first interrupt exit at once from now on.
    pub(super) fn end_runs(&self) {
        self.listener.abort();
    }
}
