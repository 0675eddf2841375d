//! Settings of one management server: its address, its protocol and its names.

use alloc::{string::String, sync::Arc, vec::Vec};
use core::{fmt, time::Duration};

use super::{
    file::FilePolicy,
    polling::PollPolicy,
    profile::{DataErrorPolicy, Profile},
    request_rate::RequestRate,
    server_features::{ServerFeature, ServerFeatures},
};
use crate::{
    service::{ApiVersion, Variant},
    text::TypeUrl,
    types,
};

/// Address and protocol settings of a management server.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerAddress {
    /// Address that adapters dial. Errors, logs and metrics show it without a `user:password@`
    /// part.
    pub uri: Arc<str>,
    /// Effect of data errors on cached resources. With `None`, the server's features decide, then
    /// the profile.
    pub data_errors: Option<DataErrorPolicy>,
    /// Variant of the protocol: state of the world or incremental.
    pub variant: Variant,
    /// API version of the server's services.
    pub transport_api: ApiVersion,
    /// API version of the type URLs in requests. Responses are accepted in either version.
    // S4.008
    pub resource_api: ApiVersion,
    /// Whether one stream carries all types.
    pub streams: Streams,
    /// Exchange of requests and responses: on a stream, [by polling](Self::with_polling), or
    /// [through a file](Self::with_file).
    pub transport_kind: TransportKind,
    /// The `server_features` of the bootstrap.
    pub features: ServerFeatures,
    /// Rate limit for requests to the server; `None` sets no limit.
    pub request_rate: Option<RequestRate>,
    /// Requests that contain the node.
    pub send_node: SendNode,
    /// Name of the transport settings that the adapter uses for the server.
    pub transport: TransportId,
}

/// Formats like a derived implementation, with the credentials in the URI masked.
impl fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerAddress")
            .field("uri", &self.name())
            .field("data_errors", &self.data_errors)
            .field("variant", &self.variant)
            .field("transport_api", &self.transport_api)
            .field("resource_api", &self.resource_api)
            .field("streams", &self.streams)
            .field("transport_kind", &self.transport_kind)
            .field("features", &self.features)
            .field("request_rate", &self.request_rate)
            .field("send_node", &self.send_node)
            .field("transport", &self.transport)
            .finish()
    }
}

impl ServerAddress {
    /// Creates the settings of the server at `uri`, whose syntax is defined by the adapter.
    #[must_use]
    pub fn new(uri: impl Into<Arc<str>>) -> Self {
        Self {
            uri: uri.into(),
            data_errors: None,
            variant: Variant::default(),
            transport_api: ApiVersion::default(),
            resource_api: ApiVersion::default(),
            streams: Streams::default(),
            transport_kind: TransportKind::default(),
            features: ServerFeatures::NONE,
            request_rate: None,
            send_node: SendNode::default(),
            transport: TransportId::default(),
        }
    }

    /// Sets the features of the server.
    #[must_use]
    pub fn with_features(mut self, features: ServerFeatures) -> Self {
        self.features = features;
        self
    }

    /// Returns the URI with its credentials masked: everything between the scheme and the last `@`,
    /// unless it is a path.
    pub(crate) fn name(&self) -> Arc<str> {
        let is_path = self.uri.starts_with("unix:") || self.transport_kind.is_file();
        let Some((secret, rest)) = self.uri.rsplit_once('@').filter(|_| !is_path) else {
            return Arc::clone(&self.uri);
        };
        match secret.split_once("://") {
            Some((scheme, _)) => alloc::format!("{scheme}://***@{rest}").into(),
            None => alloc::format!("***@{rest}").into(),
        }
    }

    /// Returns the effect of the server's data errors on cached resources.
    // X11
    pub(crate) fn data_errors(&self, profile: &Profile) -> DataErrorPolicy {
        let fails = self.features.contains(ServerFeature::FailOnDataErrors);
        let by_feature = fails.then_some(DataErrorPolicy::DropCached);
        self.data_errors.or(by_feature).unwrap_or(profile.data_errors)
    }

    /// Sets the variant of the protocol.
    #[must_use]
    pub fn with_variant(mut self, variant: Variant) -> Self {
        self.variant = variant;
        self
    }

    /// Sets the API version of both the services and the requested types. Over REST and in files,
    /// an adapter that reads JSON must know the types of that version.
    // S4.014, S4.051
    #[must_use]
    pub fn with_api(mut self, api: ApiVersion) -> Self {
        self.transport_api = api;
        self.resource_api = api;
        self
    }

    /// Returns the type's URL in requests to the server. A type that does not exist in version 2
    /// keeps its current URL.
    pub(crate) fn name_of_type(&self, current: &TypeUrl) -> TypeUrl {
        match self.resource_api {
            ApiVersion::V3 => current.clone(),
            ApiVersion::V2 => {
                types::v2_type_url(current.as_str()).map_or_else(|| current.clone(), TypeUrl::from)
            }
        }
    }

    /// Sets which requests contain the node.
    #[must_use]
    pub fn with_send_node(mut self, send_node: SendNode) -> Self {
        self.send_node = send_node;
        self
    }

    /// Limits the rate of requests on each stream to the server.
    // BO-10
    #[must_use]
    pub fn with_request_rate(mut self, rate: RequestRate) -> Self {
        self.request_rate = Some(rate);
        self
    }

    /// Sets whether one stream carries all types or each type has its own.
    #[must_use]
    pub fn with_streams(mut self, streams: Streams) -> Self {
        self.streams = streams;
        self
    }

