//! TLS credentials of a client, as a rustls configuration ([gRFC A65]).
//!
//! [gRFC A65]: https://github.com/grpc/proposal/blob/master/A65-xds-mtls-creds-in-bootstrap.md

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rustls::{ClientConfig, RootCertStore};
use xds_bootstrap::TlsFiles;

use super::{
    crypto::crypto_provider,
    error::CredentialsError,
    files,
    pem::{bad_identity, parse_identity, parse_roots, read_identity},
    source::{FileSource, Files},
};
use crate::grpc::ALPN_HTTP2;

pub(super) type TlsSource = FileSource<ClientFiles>;

/// TLS files of a client; `None` if the kind of credentials is not supported.
#[derive(Debug)]
pub(super) struct ClientFiles(pub(super) Option<TlsFiles>);

/// Loaded configuration and the file contents that it is based on.
pub(super) struct LoadedClientFiles {
    contents: ClientFileContents,
    roots: Arc<RootCertStore>,
    roots_read: Instant,
    /// Contains the TLS session cache, so it is kept while the files do not change.
    config: Arc<ClientConfig>,
}

#[derive(PartialEq, Eq)]
struct ClientFileContents {
    ca_certificate: Option<Vec<u8>>,
    identity: Option<[Vec<u8>; 2]>,
}

impl Files for ClientFiles {
    type Config = ClientConfig;
    type Loaded = LoadedClientFiles;

    fn read(
        &self,
        before: Option<&LoadedClientFiles>,
        now: Instant,
    ) -> Result<Option<LoadedClientFiles>, CredentialsError> {
        let files = self.0.as_ref().ok_or(CredentialsError::Unsupported)?;
        let contents = ClientFileContents {
            ca_certificate: files.ca_certificate.as_deref().map(files::read).transpose()?,
            identity: files.identity.as_ref().map(read_identity).transpose()?,
        };
        let is_known =
            |before: &&LoadedClientFiles| before.contents.ca_certificate == contents.ca_certificate;
        // The system's root certificates consist of many files, which are not read for every
        // connection.
        let is_recent = |before: &&LoadedClientFiles| {
            contents.ca_certificate.is_some()
                || now.saturating_duration_since(before.roots_read) < files.refresh_interval
        };
        let (roots, roots_read) = match before.filter(is_known).filter(is_recent) {
            Some(before) if before.contents == contents => return Ok(None),
            Some(before) => (Arc::clone(&before.roots), before.roots_read),
            None => (Arc::new(read_roots(files, &contents)?), now),
        };
        let config = ClientConfig::builder_with_provider(crypto_provider())
            .with_safe_default_protocol_versions()
            .map_err(|why| CredentialsError::NoSystemRoots(why.to_string().into()))?
            .with_root_certificates(Arc::clone(&roots));
        let mut config = match (&files.identity, &contents.identity) {
            (Some(own), Some(content)) => {
                let (chain, key) = parse_identity(own, content)?;
                config.with_client_auth_cert(chain, key).map_err(|why| bad_identity(own, &why))?
            }
            _ => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![ALPN_HTTP2.to_vec()];
        Ok(Some(LoadedClientFiles { contents, roots, roots_read, config: Arc::new(config) }))
    }

    fn config(loaded: &LoadedClientFiles) -> &Arc<ClientConfig> {
        &loaded.config
    }

    fn refresh_interval(&self) -> Option<Duration> {
        self.0.as_ref().map(|files| files.refresh_interval)
    }
}

fn read_roots(
    files: &TlsFiles,
    contents: &ClientFileContents,
) -> Result<RootCertStore, CredentialsError> {
    if let (Some(path), Some(content)) = (&files.ca_certificate, &contents.ca_certificate) {
        return parse_roots(path, content);
    }
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    // Some of the system's certificates may be unusable.
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        let why = found.errors.first().map(|why| why.to_string().into());
        return Err(CredentialsError::NoSystemRoots(why.unwrap_or_else(|| "none found".into())));
    }
    Ok(roots)
}
