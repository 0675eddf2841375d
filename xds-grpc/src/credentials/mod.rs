//! TLS and call credentials of clients and servers ([gRFC A29], [gRFC A65], [gRFC A97]).
//!
//! The configuration consists of file paths; [`xds_bootstrap`] represents them. This module reads
//! the files at every attempt to connect, so that a new connection uses their current contents. It
//! also reads them at a refresh interval, so that the last valid contents can be used if a file is
//! replaced by an invalid one.
//!
//! | file | content |
//! |---|---|
//! | `tls.rs` | the rustls configuration of a client |
//! | `server.rs` | the rustls configuration of a server |
//! | `pem.rs` | parsing of certificates and keys |
//! | `expiry.rs` | times at which files of a server expire, and warnings after them |
//! | `source.rs` | reloading of files with the last valid contents as fallback |
//! | `token.rs` | tokens from files |
//! | `crypto.rs` | the cryptography of TLS |
//! | `files.rs` | reading with a size limit |
//! | `error.rs`, `file_content.rs` | errors; kinds of unexpected file contents |
//!
//! [gRFC A29]: https://github.com/grpc/proposal/blob/master/A29-xds-tls-security.md
//! [gRFC A65]: https://github.com/grpc/proposal/blob/master/A65-xds-mtls-creds-in-bootstrap.md
//! [gRFC A97]: https://github.com/grpc/proposal/blob/master/A97-xds-jwt-call-creds.md

mod crypto;
mod error;
mod expiry;
mod file_content;
mod files;
mod pem;
mod server;
mod source;
mod tls;
mod token;

use core::fmt;
use std::sync::Arc;

use http::{HeaderMap, header::AUTHORIZATION};
use rustls::pki_types::ServerName;
use tonic::Status;
use xds_bootstrap::{CallCredentials, ChannelCredentials, TlsFiles, XdsServer};

pub use self::{
    crypto::crypto_provider,
    error::CredentialsError,
    expiry::ExpiringFile,
    file_content::FileContent,
    pem::{load_identity, load_roots},
    server::{ClientCertificates, ServerCredentials},
};
use self::{
    tls::{ClientFiles, TlsSource},
    token::TokenSource,
};
use crate::{
    address::{Scheme, Target},
    runtime::SharedRuntime,
    tls::{Security, Tls},
};
pub use crate::{
    tls::RuntimeTime,
    tls_advice::{PeerRole, explain_tls_failure},
};

/// Channel and call credentials of a client for a management server.
///
/// By default the server's address decides: `https://` uses TLS with the operating system's root
/// certificates, all other addresses are insecure. Clones share the loaded files. File contents are
/// never printed or logged.
#[derive(Clone, Default)]
pub struct Credentials {
    channel: ChannelSecurity,
    server_name: Option<ServerName<'static>>,
    calls: Vec<Arc<TokenSource>>,
}

#[derive(Clone, Debug)]
enum ChannelSecurity {
    /// TLS if the address has the scheme `https`.
    Unstated(Arc<TlsSource>),
    Insecure,
    Tls(Arc<TlsSource>),
}

impl Default for ChannelSecurity {
    fn default() -> Self {
        Self::Unstated(Arc::new(TlsSource::new(ClientFiles(Some(TlsFiles::default())))))
    }
}

impl Credentials {
    /// Creates credentials without TLS, for example for connections within a machine.
    #[must_use]
    pub fn insecure() -> Self {
        Self { channel: ChannelSecurity::Insecure, server_name: None, calls: Vec::new() }
    }

    /// Creates TLS credentials with the certificates in `files`. Without a CA certificate file, the
    /// operating system's root certificates are trusted.
    #[must_use]
    pub fn tls(files: TlsFiles) -> Self {
        let channel = ChannelSecurity::Tls(Arc::new(TlsSource::new(ClientFiles(Some(files)))));
        Self { channel, server_name: None, calls: Vec::new() }
    }

    /// Sets the name that the server's certificate must match. By default it is the host in the
    /// address.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is neither a DNS name nor an IP address.
    pub fn with_server_name(mut self, name: &str) -> Result<Self, CredentialsError> {
        self.server_name = Some(server_name(name)?);
        Ok(self)
    }

