//! Names of participants and resources, and configuration of the cores.

use std::{sync::Arc, time::Duration};

use xds_core::{
    TypeUrl, VersionPrefix, ViewName,
    client::{
        AuthorityConfig, ClientConfig, FilePolicy, Node, PollPolicy, Profile, ServerAddress,
        ServerFeature, ServerFeatures, VerdictSource,
    },
    server::{
        Admission, MakeBeforeBreakPolicy, NodeChanged, OrderingPolicy, ServerConfig,
        StageTimeoutAction, UnknownType, VersionMode,
    },
};

use super::{
    World,
    message::Text,
    parts::message_name,
    polls::{POLL_TIMEOUT, REFRESH},
};
use crate::{
    ToyType,
    options::{Action, Feature, Lie, Options, Order, ProfileName, Transport, Versions},
    toy::ToyReferences,
};

pub(super) fn client(at: usize) -> String {
    format!("client-{at}")
}

pub(super) fn server(at: usize) -> String {
    format!("server-{at}")
}

/// Returns a name that ends with a number. Worlds need thousands of them, and formatting is slow.
pub(crate) fn numbered(prefix: &str, number: u32) -> String {
    let mut name = match number {
        0..10 => {
            let mut name = String::with_capacity(prefix.len() + 6);
            name.push_str(prefix);
            name
        }
        _ => numbered(prefix, number / 10),
    };
    name.push(char::from(b'0' + (number % 10) as u8));
    name
}

/// Prefix of names of the separate authority.
const APART: &str = "xdstp://apart/";

/// Index of the server of the separate authority.
pub(super) const SERVER_APART: usize = 2;

/// Whether a name belongs to the separate authority.
pub(crate) fn is_apart(name: &str) -> bool {
    name.starts_with("xdstp:")
}

/// Whether a name is a glob.
pub(crate) fn is_glob(name: &str) -> bool {
    is_apart(name) && name.ends_with("/*")
}

/// Whether `glob` is a glob with the member `name`.
pub(crate) fn glob_covers(glob: &str, name: &str) -> bool {
    is_glob(glob) && name != glob && glob.strip_suffix('*').is_some_and(|at| name.starts_with(at))
}

/// Prefix of the last path segment of aliases.
const OTHERWISE: &str = "also-";

/// Returns the alias of a resource.
pub(crate) fn alias_of(name: &str) -> String {
    match name.rsplit_once('/') {
        Some((path, last)) => format!("{path}/{OTHERWISE}{last}"),
        None => format!("{OTHERWISE}{name}"),
    }
}

/// Returns the resource name of an alias; other names are returned unchanged.
pub(crate) fn meaning_of(name: &str) -> Text {
    let (path, last) = name.rsplit_once('/').map_or(("", name), |(path, last)| (path, last));
    match last.strip_prefix(OTHERWISE) {
        None => name.into(),
        Some(last) if path.is_empty() => last.into(),
        Some(last) => format!("{path}/{last}").into(),
    }
}

/// Whether a name is an alias.
pub(crate) fn is_alias(name: &str) -> bool {
    let path = name.bytes().rposition(|letter| letter == b'/').map_or(0, |slash| slash + 1);
    name[path..].starts_with(OTHERWISE)
}

/// Returns the name of a view.
pub(super) fn view(at: usize) -> ViewName {
    ViewName::from(format!("view-{at}").as_str())
}

