//! What goes to a transport: one message in up to two pieces.

use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};

/// One encoded message, the concatenation of its two pieces.
///
/// On the server the body is shared by every client that is due the same resources, so that it is
/// encoded once and never copied; the head is a few bytes of the single client, in a buffer that
/// the next message uses again if it is left where it is. An adapter writes one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// The first piece.
    pub head: Vec<u8>,
    /// The piece that may be shared with other clients.
    pub body: Bytes,
}

impl Frame {
    /// The length of the whole message, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Whether the message has no bytes at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The message in one piece; copies unless only one piece has bytes.
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
