//! Servers and their credentials.

use core::time::Duration;

use bytes::Bytes;
use xds_bootstrap::{CallCredentials, TlsFiles, envoy::EnvoyBootstrap};
use xds_core::{
    TypeUrl,
    client::{ClientConfig, TransportKind},
};
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
    /// Time limit of the command; `None` for the default timeout of connections.
    pub(super) time_limit: Option<Duration>,
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
    /// Shortens the timeout of connections and of polls, so that a command with this time limit can
    /// report why there is no connection or response, and has time for each fallback server.
    #[must_use]
    pub(crate) fn connecting_within(mut self, time_limit: Duration) -> Self {
        self.time_limit = Some(time_limit);
        if let Origin::Servers(servers) = &mut self.origin {
            for server in &mut servers.config.servers {
                if let TransportKind::Polling(policy) = &mut server.transport_kind {
                    let limit = LONGEST_POLL.min(time_limit / 10 * 9);
                    policy.request_timeout = policy.request_timeout.min(limit);
                }
            }
        }
        self
    }

    /// Returns the options with the timeout of connections.
    pub(super) fn limited(
        time_limit: Option<Duration>,
        servers: usize,
        options: ClientOptions,
    ) -> ClientOptions {
        let servers = u32::try_from(servers).unwrap_or(u32::MAX).max(1);
        match time_limit {
            Some(limit) => connecting_within(limit / servers, options),
            None => options,
        }
    }

    /// Node id of the client.
    pub(crate) fn node_id(&self) -> &str {
        match &self.origin {
            Origin::Servers(it) => it.config.node.id(),
            Origin::Proxy { bootstrap, .. } => &bootstrap.node.id,
        }
    }
}

/// Maximum time of a poll if the command has a time limit: less than that after which a resource does
/// not exist, so that a server without any response is not taken for one without the resource.
const LONGEST_POLL: Duration = Duration::from_secs(10);

/// Sets a timeout of connections that is shorter than the time limit of a command, which can then
/// report why there is no connection.
pub(crate) fn connecting_within(limit: Duration, options: ClientOptions) -> ClientOptions {
    let timeout = options.connect_timeout.min(limit / 10 * 9);
    options.with_connect_timeout(timeout)
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
