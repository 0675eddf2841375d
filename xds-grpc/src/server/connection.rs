//! One connection: secured if it is to be, then served until it ends, or is cut.

use core::{net::SocketAddr, pin::pin, time::Duration};

use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use tokio::{
    select,
    sync::{OwnedSemaphorePermit, watch},
};
use tonic::service::Routes;
use tower_service::Service as _;
use tracing::{debug, warn};

use super::{log::Address, options::ServerOptions, peer::Peer};
use crate::{
    grpc::with_causes,
    runtime::{Io, Shared},
    tls,
};

/// A client that takes longer is not heard of again.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

/// What the connections of a listener are told. Without it they are cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Serving,
    /// No more calls are taken; the connection ends when those that run have.
    Closing,
}

/// What the connections of a listener have in common.
#[derive(Clone)]
pub(super) struct Connections {
    pub(super) routes: Routes,
    pub(super) options: ServerOptions,
    pub(super) runtime: Shared,
}

impl Connections {
    /// Serves one until it ends. The permit is for the handshake.
    pub(super) async fn serve(
        self,
        io: Box<dyn Io>,
        address: Option<SocketAddr>,
        permit: OwnedSemaphorePermit,
        mut stage: watch::Receiver<Stage>,
    ) {
        let secured = select! {
            secured = self.secured(io, address) => secured,
            () = cut(stage.clone()) => None,
        };
        let Some((io, peer)) = secured else { return };
        drop(permit);
        let keepalive = self.options.keepalive;
        let routes = self.routes;
        let answer = service_fn(move |mut request: http::Request<Incoming>| {
            request.extensions_mut().insert(peer.clone());
            routes.clone().call(request)
        });
        let mut connection = pin!(
            http2::Builder::new(self.runtime.clone())
                .timer(self.runtime)
                .keep_alive_interval(keepalive.interval)
                .keep_alive_timeout(keepalive.timeout)
                .max_concurrent_streams(self.options.max_concurrent_streams)
                .serve_connection(io, answer)
        );
        loop {
            let ended = select! {
                ended = connection.as_mut() => ended,
                changed = stage.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    connection.as_mut().graceful_shutdown();
                    continue;
                }
            };
            if let Err(why) = ended {
                debug!(peer = %Address(address), reason = with_causes(&why), "a connection broke");
            }
            return;
        }
    }

    /// The connection as it is served, and who is at its other end.
    async fn secured(
        &self,
        io: Box<dyn Io>,
        address: Option<SocketAddr>,
    ) -> Option<(Box<dyn Io>, Peer)> {
        let peer = Peer::new(address);
        let Some(credentials) = &self.options.credentials else { return Some((io, peer)) };
        let shaking_hands = async {
            let config = credentials.current(Some(&self.runtime)).await;
            tls::accept(config.map_err(|why| why.to_string())?, io).await
        };
        let reason = match self.runtime.timeout(HANDSHAKE_TIME, shaking_hands).await {
            Some(Ok((io, chain))) => return Some((io, peer.with_certificates(chain))),
            Some(Err(reason)) => reason,
            None => "the handshake took too long".into(),
        };
        warn!(peer = %Address(address), reason, "TLS: no connection");
        None
    }
}

/// Waits until connections are cut.
async fn cut(mut stage: watch::Receiver<Stage>) {
    while stage.changed().await.is_ok() {}
}
