//! What is set on every socket.

use core::time::Duration;
use std::io;

use socket2::{SockRef, TcpKeepalive};

use crate::keepalive::Keepalive;

/// When the operating system probes a silent connection, and how often after that, where it can be told.
const PROBE_AFTER: Duration = Duration::from_secs(30);
#[cfg(any(target_os = "freebsd", target_os = "linux", target_os = "macos"))]
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

/// Has the system find out when the host that a client is connected to is gone (S0.175).
///
/// # Errors
///
/// Those of the system.
pub fn set_up(socket: SockRef<'_>, keepalive: Keepalive) -> io::Result<()> {
    // The system counts in whole seconds.
    let probe_after = PROBE_AFTER.min(keepalive.interval).max(Duration::from_secs(1));
    let probes = TcpKeepalive::new().with_time(probe_after);
    #[cfg(any(target_os = "freebsd", target_os = "linux", target_os = "macos"))]
    let probes = probes.with_interval(PROBE_INTERVAL).with_retries(3);
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&probes)
}

/// The same for a host that has connected to a server.
///
/// # Errors
///
/// Those of the system.
pub fn set_up_accepted(socket: SockRef<'_>, keepalive: Keepalive) -> io::Result<()> {
    let probe_after = keepalive.interval.max(Duration::from_secs(1));
    socket.set_tcp_nodelay(true)?;
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(probe_after))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_system_probes_connections_that_are_silent() {
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
        }
        println!("covers: S0.175");
    }
}
