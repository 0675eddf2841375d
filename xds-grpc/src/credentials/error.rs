//! What can be wrong with credentials. Files are named, their contents never shown.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use thiserror::Error;
use tonic::Status;

use super::holds::Holds;

/// Why credentials cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// A file cannot be read.
    #[error("cannot read {}: {why}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's words.
        why: Arc<str>,
    },
    /// A file is longer than any certificate or token.
    #[error("{} is longer than {limit} bytes", .path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        limit: usize,
    },
    /// A file of certificates holds none, or one that is broken.
    #[error("{} is not a list of certificates in PEM form: {holds}", .path.display())]
    NoCertificates {
        /// The file.
        path: PathBuf,
        /// What is in it.
        holds: Holds,
    },
    /// A root certificate cannot be used as one.
    #[error("{}: {why}", .path.display())]
    BadRoot {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: Arc<str>,
    },
    /// A file of a private key holds none.
    #[error("{} is not a private key in PEM form: {holds}", .path.display())]
    NoPrivateKey {
        /// The file.
        path: PathBuf,
        /// What is in it.
        holds: Holds,
    },
    /// A certificate and a key cannot be used together.
    #[error("{} and {}: {why}", .certificate.display(), .private_key.display())]
    BadIdentity {
        /// The file of the certificate.
        certificate: PathBuf,
        /// The file of the key.
        private_key: PathBuf,
        /// What is wrong with them.
        why: Arc<str>,
    },
    /// The system has no root certificates.
    #[error("no root certificates of the system: {0}")]
    NoSystemRoots(Arc<str>),
    /// A server's name is neither a DNS name nor an IP address.
    #[error("{0:?} is not a name that a certificate can be for")]
    ServerName(String),
    /// A file of a token holds no JWT that states when it expires.
    #[error("{} is not a JWT with an expiry", .0.display())]
    NoToken(PathBuf),
    /// The token in a file is expired, or is so within half a minute.
    #[error("the token in {} is expired", .0.display())]
    TokenExpired(PathBuf),
    /// Tokens, and what else is in an `authorization` header, are sent over TLS only. With the file of the
    /// first token, if there is one.
    #[error("{} may only be sent over TLS", token(.0.as_deref()))]
    TokenNeedsTls(Option<PathBuf>),
    /// The address says `http://`, the credentials TLS.
    #[error("the address says http, but the credentials say TLS")]
    NotInsecure,
    /// The address says `https://`, the credentials `insecure`.
    #[error("the address says https (TLS), but the credentials say insecure")]
    NotSecure,
    /// The runtime was shut down while files were read.
    #[error("files were not read: the runtime has been shut down")]
    Interrupted,
    /// A kind of credentials that this crate cannot make use of.
    #[error("credentials of a kind that is not supported")]
    Unsupported,
}

fn token(path: Option<&Path>) -> String {
    match path {
        Some(path) => format!("the token in {}", path.display()),
        None => "call credentials".into(),
    }
}

impl CredentialsError {
    /// The file that something is wrong with, or the first of two.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Unreadable { path, .. }
            | Self::TooLong { path, .. }
            | Self::NoCertificates { path, .. }
            | Self::BadRoot { path, .. }
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

    /// What a call that cannot be made for that reason fails with (A97): a file that may come back, or
    /// a token that is not one.
    pub(super) fn to_status(&self) -> Status {
        match self {
            Self::Unreadable { .. } | Self::TooLong { .. } | Self::Interrupted => {
                Status::unavailable(self.to_string())
            }
            _ => Status::unauthenticated(self.to_string()),
        }
    }
}
