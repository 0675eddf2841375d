//! Rollouts that a server shares with other replicas.

use tokio::{
    select,
    sync::{mpsc, watch},
};
use xds_core::{
    rollout::{CohortReport, RolloutState, Sharing},
    server::Server,
};

use super::{ServerEnded, ServerHandle};
use crate::server::driver::rollouts::{HostedRollouts, SharedNews};

/// Event of rollouts that replicas share ([`SharedEvents`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedEvent {
    /// Store this state in the source, by compare-and-set: it must directly follow the stored state
    /// in its generation, or be the first one. Answer with [`SharedNews::Stored`].
    Store(RolloutState),
    /// Send these counts to the other replicas. They replace earlier counts, which a slow receiver
    /// may miss.
    Report(CohortReport),
}

/// Stream of the events of rollouts that replicas share ([`ServerHandle::shared_rollouts`]).
#[derive(Debug)]
pub struct SharedEvents {
    states: mpsc::Receiver<RolloutState>,
    report: watch::Receiver<Option<CohortReport>>,
}

impl SharedEvents {
    /// Waits for the next event. Returns `None` once the server has ended or a newer stream exists.
    /// Cancel safe.
    pub async fn next(&mut self) -> Option<SharedEvent> {
        loop {
            select! {
                biased;
                state = self.states.recv() => return state.map(SharedEvent::Store),
                Ok(()) = self.report.changed() => {
                    if let Some(report) = *self.report.borrow_and_update() {
                        return Some(SharedEvent::Report(report));
                    }
                }
            }
        }
    }
}

/// Maximum number of states that wait for the receiver. Further states are stored later.
const WAITING_STATES: usize = 64;

impl ServerHandle {
    /// Returns the stream of what a server with [`Sharing::Replicas`] has to share through its
    /// source. A new stream ends the earlier one. Rollouts do not proceed without a stream.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn shared_rollouts(&self) -> Result<SharedEvents, ServerEnded> {
        let (sender, states) = mpsc::channel(WAITING_STATES);
        let subscribe = move |rollouts: &mut HostedRollouts, _: &mut Server, _| {
            rollouts.states = Some(sender);
            let mut report = rollouts.report.subscribe();
            // The counts are new to this receiver.
            report.mark_changed();
            report
        };
        let report = self.with_rollouts(subscribe).await?;
        Ok(SharedEvents { states, report })
    }

    /// Passes on news from the source. Does nothing with [`Sharing::Alone`].
    ///
    /// # Errors
    ///
    /// Returns an error if the server has ended.
    pub async fn rollout_news(&self, news: SharedNews) -> Result<(), ServerEnded> {
        let note = move |rollouts: &mut HostedRollouts, server: &mut Server, now| {
            if rollouts.sharing == Sharing::Replicas {
                rollouts.note(server, news, now);
            }
        };
        self.with_rollouts(note).await
    }
}
