//! A listener: connections accepted and served beside each other, and cut when the server does not wait for
//! them any longer.

use core::{future::Future, time::Duration};
use std::sync::Arc;

use hyper::rt::Timer as _;
use tokio::{
    select,
    sync::{Semaphore, watch},
};
use tracing::warn;

use super::connection::{Connections, Stage};
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
    ended: impl Future<Output = ()>,
) {
    // Dropping the sender cuts all connections.
    let (stage, told) = watch::channel(Stage::Serving);
    select! {
        () = accept::<R>(&listener, &connections, &told) => {}
        () = ended => {}
    }
    drop((listener, told));
    stage.send_replace(Stage::Closing);
    let grace = connections.options.shutdown_grace;
    // It is closed when the last connection is.
    let _ = connections.runtime.timeout(grace, stage.closed()).await;
}

/// Accepts connections for ever. One whose handshake takes its time holds up nobody else's.
async fn accept<R: Listen>(
    listener: &R::Listener,
    connections: &Connections,
    told: &watch::Receiver<Stage>,
) {
    let keepalive = connections.options.keepalive;
    let handshakes = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    loop {
        // Nobody closes it.
        let Ok(permit) = Arc::clone(&handshakes).acquire_owned().await else { return };
        match R::accept(listener, keepalive).await {
            Ok((io, address)) => {
                let serving = connections.clone().serve(io, address, permit, told.clone());
                connections.runtime.spawn(serving);
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                connections.runtime.sleep(PAUSE).await;
            }
        }
    }
}
