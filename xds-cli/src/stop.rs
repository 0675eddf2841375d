//! When a command that runs until it is told to stop is told to.

use core::{future::pending, time::Duration};
use std::io;

use tokio::{
    select,
    time::{Instant, sleep_until},
};

use crate::failure::Failure;

/// The interrupt and termination signals, and the end of the time asked for.
#[derive(Debug)]
pub(crate) struct Stop {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    end: Option<Instant>,
}

impl Stop {
    /// From here on signals no longer kill the process.
    pub(crate) fn after(lifetime: Option<Duration>) -> Result<Self, Failure> {
        Self::catch(lifetime).map_err(Failure::Runtime)
    }

    #[cfg(unix)]
    fn catch(lifetime: Option<Duration>) -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            end: end(lifetime),
        })
    }

    #[cfg(not(unix))]
    fn catch(lifetime: Option<Duration>) -> io::Result<Self> {
        Ok(Self { end: end(lifetime) })
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
        #[cfg(unix)]
        select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = time_is_over => {}
        }
        #[cfg(not(unix))]
        select! {
            // Without the handler the process is killed, which is an end as well.
            Ok(()) = tokio::signal::ctrl_c() => {}
            () = time_is_over => {}
        }
    }
}

/// `None` if that never comes, or lies beyond what the clock can tell.
fn end(lifetime: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(lifetime?)
}
