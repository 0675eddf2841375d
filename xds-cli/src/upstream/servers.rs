//! Servers and their credentials.

use bytes::Bytes;
use xds_bootstrap::{CallCredentials, TlsFiles, envoy::EnvoyBootstrap};
use xds_core::{TypeUrl, client::ClientConfig};
use xds_tokio::{ClientOptions, Credentials};

use crate::{args::ChannelArgs, failure::Failure};

/// Servers and static resources.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(super) origin: Origin,
    /// First server.
    pub(crate) server: String,
    /// Whether the client behaves like gRPC with a bootstrap.
    pub(super) is_grpc: bool,
    /// Static resources of the bootstrap.
    pub(super) static_resources: Vec<StaticResource>,
}

/// Servers to connect to.
#[derive(Debug)]
pub(super) enum Origin {
    /// Servers of the flags or of a gRPC bootstrap.
    Servers(Box<Servers>),
    /// Sources of a proxy bootstrap.
    Proxy {
        /// File of the bootstrap.
        place: String,
        bootstrap: Box<EnvoyBootstrap>,
        /// Credentials for clusters that have a transport socket.
        credentials: Option<Credentials>,
    },
}

impl Upstream {
    /// Node id of the client.
    pub(crate) fn node_id(&self) -> &str {
        match &self.origin {
            Origin::Servers(it) => it.config.node.id(),
            Origin::Proxy { bootstrap, .. } => &bootstrap.node.id,
        }
    }
}

/// Servers with the configuration and options of the client.
#[derive(Debug)]
pub(super) struct Servers {
    /// Configuration without resource types.
    pub(super) config: ClientConfig,
    /// Options with the credentials.
    pub(super) options: ClientOptions,
    /// First server.
    pub(super) first: String,
}

/// Static resource of a bootstrap.
#[derive(Debug)]
pub(super) struct StaticResource {
    pub(super) place: String,
    pub(super) type_url: TypeUrl,
    pub(super) bytes: Bytes,
}

/// Returns the credentials that the flags select; `None` if the address selects them.
pub(crate) fn credentials(flags: &ChannelArgs) -> Result<Option<Credentials>, Failure> {
    if !flags.has_tls_flags() {
        return Ok(None);
    }
    let mut files = TlsFiles::default();
    if let Some(ca) = &flags.ca {
        files = files.with_ca_certificate(ca);
    }
    if let (Some(certificate), Some(key)) = (&flags.cert, &flags.key) {
        files = files.with_identity(certificate, key);
    }
    let mut credentials = Credentials::tls(files);
    if let Some(token) = &flags.token_file {
        credentials =
            credentials.with_call_credentials(&CallCredentials::JwtTokenFile(token.clone()));
    }
    if let Some(name) = &flags.server_name {
        let named = |why| Failure::Credentials { field: "--server-name: ".into(), why };
        credentials = credentials.with_server_name(name).map_err(named)?;
    }
    Ok(Some(credentials))
}
