//! Request that a stream has begun to handle.

use bytes::Bytes;

use crate::{server::session::request::progress::RequestProgress, slab::Slot};

/// Request whose answer was applied.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    pub(crate) session: Slot,
    pub(crate) progress: RequestProgress,
    /// Number of the session's names before it.
    pub(crate) names_before: usize,
    /// Number of the stream's names before it.
    pub(crate) stream_names_before: usize,
    /// Bytes of the request.
    pub(crate) message: Bytes,
}
