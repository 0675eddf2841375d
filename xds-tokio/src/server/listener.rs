//! Connections: accepted with keepalive, secured if they are to be, and cut when the server does not
//! wait for them any longer.

use core::{
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use std::io;

use futures_core::Stream;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::{Sleep, sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tonic::transport::server::TcpIncoming;
use tracing::warn;

use super::{connection::Connection, log::Address};
use crate::{credentials::ServerCredentials, keepalive::Keepalive};

/// The connections of a listener.
pub(crate) struct Incoming {
    listener: TcpIncoming,
    credentials: Option<ServerCredentials>,
    /// Handshakes that are under way: one that takes its time holds up nobody else's.
    handshakes: JoinSet<Option<Connection>>,
    /// Dropping the sender cuts all connections.
    cut: watch::Receiver<()>,
    /// A pause after a failure, as when there are no file descriptors left.
    pause: Option<Pin<Box<Sleep>>>,
}

const PAUSE: Duration = Duration::from_millis(100);

/// A client that takes longer is not heard of again.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// Further connections wait in the listener's queue.
const MAX_HANDSHAKES: usize = 1_024;

impl Incoming {
    /// The connections of `listener`, and what cuts them when it is dropped.
    pub(crate) fn new(
        listener: TcpListener,
        credentials: Option<ServerCredentials>,
        keepalive: Keepalive,
    ) -> (Self, watch::Sender<()>) {
        let (knife, cut) = watch::channel(());
        let listener = TcpIncoming::from(listener)
            .with_nodelay(Some(true))
            .with_keepalive(Some(keepalive.interval));
        (Self { listener, credentials, handshakes: JoinSet::new(), cut, pause: None }, knife)
    }
}

impl Stream for Incoming {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            while let Poll::Ready(Some(done)) = self.handshakes.poll_join_next(cx) {
                if let Ok(Some(connection)) = done {
                    return Poll::Ready(Some(Ok(connection)));
                }
            }
            if self.handshakes.len() >= MAX_HANDSHAKES {
                return Poll::Pending;
            }
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                self.pause = None;
            }
            match ready!(Pin::new(&mut self.listener).poll_next(cx)) {
                Some(Ok(socket)) => {
                    let cut = self.cut.clone();
                    let Some(credentials) = self.credentials.clone() else {
                        return Poll::Ready(Some(Ok(Connection::plain(socket, cut))));
                    };
                    self.handshakes.spawn(secured(socket, credentials, cut));
                }
                Some(Err(error)) => {
                    warn!(%error, "cannot accept a connection");
                    self.pause = Some(Box::pin(sleep(PAUSE)));
                }
                None => return Poll::Ready(None),
            }
        }
    }
}

async fn secured(
    socket: TcpStream,
    credentials: ServerCredentials,
    cut: watch::Receiver<()>,
) -> Option<Connection> {
    let peer = socket.peer_addr().ok();
    match timeout(HANDSHAKE_TIME, shake_hands(socket, credentials, cut)).await {
        Ok(Ok(connection)) => Some(connection),
        Ok(Err(reason)) => refused(peer, &reason),
        Err(_elapsed) => refused(peer, "the handshake took too long"),
    }
}

async fn shake_hands(
    socket: TcpStream,
    credentials: ServerCredentials,
    cut: watch::Receiver<()>,
) -> Result<Connection, String> {
    let config = credentials.current().await.map_err(|why| why.to_string())?;
    let stream = TlsAcceptor::from(config).accept(socket).await.map_err(|why| why.to_string())?;
    Ok(Connection::tls(stream, cut))
}

fn refused(peer: Option<SocketAddr>, reason: &str) -> Option<Connection> {
    warn!(peer = %Address(peer), reason, "TLS: no connection");
    None
}
