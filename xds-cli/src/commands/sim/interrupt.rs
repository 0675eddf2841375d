//! Interrupts: the first one stops after the current runs, the second one exits at once.

use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    failure::{Failure, INTERRUPTED},
    output,
    stop::Stop,
};

/// Whether an interrupt has been received.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt {
    is_requested: Arc<AtomicBool>,
    are_runs_over: Arc<AtomicBool>,
}

impl Interrupt {
    /// Starts catching interrupts, which no longer kill the process.
    pub(super) fn listen() -> Result<Self, Failure> {
        let mut stop = Stop::after(None)?;
        let interrupt = Self::default();
        let listener = interrupt.clone();
        tokio::spawn(async move {
            stop.requested().await;
            listener.is_requested.store(true, Ordering::Relaxed);
            if !listener.are_runs_over.load(Ordering::Relaxed) {
                stop.requested().await;
            }
            output::finish().await;
            process::exit(INTERRUPTED.into());
        });
        Ok(interrupt)
    }

    pub(super) fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::Relaxed)
    }

    /// Makes the first interrupt exit at once from now on.
    pub(super) fn end_runs(&self) {
        self.are_runs_over.store(true, Ordering::Relaxed);
    }
}
