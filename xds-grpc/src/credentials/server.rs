//! A server's certificate and key in files, and which clients' certificates it believes.

use core::time::Duration;
use std::{path::PathBuf, sync::Arc};

use rustls::{RootCertStore, ServerConfig, crypto::ring, server::WebPkiClientVerifier};
use xds_bootstrap::IdentityFiles;

use super::{
    error::CredentialsError,
    files,
    pem::{bad_identity, parse_identity, parse_roots, read_identity},
    source::{Files, Source},
};
use crate::{grpc::ALPN_HTTP2, runtime::Shared};

/// How the connections of a management server are secured: TLS with a certificate of its own, and
/// with a [client authority](Self::with_client_authority) mutual TLS.
///
/// Files are read for every connection, and in between at their
/// [refresh interval](Self::with_refresh_interval); what they last held that was sound is used while
/// they hold nothing that is. Connections that are open stay as they are. Clones share what was read.
/// No file's content is ever printed or logged.
#[derive(Clone, Debug)]
pub struct ServerCredentials(Arc<Source<ServerFiles>>);

/// Which clients a server takes that has a
/// [client authority](ServerCredentials::with_client_authority).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientCertificates {
    /// Those that show a certificate of the authority.
    #[default]
    Required,
    /// These, and those that show none. Whether such a one may have anything is for an
    /// [`Authorizer`](crate::server::Authorizer) to say.
    Requested,
}

impl ServerCredentials {
    /// TLS with the certificate and key in these files (PEM), for any client.
    #[must_use]
    pub fn tls(identity: IdentityFiles) -> Self {
        let refresh_interval = Duration::from_secs(600);
        Self::from(ServerFiles { identity, clients: None, refresh_interval })
    }

    /// Believes clients whose certificates the root certificates in this file (PEM) vouch for.
    #[must_use]
    pub fn with_client_authority(self, path: impl Into<PathBuf>, take: ClientCertificates) -> Self {
        Self::from(ServerFiles { clients: Some((path.into(), take)), ..self.0.files().clone() })
    }

    /// Sets how often the files are read between connections, so that there is a good state to fall
    /// back to when one is replaced by something broken; ten minutes by default.
    #[must_use]
    pub fn with_refresh_interval(self, refresh_interval: Duration) -> Self {
        Self::from(ServerFiles { refresh_interval, ..self.0.files().clone() })
    }

    /// Reads every file once, to find mistakes before anybody connects.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, with the file.
    pub async fn check(&self) -> Result<(), CredentialsError> {
        self.current(None).await.map(drop)
    }

    pub(crate) async fn current(
        &self,
        runtime: Option<&Shared>,
    ) -> Result<Arc<ServerConfig>, CredentialsError> {
        self.0.current(runtime).await
    }
}

impl From<ServerFiles> for ServerCredentials {
    fn from(files: ServerFiles) -> Self {
        Self(Arc::new(Source::new(files)))
    }
}

/// Where everything is.
#[derive(Clone, Debug)]
struct ServerFiles {
    identity: IdentityFiles,
    clients: Option<(PathBuf, ClientCertificates)>,
    refresh_interval: Duration,
}

/// What was made of the files, and of which content.
struct Loaded {
    contents: Contents,
    config: Arc<ServerConfig>,
}

#[derive(PartialEq, Eq)]
struct Contents {
    identity: [Vec<u8>; 2],
    clients: Option<Vec<u8>>,
}

impl Files for ServerFiles {
    type Config = ServerConfig;
    type Loaded = Loaded;

    fn read(&self, before: Option<&Loaded>) -> Result<Option<Loaded>, CredentialsError> {
        let contents = Contents {
            identity: read_identity(&self.identity)?,
            clients: self.clients.as_ref().map(|(path, _)| files::read(path)).transpose()?,
        };
        if before.is_some_and(|before| before.contents == contents) {
            return Ok(None);
        }
        let (chain, key) = parse_identity(&self.identity, &contents.identity)?;
        let provider = Arc::new(ring::default_provider());
        let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|why| bad_identity(&self.identity, &why))?;
        let config = match (&self.clients, &contents.clients) {
            (Some((path, take)), Some(content)) => {
                let roots: Arc<RootCertStore> = Arc::new(parse_roots(path, content)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                let verifier = match take {
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
        config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
        Ok(Some(Loaded { contents, config: Arc::new(config) }))
    }

    fn config(loaded: &Loaded) -> &Arc<ServerConfig> {
        &loaded.config
    }

    fn refresh_interval(&self) -> Option<Duration> {
        Some(self.refresh_interval)
    }
}
