//! Connections to endpoints.

use core::{pin::Pin, time::Duration};
use std::sync::Arc;

use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    select,
    task::AbortHandle,
    time::timeout,
};
use tonic::body::Body;
use xds_grpc::http2::{Http2Io, NotHttp2, Protection, expect_settings};
use xds_routing::SocketAddress;

use crate::{happy_eyeballs::first_success, status, tls::ClusterTls};

/// Event of a connection.
#[derive(Debug)]
pub(crate) enum DialEvent {
    Connected(SendRequest<Body>),
    Failed(String),
    Closed,
}

/// Parameters of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    pub(crate) timeout: Duration,
    /// Host name of the channel, sent to endpoints as the TLS server name.
    pub(crate) host: Arc<str>,
    pub(crate) tls: Option<ClusterTls>,
}

impl Dial {
    /// Starts to connect. The first address whose HTTP/2 SETTINGS arrive is used. Aborting the
    /// handle ends the attempt, but not an established connection.
    pub(crate) fn start(
        self,
        addresses: Vec<SocketAddress>,
        report: impl Fn(DialEvent) + Send + 'static,
    ) -> AbortHandle {
        let dialing = async move {
            let limit = self.timeout;
            let connected = timeout(limit, self.connect(addresses)).await;
            let connected =
                connected.unwrap_or_else(|_| Err(format!("no connection within {limit:?}")));
            match connected {
                Ok((requests, connection)) => {
                    report(DialEvent::Connected(requests));
                    tokio::spawn(async move {
                        if let Err(why) = connection.await {
                            tracing::debug!(%why, "connection to an endpoint lost");
                        }
                        report(DialEvent::Closed);
                    });
                }
                Err(why) => report(DialEvent::Failed(why)),
            }
        };
        tokio::spawn(dialing).abort_handle()
    }

    /// Tries the addresses in order. If one is slow, also tries the next one in parallel ([gRFC
    /// A61]).
    ///
    /// [gRFC A61]: https://github.com/grpc/proposal/blob/master/A61-IPv4-IPv6-dualstack-backends.md
    async fn connect(
        self,
        addresses: Vec<SocketAddress>,
    ) -> Result<(SendRequest<Body>, Connection), String> {
        let connected = first_success(addresses, |address| {
            let dial = self.clone();
            async move {
                let opened = dial.open(&address).await;
                opened.map_err(|why| format!("{address}: {why}"))
            }
        });
        connected.await
    }

    async fn open(
        &self,
        address: &SocketAddress,
    ) -> Result<(SendRequest<Body>, Connection), String> {
        let protection = if self.tls.is_some() { Protection::Tls } else { Protection::Plaintext };
        let (io, mut opening) = expect_settings(self.connect_to(address).await?, protection);
        let handshake = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .adaptive_window(true)
            .handshake(TokioIo::new(io));
        let closed = |error: hyper::Error| {
            format!("{}: {}", NotHttp2::Closed(protection), status::with_causes(&error))
        };
        let (requests, connection) = handshake.await.map_err(closed)?;
        let mut connection = Box::pin(connection);
        // The HTTP/2 handshake does not wait for the server's SETTINGS.
        let why = select! {
            biased;
            opened = &mut opening => match opened {
                Ok(()) => return Ok((requests, connection)),
                Err(why) => why,
            },
            ended = &mut connection => match (opening.failure(), ended) {
                (None, Err(error)) => return Err(closed(error)),
                (why, _) => why,
            },
        };
        Err(why.unwrap_or(NotHttp2::Silent).to_string())
    }

    async fn connect_to(&self, address: &SocketAddress) -> Result<Box<dyn Io>, String> {
        let socket = open_socket(address).await?;
        let Some(tls) = &self.tls else { return Ok(Box::new(socket)) };
        let name = match ServerName::try_from(self.host.to_string()) {
            Ok(name) => name,
            Err(_) => socket.peer_addr().map_err(|why| why.to_string())?.ip().into(),
        };
        Ok(Box::new(tls.connect(socket, name).await?))
    }
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

type Connection = Pin<Box<http2::Connection<TokioIo<Http2Io<Box<dyn Io>>>, Body, TokioExecutor>>>;

/// Connects to a host. A DNS name may have several addresses.
async fn open_socket(address: &SocketAddress) -> Result<TcpStream, String> {
    let found = lookup_host((address.host.as_str(), address.port)).await;
    let found = found.map_err(|why| why.to_string())?;
    let found: Vec<_> = found.collect();
    first_success(found, |address| async move {
        let socket = TcpStream::connect(address).await.map_err(|why| why.to_string())?;
        socket.set_nodelay(true).map_err(|why| why.to_string())?;
        Ok(socket)
    })
    .await
}
