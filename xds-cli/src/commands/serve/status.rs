//! Detection of changes in the table of subscriptions.

use core::{future::pending, time::Duration};

use tokio::{
    select,
    time::{Instant, sleep_until},
};
use xds_tokio::{ServerHandle, server::Observations};

use crate::server_table::{Row, RowChanges};

/// Time to wait for further changes after one, because a client's first requests arrive together.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Interval of status requests without an observation. A sent response causes no observation.
const POLL: Duration = Duration::from_secs(1);

/// Watcher of the subscriptions of a server.
#[derive(Debug)]
pub(crate) struct Status {
    server: ServerHandle,
    observations: Observations,
    printed: Vec<Row>,
    due: Instant,
}

impl Status {
    pub(crate) fn new(server: ServerHandle) -> Self {
        let observations = server.observations();
        Self { server, observations, printed: Vec::new(), due: Instant::now() + POLL }
    }

    /// Schedules a status request soon, because changed resources cause responses.
    pub(crate) fn note_change(&mut self) {
        self.due = self.due.min(Instant::now() + DEBOUNCE);
    }

    /// Waits until a row has changed, and returns all rows and the changed ones. Cancel safe.
    pub(crate) async fn next(&mut self) -> RowChanges {
        loop {
            select! {
                observed = self.observations.next() => match observed {
                    // Lost observations are a reason to request the status, too.
                    Some(_) => self.note_change(),
                    None => pending().await,
                },
                () = sleep_until(self.due) => {
                    let Ok(snapshots) = self.server.status().await else { pending().await };
                    self.due = Instant::now() + POLL;
                    let rows: Vec<Row> = snapshots.into_iter().map(Row::from).collect();
                    if rows != self.printed {
                        let changes = RowChanges::between(&self.printed, rows);
                        self.printed.clone_from(&changes.rows);
                        return changes;
                    }
                }
            }
        }
    }
}
