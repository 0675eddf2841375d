//! Connections to endpoints.

use core::{net::SocketAddr, pin::Pin, time::Duration};
use std::sync::Arc;

use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::select;
use tonic::body::Body;
use xds_core::error_causes::with_causes;
use xds_grpc::{
    Keepalive,
    happy_eyeballs::first_success,
    http2::{Http2Io, NotHttp2, Protection, expect_settings},
    runtime::{Io, SharedRuntime, Task},
};
use xds_routing::SocketAddress;

use crate::tls::ClusterTls;

/// Flow-control window of a connection: 256 MiB, so that usually only the windows of streams (2 MiB
/// each) limit responses. A smaller one is filled by the responses that the application does not
/// read, and then stops the other calls. It also limits the unread bytes of a connection, and h2
/// ends connections whose unread small frames exceed a share of it.
const CONNECTION_WINDOW: u32 = 256 << 20;

/// Event of a connection.
#[derive(Debug)]
pub(crate) enum DialEvent {
    Connected(SendRequest<Body>, Arc<SocketAddress>),
    Failed(String),
    Closed,
}

/// Parameters of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Dial {
    pub(crate) runtime: SharedRuntime,
    pub(crate) timeout: Duration,
    /// Host name of the channel, sent to endpoints as the TLS server name.
    pub(crate) host: Arc<str>,
    pub(crate) tls: Option<ClusterTls>,
}

impl Dial {
    /// Starts to connect. The first address whose HTTP/2 SETTINGS arrive is used. Dropping the
    /// returned task ends the attempt, but not an established connection.
    pub(crate) fn start(
        self,
        addresses: Vec<SocketAddress>,
        report: impl Fn(DialEvent) + Send + 'static,
    ) -> Task {
        let runtime = self.runtime.clone();
        let spawner = runtime.clone();
        runtime.start(async move {
            let limit = self.timeout;
            let connected = spawner.timeout(limit, self.connect(addresses)).await;
            let connected =
                connected.unwrap_or_else(|| Err(format!("no connection within {limit:?}")));
            match connected {
                Ok((address, opened)) => {
                    report(DialEvent::Connected(opened.requests, Arc::new(address)));
                    let (mut connection, go_away) = (opened.connection, opened.go_away);
                    spawner.spawn(async move {
                        // Calls that do not end by themselves must not delay the next connection.
                        let ended = select! {
                            biased;
                            ended = &mut connection => Some(ended),
                            () = go_away => None,
                        };
                        report(DialEvent::Closed);
                        let ended = match ended {
                            Some(ended) => ended,
                            None => connection.await,
                        };
                        if let Err(why) = ended {
                            tracing::debug!(%why, "connection to an endpoint lost");
                        }
                    });
                }
                Err(why) => report(DialEvent::Failed(why)),
            }
        })
    }

    /// Tries the addresses in order. If one is slow, also tries the next one in parallel ([gRFC
    /// A61]).
    ///
    /// [gRFC A61]: https://github.com/grpc/proposal/blob/master/A61-IPv4-IPv6-dualstack-backends.md
    async fn connect(
        self,
        addresses: Vec<SocketAddress>,
    ) -> Result<(SocketAddress, Opened), String> {
        let runtime = self.runtime.clone();
        let connected = first_success(&runtime, addresses, |address| {
            let dial = self.clone();
            async move {
                match dial.open(&address).await {
                    Ok(opened) => Ok((address, opened)),
                    Err(why) => Err(format!("{address}: {why}")),
                }
            }
        });
        connected.await.map_err(last_failure)
    }

    async fn open(&self, address: &SocketAddress) -> Result<Opened, String> {
        let protection = if self.tls.is_some() { Protection::Tls } else { Protection::Plaintext };
        let io = TokioIo::new(self.connect_to(address).await?);
        let (mut io, mut opening) = expect_settings(io, protection);
        let go_away: GoAway = Box::pin(io.go_away());
        let handshake = http2::Builder::new(self.runtime.clone())
            .timer(self.runtime.clone())
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(io));
        let closed = |error: hyper::Error| {
            format!("{}: {}", NotHttp2::Closed(protection), with_causes(&error))
        };
        let (requests, connection) = handshake.await.map_err(closed)?;
        let mut connection = Box::pin(connection);
        // The HTTP/2 handshake does not wait for the server's SETTINGS.
        let why = select! {
            biased;
            opened = &mut opening => match opened {
                Ok(()) => return Ok(Opened { requests, connection, go_away }),
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
        let (io, peer) = self.open_socket(address).await?;
        let Some(tls) = &self.tls else { return Ok(io) };
        let name = ServerName::try_from(self.host.to_string());
        tls.connect(io, name.unwrap_or_else(|_| peer.ip().into()), &self.runtime).await
    }

    /// Connects to a host. A DNS name may have several addresses.
    async fn open_socket(
        &self,
        address: &SocketAddress,
    ) -> Result<(Box<dyn Io>, SocketAddr), String> {
        let runtime = self.runtime.runtime();
        let found = runtime.resolve(&address.host, address.port).await;
        let found = found.map_err(|why| why.to_string())?;
        let connected = first_success(&self.runtime, found, |address| async move {
            let connected = runtime.connect(address, Keepalive::CLIENT).await;
            connected.map(|io| (io, address)).map_err(|why| why.to_string())
        });
        connected.await.map_err(last_failure)
    }
}

type Connection =
    Pin<Box<http2::Connection<TokioIo<Http2Io<TokioIo<Box<dyn Io>>>>, Body, SharedRuntime>>>;

type GoAway = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Open connection.
struct Opened {
    requests: SendRequest<Body>,
    connection: Connection,
    /// Resolves when the endpoint accepts no more calls.
    go_away: GoAway,
}

fn last_failure(mut failures: Vec<String>) -> String {
    failures.pop().unwrap_or_else(|| "no address".into())
}
