//! Serving of one connection: TLS handshake, HTTP, and shutdown.

use core::{
    future::pending,
    pin::{Pin, pin},
    time::Duration,
};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;
use http::Request;
use hyper::{body::Incoming, rt::Timer as _, server::conn::http2, service::service_fn};
use tokio::{select, sync::watch};
use tonic::service::Routes;
use tower_service::Service as _;
use tracing::{debug, warn};
use xds_core::error_causes::with_causes;

use super::{
    fair_io::FairIo,
    go_away::GoAwayIo,
    handshakes::{Handshake, HandshakeEnd},
    listener::ServeConnection,
    preface::PrefaceIo,
};
#[cfg(feature = "rest")]
use crate::server::service::rest_bodies;
use crate::{
    clock::{Clock, FAR},
    guard::locked,
    keepalive::Keepalive,
    linger::LingerIo,
    runtime::{Accepted, Io, SharedRuntime},
    server::{
        access::peer::Peer,
        driver::log::{PeerAddress, Warnings},
        memory::{
            budgets::{ConnectionBudgets, TransportBudgets},
            transport_stats::TransportEvent,
        },
        options::ServerOptions,
    },
    tls,
};

/// Maximum time for the TLS handshake, and for the HTTP/2 preface or the head of the first REST
/// request after it.
pub(super) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) const HANDSHAKE_DROPPED: &str =
    "too many handshakes: a newer connection took the place of this one, the oldest";

/// Maximum time for a polling client to send the head of its next request. Longer than usual
/// polling intervals.
#[cfg(feature = "rest")]
const REST_IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum size in bytes of the buffer of a REST connection, and so of the head of a request. hyper
/// would use 400 KiB.
#[cfg(feature = "rest")]
const REST_BUFFER: usize = 64 << 10;

/// Stage of a listener, sent to its connections. They are closed at once when the sender is
/// dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListenerStage {
    Serving,
    /// No new calls are accepted. Connections end after their last call.
    Closing,
}

/// Service of a listener.
#[derive(Clone)]
pub(crate) enum ServedProtocol {
    Grpc(Routes),
    #[cfg(feature = "rest")]
    Rest(xds_rest::Gateway<crate::server::DiscoveryService>),
}

/// Shared state of a listener's connections.
#[derive(Clone)]
pub(crate) struct Connections {
    pub(crate) served: ServedProtocol,
    pub(crate) options: ServerOptions,
    pub(crate) runtime: SharedRuntime,
    budgets: TransportBudgets,
    warnings: Arc<Mutex<Warnings>>,
    pub(crate) clock: Clock,
}

impl ServeConnection for Connections {
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
        handshake: Handshake,
        stage: watch::Receiver<ListenerStage>,
    ) {
        self.serve_accepted(accepted.io, peer, handshake, stage).await;
    }
}

impl Connections {
    pub(crate) fn new(
        served: ServedProtocol,
        options: ServerOptions,
        budgets: TransportBudgets,
        runtime: SharedRuntime,
    ) -> Self {
        let clock = Clock::start(runtime.clone());
        Self { served, options, runtime, budgets, warnings: Arc::default(), clock }
    }

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

    /// Serves a connection until it ends, or its handshake is dropped in favour of a newer one.
    async fn serve_accepted(
        self,
        io: Box<dyn Io>,
        peer: Peer,
        mut handshake: Handshake,
        stage: watch::Receiver<ListenerStage>,
    ) {
        let secure = select! {
            biased;
            secure = self.secure(io, peer.clone()) => secure,
            () = handshake.dropped() => return self.report_unfinished(&peer, Unfinished::Dropped, ""),
            () = closed_by_listener(stage.clone()) => None,
        };
        let Some((io, peer)) = secure else { return };
        let io = LingerIo::new(io, &self.runtime);
        let shown = peer.clone();
        let Self { served, options, runtime, .. } = self.clone();
        let late = runtime.sleep(HANDSHAKE_TIMEOUT);
        let budgets = self.budgets.connection();
        let responses = budgets.responses.clone();
        let (ended, advice) = match served {
            ServedProtocol::Grpc(routes) => {
                let respond = service_fn(move |mut request: Request<Incoming>| {
                    request.extensions_mut().insert(peer.clone());
                    request.extensions_mut().insert::<ConnectionBudgets>(budgets.clone());
                    routes.clone().call(request)
                });
                let (io, ending) = GoAwayIo::new(io, self.clock.clone());
                let (io, detection) = PrefaceIo::new(FairIo::new(io));
                let connection = http2::Builder::new(runtime.clone())
                    .timer(runtime)
                    .auto_date_header(false)
                    .keep_alive_interval(options.keepalive.interval.min(FAR))
                    .keep_alive_timeout(options.keepalive.timeout.min(FAR))
                    .max_concurrent_streams(options.max_concurrent_streams)
                    .serve_connection(io, respond);
                let mut served = pin!(until_closed(connection, stage, |it| it.graceful_shutdown()));
                let begun = detection.http2_preface();
                select! {
                    biased;
                    ended = served.as_mut() => match ending.reason() {
                        Some(reason) => {
                            self.budgets.counters.note(TransportEvent::FloodedConnection);
                            return self.warn(&shown, reason);
                        }
                        None => (ended, detection.protocol().advice()),
                    },
                    reason = responses.evicted() => {
                        // The driver has logged it.
                        ending.order(reason);
                        // The HTTP/2 stack uses the connection at once, and ends.
                        served.now_or_never();
                        return;
                    }
                    failure = unfinished(handshake, begun, late) => {
                        return self.report_unfinished(&shown, failure, "HTTP/2 preface");
                    }
                }
            }
            #[cfg(feature = "rest")]
            ServedProtocol::Rest(gateway) => {
                let begun = Arc::new(tokio::sync::Notify::new());
                let first_request = Arc::clone(&begun);
                let dates = runtime.clone();
                let respond = service_fn(move |mut request: Request<Incoming>| {
                    begun.notify_one();
                    request.extensions_mut().insert(peer.clone());
                    let responding =
                        rest_bodies::respond(gateway.clone(), request, budgets.clone());
                    let dates = dates.clone();
                    async move { responding.await.map(|response| with_date(response, &dates)) }
                });
                let (io, detection) = PrefaceIo::new(FairIo::new(io));
                // The timeout closes connections of clients that do not send a complete request
                // head.
                let connection = hyper::server::conn::http1::Builder::new()
                    .timer(runtime)
                    .header_read_timeout(REST_IDLE_TIMEOUT)
                    .max_buf_size(REST_BUFFER)
                    // It would be that of the operating system's clock.
                    .auto_date_header(false)
                    .serve_connection(io, respond);
                let served = until_closed(connection, stage, |it| it.graceful_shutdown());
                let ended = select! {
                    biased;
                    ended = served => ended,
                    // HTTP/1 has no way to send a reason within a response.
                    reason = responses.evicted() => return self.warn(&shown, &reason),
                    failure = unfinished(handshake, first_request.notified(), late) => {
                        return self.report_unfinished(&shown, failure, "request");
                    }
                };
                (ended, detection.protocol().advice_of_rest())
            }
        };
        if let Err(why) = ended {
            if !advice.is_empty() {
                return self.warn(&shown, advice);
            }
            debug!(peer = %PeerAddress(&shown), reason = with_causes(&why), "connection lost");
        }
    }

