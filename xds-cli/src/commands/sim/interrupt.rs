//! What an interrupt does: the first one ends the runs when those under way are over, the next one ends all at once.

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

/// Whether there was one.
#[derive(Clone, Debug, Default)]
pub(super) struct Interrupt {
    is_asked: Arc<AtomicBool>,
    are_runs_over: Arc<AtomicBool>,
}

impl Interrupt {
    /// From here on they no longer kill the process.
    pub(super) fn listen() -> Result<Self, Failure> {
        let mut stop = Stop::after(None)?;
        let interrupt = Self::default();
        let heard = interrupt.clone();
        tokio::spawn(async move {
            stop.requested().await;
            heard.is_asked.store(true, Ordering::Relaxed);
            if !heard.are_runs_over.load(Ordering::Relaxed) {
                stop.requested().await;
            }
            output::finish().await;
            process::exit(INTERRUPTED.into());
        });
        Ok(interrupt)
    }

    pub(super) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// From here on the first one ends all.
    pub(super) fn end_runs(&self) {
        self.are_runs_over.store(true, Ordering::Relaxed);
    }
}
