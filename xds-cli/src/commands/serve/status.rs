//! When the table of subscriptions is worth printing again.

use core::{future::pending, time::Duration};

use tokio::{
    select,
    time::{Instant, sleep_until},
};
use xds_tokio::{ServerHandle, server::Observations};

use crate::server_table::{Row, RowChanges};

/// How long to wait for more after something happened. A client's first requests come together.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// How often to look unasked: that a response was sent is told by nobody.
const LOOK: Duration = Duration::from_secs(1);

/// Watches the subscriptions of a server.
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
        Self { server, observations, printed: Vec::new(), due: Instant::now() + LOOK }
    }

    /// The resources have changed, so responses are about to be sent.
    pub(crate) fn note_change(&mut self) {
        self.due = self.due.min(Instant::now() + DEBOUNCE);
    }

    /// All rows, once any of them is not as it was, and which are not. Cancel safe.
    pub(crate) async fn next(&mut self) -> RowChanges {
        loop {
            select! {
                observed = self.observations.next() => match observed {
                    // Also if observations were lost: that they were is enough to know.
                    Some(_) => self.note_change(),
                    None => pending().await,
                },
                () = sleep_until(self.due) => {
                    let Ok(snapshots) = self.server.status().await else { pending().await };
                    self.due = Instant::now() + LOOK;
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
