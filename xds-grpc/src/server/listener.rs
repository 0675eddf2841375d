//! A listener: connections accepted and served beside each other, and cut when the server does not wait for
//! them any longer.

use core::{future::Future, time::Duration};
use std::{io, sync::Arc};

use hyper::rt::Timer as _;
use tokio::{
    select,
    sync::{Semaphore, watch},
};
use tracing::{debug, warn};

use super::{
    connection::{Connections, Stage},
    gate::Gate,
};
use crate::runtime::Listen;

/// A pause after a failure, as when there are no file descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// Further connections wait in the listener's queue.
const MAX_HANDSHAKES: usize = 1_024;

/// Serves what a listener accepts until `ended`, then closes it, and waits for connections to end, but not
/// longer than the grace. Dropping the future cuts them.
pub(super) async fn serve<R: Listen>(
    listener: R::Listener,
    connections: Connections,
    gate: &Gate,
    ended: impl Future<Output = ()>,
) {
    // Dropping the sender cuts all connections.
    let (stage, told) = watch::channel(Stage::Serving);
    select! {
        () = accept::<R>(&listener, &connections, gate, &told) => {}
        () = ended => {}
    }
    drop((listener, told));
    stage.send_replace(Stage::Closing);
    let grace = connections.options.shutdown_grace;
    // It is closed when the last connection is.
    let _ = connections.runtime.timeout(grace, stage.closed()).await;
}

/// Whether an error is about a connection that has been taken from the queue, so that the next one may be accepted at
/// once. Clients can bring about as many of these as they like.
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

/// Accepts connections for ever. One whose handshake takes its time holds up nobody else's.
async fn accept<R: Listen>(
    listener: &R::Listener,
    connections: &Connections,
    gate: &Gate,
    told: &watch::Receiver<Stage>,
) {
    let keepalive = connections.options.keepalive;
    let handshakes = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    loop {
        // Nobody closes it.
        let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else { return };
        match R::accept(listener, keepalive).await {
            Ok((io, address)) => {
                // Dropping it closes it.
                let Some(place) = gate.admit(address, connections.runtime.now()) else { continue };
                let serving = connections.clone().serve(io, address, permit, told.clone());
                connections.runtime.spawn(async move {
                    serving.await;
                    drop(place);
                });
            }
            Err(error) if is_of_one_connection(&error) => {
                debug!(%error, "a connection was over before it was accepted");
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                connections.runtime.sleep(PAUSE).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of which each client can bring about any number must not hold up the others.
    #[test]
    fn only_what_goes_on_is_waited_out() {
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
