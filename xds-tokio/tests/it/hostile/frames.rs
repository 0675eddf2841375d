//! Invalid gRPC frames and invalid HTTP/2 data.

use core::future::poll_fn;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
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
