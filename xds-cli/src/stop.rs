//! Signals and time limits that stop a command.

use core::{future::pending, time::Duration};
use std::{io, sync::OnceLock};

use tokio::{
    select,
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::failure::Failure;

/// Counter of the interrupt and termination signals received since the first
/// call of [`Signals::listen`].
#[derive(Clone, Debug)]
pub(crate) struct Signals(watch::Receiver<u64>);

static SIGNALS: OnceLock<Signals> = OnceLock::new();

impl Signals {
    /// Starts counting signals, which no longer kill the process. Later calls return
    /// the same counter.
    pub(crate) fn listen() -> io::Result<Self> {
        if let Some(signals) = SIGNALS.get() {
            return Ok(signals.clone());
        }
        let (count, counted) = watch::channel(0);
        Self::forward(count)?;
        Ok(SIGNALS.get_or_init(|| Self(counted)).clone())
    }

    #[cfg(unix)]
    fn forward(count: watch::Sender<u64>) -> io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};

        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::spawn(async move {
            loop {
                let received = select! {
                    received = interrupt.recv() => received,
                    received = terminate.recv() => received,
                };
                if received.is_none() {
                    return;
                }
                count.send_modify(|count| *count += 1);
            }
        });
        Ok(())
    }

    #[cfg(not(unix))]
    fn forward(count: watch::Sender<u64>) -> io::Result<()> {
        tokio::spawn(async move {
            // If the handler fails, the next signal kills the process, which also stops it.
            while tokio::signal::ctrl_c().await.is_ok() {
                count.send_modify(|count| *count += 1);
            }
        });
        Ok(())
    }

    /// Number of signals so far. [`next`](Self::next) waits for a later one.
    pub(crate) fn count(&mut self) -> u64 {
        *self.0.borrow_and_update()
    }

    /// Waits for a signal that was neither counted nor waited for before. Cancel safe.
    pub(crate) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            pending().await
        }
    }
}

/// Signals and the time limit of `--for`.
#[derive(Debug)]
pub(crate) struct Stop {
    signals: Signals,
    end: Option<Instant>,
}

impl Stop {
    /// Starts catching signals, which no longer kill the process.
    pub(crate) fn after(lifetime: Option<Duration>) -> Result<Self, Failure> {
        let signals = Signals::listen().map_err(Failure::Runtime)?;
        Ok(Self { signals, end: end(lifetime) })
    }

    /// Waits for a signal or for the end of the time limit. Cancel safe.
    pub(crate) async fn requested(&mut self) {
        let end = self.end;
        let time_is_over = async {
            match end {
                Some(end) => sleep_until(end).await,
                None => pending().await,
            }
        };
        select! {
            () = self.signals.next() => {}
            () = time_is_over => {}
        }
    }
}

/// Returns the end of the time limit; `None` if there is none, or if it exceeds the range
/// of the clock.
fn end(lifetime: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(lifetime?)
}
