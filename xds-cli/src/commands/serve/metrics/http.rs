//! HTTP/1 server with two pages.

use core::{convert::Infallible, time::Duration};
use std::{
    collections::VecDeque,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    task::AbortHandle,
    time::{sleep, timeout},
};
use xds_tokio::server::ListenAddress;

use super::Reporter;
use crate::failure::Failure;

/// Maximum number of connections. A further one takes the place of the oldest that has sent no
/// request, or of the oldest.
const MAX_CONNECTIONS: usize = 64;
/// Time within which a client must have sent a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum duration of a connection.
const LIFETIME: Duration = Duration::from_secs(60);
/// Pause after a failed accept, for example when there are no free file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Listener of the pages, with its address.
pub(crate) type MetricsListener = (SocketAddr, TcpListener);

/// Listens on an address.
pub(crate) async fn bind(address: &str) -> Result<MetricsListener, Failure> {
    let failure = |why| Failure::Listen { address: address.to_owned(), why };
    let invalid = |why: &dyn core::fmt::Display| {
        failure(io::Error::new(io::ErrorKind::InvalidInput, why.to_string()))
    };
    let listener = match address.parse::<ListenAddress>().map_err(|why| invalid(&why))? {
        ListenAddress::Ip(address) => TcpListener::bind(address).await,
        ListenAddress::Host(host, port) => TcpListener::bind((&*host, port)).await,
        ListenAddress::AllInterfaces(port) => {
            match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
                // IPv4 only.
                Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
                bound => bound,
            }
        }
        _ => return Err(invalid(&"metrics are served over TCP only: use HOST:PORT or :PORT")),
    };
    let listener = listener.map_err(failure)?;
    let bound = listener.local_addr().map_err(failure)?;
    Ok((bound, listener))
}

/// Connection that is served.
struct PageConnection {
    task: AbortHandle,
    /// Whether it has sent a request.
    has_requested: Arc<AtomicBool>,
}

/// Serves the pages until it is dropped.
pub(crate) async fn serve(listener: TcpListener, reporter: Arc<Reporter>) {
    let mut open = VecDeque::<PageConnection>::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                open.retain(|it| !it.task.is_finished());
                // Clients that do not send a request do not keep probes waiting.
                if open.len() >= MAX_CONNECTIONS {
                    let silent =
                        open.iter().position(|it| !it.has_requested.load(Ordering::Relaxed));
                    if let Some(ended) = open.remove(silent.unwrap_or(0)) {
                        ended.task.abort();
                    }
                }
                let has_requested = Arc::new(AtomicBool::new(false));
                // A client that is slow or has gone is no error of the server.
                let served = connection(stream, Arc::clone(&reporter), Arc::clone(&has_requested));
                let task = tokio::spawn(timeout(LIFETIME, served)).abort_handle();
                open.push_back(PageConnection { task, has_requested });
            }
            Err(why) => {
                tracing::debug!(%why, "cannot accept a connection for metrics");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, reporter: Arc<Reporter>, has_requested: Arc<AtomicBool>) {
    let respond = service_fn(move |request: Request<Incoming>| {
        let (reporter, has_requested) = (Arc::clone(&reporter), Arc::clone(&has_requested));
        async move {
            has_requested.store(true, Ordering::Relaxed);
            let (status, text) = respond(request.method(), request.uri().path(), &reporter).await;
            let mut response = Response::new(Full::new(Bytes::from(text)));
            *response.status_mut() = status;
            let headers = response.headers_mut();
            let content_type = HeaderValue::from_static("text/plain; version=0.0.4");
            headers.insert(header::CONTENT_TYPE, content_type);
            if status == StatusCode::METHOD_NOT_ALLOWED {
                headers.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            }
            Ok::<_, Infallible>(response)
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIMEOUT)
        .serve_connection(TokioIo::new(stream), respond);
    if let Err(why) = serving.await {
        tracing::debug!(%why, "connection for metrics lost");
    }
}

async fn respond(method: &Method, path: &str, reporter: &Reporter) -> (StatusCode, String) {
    if method != Method::GET && method != Method::HEAD {
        return (StatusCode::METHOD_NOT_ALLOWED, "use GET\n".to_owned());
    }
    match path {
        "/metrics" => match reporter.metrics().await {
            Ok(metrics) => (StatusCode::OK, metrics),
            Err(ended) => (StatusCode::SERVICE_UNAVAILABLE, format!("{ended}\n")),
        },
        "/ready" if reporter.is_ready() => (StatusCode::OK, "ready\n".to_owned()),
        "/ready" => {
            let why = reporter.reason().await;
            (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n"))
        }
        _ => (StatusCode::NOT_FOUND, "this address has /metrics and /ready\n".to_owned()),
    }
}
