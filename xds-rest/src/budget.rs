//! Memory budgets that the transport sets for request bodies and responses.

use core::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use thiserror::Error;

/// Error of a request body that the transport refuses to read further, for example because of a
/// budget. The [gateway](crate::Gateway) responds with its status.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
#[non_exhaustive]
pub struct RefusedBody {
    /// Status of the response.
    pub status: StatusCode,
    /// Text of the response.
    pub reason: String,
}

impl RefusedBody {
    /// Creates the error.
    #[must_use]
    pub fn new(status: StatusCode, reason: impl Into<String>) -> Self {
        Self { status, reason: reason.into() }
    }
}

/// Memory of the responses of a connection.
pub trait ResponseMemory: Send + Sync {
    /// Returns whether there is memory for another response.
    fn has_room(&self) -> bool;

    /// Charges `bytes` to the budget until the returned value and its clones are dropped.
    fn hold(&self, bytes: Bytes) -> Bytes;
}

/// Request extension with the memory budget for the response. Without it, there is no limit.
///
/// The [gateway](crate::Gateway) checks the budget before it prints a response as JSON. Without
/// enough memory, it responds with status 503.
#[derive(Clone)]
pub struct ResponseBudget(Arc<dyn ResponseMemory>);

impl ResponseBudget {
    /// Creates the extension.
    pub fn new(memory: impl ResponseMemory + 'static) -> Self {
        Self(Arc::new(memory))
    }

    pub(crate) fn memory(&self) -> &dyn ResponseMemory {
        &*self.0
    }
}

impl fmt::Debug for ResponseBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseBudget")
    }
}
