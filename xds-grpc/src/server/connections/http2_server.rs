//! HTTP/2 server for any service, whose connections are configured one by one.

use core::{
    convert::Infallible,
    fmt::{self, Debug},
    future::Future,
    net::SocketAddr,
    pin::pin,
    time::Duration,
};
use std::{
    io,
    sync::{Arc, Mutex, OnceLock},
    time::Instant,
};

use http::{Request, Response};
use hyper::{body::Incoming, rt::Timer as _, server::conn::http2, service::service_fn};
use rustls::pki_types::CertificateDer;
use tokio::{
    select,
    sync::{broadcast, watch},
};
use tonic::{Status, body::Body};
use tracing::{debug, warn};
use xds_core::error_causes::with_causes;

use super::{
    connection::{
        HANDSHAKE_DROPPED, HANDSHAKE_TIMEOUT, ListenerStage, Unfinished, closed_by_listener,
        unfinished,
    },
    fair_io::FairIo,
    go_away::GoAwayIo,
    handshakes::Handshake,
    limit::{ConnectionLimit, ConnectionLimits},
    listener::{self, Listener, ServeConnection},
    preface::PrefaceIo,
};
use crate::{
    address::ListenAddress,
    clock::{Clock, FAR},
    guard::locked,
    keepalive::Keepalive,
    linger::LingerIo,
    runtime::{Accepted, BoxFuture, Io, Listen, SharedRuntime},
    server::{
        access::peer::Peer,
        driver::log::{PeerAddress, Warnings},
        memory::transport_stats::TransportCounters,
    },
    tls,
};

/// Time after GOAWAY during which a drained connection accepts calls. Clients stop making calls on
/// it within a round trip; those that do not would keep the state of the connection in use.
const DRAINED_CALLS: Duration = Duration::from_secs(10);

const DRAINED: &str = "the connection is drained: make calls on a new one";

/// HTTP/2 server for any service. A [`ConnectionHandler`] configures its connections one by one.
///
/// It has the limits of a [`ManagementServer`](crate::ManagementServer) for connections: silent
/// clients do not block others, and floods of control frames end a connection.
#[derive(Debug)]
pub struct Http2Server<R: Listen> {
    runtime: R,
    options: Http2Options,
    limit: ConnectionLimit,
}

/// Limits of an [`Http2Server`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Http2Options {
    /// Keepalive pings to clients; by default after 30 s, to be answered within 10 s.
    pub keepalive: Keepalive,
    /// Maximum number of concurrent calls on a connection; 100 by default.
    pub max_concurrent_streams: u32,
    /// Maximum number of concurrent connections; 10,000 by default. Further ones are closed at
    /// once.
    pub max_connections: usize,
    /// Maximum number of concurrent connections from one IP address; no limit by default. IPv6
    /// addresses with the same first 64 bits count as one.
    pub max_connections_per_address: Option<usize>,
    /// Maximum number of concurrent handshakes; 1,024 by default. A new connection replaces the
    /// oldest handshake.
    pub max_handshakes: usize,
}

impl Default for Http2Options {
    fn default() -> Self {
        Self {
            keepalive: Keepalive::SERVER,
            max_concurrent_streams: 100,
            max_connections: 10_000,
            max_connections_per_address: None,
            max_handshakes: 1_024,
        }
    }
}

impl Http2Options {
    /// Sets the keepalive pings to clients.
    #[must_use]
    pub fn with_keepalive(self, keepalive: Keepalive) -> Self {
        Self { keepalive, ..self }
    }

    /// Sets the maximum number of concurrent calls on a connection.
    #[must_use]
    pub fn with_max_concurrent_streams(self, streams: u32) -> Self {
        Self { max_concurrent_streams: streams, ..self }
    }

    /// Sets the maximum number of concurrent connections.
    #[must_use]
    pub fn with_max_connections(self, connections: usize) -> Self {
        Self { max_connections: connections, ..self }
    }

