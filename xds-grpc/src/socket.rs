//! Socket options of listeners and connections.

use core::{net::SocketAddr, time::Duration};
use std::{io, net::TcpListener};

use socket2::{Domain, SockRef, Socket, TcpKeepalive, Type};

use crate::keepalive::Keepalive;

/// Default idle time, interval and number of TCP keepalive probes of client connections.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_INTERVAL: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;

/// Maximum number of pending connections of a listener.
pub(crate) const BACKLOG: i32 = 1_024;

/// Address families that a listener on the IPv6 wildcard address accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressFamilies {
    /// IPv6, and also IPv4 if the system is configured for it (`bindv6only` on Linux).
    SystemDefault,
    /// IPv6 and IPv4.
    Both,
}

/// Binds a non-blocking TCP listener to an address.
///
/// # Errors
///
/// Returns errors of the operating system, for example if the address is in use.
pub fn listen(address: SocketAddr, families: AddressFamilies) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    // A restarted server can bind the port at once. On other systems this option would share the
    // port.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    if address.is_ipv6() && families == AddressFamilies::Both {
        socket.set_only_v6(false)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Returns the time after which TCP keepalive closes the connection of a client to a dead peer,
/// with the options that [`set_up`] sets.
#[must_use]
pub fn dead_after(keepalive: Keepalive) -> Duration {
    let stated = keepalive.probes;
    let probe_after = stated.after.unwrap_or_else(|| PROBE_AFTER.min(keepalive.interval));
    let interval = whole_seconds(stated.interval.unwrap_or(PROBE_INTERVAL));
    whole_seconds(probe_after) + interval * stated.count.unwrap_or(PROBES).max(1)
}

/// Returns the time after which TCP keepalive closes an accepted connection to a dead peer, with
/// the options that [`set_up_accepted`] sets and the defaults of Linux.
#[must_use]
pub fn accepted_dead_after(keepalive: Keepalive) -> Duration {
    const SYSTEM_INTERVAL: Duration = Duration::from_secs(75);
    const SYSTEM_PROBES: u32 = 9;

    let stated = keepalive.probes;
    let interval = whole_seconds(stated.interval.unwrap_or(SYSTEM_INTERVAL));
    whole_seconds(stated.after.unwrap_or(keepalive.interval))
        + interval * stated.count.unwrap_or(SYSTEM_PROBES).max(1)
}

/// Sets the socket options of a client connection: `TCP_NODELAY`, and TCP keepalive to detect a
/// dead host. Operating systems send no probes while data is unacknowledged, so Linux also gets a
/// `TCP_USER_TIMEOUT` of the same length, as in [gRFC A18]. This also closes a connection whose
/// peer does not read for that long while the client has data to send.
///
/// [gRFC A18]: https://github.com/grpc/proposal/blob/master/A18-tcp-user-timeout.md
///
/// # Errors
///
/// Returns errors of the operating system.
// S0.175
pub fn set_up(socket: SockRef<'_>, keepalive: Keepalive) -> io::Result<()> {
    let stated = keepalive.probes;
    let probe_after = stated.after.unwrap_or_else(|| PROBE_AFTER.min(keepalive.interval));
    let probes = TcpKeepalive::new().with_time(whole_seconds(probe_after));
    #[cfg(any(target_os = "freebsd", target_os = "linux", target_os = "macos"))]
    let probes = probes
        .with_interval(whole_seconds(stated.interval.unwrap_or(PROBE_INTERVAL)))
        .with_retries(stated.count.unwrap_or(PROBES).max(1));
    #[cfg(any(target_os = "android", target_os = "linux"))]
    socket.set_tcp_user_timeout(Some(dead_after(keepalive)))?;
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&probes)
}

/// Sets the socket options of a connection that a server accepted: `TCP_NODELAY` and TCP keepalive.
///
/// # Errors
///
/// Returns [`ConnectionAborted`](io::ErrorKind::ConnectionAborted) with the operating system's
/// message. Usually the client has disconnected already, so the listener need not pause before the
/// next connection.
pub fn set_up_accepted(socket: SockRef<'_>, keepalive: Keepalive) -> io::Result<()> {
    set_accepted(socket, keepalive).map_err(|why| {
        io::Error::new(
            io::ErrorKind::ConnectionAborted,
            format!("cannot set the socket options: {why}"),
        )
    })
}

fn set_accepted(socket: SockRef<'_>, keepalive: Keepalive) -> io::Result<()> {
    let stated = keepalive.probes;
    let probe_after = whole_seconds(stated.after.unwrap_or(keepalive.interval));
    let probes = TcpKeepalive::new().with_time(probe_after);
    #[cfg(any(target_os = "freebsd", target_os = "linux", target_os = "macos"))]
    let probes = match stated.interval {
        Some(interval) => probes.with_interval(whole_seconds(interval)),
        None => probes,
    };
    #[cfg(any(target_os = "freebsd", target_os = "linux", target_os = "macos"))]
    let probes = match stated.count {
        Some(count) => probes.with_retries(count.max(1)),
        None => probes,
    };
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&probes)
}

/// Rounds down to whole seconds within the range that operating systems accept.
fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs().clamp(1, 32_767))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::keepalive::TcpProbes;

    #[test]
    fn dual_stack_listener_accepts_ipv4_connections() {
        let Ok(listener) = listen("[::]:0".parse().expect("an address"), AddressFamilies::Both)
        else {
            return println!("not run: there is no IPv6");
        };
        assert!(!SockRef::from(&listener).only_v6().expect("a socket"));
        let port = listener.local_addr().expect("it is bound").port();
        TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
    }

    #[test]
    fn tcp_keepalive_is_set_on_sockets() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("it is bound");
        let socket = TcpStream::connect(address).expect("somebody listens");
        assert!(!SockRef::from(&socket).keepalive().expect("a socket"));
        set_up(SockRef::from(&socket), Keepalive::CLIENT).expect("a socket");
        let system = SockRef::from(&socket);
        assert!(system.keepalive().expect("a socket"));
        assert!(socket.nodelay().expect("a socket"));
        #[cfg(target_os = "linux")]
        {
            let after = system.tcp_keepalive_time().expect("a socket");
            assert_eq!(after, PROBE_AFTER.min(Keepalive::CLIENT.interval));
            assert_eq!(system.tcp_keepalive_interval().expect("a socket"), PROBE_INTERVAL);
            let timeout = system.tcp_user_timeout().expect("a socket");
            assert_eq!(timeout, Some(dead_after(Keepalive::CLIENT)));
            assert_eq!(timeout, Some(Duration::from_secs(60)));

            let seconds = Duration::from_secs;
            let probes = TcpProbes::new(Some(seconds(7)), Some(seconds(5)), Some(4));
            for set in [set_up, set_up_accepted] {
                set(SockRef::from(&socket), Keepalive::CLIENT.with_probes(probes))
                    .expect("a socket");
                assert_eq!(system.tcp_keepalive_time().expect("a socket"), seconds(7));
                assert_eq!(system.tcp_keepalive_interval().expect("a socket"), seconds(5));
                assert_eq!(system.tcp_keepalive_retries().expect("a socket"), 4);
            }
        }
        println!("covers: S0.175");
    }
}