    fn report_unfinished(&self, peer: &Peer, why: Unfinished, missing: &str) {
        match why {
            Unfinished::Silent => {
                self.budgets.counters.note(TransportEvent::SilentConnection);
                debug!(peer = %PeerAddress(peer), "client sent no {missing}: connection closed");
            }
            Unfinished::Dropped => {
                self.budgets.counters.note(TransportEvent::DroppedHandshake);
                self.warn(peer, HANDSHAKE_DROPPED);
            }
        }
    }

    /// Performs the TLS handshake if the server has credentials. Returns the connection and its
    /// peer.
    async fn secure(&self, io: Box<dyn Io>, peer: Peer) -> Option<(Box<dyn Io>, Peer)> {
        let Some(credentials) = &self.options.credentials else { return Some((io, peer)) };
        let failed = |reason: &str| {
            self.budgets.counters.note(TransportEvent::FailedTlsHandshake);
            self.warn(&peer, &format!("TLS: {reason}"));
        };
        let handshake = async {
            let config = credentials.current(Some(&self.runtime)).await;
            let config = config.map_err(|why| failed(&why.to_string())).ok()?;
            let config = match &self.served {
                ServedProtocol::Grpc(_) => config,
                #[cfg(feature = "rest")]
                ServedProtocol::Rest(_) => {
                    let mut config = (*config).clone();
                    config.alpn_protocols = vec![crate::grpc::ALPN_HTTP1.to_vec()];
                    Arc::new(config)
                }
            };
            Some(tls::accept(config, io, &self.runtime).await)
        };
        match self.runtime.timeout(HANDSHAKE_TIMEOUT, handshake).await {
            Some(accepted) => match accepted? {
                Ok((io, chain)) => return Some((io, peer.with_certificates(chain))),
                Err(rejected) => {
                    failed(&rejected.reason);
                    rejected.close(&self.runtime).await;
                }
            },
            None => failed("the handshake timed out"),
        }
        None
    }
}

/// Adds the date of the runtime's clock.
#[cfg(feature = "rest")]
fn with_date<B>(mut response: http::Response<B>, runtime: &SharedRuntime) -> http::Response<B> {
    let date = httpdate::fmt_http_date(runtime.system_time());
    if let Ok(date) = http::HeaderValue::try_from(date) {
        response.headers_mut().insert(http::header::DATE, date);
    }
    response
}

/// Reason why a handshake is not finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfinished {
    /// The client sent nothing, or too little, for [`HANDSHAKE_TIMEOUT`].
    Silent,
    /// A newer connection took the place of the handshake.
    Dropped,
}

/// Completes the handshake when the client has `begun`, and then never returns. Returns the reason
/// if the connection must be closed before.
pub(super) async fn unfinished(
    mut handshake: Handshake,
    begun: impl Future<Output = ()>,
    late: impl Future<Output = ()>,
) -> Unfinished {
    select! {
        biased;
        () = begun => {}
        () = handshake.dropped() => return Unfinished::Dropped,
        () = late => return Unfinished::Silent,
    }
    match handshake.complete() {
        HandshakeEnd::Completed => pending().await,
        HandshakeEnd::Dropped => Unfinished::Dropped,
    }
}

/// Serves a connection until it ends or the listener's stage sender is dropped.
async fn until_closed<C: Future<Output = hyper::Result<()>>>(
    connection: C,
    mut stage: watch::Receiver<ListenerStage>,
    close: impl Fn(Pin<&mut C>),
) -> hyper::Result<()> {
    let mut connection = pin!(connection);
    loop {
        select! {
            biased;
            ended = connection.as_mut() => return ended,
            changed = stage.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                close(connection.as_mut());
            }
        }
    }
}

/// Waits until the listener's stage sender is dropped.
pub(super) async fn closed_by_listener(mut stage: watch::Receiver<ListenerStage>) {
    while stage.changed().await.is_ok() {}
}
