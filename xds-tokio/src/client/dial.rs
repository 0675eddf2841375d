//! One attempt to connect: every address behind a name in turn, TLS where it is asked for, HTTP/2.

use core::{
    future::{Future, Ready, ready},
    net::SocketAddr,
    task::{Context, Poll},
    time::Duration,
};
use std::{fmt::Write as _, io, sync::Arc};

use http::{
    Uri,
    uri::{Authority, Scheme},
};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::TcpStream,
    select,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

use super::{
    address::{Place, Target},
    options::ClientOptions,
    service::Service,
};
use crate::{
    grpc::{ALPN_HTTP2, with_causes},
    io::Io,
    keepalive::Keepalive,
};

/// A connection of its own for every attempt: one that mends itself would hide failures.
///
/// An attempt is over when a connection is up, when no address behind the service's name has taken one,
/// or after [`ClientOptions::connect_timeout`].
pub(crate) async fn dial(service: &Service, options: &ClientOptions) -> Result<Channel, String> {
    in_time(connect(service, options), options).await
}

/// A connection that HTTP/1.1 is spoken over.
#[cfg(feature = "rest")]
pub(crate) async fn dial_http1(
    service: &Service,
    options: &ClientOptions,
) -> Result<Box<dyn Io>, String> {
    in_time(async { Ok(connect_io(service, options, Speaks::Http1).await?.0) }, options).await
}

async fn in_time<T>(
    connecting: impl Future<Output = Result<T, String>>,
    options: &ClientOptions,
) -> Result<T, String> {
    let limit = options.connect_timeout;
    match timeout(limit, connecting).await {
        Ok(done) => done,
        Err(_) => Err(format!("no connection within {limit:?}")),
    }
}

async fn connect_io(
    service: &Service,
    options: &ClientOptions,
    speaks: Speaks,
) -> Result<(Box<dyn Io>, Scheme, Authority), String> {
    let target = Target::parse(service.target()).map_err(|why| why.to_string())?;
    let security = service.credentials().security(&target, service.metadata()).await;
    let security = security.map_err(|why| why.to_string())?;
    let (tls, scheme) = match security {
        Security::Plain => (None, Scheme::HTTP),
        Security::Tls(tls) => (Some(tls.speaking(speaks)), Scheme::HTTPS),
    };
    let io = match target.place {
        Place::Host(host, port) => {
            let addresses = options.resolver.resolve(&host, port).await;
            let addresses = addresses.map_err(|why| format!("cannot resolve {host:?}: {why}"))?;
            first_to_connect(addresses, options.keepalive, tls).await?
        }
        Place::Addresses(addresses) => first_to_connect(addresses, options.keepalive, tls).await?,
        #[cfg(unix)]
        Place::Unix(path) => {
            let connecting = tokio::net::UnixStream::connect(path);
            secured(connecting.await.map_err(|why| why.to_string())?, tls).await?
        }
        #[cfg(not(unix))]
        Place::Unix(_) => return Err("this system has no such sockets".into()),
    };
    Ok((io, scheme, service.authority().cloned().unwrap_or(target.authority)))
}

async fn connect(service: &Service, options: &ClientOptions) -> Result<Channel, String> {
    let (io, scheme, authority) = connect_io(service, options, Speaks::Http2).await?;
    let origin = Uri::builder().scheme(scheme).authority(authority).path_and_query("/").build();
    let origin = origin.map_err(|why| why.to_string())?;
    let keepalive = options.keepalive;
    // The connection is there already; the endpoint's own address is used for nothing.
    Endpoint::from_static("http://localhost")
        .origin(origin)
        .http2_keep_alive_interval(keepalive.interval)
        .keep_alive_timeout(keepalive.timeout)
        .keep_alive_while_idle(true)
        .connect_with_connector(Once(Some(io)))
        .await
        .map_err(|error| with_causes(&error))
}

/// What is spoken over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http2,
    #[cfg(feature = "rest")]
    Http1,
}

/// What a connection is protected by.
#[derive(Clone, Debug)]
pub(crate) enum Security {
    Plain,
    Tls(Tls),
}

/// What a TLS handshake needs.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) config: Arc<rustls::ClientConfig>,
    pub(crate) server_name: ServerName<'static>,
}

impl Tls {
    /// The same for what is to be spoken. Servers of HTTP/1.1 need not say that they speak it.
    fn speaking(self, speaks: Speaks) -> Self {
        match speaks {
            Speaks::Http2 => self,
            #[cfg(feature = "rest")]
            Speaks::Http1 => {
                let mut config = (*self.config).clone();
                config.alpn_protocols = Vec::from([b"http/1.1".to_vec()]);
                Self { config: Arc::new(config), ..self }
            }
        }
    }
}

