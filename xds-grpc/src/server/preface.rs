//! Whether a client has begun to speak HTTP/2. Before it has, no ping asks whether it is still there.

use core::{
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::{
    io::{self, IoSlice},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

/// How long that is with which a client begins.
const LENGTH: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();

/// A connection on which the first bytes are counted.
#[derive(Debug)]
pub(super) struct Counted<T> {
    io: T,
    /// How many of them have yet to come.
    missing: usize,
    begun: Begun,
}

/// Whether all of them have come.
#[derive(Clone, Debug, Default)]
pub(super) struct Begun(Arc<AtomicBool>);

impl<T> Counted<T> {
    pub(super) fn new(io: T) -> (Self, Begun) {
        let begun = Begun::default();
        (Self { io, missing: LENGTH, begun: begun.clone() }, begun)
    }
}

impl Begun {
    pub(super) fn is_so(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl<T: Read + Unpin> Read for Counted<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.missing == 0 {
            return Pin::new(&mut this.io).poll_read(cx, into);
        }
        let mut space = [MaybeUninit::uninit(); LENGTH];
        let room = this.missing.min(into.remaining());
        let mut first = ReadBuf::uninit(&mut space[..room]);
        ready!(Pin::new(&mut this.io).poll_read(cx, first.unfilled()))?;
        into.put_slice(first.filled());
        this.missing -= first.filled().len();
        this.begun.0.store(this.missing == 0, Ordering::Relaxed);
        Poll::Ready(Ok(()))
    }
}

impl<T: Write + Unpin> Write for Counted<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }
}
