//! What goes to a transport: one message in up to three pieces.

use bytes::{Bytes, BytesMut};

/// One encoded message, the concatenation of its three pieces.
///
/// On the server the body is shared by every client that is due the same resources, so that it is
/// encoded once and never copied; head and tail are a few bytes of the single client. An adapter
/// writes the pieces one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame {
    /// The first piece.
    pub head: Bytes,
    /// The piece that may be shared with other clients.
    pub body: Bytes,
    /// The last piece.
    pub tail: Bytes,
}

impl Frame {
    /// The length of the whole message, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len() + self.tail.len()
    }

    /// Whether the message has no bytes at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The message in one piece; copies unless only one piece has bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        let pieces = [&self.head, &self.body, &self.tail];
        let mut filled = pieces.into_iter().filter(|piece| !piece.is_empty());
        match (filled.next(), filled.next()) {
            (None, _) => Bytes::new(),
            (Some(only), None) => only.clone(),
            _ => {
                let mut whole = BytesMut::with_capacity(self.len());
                pieces.into_iter().for_each(|piece| whole.extend_from_slice(piece));
                whole.freeze()
            }
        }
    }
}
