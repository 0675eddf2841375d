//! Yields of a connection that always has data to read.

use core::{
    pin::Pin,
    task::{Context, Poll},
};
use std::io::{self, IoSlice};

use hyper::rt::{Read, ReadBufCursor, Write};

/// Number of bytes after which a connection lets other tasks run.
///
/// Processing a frame of 15 bytes can take time proportional to the number of open streams. An
/// HTTP/2 stack that processes everything that has arrived would block a thread for long.
const BYTES_BETWEEN_PAUSES: usize = 16 << 10;

/// I/O wrapper that yields to other tasks after about each 16 KiB that are read without waiting.
#[derive(Debug)]
pub(crate) struct FairIo<T> {
    io: T,
    /// Maximum number of bytes read since the last wait.
    bytes: usize,
}

impl<T> FairIo<T> {
    pub(crate) fn new(io: T) -> Self {
        Self { io, bytes: 0 }
    }
}

impl<T: Read + Unpin> Read for FairIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bytes >= BYTES_BETWEEN_PAUSES {
            self.bytes = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let room = into.remaining();
        let read = Pin::new(&mut self.io).poll_read(cx, into);
        self.bytes = if read.is_ready() { self.bytes.saturating_add(room) } else { 0 };
        read
    }
}

impl<T: Write + Unpin> Write for FairIo<T> {
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

#[cfg(test)]
mod tests {
    use core::mem::MaybeUninit;

    use hyper::rt::ReadBuf;

    use super::*;

    /// Source that always has data.
    struct Endless;

    impl Read for Endless {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            mut into: ReadBufCursor<'_>,
        ) -> Poll<io::Result<()>> {
            into.put_slice(&vec![7; into.remaining()]);
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn endless_data_pauses_every_16_kib() {
        let mut io = FairIo::new(Endless);
        let mut cx = Context::from_waker(core::task::Waker::noop());
        let mut space = [MaybeUninit::uninit(); 4 << 10];
        let mut poll = || {
            let mut into = ReadBuf::uninit(&mut space);
            Pin::new(&mut io).poll_read(&mut cx, into.unfilled()).is_ready()
        };
        for _ in 0..3 {
            assert_eq!([poll(), poll(), poll(), poll(), poll()], [true, true, true, true, false]);
        }
    }
}
