//! Invalid gRPC frames and invalid HTTP/2 data.

use core::future::poll_fn;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::{Duration, sleep},
};
use tonic::Code;
use tower_service::Service as _;

use crate::{
    hostile::{Witnesses, start},
    support::{AGGREGATED, connect, server::streams, soon},
};

/// Sends a raw request body and returns the status.
async fn raw_body(address: SocketAddr, body: impl Into<Bytes>) -> (i32, String) {
    let mut channel = connect(address).await;
    soon(poll_fn(|cx| channel.poll_ready(cx))).await.unwrap();
    let request = http::Request::post(format!("http://{address}{AGGREGATED}"))
        .header("content-type", "application/grpc")
        .body(tonic::body::Body::new(Full::new(body.into())))
        .unwrap();
    let response = soon(channel.call(request)).await.unwrap();
    let headers = response.headers().clone();
    let trailers = soon(response.into_body().collect()).await.unwrap().trailers().cloned();
    let said = trailers.unwrap_or(headers);
    let text = |name: &str| said.get(name).map(|it| it.to_str().unwrap().to_owned());
    (text("grpc-status").unwrap().parse().unwrap(), text("grpc-message").unwrap_or_default())
}

#[tokio::test]
async fn invalid_grpc_frame_ends_only_its_stream() {
    let running = start().await;
    let mut witnesses = Witnesses::of(&running).await;
    for (what, body, code, text) in [
        (
            "a frame that ends too early",
            &b"\0\0\0\0\x63only this"[..],
            Code::InvalidArgument,
            "undeliverable",
        ),
        ("a prefix cut short", b"\0\0\0", Code::InvalidArgument, "undeliverable"),
        ("compressed without a word", b"\x01\0\0\0\x01x", Code::InvalidArgument, "compress"),
        ("a flag that is none", b"\x07\0\0\0\x01x", Code::InvalidArgument, "flag"),
        ("four gigabytes announced", b"\0\xff\xff\xff\xff", Code::ResourceExhausted, "limit"),
    ] {
        let (status, message) = raw_body(running.address, body).await;
        assert_eq!(Code::from_i32(status), code, "{what}: {message}");
        assert!(message.contains(text), "{what}: {message}");
        witnesses.are_served(what).await;
    }
    for what in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a handshake of TLS, or nearly",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff and what is no frame",
    ] {
        let mut socket = TcpStream::connect(running.address).await.unwrap();
        socket.write_all(what).await.unwrap();
        let mut said = Vec::new();
        // The connection may end with GOAWAY or a reset.
        let _ = soon(socket.read_to_end(&mut said)).await;
        witnesses.are_served("bytes that are not HTTP/2").await;
    }
    // Silent connections, one of them in the middle of the preface.
    let silent = TcpStream::connect(running.address).await.unwrap();
    let mut half = TcpStream::connect(running.address).await.unwrap();
    half.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n").await.unwrap();
    witnesses.are_served("connections that say nothing").await;
    drop((silent, half));
    streams(&running.handle, 2).await;
}

// The operating system resets a connection that is closed with unread data, and drops what it has not
// sent.
#[tokio::test]
async fn client_that_still_sends_receives_why_its_connection_ends() {
    const PINGS: usize = 1_000;
    const DATA_ON_STREAM_0: &[u8] = &[0, 0, 1, 0, 0, 0, 0, 0, 0, b'x'];

    let running = start().await;
    let socket = TcpSocket::new_v4().unwrap();
    // Too small for the answers to all pings.
    socket.set_recv_buffer_size(2 << 10).unwrap();
    let mut socket = soon(socket.connect(running.address)).await.unwrap();
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for _ in 0..PINGS {
        sent.extend_from_slice(b"\0\0\x08\x06\0\0\0\0\0-a-ping-");
    }
    sent.extend_from_slice(DATA_ON_STREAM_0);
    sent.resize(sent.len() + (64 << 10), b'x');
    soon(socket.write_all(&sent)).await.unwrap();
    // The connection has ended when the client begins to read.
    sleep(Duration::from_millis(200)).await;
    let mut received = Vec::new();
    let end = soon(socket.read_to_end(&mut received)).await;
    let mut frames = received.as_slice();
    let mut kinds = Vec::new();
    while let Some((&[high, middle, low, kind, ..], rest)) = frames.split_first_chunk::<9>() {
        kinds.push(kind);
        let length = u32::from_be_bytes([0, high, middle, low]) as usize;
        frames = rest.get(length..).unwrap_or_default();
    }
    assert_eq!(kinds.last(), Some(&7), "GOAWAY is the last of {} frames: {end:?}", kinds.len());
}
