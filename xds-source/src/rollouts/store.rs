//! Contract of a store for the state of rollouts.

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

/// Future of a call to a [`RolloutStore`].
pub type StoreFuture<'s, T> = BoxFuture<'s, Result<T, SourceError>>;

/// Stream of changes in a [`RolloutStore`].
pub type StoreWatch = BoxStream<'static, Result<StoreNews, SourceError>>;

/// Store for the state of rollouts: a directory, or the source that several servers follow.
///
/// It contains one [`RolloutState`], the resources of the rollouts that this state refers to, the
/// rollouts that have ended, and the progress of the current one. Servers that share a store agree
/// on each state through the compare-and-set of [`replace`](Self::replace), so they need no
/// connection to each other.
pub trait RolloutStore: fmt::Debug + Send + Sync + 'static {
    /// Returns whether other servers may use the store at the same time. If so, the id of a rollout
    /// is the revision of its change in the source, which all servers know.
    fn is_shared(&self) -> bool;

    /// Reads the newest state; `None` if there is none yet. A later call never returns an older
    /// state.
    fn state(&self) -> StoreFuture<'_, Option<RolloutState>>;

    /// Replaces the state if it directly follows the stored one: its generation is one higher, or
    /// nothing is stored. Storing the stored state again succeeds. A final state is also added to
    /// the history.
    fn replace<'s>(&'s self, state: &'s RolloutState) -> StoreFuture<'s, StoreResult>;

    /// Reads the resources of a rollout; `None` if none are stored. Id 0 never has resources.
    fn contents(&self, id: RolloutId) -> StoreFuture<'_, Option<Vec<StoredResource>>>;

    /// Saves the resources of a rollout. Call this before storing a state that refers to the
    /// rollout. A [shared](Self::is_shared) store keeps resources that it already has for this id.
    fn save_contents<'s>(
        &'s self,
        id: RolloutId,
        resources: &'s [StoredResource],
    ) -> StoreFuture<'s, ()>;

    /// Deletes what no later state can refer to: the resources of rollouts before `state.id`,
    /// except `state.stable`, and the oldest of the ended rollouts.
    fn clean<'s>(&'s self, state: &'s RolloutState) -> StoreFuture<'s, ()>;

    /// Returns the ended rollouts, oldest first; at most about [`MAX_ENDED`].
    fn history(&self) -> StoreFuture<'_, Vec<EndedRollout>>;

    /// Returns the progress of the current rollout, as reported by each server.
    fn progress(&self) -> StoreFuture<'_, Vec<ReportedProgress>>;

    /// Replaces the progress that this server has reported. `json` is a JSON object.
    fn report_progress<'s>(&'s self, json: &'s str) -> StoreFuture<'s, ()>;

    /// Publishes the counts of this server's clients to the other servers, replacing earlier ones.
    fn report(&self, report: CohortReport) -> StoreFuture<'_, ()>;

    /// Registers this server as a participant: once the store is reachable, rollouts do not
    /// continue without the counts of this server. Counts and progress reported before this call
    /// are published too.
    fn join(&self);

    /// Unregisters this server, so that the others do not wait for its counts. Call it when the
    /// server shuts down.
    fn leave(&self) -> StoreFuture<'_, ()>;

    /// Watches the state and the counts of the other servers, beginning with the current ones. The
    /// stream ends with an error, or without one if the store closes the watch without a reason.
    /// Watch again then: changes in between are reported.
    fn watch(&self) -> StoreWatch;
}

/// Change in a [`RolloutStore`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreNews {
    /// State of the rollouts.
    State(RolloutState),
    /// Name of another server, and what it reported.
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
    /// Returns the history entry for a state that is stored now; `None` if the state is not final.
    #[must_use]
    pub fn now(state: &RolloutState) -> Option<Self> {
        let is_ended = state.phase.is_final() && state.steps > 0;
        is_ended.then(|| Self { at: SystemTime::now(), state: state.clone() })
    }
}

/// Prints one line: seconds since 1970, and the last state.
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
