//! TLS over connections of any runtime. The handshake only reads and writes: it needs no runtime itself.

use std::sync::Arc;

use hyper_util::rt::TokioIo;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::{
    credentials::{Peer, explain_tls_failure},
    grpc::ALPN_HTTP2,
    runtime::Io,
};

/// What a client's handshake needs.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) config: Arc<rustls::ClientConfig>,
    pub(crate) server_name: ServerName<'static>,
}

/// What is spoken over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaks {
    Http2,
    #[cfg(feature = "rest")]
    Http1,
}

impl Tls {
    /// The same for what is to be spoken. Servers of HTTP/1.1 need not say that they speak it.
    pub(crate) fn speaking(self, speaks: Speaks) -> Self {
        match speaks {
            Speaks::Http2 => self,
            #[cfg(feature = "rest")]
            Speaks::Http1 => {
                let mut config = (*self.config).clone();
                config.alpn_protocols = vec![crate::grpc::ALPN_HTTP1.to_vec()];
                Self { config: Arc::new(config), ..self }
            }
        }
    }

    /// Shakes hands with the server at the other end of `io`.
    pub(crate) async fn connect(self, io: Box<dyn Io>) -> Result<Box<dyn Io>, String> {
        let Self { config, server_name } = self;
        let is_http2 = config.alpn_protocols.first().is_some_and(|it| *it == ALPN_HTTP2);
        let stream = TlsConnector::from(config)
            .connect(server_name, TokioIo::new(io))
            .await
            .map_err(|why| format!("TLS: {}", explain_tls_failure(&why, Peer::Server)))?;
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
    /// Without the configuration, which holds a private key.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Tls").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// The certificates that a client has shown.
pub(crate) type Chain = Arc<[CertificateDer<'static>]>;

/// Shakes hands with the client at the other end of `io`.
pub(crate) async fn accept(
    config: Arc<rustls::ServerConfig>,
    io: Box<dyn Io>,
) -> Result<(Box<dyn Io>, Chain), String> {
    let accepted = TlsAcceptor::from(config).accept(TokioIo::new(io)).await;
    let stream = accepted.map_err(|why| explain_tls_failure(&why, Peer::Client))?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let chain = chain.iter().map(|it| it.clone().into_owned()).collect();
    Ok((Box::new(TokioIo::new(stream)), chain))
}
