//! `ApiConfigSource`: a server, its transport and its limits.
// B18

use std::{fmt, time::Duration};

use xds_core::{client::SendNode, service};

use super::message::{Message, read_bool, read_enum, read_positive, read_u32};
use crate::{
    error::{BootstrapError, ErrorKind},
    json::{self, Field, RawJson},
};

/// Default timeout of a REST request.
// B18
const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);

/// Source of resources that is a server.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ApiConfigSource {
    /// Transport.
    pub api_type: ApiType,
    /// Version of requests and responses.
    // S0.063
    pub transport_api_version: ApiVersion,
    /// Services of a gRPC transport, at least one. Another service is used when one fails.
    pub grpc_services: Vec<GrpcService>,
    /// Settings of a REST transport. `Some` exactly if the transport is REST.
    pub rest: Option<Rest>,
    /// Rate limit of requests, if there is one.
    pub rate_limit: Option<RateLimit>,
    /// Whether only the first request of a stream contains the node.
    // D4
    pub node: SendNode,
    /// Extensions that validate responses, uninterpreted.
    pub config_validators: Vec<RawJson>,
}

/// Protocol of an xDS server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ApiType {
    /// Polling over REST with JSON.
    Rest,
    /// State of the world, one stream per type.
    Grpc,
    /// Incremental, one stream per type.
    DeltaGrpc,
    /// State of the world, one aggregated stream for all types.
    AggregatedGrpc,
    /// Incremental, one aggregated stream for all types.
    AggregatedDeltaGrpc,
}

/// Version of the protocol or of resources.
// S0.063
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ApiVersion {
    /// Unstated version, as in older files. Version 3 is used.
    // S0.174
    #[default]
    Auto,
    /// Version 2, which only old servers support.
    // B14
    V2,
    /// Version 3.
    V3,
}

/// Settings of a REST transport.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rest {
    /// Clusters to poll, at least one. Another cluster is used when one fails.
    pub cluster_names: Vec<String>,
    /// Time between two requests. More than zero.
    pub refresh_delay: Duration,
    /// Timeout of a request. Default: 1 s.
    pub request_timeout: Duration,
}

/// Token bucket with one token per request.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RateLimit {
    /// Size of the bucket. Default: 100.
    pub max_tokens: u32,
    /// Tokens added per second, more than zero. Default: 10.
    pub fill_rate: f64,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self { max_tokens: 100, fill_rate: 10.0 }
    }
}

/// A gRPC service. Its retry policies are ignored, because xDS has its own rules for retries.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GrpcService {
    /// Address of the service.
    pub target: GrpcTarget,
    /// Timeout of a call. `None` means no timeout, as streams need.
    pub timeout: Option<Duration>,
    /// Headers sent with each call.
    pub initial_metadata: Vec<Header>,
}

/// Address of a gRPC service.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum GrpcTarget {
    /// A cluster in Envoy's configuration.
    Envoy {
        /// Name of the cluster.
        cluster_name: String,
        /// `:authority` header of calls. If empty, the name of the cluster is used.
        authority: String,
        /// Maximum length of a response in bytes. `None`, written as 0, means no limit.
        max_receive_message_length: Option<u32>,
        /// Whether calls contain the headers that Envoy adds.
        proxy_headers: ProxyHeaders,
    },
    /// A gRPC target, with a separate gRPC client.
    Google {
        /// Target URI.
        target_uri: String,
        /// Name of the client in statistics.
        stat_prefix: String,
        /// The whole message, including credentials, uninterpreted.
        config: RawJson,
    },
}

/// Whether calls contain the headers that Envoy adds to forwarded requests: `x-envoy-internal` and
/// `x-forwarded-for`. They do not apply to a client that is not a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyHeaders {
    /// Headers are added.
    Sent,
    /// Headers are omitted (`skip_envoy_headers`).
    Skipped,
}

/// A header. Its value may be secret, so `Debug` does not print it.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Header {
    /// Name of the header.
    pub key: String,
    /// Value of the header.
    pub value: String,
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ..", self.key)
    }
}

