//! Errors of credentials. They name files and never contain their contents.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use thiserror::Error;
use tonic::Status;

use super::file_content::FileContent;

/// Reason why credentials cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// A file cannot be read.
    #[error("cannot read {}: {why}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Error message of the operating system.
        why: Arc<str>,
    },
    /// A file exceeds the size limit.
    #[error("{} is longer than {limit} bytes", .path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: usize,
    },
    /// A certificate file contains no certificate, or an invalid one.
    #[error("{} is not a list of certificates in PEM form: {found}", .path.display())]
    NoCertificates {
        /// The file.
        path: PathBuf,
        /// Kind of content found instead.
        found: FileContent,
    },
    /// A root certificate is not valid as a trust anchor.
    #[error("{}: {why}", .path.display())]
    BadRoot {
        /// The file.
        path: PathBuf,
        /// Reason.
        why: Arc<str>,
    },
    /// A file of certificate revocation lists contains none, or an invalid one.
    #[error("{} is not a list of certificate revocation lists (CRLs) in PEM form: {why}", .path.display())]
    BadRevocationList {
        /// The file.
        path: PathBuf,
        /// Reason.
        why: Arc<str>,
    },
    /// A private key file contains no private key.
    #[error("{} is not a private key in PEM form: {found}", .path.display())]
    NoPrivateKey {
        /// The file.
        path: PathBuf,
        /// Kind of content found instead.
        found: FileContent,
    },
    /// A certificate and a private key cannot be used together.
    #[error("{} and {}: {why}", .certificate.display(), .private_key.display())]
    BadIdentity {
        /// The certificate file.
        certificate: PathBuf,
        /// The private key file.
        private_key: PathBuf,
        /// Reason.
        why: Arc<str>,
    },
    /// The operating system provides no root certificates.
    #[error("no root certificates of the operating system: {0}")]
    NoSystemRoots(Arc<str>),
    /// A server name is neither a DNS name nor an IP address.
    #[error("{0:?} is neither a DNS name nor an IP address")]
    ServerName(String),
    /// A token file contains no JWT with an expiry time.
    #[error("{} is not a JWT with an expiry time", .0.display())]
    NoToken(PathBuf),
    /// The token in a file is expired, or expires within 30 s.
    #[error("the token in {} is expired", .0.display())]
    TokenExpired(PathBuf),
    /// A call carries a token or an `authorization` header, which may only be sent over TLS.
    /// Contains the file of the first token, if there is one.
    #[error("{} may only be sent over TLS", token(.0.as_deref()))]
    TokenNeedsTls(Option<PathBuf>),
    /// The address has the scheme `http`, but the credentials require TLS.
    #[error("the address has the scheme http, but the credentials require TLS")]
    NotInsecure,
    /// The address has the scheme `https`, but the credentials are insecure.
    #[error("the address has the scheme https, but the credentials are insecure")]
    NotSecure,
    /// The runtime was shut down while files were read.
    #[error("files were not read: the runtime has been shut down")]
    Interrupted,
    /// The kind of credentials is not supported by this crate.
    #[error("this kind of credentials is not supported")]
    Unsupported,
}

fn token(path: Option<&Path>) -> String {
    match path {
        Some(path) => format!("the token in {}", path.display()),
        None => "call credentials".into(),
    }
}

impl CredentialsError {
    /// Returns the file that the error is about. If it is about a certificate and a key, returns
    /// the certificate file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Unreadable { path, .. }
            | Self::TooLong { path, .. }
            | Self::NoCertificates { path, .. }
            | Self::BadRoot { path, .. }
            | Self::BadRevocationList { path, .. }
            | Self::NoPrivateKey { path, .. }
            | Self::BadIdentity { certificate: path, .. }
            | Self::NoToken(path)
            | Self::TokenExpired(path)
            | Self::TokenNeedsTls(Some(path)) => Some(path),
            Self::NoSystemRoots(_)
            | Self::ServerName(_)
            | Self::TokenNeedsTls(None)
            | Self::NotInsecure
            | Self::NotSecure
            | Self::Interrupted
            | Self::Unsupported => None,
        }
    }

    /// Returns the status of a call that cannot be made because of this error ([gRFC A97]):
    /// `UNAVAILABLE` if reading may succeed later, `UNAUTHENTICATED` for an invalid token.
    ///
    /// [gRFC A97]: https://github.com/grpc/proposal/blob/master/A97-xds-jwt-call-creds.md
    pub(super) fn to_status(&self) -> Status {
        match self {
            Self::Unreadable { .. } | Self::TooLong { .. } | Self::Interrupted => {
                Status::unavailable(self.to_string())
            }
            _ => Status::unauthenticated(self.to_string()),
        }
    }
}