/// Returns the index of a view.
pub(super) fn view_at(view: &ViewName) -> usize {
    let number = view.as_str().strip_prefix("view-");
    number.and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Returns the index of the client with this node id.
pub(super) fn client_at(node: &str) -> Option<usize> {
    node.strip_prefix("client-")?.parse().ok()
}

/// Whether a server serves a name.
pub(crate) fn serves(server: usize, name: &str) -> bool {
    is_apart(name) == (server == SERVER_APART)
}

impl World {
    /// Returns the name of a resource by number. With three servers, every second name belongs to a
    /// separate authority.
    #[must_use]
    pub fn name(&self, kind: usize, number: u32) -> String {
        match (
            self.options.servers as usize > SERVER_APART && number % 2 == 1,
            self.types.get(kind),
        ) {
            (true, Some(type_url)) => format!("{APART}{}/r{number}", message_name(type_url)),
            _ => numbered("r", number),
        }
    }

    /// Returns the glob of all names of a type in the separate authority.
    #[must_use]
    pub fn glob(&self, kind: usize) -> Option<String> {
        Some(format!("{APART}{}/*", message_name(self.types.get(kind)?)))
    }
}

/// Maximum backoff between connection attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

pub(super) fn client_config(
    options: &Options,
    types: &[TypeUrl],
    client_at: usize,
) -> ClientConfig {
    let managed = |at| {
        let managed = ServerAddress::new(server(at)).with_features(server_features(options));
        match options.transport {
            Transport::Streams => managed
                .with_variant(options.variant_of(client_at, at))
                .with_streams(options.streams),
            Transport::Polls => managed.with_polling(poll_policy(options)),
            Transport::Files => managed.with_file(FilePolicy::default()),
        }
    };
    let mut config = ClientConfig::new(Node::new(client(client_at)), managed(0));
    if options.servers > 1 {
        config = config.with_server(managed(1));
    }
    if options.servers as usize > SERVER_APART {
        config =
            config.with_authority(AuthorityConfig::new("apart").with_server(managed(SERVER_APART)));
    }
    config.profile = match options.profile {
        ProfileName::Grpc => Profile::grpc(),
        ProfileName::Envoy => Profile::envoy(),
    };
    if options.profile == ProfileName::Grpc {
        config.profile.data_errors = options.data_errors;
    }
    config.profile.flow_control = options.flow_control;
    let lacks = |feature: &str| match feature {
        TTL => options.features.contains(Feature::WithoutTtl),
        WRAPPERS => options.features.contains(Feature::WithoutWrappers),
        _ => false,
    };
    config.profile.client_features.retain(|feature| !lacks(feature));
    config.profile.backoff.max = config.profile.backoff.max.min(LONGEST_PAUSE);
    let verdict = match options.verdicts.delay() {
        None => VerdictSource::Validation,
        Some(_) => VerdictSource::External,
    };
    let toy = |it: &TypeUrl| ToyType::new(it.clone()).with_verdict(verdict);
    types.iter().fold(config, |config, it| config.with_type(toy(it)))
}

/// Client feature that declares support for TTLs.
const TTL: &str = "xds.config.supports-resource-ttl";

/// Client feature that declares support for `Resource` wrappers in the state of the world.
const WRAPPERS: &str = "xds.config.resource-in-sotw";

/// Returns the server features in a client's configuration.
fn server_features(options: &Options) -> ServerFeatures {
    let features = options.features.iter().filter_map(|feature| match feature {
        Feature::FailOnDataErrors => Some(ServerFeature::FailOnDataErrors),
        Feature::TransientTimer => Some(ServerFeature::ResourceTimerIsTransientError),
        Feature::IgnoreDeletion => Some(ServerFeature::IgnoreResourceDeletion),
        Feature::TrustedServer => Some(ServerFeature::TrustedXdsServer),
        Feature::WithoutTtl | Feature::WithoutWrappers | Feature::StrictServer => None,
    });
    features.collect()
}

fn poll_policy(options: &Options) -> PollPolicy {
    let policy = match options.profile {
        ProfileName::Grpc => PollPolicy::new(REFRESH),
        ProfileName::Envoy => PollPolicy::envoy(REFRESH),
    };
    policy.with_request_timeout(POLL_TIMEOUT)
}

pub(super) fn server_config(options: &Options, at: usize, incarnation: u32) -> ServerConfig {
    let mut config = ServerConfig::default();
    config.limits.names_per_stream = MOST_NAMES;
    if let Some(limit) = options.responses.limit() {
        config.limits.response_bytes = limit;
    }
    if options.names_per_call > 0 {
        let has_many = options.actions.contains(Action::WatchMany)
            || options.lies.contains(Lie::ExcessiveNames);
        config.limits.names_per_call =
            options.names_per_call as usize * if has_many { MANY } else { 1 };
    }
    if options.views > 1 {
        config.admission = Admission::ByApplication;
    }
    if options.versions != Versions::Content {
        config = config.with_every_type(|it| it.versions = VersionMode::Counter);
    }
    if options.versions == Versions::Counted {
        config.version_prefix = VersionPrefix::from(format!("{at}-{incarnation}-").as_str());
    }
    if options.are_servers_strict() {
        config.node_changed = NodeChanged::Close;
        config.unknown_type = UnknownType::Close;
    }
    config.ordering = match options.order {
        Order::ByRank => OrderingPolicy::OrderOnly,
        Order::AsDue => OrderingPolicy::Off,
        Order::AfterAcks => after_acks(StageTimeoutAction::Continue),
        Order::OnlyAfterAcks => after_acks(StageTimeoutAction::Hold),
    };
    config
}

/// Maximum number of names per stream: more than any client of a world uses, and fewer than a rogue
/// client may request.
pub(crate) const MOST_NAMES: usize = 10_000;

/// Factor of the names per call in worlds with thousands of names.
const MANY: usize = 200;

fn after_acks(on_stage_timeout: StageTimeoutAction) -> OrderingPolicy {
    let mut gated = MakeBeforeBreakPolicy::default();
    gated.references = Some(Arc::new(ToyReferences));
    gated.on_stage_timeout = on_stage_timeout;
    OrderingPolicy::MakeBeforeBreak(gated)
}

/// Returns the index of the server with this URI.
pub(super) fn server_at(uri: &str) -> Option<usize> {
    uri.strip_prefix("server-")?.parse().ok()
}