/// A target of an [`ApiConfigSource`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Target<'a> {
    /// A cluster that is polled over REST.
    RestCluster(&'a str),
    /// A gRPC service.
    Service(&'a GrpcService),
}

impl ApiType {
    const VALUES: [(&'static str, u64, Option<Self>); 7] = [
        ("DEPRECATED_AND_UNAVAILABLE_DO_NOT_USE", 0, None),
        ("UNSUPPORTED_REST_LEGACY", 0, None),
        ("REST", 1, Some(Self::Rest)),
        ("GRPC", 2, Some(Self::Grpc)),
        ("DELTA_GRPC", 3, Some(Self::DeltaGrpc)),
        ("AGGREGATED_GRPC", 5, Some(Self::AggregatedGrpc)),
        ("AGGREGATED_DELTA_GRPC", 6, Some(Self::AggregatedDeltaGrpc)),
    ];
    const KNOWN: &'static str = "REST, GRPC, DELTA_GRPC, AGGREGATED_GRPC and AGGREGATED_DELTA_GRPC";

    /// Returns the name of the value in the schema.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rest => "REST",
            Self::Grpc => "GRPC",
            Self::DeltaGrpc => "DELTA_GRPC",
            Self::AggregatedGrpc => "AGGREGATED_GRPC",
            Self::AggregatedDeltaGrpc => "AGGREGATED_DELTA_GRPC",
        }
    }

    /// Whether the protocol variant is incremental.
    #[must_use]
    pub const fn is_incremental(self) -> bool {
        matches!(self, Self::DeltaGrpc | Self::AggregatedDeltaGrpc)
    }

    /// Whether all types share one stream.
    #[must_use]
    pub const fn is_aggregated(self) -> bool {
        matches!(self, Self::AggregatedGrpc | Self::AggregatedDeltaGrpc)
    }

    /// Reads the type. A field that is not set has the deprecated value, which is rejected.
    fn read(message: &Message<'_>) -> Result<Self, BootstrapError> {
        let field = message.require("api_type")?;
        read_enum(&field, &Self::VALUES, Self::KNOWN)?.ok_or_else(|| {
            field.error(ErrorKind::InvalidValue("this API type is deprecated and not supported"))
        })
    }
}

