//! Listeners: accept connections, serve them concurrently, and close them at shutdown.

use core::{
    future::Future,
    net::{Ipv4Addr, Ipv6Addr},
    time::Duration,
};
use std::{io, sync::Arc};

use hyper::rt::Timer as _;
use tokio::{select, sync::watch};
use tracing::{debug, warn};

#[cfg(unix)]
use super::socket_file::SocketFile;
use super::{connection::ListenerStage, handshakes::Handshake, limit::ConnectionLimit};
use crate::{
    address::{BoundAddress, ListenAddress},
    clock::Clock,
    keepalive::Keepalive,
    log_limit::{LogDecision, LogLimit},
    runtime::{Accepted, Listen, SharedRuntime},
    server::{
        access::peer::Peer,
        handle::lifecycle::{OpenListener, OpenListeners},
    },
    socket::AddressFamilies,
    zoo::{self, Bug},
};

/// Listener of a server: a TCP listener of the runtime, or a socket file, which is removed when the
/// listener is dropped.
#[derive(Debug)]
pub struct Listener<T, U> {
    kind: ListenerKind<T, U>,
    _open: Option<OpenListener>,
}

#[derive(Debug)]
enum ListenerKind<T, U> {
    Tcp(T),
    #[cfg(unix)]
    Unix(U, SocketFile),
    #[cfg(not(unix))]
    Unix(U, core::convert::Infallible),
}

impl<T, U> From<T> for Listener<T, U> {
    /// Wraps a listener that the application has bound.
    fn from(listener: T) -> Self {
        ListenerKind::Tcp(listener).into()
    }
}

impl<T, U> From<ListenerKind<T, U>> for Listener<T, U> {
    fn from(kind: ListenerKind<T, U>) -> Self {
        Self { kind, _open: None }
    }
}

impl<T, U> Listener<T, U> {
    /// Registers the listener until it is closed.
    pub(crate) fn registered(self, listeners: &OpenListeners) -> Self {
        Self { _open: Some(listeners.add()), ..self }
    }
}

/// Binds a listener and returns it with its actual address.
pub(crate) async fn bind<R: Listen>(
    runtime: &R,
    address: &ListenAddress,
) -> io::Result<(Listener<R::Listener, R::UnixListener>, BoundAddress)> {
    let tcp = match address {
        #[cfg(unix)]
        ListenAddress::Unix(socket) => {
            let (listener, file) = SocketFile::bind(socket)?;
            let listener = runtime.unix_listener(listener)?;
            let bound = BoundAddress::Unix(socket.path().to_path_buf());
            return Ok((ListenerKind::Unix(listener, file).into(), bound));
        }
        #[cfg(not(unix))]
        ListenAddress::Unix(_) => return Err(io::ErrorKind::Unsupported.into()),
        ListenAddress::Ip(address) => runtime.bind(*address, AddressFamilies::SystemDefault)?,
        ListenAddress::AllInterfaces(port) => {
            match runtime.bind((Ipv6Addr::UNSPECIFIED, *port).into(), AddressFamilies::Both) {
                // IPv4 only.
                Err(why) if is_unsupported_family(&why) => {
                    let address = (Ipv4Addr::UNSPECIFIED, *port).into();
                    runtime.bind(address, AddressFamilies::SystemDefault)?
                }
                bound => bound?,
            }
        }
        ListenAddress::Host(host, port) => {
            let addresses = runtime.resolve(host, *port).await?;
            let mut refused = io::Error::new(io::ErrorKind::NotFound, "the name has no addresses");
            let mut bound = None;
            for address in addresses {
                match runtime.bind(address, AddressFamilies::SystemDefault) {
                    Ok(listener) => {
                        bound = Some(listener);
                        break;
                    }
                    Err(why) => refused = why,
                }
            }
            bound.ok_or(refused)?
        }
    };
    let bound = BoundAddress::Ip(runtime.local_address(&tcp)?);
    Ok((tcp.into(), bound))
}

/// Returns whether an error of creating or binding a socket means that the system does not support
/// its address family.
fn is_unsupported_family(why: &io::Error) -> bool {
    const UNKNOWN_FAMILY: [i32; 3] = [97, 47, 10_047];
    why.kind() == io::ErrorKind::AddrNotAvailable
        || why.raw_os_error().is_some_and(|code| UNKNOWN_FAMILY.contains(&code))
}

/// Server of a listener's connections.
pub(crate) trait ServeConnection: Clone + Send + Sync + 'static {
    fn runtime(&self) -> &SharedRuntime;

    fn clock(&self) -> &Clock;

    fn keepalive(&self) -> Keepalive;

    /// Serves a connection until it ends.
    fn serve(
        self,
        accepted: Accepted,
        peer: Peer,
        handshake: Handshake,
        stage: watch::Receiver<ListenerStage>,
    ) -> impl Future<Output = ()> + Send;
}

