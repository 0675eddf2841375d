//! TLS credentials of a server: certificate, private key, and trusted client certificates.

use core::time::Duration;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Instant, SystemTime},
};

use rustls::{
    RootCertStore, ServerConfig,
    server::{NoServerSessionStorage, WebPkiClientVerifier},
};
use xds_bootstrap::IdentityFiles;

use super::{
    crypto::crypto_provider,
    error::CredentialsError,
    expiry::{ExpiringFile, Expiry},
    files,
    pem::{
        bad_identity, certificates, parse_identity, parse_revocation_lists, parse_roots,
        read_identity,
    },
    source::{FileSource, Files},
};
use crate::{grpc::ALPN_HTTP2, runtime::SharedRuntime};

/// TLS credentials of a management server. With a [client authority](Self::with_client_authority)
/// it uses mutual TLS.
///
/// Files are read for every connection, and in addition at a [refresh
/// interval](Self::with_refresh_interval). If they become invalid, the last valid contents are
/// used. Open connections are not affected. Clones share the loaded files. File contents are never
/// printed or logged.
#[derive(Clone, Debug)]
pub struct ServerCredentials(Arc<FileSource<ServerFiles>>);

/// Policy for client certificates of a server with a [client
/// authority](ServerCredentials::with_client_authority).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientCertificates {
    /// A client must present a certificate of the authority.
    #[default]
    Required,
    /// A client may also connect without a certificate. Use an
    /// [`Authorizer`](crate::server::Authorizer) to decide what such a client can access.
    Requested,
}

impl ServerCredentials {
    /// Creates TLS credentials from PEM files. Clients need no certificate.
    ///
    /// A certificate that has expired or is not valid yet is used, with a warning in the log: when the file
    /// is read and has changed, and when it expires later.
    #[must_use]
    pub fn tls(identity: IdentityFiles) -> Self {
        let refresh_interval = Duration::from_secs(600);
        let revocation_lists = Arc::default();
        Self::from(ServerFiles { identity, clients: None, revocation_lists, refresh_interval })
    }

    /// Trusts client certificates issued by the root certificates in a PEM file.
    #[must_use]
    pub fn with_client_authority(
        self,
        path: impl Into<PathBuf>,
        policy: ClientCertificates,
    ) -> Self {
        Self::from(ServerFiles { clients: Some((path.into(), policy)), ..self.0.files().clone() })
    }

    /// Rejects client certificates that are listed in these PEM files of certificate revocation
    /// lists (CRLs). Without a [client authority](Self::with_client_authority) they are not used.
    ///
    /// If there is any file, each authority in a client's chain must have a list, whose signature is
    /// checked; otherwise the client is rejected. A list whose next update is overdue is still used.
    #[must_use]
    pub fn with_revocation_lists<P: Into<PathBuf>>(
        self,
        files: impl IntoIterator<Item = P>,
    ) -> Self {
        let revocation_lists = files.into_iter().map(Into::into).collect();
        Self::from(ServerFiles { revocation_lists, ..self.0.files().clone() })
    }

    /// Sets the interval at which files are read between connections, so that recent valid contents
    /// are available if a file becomes invalid. 600 s by default.
    #[must_use]
    pub fn with_refresh_interval(self, refresh_interval: Duration) -> Self {
        Self::from(ServerFiles { refresh_interval, ..self.0.files().clone() })
    }

    /// Reads every file once, to detect faults before serving.
    ///
    /// # Errors
    ///
    /// Returns the first fault, with the file's path.
    pub async fn check(&self) -> Result<(), CredentialsError> {
        self.current(None).await.map(drop)
    }

    /// Returns the earliest time at which a file of each kind expires, in the contents that are in use.
    /// The list is empty until the files have been read.
    #[must_use]
    pub fn expiries(&self) -> Vec<(ExpiringFile, SystemTime)> {
        let mut earliest = BTreeMap::<ExpiringFile, SystemTime>::new();
        let loaded = self.0.loaded();
        for expiry in loaded.iter().flat_map(|loaded| &loaded.expiries) {
            let Some(at) = expiry.at() else { continue };
            let first = earliest.entry(expiry.kind).or_insert(at);
            *first = at.min(*first);
        }
        earliest.into_iter().collect()
    }

