//! States of a server: whether it serves.

use core::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// State of an [`XdsServer`](super::XdsServer).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServingState {
    /// The port is open.
    Serving,
    /// The port is closed, for this reason.
    NotServing(Arc<str>),
}

impl ServingState {
    /// State before the first configuration.
    pub(super) fn unknown() -> Self {
        Self::NotServing("the listener has not been received yet".into())
    }

    /// Whether the port is open.
    #[must_use]
    pub const fn is_serving(&self) -> bool {
        matches!(self, Self::Serving)
    }
}

impl fmt::Display for ServingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Serving => f.write_str("serving"),
            Self::NotServing(reason) => write!(f, "not serving: {reason}"),
        }
    }
}

/// States of an [`XdsServer`](super::XdsServer), as they change.
#[derive(Clone, Debug)]
pub struct ServingStates(watch::Receiver<ServingState>);

impl ServingStates {
    pub(super) const fn new(states: watch::Receiver<ServingState>) -> Self {
        Self(states)
    }

    /// Returns the current state.
    #[must_use]
    pub fn current(&self) -> ServingState {
        self.0.borrow().clone()
    }

    /// Waits for a state other than the last one that was returned. Intermediate states are skipped.
    /// Returns `None` once the server has ended. Cancel safe.
    pub async fn changed(&mut self) -> Option<ServingState> {
        self.0.changed().await.ok()?;
        Some(self.0.borrow_and_update().clone())
    }

    /// Waits until the server serves. Returns `false` if it has ended. Cancel safe.
    pub async fn serving(&mut self) -> bool {
        self.0.wait_for(ServingState::is_serving).await.is_ok()
    }
}
