//! Whether the other end of a connection speaks HTTP/2: what it says first is a SETTINGS frame (RFC 9113, 3.4).

use core::{
    pin::Pin,
    task::{Context, Poll, ready},
};
use std::io::{Error, ErrorKind, IoSlice, Result};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::oneshot,
};

const HEAD: usize = 9;
const SETTINGS: u8 = 4;

/// A connection, and when its other end has said what it has to say first.
pub(crate) fn awaiting_settings<T>(io: T) -> (AwaitingSettings<T>, oneshot::Receiver<()>) {
    let (tell, told) = oneshot::channel();
    (AwaitingSettings { io, stage: Stage::Head([0; HEAD], 0), tell: Some(tell) }, told)
}

/// A connection that tells when SETTINGS were read from it and taken.
#[derive(Debug)]
pub(crate) struct AwaitingSettings<T> {
    io: T,
    stage: Stage,
    tell: Option<oneshot::Sender<()>>,
}

/// How far the first frame was read.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// So many bytes of its head.
    Head([u8; HEAD], usize),
    /// This much is left.
    Payload(usize),
    Read,
}

impl Stage {
    /// With these bytes.
    fn after(self, mut bytes: &[u8]) -> Result<Self> {
        let mut stage = self;
        if let Self::Head(mut head, filled) = stage {
            let taken = bytes.len().min(HEAD.saturating_sub(filled));
            let (own, rest) = bytes.split_at(taken);
            for (to, from) in head.iter_mut().skip(filled).zip(own) {
                *to = *from;
            }
            bytes = rest;
            if filled + taken < HEAD {
                return Ok(Self::Head(head, filled + taken));
            }
            let [a, b, c, kind, flags, stream @ ..] = head;
            if kind != SETTINGS || flags != 0 || stream != [0; 4] {
                let why = "what came first are no SETTINGS of HTTP/2";
                return Err(Error::new(ErrorKind::InvalidData, why));
            }
            stage = Self::Payload(usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c));
        }
        match stage {
            Self::Payload(left) if left > bytes.len() => Ok(Self::Payload(left - bytes.len())),
            _ => Ok(Self::Read),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for AwaitingSettings<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        if self.tell.is_none() {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        // Who reads on was content with what it has read.
        if matches!(self.stage, Stage::Read) {
            if let Some(tell) = self.tell.take() {
                let _ = tell.send(());
            }
            return Pin::new(&mut self.io).poll_read(cx, buf);
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        let new = buf.filled().get(before..).unwrap_or_default();
        self.stage = self.stage.after(new)?;
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for AwaitingSettings<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        sync::oneshot::error::TryRecvError,
    };

    use super::*;

    const SIX: [u8; 15] = [0, 0, 6, SETTINGS, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 9];

    #[tokio::test]
    async fn settings_are_there_when_all_of_them_are() {
        let (mut other, own) = duplex(64);
        let (mut own, mut told) = awaiting_settings(own);
        let mut buf = [0; 64];
        for byte in SIX {
            other.write_all(&[byte]).await.unwrap();
            assert_eq!(own.read(&mut buf).await.unwrap(), 1);
            assert_eq!(told.try_recv(), Err(TryRecvError::Empty));
        }
        other.write_all(b"more").await.unwrap();
        assert_eq!(own.read(&mut buf).await.unwrap(), 4);
        assert_eq!(told.try_recv(), Ok(()));
    }

    #[tokio::test]
    async fn what_comes_first_has_to_be_settings() {
        let acknowledged = [0, 0, 0, SETTINGS, 1, 0, 0, 0, 0];
        let of_a_stream = [0, 0, 0, SETTINGS, 0, 0, 0, 0, 1];
        let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0];
        for first in [&b"HTTP/1.1 400"[..], &acknowledged, &of_a_stream, &ping] {
            let (mut other, own) = duplex(64);
            let (mut own, mut told) = awaiting_settings(own);
            other.write_all(first).await.unwrap();
            let why = own.read(&mut [0; 64]).await.unwrap_err();
            assert_eq!(why.kind(), ErrorKind::InvalidData);
            drop(own);
            assert_eq!(told.try_recv(), Err(TryRecvError::Closed));
        }
    }
}
