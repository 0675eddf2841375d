//! Signals and time limits that stop a command.

use core::{future::pending, time::Duration};
use std::{io, sync::OnceLock};

use tokio::{
    select,
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::failure::Failure;

/// Counter of the interrupt, termination and hangup signals received since the first
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
        // A handler would end the effect of `nohup`.
        let mut hangup = match is_hangup_ignored() {
            true => None,
            false => Some(signal(SignalKind::hangup())?),
        };
        tokio::spawn(async move {
            loop {
                let hung_up = async {
                    match &mut hangup {
                        Some(hangup) => hangup.recv().await,
                        None => pending().await,
                    }
                };
                let received = select! {
                    received = interrupt.recv() => received,
                    received = terminate.recv() => received,
                    received = hung_up => received,
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

/// Whether the process was started with the hangup signal ignored, as `nohup` does. Only Linux
/// reports it.
#[cfg(unix)]
fn is_hangup_ignored() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores_hangup(&status))
}

/// Whether the status of a process, as in `/proc`, has the hangup signal among the ignored ones.
#[cfg(unix)]
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}

/// Returns the end of the time limit; `None` if there is none, or if it exceeds the range
/// of the clock.
fn end(lifetime: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(lifetime?)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn ignored_hangup_is_the_first_bit_of_the_mask() {
        let status = |mask: &str| format!("Name:\txds\nSigBlk:\tffff\nSigIgn:\t{mask}\n");
        assert!(ignores_hangup(&status("0000000000001001")));
        assert!(!ignores_hangup(&status("0000000000001000")));
        assert!(!ignores_hangup("Name:\txds\n"));
    }
}
