//! Encoded message for a transport, in up to two pieces.

use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

/// Encoded message: the concatenation of its two pieces.
///
/// On the server the body is shared by all clients that are due the same resources, so it is
/// encoded once and never copied. The head is a few bytes for one client; its buffer is reused for
/// the next message if the driver leaves it in place. An adapter writes the head, then the body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// First piece.
    pub head: Vec<u8>,
    /// Second piece, which may be shared with other clients.
    pub body: Bytes,
}

impl Frame {
    /// Returns the length of the message in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Whether the message has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the message as one buffer. Copies unless `head` is empty.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        if self.body.is_empty() {
            return Bytes::copy_from_slice(&self.head);
        }
        if self.head.is_empty() {
            return self.body.clone();
        }
        let mut whole = BytesMut::with_capacity(self.len());
        whole.extend_from_slice(&self.head);
        whole.extend_from_slice(&self.body);
        whole.freeze()
    }
}
