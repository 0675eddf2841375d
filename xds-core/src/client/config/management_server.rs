//! What a client knows of a management server before it talks to it: how to reach it, in which way, and which
//! names it answers for.

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

/// A management server as the client sees it.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub struct ManagementServer {
    /// Adapters dial it. In errors, logs and measurements the server is called the same, without a
    /// `user:password@` that may be in it.
    pub uri: Arc<str>,
    /// What the server's data errors do to cached resources; `None` follows its features, then the
    /// profile.
    pub data_errors: Option<DataErrorPolicy>,
    /// The variant of the protocol that the server is asked to speak.
    pub variant: Variant,
    /// The version of the API that the server's services are of.
    pub transport_api: ApiVersion,
    /// The version of the API whose types it is asked for. What comes is taken in either (S4.008).
    pub resource_api: ApiVersion,
    /// Whether one stream carries all types.
    pub streams: Streams,
    /// How requests and responses follow each other.
    pub exchange: Exchange,
    /// What the bootstrap says the server can do.
    pub features: ServerFeatures,
    /// How fast requests may go to the server; `None` sets no limit.
    pub request_rate: Option<RequestRate>,
    /// Which requests name the node.
    pub node_in: NodeIn,
    /// How the adapter reaches the server.
    pub transport: TransportId,
}

/// Like a derived one, with the URI as it may be shown.
impl fmt::Debug for ManagementServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagementServer")
            .field("uri", &self.name())
            .field("data_errors", &self.data_errors)
            .field("variant", &self.variant)
            .field("transport_api", &self.transport_api)
            .field("resource_api", &self.resource_api)
            .field("streams", &self.streams)
            .field("exchange", &self.exchange)
            .field("features", &self.features)
            .field("request_rate", &self.request_rate)
            .field("node_in", &self.node_in)
            .field("transport", &self.transport)
            .finish()
    }
}

impl ManagementServer {
    /// The server at `uri`, whose form is the adapter's to read.
    #[must_use]
    pub fn new(uri: impl Into<Arc<str>>) -> Self {
        Self {
            uri: uri.into(),
            data_errors: None,
            variant: Variant::default(),
            transport_api: ApiVersion::default(),
            resource_api: ApiVersion::default(),
            streams: Streams::default(),
            exchange: Exchange::default(),
            features: ServerFeatures::NONE,
            request_rate: None,
            node_in: NodeIn::default(),
            transport: TransportId::default(),
        }
    }

    /// States what the server can do.
    #[must_use]
    pub fn with_features(mut self, features: ServerFeatures) -> Self {
        self.features = features;
        self
    }

    /// The URI as it may be shown. What comes before an `@` is left out up to the scheme, unless it is a path.
    pub(crate) fn name(&self) -> Arc<str> {
        let is_path = self.uri.starts_with("unix:") || self.exchange.is_of_files();
        let Some((secret, rest)) = self.uri.rsplit_once('@').filter(|_| !is_path) else {
            return Arc::clone(&self.uri);
        };
        match secret.split_once("://") {
            Some((scheme, _)) => alloc::format!("{scheme}://***@{rest}").into(),
            None => alloc::format!("***@{rest}").into(),
        }
    }

    /// What the server's data errors do to cached resources (X11).
    pub(crate) fn data_errors(&self, profile: &Profile) -> DataErrorPolicy {
        let fails = self.features.contains(ServerFeature::FailOnDataErrors);
        let by_feature = fails.then_some(DataErrorPolicy::DropCached);
        self.data_errors.or(by_feature).unwrap_or(profile.data_errors)
    }

    /// Chooses the variant of the protocol.
    #[must_use]
    pub fn with_variant(mut self, variant: Variant) -> Self {
        self.variant = variant;
        self
    }

    /// Asks the services of a version of the API for types of that version (S4.014, S4.051). Over REST and in
    /// files, an adapter that reads JSON has to know those types.
    #[must_use]
    pub fn with_api(mut self, api: ApiVersion) -> Self {
        self.transport_api = api;
        self.resource_api = api;
        self
    }

    /// What a type is called in requests to the server. One that is younger than the version has one name.
    pub(crate) fn name_of_type(&self, current: &TypeUrl) -> TypeUrl {
        match self.resource_api {
            ApiVersion::V3 => current.clone(),
            ApiVersion::V2 => {
                types::older_name(current.as_str()).map_or_else(|| current.clone(), TypeUrl::from)
            }
        }
    }

    /// Says which requests name the node.
    #[must_use]
    pub fn with_node_in(mut self, node_in: NodeIn) -> Self {
        self.node_in = node_in;
        self
    }

