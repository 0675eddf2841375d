//! Sizes of messages: the bytes of a body without the five bytes before each message.

use core::{
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll},
};
use std::sync::Arc;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tonic::{Status, body::Body};

/// Bytes before each message: a flag, and the length.
const HEADER: usize = 5;

/// Sum of the sizes of messages in a sequence of bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct MessageBytes {
    /// Bytes of an incomplete header.
    header: [u8; HEADER],
    /// Number of these bytes.
    header_bytes: usize,
    /// Remaining bytes of the current message.
    rest: u64,
    pub(super) total: u64,
}

impl MessageBytes {
    pub(super) fn add(&mut self, mut bytes: &[u8]) {
        while let Some((first, others)) = bytes.split_first() {
            if self.rest > 0 {
                let part = bytes.len().min(usize::try_from(self.rest).unwrap_or(usize::MAX));
                self.rest -= part as u64;
                self.total = self.total.saturating_add(part as u64);
                bytes = bytes.get(part..).unwrap_or_default();
                continue;
            }
            if let Some(place) = self.header.get_mut(self.header_bytes) {
                *place = *first;
            }
            self.header_bytes += 1;
            bytes = others;
            if self.header_bytes == HEADER {
                let [_, length @ ..] = self.header;
                (self.header_bytes, self.rest) = (0, u32::from_be_bytes(length).into());
            }
        }
    }
}

/// Returns a body whose message bytes are counted when they are sent.
pub(super) fn counted(body: Body, total: &Arc<AtomicU64>) -> Body {
    Body::new(CountedBody { body, bytes: MessageBytes::default(), total: Arc::clone(total) })
}

struct CountedBody {
    body: Body,
    bytes: MessageBytes,
    total: Arc<AtomicU64>,
}

impl http_body::Body for CountedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
        {
            this.bytes.add(data);
            this.total.store(this.bytes.total, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_before_messages_do_not_count() {
        let mut sent = Vec::new();
        for length in [3_u32, 0, 300] {
            sent.push(0);
            sent.extend(length.to_be_bytes());
            sent.resize(sent.len() + length as usize, 7);
        }
        for chunk in [1, 2, 5, 7, 1_000] {
            let mut bytes = MessageBytes::default();
            sent.chunks(chunk).for_each(|chunk| bytes.add(chunk));
            assert_eq!(bytes.total, 303, "{chunk}");
        }
    }
}
