//! Authorities and the servers that each of them uses for each type.

use alloc::{sync::Arc, vec::Vec};

use crate::client::config::{ClientConfig, Fallback, ServerAddress, resource_type::ResourceType};

/// Authority with its servers.
#[derive(Debug)]
pub(crate) struct AuthorityState {
    pub(crate) names: AuthorityNames,
    /// Servers by type.
    pub(crate) sources: Vec<TypeSource>,
    pub(crate) fallback: Fallback,
}

/// Names that an authority is responsible for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AuthorityNames {
    /// Names without an authority.
    WithoutAuthority,
    /// Names with this authority.
    Authority(Arc<str>),
    /// Names with an authority that is not configured.
    OtherAuthorities,
}

/// Servers of one type. Types that share a stream fail over together.
#[derive(Clone, Debug)]
pub(crate) struct TypeSource {
    /// Positions of servers in order of preference.
    pub(crate) servers: Arc<[usize]>,
    pub(crate) active_server: ActiveServer,
}

/// Active server of an authority for a type, as an index into its servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ActiveServer {
    /// Index of the active server.
    pub(crate) active: usize,
    /// Whether the active server has not responded since the switch to it. Until then resources and
    /// the error of the previous server stay in effect.
    // FB-07
    pub(crate) is_switching: bool,
}

impl AuthorityState {
    /// Creates the authorities of a configuration; the first is that of names without an authority.
    /// Adds their servers to `distinct` unless it contains them.
    // FE-16
    pub(crate) fn all(config: &ClientConfig, distinct: &mut Vec<Arc<ServerAddress>>) -> Vec<Self> {
        let mut positions = |servers: &[ServerAddress]| {
            let mut found: Vec<usize> = Vec::new();
            let usable = match config.profile.fallback {
                Fallback::On | Fallback::Failover => servers.len(),
                Fallback::Off => 1,
            };
            for server in servers.iter().take(usable) {
                let known = distinct.iter().position(|other| **other == *server);
                let position = known.unwrap_or(distinct.len());
                if known.is_none() {
                    distinct.push(Arc::new(server.clone()));
                }
                if !found.contains(&position) {
                    found.push(position);
                }
            }
            found
        };
        let servers: Arc<[usize]> = positions(&config.servers).into();
        let source = |resource_type: &Arc<dyn ResourceType>| {
            let own = config.sources.get(resource_type.type_url());
            let own = own.map(|own| positions(own)).filter(|own| !own.is_empty());
            let servers = own.map_or_else(|| Arc::clone(&servers), Arc::from);
            TypeSource { servers, active_server: ActiveServer::default() }
        };
        let unqualified: Vec<_> = config.types.iter().map(source).collect();
        let new = |names, sources| Self { names, sources, fallback: config.profile.fallback };
        let mut own_or_shared = |servers: &[ServerAddress]| {
            let own: Arc<[usize]> = positions(servers).into();
            // FE-03: an authority without servers uses the default servers.
            if own.is_empty() {
                return unqualified.clone();
            }
            let source = TypeSource { servers: own, active_server: ActiveServer::default() };
            alloc::vec![source; config.types.len()]
        };
        let mut named: Vec<_> = config
            .authorities
            .iter()
            .map(|it| {
                new(AuthorityNames::Authority(Arc::clone(&it.name)), own_or_shared(&it.servers))
            })
            .collect();
        if !config.other_authorities.is_empty() {
            named.push(new(
                AuthorityNames::OtherAuthorities,
                own_or_shared(&config.other_authorities),
            ));
        }
        let mut all = Vec::from([new(AuthorityNames::WithoutAuthority, unqualified)]);
        all.append(&mut named);
        all
    }

    /// Returns the positions of its servers for a type, in order of preference.
    pub(crate) fn servers(&self, type_index: usize) -> &[usize] {
        self.sources.get(type_index).map_or(&[], |source| &source.servers)
    }

    /// Returns the position of the active server for a type.
    pub(crate) fn active(&self, type_index: usize) -> usize {
        let rank = self.active_server(type_index).active;
        self.servers(type_index).get(rank).copied().unwrap_or(usize::MAX)
    }

    /// Returns whether names of the authority are currently subscribed on the server.
    pub(crate) fn uses(&self, upstream: usize, type_index: usize) -> bool {
        let active = self.active_server(type_index).active;
        let first = match self.fallback {
            Fallback::Failover => active,
            Fallback::On | Fallback::Off => 0,
        };
        let used = self.servers(type_index).iter().take(active + 1).skip(first);
        used.into_iter().any(|&server| server == upstream)
    }

    /// Returns the index of the next server after the end of a stream to the active one, with
    /// [`Fallback::Failover`]. `has_responded` and `failures` are those of the first server.
    pub(crate) fn next_failover(
        &self,
        type_index: usize,
        has_responded: bool,
        failures: u32,
    ) -> Option<usize> {
        let active = self.active_server(type_index).active;
        let is_ended = active > 0 || (!has_responded && failures >= FAILOVER_THRESHOLD);
        let next = (active + 1) % self.servers(type_index).len().max(1);
        (self.fallback == Fallback::Failover && is_ended && next != active).then_some(next)
    }

    pub(crate) fn active_server(&self, type_index: usize) -> ActiveServer {
        self.sources.get(type_index).map(|source| source.active_server).unwrap_or_default()
    }

    pub(crate) fn active_server_mut(&mut self, type_index: usize) -> Option<&mut ActiveServer> {
        self.sources.get_mut(type_index).map(|source| &mut source.active_server)
    }

    pub(crate) fn rank_of(&self, upstream: usize, type_index: usize) -> Option<usize> {
        self.servers(type_index).iter().position(|&server| server == upstream)
    }
}

/// Number of consecutive failures of the first server before the next one is tried with
/// [`Fallback::Failover`].
pub(crate) const FAILOVER_THRESHOLD: u32 = 2;

/// Position of the authority of names without one.
pub(crate) const DEFAULT: usize = 0;
