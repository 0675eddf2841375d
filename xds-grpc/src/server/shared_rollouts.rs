//! Rollouts that a server shares with other replicas.

use std::sync::Arc;

use tokio::{
    select,
    sync::{mpsc, watch},
};
use xds_core::{
    rollout::{CohortReport, PeerNews, RolloutState, Sharing, StoreResult},
    server::Server,
};

use super::{
    handle::{ServerEnded, ServerHandle},
    rollouts::HostedRollouts,
};

/// Event of rollouts that replicas share ([`SharedEvents`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedEvent {
    /// Replace the state in the source by this one, if the stored one has the generation before, or
    /// if there is none. Answer with [`SharedNews::Stored`].
    Store(RolloutState),
    /// Pass these counts on to the other replicas. They replace earlier ones, which a slow receiver
    /// may not get.
    Report(CohortReport),
}

/// News from the source of rollouts that replicas share ([`ServerHandle::rollout_news`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SharedNews {
    /// Result of storing a state ([`SharedEvent::Store`]).
    Stored(RolloutState, StoreResult),
    /// State that was read from the source. A [command](RolloutState::commanded) is one too.
    Observed(RolloutState),
    /// News of another replica, by its name.
    Replica(Arc<str>, PeerNews),
}

/// Stream of the events of rollouts that replicas share ([`ServerHandle::shared_rollouts`]).
#[derive(Debug)]
pub struct SharedEvents {
    states: mpsc::Receiver<RolloutState>,
    report: watch::Receiver<Option<CohortReport>>,
}

impl SharedEvents {
    /// Waits for the next event; `None` once the server has ended, or if there is a newer receiver.
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

/// Number of states that wait for their receiver. A state for which there is no room is stored later.
const WAITING_STATES: usize = 64;

impl ServerHandle {
    /// Returns the stream of what a server with [`Sharing::Replicas`] has to share through its source.
    /// A new stream replaces an earlier one. Without a stream, no rollout continues.
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

    /// Passes on news from the source. Without effect with [`Sharing::Alone`].
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
