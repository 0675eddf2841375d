//! ACKs and NACKs waiting to be sent.

use alloc::sync::Arc;

use crate::text::{Nonce, Version};

/// ACK or NACK of one response.
#[derive(Clone, Debug)]
pub(crate) struct Ack {
    pub(crate) type_index: usize,
    pub(crate) version: Version,
    pub(crate) nonce: Nonce,
    /// Rejected version and error message of a NACK, for this message only.
    // D28
    pub(crate) rejection: Option<(Version, Arc<str>)>,
}
