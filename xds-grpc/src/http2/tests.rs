use std::collections::VecDeque;

use super::{
    frames::{DATA, END_STREAM, GOAWAY, HEADERS, RST_STREAM, SETTINGS},
    *,
};

const SIX: [u8; 15] = [0, 0, 6, SETTINGS, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 9];

/// Connection that delivers pieces of data. `None` is its end.
struct Pieces(VecDeque<Option<Vec<u8>>>);

impl Pieces {
    fn new(pieces: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Self(pieces.into_iter().map(Some).collect())
    }

    fn ended(mut self) -> Self {
        self.0.push_back(None);
        self
    }
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.0.pop_front() {
            Some(Some(piece)) => buf.put_slice(&piece),
            Some(None) => {}
            None => return Poll::Pending,
        }
        Poll::Ready(Ok(()))
    }
}

fn read<T: AsyncRead + Unpin>(io: &mut Http2Io<T>) -> Poll<io::Result<usize>> {
    let mut space = [0; 256];
    let mut buf = ReadBuf::new(&mut space);
    let mut cx = Context::from_waker(core::task::Waker::noop());
    ready!(Pin::new(io).poll_read(&mut cx, &mut buf))?;
    Poll::Ready(Ok(buf.filled().len()))
}

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("short");
    let mut frame = vec![0, 0, length, kind, flags, 0, 0, 0, 1];
    frame.extend(payload);
    frame
}

#[test]
fn connection_is_open_after_settings_are_read() {
    let pieces = SIX.map(|byte| vec![byte]).into_iter().chain([b"more".to_vec()]);
    let (mut io, mut opening) = expect_settings(Pieces::new(pieces), Protection::Plaintext);
    for _ in SIX {
        assert!(matches!(read(&mut io), Poll::Ready(Ok(1))));
        assert!((&mut opening).now_or_never().is_none());
    }
    assert!(matches!(read(&mut io), Poll::Ready(Ok(4))));
    assert_eq!((&mut opening).now_or_never(), Some(Ok(())));
}

#[test]
fn undefined_settings_flags_and_reserved_bit_are_ignored() {
    let settings = vec![0, 0, 0, SETTINGS, 0xfe, 0x80, 0, 0, 0];
    for pieces in [vec![settings.clone()], settings.iter().map(|&byte| vec![byte]).collect()] {
        let (mut io, opening) = expect_settings(Pieces::new(pieces), Protection::Plaintext);
        while let Poll::Ready(read) = read(&mut io) {
            read.expect("it is HTTP/2");
        }
        assert_eq!(opening.now_or_never(), Some(Ok(())));
    }
}

#[test]
fn non_http2_peer_error_describes_what_it_sent() {
    let settings = |flags, stream| vec![0, 0, 0, SETTINGS, flags, 0, 0, 0, stream];
    let plain = Protection::Plaintext;
    for (first, protection, words) in [
        (b"HTTP/1.1 400 Bad Request\r\nx".to_vec(), plain, "HTTP/1 (\"HTTP/1.1 400 Bad Request\")"),
        (b"HTTP/1.1 400 Bad Request\r\n".to_vec(), plain, "an HTTP/1 port, or a TLS port?"),
        (b"HTTP/1.1 200 OK\r\n".to_vec(), Protection::Tls, "is it an HTTP/1 port?"),
        (vec![0x15, 3, 3, 0, 2, 2, 70], plain, "connect with TLS credentials"),
        (vec![0x15, 3, 3, 0, 2, 2, 70], Protection::Tls, "15 03"),
        (settings(1, 0), plain, "00 00 00 04 01 00 00 00 00"),
        (settings(0xff, 0), plain, "00 00 00 04 ff 00 00 00 00"),
        (settings(0, 1), plain, "is it the port of a gRPC server, or a TLS port?"),
        (vec![0, 0, 8, 6, 0, 0, 0, 0, 0], Protection::Tls, "is it the port of a gRPC server?"),
        (b"SSH-2.0-x\r\n".to_vec(), plain, "53 53 48"),
        (b"220".to_vec(), plain, "32 32 30"),
        (vec![], plain, "is it a TLS port, or does the server refuse further connections?"),
    ] {
        // In one piece, and byte by byte.
        let bytes = first.iter().map(|&byte| vec![byte]).collect();
        for (pieces, is_whole) in [(vec![first.clone()], true), (bytes, false)] {
            let (mut io, opening) = expect_settings(Pieces::new(pieces).ended(), protection);
            while let Poll::Ready(Ok(1..)) = read(&mut io) {}
            let Some(Err(Some(why))) = opening.now_or_never() else { panic!("{first:?}") };
            let why = why.to_string();
            assert!(why.contains(words) || !is_whole && why.contains("HTTP/1"), "{why}");
        }
    }
}

#[test]
fn connection_lost_before_settings_has_no_specific_failure() {
    let (io, mut opening) = expect_settings(Pieces::new([]), Protection::Plaintext);
    assert_eq!(opening.failure(), None);
    drop(io);
    assert_eq!(opening.now_or_never(), Some(Err(None)));
}

#[test]
fn end_of_stream_is_noticed_behind_unread_data() {
    let beginning =
        || [SIX.to_vec(), frame(HEADERS, 4, b"head"), frame(DATA, 0, b"message")].concat();
    for (last, is_end) in [
        (frame(HEADERS, 4 | END_STREAM, b"trailers"), true),
        (frame(DATA, END_STREAM, b""), true),
        (frame(RST_STREAM, 0, &[0; 4]), true),
        // Other frames with the same flag bit, or with such bytes in their payload.
        (frame(SETTINGS, 1, b""), false),
        (frame(6, 1, &[0; 8]), false),
        (frame(DATA, 0, b"\x00\x00\x00\x00\x01\x00\x00\x00\x01"), false),
    ] {
        let whole = [beginning(), last].concat();
        for size in [1, 2, 7, 10, whole.len()] {
            let pieces = Pieces::new(whole.chunks(size).map(<[u8]>::to_vec));
            let (mut io, _, end) = expect_one_call(pieces, Protection::Plaintext);
            while let Poll::Ready(read) = read(&mut io) {
                read.expect("it is HTTP/2");
            }
            let ended = || end.poll(&Context::from_waker(core::task::Waker::noop())).is_ready();
            assert_eq!(ended(), is_end, "{whole:?} in pieces of {size}");
            drop(io);
            assert!(ended(), "with its connection");
        }
    }
}

#[test]
fn go_away_is_noticed_before_the_last_stream_ends() {
    let first = [SIX.to_vec(), frame(HEADERS, 4, b"head")].concat();
    let whole = [first.clone(), frame(GOAWAY, 0, &[0; 8])].concat();
    for size in [1, 7, whole.len()] {
        for (bytes, is_going) in [(&first, false), (&whole, true)] {
            let pieces = Pieces::new(bytes.chunks(size).map(<[u8]>::to_vec));
            let (mut io, _opening) = expect_settings(pieces, Protection::Plaintext);
            let mut go_away = io.go_away();
            while let Poll::Ready(read) = read(&mut io) {
                read.expect("it is HTTP/2");
            }
            assert_eq!((&mut go_away).now_or_never().is_some(), is_going, "in pieces of {size}");
            drop(io);
            assert!(is_going || go_away.now_or_never().is_some(), "with its connection");
        }
    }
}
