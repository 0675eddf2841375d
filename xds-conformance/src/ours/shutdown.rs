//! Tests of the shutdown of a runtime's sockets.

use core::{future::poll_fn, pin::Pin, time::Duration};
use std::{
    io::Read,
    net::{TcpListener, TcpStream},
};

use xds_grpc::{
    Keepalive,
    runtime::{Io, Listen},
    socket::AddressFamilies,
};

use crate::wait::soon;

/// Maximum time until the peer notices the shutdown.
const LONGEST: Duration = Duration::from_secs(30);
const KEEPALIVE: Keepalive = Keepalive::new(LONGEST, LONGEST);

/// Shuts down `io`, and checks that this ends the read of the peer although `io` is not dropped.
async fn ends_read(mut io: Box<dyn Io>, mut peer: impl Read) {
    let shutdown = poll_fn(|cx| Pin::new(&mut *io).poll_shutdown(cx));
    soon("the shutdown", shutdown).await.expect("the socket is connected");
    let mut rest = Vec::new();
    peer.read_to_end(&mut rest).expect("the end of the stream");
    assert!(rest.is_empty(), "nothing was sent");
    drop(io);
}

pub(super) async fn tcp<R: Listen + Default>() {
    let runtime = R::default();
    let listener = runtime.bind(([127, 0, 0, 1], 0).into(), AddressFamilies::SystemDefault);
    let listener = listener.expect("loopback");
    let address = runtime.local_address(&listener).expect("it is bound");
    let peer = TcpStream::connect(address).expect("it listens");
    peer.set_read_timeout(Some(LONGEST)).expect("a timeout");
    let accepted = soon("a connection", runtime.accept(&listener, KEEPALIVE)).await;
    ends_read(accepted.expect("a connection").io, peer).await;

    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("loopback");
    let address = listener.local_addr().expect("it is bound");
    let connected = soon("a connection", runtime.connect(address, KEEPALIVE)).await;
    let (peer, _) = listener.accept().expect("a connection");
    peer.set_read_timeout(Some(LONGEST)).expect("a timeout");
    ends_read(connected.expect("it listens"), peer).await;
}

#[cfg(unix)]
pub(super) async fn unix<R: Listen + Default>() {
    use std::os::unix::net::{UnixListener, UnixStream};

    use crate::folder::Folder;

    let (runtime, folder) = (R::default(), Folder::new());
    let bind = |name| UnixListener::bind(folder.path(name)).expect("a socket file");
    let listener = bind("server.sock");
    listener.set_nonblocking(true).expect("a socket");
    let listener = runtime.unix_listener(listener).expect("a listener");
    let peer = UnixStream::connect(folder.path("server.sock")).expect("it listens");
    peer.set_read_timeout(Some(LONGEST)).expect("a timeout");
    let accepted = soon("a connection", runtime.accept_unix(&listener)).await;
    ends_read(accepted.expect("a connection"), peer).await;

    let listener = bind("client.sock");
    let connected = soon("a connection", runtime.connect_unix(folder.path("client.sock"))).await;
    let (peer, _) = listener.accept().expect("a connection");
    peer.set_read_timeout(Some(LONGEST)).expect("a timeout");
    ends_read(connected.expect("it listens"), peer).await;
}