    pub(crate) async fn current(
        &self,
        runtime: Option<&SharedRuntime>,
    ) -> Result<Arc<ServerConfig>, CredentialsError> {
        self.0.current(runtime).await
    }
}

impl From<ServerFiles> for ServerCredentials {
    fn from(files: ServerFiles) -> Self {
        Self(Arc::new(FileSource::new(files)))
    }
}

/// Paths and policy of a server's credentials.
#[derive(Clone, Debug)]
struct ServerFiles {
    identity: IdentityFiles,
    clients: Option<(PathBuf, ClientCertificates)>,
    revocation_lists: Arc<[PathBuf]>,
    refresh_interval: Duration,
}

/// Loaded configuration and the file contents that it is based on.
struct LoadedServerFiles {
    contents: ServerFileContents,
    config: Arc<ServerConfig>,
    expiries: Vec<Expiry>,
}

#[derive(PartialEq, Eq)]
struct ServerFileContents {
    identity: [Vec<u8>; 2],
    clients: Option<Vec<u8>>,
    revocation_lists: Vec<Vec<u8>>,
}

impl Files for ServerFiles {
    type Config = ServerConfig;
    type Loaded = LoadedServerFiles;

    fn read(
        &self,
        before: Option<&LoadedServerFiles>,
        _: Instant,
    ) -> Result<Option<LoadedServerFiles>, CredentialsError> {
        let contents = ServerFileContents {
            identity: read_identity(&self.identity)?,
            clients: self.clients.as_ref().map(|(path, _)| files::read(path)).transpose()?,
            revocation_lists: self
                .revocation_lists
                .iter()
                .map(|path| files::read(path))
                .collect::<Result<_, _>>()?,
        };
        if let Some(before) = before.filter(|before| before.contents == contents) {
            before.expiries.iter().for_each(Expiry::report);
            return Ok(None);
        }
        let (chain, key) = parse_identity(&self.identity, &contents.identity)?;
        let own = chain.first();
        let own = own.and_then(|it| Expiry::of_certificate(&self.identity.certificate, it));
        let mut expiries: Vec<_> = own.into_iter().collect();
        let provider = crypto_provider();
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|why| bad_identity(&self.identity, &why))?;
        let config = match (&self.clients, &contents.clients) {
            (Some((path, policy)), Some(content)) => {
                let roots: Arc<RootCertStore> = Arc::new(parse_roots(path, content)?);
                expiries.extend(
                    certificates(path, content)?.iter().filter_map(|it| Expiry::of_root(path, it)),
                );
                let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                for (path, content) in self.revocation_lists.iter().zip(&contents.revocation_lists)
                {
                    let lists = parse_revocation_lists(path, content)?;
                    expiries.extend(lists.iter().filter_map(|it| Expiry::of_list(path, it)));
                    verifier = verifier.with_crls(lists);
                }
                let verifier = match policy {
                    ClientCertificates::Required => verifier,
                    ClientCertificates::Requested => verifier.allow_unauthenticated(),
                };
                let verifier = verifier.build().map_err(|why| CredentialsError::BadRoot {
                    path: path.clone(),
                    why: why.to_string().into(),
                })?;
                config.with_client_cert_verifier(verifier)
            }
            _ => config.with_no_client_auth(),
        };
        let mut config = config
            .with_single_cert(chain, key)
            .map_err(|why| bad_identity(&self.identity, &why))?;
        if self.clients.is_some() {
            // A resumed session does not check the client's certificate again, which may have expired since.
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
        expiries.iter().for_each(Expiry::report);
        Ok(Some(LoadedServerFiles { contents, config: Arc::new(config), expiries }))
    }

    fn config(loaded: &LoadedServerFiles) -> &Arc<ServerConfig> {
        &loaded.config
    }

    fn refresh_interval(&self) -> Option<Duration> {
        Some(self.refresh_interval)
    }
}
