//! Settings, events and errors of rollouts on a server.

use thiserror::Error;

use super::{
    machine::RolloutProgress,
    policy::PolicyError,
    shared::CohortReport,
    state::{RolloutId, RolloutState},
};
use crate::server::TransactionError;

/// Data that rollouts keep of the nodes of connected clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeDetail {
    /// No data: a server has the ids. Cohorts can only be shares of all clients.
    #[default]
    Id,
    /// Data that [selectors](crate::selector) look at, for each connected client, also while no
    /// rollout is under way.
    Full,
}

/// Event for the host of rollouts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum RolloutEvent {
    /// Write this state to the source if the stored one has the generation before, or there is none,
    /// and call [`ServerRollouts::stored`](super::ServerRollouts::stored). Only with
    /// [`Sharing::Replicas`](super::Sharing::Replicas).
    Store(RolloutState),
    /// Let the other replicas know these counts. Only with
    /// [`Sharing::Replicas`](super::Sharing::Replicas).
    Report(CohortReport),
    /// A rollout has ended.
    Ended {
        /// Last progress of the rollout.
        progress: RolloutProgress,
        /// Reason for which a completed change could not be applied. All clients see the stable views
        /// without it.
        error: Option<TransactionError>,
    },
}

/// Reason for which a rollout cannot start. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The policy is invalid.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The change is invalid, or there is no room for the candidate views: they have a copy of each
    /// resource of the views that the change concerns, which counts towards
    /// [`ServerLimits::resources`](crate::server::ServerLimits::resources).
    #[error("the change cannot be served: {0}")]
    Change(#[from] TransactionError),
    /// A newer rollout was started already.
    #[error("rollout {id} is older than rollout {newest}, which was started already", id = id.0, newest = newest.0)]
    Older {
        /// Rollout to be started.
        id: RolloutId,
        /// Newest rollout.
        newest: RolloutId,
    },
    /// The stored state belongs to a policy with another number of steps.
    #[error(
        "the stored rollout has {stored} steps and the policy has {own}: use the policy with which \
         it was started"
    )]
    OtherPolicy {
        /// Number of steps in the stored state.
        stored: usize,
        /// Number of steps of the policy.
        own: usize,
    },
}