/// Waits for a connection. Cancel safe.
async fn next<R: Listen>(
    runtime: &R,
    listener: &Listener<R::Listener, R::UnixListener>,
    keepalive: Keepalive,
) -> io::Result<(Accepted, Peer)> {
    match &listener.kind {
        ListenerKind::Tcp(listener) => {
            let accepted = runtime.accept(listener, keepalive).await?;
            let peer = Peer::new(accepted.peer);
            Ok((accepted, peer))
        }
        #[cfg(unix)]
        ListenerKind::Unix(listener, file) => {
            let io = runtime.accept_unix(listener).await?;
            let peer = Peer::new(None).with_socket(Arc::clone(file.path()));
            Ok((Accepted { io, peer: None, local: None }, peer))
        }
        #[cfg(not(unix))]
        ListenerKind::Unix(_, never) => match *never {},
    }
}

/// Minimum time between warnings about failed accepts, because clients can cause them: each needs a
/// file descriptor.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Pause after a failed accept, for example when the process has no free file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves a listener's connections until `ended`. Then closes the listener and waits for the
/// connections to end, at most for the time that `ended` returns. Dropping the future closes the
/// connections at once.
pub(crate) async fn serve<R: Listen>(
    runtime: &R,
    listener: Listener<R::Listener, R::UnixListener>,
    connections: impl ServeConnection,
    connection_limit: &ConnectionLimit,
    ended: impl Future<Output = Duration>,
) {
    // Dropping the sender closes all connections.
    let (stage, stage_receiver) = watch::channel(ListenerStage::Serving);
    let grace = select! {
        biased;
        grace = ended, if !zoo::is(Bug::ListenerOutlivesServer) => grace,
        never = accept(runtime, &listener, &connections, connection_limit, &stage_receiver) => {
            match never {}
        }
    };
    drop((listener, stage_receiver));
    stage.send_replace(ListenerStage::Closing);
    // The channel closes with the last connection.
    let _ = connections.runtime().timeout(grace, stage.closed()).await;
}

/// Returns whether an error concerns a single connection, so that the next one can be accepted
/// without a pause. Clients can cause any number of such errors.
fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind as Kind;

    matches!(
        error.kind(),
        Kind::ConnectionAborted
            | Kind::ConnectionRefused
            | Kind::ConnectionReset
            | Kind::NotConnected
            | Kind::BrokenPipe
            | Kind::TimedOut
            | Kind::Interrupted
            | Kind::HostUnreachable
            | Kind::NetworkUnreachable
            | Kind::NetworkDown
    )
}

/// Accepts connections forever. Slow handshakes do not delay other connections.
async fn accept<R: Listen>(
    runtime: &R,
    listener: &Listener<R::Listener, R::UnixListener>,
    connections: &impl ServeConnection,
    connection_limit: &ConnectionLimit,
    stage_receiver: &watch::Receiver<ListenerStage>,
) -> core::convert::Infallible {
    let keepalive = connections.keepalive();
    let mut failures = LogLimit::new(1, WARNING_INTERVAL);
    loop {
        match next(runtime, listener, keepalive).await {
            Ok((accepted, peer)) => {
                // Dropping it closes the connection.
                let now = connections.runtime().now();
                let Some((place, handshake)) = connection_limit.admit(&peer, now).await else {
                    continue;
                };
                let stage = stage_receiver.clone();
                let serving = connections.clone().serve(accepted, peer, handshake, stage);
                connections.runtime().spawn(async move {
                    serving.await;
                    drop(place);
                });
            }
            Err(error) if is_of_one_connection(&error) => {
                debug!(%error, "a connection ended before it was accepted");
            }
            Err(error) => {
                match failures.admit((), connections.clock().now()) {
                    LogDecision::Logged { suppressed } => {
                        warn!(%error, suppressed, "cannot accept a connection");
                    }
                    LogDecision::Suppressed => debug!(%error, "cannot accept a connection"),
                }
                connections.runtime().sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Errors that a client can cause must not delay other clients.
    #[test]
    fn accept_errors_of_one_connection_do_not_delay_the_listener() {
        let is_of_one = |kind: io::ErrorKind| is_of_one_connection(&kind.into());
        assert!(is_of_one(io::ErrorKind::ConnectionAborted));
        assert!(is_of_one(io::ErrorKind::ConnectionReset));
        assert!(!is_of_one(io::ErrorKind::OutOfMemory));
        assert!(!is_of_one(io::ErrorKind::Other));
        #[cfg(target_os = "linux")]
        for (code, expected) in
            [(103, true), (104, true), (4, true), (24, false), (23, false), (12, false)]
        {
            let error = io::Error::from_raw_os_error(code);
            assert_eq!(is_of_one_connection(&error), expected, "{error}");
        }
    }
}
