//! Credentials of channels to management servers, as data
//! ([gRFC A27](https://github.com/grpc/proposal/blob/master/A27-xds-global-load-balancing.md)).
// A27, A65, A97, B42

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde_json::{Value, json};

use crate::{
    error::{BootstrapError, ErrorKind, Warning, WarningKind},
    json::{Field, print_duration},
};

const INSECURE: &str = "insecure";
const TLS: &str = "tls";
const GOOGLE_DEFAULT: &str = "google_default";
const JWT_TOKEN_FILE: &str = "jwt_token_file";
/// Default interval at which certificate files are read again (A65).
const DEFAULT_REFRESH: Duration = Duration::from_secs(600);

/// Security of a channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChannelCredentials {
    /// Plain text without authentication.
    Insecure,
    /// TLS, or mTLS if the client has a certificate.
    Tls(TlsFiles),
}

/// Certificate files of a TLS channel, as paths. This crate does not read them.
///
/// See [gRFC A65](https://github.com/grpc/proposal/blob/master/A65-xds-mtls-creds-in-bootstrap.md).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TlsFiles {
    /// Root certificates that verify the server. `None` uses the roots of the system.
    pub ca_certificate: Option<PathBuf>,
    /// Certificate of the client. `None` presents no certificate.
    pub identity: Option<IdentityFiles>,
    /// Interval at which the files are read again. Default: 10 minutes.
    pub refresh_interval: Duration,
}

/// Files of a certificate and its private key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct IdentityFiles {
    /// File of the certificate chain.
    pub certificate: PathBuf,
    /// File of the private key.
    pub private_key: PathBuf,
}

/// Credentials sent with each call on a channel.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallCredentials {
    /// A JWT read from a file, and read again before it expires
    /// ([gRFC A97](https://github.com/grpc/proposal/blob/master/A97-xds-jwt-call-creds.md)).
    JwtTokenFile(PathBuf),
}

/// The default uses the system's roots, no client certificate, and a refresh interval of 10
/// minutes.
impl Default for TlsFiles {
    fn default() -> Self {
        Self { ca_certificate: None, identity: None, refresh_interval: DEFAULT_REFRESH }
    }
}

impl TlsFiles {
    /// Verifies the server with the root certificates in a file, instead of the system's.
    #[must_use]
    pub fn with_ca_certificate(mut self, file: impl Into<PathBuf>) -> Self {
        self.ca_certificate = Some(file.into());
        self
    }

    /// Presents a client certificate to the server (mTLS).
    #[must_use]
    pub fn with_identity(
        mut self,
        certificate: impl Into<PathBuf>,
        private_key: impl Into<PathBuf>,
    ) -> Self {
        let (certificate, private_key) = (certificate.into(), private_key.into());
        self.identity = Some(IdentityFiles { certificate, private_key });
        self
    }

    /// Sets the interval at which the files are read again.
    #[must_use]
    pub fn with_refresh_interval(mut self, interval: Duration) -> Self {
        self.refresh_interval = interval;
        self
    }
}

impl ChannelCredentials {
    /// Reads the first supported entry of a list. If its configuration is invalid, the result is an
    /// error, even if a later entry is valid.
    // BS-08, BS-09
    pub(crate) fn first_supported(
        list: &Field<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, BootstrapError> {
        let mut offered = Vec::new();
        for entry in list.elements()? {
            let kind = credential_type(&entry)?;
            match kind {
                INSECURE => return Ok(Self::Insecure),
                TLS => return TlsFiles::read(entry.get("config").as_ref()).map(Self::Tls),
                GOOGLE_DEFAULT => warnings.push(Warning::new(
                    entry.path_of("type"),
                    WarningKind::UnsupportedCredentials(GOOGLE_DEFAULT),
                )),
                _ => {}
            }
            offered.push(kind.chars().take(64).collect());
        }
        Err(list.error(ErrorKind::NoSupportedCredentials(offered)))
    }

    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Insecure => json!({ "type": INSECURE }),
            Self::Tls(files) => json!({ "type": TLS, "config": files.to_json() }),
        }
    }
}

impl TlsFiles {
    pub(crate) fn read(config: Option<&Field<'_>>) -> Result<Self, BootstrapError> {
        let mut files = Self::default();
        let Some(config) = config else { return Ok(files) };
        config.object()?;
        let path =
            |key| config.get(key).map(|field| field.nonempty().map(PathBuf::from)).transpose();
        files.ca_certificate = path("ca_certificate_file")?;
        let needs = |present, absent| {
            BootstrapError::new(config.path_of(present), ErrorKind::Needs(absent))
        };
        files.identity = match (path("certificate_file")?, path("private_key_file")?) {
            (None, None) => None,
            (Some(certificate), Some(private_key)) => {
                Some(IdentityFiles { certificate, private_key })
            }
            (Some(_), None) => return Err(needs("certificate_file", "private_key_file")),
            (None, Some(_)) => return Err(needs("private_key_file", "certificate_file")),
        };
        if let Some(interval) = config.get("refresh_interval") {
            files.refresh_interval = interval.positive_duration()?;
        }
        Ok(files)
    }

    fn to_json(&self) -> Value {
        let mut config = json!({ "refresh_interval": print_duration(self.refresh_interval) });
        let identity = self.identity.as_ref();
        for (key, path) in [
            ("ca_certificate_file", self.ca_certificate.as_ref()),
            ("certificate_file", identity.map(|files| &files.certificate)),
            ("private_key_file", identity.map(|files| &files.private_key)),
        ] {
            if let Some(path) = path {
                #[expect(clippy::indexing_slicing, reason = "`config` is an object")]
                let value = &mut config[key];
                *value = path.to_string_lossy().into();
            }
        }
        config
    }
}

impl CallCredentials {
    /// Reads all supported entries of a list. An unknown entry is ignored with a warning. A
    /// malformed supported entry is an error.
    // BS-23
    pub(crate) fn all_supported(
        list: &Field<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Arc<[Self]>, BootstrapError> {
        let mut supported = Vec::new();
        for entry in list.elements()? {
            let kind = credential_type(&entry)?;
            if kind == JWT_TOKEN_FILE {
                let file = entry.require("config")?.require(JWT_TOKEN_FILE)?;
                supported.push(Self::JwtTokenFile(file.nonempty()?.into()));
            } else {
                let kind = WarningKind::UnknownCallCredentials(kind.chars().take(64).collect());
                warnings.push(Warning::new(entry.path_of("type"), kind));
            }
        }
        Ok(supported.into())
    }

    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::JwtTokenFile(path) => json!({
                "type": JWT_TOKEN_FILE,
                "config": { JWT_TOKEN_FILE: path.to_string_lossy() },
            }),
        }
    }
}

fn credential_type<'v>(entry: &Field<'v>) -> Result<&'v str, BootstrapError> {
    entry.object()?;
    entry.require("type")?.nonempty()
}
