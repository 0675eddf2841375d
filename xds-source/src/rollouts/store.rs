//! Contract of a place for the state of rollouts.

use core::{fmt, str::FromStr, time::Duration};
use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use futures_core::{future::BoxFuture, stream::BoxStream};
use thiserror::Error;
use xds_core::rollout::{CohortReport, PeerNews, RolloutId, RolloutState, StoreResult};

use super::contents::StoredResource;
use crate::contract::SourceError;

/// Result of a call to a [`RolloutStore`].
pub type StoreFuture<'s, T> = BoxFuture<'s, Result<T, SourceError>>;

/// Stream of the news of a [`RolloutStore`].
pub type StoreWatch = BoxStream<'static, Result<StoreNews, SourceError>>;

/// Place for the state of rollouts: a directory, or the source that several servers follow.
///
/// It has one [`RolloutState`], the resources with the numbers that this state names, the rollouts that
/// have ended, and the progress of the one under way. Servers that share it agree on each state by
/// [`replace`](Self::replace), so they need no other connection with each other.
pub trait RolloutStore: fmt::Debug + Send + Sync + 'static {
    /// Whether other servers may use the store at the same time. The number of a change is then its
    /// revision in the source, which they know too.
    fn is_shared(&self) -> bool;

    /// Reads the newest state; `None` if there is none yet. What this returns later is never older.
    fn state(&self) -> StoreFuture<'_, Option<RolloutState>>;

    /// Replaces the state if the stored one has the generation before, or if there is none. A state
    /// that is stored already counts as stored. A final state is added to the history.
    fn replace<'s>(&'s self, state: &'s RolloutState) -> StoreFuture<'s, StoreResult>;

    /// Reads the resources with a number; `None` if there are none. The number 0 has no resources.
    fn contents(&self, id: RolloutId) -> StoreFuture<'_, Option<Vec<StoredResource>>>;

    /// Saves the resources with a number, before a state names it. If a store that is
    /// [shared](Self::is_shared) has some with this number, those stay.
    fn save_contents<'s>(
        &'s self,
        id: RolloutId,
        resources: &'s [StoredResource],
    ) -> StoreFuture<'s, ()>;

    /// Deletes what no later state can name: resources with a number below that of the state,
    /// except its stable ones, and the oldest of the ended rollouts.
    fn clean<'s>(&'s self, state: &'s RolloutState) -> StoreFuture<'s, ()>;

    /// Returns the ended rollouts, the oldest first; at most about [`MAX_ENDED`].
    fn history(&self) -> StoreFuture<'_, Vec<EndedRollout>>;

    /// Returns the progress of the rollout under way, as the servers have reported it.
    fn progress(&self) -> StoreFuture<'_, Vec<ReportedProgress>>;

    /// Replaces the progress that this server has reported, a JSON object.
    fn report_progress<'s>(&'s self, json: &'s str) -> StoreFuture<'s, ()>;

    /// Replaces the counts of this server's clients, for the other servers.
    fn report(&self, report: CohortReport) -> StoreFuture<'_, ()>;

    /// Takes part in the rollouts: as soon as the store can be reached, they continue only with the
    /// counts of this server. The newest counts and progress that were reported before are valid too.
    fn join(&self);

    /// Ends the part of this server, so that the others do not wait for its counts. Call it when the
    /// server ends.
    fn leave(&self) -> StoreFuture<'_, ()>;

    /// Watches the state and the counts of the other servers. Begins with what there is, and ends with
    /// an error, or without one for no stated reason. Watch it again then: what has changed meanwhile
    /// is reported.
    fn watch(&self) -> StoreWatch;
}

/// News of a [`RolloutStore`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreNews {
    /// State of the rollouts.
    State(RolloutState),
    /// News of another server, by its name.
    Replica(Arc<str>, PeerNews),
}

/// Rollout that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedRollout {
    /// Time of the end.
    pub at: SystemTime,
    /// Last state.
    pub state: RolloutState,
}

impl EndedRollout {
    /// Returns what is added to the history with a state that is stored now; `None` if it ends no rollout.
    #[must_use]
    pub fn now(state: &RolloutState) -> Option<Self> {
        let is_ended = state.phase.is_final() && state.steps > 0;
        is_ended.then(|| Self { at: SystemTime::now(), state: state.clone() })
    }
}

/// A line of text: seconds since 1970, and the last state.
impl fmt::Display for EndedRollout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = self.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        write!(f, "{} {}", since.as_secs(), self.state)
    }
}

/// Error of parsing an [`EndedRollout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected seconds since 1970 and the state of a rollout")]
pub struct InvalidEnd;

impl FromStr for EndedRollout {
    type Err = InvalidEnd;

    fn from_str(text: &str) -> Result<Self, InvalidEnd> {
        let parse = || {
            let (seconds, state) = text.split_once(' ')?;
            let at = UNIX_EPOCH.checked_add(Duration::from_secs(seconds.parse().ok()?))?;
            Some(Self { at, state: state.parse().ok()? })
        };
        parse().ok_or(InvalidEnd)
    }
}

/// Progress of a rollout at one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedProgress {
    /// Name of the server; empty if the store has only one.
    pub server: String,
    /// Progress, a JSON object.
    pub json: String,
}

/// Number of ended rollouts that a [`RolloutStore`] keeps.
pub const MAX_ENDED: usize = 1_000;