    /// Sets the maximum number of concurrent connections from one IP address.
    #[must_use]
    pub fn with_max_connections_per_address(self, connections: usize) -> Self {
        Self { max_connections_per_address: Some(connections), ..self }
    }

    /// Sets the maximum number of concurrent handshakes.
    #[must_use]
    pub fn with_max_handshakes(self, handshakes: usize) -> Self {
        Self { max_handshakes: handshakes, ..self }
    }
}

/// Configures the connections of an [`Http2Server`] and answers their calls.
pub trait ConnectionHandler: Clone + Send + Sync + 'static {
    /// State of a connection, which its calls share.
    type State: Send + Sync + 'static;

    /// Decides how a connection is served. It counts as a handshake, which has a limit of 10 s.
    ///
    /// # Errors
    ///
    /// Returns the reason for closing the connection without an answer, for the log.
    fn accept(
        &self,
        local: SocketAddr,
        peer: SocketAddr,
    ) -> impl Future<Output = Result<Acceptance<Self::State>, String>> + Send;

    /// Answers a call.
    fn call(
        &self,
        state: Arc<Self::State>,
        request: Request<Incoming>,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// Handling of a connection.
pub struct Acceptance<S> {
    tls: Option<Arc<rustls::ServerConfig>>,
    state: StateOfConnection<S>,
    drained: BoxFuture<'static, ()>,
    drain_grace: Duration,
}

type StateOfConnection<S> = Box<dyn FnOnce(&[CertificateDer<'static>]) -> Result<S, String> + Send>;

impl<S> Acceptance<S> {
    /// Serves the connection without TLS.
    pub fn plaintext(state: S) -> Self
    where
        S: Send + 'static,
    {
        let drained = Box::pin(core::future::pending());
        let state: StateOfConnection<S> = Box::new(move |_| Ok(state));
        Self { tls: None, state, drained, drain_grace: Duration::ZERO }
    }

    /// Serves the connection with TLS. `state` gets the verified certificates of the client, or an
    /// empty list, and closes the connection with an error. The configuration must offer `h2`
    /// (ALPN).
    pub fn tls(
        config: Arc<rustls::ServerConfig>,
        state: impl FnOnce(&[CertificateDer<'static>]) -> Result<S, String> + Send + 'static,
    ) -> Self {
        let drained = Box::pin(core::future::pending());
        let state: StateOfConnection<S> = Box::new(state);
        Self { tls: Some(config), state, drained, drain_grace: Duration::ZERO }
    }

    /// Drains the connection when `drained` completes: clients are told to use another one
    /// (GOAWAY). The connection is closed after its last call, or after `grace`. Calls that a client
    /// begins more than 10 s after GOAWAY fail with `UNAVAILABLE`.
    #[must_use]
    pub fn drained_after(
        self,
        drained: impl Future<Output = ()> + Send + 'static,
        grace: Duration,
    ) -> Self {
        Self { drained: Box::pin(drained), drain_grace: grace, ..self }
    }
}

impl<S> Debug for Acceptance<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptance").field("tls", &self.tls.is_some()).finish_non_exhaustive()
    }
}

impl<R: Listen> Http2Server<R> {
    /// Creates a server.
    #[must_use]
    pub fn new(runtime: R, options: Http2Options) -> Self {
        let limits = ConnectionLimits {
            connections: options.max_connections,
            connections_per_address: options.max_connections_per_address,
            handshakes: options.max_handshakes,
        };
        // Nobody reads observations of this server.
        let observations = broadcast::channel(1).0.downgrade();
        let limit = ConnectionLimit::new(limits, observations, TransportCounters::default());
        Self { runtime, options, limit }
    }

    /// Binds a listener.
    ///
    /// # Errors
    ///
    /// Returns errors of the operating system, for example if the address is in use.
    pub async fn bind(
        &self,
        address: SocketAddr,
    ) -> io::Result<Listener<R::Listener, R::UnixListener>> {
        let (listener, _) = listener::bind(&self.runtime, &ListenAddress::Ip(address)).await?;
        Ok(listener)
    }

    /// Serves the connections of a listener until `ended`. Then closes the listener, and waits for
    /// the calls to end, at most for the time that `ended` returns. Dropping the future closes the
    /// connections at once.
    pub async fn serve(
        &self,
        listener: impl Into<Listener<R::Listener, R::UnixListener>>,
        handler: impl ConnectionHandler,
        ended: impl Future<Output = Duration>,
    ) {
        let runtime = SharedRuntime::new(self.runtime.clone());
        let connections = HandledConnections {
            handler,
            options: self.options.clone(),
            clock: Clock::start(runtime.clone()),
            runtime,
            warnings: Arc::default(),
        };
        listener::serve(&self.runtime, listener.into(), connections, &self.limit, ended).await;
    }
}

/// Shared state of a listener's connections.
#[derive(Clone)]
struct HandledConnections<H> {
    handler: H,
    options: Http2Options,
    runtime: SharedRuntime,
    clock: Clock,
    warnings: Arc<Mutex<Warnings>>,
}

impl<H: ConnectionHandler> ServeConnection for HandledConnections<H> {
    fn runtime(&self) -> &SharedRuntime {
        &self.runtime
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    fn keepalive(&self) -> Keepalive {
        self.options.keepalive
    }

    async fn serve(
        self,
        accepted: Accepted,
        peer: Peer,
        mut handshake: Handshake,
        stage: watch::Receiver<ListenerStage>,
    ) {
        let ready = select! {
            biased;
            ready = self.runtime.timeout(HANDSHAKE_TIMEOUT, self.accept(accepted, &peer)) => ready,
            () = handshake.dropped() => return self.warn(&peer, HANDSHAKE_DROPPED),
            () = closed_by_listener(stage.clone()) => return,
        };
        match ready {
            Some(Some(ready)) => self.serve_http2(ready, &peer, handshake, stage).await,
            Some(None) => {}
            None => self.warn(&peer, "the TLS handshake timed out"),
        }
    }
}

/// Connection after its TLS handshake.
struct Ready<S> {
    io: Box<dyn Io>,
    state: Arc<S>,
    drained: BoxFuture<'static, ()>,
    drain_grace: Duration,
}

impl<H: ConnectionHandler> HandledConnections<H> {
    /// Logs why a connection failed. The warnings are rate limited, because clients control their
    /// number.
    fn warn(&self, peer: &Peer, reason: &str) {
        let is_within_limit = locked(&self.warnings).admit(self.clock.now());
        let peer = PeerAddress(peer);
        match is_within_limit {
            true => warn!(%peer, reason, "connection failed"),
            false => debug!(%peer, reason, "connection failed"),
        }
    }

    /// Asks the handler, and performs the TLS handshake if there is one.
    async fn accept(&self, accepted: Accepted, peer: &Peer) -> Option<Ready<H::State>> {
        let Accepted { io, peer: Some(client), local: Some(local) } = accepted else {
            self.warn(peer, "the addresses of the connection are unknown");
            return None;
        };
        let acceptance = match self.handler.accept(local, client).await {
            Ok(acceptance) => acceptance,
            Err(reason) => {
                self.warn(peer, &reason);
                return None;
            }
        };
        let Acceptance { tls, state, drained, drain_grace } = acceptance;
        let (io, chain) = match tls {
            None => (io, None),
            Some(config) => match tls::accept(config, io, &self.runtime).await {
                Ok((io, chain)) => (io, Some(chain)),
                Err(rejected) => {
                    self.warn(peer, &format!("TLS: {}", rejected.reason));
                    rejected.close(&self.runtime).await;
                    return None;
                }
            },
        };
        match state(chain.as_deref().unwrap_or_default()) {
            Ok(state) => Some(Ready { io, state: Arc::new(state), drained, drain_grace }),
            Err(reason) => {
                self.warn(peer, &reason);
                None
            }
        }
    }

    async fn serve_http2(
        &self,
        ready: Ready<H::State>,
        peer: &Peer,
        handshake: Handshake,
        stage: watch::Receiver<ListenerStage>,
    ) {
        let Ready { io, state, drained, drain_grace } = ready;
        let (handler, runtime) = (self.handler.clone(), self.runtime.clone());
        let last_call = Arc::new(OnceLock::<Instant>::new());
        let end_of_calls = Arc::clone(&last_call);
        let respond = service_fn(move |request| {
            let (handler, state) = (handler.clone(), Arc::clone(&state));
            let is_late = last_call.get().is_some_and(|at| runtime.now() >= *at);
            async move {
                Ok::<_, Infallible>(match is_late {
                    false => handler.call(state, request).await,
                    true => Status::unavailable(DRAINED).into_http(),
                })
            }
        });
        let late = self.runtime.sleep(HANDSHAKE_TIMEOUT);
        let (io, ending) = GoAwayIo::new(LingerIo::new(io, &self.runtime), self.clock.clone());
        let (io, detection) = PrefaceIo::new(FairIo::new(io));
        let keepalive = self.options.keepalive;
        let connection = http2::Builder::new(self.runtime.clone())
            .timer(self.runtime.clone())
            .auto_date_header(false)
            .keep_alive_interval(keepalive.interval.min(FAR))
            .keep_alive_timeout(keepalive.timeout.min(FAR))
            .max_concurrent_streams(self.options.max_concurrent_streams)
            .serve_connection(io, respond);
        let drained = async {
            drained.await;
            let _ = end_of_calls.set(self.runtime.now() + DRAINED_CALLS);
            drain_grace
        };
        let served = until_drained(connection, stage, drained, &self.runtime);
        let ended = select! {
            biased;
            ended = served => ended,
            failure = unfinished(handshake, detection.http2_preface(), late) => {
                match failure {
                    Unfinished::Silent => {
                        let peer = PeerAddress(peer);
                        debug!(%peer, "client sent no HTTP/2 preface: connection closed");
                    }
                    Unfinished::Dropped => self.warn(peer, HANDSHAKE_DROPPED),
                }
                return;
            }
        };
        if let Some(reason) = ending.reason() {
            self.warn(peer, reason);
        } else if let Err(why) = ended {
            match detection.protocol().advice() {
                "" => {
                    debug!(peer = %PeerAddress(peer), reason = with_causes(&why), "connection lost")
                }
                advice => self.warn(peer, advice),
            }
        }
    }
}

/// Serves a connection until it ends, the listener's stage sender is dropped, or the time that
/// `drained` returns has passed.
async fn until_drained<I, S>(
    connection: http2::Connection<I, S, SharedRuntime>,
    mut stage: watch::Receiver<ListenerStage>,
    drained: impl Future<Output = Duration>,
    runtime: &SharedRuntime,
) -> hyper::Result<()>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    S: hyper::service::HttpService<Incoming, ResBody = Body>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    S::Future: Send + 'static,
{
    let mut connection = pin!(connection);
    let mut drained = pin!(drained);
    let mut deadline = None;
    loop {
        let is_drained = deadline.is_some();
        let over = async {
            match deadline.as_mut() {
                Some(deadline) => core::pin::Pin::as_mut(deadline).await,
                None => core::future::pending().await,
            }
        };
        select! {
            biased;
            ended = connection.as_mut() => return ended,
            changed = stage.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                connection.as_mut().graceful_shutdown();
            }
            grace = drained.as_mut(), if !is_drained => {
                connection.as_mut().graceful_shutdown();
                deadline = Some(runtime.sleep(grace.min(FAR)));
            }
            () = over => return Ok(()),
        }
    }
}
