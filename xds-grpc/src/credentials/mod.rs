//! How channels to management servers are secured, on both ends, and what calls carry (gRFC A29, A65,
//! A97).
//!
//! What is configured are paths; [`xds_bootstrap`] has them as data. Here the files are read: at every
//! attempt to connect, so that a new connection has what is in them now, and in between at their refresh
//! interval, so that there is a good state to fall back to when a file is replaced by something broken.
//!
//! | file | what it does |
//! |---|---|
//! | `tls.rs` | a client's certificates and keys to a configuration of rustls |
//! | `server.rs` | a server's |
//! | `pem.rs` | what is in such files |
//! | `source.rs` | files that are followed, and what was last good in them |
//! | `token.rs` | a token of a file to a header |
//! | `files.rs` | reading, with a limit |
//! | `error.rs`, `holds.rs` | what can be wrong with a file; what is in it instead |
//! | `advice.rs` | why a handshake failed, and what to do about it |

mod advice;
mod error;
mod files;
mod holds;
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
    advice::{Peer, explain_tls_failure},
    error::CredentialsError,
    holds::Holds,
    server::{ClientCertificates, ServerCredentials},
};
use self::{
    tls::{ClientFiles, TlsSource},
    token::TokenSource,
};
use crate::{
    client::{Scheme, Security, Target},
    runtime::Shared,
    tls::Tls,
};

/// How a channel to a management server is secured, and what each call on it carries.
///
/// Clones share what was read. The default leaves it to the server's address: `https://` is TLS with
/// the system's roots, everything else is insecure. No file's content is ever printed or logged.
#[derive(Clone, Default)]
pub struct Credentials {
    channel: Channel,
    server_name: Option<ServerName<'static>>,
    calls: Vec<Arc<TokenSource>>,
}

#[derive(Clone, Debug)]
enum Channel {
    /// For whoever has an `https://` address.
    Unstated(Arc<TlsSource>),
    Insecure,
    Tls(Arc<TlsSource>),
}

impl Default for Channel {
    fn default() -> Self {
        Self::Unstated(Arc::new(TlsSource::new(ClientFiles(Some(TlsFiles::default())))))
    }
}

impl Credentials {
    /// No protection at all, as within a machine.
    #[must_use]
    pub fn insecure() -> Self {
        Self { channel: Channel::Insecure, server_name: None, calls: Vec::new() }
    }

    /// TLS with the certificates in `files`, or the system's roots where they name none.
    #[must_use]
    pub fn tls(files: TlsFiles) -> Self {
        let channel = Channel::Tls(Arc::new(TlsSource::new(ClientFiles(Some(files)))));
        Self { channel, server_name: None, calls: Vec::new() }
    }

    /// Expects the server's certificate to be for this name, rather than for the host in the address.
    ///
    /// # Errors
    ///
    /// It is neither a DNS name nor an IP address.
    pub fn with_server_name(mut self, name: &str) -> Result<Self, CredentialsError> {
        self.server_name = Some(server_name(name)?);
        Ok(self)
    }

    /// Adds what calls carry to prove who is calling. It is sent over TLS only: on an insecure channel
    /// the client does not connect.
    #[must_use]
    pub fn with_call_credentials(mut self, calls: &CallCredentials) -> Self {
        match calls {
            CallCredentials::JwtTokenFile(path) => {
                self.calls.push(Arc::new(TokenSource::new(path.clone())));
            }
            // A connection that lacks what its configuration asks for must not be made.
            _ => self.calls.push(Arc::new(TokenSource::unknown())),
        }
        self
    }

    /// Reads every file once, to find mistakes before anything is dialled.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong, with the file.
    pub async fn check(&self) -> Result<(), CredentialsError> {
        match &self.channel {
            Channel::Tls(tls) => drop(tls.current(None).await?),
            Channel::Insecure if !self.calls.is_empty() => return Err(self.token_needs_tls()),
            Channel::Insecure | Channel::Unstated(_) => {}
        }
        for token in &self.calls {
            token.current(None).await?;
        }
        Ok(())
    }

    /// What [`check`](Self::check) does, and whether the credentials are fit for the server at `address`,
    /// one that [`check_address`](crate::client::check_address) lets pass.
    ///
    /// # Errors
    ///
    /// Those of `check`; the address and the credentials contradict each other in whether there is TLS; a
    /// token would go without; the server's host is nothing that a certificate can be for.
    pub async fn check_for(&self, address: &str) -> Result<(), CredentialsError> {
        self.check().await?;
        match Target::parse(address) {
            Ok(target) => self.security(&target, &HeaderMap::new(), None).await.map(drop),
            Err(_) => Ok(()),
        }
    }

    /// What a connection to `target` is protected by, on which calls carry `metadata`.
    pub(crate) async fn security(
        &self,
        target: &Target,
        metadata: &HeaderMap,
        runtime: Option<&Shared>,
    ) -> Result<Security, CredentialsError> {
        let tls = match (&self.channel, target.scheme) {
            (Channel::Unstated(tls), Scheme::Https)
            | (Channel::Tls(tls), Scheme::Https | Scheme::Unstated) => tls,
            (Channel::Tls(_), Scheme::Http) => return Err(CredentialsError::NotInsecure),
            (Channel::Insecure, Scheme::Https) => return Err(CredentialsError::NotSecure),
            (Channel::Unstated(_), Scheme::Http | Scheme::Unstated)
            | (Channel::Insecure, Scheme::Http | Scheme::Unstated) => {
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

    /// The headers of a call that is about to be made: these, and what the tokens are that it carries.
    pub(crate) async fn headers(
        &self,
        mut headers: HeaderMap,
        runtime: &Shared,
    ) -> Result<HeaderMap, Status> {
        token::read_in_time(runtime, async {
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
                channel: Channel::Tls(Arc::new(TlsSource::new(ClientFiles(None)))),
                ..Self::insecure()
            },
        };
        server.call_credentials.iter().fold(credentials, Self::with_call_credentials)
    }
}

/// Paths, but nothing of what is in them.
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
