//! Limits of `xds serve`: connections, open files, request sizes.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use crate::support::{TempDir, Xds, clusters};

/// The preface of an HTTP/2 client, and its settings.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// The frame with which the server confirms the client's settings.
const SETTINGS_ACK: &[u8] = b"\0\0\0\x04\x01\0\0\0\0";

/// Opens a connection, and keeps it open with the beginning of HTTP/2.
fn connection(address: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    // The server may have closed it.
    let _ = socket.write_all(HTTP2);
    socket
}

/// Returns whether the server completes the handshake of HTTP/2, instead of closing the connection.
fn is_served(socket: &mut TcpStream) -> bool {
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut received = Vec::new();
    let mut byte = [0];
    while !received.ends_with(SETTINGS_ACK) {
        match socket.read(&mut byte) {
            Ok(1) => received.push(byte[0]),
            _ => return false,
        }
    }
    true
}

/// The number of connections is limited such that the directory can still be read with 256 open
/// files.
#[cfg(unix)]
#[test]
fn directory_is_read_although_clients_use_up_the_open_files() {
    let served = TempDir::new();
    served.save("cds.yaml", &clusters("one"));
    let (serve, address) =
        Xds::serve_after("ulimit -n 256", served.path(), &["--listen", "127.0.0.1:0"]);
    serve.wait_stderr("open_files=256 reserved=65 connections=191");
    let watch = Xds::watch(&address, &["cds"]);
    watch.wait_count("changed", 1);
    // One after the other: a connection takes the place of one whose handshake has not ended.
    let mut connections = Vec::new();
    loop {
        let mut next = connection(&address);
        if !is_served(&mut next) {
            break;
        }
        connections.push(next);
        assert!(connections.len() < 300, "more connections than open files");
    }
    let _refused: Vec<_> = (0..100).map(|_| connection(&address)).collect();
    served.save("more.yaml", &clusters("two"));
    watch.wait_event("the new cluster", |event| event["name"] == "two");
    served.replace("cds.yaml", &clusters("three"));
    watch.wait_event("the changed cluster", |event| event["name"] == "three");
    assert!(!serve.stderr().contains("cannot accept"), "{}", serve.stderr());
}

#[cfg(unix)]
#[test]
fn soft_limit_of_open_files_is_raised_to_the_hard_limit() {
    let served = TempDir::new();
    served.save("cds.yaml", &clusters("one"));
    let limits = "ulimit -S -n 100 && ulimit -H -n 400";
    let flags = ["--listen", "127.0.0.1:0", "--max-connections", "300", "-v"];
    let (serve, _) = Xds::serve_after(limits, served.path(), &flags);
    serve.wait_stderr("raised the soft limit of open files from=100 to=400");
    serve.wait_stderr("open_files=400 reserved=65 connections=300");
}

#[test]
fn connections_of_one_address_are_limited_by_the_flag() {
    let served = TempDir::new();
    served.save("cds.yaml", &clusters("one"));
    let flags = ["--listen", "127.0.0.1:0", "--max-connections-per-address", "2"];
    let (serve, address) = Xds::serve_with(served.path(), &flags);
    let mut connections: Vec<_> = (0..3).map(|_| connection(&address)).collect();
    let are_served: Vec<_> = connections.iter_mut().map(is_served).collect();
    assert_eq!(are_served, [true, true, false]);
    serve.wait_stderr("too many connections of one address");
}

#[test]
fn error_of_a_longer_request_names_the_limit_and_the_flag() {
    let served = TempDir::new();
    served.save("cds.yaml", &clusters("one"));
    let flags = ["--listen", "127.0.0.1:0", "--max-request-bytes", "2000"];
    let (_serve, address) = Xds::serve_with(served.path(), &flags);
    Xds::watch(&address, &["cds"]).wait_count("changed", 1);
    let watch = Xds::watch(&address, &[&format!("cds:{}", "x".repeat(2_000))]);
    let error = watch.wait_event("error", |event| event["event"] == "error");
    let text = error["error"].as_str().unwrap();
    let expected = "the limit is: 2000 bytes; xds serve --max-request-bytes sets the limit";
    assert!(text.contains(expected), "{text}");
}
