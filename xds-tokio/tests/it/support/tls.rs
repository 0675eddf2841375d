//! Certificates for tests, and TLS servers.

use core::{
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_core::Stream;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, IsCa, Issuer,
    KeyIdMethod, KeyPair, RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use rustls::{
    ClientConfig, HandshakeKind, RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, Interest, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
};
use tokio_rustls::{TlsAcceptor, TlsConnector, server::TlsStream};
use tonic::transport::server::Connected;

use super::{FakeServer, Headers, soon};

/// A certificate authority.
pub(crate) struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
    private_key: String,
}

/// A certificate and its key, in PEM form.
#[derive(Clone)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) private_key: String,
}

impl Ca {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let private_key = key.serialize_pem();
        Self { issuer: Issuer::new(params, key), pem, private_key }
    }

    /// Returns the authority's own certificate, to be presented by a server.
    pub(crate) fn itself(&self) -> Identity {
        Identity { certificate: self.pem.clone(), private_key: self.private_key.clone() }
    }

    /// Issues a certificate for these names.
    pub(crate) fn issue(&self, names: &[&str]) -> Identity {
        self.issue_as(names, |_| {})
    }

    /// Issues a certificate for a URI and these other names.
    pub(crate) fn issue_for_uri(&self, uri: &str, names: &[&str]) -> Identity {
        let uri = SanType::URI(uri.try_into().unwrap());
        self.issue_as(names, |params| params.subject_alt_names.push(uri))
    }

    /// Issues a certificate for a name, with a serial number.
    pub(crate) fn issue_numbered(&self, name: &str, serial: u64) -> Identity {
        self.issue_as(&[name], |params| params.serial_number = Some(serial.into()))
    }

    /// Returns a certificate revocation list with these serial numbers, in PEM form.
    pub(crate) fn revoke(&self, serials: &[u64]) -> String {
        let revoked = |&serial: &u64| RevokedCertParams {
            serial_number: serial.into(),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2034, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    /// Issues a certificate with modified parameters.
    pub(crate) fn issue_as(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Identity {
        let names: Vec<String> = names.iter().map(|&name| name.into()).collect();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(names).unwrap();
        change(&mut params);
        let certificate = params.signed_by(&key, &self.issuer);
        Identity { certificate: certificate.unwrap().pem(), private_key: key.serialize_pem() }
    }
}

/// Clients that a server accepts.
pub(crate) enum Clients<'a> {
    Anybody,
    /// Clients with a certificate of this authority.
    Of(&'a Ca),
}

/// Server with TLS.
pub(crate) struct TlsServer {
    pub(crate) fake: FakeServer,
    handshakes: mpsc::UnboundedReceiver<Result<Option<CertificateDer<'static>>, String>>,
    accepting: JoinHandle<()>,
}

impl TlsServer {
    pub(crate) async fn start(own: &Identity, clients: Clients<'_>) -> Self {
        Self::start_on(([127, 0, 0, 1], 0).into(), own, clients, &[b"h2"]).await
    }

    pub(crate) async fn start_on(
        address: SocketAddr,
        own: &Identity,
        clients: Clients<'_>,
        protocols: &[&[u8]],
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(server_config(own, clients, protocols)));
        let (done, connections) = mpsc::unbounded_channel();
        let (told, handshakes) = mpsc::unbounded_channel();
        let accepting = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let shaken = acceptor.accept(socket).await;
                let news = match &shaken {
                    Ok(stream) => Ok(stream
                        .get_ref()
                        .1
                        .peer_certificates()
                        .and_then(|chain| chain.first())
                        .map(|certificate| certificate.clone().into_owned())),
                    Err(why) => Err(why.to_string()),
                };
                let _ = told.send(news);
                if let Ok(stream) = shaken {
                    let _ = done.send(Ok(Secured(stream)));
                }
            }
        });
        let fake = FakeServer::start_with_incoming(address, Accepted(connections), Headers::AtOnce);
        Self { fake, handshakes, accepting }
    }

    /// Returns the certificate of the next client, or the reason why the handshake failed.
    pub(crate) async fn handshake(&mut self) -> Result<Option<CertificateDer<'static>>, String> {
        soon(self.handshakes.recv()).await.expect("the server runs")
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn server_config(own: &Identity, clients: Clients<'_>, protocols: &[&[u8]]) -> ServerConfig {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        Clients::Anybody => builder.with_no_client_auth(),
        Clients::Of(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(der(&ca.pem)).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.unwrap())
        }
    };
    let key = PrivateKeyDer::from_pem_slice(own.private_key.as_bytes()).unwrap();
    let mut config = builder.with_single_cert(vec![der(&own.certificate)], key).unwrap();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    config
}

/// Client that makes TLS handshakes and has no requests. It keeps its sessions, to resume them.
pub(crate) struct TlsClient(TlsConnector);

impl TlsClient {
    pub(crate) fn new(servers: &Ca, own: &Identity) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(der(&servers.pem)).unwrap();
        let key = PrivateKeyDer::from_pem_slice(own.private_key.as_bytes()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![der(&own.certificate)], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self(TlsConnector::from(Arc::new(config)))
    }

    pub(crate) async fn handshake(&self, address: SocketAddr) -> HandshakeKind {
        let socket = TcpStream::connect(address).await.unwrap();
        let mut stream = self.0.connect(address.ip().into(), socket).await.unwrap();
        // Tickets for later sessions come before the server's first bytes.
        stream.read_u8().await.unwrap();
        stream.get_ref().1.handshake_kind().unwrap()
    }

    /// Sends bytes before the server has checked the certificate, reads once the server has closed
    /// the connection, and returns the error.
    pub(crate) async fn rejection(&self, address: SocketAddr) -> io::Error {
        let socket = TcpStream::connect(address).await.unwrap();
        let mut stream = self.0.connect(address.ip().into(), socket).await.unwrap();
        stream.write_all(&[0; 64 << 10]).await.unwrap();
        stream.flush().await.unwrap();
        let socket = stream.get_ref().0;
        while !socket.ready(Interest::READABLE).await.unwrap().is_read_closed() {
            tokio::task::yield_now().await;
        }
        stream.read_u8().await.unwrap_err()
    }
}

/// Returns the first certificate of a PEM text.
pub(crate) fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

/// Temporary directory, removed when dropped.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("xds-tokio-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Replaces a file atomically.
    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let (path, new) = (self.path(name), self.path("new"));
        std::fs::write(&new, content).unwrap();
        std::fs::rename(new, &path).unwrap();
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        Path::join(&self.0, name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Accepted(mpsc::UnboundedReceiver<io::Result<Secured>>);

impl Stream for Accepted {
    type Item = io::Result<Secured>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

struct Secured(TlsStream<TcpStream>);

impl Connected for Secured {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// Returns a token that is valid for a number of seconds and contains a mark.
pub(crate) fn token(seconds: i64, mark: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let expires = i64::try_from(now).unwrap() + seconds;
    let claims = format!("{{\"exp\": {expires}, \"mark\": \"{mark}\"}}");
    format!("e30.{}.c2lnbmF0dXJl", URL_SAFE_NO_PAD.encode(claims))
}
