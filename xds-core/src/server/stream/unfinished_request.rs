//! Request that a stream has begun to handle.

use bytes::Bytes;

use super::rejection_log::AnswerKind;
use crate::{
    server::{session::request::progress::RequestProgress, store::revision::Revision},
    slab::Slot,
};

/// Request whose answer was applied.
#[derive(Debug)]
pub(crate) struct OpenRequest {
    pub(crate) session: Slot,
    pub(crate) progress: RequestProgress,
    pub(crate) answer: AnswerKind,
    /// Whether it was counted as an ACK or NACK, or as stale or bogus.
    pub(crate) is_counted: bool,
    /// Wildcard cursor before and after the response that it ACKs.
    pub(crate) accepted: Option<(Revision, Revision)>,
    /// Number of the session's names before it.
    pub(crate) names_before: usize,
    /// Number of the stream's names before it.
    pub(crate) stream_names_before: usize,
    /// Bytes of the request.
    pub(crate) message: Bytes,
}