    /// Limits how fast requests go to the server, over each stream (BO-10).
    #[must_use]
    pub fn with_request_rate(mut self, rate: RequestRate) -> Self {
        self.request_rate = Some(rate);
        self
    }

    /// Chooses between one stream for all types and one for each.
    #[must_use]
    pub fn with_streams(mut self, streams: Streams) -> Self {
        self.streams = streams;
        self
    }

    /// Has the server asked again and again for each type, instead of over a stream: in the state-of-the-world
    /// variant, which is the only one that there is for that (S0.180, S0.204), and with the node in every
    /// request (M188).
    #[must_use]
    pub fn with_polls(mut self, policy: PollPolicy) -> Self {
        self.exchange = Exchange::Polls(policy);
        self.with_variant(Variant::StateOfTheWorld)
            .with_streams(Streams::PerType)
            .with_node_in(NodeIn::EveryRequest)
    }

    /// Takes the server's URI for the path of a file, which says what there is of each type (S0.010). It is
    /// read at first, and again whenever it changes. Absence from it is what it is in a response of the
    /// state of the world, except that a name of which nothing is known does not exist as soon as the file
    /// was read without it.
    #[must_use]
    pub fn with_files(mut self, policy: FilePolicy) -> Self {
        self.exchange = Exchange::Files(policy);
        self.with_variant(Variant::StateOfTheWorld).with_streams(Streams::PerType)
    }

    /// Chooses how the adapter reaches the server.
    #[must_use]
    pub fn with_transport(mut self, transport: impl Into<TransportId>) -> Self {
        self.transport = transport.into();
        self
    }
}

/// How an adapter reaches a server: with which credentials, through which services. It is the name of
/// something that the adapter was told of; the empty one is what the adapter does unless told otherwise.
///
/// The core reads nothing into it. Servers that differ in it share no stream (FE-16).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransportId(Arc<str>);

impl TransportId {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the adapter is left to do what it does unless told otherwise.
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

/// How requests and responses follow each other (S0.001).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exchange {
    /// Both sides say something whenever they have something to say, as over gRPC.
    #[default]
    Stream,
    /// Each request is answered once, and after a pause comes the next: REST (S0.199-S0.202).
    Polls(PollPolicy),
    /// The server is a file: there are responses only (S0.010-S0.018). What is rendered goes nowhere. The
    /// adapter reads the file when the cause is [`Subscription`](crate::client::RequestCause::Subscription), even
    /// if it did before, and by itself when the file has changed; each time it passes on what it
    /// found, as a [message](crate::client::ChannelEvent::Message) or as
    /// [malformed](crate::client::ChannelEvent::Malformed). Other causes tell what became of that.
    Files(FilePolicy),
}

/// How resource types share streams (S0.164).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streams {
    /// One stream carries all types: the aggregated discovery service.
    #[default]
    Aggregated,
    /// Each type has a stream of its own, to its own discovery service.
    PerType,
}

/// Which requests of a stream name the node (D4, S0.070).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodeIn {
    /// The first one.
    #[default]
    FirstRequest,
    /// All of them, for servers that do not remember it.
    EveryRequest,
}

/// Who answers for names that state an authority, as `xdstp://NAME/type/id` does (A47).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Authority {
    /// The name as resource names state it; it may be empty (FE-04).
    pub name: Arc<str>,
    /// Its servers, the preferred first. An authority without any uses those of names without one (FE-03).
    pub servers: Vec<ManagementServer>,
    /// How long a subscribed resource with such a name may be missing.
    pub missing_after: MissingAfter,
}

/// How long a subscribed resource may be missing at its server before it does not exist: Envoy's
/// `initial_fetch_timeout`, which each source has its own of (B18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MissingAfter {
    /// As long as others of its type.
    #[default]
    AsType,
    /// This long.
    After(Duration),
    /// For ever.
    Never,
}

impl From<Option<Duration>> for MissingAfter {
    /// `None` waits for ever.
    fn from(after: Option<Duration>) -> Self {
        after.map_or(Self::Never, Self::After)
    }
}

impl Authority {
    /// The authority `name`, answered for by the client's own servers.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: name.into(), servers: Vec::new(), missing_after: MissingAfter::AsType }
    }

    /// Says how long a subscribed resource with such a name may be missing.
    #[must_use]
    pub fn with_missing_after(mut self, after: impl Into<MissingAfter>) -> Self {
        self.missing_after = after.into();
        self
    }

    /// Adds a server of its own, to use where those before it fail.
    #[must_use]
    pub fn with_server(mut self, server: ManagementServer) -> Self {
        self.servers.push(server);
        self
    }
}
