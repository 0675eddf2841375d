//! When a command that runs until it is told to stop is told to.

use core::{future::pending, time::Duration};
use std::{io, sync::OnceLock};

use tokio::{
    select,
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::failure::Failure;

/// How many interrupt and termination signals the process has received since it listens to them.
#[derive(Clone, Debug)]
pub(crate) struct Signals(watch::Receiver<u64>);

static SIGNALS: OnceLock<Signals> = OnceLock::new();

impl Signals {
    /// Starts to count signals, which no longer kill the process from then on. Later calls return the same count.
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
            // Without the handler the process is killed, which is an end as well.
            while tokio::signal::ctrl_c().await.is_ok() {
                count.send_modify(|count| *count += 1);
            }
        });
        Ok(())
    }

    /// The number of signals until now. [`next`](Self::next) waits for a later one.
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

/// The interrupt and termination signals, and the end of the time asked for.
#[derive(Debug)]
pub(crate) struct Stop {
    signals: Signals,
    end: Option<Instant>,
}

impl Stop {
    /// From here on signals no longer kill the process.
    pub(crate) fn after(lifetime: Option<Duration>) -> Result<Self, Failure> {
        let signals = Signals::listen().map_err(Failure::Runtime)?;
        Ok(Self { signals, end: end(lifetime) })
    }

    /// Waits until it is time to stop. Cancel safe.
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

/// `None` if that never comes, or lies beyond what the clock can tell.
fn end(lifetime: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(lifetime?)
}
