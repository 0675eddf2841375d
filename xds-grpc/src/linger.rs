//! Shutdown of a connection on which the client may still send.

use core::{
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use std::io::{self, IoSlice};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Sleep, Timer as _, Write};

use crate::runtime::SharedRuntime;

/// Maximum time for the shutdown of a connection.
const LINGER: Duration = Duration::from_secs(1);
/// Maximum number of bytes that are read during the shutdown.
const LINGER_BYTES: usize = 256 << 10;

/// Maximum number of bytes that are read at once.
const CHUNK: usize = 4 << 10;

/// I/O wrapper whose shutdown also reads, within limits, until the client has closed its direction
/// of the connection.
///
/// If a connection is closed with unread data, the operating system resets it, and the client may
/// not receive what was sent last: the TLS alert, HTTP/2 GOAWAY or HTTP/1 response with the reason.
pub(crate) struct LingerIo<T> {
    io: T,
    runtime: SharedRuntime,
    /// Set once the shutdown has begun.
    linger: Option<Linger>,
}

struct Linger {
    /// Completes when the shutdown has taken too long.
    late: Pin<Box<dyn Sleep>>,
    is_closed_for_sending: bool,
    /// Number of bytes that may still be read; 0 when the shutdown is over.
    bytes_left: usize,
}

impl<T> LingerIo<T> {
    pub(crate) fn new(io: T, runtime: &SharedRuntime) -> Self {
        Self { io, runtime: runtime.clone(), linger: None }
    }
}

impl Linger {
    /// Completes when both directions are closed, or a limit is reached.
    fn poll<T>(&mut self, io: &mut T, cx: &mut Context<'_>) -> Poll<io::Result<()>>
    where
        T: Read + Write + Unpin,
    {
        while self.bytes_left > 0 {
            if self.late.as_mut().poll(cx).is_ready() {
                self.bytes_left = 0;
                break;
            }
            if !self.is_closed_for_sending {
                ready!(Pin::new(&mut *io).poll_shutdown(cx))?;
                self.is_closed_for_sending = true;
            }
            let mut space = [MaybeUninit::uninit(); CHUNK];
            let mut chunk = ReadBuf::uninit(&mut space);
            ready!(Pin::new(&mut *io).poll_read(cx, chunk.unfilled()))?;
            match chunk.filled().len() {
                0 => self.bytes_left = 0,
                count => self.bytes_left = self.bytes_left.saturating_sub(count),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: Read + Unpin> Read for LingerIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, into)
    }
}

impl<T: Read + Write + Unpin> Write for LingerIo<T> {
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
        let Self { io, runtime, linger } = &mut *self;
        let linger = linger.get_or_insert_with(|| Linger {
            late: runtime.sleep(LINGER),
            is_closed_for_sending: false,
            bytes_left: LINGER_BYTES,
        });
        linger.poll(io, cx)
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
    use super::*;

    /// Client that does not close its direction: it sends without end, or nothing.
    struct Peer {
        is_silent: bool,
        read: usize,
    }

    impl Read for Peer {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            mut into: ReadBufCursor<'_>,
        ) -> Poll<io::Result<()>> {
            if self.is_silent {
                return Poll::Pending;
            }
            self.read += into.remaining();
            into.put_slice(&vec![7; into.remaining()]);
            Poll::Ready(Ok(()))
        }
    }

    impl Write for Peer {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    struct Timer(bool);

    impl Future for Timer {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            if self.0 { Poll::Ready(()) } else { Poll::Pending }
        }
    }

    impl Sleep for Timer {}

    #[test]
    fn shutdown_ends_after_256_kib_or_a_second() {
        let poll = |peer: &mut Peer, is_late| {
            let late = Box::pin(Timer(is_late));
            let mut linger =
                Linger { late, is_closed_for_sending: false, bytes_left: LINGER_BYTES };
            linger.poll(peer, &mut Context::from_waker(core::task::Waker::noop()))
        };
        let mut endless = Peer { is_silent: false, read: 0 };
        assert!(poll(&mut endless, false).is_ready());
        assert_eq!(endless.read, 256 << 10);
        let mut silent = Peer { is_silent: true, read: 0 };
        assert!(poll(&mut silent, false).is_pending());
        assert!(poll(&mut silent, true).is_ready());
    }
}