impl ApiVersion {
    const VALUES: [(&'static str, u64, Self); 3] =
        [("AUTO", 0, Self::Auto), ("V2", 1, Self::V2), ("V3", 2, Self::V3)];

    /// Returns the protocol version that the client uses.
    #[must_use]
    pub const fn protocol_version(self) -> service::ApiVersion {
        match self {
            Self::V2 => service::ApiVersion::V2,
            Self::Auto | Self::V3 => service::ApiVersion::V3,
        }
    }

    pub(super) fn read(message: &Message<'_>, name: &str) -> Result<Self, BootstrapError> {
        message
            .get(name)
            .map_or(Ok(Self::Auto), |field| read_enum(&field, &Self::VALUES, "AUTO, V2 and V3"))
    }
}

impl ApiConfigSource {
    /// Parses the proto3 JSON form of the message.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is not JSON or a field is missing or invalid.
    pub fn from_json(text: &str) -> Result<Self, BootstrapError> {
        Self::read(Field::root(&json::parse(text)?))
    }

    pub(super) fn read(field: Field<'_>) -> Result<Self, BootstrapError> {
        let message = Message::read(
            field,
            &[
                "api_type",
                "transport_api_version",
                "cluster_names",
                "grpc_services",
                "refresh_delay",
                "request_timeout",
                "rate_limit_settings",
                "set_node_on_first_message_only",
                "config_validators",
            ],
        )?;
        let api_type = ApiType::read(&message)?;
        let unused = if api_type == ApiType::Rest { "grpc_services" } else { "cluster_names" };
        if !message.elements(unused)?.is_empty() {
            let why = match api_type {
                ApiType::Rest => "REST uses `cluster_names`, not `grpc_services`",
                _ => "gRPC uses `grpc_services`, not `cluster_names`",
            };
            let path = message.require(unused)?;
            return Err(path.error(ErrorKind::InvalidValue(why)));
        }
        // Validated for every type, so that an invalid value is always found.
        let delay =
            message.get("refresh_delay").map(|field| field.positive_duration()).transpose()?;
        let timeout =
            message.get("request_timeout").map(|field| field.positive_duration()).transpose()?;
        let rest = match api_type {
            ApiType::Rest => Some(Rest {
                cluster_names: read_cluster_names(&message)?,
                refresh_delay: delay.ok_or_else(|| message.missing("refresh_delay"))?,
                request_timeout: timeout.unwrap_or(DEFAULT_REQUEST_TIMEOUT),
            }),
            _ => None,
        };
        let grpc_services: Vec<GrpcService> = message
            .elements("grpc_services")?
            .into_iter()
            .map(GrpcService::read)
            .collect::<Result<_, _>>()?;
        if grpc_services.is_empty() && rest.is_none() {
            return Err(message.missing("grpc_services"));
        }
        let node = match message.get("set_node_on_first_message_only") {
            Some(field) if read_bool(&field)? => SendNode::FirstRequest,
            _ => SendNode::EveryRequest,
        };
        Ok(Self {
            api_type,
            transport_api_version: ApiVersion::read(&message, "transport_api_version")?,
            grpc_services,
            rest,
            rate_limit: message.get("rate_limit_settings").map(RateLimit::read).transpose()?,
            node,
            config_validators: message
                .elements("config_validators")?
                .into_iter()
                .map(|field| field.object().map(|_| RawJson::new(field.value.clone())))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Returns the target for a connection attempt, counted from zero. Attempts use the targets in
    /// rotation. Returns `None` if the source has no targets.
    // B18
    #[must_use]
    pub fn target(&self, attempt: usize) -> Option<Target<'_>> {
        let attempt = attempt.checked_rem(self.targets().count())?;
        self.targets().nth(attempt)
    }

    /// Returns the targets in order.
    pub fn targets(&self) -> impl Iterator<Item = Target<'_>> {
        let clusters = self.rest.iter().flat_map(|rest| &rest.cluster_names);
        let clusters = clusters.map(|name| Target::RestCluster(name));
        clusters.chain(self.grpc_services.iter().map(Target::Service))
    }
}

impl<'a> Target<'a> {
    /// Returns the name of the cluster, or the URI of a target without a cluster.
    #[must_use]
    pub fn name(self) -> &'a str {
        match self {
            Self::RestCluster(name) => name,
            Self::Service(service) => match &service.target {
                GrpcTarget::Envoy { cluster_name, .. } => cluster_name,
                GrpcTarget::Google { target_uri, .. } => target_uri,
            },
        }
    }

    /// Returns the maximum length of a response in bytes; `None` means no limit.
    #[must_use]
    pub fn max_response_bytes(self) -> Option<u32> {
        match self {
            Self::Service(GrpcService {
                target: GrpcTarget::Envoy { max_receive_message_length, .. },
                ..
            }) => *max_receive_message_length,
            _ => None,
        }
    }
}

fn read_cluster_names(message: &Message<'_>) -> Result<Vec<String>, BootstrapError> {
    let names: Vec<String> = message
        .elements("cluster_names")?
        .iter()
        .map(|field| field.nonempty().map(String::from))
        .collect::<Result<_, _>>()?;
    if names.is_empty() { Err(message.missing("cluster_names")) } else { Ok(names) }
}

impl RateLimit {
    fn read(field: Field<'_>) -> Result<Self, BootstrapError> {
        let message = Message::read(field, &["max_tokens", "fill_rate"])?;
        let default = Self::default();
        Ok(Self {
            max_tokens: message
                .get("max_tokens")
                .map_or(Ok(default.max_tokens), |field| read_u32(&field))?,
            fill_rate: message
                .get("fill_rate")
                .map_or(Ok(default.fill_rate), |field| read_positive(&field))?,
        })
    }
}

impl GrpcService {
    fn read(field: Field<'_>) -> Result<Self, BootstrapError> {
        let message = Message::read(
            field,
            &["envoy_grpc", "google_grpc", "timeout", "initial_metadata", "retry_policy"],
        )?;
        let target = match message.one_of(&["envoy_grpc", "google_grpc"])? {
            None => return Err(message.missing("envoy_grpc")),
            Some(("envoy_grpc", field)) => {
                let envoy = Message::read(
                    field,
                    &[
                        "cluster_name",
                        "authority",
                        "retry_policy",
                        "max_receive_message_length",
                        "skip_envoy_headers",
                    ],
                )?;
                GrpcTarget::Envoy {
                    cluster_name: envoy.require("cluster_name")?.nonempty()?.into(),
                    authority: envoy.string("authority")?,
                    max_receive_message_length: envoy
                        .get("max_receive_message_length")
                        .map(|field| read_u32(&field))
                        .transpose()?
                        .filter(|&bytes| bytes > 0),
                    proxy_headers: match envoy.get("skip_envoy_headers") {
                        Some(field) if read_bool(&field)? => ProxyHeaders::Skipped,
                        _ => ProxyHeaders::Sent,
                    },
                }
            }
            Some((_, field)) => {
                let config = RawJson::new(field.value.clone());
                let google = Message::open(field)?;
                GrpcTarget::Google {
                    target_uri: google.require("target_uri")?.nonempty()?.into(),
                    stat_prefix: google.require("stat_prefix")?.nonempty()?.into(),
                    config,
                }
            }
        };
        Ok(Self {
            target,
            timeout: message.get("timeout").map(|field| field.duration()).transpose()?,
            initial_metadata: message
                .elements("initial_metadata")?
                .into_iter()
                .map(Header::read)
                .collect::<Result<_, _>>()?,
        })
    }
}

impl Header {
    fn read(field: Field<'_>) -> Result<Self, BootstrapError> {
        let message = Message::read(field, &["key", "value", "raw_value"])?;
        if let Some(raw) = message.get("raw_value") {
            return Err(raw.error(ErrorKind::InvalidValue("not supported, use `value`")));
        }
        let key = message.require("key")?.nonempty()?.into();
        Ok(Self { key, value: message.string("value")? })
    }
}
