//! ACKs and NACKs that wait to be sent.

use alloc::sync::Arc;

use crate::text::{Nonce, Version};

/// The answer to one response.
#[derive(Clone, Debug)]
pub(crate) struct Ack {
    pub(crate) type_index: usize,
    pub(crate) version: Version,
    pub(crate) nonce: Nonce,
    /// In a NACK, the rejected version and what was wrong. It belongs to this message alone (D28).
    pub(crate) rejection: Option<(Version, Arc<str>)>,
}
