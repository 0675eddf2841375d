//! Client configuration and the servers of each name.

use std::time::Duration;

use xds_core::{
    TypeUrl,
    client::{
        AuthorityConfig, ClientConfig, DataErrorPolicy, FlowControl, Node, ServerAddress,
        ServerFeature, ServerFeatures, Streams, VerdictSource,
    },
    service::Variant,
};

use super::{
    super::{Picky, TYPES, watcher::Watcher},
    exchange::Place,
    external_verdicts::Deferring,
};

/// Places that serve a name.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    pub authority: usize,
    pub preferred: Place,
    pub behind: Option<Place>,
}

/// Client configuration of a walk.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub variant: Variant,
    pub streams: Streams,
    pub servers: Servers,
    pub data_errors: DataErrorPolicy,
    pub flow_control: FlowControl,
    pub features: ServerFeatures,
    pub verdict: VerdictSource,
    pub idle_timeout: Duration,
}

/// Assignment of names to servers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Servers {
    /// One server for everything.
    One,
    /// Two servers in order; the reverse order for the second type; an authority that prefers the
    /// second server; and an authority with a separate server.
    Fallback,
}

pub const URIS: [&str; 3] = ["a", "b", "c"];

/// The server that shares no authority with another one.
pub const APART: usize = 2;

/// Returns a name. Two names are plain, and two have an authority, one of them with parameters.
pub fn name_of(kind: usize, name: u8) -> String {
    let type_name = TYPES[kind].rsplit('/').next().unwrap_or_default();
    match name {
        2 => format!("xdstp://x/{type_name}/r2"),
        3 => format!("xdstp://y/{type_name}/r3?m=1&n=2"),
        name => format!("r{name}"),
    }
}

/// Index of a name's authority: none, `x`, or `y`.
pub fn authority_of(name: &str) -> usize {
    ["xdstp://x/", "xdstp://y/"].iter().position(|it| name.starts_with(it)).map_or(0, |at| at + 1)
}

/// Number of authorities, including that of plain names.
pub const AUTHORITIES: usize = 3;

impl Setup {
    pub fn to_config(self) -> ClientConfig {
        let server = |uri| {
            ServerAddress::new(uri)
                .with_variant(self.variant)
                .with_streams(self.streams)
                .with_features(self.features)
        };
        let mut config = ClientConfig::new(Node::new("me"), server(URIS[0]));
        // NACKs are not delayed, so that each response is answered at once.
        config.nack_interval = Duration::ZERO;
        let (mut shared, mut apart) = (AuthorityConfig::new("x"), AuthorityConfig::new("y"));
        if self.servers == Servers::Fallback {
            config = config.with_server(server(URIS[1]));
            config = config.with_source(TYPES[1], server(URIS[1]));
            config = config.with_source(TYPES[1], server(URIS[0]));
            shared = shared.with_server(server(URIS[1])).with_server(server(URIS[0]));
            apart = apart.with_server(server(URIS[APART]));
        }
        config = config.with_authority(shared).with_authority(apart);
        config.profile.data_errors = self.data_errors;
        config.profile.flow_control = self.flow_control;
        config.profile.backoff.jitter_percent = 0;
        config.profile.idle_timeout = Some(self.idle_timeout);
        config.limits.tombstones_per_type = 2;
        let types = TYPES.map(TypeUrl::from);
        types.into_iter().fold(config, |config, it| match self.verdict {
            VerdictSource::External => config.with_type(Deferring(it)),
            _ => config.with_type(Picky(it)),
        })
    }

    /// Whether resources that only the fallback server had may remain until they expire.
    pub fn may_have_leftovers(self) -> bool {
        self.servers == Servers::Fallback && self.variant == Variant::Incremental
    }

    /// The effect of data errors on cached resources.
    // IC20
    pub fn policy(self) -> DataErrorPolicy {
        match self.features.contains(ServerFeature::FailOnDataErrors) {
            true => DataErrorPolicy::DropCached,
            false => self.data_errors,
        }
    }

    /// The single type of a stream for `kind`, with one stream per type.
    pub fn only(self, kind: usize) -> Option<usize> {
        (self.streams == Streams::PerType).then_some(kind)
    }

    /// Indices of the servers of a name, the preferred one first.
    pub fn servers_of(self, kind: usize, name: &str) -> &'static [usize] {
        match (self.servers, authority_of(name)) {
            (Servers::One, _) => &[0],
            (Servers::Fallback, 2) => &[APART],
            (Servers::Fallback, 0) if kind == 0 => &[0, 1],
            (Servers::Fallback, _) => &[1, 0],
        }
    }

    /// The preferred place of a watch.
    pub fn place_of_watch(self, watcher: &Watcher) -> Place {
        self.place_of(watcher.kind, watcher.name.as_deref().unwrap_or_default())
    }

    /// The preferred place of a name.
    pub fn place_of(self, kind: usize, name: &str) -> Place {
        (self.preferred(kind, name), self.only(kind))
    }

    /// The preferred place of a name and its fallback.
    pub fn places_of(self, kind: usize, name: &str) -> Places {
        let behind = self.servers_of(kind, name).get(1).map(|&server| (server, self.only(kind)));
        Places { authority: authority_of(name), preferred: self.place_of(kind, name), behind }
    }

    /// Index of the preferred server of a name.
    pub fn preferred(self, kind: usize, name: &str) -> usize {
        self.servers_of(kind, name)[0]
    }
}
