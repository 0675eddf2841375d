//! TLS handshakes over connections of any runtime. A handshake only reads and writes, so it needs
//! no runtime.

use core::{future::poll_fn, pin::Pin};
use std::{sync::Arc, time::UNIX_EPOCH};

use hyper::rt::Write as _;
use hyper_util::rt::TokioIo;
use rustls::{
    pki_types::{CertificateDer, ServerName, UnixTime},
    time_provider::TimeProvider,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::{
    grpc::ALPN_HTTP2,
    linger::LingerIo,
    runtime::{Io, SharedRuntime},
    tls_advice::{PeerRole, explain_tls_failure},
};

/// Protection of a connection to make.
#[derive(Clone, Debug)]
pub(crate) enum Security {
    Plain,
    Tls(Tls),
}

/// Configuration of a client's handshake.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) config: Arc<rustls::ClientConfig>,
    pub(crate) server_name: ServerName<'static>,
}

/// Application protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AppProtocol {
    Http2,
    #[cfg(feature = "rest")]
    Http1,
}

impl Tls {
    /// Returns the configuration with ALPN for `protocol`. HTTP/1.1 servers need not support ALPN.
    pub(crate) fn with_protocol(self, protocol: AppProtocol) -> Self {
        match protocol {
            AppProtocol::Http2 => self,
            #[cfg(feature = "rest")]
            AppProtocol::Http1 => {
                let mut config = (*self.config).clone();
                config.alpn_protocols = vec![crate::grpc::ALPN_HTTP1.to_vec()];
                Self { config: Arc::new(config), ..self }
            }
        }
    }

    /// Performs the client's handshake on `io`.
    pub(crate) async fn connect(
        self,
        io: Box<dyn Io>,
        runtime: &SharedRuntime,
    ) -> Result<Box<dyn Io>, String> {
        let Self { config, server_name } = self;
        let mut config = Arc::unwrap_or_clone(config);
        config.time_provider = Arc::new(RuntimeTime(runtime.clone()));
        let is_http2 = config.alpn_protocols.first().is_some_and(|it| *it == ALPN_HTTP2);
        let stream = TlsConnector::from(Arc::new(config))
            .connect(server_name, TokioIo::new(io))
            .await
            .map_err(|why| format!("TLS: {}", explain_tls_failure(&why, PeerRole::Server)))?;
        if is_http2 && stream.get_ref().1.alpn_protocol() != Some(ALPN_HTTP2) {
            return Err(
                "TLS: the server did not agree to speak HTTP/2 (ALPN h2); is it an HTTP/1 port?"
                    .into(),
            );
        }
        Ok(Box::new(TokioIo::new(stream)))
    }
}

impl core::fmt::Debug for Tls {
    // Omits the configuration, which contains a private key.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// Certificate chain that a client presented.
pub(crate) type Chain = Arc<[CertificateDer<'static>]>;

/// Failed handshake of a server.
pub(crate) struct RejectedClient {
    pub(crate) reason: String,
    io: TokioIo<Box<dyn Io>>,
}

/// Performs the server's handshake on `io`. Returns the connection and the client's certificates.
pub(crate) async fn accept(
    config: Arc<rustls::ServerConfig>,
    io: Box<dyn Io>,
    runtime: &SharedRuntime,
) -> Result<(Box<dyn Io>, Chain), RejectedClient> {
    let mut config = Arc::unwrap_or_clone(config);
    config.time_provider = Arc::new(RuntimeTime(runtime.clone()));
    let accept = TlsAcceptor::from(Arc::new(config)).accept(TokioIo::new(io)).into_fallible();
    let stream = accept.await.map_err(|(why, io)| RejectedClient {
        reason: explain_tls_failure(&why, PeerRole::Client),
        io,
    })?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let chain = chain.iter().map(|it| it.clone().into_owned()).collect();
    Ok((Box::new(TokioIo::new(stream)), chain))
}

impl RejectedClient {
    /// Closes the connection. A TLS 1.3 client sends requests before its certificate is checked,
    /// and still receives the alert with the reason why it is rejected.
    pub(crate) async fn close(self, runtime: &SharedRuntime) {
        let mut io = LingerIo::new(self.io.into_inner(), runtime);
        // The connection is dropped in any case.
        let _ = poll_fn(|cx| Pin::new(&mut io).poll_shutdown(cx)).await;
    }
}

/// Clock for the validity of certificates: the date and time of a runtime. It is set for each
/// handshake, because several runtimes may share credentials.
#[derive(Debug)]
pub struct RuntimeTime(pub SharedRuntime);

impl TimeProvider for RuntimeTime {
    fn current_time(&self) -> Option<UnixTime> {
        self.0.system_time().duration_since(UNIX_EPOCH).ok().map(UnixTime::since_unix_epoch)
    }
}