    /// Adds call credentials, such as a token. They are sent over TLS only: the client refuses to
    /// connect without it.
    #[must_use]
    pub fn with_call_credentials(mut self, calls: &CallCredentials) -> Self {
        match calls {
            CallCredentials::JwtTokenFile(path) => {
                self.calls.push(Arc::new(TokenSource::new(path.clone())));
            }
            // A call must not be made without credentials that the configuration requires.
            _ => self.calls.push(Arc::new(TokenSource::unsupported())),
        }
        self
    }

    /// Reads every file once, to detect faults before connecting.
    ///
    /// # Errors
    ///
    /// Returns the first fault, with the file's path.
    pub async fn check(&self) -> Result<(), CredentialsError> {
        match &self.channel {
            ChannelSecurity::Tls(tls) => drop(tls.current(None).await?),
            ChannelSecurity::Insecure if !self.calls.is_empty() => {
                return Err(self.token_needs_tls());
            }
            ChannelSecurity::Insecure | ChannelSecurity::Unstated(_) => {}
        }
        for token in &self.calls {
            token.current(None).await?;
        }
        Ok(())
    }

    /// Does what [`check`](Self::check) does, and checks that the credentials match the server's
    /// address. An address that [`check_address`](crate::client::check_address) rejects is ignored.
    ///
    /// # Errors
    ///
    /// Returns an error of [`check`](Self::check), or an error if the address and the credentials
    /// disagree about TLS, a token would be sent without TLS, or a certificate cannot be issued for
    /// the host in the address.
    pub async fn check_for(&self, address: &str) -> Result<(), CredentialsError> {
        self.check().await?;
        match Target::parse(address) {
            Ok(target) => self.security(&target, &HeaderMap::new(), None).await.map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Returns the protection of a connection to `target` whose calls carry `metadata`.
    pub(crate) async fn security(
        &self,
        target: &Target,
        metadata: &HeaderMap,
        runtime: Option<&SharedRuntime>,
    ) -> Result<Security, CredentialsError> {
        let tls = match (&self.channel, target.scheme) {
            (ChannelSecurity::Unstated(tls), Scheme::Https)
            | (ChannelSecurity::Tls(tls), Scheme::Https | Scheme::Unstated) => tls,
            (ChannelSecurity::Tls(_), Scheme::Http) => return Err(CredentialsError::NotInsecure),
            (ChannelSecurity::Insecure, Scheme::Https) => return Err(CredentialsError::NotSecure),
            (ChannelSecurity::Unstated(_), Scheme::Http | Scheme::Unstated)
            | (ChannelSecurity::Insecure, Scheme::Http | Scheme::Unstated) => {
                let has_secrets = !self.calls.is_empty() || metadata.contains_key(AUTHORIZATION);
                let refusal = has_secrets.then(|| self.token_needs_tls());
                return refusal.map_or(Ok(Security::Plain), Err);
            }
        };
        let server_name = match &self.server_name {
            Some(name) => name.clone(),
            None => server_name(target.host())?,
        };
        Ok(Security::Tls(Tls { config: tls.current(runtime).await?, server_name }))
    }

    fn token_needs_tls(&self) -> CredentialsError {
        let path = self.calls.first().and_then(|token| token.path());
        CredentialsError::TokenNeedsTls(path.map(Into::into))
    }

    /// Adds the current tokens to the headers of the next call.
    pub(crate) async fn headers(
        &self,
        mut headers: HeaderMap,
        runtime: &SharedRuntime,
    ) -> Result<HeaderMap, Status> {
        token::read_with_timeout(runtime, async {
            for token in &self.calls {
                let current = token.current(Some(runtime)).await;
                headers.append(AUTHORIZATION, current.map_err(|why| why.to_status())?);
            }
            Ok(headers)
        })
        .await
    }
}

impl From<&XdsServer> for Credentials {
    fn from(server: &XdsServer) -> Self {
        let credentials = match &server.channel_credentials {
            ChannelCredentials::Insecure => Self::insecure(),
            ChannelCredentials::Tls(files) => Self::tls(files.clone()),
            _ => Self {
                channel: ChannelSecurity::Tls(Arc::new(TlsSource::new(ClientFiles(None)))),
                ..Self::insecure()
            },
        };
        server.call_credentials.iter().fold(credentials, Self::with_call_credentials)
    }
}

// Prints paths and no file contents.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("channel", &self.channel)
            .field("server_name", &self.server_name)
            .field("calls", &self.calls)
            .finish()
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, CredentialsError> {
    ServerName::try_from(name.to_owned()).map_err(|_| CredentialsError::ServerName(name.into()))
}