impl core::fmt::Debug for Tls {
    /// Without the configuration, which holds a private key.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// How long an address is waited for before the next one is tried beside it (gRFC A61): one that
/// swallows packets must not use up the whole attempt.
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// How many failures are told of at most.
const TOLD_FAILURES: usize = 8;

/// The addresses in their order, the next one as soon as one has failed or takes long. The first
/// connection that is up, TLS included, is the one; the attempt fails when all of them have (S1.034).
async fn first_to_connect(
    addresses: Vec<SocketAddr>,
    keepalive: Keepalive,
    tls: Option<Tls>,
) -> Result<Box<dyn Io>, String> {
    let is_only_one = addresses.len() == 1;
    let mut waiting = addresses.into_iter();
    // Dropping it ends whatever is still on its way.
    let mut attempts = JoinSet::new();
    let mut failures: Vec<(SocketAddr, String)> = Vec::new();
    loop {
        if let Some(address) = waiting.next() {
            let tls = tls.clone();
            attempts.spawn(async move { (address, to_address(address, keepalive, tls).await) });
        } else if attempts.is_empty() {
            break;
        }
        select! {
            Some(done) = attempts.join_next() => match done {
                Ok((_, Ok(io))) => return Ok(io),
                Ok((address, Err(why))) => failures.push((address, why)),
                // Only a runtime that shuts down ends an attempt.
                Err(why) => return Err(why.to_string()),
            },
            () = sleep(NEXT_ADDRESS_AFTER), if waiting.len() > 0 => {}
        }
    }
    Err(match failures.as_slice() {
        [] => "the name has no addresses".into(),
        [(_, why)] if is_only_one => why.clone(),
        all => {
            let mut text = format!("none of {} addresses can be reached", all.len());
            for (at, (address, why)) in all.iter().take(TOLD_FAILURES).enumerate() {
                let separator = if at == 0 { ": " } else { "; " };
                // Writing to a string cannot fail.
                let _ = write!(text, "{separator}{address}: {why}");
            }
            text
        }
    })
}

/// When the operating system probes a silent connection, and how often after that, where it can be told.
const PROBE_AFTER: Duration = Duration::from_secs(30);
#[cfg(any(target_os = "freebsd", target_os = "linux", target_os = "macos"))]
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

async fn to_address(
    address: SocketAddr,
    keepalive: Keepalive,
    tls: Option<Tls>,
) -> Result<Box<dyn Io>, String> {
    let socket = TcpStream::connect(address).await.map_err(|why| why.to_string())?;
    set_up(&socket, keepalive).map_err(|why| format!("cannot set up the socket: {why}"))?;
    secured(socket, tls).await
}

/// Has the system find out when the host at the other end is gone (S0.175).
fn set_up(socket: &TcpStream, keepalive: Keepalive) -> io::Result<()> {
    // The system counts in whole seconds.
    let probe_after = PROBE_AFTER.min(keepalive.interval).max(Duration::from_secs(1));
    let probes = TcpKeepalive::new().with_time(probe_after);
    #[cfg(any(target_os = "freebsd", target_os = "linux", target_os = "macos"))]
    let probes = probes.with_interval(PROBE_INTERVAL).with_retries(3);
    socket.set_nodelay(true)?;
    SockRef::from(socket).set_tcp_keepalive(&probes)
}

async fn secured(socket: impl Io + 'static, tls: Option<Tls>) -> Result<Box<dyn Io>, String> {
    let Some(Tls { config, server_name }) = tls else { return Ok(Box::new(socket)) };
    let is_http2 = config.alpn_protocols.first().is_some_and(|it| *it == ALPN_HTTP2);
    let stream = TlsConnector::from(config)
        .connect(server_name, socket)
        .await
        .map_err(|why| format!("TLS: {why}"))?;
    if is_http2 && stream.get_ref().1.alpn_protocol() != Some(ALPN_HTTP2) {
        return Err("TLS: the server did not agree to speak HTTP/2 (ALPN h2)".into());
    }
    Ok(Box::new(stream))
}

/// Gives out the one connection there is.
struct Once(Option<Box<dyn Io>>);

impl tower_service::Service<Uri> for Once {
    type Response = TokioIo<Box<dyn Io>>;
    type Error = io::Error;
    type Future = Ready<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let io = self.0.take().map(TokioIo::new);
        ready(io.ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn the_system_probes_connections_that_are_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("it is bound");
        let socket = TcpStream::connect(address).await.expect("somebody listens");
        assert!(!SockRef::from(&socket).keepalive().expect("a socket"));
        set_up(&socket, Keepalive::CLIENT).expect("a socket");
        let system = SockRef::from(&socket);
        assert!(system.keepalive().expect("a socket"));
        assert!(socket.nodelay().expect("a socket"));
        #[cfg(target_os = "linux")]
        {
            let after = system.tcp_keepalive_time().expect("a socket");
            assert_eq!(after, PROBE_AFTER.min(Keepalive::CLIENT.interval));
            assert_eq!(system.tcp_keepalive_interval().expect("a socket"), PROBE_INTERVAL);
        }
        println!("covers: S0.175");
    }
}
