//! Connections on which nothing is sent. There are always more than a server allows handshakes.

use core::{net::SocketAddr, time::Duration};

use tokio::{io::AsyncReadExt as _, time::sleep};

use crate::stack::Host;

/// Number of connections to each server. A server that let new connections wait until the handshakes
/// of these have timed out would keep its clients waiting for longer than they try to connect.
const CONNECTIONS: u32 = 16;

/// Time after which a connection that the server has closed is made again.
const PAUSE: Duration = Duration::from_secs(20);

/// Begins to connect, until the host is killed.
pub(super) fn start(host: &Host, servers: &[Host], port: u16) {
    for server in servers {
        let address = SocketAddr::new(server.address(), port);
        for number in 0..CONNECTIONS {
            let dialing = host.clone();
            host.start(async move {
                // One after the other.
                sleep(PAUSE / CONNECTIONS * number).await;
                loop {
                    if let Ok(mut socket) = dialing.dial(address).await {
                        // Whatever the server sends, until it closes the connection.
                        while socket.read(&mut [0; 64]).await.is_ok_and(|count| count > 0) {}
                    }
                    sleep(PAUSE).await;
                }
            });
        }
    }
}
