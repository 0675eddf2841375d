//! Signals and time limits that stop a command.

use core::{future::pending, time::Duration};
use std::{
    io,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
};

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

    /// Waits for a signal that the command does not handle: one that arrives while there is no
    /// [`Stop`], or the second one. Cancel safe.
    pub(crate) async fn unhandled(&mut self) {
        loop {
            self.next().await;
            if self.count() > 1 || STOPS.load(Ordering::SeqCst) == 0 {
                return;
            }
        }
    }
}

/// Number of existing [`Stop`]s.
static STOPS: AtomicUsize = AtomicUsize::new(0);

/// First signal, and the time limit of `--for`. While it exists, the command ends itself after a
/// signal, and must not block the thread; otherwise a signal ends the process.
#[derive(Debug)]
pub(crate) struct Stop {
    signals: Signals,
    limit: TimeLimit,
}

impl Stop {
    /// Starts the time, and handles signals from now on.
    pub(crate) fn after(lifetime: Option<Duration>) -> Result<Self, Failure> {
        let signals = Signals::listen().map_err(Failure::Runtime)?;
        STOPS.fetch_add(1, Ordering::SeqCst);
        Ok(Self { signals, limit: TimeLimit::after(lifetime) })
    }

    /// Waits for a signal or for the end of the time limit. Cancel safe.
    pub(crate) async fn requested(&mut self) {
        select! {
            () = self.signals.next() => {}
            () = self.limit.over() => {}
        }
    }
}

impl Drop for Stop {
    fn drop(&mut self) {
        STOPS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// End of a time limit; `None` if there is none, or if it exceeds the range of the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeLimit(Option<Instant>);

impl TimeLimit {
    /// Starts the time.
    pub(crate) fn after(length: Option<Duration>) -> Self {
        Self(length.and_then(|length| Instant::now().checked_add(length)))
    }

    /// Waits for the end. Cancel safe.
    pub(crate) async fn over(self) {
        match self.0 {
            Some(end) => sleep_until(end).await,
            None => pending().await,
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
