//! Streams of encoded messages.

use core::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_core::Stream;
use tokio::sync::mpsc;
use tonic::Status;

/// Receiver of a channel as a stream.
pub(super) struct Receiver(pub(super) mpsc::UnboundedReceiver<Result<Bytes, Status>>);

impl Stream for Receiver {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}
