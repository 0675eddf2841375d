//! Random changes of the server's resources that keep them consistent.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use prost::Message as _;
use xds_core::types;

const CLUSTERS: [&str; 4] = ["c0", "c1", "c2", "c3"];
const SERVICES: [&str; 3] = ["c0", "s1", "s2"];
const ROUTES: [&str; 3] = ["r0", "r1", "r2"];
const LISTENERS: [&str; 2] = ["l0", "l1"];

/// The relevant parts of the v3 API messages.
pub(super) mod api {
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Cluster {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
        #[prost(int32, tag = "2")]
        pub(crate) kind: i32,
        #[prost(message, optional, tag = "3")]
        pub(crate) eds: Option<EdsClusterConfig>,
        #[prost(string, tag = "28")]
        pub(crate) alt_stat_name: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct EdsClusterConfig {
        #[prost(message, optional, tag = "1")]
        pub(crate) config: Option<ConfigSource>,
        #[prost(string, tag = "2")]
        pub(crate) service_name: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct ConfigSource {
        #[prost(message, optional, tag = "3")]
        pub(crate) ads: Option<Ads>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Ads {}

    /// Endpoints or a listener: a name with text content.
    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Named {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
        #[prost(string, tag = "1000")]
        pub(crate) content: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct RouteConfiguration {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
        #[prost(message, repeated, tag = "2")]
        pub(crate) virtual_hosts: Vec<VirtualHost>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct VirtualHost {
        #[prost(string, tag = "1")]
        pub(crate) name: String,
        #[prost(message, repeated, tag = "3")]
        pub(crate) routes: Vec<Route>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct Route {
        #[prost(message, optional, tag = "2")]
        pub(crate) route: Option<RouteAction>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(crate) struct RouteAction {
        #[prost(string, tag = "1")]
        pub(crate) cluster: String,
    }
}

/// A small deterministic random number generator.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    pub(super) fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    pub(super) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len() as u64) as usize]
    }
}

/// The server's resources.
#[derive(Clone, Debug, Default)]
pub(super) struct Target {
    /// EDS service and a setting by cluster.
    pub(super) clusters: BTreeMap<&'static str, (Option<&'static str>, u64)>,
    pub(super) endpoints: BTreeMap<&'static str, u64>,
    pub(super) routes: BTreeMap<&'static str, BTreeSet<&'static str>>,
    /// Route configuration or cluster that a listener references.
    pub(super) listeners: BTreeMap<&'static str, Leads>,
    /// A setting of all routes and listeners.
    pub(super) salt: u64,
}

/// Number of valid clusters that a repair changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    One,
    All,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leads {
    ToRoutes(&'static str),
    ToCluster(&'static str),
}

impl Target {
    /// Changes some resources, then whatever became inconsistent.
    pub(super) fn change(&mut self, dice: &mut Dice) {
        for _ in 0..=dice.roll(4) {
            let cluster = dice.pick(&CLUSTERS);
            match dice.roll(8) {
                0 | 1 => drop(self.clusters.remove(cluster)),
                2 => drop(self.clusters.insert(cluster, (None, dice.roll(3)))),
                3 | 4 => {
                    let service = dice.pick(&SERVICES);
                    self.clusters.insert(cluster, (Some(service), dice.roll(3)));
                }
                5 => drop(self.routes.remove(dice.pick(&ROUTES))),
                _ => {
                    let clusters = (0..=dice.roll(2)).map(|_| dice.pick(&CLUSTERS)).collect();
                    self.routes.insert(dice.pick(&ROUTES), clusters);
                }
            }
            if dice.one_in(3) {
                let leads = match dice.one_in(3) {
                    true => Leads::ToCluster(dice.pick(&CLUSTERS)),
                    false => Leads::ToRoutes(dice.pick(&ROUTES)),
                };
                self.listeners.insert(dice.pick(&LISTENERS), leads);
            }
        }
        let clusters = &mut self.clusters;
        if clusters.is_empty() {
            clusters.insert(dice.pick(&CLUSTERS), (None, 0));
        }
        let exists = |name: &str, clusters: &BTreeMap<_, _>| clusters.contains_key(name);
        let any = clusters.keys().copied().collect::<Vec<_>>();
        for leads in self.routes.values_mut() {
            leads.retain(|name| exists(name, clusters));
            if leads.is_empty() {
                leads.insert(dice.pick(&any));
            }
        }
        let routes = &self.routes;
        self.listeners.retain(|_, leads| match leads {
            Leads::ToRoutes(name) => routes.contains_key(name),
            Leads::ToCluster(name) => exists(name, clusters),
        });
        let named: BTreeSet<_> = clusters.values().filter_map(|(service, _)| *service).collect();
        self.endpoints.retain(|name, _| named.contains(name));
        for name in named {
            if !self.endpoints.contains_key(name) || dice.one_in(4) {
                self.endpoints.insert(name, dice.roll(3));
            }
        }
    }

    /// Changes only endpoints.
    pub(super) fn change_endpoints(&mut self, dice: &mut Dice) {
        self.endpoints.values_mut().for_each(|version| *version = dice.roll(100));
    }

    /// Changes rejected resources and all routes, listeners and endpoints, and either at most one
    /// valid cluster or all clusters.
    pub(super) fn repair(&mut self, extent: Extent, dislikes: &dyn Fn(&str, &Bytes) -> bool) {
        self.salt += 1;
        // A rejected removal of all listeners is not sent again.
        if self.listeners.is_empty()
            && let Some(cluster) = self.clusters.keys().next()
        {
            self.listeners.insert(LISTENERS[0], Leads::ToCluster(cluster));
        }
        for turn in 0.. {
            let all = self.resources();
            let bad = |of: &str| {
                let all = all.iter().filter(|((ty, _), bytes)| *ty == of && dislikes(ty, bytes));
                all.map(|((_, name), _)| *name).collect::<BTreeSet<_>>()
            };
            let mut clusters = bad(types::CLUSTER);
            let mut endpoints = bad(types::CLUSTER_LOAD_ASSIGNMENT);
            if turn == 0 {
                // One change is enough to re-send the others.
                endpoints.extend(self.endpoints.keys());
                let others = self.clusters.keys().take(match extent {
                    Extent::One => usize::from(clusters.is_empty()),
                    Extent::All => usize::MAX,
                });
                clusters.extend(others);
            } else if clusters.is_empty() && endpoints.is_empty() {
                return;
            }
            clusters.iter().for_each(|it| self.clusters.get_mut(it).unwrap().1 += 10);
            endpoints.iter().for_each(|it| *self.endpoints.get_mut(it).unwrap() += 100);
        }
    }

    pub(super) fn resources(&self) -> BTreeMap<(&'static str, &'static str), Bytes> {
        let mut all = BTreeMap::new();
        for (&name, &(service, setting)) in &self.clusters {
            let eds = service.map(|service| api::EdsClusterConfig {
                config: Some(api::ConfigSource { ads: Some(api::Ads {}) }),
                service_name: if service == name { String::new() } else { service.into() },
            });
            let cluster = api::Cluster {
                name: name.into(),
                kind: if service.is_some() { 3 } else { 0 },
                eds,
                alt_stat_name: setting.to_string(),
            };
            all.insert((types::CLUSTER, name), cluster.encode_to_vec().into());
        }
        let named = |name: &str, content: String| {
            api::Named { name: name.into(), content }.encode_to_vec().into()
        };
        for (&name, version) in &self.endpoints {
            all.insert((types::CLUSTER_LOAD_ASSIGNMENT, name), named(name, version.to_string()));
        }
        for (&name, clusters) in &self.routes {
            let routes = clusters.iter().map(|&cluster| api::Route {
                route: Some(api::RouteAction { cluster: cluster.into() }),
            });
            let name_of_host = format!("all-{}", self.salt);
            let host = api::VirtualHost { name: name_of_host, routes: routes.collect() };
            let routes = api::RouteConfiguration { name: name.into(), virtual_hosts: vec![host] };
            all.insert((types::ROUTE_CONFIGURATION, name), routes.encode_to_vec().into());
        }
        for (&name, leads) in &self.listeners {
            let content = match leads {
                Leads::ToRoutes(routes) => format!("routes {routes}"),
                Leads::ToCluster(cluster) => format!("cluster {cluster}"),
            };
            all.insert((types::LISTENER, name), named(name, format!("{content}#{}", self.salt)));
        }
        all
    }
}