    /// Polls the server for each type separately instead of opening a stream. Sets the
    /// state-of-the-world variant, the only one defined for polling, and sends the node in every
    /// request.
    // S0.180, S0.204, M188
    #[must_use]
    pub fn with_polling(mut self, policy: PollPolicy) -> Self {
        self.transport_kind = TransportKind::Polling(policy);
        self.with_variant(Variant::StateOfTheWorld)
            .with_streams(Streams::PerType)
            .with_send_node(SendNode::EveryRequest)
    }

    /// Treats the URI as the path of a file that contains the resources of each type. The file is
    /// read initially and after every change. A resource missing from it is handled as in a
    /// state-of-the-world response, except that an unknown name is reported as nonexistent as soon
    /// as the file has been read.
    // S0.010
    #[must_use]
    pub fn with_file(mut self, policy: FilePolicy) -> Self {
        self.transport_kind = TransportKind::File(policy);
        self.with_variant(Variant::StateOfTheWorld).with_streams(Streams::PerType)
    }

    /// Sets the name of the transport settings that the adapter uses for the server.
    #[must_use]
    pub fn with_transport(mut self, transport: impl Into<TransportId>) -> Self {
        self.transport = transport.into();
        self
    }
}

/// Name of transport settings known to the adapter, such as credentials or a choice of services.
/// The empty name means the adapter's default settings.
///
/// The core does not interpret it. Servers with different ids never share a stream.
// FE-16
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransportId(Arc<str>);

impl TransportId {
    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether this is the empty name, which means the adapter's default settings.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for TransportId {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl From<String> for TransportId {
    fn from(name: String) -> Self {
        Self(name.into())
    }
}

/// Pattern of requests and responses.
// S0.001
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransportKind {
    /// Bidirectional stream, as over gRPC.
    #[default]
    Stream,
    /// Polling, as over REST: one response per request, and a pause before the next request. Set it
    /// with [`ServerAddress::with_polling`], which also sets what polling requires.
    ///
    /// The adapter reports [`Opened`](crate::client::ChannelEvent::Opened) without waiting for a
    /// connection. Each rendered request is one call of [`rest_path`](crate::client::Call::rest_path);
    /// if the previous one is still in flight, it is cancelled. Its result is a
    /// [message](crate::client::ChannelEvent::Message),
    /// [unchanged](crate::client::ChannelEvent::Unchanged) or, if the call failed,
    /// [closed](crate::client::ChannelEvent::Closed).
    // S0.199-S0.202
    Polling(PollPolicy),
    /// File in place of a server. Set it with [`ServerAddress::with_file`], which also sets what a
    /// file requires. There are only responses; rendered requests are discarded. The adapter reports
    /// [`Opened`](crate::client::ChannelEvent::Opened) at once. It reads the file whenever a request's cause is
    /// [`Subscription`](crate::client::RequestCause::Subscription), even if it has read it before,
    /// and whenever the file has changed. It reports each read as a
    /// [message](crate::client::ChannelEvent::Message) or as
    /// [undeliverable](crate::client::ChannelEvent::Undeliverable). Requests with other causes report
    /// whether the contents were accepted.
    // S0.010-S0.018
    File(FilePolicy),
}

/// Distribution of resource types over streams.
// S0.164
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Streams {
    /// One stream for all types: the aggregated discovery service (ADS).
    #[default]
    Aggregated,
    /// One stream per type, to the discovery service of that type.
    PerType,
}

/// Requests of a stream that contain the node.
// D4, S0.070
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SendNode {
    /// Only the first request.
    #[default]
    FirstRequest,
    /// Every request, for servers that do not remember the node.
    EveryRequest,
}

/// Settings for one authority of `xdstp://AUTHORITY/type/id` names, see
/// [gRFC A47](https://github.com/grpc/proposal/blob/master/A47-xds-federation.md).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AuthorityConfig {
    /// Authority in resource names; may be empty.
    // FE-04
    pub name: Arc<str>,
    /// Servers in order of preference. If empty, the authority uses the servers of names without an
    /// authority.
    // FE-03
    pub servers: Vec<ServerAddress>,
    /// Timeout after which a subscribed resource of this authority is reported as nonexistent.
    pub does_not_exist_timeout: DoesNotExistTimeout,
}

/// Timeout after which a subscribed resource is reported as nonexistent: Envoy's
/// `initial_fetch_timeout`, which is set per config source.
// B18
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DoesNotExistTimeout {
    /// Timeout of the resource's type.
    #[default]
    TypeDefault,
    /// This duration.
    After(Duration),
    /// No timeout.
    Never,
}

impl From<Option<Duration>> for DoesNotExistTimeout {
    /// Converts `None` to [`Never`](Self::Never).
    fn from(after: Option<Duration>) -> Self {
        after.map_or(Self::Never, Self::After)
    }
}

impl AuthorityConfig {
    /// Creates an authority that uses the client's default servers.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            servers: Vec::new(),
            does_not_exist_timeout: DoesNotExistTimeout::TypeDefault,
        }
    }

    /// Sets the timeout after which a subscribed resource of this authority is reported as
    /// nonexistent.
    #[must_use]
    pub fn with_does_not_exist_timeout(mut self, after: impl Into<DoesNotExistTimeout>) -> Self {
        self.does_not_exist_timeout = after.into();
        self
    }

    /// Adds a server of this authority, used when the servers added before it fail.
    #[must_use]
    pub fn with_server(mut self, server: ServerAddress) -> Self {
        self.servers.push(server);
        self
    }
}
